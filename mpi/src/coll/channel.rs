//! Collective messages over the device.

use std::cell::Cell;
use std::task::Poll;

use super::ctx::Ctx;
use super::locality::Locality;
use super::p2p::{P2p, Pending};
use super::run::block_on;
use super::scratch::Scratch;
use crate::adi::{Caller, Completion, Envelope, Mode, Pattern, Rank, ReqId};
use crate::comm::{Communicator, Traffic};
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;
use crate::runtime::Mpi;

/// Messages up to this are copied and go at once: others wait for them.
const AT_ONCE: usize = 8 << 10;

/// One member's end of the messages among a group: ranks are those of the group. Whoever runs a
/// collective keeps the communicator, and so its context ids, while the collective is in flight.
pub struct Channel<'a> {
    mpi: &'a Mpi,
    comm: &'a Communicator,
    group: &'a Group,
    me: usize,
    traffic: Traffic,
    /// Which of all members share a host.
    hosts: Option<&'a Locality>,
    /// Longest message that is worth a try to receive it at once.
    max_short: usize,
    /// A message did not take the device's fast path: the device may have other things to look
    /// after.
    slow: Cell<bool>,
    hint: Cell<Option<ReqId>>,
}

/// Which ranks of `comm` share a host, as the job's table says: it says the same to all of them.
pub(super) fn hosts(mpi: &Mpi, comm: &Communicator) -> Locality {
    let (dev, group) = (mpi.dev.borrow(), comm.group());
    let same = |a, b| dev.same_host(group.world_rank(a), group.world_rank(b));
    Locality::new(comm.size(), dev.local_cost(), same)
}

impl<'a> Channel<'a> {
    /// All members of `comm`, in its collective context.
    #[inline]
    pub fn new(mpi: &'a Mpi, comm: &'a Communicator) -> Self {
        let hosts = comm.hosts(|| hosts(mpi, comm));
        // With several threads the slow path tells the others what it does.
        let fast = hosts.is_cheap_within() && !mpi.has_lock();
        Self {
            mpi,
            comm,
            group: comm.group(),
            me: comm.rank(),
            traffic: Traffic::Collective,
            hosts: Some(hosts),
            max_short: if fast { AT_ONCE } else { 0 },
            slow: Cell::new(false),
            hint: Cell::new(None),
        }
    }

    /// The members of `group`, some of `comm`, in its context for them.
    ///
    /// # Errors
    /// `Group` when this process is not among them.
    pub fn part(mpi: &'a Mpi, comm: &'a Communicator, group: &'a Group) -> Result<Self> {
        let me = group
            .rank()
            .ok_or_else(|| Error::new(ErrorClass::Group, "this process is not in the group"))?;
        Ok(Self {
            group,
            me,
            traffic: Traffic::Creation,
            hosts: None,
            ..Self::new(mpi, comm)
        })
    }

    /// The runtime.
    pub(crate) fn mpi(&self) -> &'a Mpi {
        self.mpi
    }

    /// Context id of messages to the member `to`, of this world rank.
    #[inline]
    fn context_at(&self, to: usize, world: Rank) -> Result<u32> {
        if self.traffic == Traffic::Collective {
            return Ok(self.comm.context_at(to, Traffic::Collective));
        }
        let peer = self.comm.group().find(world.0);
        let peer = peer.ok_or_else(|| Mpi::broken("a member is not in the communicator"))?;
        Ok(self.comm.context_at(peer, self.traffic))
    }

    #[inline]
    fn pattern(&self, from: usize, tag: i32) -> Pattern {
        Pattern {
            context: self.comm.context(self.traffic),
            source: Some(from as i32),
            tag: Some(tag),
            from: Some(self.group.world_rank(from)),
        }
    }

    /// The length of a message that was received.
    #[inline]
    fn whole(&self, done: &Completion) -> Result<usize> {
        match done.truncated {
            None => Ok(done.len as usize),
            Some(sent) => Err(self.truncated(done.source, sent, done.len)),
        }
    }

    #[cold]
    fn truncated(&self, source: i32, sent: u64, room: u64) -> Error {
        let text = format!(
            "collective: rank {source} sent {sent} bytes where rank {} expected {room}; \
             the ranks' counts or datatypes differ",
            self.me
        );
        Error::new(ErrorClass::Truncate, text)
    }
}

