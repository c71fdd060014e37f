//! The calls of the MPI layer to the device.

mod await_links;
mod determinants;
mod dialing;
mod fast_path;
mod finalize;
mod get;
mod handshakes;
mod ingest;
mod link_check;
mod link_loss;
mod manager_updates;
mod move_away;
mod optimistic;
mod passes;
mod program_checkpoints;
mod receives_logged;
mod reopen;
mod returned_peers;
pub mod safe_point;
mod stall_report;
mod startup;
mod waits;
mod writes;

pub use finalize::Counters;

use std::cell::Cell;
use std::marker::PhantomData;
use std::time::Duration;

use rejoin_channel_table::BusinessCard;
use rejoin_channel_table::ids::{Identity, Rank};
use rejoin_engine::{
    Completion, Config, Engine, Envelope, MIN_GET, MsgId, Pattern, Probe, ReqId, Sent,
};
use rejoin_wire::{RankOptions, Transport};

use crate::error::{Error, Result};
use crate::events::Waker;
use crate::job_locality::{JobLocality, LocalCost};
use crate::job_member::JobMember;
use crate::links::{Links, RankListeners};
use crate::manager::ManagerChannel;
use crate::meter::{Meter, Stats};
use crate::program_memory;
use crate::progress::ProgressState;
use crate::rank_log::RankLog;
use crate::rank_receive_log::RankReceiveLog;
use crate::recovery::RankRecovery;
use crate::served_peers::ServedPeers;
use crate::transport::SendOutcome;

/// Passes with a hinted link between two polls of epoll.
const POLL_EVERY: u32 = 64;
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

/// The kind of call that a send is made by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// It returns when the send is complete.
    Blocking,
    /// It may be one of a burst, whose messages share system calls.
    Nonblocking,
}

/// The channel device of one rank.
///
/// It has no thread of its own: progress is made inside its calls. Requests are generational ids;
/// one that is complete is freed by the [`Device::poll`] that says so.
///
/// ```
/// use rejoin_device::{Device, Envelope, Mode, Options, Pattern};
///
/// // Without a launcher the process is the only rank of its job, and sends to itself.
/// let mut device = Device::alone(Options::default())?;
/// let me = device.rank();
/// let envelope = Envelope { context: 1, source: 0, tag: 7 };
/// let pattern = Pattern { context: 1, source: Some(0), tag: Some(7), from: Some(me) };
/// let (out, mut into) = (*b"hello", [0; 5]);
/// // SAFETY: the buffers stay until their requests are complete.
/// let (receive, send) = unsafe {
///     let receive = device.irecv(pattern, into.as_mut_ptr(), into.len())?;
///     let send = device.isend(me, envelope, out.as_ptr(), out.len(), Mode::Standard)?;
///     (receive, send)
/// };
/// while !(device.is_complete(receive) && device.is_complete(send)) {
///     device.wait(Some(receive), None)?;
/// }
/// let received = device.poll(receive).expect("complete");
/// assert_eq!((received.len, into), (5, out));
/// # Ok::<(), rejoin_device::Error>(())
/// ```
pub struct Device {
    member: JobMember,
    engine: Engine,
    meter: Meter,
    links: Links,
    listeners: RankListeners,
    manager: ManagerChannel,
    recovery: RankRecovery,
    progress: ProgressState,
    /// In logging modes.
    determinants: Option<RankLog>,
    /// Messages of other recovery groups that this rank has received.
    receive_log: Option<RankReceiveLog>,
    /// Peers that need messages while the program computes.
    served: ServedPeers,
    /// The handle for other threads; `links` makes the descriptor behind it.
    waker: Waker,
    /// Threads share a device only by taking turns.
    not_sync: PhantomData<Cell<()>>,
}

impl Device {
    /// This process's rank in the job.
    #[must_use]
    pub fn rank(&self) -> Rank {
        self.member.rank()
    }

