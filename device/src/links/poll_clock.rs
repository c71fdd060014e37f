//! When epoll is to be asked by a program that polls, in [`ticks`].

use crate::ticks;

/// Longest time between two polls of epoll while the program polls.
const POLL_AFTER: u64 = 50 * ticks::MICROSECOND;
/// Readings of the clock that are as close as this are too many: a reading costs as much as the
/// rest of a pass.
const CLOSE: u64 = 2 * ticks::MICROSECOND;
/// Passes without a reading between two that are close.
const SKIPPED: u32 = 7;

/// The time of the last poll of epoll.
#[derive(Debug, Default)]
pub(crate) struct PollClock {
    polled: u64,
    /// When the clock was read last, and passes that need not read it.
    read: u64,
    skips: u32,
}

impl PollClock {
    /// Epoll was asked now.
    pub(crate) fn polled(&mut self, now: u64) {
        self.polled = now;
    }

    /// Whether epoll was not asked for long. Passes far apart each read the clock.
    #[inline]
    pub(crate) fn is_due(&mut self, now: impl FnOnce() -> u64) -> bool {
        if self.skips > 0 {
            self.skips -= 1;
            return false;
        }
        let now = now();
        if now.wrapping_sub(self.read) < CLOSE {
            self.skips = SKIPPED;
        }
        self.read = now;
        now.wrapping_sub(self.polled) > POLL_AFTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes so far apart until epoll is asked, and readings of the clock.
    fn until_due(apart: u64) -> (u64, u64) {
        let mut clock = PollClock::default();
        let start = 1 << 40;
        clock.polled(start);
        let (mut passes, mut readings) = (0, 0);
        loop {
            passes += 1;
            let now = start + passes * apart;
            let due = clock.is_due(|| {
                readings += 1;
                now
            });
            if due {
                return (passes, readings);
            }
        }
    }

    #[test]
    fn passes_that_are_far_apart_ask_in_time_and_close_ones_seldom_read_the_clock() {
        assert_eq!(until_due(POLL_AFTER + 1), (1, 1));
        let (passes, readings) = until_due(20 * ticks::MICROSECOND);
        assert_eq!((passes, readings), (3, 3));
        let (passes, readings) = until_due(ticks::MICROSECOND / 10);
        assert!(
            passes <= 510 && readings <= passes / 7,
            "{passes} {readings}"
        );
    }
}
