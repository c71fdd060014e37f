//! Collective messages over the device.

use std::cell::Cell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Poll, ready};

use crate::adi::{Caller, Completion, Envelope, Pattern, Rank, ReqId, SendAttempt};
use crate::big_lock::{Completions, Until};
use crate::coll::call::{Ctx, Initiated, OutOfLine, P2p, Pending, block_on, mismatch};
use crate::coll::hosts::Locality;
use crate::comm::{Communicator, Traffic};
use crate::decide::send_order::{MAX_BUFFERED, is_deferred, issue};
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;
use crate::runtime::Mpi;

/// The mutable state of a call, for its out-of-line parts. They get nothing else of the call, so a
/// call on the fast path has the rest of its context in registers.
pub struct CallState<'a> {
    mpi: &'a Mpi,
    /// Messages that are posted and not done.
    live: Cell<usize>,
    /// A message did not take the device's fast path: the device may have other work.
    slow: Cell<bool>,
    /// The device's request that the call waits for.
    hint: Cell<Option<ReqId>>,
    /// The call waits for any of several requests.
    several: Cell<bool>,
}

/// One member's end of the messages among a group: ranks are those of the group. The caller of a
/// collective keeps the communicator, and so its context ids, while the collective is in flight.
#[derive(Clone, Copy)]
pub struct GroupChannel<'a> {
    mpi: &'a Mpi,
    comm: &'a Communicator,
    group: &'a Group,
    me: usize,
    traffic: Traffic,
    /// Longest message that is worth a try to receive it without a request.
    max_short: usize,
    state: &'a CallState<'a>,
}

impl<'a> Ctx<'a, GroupChannel<'a>> {
    /// A call of all members of `comm`, in its collective context.
    #[inline(always)]
    pub fn of_all(comm: &'a Communicator, tag: i32, state: &'a CallState<'a>) -> Self {
        let mpi = state.mpi;
        let hosts = comm.locality(mpi.locality());
        let channel = GroupChannel::new(comm, hosts, state);
        Ctx::new(channel, tag, Some(hosts), mpi.resources(), &state.live)
    }

    /// Partitioned messages with the peers of `comm`: on an intercommunicator with the other group.
    pub(crate) fn of_peers(comm: &'a Communicator, tag: i32, state: &'a CallState<'a>) -> Self {
        let mpi = state.mpi;
        let hosts = comm.locality(mpi.locality());
        let channel = GroupChannel {
            group: comm.peers(),
            traffic: Traffic::Partitioned,
            ..GroupChannel::new(comm, hosts, state)
        };
        Ctx::new(channel, tag, None, mpi.resources(), &state.live)
    }

    /// A call of the members of `group`, some of `comm`, with this traffic and tag.
    ///
    /// # Errors
    /// `Group` when this process is not among them.
    pub fn of_some(
        comm: &'a Communicator,
        group: &'a Group,
        (traffic, tag): (Traffic, i32),
        state: &'a CallState<'a>,
    ) -> Result<Self> {
        let me = group
            .rank()
            .ok_or_else(|| Error::new(ErrorClass::Group, "this process is not in the group"))?;
        let mpi = state.mpi;
        let hosts = comm.locality(mpi.locality());
        let channel = GroupChannel {
            group,
            me,
            traffic,
            ..GroupChannel::new(comm, hosts, state)
        };
        Ok(Ctx::new(channel, tag, None, mpi.resources(), &state.live))
    }
}

impl<'a> GroupChannel<'a> {
    #[inline(always)]
    fn new(comm: &'a Communicator, hosts: &Locality, state: &'a CallState<'a>) -> Self {
        // With several threads the slow path notifies the others.
        let fast = hosts.is_cheap_within() && !state.mpi.has_lock();
        Self {
            mpi: state.mpi,
            comm,
            group: comm.group(),
            me: comm.rank(),
            traffic: Traffic::Collective,
            max_short: if fast { MAX_BUFFERED } else { 0 },
            state,
        }
    }