impl P2p for Channel<'_> {
    #[inline]
    fn rank(&self) -> usize {
        self.me
    }

    #[inline]
    fn size(&self) -> usize {
        self.group.size()
    }

    #[inline]
    fn hosts(&self) -> Option<&Locality> {
        self.hosts
    }

    #[inline]
    fn scratch(&self) -> &Scratch {
        &self.mpi.scratch
    }

    #[inline]
    fn max_short(&self) -> usize {
        self.max_short
    }

    #[inline]
    unsafe fn isend(&self, to: usize, tag: i32, buf: *const u8, len: usize) -> Result<Pending> {
        let world = self.group.world_rank(to);
        let env = Envelope {
            context: self.context_at(to, world)?,
            source: self.me as i32,
            tag,
        };
        let mut dev = self.mpi.dev.borrow_mut();
        // SAFETY: the caller's promise.
        if len <= AT_ONCE && unsafe { dev.try_send(world, &env, buf, len, Caller::Blocking) } {
            return Ok(Pending::DONE);
        }
        self.slow.set(true);
        if len <= AT_ONCE {
            // SAFETY: the caller's promise.
            let request = unsafe { dev.send(world, env, buf, len)? };
            return Ok(request.map_or(Pending::DONE, |request| Pending::new(request.0)));
        }
        // SAFETY: the caller's promise.
        let request = unsafe { dev.isend(world, env, buf, len, Mode::Standard)? };
        // The device's "complete at once" is the same number as ours.
        Ok(Pending::new(request.0))
    }

    #[inline]
    unsafe fn try_recv(
        &self,
        from: usize,
        tag: i32,
        buf: *mut u8,
        len: usize,
    ) -> Result<Option<usize>> {
        let pattern = self.pattern(from, tag);
        // SAFETY: the caller's promise.
        let done = unsafe { self.mpi.dev.borrow_mut().try_recv(&pattern, buf, len) };
        done.map(|done| self.whole(&done)).transpose()
    }

    unsafe fn irecv(&self, from: usize, tag: i32, buf: *mut u8, len: usize) -> Result<Pending> {
        self.slow.set(true);
        let pattern = self.pattern(from, tag);
        let mut dev = self.mpi.dev.borrow_mut();
        // SAFETY: the caller's promise.
        let request = unsafe { dev.irecv(pattern, buf, len)? };
        Ok(Pending::new(request.0))
    }

    fn poll(&self, pending: &mut Pending) -> Poll<Result<usize>> {
        let request = ReqId(pending.raw());
        let Some(done) = self.mpi.dev.borrow_mut().poll(request) else {
            self.hint.set(Some(request));
            return Poll::Pending;
        };
        self.hint.set(None);
        Poll::Ready(self.whole(&done))
    }
}

impl Ctx<Channel<'_>> {
    /// Runs a collective of this call to its end on this stack.
    ///
    /// # Errors
    /// As [`Ctx::given_up`], and when no messages can be moved.
    #[inline]
    pub fn run<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        let channel = self.p2p();
        let result = block_on(future, || channel.mpi.block(channel.hint.get()));
        if result.is_ok() && !channel.slow.get() {
            return result;
        }
        let attended = |value| {
            channel.mpi.dev.borrow_mut().attend()?;
            channel.mpi.await_links()?;
            Ok(value)
        };
        result.and_then(attended).map_err(|e| self.given_up(e))
    }

    /// A collective failed. If messages of it are still in flight, they name memory that the
    /// program may now reuse: then nothing is moved any more.
    #[cold]
    pub(crate) fn given_up(&self, error: Error) -> Error {
        if self.in_flight() == 0 {
            return error;
        }
        self.p2p().mpi.dev.borrow_mut().fail(error)
    }
}
