//! The requests for images that a rank has not met yet.

use rejoin_channel_table::Epoch;

/// The one checkpoint request that has reached the device and is not met yet. It comes from the
/// manager, by socket or signal, or from a peer of a later epoch. A signal that comes while the
/// program computes is kept by the checkpointer until the device hears of it at the next call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PendingCheckpoint {
    epoch: Option<Epoch>,
    /// The rank is to move, with an image of this number.
    number: Option<Epoch>,
}

impl PendingCheckpoint {
    /// Of a rank that is to begin with this one.
    pub(crate) fn new(first: Option<Epoch>) -> Self {
        Self {
            epoch: first,
            number: None,
        }
    }

    /// Whether an image is to be taken at the next safe point.
    #[inline(always)]
    pub(crate) fn is_pending(&self) -> bool {
        self.epoch.is_some() | self.number.is_some()
    }

    /// A checkpoint of this epoch is requested; of two the later one counts.
    pub(crate) fn request(&mut self, epoch: Epoch) {
        self.epoch = self.epoch.max(Some(epoch));
    }

    /// The pending one, once.
    pub(crate) fn take(&mut self) -> Option<Epoch> {
        self.epoch.take()
    }

    /// The rank is to move, with an image of this number.
    pub(crate) fn request_move(&mut self, number: Epoch) {
        self.number = Some(number);
    }

    /// The number of the image for a move, once.
    pub(crate) fn take_move(&mut self) -> Option<Epoch> {
        self.number.take()
    }

    /// The rank does not move with an image of this number.
    pub(crate) fn withdraw_move(&mut self, number: Epoch) {
        self.number.take_if(|pending| *pending == number);
    }
}
