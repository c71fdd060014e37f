//! A contest of both ways for bodies of about one length.

/// The way of a long body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyWay {
    /// Through memory of the link.
    Buffered,
    /// The receiver reads it out of the sender's memory.
    SingleCopy,
}

impl BodyWay {
    fn other(self) -> Self {
        match self {
            Self::Buffered => Self::SingleCopy,
            Self::SingleCopy => Self::Buffered,
        }
    }
}

/// Bodies of either way whose median counts. Two of them may be slow: the first use of a page, and
/// the scheduler, slow some.
const TRIALS: usize = 5;
/// Bodies at the beginning of a trial that do not count: what the other way uses may have left the
/// caches.
const WARM_UP: usize = 8;
/// Bodies before the first trial of the other way, and most before a later one.
const FIRST_PAUSE: u32 = 32;
const LONGEST_PAUSE: u32 = 1 << 15;
/// Each trial that changes nothing makes the pause before the next one so many times as long.
const GROWTH: u32 = 4;
/// Bodies of the chosen way that may come during a trial: after more of them, the sender can't
/// send the other way.
const PATIENCE: u32 = 64;

/// The last times of one way.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    last: [u32; TRIALS],
    count: usize,
}

impl Times {
    fn add(&mut self, time: u32) {
        self.last[self.count % TRIALS] = time;
        self.count += 1;
    }

    /// The median, once there are enough.
    fn median(&self) -> Option<u32> {
        let mut sorted = self.last;
        sorted.sort_unstable();
        (self.count >= WARM_UP + TRIALS).then_some(sorted[TRIALS / 2])
    }
}

/// Which way takes less time. The other way must take less than four fifths of it to be chosen: in
/// a tie, and by noise, nothing changes.
#[derive(Clone, Debug)]
pub(super) struct Contest {
    chosen: BodyWay,
    /// Another than the chosen one during a trial.
    asked: BodyWay,
    buffered: Times,
    single_copy: Times,
    /// Bodies of the chosen way until the next trial, or until this one is given up.
    left: u32,
    pause: u32,
}

impl Default for Contest {
    fn default() -> Self {
        Self {
            chosen: BodyWay::Buffered,
            asked: BodyWay::Buffered,
            buffered: Times::default(),
            single_copy: Times::default(),
            left: FIRST_PAUSE,
            pause: FIRST_PAUSE,
        }
    }
}

impl Contest {
    /// The way that the sender is to take now.
    pub(super) fn asked(&self) -> BodyWay {
        self.asked
    }

    fn times(&mut self, way: BodyWay) -> &mut Times {
        match way {
            BodyWay::Buffered => &mut self.buffered,
            BodyWay::SingleCopy => &mut self.single_copy,
        }
    }

    /// A body came by this way and took so long, in any unit per length.
    pub(super) fn note(&mut self, way: BodyWay, time: u32) {
        self.times(way).add(time);
        if way != self.chosen {
            // Bodies may still come that were sent during an earlier trial.
            if self.asked == way {
                self.judge();
            }
            return;
        }
        self.left = self.left.saturating_sub(1);
        if self.left > 0 {
            return;
        }
        if self.asked == self.chosen {
            self.asked = self.chosen.other();
            *self.times(self.asked) = Times::default();
            self.left = PATIENCE;
        } else {
            self.settle(self.chosen);
        }
    }

    /// Ends a trial, once enough bodies have come the other way.
    fn judge(&mut self) {
        let other = self.asked;
        let Some(theirs) = self.times(other).median() else {
            return;
        };
        let ours = self.times(self.chosen).median().unwrap_or(u32::MAX);
        let is_better = u64::from(theirs) * 5 < u64::from(ours) * 4;
        self.settle(if is_better { other } else { self.chosen });
    }

    fn settle(&mut self, way: BodyWay) {
        self.pause = match way == self.chosen {
            true => (self.pause.saturating_mul(GROWTH)).min(LONGEST_PAUSE),
            false => FIRST_PAUSE,
        };
        (self.chosen, self.asked, self.left) = (way, way, self.pause);
    }
}

#[cfg(test)]
impl Contest {
    /// The first times of the way through the link.
    pub(super) fn buffered_times<const N: usize>(&self) -> [u32; N] {
        std::array::from_fn(|at| self.buffered.last[at])
    }
}

#[cfg(test)]
mod tests {
    use super::BodyWay::{Buffered, SingleCopy};
    use super::*;

    /// Lets bodies come by the way that is asked for, with the times that the closure gives.
    fn run(contest: &mut Contest, bodies: u32, time: impl Fn(BodyWay, u32) -> u32) -> [u32; 2] {
        let mut counts = [0; 2];
        for body in 0..bodies {
            let way = contest.asked();
            counts[usize::from(way == SingleCopy)] += 1;
            contest.note(way, time(way, body));
        }
        counts
    }

    fn apart(buffered: u32, single_copy: u32) -> impl Fn(BodyWay, u32) -> u32 {
        move |way, _| {
            if way == Buffered {
                buffered
            } else {
                single_copy
            }
        }
    }

    #[test]
    fn the_faster_way_is_chosen_and_the_other_is_tried_ever_more_rarely() {
        let mut contest = Contest::default();
        let counts = run(&mut contest, 10_000, apart(100, 60));
        assert_eq!(contest.chosen, SingleCopy);
        assert!(
            counts[0] < FIRST_PAUSE + 6 * (WARM_UP + TRIALS) as u32,
            "{counts:?}"
        );
        // What changes is noticed.
        run(&mut contest, 10_000, apart(100, 200));
        assert_eq!(contest.chosen, Buffered);
    }

    #[test]
    fn a_way_that_is_a_little_faster_is_not_worth_a_change() {
        let mut contest = Contest::default();
        let counts = run(&mut contest, 10_000, apart(100, 85));
        assert_eq!(contest.chosen, Buffered);
        assert!(counts[1] <= 5 * (WARM_UP + TRIALS) as u32, "{counts:?}");
    }

    #[test]
    fn two_slow_bodies_of_a_trial_change_nothing() {
        let mut contest = Contest::default();
        let slow = |way, body| match (way, body % TRIALS as u32) {
            (SingleCopy, 0 | 1) => 10_000,
            (SingleCopy, _) => 50,
            (Buffered, _) => 100,
        };
        run(&mut contest, FIRST_PAUSE + (WARM_UP + TRIALS) as u32, slow);
        assert_eq!(contest.chosen, SingleCopy);
    }

    #[test]
    fn bodies_that_come_slowly_only_at_first_lose_no_trial() {
        let mut contest = Contest::default();
        let cold = |way, body| match way {
            Buffered => 100,
            SingleCopy if body < FIRST_PAUSE + WARM_UP as u32 => 200,
            SingleCopy => 50,
        };
        run(&mut contest, FIRST_PAUSE + (WARM_UP + TRIALS) as u32, cold);
        assert_eq!(contest.chosen, SingleCopy);
    }

    #[test]
    fn a_trial_that_the_sender_does_not_follow_is_given_up() {
        let mut contest = Contest::default();
        for _ in 0..FIRST_PAUSE {
            contest.note(Buffered, 100);
        }
        assert_eq!(contest.asked(), SingleCopy);
        for _ in 0..PATIENCE {
            contest.note(Buffered, 100);
        }
        assert_eq!(contest.asked(), Buffered);
        assert_eq!(contest.left, FIRST_PAUSE * GROWTH);
    }
}