    /// Number of ranks in the job.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.member.size()
    }

    /// Job, rank, generation and incarnation.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.member.identity()
    }

    /// Where this rank listens.
    #[must_use]
    pub fn card(&self) -> &BusinessCard {
        self.member.card()
    }

    /// Name of the host that a rank runs on; empty for a rank outside the job.
    #[must_use]
    pub fn host_of(&self, rank: Rank) -> &str {
        self.links.book().host(rank).unwrap_or_default()
    }

    /// The host that this process is on now: equal for ranks that can share memory.
    #[must_use]
    pub fn local_host(&self) -> &str {
        &self.member.card().local_host.0
    }

    /// Which ranks share a host, and what a message within a host costs. The cost is the same on
    /// all ranks, because it follows from the launcher's settings, not from the abilities or
    /// variables of one rank.
    #[must_use]
    pub fn locality(&self) -> JobLocality {
        let own = &self.member.card().local_host;
        let host = |rank| self.links.book().local_host(Rank(rank)).unwrap_or(own);
        let cost = match self.member.settings().transport {
            Transport::Tcp => LocalCost::SystemCall,
            Transport::Auto | Transport::Shm => LocalCost::Copy,
        };
        JobLocality::new((0..self.size()).map(host), cost)
    }

    /// Number of the program on the command line, when there are several (`MPI_APPNUM`).
    #[must_use]
    pub fn appnum(&self) -> Option<u32> {
        self.member.appnum()
    }

    /// Whether the order in which a reduction combines may follow the hosts, the same on all ranks.
    #[must_use]
    pub fn reduces_by_hosts(&self) -> bool {
        self.member.options().reduce_by_hosts
    }

    /// The launcher's settings for this rank.
    #[must_use]
    pub fn settings(&self) -> &RankOptions {
        self.member.settings()
    }

    /// Sizes in force: limits of copied and of eager messages, the window.
    #[must_use]
    pub fn config(&self) -> &Config {
        self.engine.config()
    }

    /// Counters of the device so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = self.meter.stats;
        stats.doorbells += self.links.doorbells();
        stats
    }

    /// Grows whenever something has come or is complete that a wait may be for, and with messages
    /// of the manager. The end of a body counts, which no frame tells of.
    #[must_use]
    #[inline]
    pub fn moved(&self) -> u64 {
        let frames = self.meter.stats.frames_in;
        frames
            .wrapping_add(self.engine.moved())
            .wrapping_add(self.manager.messages())
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
        // SAFETY: the caller's promise.
        unsafe { self.continue_isend(to, env, buf, len, mode) }
    }

    /// The slow path of [`Device::isend`], for a message that [`Device::try_send`] could not send
    /// ([`SendOutcome::WouldBlock`]).
    ///
    /// # Safety
    /// As for [`Device::isend`].
    ///
    /// # Errors
    /// As for [`Device::isend`].
    pub unsafe fn continue_isend(
        &mut self,
        to: Rank,
        env: Envelope,
        buf: *const u8,
        len: usize,
        mode: Mode,
    ) -> Result<ReqId> {
        let mode = match mode {
            Mode::Standard => rejoin_engine::MessageMode::Standard,
            Mode::Synchronous => rejoin_engine::MessageMode::Synchronous,
        };
        // SAFETY: the caller's promise.
        let (sent, small) = unsafe { self.issue_send(to, env, buf, len, mode, "isend")? };
        if to == self.member.rank() {
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
        // SAFETY: the caller's promise.
        if unsafe { self.send_eager(to, &env, buf, len, Caller::Blocking)? } {
            return Ok(None);
        }
        // SAFETY: the caller's promise.
        unsafe { self.continue_send(to, env, buf, len) }
    }

    /// The slow path of [`Device::send`], for a message that [`Device::try_send`] could not send
    /// ([`SendOutcome::WouldBlock`]).
    ///
    /// # Safety
    /// As for [`Device::isend`].
    ///
    /// # Errors
    /// As for [`Device::isend`].
    pub unsafe fn continue_send(
        &mut self,
        to: Rank,
        env: Envelope,
        buf: *const u8,
        len: usize,
    ) -> Result<Option<ReqId>> {
        let copied = len <= DETACH_MAX;
        let mode = if copied {
            rejoin_engine::MessageMode::Blocking
        } else {
            rejoin_engine::MessageMode::Standard
        };
        // SAFETY: the caller's promise.
        let (sent, _) = unsafe { self.issue_send(to, env, buf, len, mode, "send")? };
        if to == self.member.rank() {
            self.copy_matched();
        } else {
            self.flush_link(to)?;
            self.poll_occasionally()?;
            self.expect_link(to);
        }
        let Sent::Pending(request) = sent else {
            return Ok(None);
        };
        if !copied {
            return Ok(Some(request));
        }
        if program_memory::detach(&mut self.engine, request) {
            self.engine.poll(request);
            return Ok(None);
        }
        self.progress.detach_later(request);
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
        // The slow path stores matches of wildcards before anything leaves.
        self.note_action();
        if self.engine.has_groups()
            && (self.engine.any_to_record() || !self.are_determinants_stable()?)
        {
            return Ok(false);
        }
        // SAFETY: the caller's promise.
        match unsafe { self.try_eager(to, env, buf, len, caller) } {
            SendOutcome::Untried | SendOutcome::WouldBlock => return Ok(false),
            SendOutcome::LinkLost(fault) => self.link_lost(to, *fault)?,
            SendOutcome::Sent => self.inject_cut_of(to)?,
        }
        // Writes that nonblocking sends have deferred: later fast calls make no pass.
        if caller == Caller::Blocking && self.engine.any_ready() {
            self.flush_ready()?;
        }
        self.poll_occasionally()?;
        Ok(true)
    }

    /// A program whose calls need no pass of progress, or that only sends, accepts and reads here
    /// now and then.
    ///
    /// # Errors
    /// As [`Device::progress`].
    #[inline]
    pub fn poll_occasionally(&mut self) -> Result<()> {
        let poll_is_due = self.links.poll_is_due(self.progress.pass(), POLL_EVERY);
        self.progress.next_pass();
        if poll_is_due {
            self.poll_events(Some(Duration::ZERO))?;
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
        mode: rejoin_engine::MessageMode,
        operation: &'static str,
    ) -> Result<(Sent, bool)> {
        self.note_action();
        let segment = program_memory::segment(buf, len);
        let small = self.engine.copies(len);
        if len >= MIN_GET {
            self.learn_access(to);
        }
        // SAFETY: the caller's promise.
        let bytes = small.then(|| unsafe { program_memory::bytes(segment) });
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
        self.note_action();
        match self.engine.recv(pattern, program_memory::segment(buf, len)) {
            Ok(request) => {
                self.copy_matched();
                Ok(request)
            }
            Err(error) => {
                let rank = pattern.from.unwrap_or(self.member.rank());
                Err(self.refused_by_engine(rank, "receive", &error))
            }
        }
    }

    /// Posts a receive without wildcards for which no message has come; `None`: nothing was done.
    ///
    /// # Safety
    /// As for [`Device::irecv`].
    #[inline(always)]
    pub unsafe fn try_post(
        &mut self,
        pattern: &Pattern,
        buf: *mut u8,
        len: usize,
    ) -> Option<ReqId> {
        self.engine
            .post_named(pattern, program_memory::segment(buf, len))
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
        self.note_action();
        self.engine.cancel(request);
    }

    /// Frees a request, which completes in the background (`MPI_Request_free`, MPI-5.0 §3.7.3).
    pub fn free(&mut self, request: ReqId) {
        self.engine.free(request);
    }

    /// The first message that a receive with this pattern would get, if it has come. Makes no
    /// progress.
    pub fn probe(&mut self, pattern: &Pattern) -> Option<Probe> {
        let found = self.engine.probe(pattern);
        if found.is_none() {
            self.progress.probe_failed(pattern);
        }
        found
    }

    /// The same, and takes the message out of matching (MPI-5.0 §3.8.2).
    pub fn mprobe(&mut self, pattern: &Pattern) -> Option<(MsgId, Probe)> {
        let found = self.engine.mprobe(pattern);
        if found.is_none() {
            self.progress.probe_failed(pattern);
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
        self.note_action();
        match self
            .engine
            .mrecv(message, program_memory::segment(buf, len))
        {
            Ok(request) => {
                self.copy_matched();
                Ok(request)
            }
            Err(error) => Err(self.refused_by_engine(self.member.rank(), "mrecv", &error)),
        }
    }

    /// Withdraws the bodies that ranks of this host may read from this process's memory. From now
    /// on those ranks request the bodies over the link instead. A caller uses this when it abandons
    /// requests and makes no further progress: then no rank accesses their memory any more.
    pub fn withdraw(&mut self) {
        self.links.withdraw();
    }

    /// Wakes a thread that is blocked in [`Device::wait`].
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }
}
