//! Reads and writes live links: ingests their bytes, makes the copies that follow from them, and
//! writes the engine's frames. A link that breaks is closed and listed for a redial.

use rejoin_channel_table::ids::Rank;
use rejoin_engine::Engine;

use super::get::GetHandler;
use super::log_handler::LogHandler;
use crate::error::Result;
use crate::events::PollToken;
use crate::job_member::JobMember;
use crate::links::{self, Intake, LinkFault, Links};
use crate::log::DeviceLogs;
use crate::manager::ManagerChannel;
use crate::meter::Meter;
use crate::program_memory;
use crate::progress::ProgressState;
use crate::recovery::RankRecovery;
use crate::transport::Endpoint;

/// Moves bytes over links that there are. Dials none, accepts none, and takes no message of the
/// manager.
pub(super) struct LinkHandler<'a> {
    pub(super) member: &'a JobMember,
    pub(super) engine: &'a mut Engine,
    pub(super) meter: &'a mut Meter,
    pub(super) links: &'a mut Links,
    pub(super) manager: &'a mut ManagerChannel,
    /// A frame of a later epoch requests a checkpoint.
    pub(super) recovery: &'a mut RankRecovery,
    pub(super) progress: &'a mut ProgressState,
    pub(super) logs: &'a mut DeviceLogs,
}

