//! Bursts of nonblocking sends, which share writes.

use crate::ticks;

/// Most small sends that share a write, in messages.
const BATCH: u32 = 32;
/// Most longer eager sends that share a write, in messages: one write takes as many.
const BATCH_LONG: u32 = (rejoin_engine::MAX_PIECES / 2) as u32;
/// Most bytes of longer eager sends that share a write: a larger one gains nothing more.
const BATCH_BYTES: usize = 1 << 20;
/// Number of longer sends of a burst that are written one by one before any is deferred. So a few
/// messages to a neighbour travel while the program computes, and a stream shares writes.
const STREAM: u32 = 4;
/// A send that follows the last write by less than this belongs to a burst, in ticks of the clock.
const GAP: u64 = 2 * ticks::MICROSECOND;

/// The present burst of sends over one link.
///
/// The first send since the last progress is written at once. Sends that follow within two
/// microseconds share a write, which the next progress or a full batch makes. When a program
/// computes after a pause of that length, only the tail of a burst is unsent, and the next call
/// flushes it. Bodies in the program's memory (`long`) share a write only in a stream of them.
/// Large writes move a third more bytes per second than writes of 64 KiB.
#[derive(Debug, Default)]
pub(crate) struct Burst {
    /// Sends since the last write, and the send that made this write.
    sends: u32,
    /// Bytes of long bodies among the deferred sends.
    long_bytes: usize,
    /// Long sends in a row, without a pause.
    in_a_row: u32,
    /// The clock's ticks after the last write.
    last_write: u64,
}

impl Burst {
    /// A send of `len` bytes has been queued; true when it is deferred until the next write.
    #[inline]
    pub(crate) fn defers(&mut self, now: u64, len: usize, long: bool) -> bool {
        if now.wrapping_sub(self.last_write) >= GAP {
            self.in_a_row = 0;
            return false;
        }
        self.in_a_row = self.in_a_row.saturating_add(u32::from(long));
        let room = if long {
            self.in_a_row > STREAM
                && self.sends < BATCH_LONG
                && self.long_bytes + len <= BATCH_BYTES
        } else {
            self.sends < BATCH
        };
        if self.sends == 0 || !room {
            return false;
        }
        self.sends += 1;
        self.long_bytes += if long { len } else { 0 };
        self.last_write = now;
        true
    }

    /// The first send of a burst has been written.
    #[inline]
    pub(crate) fn begin(&mut self, now: u64) {
        self.sends = 1;
        self.last_write = now;
    }

    /// All deferred sends are written.
    #[inline(always)]
    pub(super) fn written(&mut self) {
        self.sends = 0;
        self.long_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many sends of a fast program go out with each write.
    fn batches(sends: u32, len: usize, long: bool) -> Vec<u32> {
        let mut burst = Burst::default();
        let mut batches = Vec::new();
        let mut waiting = 0;
        for now in 0..u64::from(sends) {
            waiting += 1;
            if !burst.defers(GAP + now, len, long) {
                burst.written();
                burst.begin(GAP + now);
                batches.push(waiting);
                waiting = 0;
            }
        }
        batches
    }

    #[test]
    fn small_sends_share_a_write_after_the_first() {
        assert_eq!(batches(1 + 2 * BATCH, 8, false), [1, BATCH, BATCH]);
    }

    #[test]
    fn long_sends_share_a_write_only_in_a_stream() {
        let first = vec![1; STREAM as usize + 1];
        assert_eq!(batches(STREAM + 1, 1000, true), first);
        let full = [&first[..], &[BATCH_LONG]].concat();
        assert_eq!(batches(STREAM + 1 + BATCH_LONG, 1000, true), full);
        let bytes = [&first[..], &[3]].concat();
        assert_eq!(batches(STREAM + 4, BATCH_BYTES / 2, true), bytes);
    }

    #[test]
    fn a_pause_ends_a_burst() {
        let mut burst = Burst::default();
        burst.begin(GAP);
        assert!(burst.defers(GAP + 1, 8, false));
        assert!(!burst.defers(2 * GAP + 1, 8, false));
    }
}
