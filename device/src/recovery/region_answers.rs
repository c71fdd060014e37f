//! The manager's answers to a rank that stores its registered memory.

use rejoin_channel_table::Epoch;
use rejoin_wire::ToManager;

/// The answers that have come.
#[derive(Debug, Default)]
pub(crate) struct RegionAnswers {
    number: Option<Epoch>,
    committed: Option<(Epoch, Option<Epoch>)>,
    /// What was asked for and has no answer: a number above this one.
    asked_above: Option<Epoch>,
    /// The commit of this checkpoint was asked for and has no answer.
    stored: Option<Epoch>,
}

impl RegionAnswers {
    /// A number above this one is about to be asked for: an earlier one belongs to another
    /// checkpoint.
    pub(crate) fn ask(&mut self, above: Epoch) {
        (self.number, self.asked_above) = (None, Some(above));
    }

    /// The commit of this checkpoint is about to be asked for.
    pub(crate) fn stored(&mut self, epoch: Epoch) {
        self.stored = Some(epoch);
    }

    /// The questions that have no answer, for another local manager.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = ToManager> + use<> {
        let number = self.asked_above;
        let number = number.map(|above| ToManager::RequestRegionsNumber { above });
        let commit = self.stored.map(|epoch| ToManager::RegionsStored { epoch });
        number.into_iter().chain(commit)
    }

    /// The number of the next checkpoint.
    pub(crate) fn give_number(&mut self, epoch: Epoch) {
        (self.number, self.asked_above) = (Some(epoch), None);
    }

    /// The number, once it has come.
    pub(crate) fn number(&self) -> Option<Epoch> {
        self.number
    }

    /// These checkpoints count: the newest, and the one before.
    pub(crate) fn commit(&mut self, newest: Epoch, before: Option<Epoch>) {
        self.committed = Some((newest, before));
        self.stored.take_if(|stored| *stored <= newest);
    }

    /// The checkpoint before this one, once this one is committed.
    pub(crate) fn before(&self, epoch: Epoch) -> Option<Option<Epoch>> {
        let (newest, before) = self.committed?;
        (newest >= epoch).then_some(before)
    }
}
