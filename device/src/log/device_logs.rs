//! The logs of a rank together, and what of them needs nothing else of the device.

use rejoin_channel_table::AddressBook;
use rejoin_channel_table::ids::{Epoch, Incarnation, Rank};

use super::{RankLog, RankReceiveLog};

/// The logs of a rank: none if the job is one recovery group.
#[derive(Default)]
pub(crate) struct DeviceLogs {
    /// Nondeterministic answers that a replay must repeat.
    pub(crate) determinants: Option<RankLog>,
    /// Messages of other recovery groups that this rank has received, where the manager has memory
    /// for them.
    pub(crate) received: Option<RankReceiveLog>,
}

impl DeviceLogs {
    /// The program sends or receives: what comes of it may depend on all determinants.
    #[inline]
    pub(crate) fn note_action(&mut self) {
        if let Some(rank_log) = &mut self.determinants {
            rank_log.note_action();
        }
    }

    /// Whether messages leave before determinants are stored.
    pub(crate) fn is_optimistic(&self) -> bool {
        let determinants = self.determinants.as_ref();
        determinants.is_some_and(RankLog::is_optimistic)
    }

    /// The manager has stored the determinants up to this mark.
    pub(crate) fn determinants_stored(&mut self, mark: u64) {
        if let Some(rank_log) = &mut self.determinants {
            rank_log.stored(mark);
        }
    }

    /// The incarnations of a rank have ended at these marks.
    pub(crate) fn note_ends(&mut self, rank: Rank, ends: &[(Incarnation, u64)]) {
        if let Some(rank_log) = &mut self.determinants {
            rank_log.note_ends(rank, ends);
        }
    }

    /// The incarnations of all ranks have ended at the marks on their cards.
    pub(crate) fn note_all_ends(&mut self, book: &AddressBook) {
        for rank in (0..book.size()).map(Rank) {
            let ends = book.card(rank).map(|card| &card.log_ends[..]);
            self.note_ends(rank, ends.unwrap_or_default());
        }
    }

    /// An image of this epoch is about to be taken, while so many bytes of messages are retained
    /// for other groups.
    pub(crate) fn note_image(&mut self, epoch: Epoch, retained: u64) {
        if let Some(rank_log) = &mut self.determinants {
            rank_log.note_image(epoch, retained);
        }
        if let Some(log) = &mut self.received {
            log.note_image(epoch);
        }
    }

    /// Counters of the logs, with their names.
    pub(crate) fn named(&self) -> impl Iterator<Item = (String, u64)> {
        let named = self.determinants.iter().flat_map(RankLog::named);
        let received = self.received.iter().flat_map(RankReceiveLog::named);
        named
            .chain(received)
            .map(|(name, value)| (name.to_owned(), value))
    }
}
