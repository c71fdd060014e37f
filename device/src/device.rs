//! The device's face to the MPI layer.

use std::cell::Cell;
use std::marker::PhantomData;
use std::time::Duration;

use rejoin_channel_table::ids::{Identity, Rank};
use rejoin_channel_table::{BusinessCard, LocalHostId, Table};
use rejoin_engine::{
    Completion, Config, Detach, Engine, Envelope, MIN_GET, MsgId, Pattern, Probe, ReqId, Sent,
    Sought,
};
use rejoin_wire::{RankOptions, Transport};

use crate::await_links::AwaitedLinks;
use crate::error::{Error, Result};
use crate::fast_path::Caller;
use crate::io::Io;
use crate::live::Meter;
use crate::memory;
use crate::options::Options;
use crate::pending_checkpoint::PendingCheckpoint;
use crate::poller::Token;
use crate::spin::Spin;
use crate::stall::Names;
use crate::stats::Stats;
use crate::transport::Attempt;
use crate::waker::Waker;

/// Passes with a hinted link between two looks at epoll.
pub(crate) const LOOK_EVERY: u32 = 64;
/// Longest body of a blocking send that is copied after its write. Copying a longer one takes about
/// as long as to wait for its ack, and halves the rate of a program that only sends.
const DETACH_MAX: usize = 128 << 10;

/// When a nonblocking send completes (MPI-5.0 §3.4). The buffered and the ready mode are standard
/// ones at this level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// When the buffer may be used again.
    Standard,
    /// Not before the message is matched.
    Synchronous,
}

/// What a message between ranks of one host costs its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalCost {
    /// A copy, while both ranks are awake.
    Copy,
    /// A system call, as a message to another host.
    SystemCall,
}

/// The channel device of one rank.
///
/// It has no thread of its own: progress is made inside its calls. Requests are generational ids;
/// one that is complete is freed by the [`Device::poll`] that says so.
pub struct Device {
    pub(crate) identity: Identity,
    pub(crate) size: u32,
    pub(crate) appnum: Option<u32>,
    pub(crate) settings: RankOptions,
    pub(crate) options: Options,
    pub(crate) card: BusinessCard,
    pub(crate) engine: Engine,
    pub(crate) table: Table<Token>,
    pub(crate) meter: Meter,
    /// All that is tied to descriptors: no part of what an image keeps.
    pub(crate) io: Io,
    /// What other threads hold; `io` makes the descriptor behind it.
    pub(crate) waker: Waker,
    /// Blocking sends whose body is to be copied once its write is through.
    pub(crate) detaching: Vec<ReqId>,
    /// Links that a blocking call waits for at its end.
    pub(crate) awaited: AwaitedLinks,
    /// What probes have looked for in vain.
    pub(crate) probing: Sought,
    /// Words of the manager's that may end a wait.
    pub(crate) words: u64,
    pub(crate) passes: u32,
    /// How long waits spin.
    pub(crate) spin: Spin,
    pub(crate) noise: u64,
    pub(crate) breaches: u32,
    pub(crate) finalizing: bool,
    pub(crate) leaving: bool,
    pub(crate) all_finalized: bool,
    /// The request for a checkpoint that is met at the next safe point.
    pub(crate) checkpoint: PendingCheckpoint,
    /// Of checkpoints that this rank has asked for.
    pub(crate) known: crate::asked::Known,
    /// Takes images of this process, where the manager wants them.
    pub(crate) imager: Option<rejoin_ckpt::twin::Imager>,
    /// What the last image has cost since.
    pub(crate) copied: crate::image::Copied,
    pub(crate) names: Option<Names>,
    /// Threads share a device only by taking turns.
    pub(crate) not_sync: PhantomData<Cell<()>>,
}

impl Device {
    /// This process's rank in the job.
    #[must_use]
    pub fn rank(&self) -> Rank {
        self.identity.rank
    }

