//! The manager's answers to a rank that stores its registered memory.

use rejoin_channel_table::Epoch;

/// The answers that have come.
#[derive(Debug, Default)]
pub(crate) struct RegionAnswers {
    number: Option<Epoch>,
    committed: Option<(Epoch, Option<Epoch>)>,
}

impl RegionAnswers {
    /// A number is about to be asked for: an earlier one belongs to another checkpoint.
    pub(crate) fn ask(&mut self) {
        self.number = None;
    }

    /// The number of the next checkpoint.
    pub(crate) fn give_number(&mut self, epoch: Epoch) {
        self.number = Some(epoch);
    }

    /// The number, once it has come.
    pub(crate) fn number(&self) -> Option<Epoch> {
        self.number
    }

    /// These checkpoints count: the newest, and the one before.
    pub(crate) fn commit(&mut self, newest: Epoch, before: Option<Epoch>) {
        self.committed = Some((newest, before));
    }

    /// The checkpoint before this one, once this one is committed.
    pub(crate) fn before(&self, epoch: Epoch) -> Option<Option<Epoch>> {
        let (newest, before) = self.committed?;
        (newest >= epoch).then_some(before)
    }
}
