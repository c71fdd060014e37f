//! The sizes by which ranks send.

use crate::frame::{EAGER_LIMIT, HEADER_LEN};

/// Sizes in bytes that all ranks of a job must share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Messages up to this are copied into the retention and complete at once.
    pub eager_copy: usize,
    /// Messages up to this are sent eagerly out of the user's memory; longer ones by rendezvous.
    pub eager_max: usize,
    /// Bytes that a sender may have sent to one receiver and that the receiver has not consumed:
    /// headers and eager bodies.
    pub window: u64,
    /// Body bytes in one data frame: a small message never waits for more of a large one.
    pub chunk: usize,
    /// Bytes of unexpected envelopes, with short bodies, beyond the windows that a starved receiver
    /// may ask for.
    pub beyond: u64,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            eager_copy: 8 << 10,
            eager_max: 1 << 20,
            window: 4 << 20,
            chunk: 2 << 20,
            beyond: 64 << 20,
        }
    }
}

impl Config {
    /// The default for a job of `size` ranks. With many ranks each channel gets a smaller window,
    /// so that all peers together may fill at most about 256 MiB of one rank.
    #[must_use]
    pub fn for_size(size: u32) -> Config {
        let base = Config::default();
        let share = (256u64 << 20) / u64::from(size.max(1));
        Config {
            window: share.clamp(256 << 10, base.window),
            ..base
        }
        .consistent()
    }

    /// The configuration with every bound that the others imply. An eager message takes at most
    /// half of the window. So a sender never waits for credit that is too little for its receiver
    /// to send a frame.
    #[must_use]
    pub fn consistent(mut self) -> Config {
        self.window = self.window.max(16 << 10);
        let half = usize::try_from(self.window / 2).unwrap_or(usize::MAX);
        let largest = (half - HEADER_LEN).min(EAGER_LIMIT as usize);
        self.eager_max = self.eager_max.min(largest);
        self.eager_copy = self.eager_copy.min(self.eager_max);
        self.chunk = self.chunk.clamp(4 << 10, 64 << 20);
        self.beyond = self.beyond.max(64 << 10);
        self
    }
}