    /// Number of ranks in the job.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Job, rank, generation and incarnation.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Where this rank listens.
    #[must_use]
    pub fn card(&self) -> &BusinessCard {
        &self.card
    }

    /// Name of the host that a rank runs on; empty for a rank outside the job.
    #[must_use]
    pub fn host_of(&self, rank: Rank) -> &str {
        self.table.book().host(rank).unwrap_or_default()
    }

    /// The running system that a rank is on: ranks with equal ids can share memory. Out of range
    /// gives this rank's own.
    #[must_use]
    pub fn local_host_of(&self, rank: Rank) -> &LocalHostId {
        let known = self.table.book().local_host(rank);
        known.unwrap_or(&self.card.local_host)
    }

    /// What a message between ranks of one host costs, the same on all ranks: it follows from what
    /// the launcher allows, not from what a rank then can do or asks for itself.
    #[must_use]
    pub fn local_cost(&self) -> LocalCost {
        match self.settings.transport {
            Transport::Tcp => LocalCost::SystemCall,
            Transport::Auto | Transport::Shm => LocalCost::Copy,
        }
    }

    /// Number of the program on the command line, when there are several (`MPI_APPNUM`).
    #[must_use]
    pub fn appnum(&self) -> Option<u32> {
        self.appnum
    }

    /// Whether the order in which a reduction combines may follow the hosts, the same on all ranks.
    #[must_use]
    pub fn reduces_by_hosts(&self) -> bool {
        self.options.reduce_by_hosts
    }

    /// What the launcher set for this rank.
    #[must_use]
    pub fn settings(&self) -> &RankOptions {
        &self.settings
    }

    /// Sizes in force: what is copied, what is sent eagerly, the window.
    #[must_use]
    pub fn config(&self) -> &Config {
        self.engine.config()
    }

