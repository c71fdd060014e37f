//! The progress of the reader of a link, as its sender sees it.

/// Polls of a reader that takes nothing, on a core of its own: about ten microseconds.
const POLLS: u32 = 400;

/// The progress of the reader of a link, and how long to wait for more.
pub(in crate::transport::shm) struct Pace {
    /// Polls of a reader that takes nothing. Where ranks share cores, one after a yield.
    pub(super) polls: u32,
    yields: bool,
    /// The last wait for the reader has failed.
    pub(super) wait_failed: bool,
    /// The reader's position at the last check.
    pub(super) taken: u64,
}

impl Pace {
    /// Of a sender that shares its core with the reader, or does not.
    pub(in crate::transport::shm) fn new(shares_cores: bool) -> Self {
        Self {
            polls: if shares_cores { 1 } else { POLLS },
            yields: shares_cores,
            wait_failed: false,
            taken: 0,
        }
    }

    /// Pauses between two polls, and yields the core where ranks share it.
    pub(super) fn rest(&self) {
        if self.yields {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}
