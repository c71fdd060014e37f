//! How the reader of a link continues.

/// Looks at a reader that takes nothing, on a core of its own: about ten microseconds.
const LOOKS: u32 = 400;

/// How the reader of a link continues, as its sender sees it.
pub(in crate::transport::shm) struct Pace {
    /// Looks at a reader that takes nothing: where ranks share cores one, after it had this side's.
    pub(super) looks: u32,
    yields: bool,
    /// This side has waited for the reader without success.
    pub(super) in_vain: bool,
    /// The reader's position at the last check.
    pub(super) taken: u64,
}

impl Pace {
    /// Of a sender that shares its core with the reader, or does not.
    pub(in crate::transport::shm) fn new(shares_cores: bool) -> Self {
        Self {
            looks: if shares_cores { 1 } else { LOOKS },
            yields: shares_cores,
            in_vain: false,
            taken: 0,
        }
    }

    /// Lets others continue.
    pub(super) fn rest(&self) {
        if self.yields {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}
