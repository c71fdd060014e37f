//! The clocks of the managers, in nanoseconds.

use nix::time::{ClockId, clock_gettime};
use rejoin_managers_protocol::manager_messages::Time;
use std::time::Duration;

/// Now, on the clock of the cores. It also counts while the machine sleeps: a lease must not
/// outlast that.
#[must_use]
pub fn now() -> Time {
    Time(nanoseconds(ClockId::CLOCK_BOOTTIME))
}

/// Now, on the clock that ranks and tests compare with their own.
#[must_use]
pub fn monotonic() -> u64 {
    nanoseconds(ClockId::CLOCK_MONOTONIC)
}

/// Both clocks are there since Linux 2.6.39, so the call does not fail.
fn nanoseconds(clock: ClockId) -> u64 {
    let since = clock_gettime(clock).map_or(Duration::ZERO, Duration::from);
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