impl LinkHandler<'_> {
    pub(super) fn logs(&mut self) -> LogHandler<'_> {
        log_handler!(self)
    }

    /// Reads a live link, or works through bytes that are staged already; true if anything moved.
    pub(super) fn ingest(&mut self, token: PollToken, staged: Option<usize>) -> Result<bool> {
        let Some(live) = self.links.live(token) else {
            return Ok(false);
        };
        let mut intake = Intake {
            engine: self.engine,
            staging: self.progress.staging(),
            meter: self.meter,
            checkpoint: self.recovery.checkpoint(),
        };
        let outcome = match staged {
            None => intake.read(live),
            Some(fresh) => intake.parse(live, fresh).map(|()| true),
        };
        let rank = live.rank();
        self.log_received();
        match outcome {
            Ok(moved) => {
                let moved = moved | self.get_all();
                let Some(live) = self.links.live(token) else {
                    return Ok(moved);
                };
                if live.must_be_listed() {
                    self.links.list_readable(token);
                }
                Ok(moved)
            }
            Err(LinkFault::Memory(error)) => Err(self.bad_buffer(rank, "receive", error)),
            Err(broken) => self.drop_link(token, broken).map(|()| true),
        }
    }

    /// After calls that may have matched what is already here.
    #[inline]
    pub(super) fn copy_matched(&mut self) {
        program_memory::copy_out(self.engine);
        self.get_all();
    }

    /// Copies the bodies that the engine asks for; true if there were any.
    #[inline]
    fn get_all(&mut self) -> bool {
        let first = self.engine.next_get();
        let any = first.is_some();
        if let Some(first) = first {
            let mut handler = GetHandler {
                member: self.member,
                engine: self.engine,
                meter: self.meter,
                links: self.links,
                progress: self.progress,
            };
            handler.get_from(first);
        }
        self.log_received();
        any
    }

    /// Logs the messages that have come as a whole, before the program can change their bodies.
    #[inline(always)]
    fn log_received(&mut self) {
        if self.engine.any_received() {
            self.logs().log_received();
        }
    }

    /// Reads a link that is waited for, and retries what did not fit: its turn in a spin. Unless
    /// `all` is wanted, short messages that meet no receive stay where they are.
    #[inline]
    pub(super) fn poll_link(&mut self, rank: Rank, token: PollToken, all: bool) -> Result<bool> {
        let Some(live) = self.links.live(token) else {
            return Ok(false);
        };
        let mut moved = false;
        if live.may_look_for_short() {
            if !self.meter.injects_faults() {
                let mut intake = Intake {
                    engine: self.engine,
                    staging: self.progress.staging(),
                    meter: self.meter,
                    checkpoint: self.recovery.checkpoint(),
                };
                moved = intake.take_matched(live) > 0;
            }
            // A message without a receive stays in its link until a pass in which no message has
            // one.
            if moved || live.endpoint.is_idle() || (!all && live.has_short()) {
                let moved = moved || live.serve_get(self.meter);
                self.log_received();
                return Ok(moved);
            }
        }
        moved |= self.ingest(token, None)?;
        if let Some(live) = self.links.live(token)
            && live.is_write_blocked()
            && self.engine.tx_pending(rank)
        {
            live.retry_write();
            moved |= self.flush_link(rank)?;
        }
        Ok(moved)
    }

    /// Reads every polled link that has something, and retries what did not fit. `all`: as
    /// [`LinkHandler::poll_link`].
    #[inline]
    pub(super) fn serve_polled(&mut self, all: bool) -> Result<bool> {
        let mut moved = false;
        for at in 0..self.links.polled_count() {
            let Some((token, live)) = self.links.polled(at) else {
                break;
            };
            let rank = live.rank();
            moved |= self.poll_link(rank, token, all)?;
        }
        Ok(moved)
    }

    /// Reads the links that epoll does not watch, and retries what did not fit.
    pub(super) fn serve_unwatched(&mut self) -> Result<bool> {
        let mut moved = false;
        for at in 0..self.links.unwatched_count() {
            let Some((token, rank)) = self.links.unwatched(at) else {
                break;
            };
            moved |= self.poll_link(rank, token, true)?;
        }
        Ok(moved)
    }

    /// Reads every link that may hold bytes which no event will announce.
    pub(super) fn drain_readable(&mut self) -> Result<bool> {
        let mut moved = false;
        for _ in 0..self.links.readable_count() {
            let Some(token) = self.links.next_readable() else {
                break;
            };
            moved |= self.ingest(token, None)?;
        }
        Ok(moved)
    }

    /// Whether frames for a peer may leave this rank now. If not, they are asked for again when the
    /// log has room.
    #[inline]
    pub(super) fn may_flush(&mut self, rank: Rank) -> Result<bool> {
        if !self.engine.has_groups() || self.logs().may_leave()? {
            return Ok(true);
        }
        self.engine.tx_later(rank);
        Ok(false)
    }

    /// Writes the engine's frames for a peer, if there is a link to it; true if anything moved.
    #[inline]
    pub(super) fn flush_link(&mut self, rank: Rank) -> Result<bool> {
        if !self.may_flush(rank)? {
            return Ok(false);
        }
        match self.links.token_of(rank) {
            Some(token) => self.write(rank, token),
            None => Ok(false),
        }
    }

    /// Writes the engine's frames for a peer to its link; true if anything moved.
    #[inline]
    pub(super) fn write(&mut self, rank: Rank, token: PollToken) -> Result<bool> {
        let Some(live) = self.links.live(token) else {
            return Ok(false);
        };
        match links::flush(self.engine, live, self.meter) {
            Ok(moved) => Ok(moved),
            Err(fault) => self.write_failed(rank, token, *fault),
        }
    }

    /// Makes the end of a blocking call wait for the link to a rank, if there is none and a message
    /// waits for it.
    #[inline]
    pub(super) fn expect_link(&mut self, rank: Rank) {
        if self.links.token_of(rank).is_none() && self.engine.tx_waiting(rank) {
            self.links.await_link(rank);
        }
    }

    /// Tells the engine, once it is known, which side of the link to a rank can read the other's
    /// memory.
    #[inline]
    pub(super) fn learn_access(&mut self, rank: Rank) {
        let Some(live) = self.links.live_to(rank) else {
            return;
        };
        if let Some((ours, theirs)) = live.learn_access() {
            self.engine.set_remote_access(rank, ours, theirs);
        }
    }

    /// Has every polled link raise an event from here on; true if one of them has something
    /// already, so that nothing may block.
    pub(super) fn arm(&mut self) -> Result<bool> {
        let (any, broken) = self.links.arm(self.engine);
        for (token, lost) in broken {
            self.drop_link(token, LinkFault::Lost(lost))?;
        }
        Ok(any)
    }
}
