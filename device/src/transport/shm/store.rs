//! Copies into memory that another core reads next, and the choice how to make them.
//!
//! Lines that one core has written and another reads travel between their caches. Cores of one cache do this in a few
//! nanoseconds; elsewhere each line may take longer than one from memory, and none is fetched ahead. There it is
//! better to write past the cache (streaming stores): the reader then finds the lines in memory, one behind the other.
//! Only the reader sees how long it takes, so it measures some copies and tells the writer by a shared word.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock;

/// Shortest piece that is worth it, where a rank has a core of its own, and where ranks share cores.
const LEAST: usize = 512;
const LEAST_SHARED: usize = 4 << 10;
/// Longer pieces go this way everywhere: 8 KiB take as long as they do through a shared cache, and a third of the time
/// where there is none.
const MOST_PLAIN: usize = 2 << 10;
/// Shortest copy that is measured.
const MEASURED: usize = LEAST;
/// One of so many is measured.
const EVERY: u32 = 4;
/// Copies after which the plain way is tried again.
const TRIAL: u32 = 4096;
/// Measured copies in a row that must have been slow.
const ENOUGH: u32 = 3;
/// Of these: more than 8 ns for each line, which is far beyond what a shared cache takes.
const SLOW: u64 = clock::MICROSECOND * 8 / 1000;
/// Bytes of a cache line.
const LINE: usize = 64;
/// What the word says.
const PLAIN: u64 = 0;
const PAST: u64 = 1;

/// The writer's side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Store {
    least: usize,
}

impl Store {
    /// Of a rank that shares its core, or does not.
    pub(super) fn new(shared: bool) -> Self {
        Self {
            least: if shared { LEAST_SHARED } else { LEAST },
        }
    }

    /// Copies into the ring as the reader has asked for. What is written is published after this.
    ///
    /// # Safety
    /// As for `std::ptr::copy_nonoverlapping`.
    #[inline(always)]
    pub(super) unsafe fn copy(self, said: &AtomicU64, to: *mut u8, from: *const u8, len: usize) {
        let asked = || said.load(Ordering::Relaxed) == PAST;
        if len >= self.least && (len > MOST_PLAIN || asked()) {
            // SAFETY: the caller's promise.
            unsafe { stream(to, from, len) };
        } else {
            // SAFETY: the caller's promise.
            unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
        }
    }
}

/// The reader's side.
#[derive(Debug, Default)]
pub(super) struct Gauge {
    count: u32,
    slow: u32,
    past: bool,
}

impl Gauge {
    /// Before a copy out of the ring: when it began, if it is to be measured.
    #[inline(always)]
    pub(super) fn begin(&mut self, said: &AtomicU64, len: usize) -> Option<u64> {
        if !(MEASURED..=MOST_PLAIN).contains(&len) {
            return None;
        }
        self.count = self.count.wrapping_add(1);
        if self.past {
            if self.count.is_multiple_of(TRIAL) {
                self.say(said, false);
            }
            return None;
        }
        self.count.is_multiple_of(EVERY).then(clock::ticks)
    }

    /// Behind a copy that was to be measured.
    pub(super) fn end(&mut self, said: &AtomicU64, began: u64, len: usize) {
        self.took(said, clock::ticks().wrapping_sub(began), len);
    }

    fn took(&mut self, said: &AtomicU64, ticks: u64, len: usize) {
        let slow = ticks > (len / LINE) as u64 * SLOW;
        self.slow = if slow { self.slow + 1 } else { 0 };
        if self.slow >= ENOUGH {
            self.say(said, true);
        }
    }

    fn say(&mut self, said: &AtomicU64, past: bool) {
        self.past = past;
        self.slow = 0;
        said.store(if past { PAST } else { PLAIN }, Ordering::Relaxed);
    }
}

/// Copies past this core's cache; all is written when it returns.
///
/// # Safety
/// As for `std::ptr::copy_nonoverlapping`.
#[cfg(target_arch = "x86_64")]
unsafe fn stream(to: *mut u8, from: *const u8, len: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    const WORDS: usize = LINE / size_of::<__m128i>();
    let head = to.align_offset(LINE).min(len);
    let lines = (len - head) / LINE;
    // SAFETY: the caller's promise; all ranges lie within the two, and the lines are aligned.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, head);
        let mut source = from.add(head).cast::<__m128i>();
        let mut target = to.add(head).cast::<__m128i>();
        for _ in 0..lines {
            for word in 0..WORDS {
                _mm_stream_si128(target.add(word), _mm_loadu_si128(source.add(word)));
            }
            source = source.add(WORDS);
            target = target.add(WORDS);
        }
        let done = head + lines * LINE;
        std::ptr::copy_nonoverlapping(from.add(done), to.add(done), len - done);
        // Streaming stores are in no order with those that publish them.
        _mm_sfence();
    }
}

/// Copies as usual: there is no such store here.
///
/// # Safety
/// As for `std::ptr::copy_nonoverlapping`.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn stream(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_past_the_cache_arrives_and_nothing_else_is_touched() {
        let source: Vec<u8> = (0..2000).map(|at| (at % 251) as u8).collect();
        let said = AtomicU64::new(PAST);
        for to in [0, 1, 15, 16, 63, 64] {
            for from in [0, 7, 32] {
                for len in [0, 1, 63, 64, 65, 511, 512, 513, 1500] {
                    let mut target = vec![0u8; 2000];
                    let at = target.as_mut_ptr().wrapping_add(to);
                    // SAFETY: both ranges lie within their vectors.
                    unsafe { Store { least: 0 }.copy(&said, at, source.as_ptr().add(from), len) };
                    assert_eq!(target[to..to + len], source[from..from + len]);
                    let others = target[..to].iter().chain(&target[to + len..]);
                    assert!(others.into_iter().all(|byte| *byte == 0));
                }
            }
        }
    }

    #[test]
    fn the_reader_asks_for_it_where_plain_copies_are_slow_and_tries_them_again() {
        let said = AtomicU64::new(PLAIN);
        let mut gauge = Gauge::default();
        let (fast, slow) = (16 * SLOW, 16 * SLOW + 1);
        for ticks in [slow, slow, fast, slow, slow] {
            gauge.took(&said, ticks, 1024);
            assert_eq!(said.load(Ordering::Relaxed), PLAIN);
        }
        gauge.took(&said, slow, 1024);
        assert_eq!(said.load(Ordering::Relaxed), PAST);
        for _ in 1..TRIAL {
            assert_eq!(gauge.begin(&said, MEASURED), None);
            assert_eq!(gauge.begin(&said, MEASURED - 1), None);
            assert_eq!(said.load(Ordering::Relaxed), PAST);
        }
        assert_eq!(gauge.begin(&said, MEASURED), None);
        assert_eq!(said.load(Ordering::Relaxed), PLAIN);
        let measured = (0..16).filter(|_| gauge.begin(&said, MEASURED).is_some());
        assert_eq!(measured.count(), 16 / EVERY as usize);
    }
}
