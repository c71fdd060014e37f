//! What the answers of a process need beside the log of its device.

use super::send_order::SendOrder;
use super::wall_clock::WallClock;
use rejoin_channel_table::Epoch;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a device of this process has a log.
static LOGS: AtomicBool = AtomicBool::new(false);

/// Whether this process records and repeats its nondeterministic answers.
#[inline]
pub fn is_logging() -> bool {
    LOGS.load(Ordering::Relaxed)
}

/// The state of the hook. It is in the image, so a restored process counts on from there.
#[derive(Default)]
pub struct Decider {
    /// The device has a log.
    logs: Cell<bool>,
    /// Number of the next operation that can be cancelled.
    operations: Cell<u64>,
    /// The generation in which a checkpoint was requested because the log is full, and the epoch
    /// after which it comes.
    pub(super) room_requested: Cell<Option<(u32, Epoch)>>,
    pub(super) clock: WallClock,
    pub(super) order: SendOrder,
    /// How many of the next questions are answered with no, as a replay would.
    #[cfg(test)]
    pub(crate) refuse: Cell<u32>,
}

impl Decider {
    /// Whether answers are recorded and repeated.
    #[inline(always)]
    pub(crate) fn logs(&self) -> bool {
        self.logs.get()
    }

    /// Says whether answers are recorded and repeated from now on.
    pub(super) fn set_logs(&self, logs: bool) {
        self.logs.set(logs);
        if logs {
            LOGS.store(true, Ordering::Relaxed);
        }
    }

    /// The number of the next operation that can be cancelled.
    pub(crate) fn next_operation(&self) -> u64 {
        let number = self.operations.get();
        self.operations.set(number + 1);
        number
    }
}
