//! How long a wait spins before it blocks.
//!
//! Spinning saves a system call on each side while every rank has a core of its own. Where other
//! processes run on these cores too, a rank that spins takes the time of the very peer that it
//! waits for. Two things tell that this is so: a gap in this rank's own spinning, and a body that
//! stops half way. Without them two ranks that share two cores with other work exchanged 16 MiB
//! through a ring in 350 ms instead of 14.

use std::time::Duration;

/// A gap in a spinning wait that only the scheduler can make.
pub(crate) const PREEMPTED: Duration = Duration::from_millis(1);
/// Longest spin for the rest of a body that is half way: a peer that runs moves some of it within
/// this time. It is about what blocking and a wake-up cost.
const HALF_WAY: Duration = Duration::from_micros(100);
/// Waits that block at once after a gap, and most of them after gaps that come one behind the
/// other.
const CALM: u32 = 64;
const MOST_CALM: u32 = 64 * CALM;
/// Waits that spin without a gap before the core counts as this rank's own again.
const RECOVERED: u32 = 64;

/// Calls one behind the other that test or probe in vain, after which each further one yields. Each
/// yield costs about half a microsecond if nobody else can use the core.
const LOOKS: u32 = 8;

/// The policy of one rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spin {
    /// Longest spin; zero where ranks share cores.
    limit: Duration,
    /// Waits left that block at once, because the core turned out to be shared.
    calm: u32,
    /// Waits that block at once after the next gap.
    next_calm: u32,
    /// Waits that have spun since the last gap.
    undisturbed: u32,
    /// Calls in vain that did not wait, since something moved.
    looks: u32,
}

impl Spin {
    /// Of a rank that spins for at most `limit`.
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            limit,
            calm: 0,
            next_calm: CALM,
            undisturbed: 0,
            looks: 0,
        }
    }

    /// Whether no wait ever spins: ranks share cores.
    #[inline(always)]
    pub(crate) fn is_never(&self) -> bool {
        self.limit.is_zero()
    }

    /// A call that does not wait has looked for messages; whether others are to have the core now.
    #[inline]
    pub(crate) fn looks_in_vain(&mut self, moved: bool) -> bool {
        self.looks = if moved {
            0
        } else {
            self.looks.saturating_add(1)
        };
        self.looks > LOOKS
    }

    /// How long this wait may spin, with a deadline of its own, and for the rest of a body or not.
    pub(crate) fn budget(&mut self, deadline: Option<Duration>, half_way: bool) -> Duration {
        if self.calm > 0 {
            self.calm -= 1;
            return Duration::ZERO;
        }
        self.undisturbed = self.undisturbed.saturating_add(1);
        let limit = if half_way {
            self.limit.min(HALF_WAY)
        } else {
            self.limit
        };
        deadline.map_or(limit, |deadline| deadline.min(limit))
    }

    /// Another process had this rank's core while the rank spun: the next waits block at once. If
    /// this happens again soon, twice as many waits block.
    #[cold]
    pub(crate) fn preempted(&mut self) {
        if self.undisturbed > RECOVERED {
            self.next_calm = CALM;
        }
        self.calm = self.next_calm;
        self.next_calm = (2 * self.next_calm).min(MOST_CALM);
        self.undisturbed = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits that block at once from now on.
    fn blocking(spin: &mut Spin) -> u32 {
        let mut count = 0;
        while spin.budget(None, false).is_zero() {
            count += 1;
        }
        count
    }

    #[test]
    fn waits_block_at_once_for_longer_while_the_core_stays_shared() {
        let mut spin = Spin::new(Duration::from_millis(2));
        assert_eq!(blocking(&mut spin), 0);
        let mut expected = CALM;
        for _ in 0..20 {
            spin.preempted();
            assert_eq!(blocking(&mut spin), expected);
            expected = (2 * expected).min(MOST_CALM);
        }
        for _ in 0..=RECOVERED {
            assert_eq!(spin.budget(None, false), Duration::from_millis(2));
        }
        spin.preempted();
        assert_eq!(blocking(&mut spin), CALM);
    }

    #[test]
    fn calls_that_look_in_vain_yield_until_something_moves() {
        let mut spin = Spin::new(Duration::ZERO);
        let before = (0..LOOKS).filter(|_| spin.looks_in_vain(false)).count();
        assert_eq!(before, 0);
        assert!(spin.looks_in_vain(false) && spin.looks_in_vain(false));
        assert!(!spin.looks_in_vain(true) && !spin.looks_in_vain(false));
    }

    #[test]
    fn a_spin_is_as_short_as_the_shortest_of_its_limits() {
        let mut spin = Spin::new(Duration::from_millis(2));
        let soon = Duration::from_micros(7);
        assert_eq!(spin.budget(Some(soon), true), soon);
        assert_eq!(spin.budget(None, true), HALF_WAY);
        let mut never = Spin::new(Duration::ZERO);
        assert!(never.is_never() && never.budget(Some(soon), true).is_zero());
    }
}
