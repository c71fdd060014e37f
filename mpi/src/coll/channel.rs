//! Collective messages over the device.

use std::cell::Cell;
use std::rc::Rc;
use std::task::Poll;

use super::ctx::Ctx;
use super::hosts::Hosts;
use super::p2p::{P2p, Pending};
use super::run::block_on;
use crate::adi::{Envelope, Mode, Pattern, ReqId};
use crate::comm::{Communicator, Traffic};
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;
use crate::runtime::Mpi;
use rejoin_channel_table::Rank;

/// Messages up to this are copied and go at once: others wait for them.
const AT_ONCE: usize = 8 << 10;

/// One member's end of the messages among a group: ranks are those of the group. Keeps the communicator, and
/// so its context ids, while a collective is in flight.
pub struct Channel {
    mpi: Rc<Mpi>,
    comm: Rc<Communicator>,
    group: Rc<Group>,
    me: usize,
    traffic: Traffic,
    /// Which of all members share a host.
    hosts: Option<Rc<Hosts>>,
    hint: Cell<Option<ReqId>>,
}

/// Which ranks of `comm` share a host, as the job's table says: it says the same to all of them.
pub(super) fn hosts(mpi: &Mpi, comm: &Communicator) -> Hosts {
    let (dev, group) = (mpi.dev.borrow(), comm.group());
    let same = |a, b| dev.same_host(group.world_rank(a), group.world_rank(b));
    Hosts::new(comm.size(), same)
}

impl Channel {
    /// All members of `comm`, in its collective context.
    pub fn new(mpi: &Mpi, comm: &Rc<Communicator>) -> Self {
        Self {
            mpi: mpi.rc(),
            comm: comm.clone(),
            group: comm.group().clone(),
            me: comm.rank(),
            traffic: Traffic::Collective,
            hosts: Some(comm.hosts(|| hosts(mpi, comm)).clone()),
            hint: Cell::new(None),
        }
    }

    /// The members of `group`, some of `comm`, in its context for them.
    ///
    /// # Errors
    /// `Group` when this process is not among them.
    pub fn part(mpi: &Mpi, comm: &Rc<Communicator>, group: &Rc<Group>) -> Result<Self> {
        let me = group
            .rank()
            .ok_or_else(|| Error::new(ErrorClass::Group, "this process is not in the group"))?;
        Ok(Self {
            group: group.clone(),
            me,
            traffic: Traffic::Creation,
            hosts: None,
            ..Self::new(mpi, comm)
        })
    }

    /// The runtime.
    pub(crate) fn mpi(&self) -> &Mpi {
        &self.mpi
    }

    /// Context id of messages to the member `to`, of this world rank.
    #[inline]
    fn context_at(&self, to: usize, world: Rank) -> Result<u32> {
        let whole = self.traffic == Traffic::Collective;
        let peer = if whole {
            Some(to)
        } else {
            self.comm.group().find(world.0)
        };
        let peer = peer.ok_or_else(|| Mpi::broken("a member is not in the communicator"))?;
        Ok(self.comm.context_at(peer, self.traffic))
    }

    /// Moves messages until something has happened, as a blocking call does that waits for what it has polled last.
    pub(super) fn wait(&self) -> Result<()> {
        self.mpi.block(self.hint.get())
    }

    fn truncated(&self, source: i32, sent: u64, room: u64) -> Error {
        Error::new(
            ErrorClass::Truncate,
            format!(
                "collective: rank {source} sent {sent} bytes where rank {} expected {room}; the ranks' counts or datatypes differ",
                self.me
            ),
        )
    }
}

impl P2p for Channel {
    #[inline]
    fn rank(&self) -> usize {
        self.me
    }

    #[inline]
    fn size(&self) -> usize {
        self.group.size()
    }

    #[inline]
    fn hosts(&self) -> Option<&Hosts> {
        self.hosts.as_deref()
    }

    unsafe fn isend(&self, to: usize, tag: i32, buf: *const u8, len: usize) -> Result<Pending> {
        let world = self.group.world_rank(to);
        let env = Envelope {
            context: self.context_at(to, world)?,
            source: self.me as i32,
            tag,
        };
        let mut dev = self.mpi.dev.borrow_mut();
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

    unsafe fn irecv(&self, from: usize, tag: i32, buf: *mut u8, len: usize) -> Result<Pending> {
        let pattern = Pattern {
            context: self.comm.context(self.traffic),
            source: Some(from as i32),
            tag: Some(tag),
            from: Some(self.group.world_rank(from)),
        };
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
        match done.truncated {
            Some(sent) => Poll::Ready(Err(self.truncated(done.source, sent, done.len))),
            None => Poll::Ready(Ok(done.len as usize)),
        }
    }
}

impl Ctx<Channel> {
    /// Runs a collective of this call to its end on this stack.
    ///
    /// # Errors
    /// As [`Ctx::given_up`], and when no messages can be moved.
    pub fn run<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        let channel = self.p2p();
        let wait = || channel.wait();
        let done = block_on(future, wait).and_then(|done| {
            channel.mpi.await_links()?;
            Ok(done)
        });
        done.map_err(|e| self.given_up(e))
    }

    /// A collective failed. If messages of it are still in flight, they name memory that the program may now
    /// reuse: then nothing is moved any more.
    #[cold]
    pub(crate) fn given_up(&self, error: Error) -> Error {
        if self.in_flight() == 0 {
            return error;
        }
        self.p2p().mpi.dev.borrow_mut().fail(error)
    }
}
