//! Names of images of a rank.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Epoch;

/// Number of an image with which a rank moves. Central gives it; a job uses none twice.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct MoveNumber {
    /// The highest number of a checkpoint that was requested before.
    pub after: Epoch,
    /// Counts the images of moves after that checkpoint, from 1 on.
    pub step: u32,
}

impl MoveNumber {
    /// The next number after `last`, when checkpoints up to `requested` have been requested.
    #[must_use]
    pub fn next(last: Option<MoveNumber>, requested: Epoch) -> MoveNumber {
        match last {
            Some(last) if last.after >= requested => MoveNumber {
                after: last.after,
                step: last.step.saturating_add(1),
            },
            _ => MoveNumber {
                after: requested,
                step: 1,
            },
        }
    }
}

impl fmt::Display for MoveNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.after, self.step)
    }
}

/// Names one image of a rank. Names are in the order in which the images were requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ImageId {
    /// The image of this checkpoint.
    Checkpoint(Epoch),
    /// An image with which the rank moves. It begins no epoch.
    Move(MoveNumber),
}

impl ImageId {
    /// Checkpoint of the image; `None`: the image belongs to a move.
    #[must_use]
    pub fn checkpoint(self) -> Option<Epoch> {
        match self {
            ImageId::Checkpoint(epoch) => Some(epoch),
            ImageId::Move(_) => None,
        }
    }

    /// Number of a checkpoint, and of an image of a move after it, which is 0 for the checkpoint's
    /// own. Parts have the order of the names.
    #[must_use]
    pub fn parts(self) -> (u32, u32) {
        match self {
            ImageId::Checkpoint(epoch) => (epoch.0, 0),
            ImageId::Move(number) => (number.after.0, number.step),
        }
    }
}

impl Ord for ImageId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts().cmp(&other.parts())
    }
}

impl PartialOrd for ImageId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for ImageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImageId::Checkpoint(epoch) => write!(f, "checkpoint {epoch}"),
            ImageId::Move(number) => write!(f, "move {number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_in_the_order_of_their_requests() {
        let first = MoveNumber::next(None, Epoch(3));
        let second = MoveNumber::next(Some(first), Epoch(3));
        let third = MoveNumber::next(Some(second), Epoch(4));
        // A predecessor may have known of a later request.
        let fourth = MoveNumber::next(Some(third), Epoch(2));
        let order = [
            ImageId::Checkpoint(Epoch(3)),
            ImageId::Move(first),
            ImageId::Move(second),
            ImageId::Checkpoint(Epoch(4)),
            ImageId::Move(third),
            ImageId::Move(fourth),
            ImageId::Checkpoint(Epoch(5)),
        ];
        assert!(order.is_sorted_by(|one, next| one < next), "{order:?}");
    }
}
