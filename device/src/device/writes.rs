//! Writing to peers what the engine has for them.

use rejoin_channel_table::ids::Rank;

use super::Device;
use crate::clock;
use crate::error::Result;
use crate::links::{self, detach};

/// Small sends put off to one link at most, in messages.
const BATCH: u32 = 32;
/// Longer eager sends put off to one link at most, in messages: one write takes as many.
const BATCH_LONG: u32 = (rejoin_engine::GATHER_PIECES / 2) as u32;
/// Bytes of longer eager sends put off at most: a larger write gains nothing more.
const BATCH_BYTES: usize = 1 << 20;
/// Longer sends of a burst that go out one by one before any is put off: a few messages to a
/// neighbour are on their way while the program computes, a stream shares writes.
const STREAM: u32 = 4;
/// A send that follows the last write by less than this belongs to a burst.
const BURST: u64 = 2 * clock::MICROSECOND;
impl Device {
    /// Writes to, or dials, every peer that the engine has something for.
    #[inline]
    pub(super) fn flush_ready(&mut self) -> Result<bool> {
        let mut moved = false;
        while let Some(rank) = self.engine.next_ready() {
            moved |= self.flush_link(rank)?;
        }
        if !self.progress.detaches_none() {
            moved |= self.detach_all();
        }
        Ok(moved)
    }

    /// Writes what the engine has for a peer, or sees to a link.
    #[inline]
    pub(super) fn flush_link(&mut self, rank: Rank) -> Result<bool> {
        let Some(token) = self.links.token_of(rank) else {
            if self.engine.tx_waiting(rank) {
                self.want_link(rank)?;
            }
            return Ok(false);
        };
        let Some(live) = self.links.live(token) else {
            return Ok(false);
        };
        match links::flush(&mut self.engine, live, &mut self.meter) {
            Ok(moved) => Ok(moved),
            Err(fault) => self.write_failed(rank, token, *fault),
        }
    }

    /// A nonblocking send of `len` bytes has been queued: the first since the last progress goes
    /// out at once; those that follow within two microseconds of it share a write, which the next
    /// progress or a full batch makes. A program that computes after a pause of that length has
    /// nothing left unsent but the tail of a burst, which its next call flushes. Bodies that the
    /// write takes out of the program's memory (`long`) share one only in a stream of them: large
    /// writes move a third more bytes per second than writes of 64 KiB.
    #[inline]
    pub(super) fn push_out(&mut self, rank: Rank, len: usize, long: bool) -> Result<()> {
        let Some(token) = self.links.token_of(rank) else {
            return self.flush_link(rank).map(|_| ());
        };
        let Some(live) = self.links.live(token) else {
            return Ok(());
        };
        if clock::ticks().wrapping_sub(live.last_write) < BURST {
            live.in_a_row = live.in_a_row.saturating_add(u32::from(long));
            let room = if long {
                live.in_a_row > STREAM
                    && live.burst < BATCH_LONG
                    && live.put_off + len <= BATCH_BYTES
            } else {
                live.burst < BATCH
            };
            if live.burst > 0 && room {
                live.burst += 1;
                live.put_off += if long { len } else { 0 };
                live.last_write = clock::ticks();
                return Ok(());
            }
        } else {
            live.in_a_row = 0;
        }
        self.flush_link(rank)?;
        if let Some(live) = self.links.live(token) {
            live.burst = 1;
            live.last_write = clock::ticks();
        }
        Ok(())
    }

    /// Copies the bodies of blocking sends whose write is through, which completes them.
    fn detach_all(&mut self) -> bool {
        let engine = &mut self.engine;
        self.progress
            .retain_detaching(|request| !detach(engine, *request))
    }
}
