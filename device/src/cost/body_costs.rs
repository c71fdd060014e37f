//! The contests of all lengths and uses, and what the receiver tells the sender.

use std::time::{Duration, Instant};

use rejoin_engine::{GetLengths, MIN_GET};

use super::contest::{BodyWay, Contest};

/// The shortest bodies of each class of lengths. Within a class, a body costs about the same per
/// byte.
const CLASSES: [usize; 4] = [MIN_GET, 64 << 10, 256 << 10, 1 << 20];
/// The first class of single bodies that may be read. The send of a shorter one returns before its
/// receive is posted: programs that others run rely on that.
const FIRST_SINGLE: usize = 1;

/// What the sender of a body does meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BodyUse {
    /// It waits for this body alone: the time of one counts.
    #[default]
    Single,
    /// More of its bodies are under way: the rate of many counts.
    Stream,
}

/// The measurements of one receiver of a link.
#[derive(Debug, Default)]
pub(crate) struct BodyCosts {
    single: [Contest; CLASSES.len()],
    stream: [Contest; CLASSES.len()],
    /// When the last body was complete.
    over: Option<Instant>,
}

impl BodyCosts {
    /// Whether bodies of this length are measured.
    #[inline(always)]
    pub(crate) fn counts(len: usize) -> bool {
        len >= MIN_GET
    }

    /// Bodies of `len` bytes together came by a way, from the look at the first one until they were
    /// complete. What the sender is to be told, if there is something: [`lengths_of_word`].
    pub(crate) fn note(
        &mut self,
        way: BodyWay,
        of: BodyUse,
        (bodies, len): (usize, usize),
        (begun, over): (Instant, Instant),
    ) -> Option<u64> {
        let before = self.over.replace(over);
        // In a stream, the time between two bodies is of their cost.
        let begun = match (of, before) {
            (BodyUse::Stream, Some(before)) if begun - before < over - begun => before,
            _ => begun,
        };
        let class = class_of(len / bodies.max(1))?;
        let contest = match of {
            BodyUse::Single if class < FIRST_SINGLE => return None,
            BodyUse::Single => &mut self.single[class],
            BodyUse::Stream => &mut self.stream[class],
        };
        let asked = contest.asked();
        contest.note(way, time_per_kib(len, over - begun));
        (contest.asked() != asked).then(|| self.word())
    }

    /// The ways that are asked for: a bit for each class of either use.
    fn word(&self) -> u64 {
        let contests = self.single.iter().chain(&self.stream);
        contests.enumerate().fold(0, |word, (bit, contest)| {
            word | u64::from(contest.asked() == BodyWay::SingleCopy) << bit
        })
    }
}

fn class_of(len: usize) -> Option<usize> {
    CLASSES.iter().rposition(|least| len >= *least)
}

/// Sixteenths of nanoseconds.
fn time_per_kib(len: usize, took: Duration) -> u32 {
    let kib = (len as u128 >> 10).max(1);
    u32::try_from(took.as_nanos() * 16 / kib).unwrap_or(u32::MAX)
}

/// From which lengths on the sender offers bodies, as a shared word says. Every value is good: it
/// only decides which way is taken. Longer bodies than those of a class gain no less by single
/// copy.
#[inline]
pub(crate) fn lengths_of_word(word: u64) -> GetLengths {
    let least = |bits: u64| {
        let bits = bits & ((1 << CLASSES.len()) - 1);
        let first = CLASSES.get(bits.trailing_zeros() as usize);
        first.copied().unwrap_or(usize::MAX)
    };
    GetLengths {
        single: least(word),
        stream: least(word >> CLASSES.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets `bodies` of a length come by the way that was asked for; the last word.
    fn run(costs: &mut BodyCosts, of: BodyUse, len: usize, bodies: u32) -> u64 {
        let mut now = Instant::now();
        let mut word = costs.word();
        for _ in 0..bodies {
            let lengths = lengths_of_word(word);
            let least = match of {
                BodyUse::Single => lengths.single,
                BodyUse::Stream => lengths.stream,
            };
            let (way, took) = match len >= least {
                true => (BodyWay::SingleCopy, Duration::from_micros(5)),
                false => (BodyWay::Buffered, Duration::from_micros(10)),
            };
            let begun = now + Duration::from_micros(20);
            now = begun + took;
            word = costs.note(way, of, (1, len), (begun, now)).unwrap_or(word);
        }
        word
    }

    #[test]
    fn bodies_from_the_class_on_are_offered_in_the_same_use() {
        let mut costs = BodyCosts::default();
        let word = run(&mut costs, BodyUse::Stream, 100 << 10, 60);
        let lengths = lengths_of_word(word);
        assert_eq!((lengths.single, lengths.stream), (usize::MAX, 64 << 10));
        let word = run(&mut costs, BodyUse::Single, 1 << 20, 60);
        let lengths = lengths_of_word(word);
        assert_eq!((lengths.single, lengths.stream), (1 << 20, 64 << 10));
    }

    #[test]
    fn a_short_single_body_is_never_offered() {
        let mut costs = BodyCosts::default();
        let word = run(&mut costs, BodyUse::Single, (64 << 10) - 1, 1000);
        assert_eq!(lengths_of_word(word).single, usize::MAX);
        let word = run(&mut costs, BodyUse::Single, 64 << 10, 1000);
        assert_eq!(lengths_of_word(word).single, 64 << 10);
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
        let times = costs.stream[1].buffered_times();
        assert_eq!(times.map(micros), [10, 10, 7]);
    }

    #[test]
    fn every_word_has_lengths() {
        for word in [0, 0xff, u64::MAX, 0x80, 1 << 40] {
            let lengths = lengths_of_word(word);
            assert!(lengths.single >= MIN_GET && lengths.stream >= MIN_GET);
        }
    }
}