    /// The runtime.
    pub(crate) fn mpi(self) -> &'a Mpi {
        self.mpi
    }

    /// The rank in the communicator of the group's `member`. Messages have this one: members of
    /// groups that overlap may have the same rank in them, and the messages of one sender to one
    /// receiver come in the order of the calls.
    #[inline(always)]
    fn rank_in_comm(self, member: usize) -> Result<usize> {
        match self.traffic {
            Traffic::Collective | Traffic::PointToPoint | Traffic::Partitioned => {
                return Ok(member);
            }
            Traffic::Creation | Traffic::Meeting => {}
        }
        let peer = self.comm.group().find(self.group.world_rank(member).0);
        peer.ok_or_else(|| Mpi::broken("a member is not in the communicator"))
    }

    #[inline(always)]
    fn pattern(self, from: usize, tag: i32) -> Result<Pattern> {
        Ok(Pattern {
            context: self.comm.context(self.traffic),
            source: Some(self.rank_in_comm(from)? as i32),
            tag: Some(tag),
            from: Some(self.group.world_rank(from)),
        })
    }

    /// The length of a message that was received.
    #[inline(always)]
    fn whole(self, done: &Completion) -> Result<usize> {
        match done.truncated {
            None => Ok(done.len as usize),
            Some(sent) => Err(self.truncated(done, sent)),
        }
    }

    #[cold]
    fn truncated(self, done: &Completion, sent: u64) -> Error {
        let source = of_the_job(self.comm.peers().world_rank(done.source as usize));
        mismatch((source, sent), (self.named(None), done.len))
    }
}

/// A process by the one number that all programs know of it: ranks of parts and of both groups of
/// an intercommunicator are the library's own.
fn of_the_job(process: Rank) -> String {
    format!("rank {process} of the job")
}

impl P2p for GroupChannel<'_> {
    type OutOfLine = OutOfLine<Self>;

    #[inline(always)]
    fn out_of_line(self) -> OutOfLine<Self> {
        OutOfLine(self)
    }

    #[inline(always)]
    fn rank(self) -> usize {
        self.me
    }

    #[inline(always)]
    fn size(self) -> usize {
        self.group.size()
    }

    #[cold]
    fn named(self, rank: Option<usize>) -> String {
        of_the_job(match rank {
            Some(rank) => self.group.world_rank(rank),
            None => self.comm.group().world_rank(self.comm.rank()),
        })
    }

    #[inline(always)]
    fn max_short(self) -> usize {
        self.max_short
    }

    #[inline(always)]
    unsafe fn isend(self, to: usize, tag: i32, buf: *const u8, len: usize) -> Result<Pending> {
        let world = self.group.world_rank(to);
        let peer = self.rank_in_comm(to)?;
        let env = Envelope {
            context: self.comm.context_at(peer, self.traffic),
            source: self.comm.rank() as i32,
            tag,
        };
        let mut attempt = SendAttempt::Untried;
        if len <= MAX_BUFFERED {
            let mut dev = self.mpi.dev_mut();
            // SAFETY: the caller's promise.
            attempt = unsafe { dev.try_send(world, &env, buf, len, Caller::Blocking) };
            if attempt == SendAttempt::Sent {
                return Ok(Pending::DONE);
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.state.isend(world, env, (buf, len), attempt) }
    }

    #[inline(always)]
    unsafe fn try_recv(
        self,
        from: usize,
        tag: i32,
        buf: *mut u8,
        len: usize,
    ) -> Result<Option<usize>> {
        let pattern = self.pattern(from, tag)?;
        // SAFETY: the caller's promise.
        let done = unsafe { self.mpi.dev_mut().try_recv(&pattern, buf, len) };
        match done {
            Some(done) => self.whole(&done).map(Some),
            None => Ok(None),
        }
    }

    #[inline(always)]
    unsafe fn irecv(self, from: usize, tag: i32, buf: *mut u8, len: usize) -> Result<Pending> {
        // SAFETY: the caller's promise.
        unsafe { self.state.irecv(&self.pattern(from, tag)?, buf, len) }
    }

    #[inline(always)]
    fn poll(self, pending: &mut Pending) -> Poll<Result<usize>> {
        let done = ready!(self.state.poll(ReqId(pending.raw())));
        Poll::Ready(self.whole(&done))
    }
}

