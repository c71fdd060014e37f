//! The clock of the managers' cores.

use rejoin_managers_protocol::control::Time;

/// Now, on the clock that also counts while the machine sleeps: a lease must not outlast that.
#[must_use]
pub fn now() -> Time {
    let mut at = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the place is ours. The clock is there since Linux 2.6.39, so the call does not fail.
    unsafe {
        libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut at);
    }
    Time(at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64)
}
