//! What tells the images of a rank apart.

use core::fmt;

/// Names an image of a rank. Names are in the order in which the images were requested.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageNumber {
    /// The checkpoint; of an image with which the rank moves, the one that was requested before.
    pub epoch: u32,
    /// 0 for the image of the checkpoint. Images of moves after it count from 1 on.
    pub step: u32,
}

impl ImageNumber {
    /// The image of this checkpoint.
    #[must_use]
    pub const fn of_checkpoint(epoch: u32) -> Self {
        Self { epoch, step: 0 }
    }

    /// The rank moves with it: no checkpoint has it.
    #[must_use]
    pub const fn is_of_move(self) -> bool {
        self.step != 0
    }
}

impl From<(u32, u32)> for ImageNumber {
    /// From the checkpoint's number and the step.
    fn from((epoch, step): (u32, u32)) -> Self {
        Self { epoch, step }
    }
}

impl fmt::Display for ImageNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.step {
            0 => write!(f, "checkpoint {}", self.epoch),
            step => write!(f, "move {}.{step}", self.epoch),
        }
    }
}
