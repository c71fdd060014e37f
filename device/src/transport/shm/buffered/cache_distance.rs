//! Whether the cores of both sides of a link share a cache, as the reader's loads show.
//!
//! Lines that one core has written and another reads travel between their caches. Cores that share
//! a cache do this as fast as they copy. For other cores a line may take longer than a line from
//! memory. There a body is better written past the cache. A virtual machine
//! does not know which cores share a cache, and this changes while a program runs. So before some
//! of its copies out of blocks that were written through the cache, the reader measures how long it
//! takes to load their first lines, and tells the writer what it found. The time of the copy itself
//! says less: it is that of slow stores where the destination is in no cache.
//!
//! A reader that has found a far core can't see when that changes: the writer then does without the
//! cache. So it tries again, after more and more bytes.

use std::time::{Duration, Instant};

/// Bytes whose lines are loaded to measure. No measurement comes before shorter copies.
pub(super) const PROBE: usize = 4 << 10;
/// The time of a measurement beyond which the lines came from a far core. Reading the clock takes
/// 20 to 30 ns of it. The lines take 50 ns from a shared cache, 280 to 680 ns without one.
const LONG: Duration = Duration::from_nanos(180);
/// So many measurements in a row must be slow: the first use of a page, and the scheduler, slow
/// some.
const SLOW_PROBES: u32 = 4;
/// A measurement comes before every so many copies.
const INTERVAL: u32 = 8;
/// Copies before the first measurement after the writer was told to use the cache: of pages that
/// are used for the first time, and of blocks that it has written before it knew.
const SETTLING: u32 = 64;
/// Bytes after which the cache is tried again: at first, and at most.
const FIRST_PAUSE: usize = 1 << 20;
const LONGEST_PAUSE: usize = 128 << 20;

/// The way that lines take from the writer's core to the reader's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::transport::shm) enum CacheDistance {
    /// Through a cache that both share. Also assumed while nothing is known.
    Near,
    /// Any longer way.
    Far,
}

impl CacheDistance {
    /// The distance as a shared word holds it.
    pub(super) fn to_word(self) -> u64 {
        u64::from(self == Self::Far)
    }

    /// What a shared word says. Every value is good: it only decides which way is taken.
    #[inline(always)]
    pub(super) fn of_word(word: u64) -> Self {
        if word == 0 { Self::Near } else { Self::Far }
    }
}

/// The measurements of a reader.
#[derive(Debug)]
pub(in crate::transport::shm) struct DistanceMeter {
    distance: CacheDistance,
    /// Copies until the next measurement.
    skip: u32,
    /// How many measurements in a row were slow.
    slow: u32,
    /// Bytes until the cache is tried again, and how many they were at first.
    left: usize,
    pause: usize,
}

impl DistanceMeter {
    pub(super) fn new() -> Self {
        Self {
            distance: CacheDistance::Near,
            skip: SETTLING,
            slow: 0,
            left: 0,
            pause: FIRST_PAUSE,
        }
    }

    /// Before a copy of `len` bytes: the time, if the first [`PROBE`] of them are to be loaded.
    #[inline]
    pub(super) fn begin(&mut self, len: usize) -> Option<Instant> {
        if len < PROBE || self.distance == CacheDistance::Far {
            return None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        Some(Instant::now())
    }

    /// After the load: what the writer is to be told, if that is news.
    pub(super) fn end(&mut self, took: Duration) -> Option<CacheDistance> {
        if took <= LONG {
            self.slow = 0;
            self.skip = INTERVAL;
            self.pause = FIRST_PAUSE;
            return None;
        }
        self.slow += 1;
        if self.slow < SLOW_PROBES {
            return None;
        }
        self.distance = CacheDistance::Far;
        self.left = self.pause;
        self.pause = (2 * self.pause).min(LONGEST_PAUSE);
        Some(self.distance)
    }

    /// So many bytes of bodies came: what the writer is to be told, if that is news.
    #[inline]
    pub(super) fn pass(&mut self, len: usize) -> Option<CacheDistance> {
        if self.distance == CacheDistance::Near {
            return None;
        }
        self.left = self.left.saturating_sub(len);
        if self.left > 0 {
            return None;
        }
        (self.distance, self.slow, self.skip) = (CacheDistance::Near, 0, SETTLING);
        Some(self.distance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 16 << 10;
    const FAST: Duration = Duration::from_nanos(80);
    const SLOW: Duration = Duration::from_nanos(400);

    /// Copies until the meter has news, at most `most`; the news and the number.
    fn copies(
        meter: &mut DistanceMeter,
        took: Duration,
        most: usize,
    ) -> (Option<CacheDistance>, usize) {
        for count in 1..=most {
            let news = match meter.begin(LEN) {
                Some(_) => meter.end(took),
                None => meter.pass(LEN),
            };
            if news.is_some() {
                return (news, count);
            }
        }
        (None, most)
    }

    #[test]
    fn slow_measurements_in_a_row_mean_a_far_core() {
        let mut meter = DistanceMeter::new();
        let (news, count) = copies(&mut meter, SLOW, 1000);
        assert_eq!(news, Some(CacheDistance::Far));
        assert_eq!(count, (SETTLING + SLOW_PROBES) as usize);
    }

    #[test]
    fn slow_measurements_between_fast_ones_mean_none() {
        let mut meter = DistanceMeter::new();
        copies(&mut meter, FAST, SETTLING as usize + 1);
        for turn in 0..1000 {
            let took = if turn % SLOW_PROBES == 0 { FAST } else { SLOW };
            while meter.begin(LEN).is_none() {}
            assert_eq!(meter.end(took), None);
        }
    }

    #[test]
    fn a_far_core_is_tried_again_after_longer_and_longer_pauses() {
        let mut meter = DistanceMeter::new();
        let mut pauses = Vec::new();
        for _ in 0..12 {
            assert_eq!(copies(&mut meter, SLOW, 1000).0, Some(CacheDistance::Far));
            let (news, count) = copies(&mut meter, SLOW, usize::MAX);
            assert_eq!(news, Some(CacheDistance::Near));
            pauses.push(count * LEN);
        }
        assert_eq!(pauses[..3], [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE]);
        assert_eq!(pauses.last(), Some(&LONGEST_PAUSE));
        // A near core makes the next pause short again.
        copies(&mut meter, FAST, 1000);
        copies(&mut meter, SLOW, 1000);
        assert_eq!(copies(&mut meter, SLOW, usize::MAX).1 * LEN, FIRST_PAUSE);
    }

    #[test]
    fn short_copies_show_nothing() {
        let mut meter = DistanceMeter::new();
        for _ in 0..1000 {
            assert_eq!(meter.begin(PROBE - 1), None);
        }
    }
}
