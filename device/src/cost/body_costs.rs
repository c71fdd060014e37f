//! The contests of all lengths and uses, and what the receiver tells the sender.

use std::time::{Duration, Instant};

use rejoin_engine::{GET_CLASSES, GetLengths, Gets, MIN_GET, get_class};

use super::contest::{BodyWay, Contest};

/// The first class of single bodies that may be read. The send of a shorter one returns before its
/// receive is posted: programs that others run rely on that.
const FIRST_SINGLE: usize = 1;
const CLASSES: usize = GET_CLASSES.len();

/// What the sender of a body does meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BodyUse {
    /// It has sent this body alone: the time of one counts.
    #[default]
    Single,
    /// More of its bodies are under way: the rate of many counts.
    Stream,
}

/// The measurements of one receiver of a link.
#[derive(Debug, Default)]
pub(crate) struct BodyCosts {
    single: [Contest; CLASSES],
    stream: [Contest; CLASSES],
    /// When the last body was complete.
    completed: Option<Instant>,
    /// The sender's memory can't be read: nothing is measured.
    has_ended: bool,
}

impl BodyCosts {
    /// Whether bodies of this length are measured.
    #[inline(always)]
    pub(crate) fn counts(len: usize) -> bool {
        len >= MIN_GET
    }

    /// Bodies of `len` bytes together came by a way, from the look at the first one until they were
    /// complete. What the sender is to be told, if there is something: [`gets_of_word`].
    pub(crate) fn note(
        &mut self,
        way: BodyWay,
        of: BodyUse,
        (bodies, len): (usize, usize),
        (begun, over): (Instant, Instant),
    ) -> Option<u64> {
        if self.has_ended {
            return None;
        }
        let before = self.completed.replace(over);
        // In a stream, the time between two bodies is of their cost.
        let begun = match (of, before) {
            (BodyUse::Stream, Some(before)) if begun - before < over - begun => before,
            _ => begun,
        };
        let class = get_class(len / bodies.max(1))?;
        let contest = match of {
            BodyUse::Single if class < FIRST_SINGLE => return None,
            BodyUse::Single => &mut self.single[class],
            BodyUse::Stream => &mut self.stream[class],
        };
        let asked = contest.asked();
        contest.note(way, time_per_kib(len, over - begun));
        (contest.asked() != asked).then(|| self.word())
    }

    /// The sender's memory can't be read any more. What the sender is to be told.
    pub(crate) fn end(&mut self) -> u64 {
        *self = Self {
            has_ended: true,
            ..Self::default()
        };
        self.word()
    }

    /// The ways that are asked for: a bit for each class of either use.
    fn word(&self) -> u64 {
        let contests = self.single.iter().chain(&self.stream);
        contests.enumerate().fold(0, |word, (bit, contest)| {
            word | u64::from(contest.asked() == BodyWay::SingleCopy) << bit
        })
    }
}

/// Sixteenths of nanoseconds.
fn time_per_kib(len: usize, took: Duration) -> u32 {
    let kib = (len as u128 >> 10).max(1);
    u32::try_from(took.as_nanos() * 16 / kib).unwrap_or(u32::MAX)
}

/// Which bodies the sender offers, as a shared word says. Every value is good: it only decides
/// which way is taken.
#[inline]
pub(crate) fn gets_of_word(word: u64) -> Gets {
    let classes = |word: u64| GetLengths::of_classes((word & ((1 << CLASSES) - 1)) as u8);
    Gets {
        single: classes(word),
        stream: classes(word >> CLASSES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SINGLE: BodyUse = BodyUse::Single;
    const STREAM: BodyUse = BodyUse::Stream;

    /// The classes that are asked for.
    fn asked(costs: &BodyCosts, of: BodyUse) -> u8 {
        let gets = gets_of_word(costs.word());
        match of {
            BodyUse::Single => gets.single.classes,
            BodyUse::Stream => gets.stream.classes,
        }
    }

    /// Lets `bodies` of a length come by the way that is asked for; a single copy takes less time.
    fn run(costs: &mut BodyCosts, of: BodyUse, len: usize, bodies: u32) {
        let mut now = Instant::now();
        for _ in 0..bodies {
            let is_asked = get_class(len).is_some_and(|class| asked(costs, of) >> class & 1 == 1);
            let (way, took) = match is_asked {
                true => (BodyWay::SingleCopy, Duration::from_micros(5)),
                false => (BodyWay::Buffered, Duration::from_micros(10)),
            };
            let begun = now + Duration::from_micros(20);
            now = begun + took;
            costs.note(way, of, (1, len), (begun, now));
        }
    }

    #[test]
    fn bodies_of_the_class_are_offered_in_the_same_use() {
        let mut costs = BodyCosts::default();
        run(&mut costs, STREAM, 100 << 10, 60);
        assert_eq!((asked(&costs, SINGLE), asked(&costs, STREAM)), (0, 0b0001));
        run(&mut costs, SINGLE, 1 << 20, 60);
        assert_eq!(
            (asked(&costs, SINGLE), asked(&costs, STREAM)),
            (0b1000, 0b0001)
        );
    }

    #[test]
    fn a_trial_of_one_class_leaves_longer_bodies_alone() {
        let mut costs = BodyCosts::default();
        // The trial begins, and no such body comes any more.
        run(&mut costs, STREAM, 64 << 10, 32);
        assert_eq!(asked(&costs, STREAM), 0b0001);
        run(&mut costs, STREAM, 1 << 20, 20);
        assert_eq!(asked(&costs, STREAM), 0b0001);
    }

    #[test]
    fn a_short_single_body_is_never_offered() {
        let mut costs = BodyCosts::default();
        run(&mut costs, SINGLE, (128 << 10) - 1, 1000);
        assert_eq!(asked(&costs, SINGLE), 0);
        run(&mut costs, SINGLE, 128 << 10, 1000);
        assert_eq!(asked(&costs, SINGLE), 0b0010);
    }

    #[test]
    fn after_a_read_that_failed_nothing_is_asked_for() {
        let mut costs = BodyCosts::default();
        run(&mut costs, STREAM, 1 << 20, 60);
        assert_eq!(costs.end(), 0);
        run(&mut costs, STREAM, 1 << 20, 1000);
        assert_eq!(asked(&costs, STREAM), 0);
    }

    #[test]
    fn the_time_between_bodies_of_a_stream_counts() {
        let mut costs = BodyCosts::default();
        let at = Instant::now();
        let after = |micros| at + Duration::from_micros(micros);
        let stream = BodyUse::Stream;
        let bodies = (1, 64 << 10);
        costs.note(BodyWay::Buffered, stream, bodies, (at, after(10)));
        costs.note(BodyWay::Buffered, stream, bodies, (after(14), after(20)));
        // After a pause of the program, it does not.
        costs.note(BodyWay::Buffered, stream, bodies, (after(90), after(97)));
        let micros = |time: u32| u64::from(time) * 64 / 16 / 1000;
        let times = costs.stream[0].buffered_times();
        assert_eq!(times.map(micros), [10, 10, 7]);
    }
}
