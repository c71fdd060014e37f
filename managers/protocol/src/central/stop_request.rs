//! A request to stop the job with a last checkpoint.

use crate::manager_messages::Time;
use rejoin_channel_table::Epoch;
use serde::{Deserialize, Serialize};

/// A signal to the launcher after which the job stops with a last checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StopSignal {
    /// Number of the signal.
    pub number: i32,
    /// Milliseconds that the checkpoint may take until it is in files.
    pub grace: u64,
}

/// Milliseconds within which another signal counts as the same one: timeout(1) sends two.
pub const SAME_SIGNAL: u64 = 200;

/// A stop that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StopRequest {
    /// A checkpoint with this number or a higher one was taken after the request.
    from: Epoch,
    /// The signal that asked for it, and when it came.
    signal: Option<(StopSignal, Time)>,
}

impl StopRequest {
    /// A request for a checkpoint with this number or a higher one, by a signal that comes now or
    /// without one.
    pub(super) fn new(from: Epoch, signal: Option<StopSignal>, now: Time) -> StopRequest {
        let signal = signal.map(|signal| (signal, now));
        StopRequest { from, signal }
    }

    /// The signal that asked for it.
    pub(super) fn signal(&self) -> Option<StopSignal> {
        Some(self.signal?.0)
    }

    /// When it is given up.
    pub(super) fn due(&self) -> Option<Time> {
        let (signal, at) = self.signal?;
        Some(at.plus_millis(signal.grace))
    }

    /// A checkpoint with this number or a higher one was taken after the request.
    #[must_use]
    pub fn from(&self) -> Epoch {
        self.from
    }

    /// Number of the signal that asked for it.
    #[must_use]
    pub fn signal_number(&self) -> Option<i32> {
        Some(self.signal()?.number)
    }

    /// Whether a signal that comes now is a second one.
    pub(super) fn is_second(&self, now: Time) -> bool {
        let (_, first) = self.signal.unzip();
        first.is_some_and(|first| first.plus_millis(SAME_SIGNAL) <= now)
    }
}
