//! The requests for images that a rank has not met yet.

use rejoin_channel_table::{Epoch, MoveNumber};

/// The image with which a rank moves, or a copy ahead of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MoveImage {
    /// The number of the move that the local manager gave.
    pub(crate) number: MoveNumber,
    /// The rank waits after it.
    pub(crate) stops: bool,
}

/// What a rank does at its next safe point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SafePointRequest {
    /// The rank takes the image of this epoch.
    Checkpoint(Epoch),
    /// The rank takes an image of its own, because it moves.
    Move(MoveImage),
}

/// The one checkpoint request that has reached the device and is not met yet. It comes from the
/// manager, by socket or signal, or from a peer of a later epoch. A signal that comes while the
/// program computes is kept by the checkpointer until the device hears of it at the next call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PendingCheckpoint {
    epoch: Option<Epoch>,
    /// The rank is to take an image of this number, because it moves. Apart from `stops`, so that
    /// the fast path compares one word.
    number: Option<MoveNumber>,
    /// The rank waits after this image.
    stops: bool,
}

impl PendingCheckpoint {
    /// Of a rank that is to begin with this one.
    pub(crate) fn new(first: Option<Epoch>) -> Self {
        Self {
            epoch: first,
            number: None,
            stops: false,
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

    /// The rank is to move. A copy ahead that has not been taken is not needed any more.
    pub(crate) fn request_move(&mut self, image: MoveImage) {
        (self.number, self.stops) = (Some(image.number), image.stops);
    }

    /// The next request, once. A checkpoint comes before a move.
    pub(crate) fn take_next(&mut self) -> Option<SafePointRequest> {
        let checkpoint = self.epoch.take().map(SafePointRequest::Checkpoint);
        checkpoint.or_else(|| {
            let (number, stops) = (self.number.take()?, self.stops);
            Some(SafePointRequest::Move(MoveImage { number, stops }))
        })
    }

    /// The request is met later.
    pub(crate) fn put_back(&mut self, request: SafePointRequest) {
        match request {
            SafePointRequest::Checkpoint(epoch) => self.request(epoch),
            SafePointRequest::Move(image) => self.request_move(image),
        }
    }

    /// The rank does not move with an image up to this number.
    pub(crate) fn withdraw_move(&mut self, number: MoveNumber) {
        self.number.take_if(|pending| *pending <= number);
    }
}
