//! Writes the engine's frames to peers.

use rejoin_channel_table::ids::Rank;

use super::Device;
use crate::error::Result;
use crate::ticks;
use crate::{links, program_memory};

impl Device {
    /// Writes to, or dials, every peer that the engine has something for.
    #[inline]
    pub(super) fn flush_ready(&mut self) -> Result<bool> {
        let mut moved = false;
        if self.engine.has_groups() {
            moved = self.engine.any_log_copy();
            program_memory::log_out(&mut self.engine);
            if self.engine.any_to_record() && !self.store_matches()? {
                return Ok(moved);
            }
            if self.engine.any_ready() && !self.may_frames_leave()? {
                return Ok(moved);
            }
        }
        while let Some(rank) = self.engine.next_ready() {
            moved |= self.flush_link(rank)?;
        }
        if !self.progress.detaches_none() {
            moved |= self.detach_all();
        }
        Ok(moved)
    }

    /// Writes the engine's frames for a peer, or dials it.
    #[inline]
    pub(super) fn flush_link(&mut self, rank: Rank) -> Result<bool> {
        if self.engine.has_groups() && self.engine.any_to_record() && !self.store_matches()? {
            // It is asked for again when the log has room.
            self.engine.tx_later(rank);
            return Ok(false);
        }
        if self.engine.has_groups() && !self.may_frames_leave()? {
            self.engine.tx_later(rank);
            return Ok(false);
        }
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

    /// A nonblocking send of `len` bytes has been queued: it is written at once, or with the next
    /// write of its burst.
    #[inline]
    pub(super) fn push_out(&mut self, rank: Rank, len: usize, long: bool) -> Result<()> {
        let Some(token) = self.links.token_of(rank) else {
            return self.flush_link(rank).map(|_| ());
        };
        let Some(live) = self.links.live(token) else {
            return Ok(());
        };
        if live.burst.defers(ticks::now(), len, long) {
            return Ok(());
        }
        self.flush_link(rank)?;
        if let Some(live) = self.links.live(token) {
            live.burst.begin(ticks::now());
        }
        Ok(())
    }

    /// Copies the bodies of blocking sends that are written, which completes the sends.
    fn detach_all(&mut self) -> bool {
        let engine = &mut self.engine;
        self.progress
            .retain_detaching(|request| !program_memory::detach(engine, *request))
    }
}