    /// What the device has done so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = self.meter.stats;
        stats.wakes += self.io.slots.wakes();
        stats
    }

    /// Grows whenever something has come or is complete that a wait may be for, and with words of
    /// the manager's. The end of a body counts, which no frame tells of.
    #[must_use]
    #[inline]
    pub fn moved(&self) -> u64 {
        let frames = self.meter.stats.frames_in;
        frames
            .wrapping_add(self.engine.moved())
            .wrapping_add(self.words)
    }

    /// Starts a send. Small messages are complete at once ([`ReqId::DONE`]).
    ///
    /// # Safety
    /// `buf` is readable for `len` bytes and stays so, unmodified, until the request completes.
    ///
    /// # Errors
    /// No such rank, or a peer that cannot be reached.
    #[inline]
    pub unsafe fn isend(
        &mut self,
        to: Rank,
        env: Envelope,
        buf: *const u8,
        len: usize,
        mode: Mode,
    ) -> Result<ReqId> {
        let nonblocking = Caller::Nonblocking;
        // SAFETY: the caller's promise.
        if mode == Mode::Standard && unsafe { self.send_eager(to, &env, buf, len, nonblocking)? } {
            return Ok(ReqId::DONE);
        }
        let mode = match mode {
            Mode::Standard => rejoin_engine::Mode::Standard,
            Mode::Synchronous => rejoin_engine::Mode::Synchronous,
        };
        // SAFETY: the caller's promise.
        let (sent, small) = unsafe { self.issue_send(to, env, buf, len, mode, "isend")? };
        if to == self.identity.rank {
            self.copy_matched();
        } else {
            let long = !small && len <= self.engine.config().eager_max;
            self.push_out(to, len, long)?;
            self.expect_link(to);
        }
        Ok(match sent {
            Sent::Done => ReqId::DONE,
            Sent::Pending(request) => request,
        })
    }

    /// A blocking standard send. `None`: complete. A message of medium length is written and then
    /// copied, so that the caller need not wait for the receiver. Otherwise the caller waits for
    /// the request: for the receiver's ack or finish.
    ///
    /// # Safety
    /// As for [`Device::isend`].
    ///
    /// # Errors
    /// As for [`Device::isend`].
    #[inline]
    pub unsafe fn send(
        &mut self,
        to: Rank,
        env: Envelope,
        buf: *const u8,
        len: usize,
    ) -> Result<Option<ReqId>> {
        let copied = len <= DETACH_MAX;
        let mode = if copied {
            rejoin_engine::Mode::Blocking
        } else {
            rejoin_engine::Mode::Standard
        };
        // SAFETY: the caller's promise.
        if unsafe { self.send_eager(to, &env, buf, len, Caller::Blocking)? } {
            return Ok(None);
        }
        // SAFETY: the caller's promise.
        let (sent, _) = unsafe { self.issue_send(to, env, buf, len, mode, "send")? };
        if to == self.identity.rank {
            self.copy_matched();
        } else {
            self.flush_link(to)?;
            self.attend()?;
            self.expect_link(to);
        }
        let Sent::Pending(request) = sent else {
            return Ok(None);
        };
        if !copied {
            return Ok(Some(request));
        }
        if self.detach(request) {
            self.engine.poll(request);
            return Ok(None);
        }
        self.detaching.push(request);
        Ok(Some(request))
    }

    /// A small message on a link that has nothing else to write. False: nothing was done, and the
    /// engine is to plan it.
    ///
    /// # Safety
    /// As for [`Device::isend`].
    #[inline]
    unsafe fn send_eager(
        &mut self,
        to: Rank,
        env: &Envelope,
        buf: *const u8,
        len: usize,
        caller: Caller,
    ) -> Result<bool> {
        // SAFETY: the caller's promise.
        match unsafe { self.try_eager(to, env, buf, len, caller) } {
            Attempt::WouldBlock => return Ok(false),
            Attempt::LinkLost(fault) => self.link_lost(to, *fault)?,
            Attempt::Sent => self.inject_cut_of(to)?,
        }
        // What nonblocking sends have put off: fast calls that follow make no pass.
        if caller == Caller::Blocking && self.engine.any_ready() {
            self.flush_ready()?;
        }
        self.attend()?;
        Ok(true)
    }

    /// A program whose calls need no pass of progress, or that only sends, accepts and reads here
    /// now and then.
    ///
    /// # Errors
    /// As [`Device::progress`].
    #[inline]
    pub fn attend(&mut self) -> Result<()> {
        let must_look = self.must_look(LOOK_EVERY);
        self.passes = self.passes.wrapping_add(1);
        if must_look {
            self.look(Some(Duration::ZERO))?;
        }
        Ok(())
    }

    /// Gives a message to the engine; says whether it was small.
    ///
    /// # Safety
    /// As for [`Device::isend`].
    #[inline]
    unsafe fn issue_send(
        &mut self,
        to: Rank,
        env: Envelope,
        buf: *const u8,
        len: usize,
        mode: rejoin_engine::Mode,
        operation: &'static str,
    ) -> Result<(Sent, bool)> {
        let segment = memory::segment(buf, len);
        let small = self.engine.copies(len);
        if len >= MIN_GET {
            self.learn_access(to);
        }
        // SAFETY: the caller's promise.
        let bytes = small.then(|| unsafe { memory::bytes(segment) });
        match self.engine.send(to, env, segment, bytes, mode) {
            Ok(sent) => Ok((sent, small)),
            Err(error) => Err(self.refused_by_engine(to, operation, &error)),
        }
    }

    #[cold]
    fn refused_by_engine(
        &self,
        rank: Rank,
        operation: &'static str,
        error: &rejoin_engine::Error,
    ) -> Error {
        if let rejoin_engine::Error::NoSuchRank { rank, size } = *error {
            return Error::NoSuchRank {
                rank,
                size,
                operation,
            };
        }
        let host = self.host_of(rank).to_owned();
        Error::Refused {
            rank,
            host,
            operation,
            problem: error.to_string(),
        }
    }

    /// Starts a receive.
    ///
    /// # Safety
    /// `buf` is writable for `len` bytes, and nothing else uses it until the request completes.
    ///
    /// # Errors
    /// No such rank.
    #[inline]
    pub unsafe fn irecv(&mut self, pattern: Pattern, buf: *mut u8, len: usize) -> Result<ReqId> {
        match self.engine.recv(pattern, memory::segment(buf, len)) {
            Ok(request) => {
                self.copy_matched();
                Ok(request)
            }
            Err(error) => {
                let rank = pattern.from.unwrap_or(self.identity.rank);
                Err(self.refused_by_engine(rank, "receive", &error))
            }
        }
    }

    /// Posts a receive without wildcards for which no message has come; `None`: nothing was done.
    ///
    /// # Safety
    /// As for [`Device::irecv`].
    #[inline(always)]
    pub unsafe fn post_now(
        &mut self,
        pattern: &Pattern,
        buf: *mut u8,
        len: usize,
    ) -> Option<ReqId> {
        self.engine.post_named(pattern, memory::segment(buf, len))
    }

    /// As [`Device::poll`], of a receive that got a whole message, and only of such.
    #[inline(always)]
    pub fn poll_whole(&mut self, request: ReqId) -> Option<Completion> {
        self.engine.poll_whole(request)
    }

    /// The end of a request, once; the id is free then. A stale id gives `None`.
    #[inline]
    pub fn poll(&mut self, request: ReqId) -> Option<Completion> {
        self.engine.poll(request)
    }

    /// Whether a request is complete.
    #[inline]
    #[must_use]
    pub fn is_complete(&self, request: ReqId) -> bool {
        self.engine.is_complete(request)
    }

    /// Asks to cancel a request (MPI-5.0 §3.8.4); its completion says whether it was.
    pub fn cancel(&mut self, request: ReqId) {
        self.engine.cancel(request);
    }

    /// Lets a request go: it completes in the background (`MPI_Request_free`, MPI-5.0 §3.7.3).
    pub fn free(&mut self, request: ReqId) {
        self.engine.free(request);
    }

    /// The first message that a receive with this pattern would get, if it has come. Makes no
    /// progress.
    pub fn probe(&mut self, pattern: &Pattern) -> Option<Probe> {
        let found = self.engine.probe(pattern);
        if found.is_none() {
            self.probing.add(pattern);
        }
        found
    }

    /// The same, and takes the message out of matching (MPI-5.0 §3.8.2).
    pub fn mprobe(&mut self, pattern: &Pattern) -> Option<(MsgId, Probe)> {
        let found = self.engine.mprobe(pattern);
        if found.is_none() {
            self.probing.add(pattern);
        }
        found
    }

    /// Receives a message that `mprobe` took.
    ///
    /// # Safety
    /// As for [`Device::irecv`].
    ///
    /// # Errors
    /// A message that was received already.
    pub unsafe fn imrecv(&mut self, message: MsgId, buf: *mut u8, len: usize) -> Result<ReqId> {
        match self.engine.mrecv(message, memory::segment(buf, len)) {
            Ok(request) => {
                self.copy_matched();
                Ok(request)
            }
            Err(error) => Err(self.refused_by_engine(self.identity.rank, "mrecv", &error)),
        }
    }

    /// Takes back what was offered to ranks of this host to read in this process's memory: from
    /// here on whoever would read it asks for it over the link instead. For a caller that gives up
    /// requests under way, and makes no progress after that: nothing reaches into their memory any
    /// more.
    pub fn withdraw(&mut self) {
        self.io.slots.withdraw();
    }

    /// Wakes a thread that is blocked in [`Device::wait`].
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Completes a blocking send by copying its body, if its write is through; true when complete.
    pub(crate) fn detach(&mut self, request: ReqId) -> bool {
        match self.engine.detach(request) {
            Detach::Done => true,
            Detach::Wait => false,
            Detach::Copy { from, into } => {
                // SAFETY: the segment belongs to a blocking send under way.
                into.copy_from_slice(unsafe { memory::bytes(from) });
                true
            }
        }
    }
}