impl<'a> CallState<'a> {
    /// No message yet.
    #[inline(always)]
    #[must_use]
    pub fn new(mpi: &'a Mpi) -> Self {
        Self {
            mpi,
            live: Cell::new(0),
            slow: Cell::new(false),
            hint: Cell::new(None),
            several: Cell::new(false),
        }
    }

    /// Continues a send that the device's fast path did not take.
    ///
    /// # Safety
    /// The conditions of [`P2p::isend`].
    #[inline(never)]
    unsafe fn isend(
        &self,
        world: Rank,
        env: Envelope,
        bytes: (*const u8, usize),
        attempt: SendAttempt,
    ) -> Result<Pending> {
        self.slow.set(true);
        if self.mpi.decider().logs() {
            // SAFETY: the caller's promise.
            let deferred = unsafe { self.mpi.order_send(world, env, bytes) }?;
            if let Some(deferred) = deferred {
                return Ok(Pending::new(deferred.0));
            }
        }
        // SAFETY: the caller's promise.
        let request = unsafe { issue(&mut self.mpi.dev_mut(), world, env, bytes, attempt) }?;
        Ok(request.map_or(Pending::DONE, |request| Pending::new(request.0)))
    }

    /// # Safety
    /// The conditions of [`P2p::irecv`].
    #[inline(never)]
    unsafe fn irecv(&self, pattern: &Pattern, buf: *mut u8, len: usize) -> Result<Pending> {
        self.slow.set(true);
        // SAFETY: the caller's promise.
        let request = unsafe { self.mpi.dev_mut().irecv(*pattern, buf, len)? };
        Ok(Pending::new(request.0))
    }

    #[inline(never)]
    fn poll(&self, request: ReqId) -> Poll<Completion> {
        if is_deferred(request) {
            return self.mpi.poll_deferred(request);
        }
        let done = self.mpi.dev_mut().poll(request);
        let pending = done.is_none().then_some(request);
        if self
            .hint
            .replace(pending)
            .is_some_and(|earlier| earlier != request)
        {
            self.several.set(true);
        }
        done.map_or(Poll::Pending, Poll::Ready)
    }

    /// Runs a collective of this call to its end on this stack.
    ///
    /// # Errors
    /// The errors of [`CallState::fail`], and when no messages can be moved.
    #[inline(always)]
    pub fn run(&self, initiated: Initiated<impl Future<Output = Result<()>>>) -> Result<()> {
        match initiated {
            Initiated::Done if !self.slow.get() => Ok(()),
            Initiated::Done => self.end(Ok(())),
            Initiated::Failed(error) => self.end(Err(error)),
            Initiated::Rest(rest) => self.wait(rest),
        }
    }

    /// Runs a future of this call to its end on this stack.
    ///
    /// # Errors
    /// The errors of [`CallState::run`].
    #[inline(never)]
    pub fn wait<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        // Its code is there once, for blocking and other calls.
        let future: Pin<&mut dyn Future<Output = Result<T>>> = pin!(future);
        let mut seen = self.mpi.events();
        self.end(block_on(future, || {
            let hint = self.hint.get();
            let one = hint.filter(|_| !self.several.take());
            let now = self.mpi.events();
            if one.is_none() && std::mem::replace(&mut seen, now) != now {
                // One step may accept the message of another, which no later event reports.
                return Ok(());
            }
            self.mpi
                .block(hint, one.map_or(Until::Event, Until::Complete))?;
            seen = self.mpi.events();
            Ok(())
        }))
    }

    /// The end of a call that left the device's fast path, or failed.
    #[inline(never)]
    fn end<T>(&self, result: Result<T>) -> Result<T> {
        let finished = |value| {
            self.mpi.dev_mut().poll_occasionally()?;
            self.mpi.await_links()?;
            Ok(value)
        };
        result.and_then(finished).map_err(|e| self.fail(e))
    }

    /// A collective failed. If messages of it are still in flight, they name memory that the
    /// program may now reuse: then nothing is moved any more.
    #[cold]
    pub(crate) fn fail(&self, error: Error) -> Error {
        if self.live.get() == 0 {
            return error;
        }
        self.mpi.dev_mut().fail(error)
    }
}
