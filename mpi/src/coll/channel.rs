//! Collective messages over the device.

use std::cell::Cell;
use std::rc::Rc;
use std::task::Poll;

use super::p2p::{P2p, Pending};
use crate::adi::{Envelope, Mode, Pattern, ReqId};
use crate::comm::{Communicator, Traffic};
use crate::error::{Error, ErrorClass, Result};
use crate::runtime::Mpi;

/// A communicator's collective context. Keeps the communicator while a collective is in flight.
pub struct Channel {
    mpi: Rc<Mpi>,
    comm: Rc<Communicator>,
    hint: Cell<Option<ReqId>>,
}

impl Channel {
    /// The channel of `comm`.
    pub fn new(mpi: &Mpi, comm: &Rc<Communicator>) -> Self {
        Self {
            mpi: mpi.rc(),
            comm: comm.clone(),
            hint: Cell::new(None),
        }
    }

    /// The request that was waited for last: its link is the one to look at first.
    pub(super) fn hint(&self) -> Option<ReqId> {
        self.hint.get()
    }

    /// Shuts the device, see [`crate::adi::Dev::fail`].
    pub(super) fn shut(&self, error: Error) -> Error {
        self.mpi.dev.borrow_mut().fail(error)
    }

    fn truncated(&self, source: i32, sent: u64, room: u64) -> Error {
        Error::new(
            ErrorClass::Truncate,
            format!(
                "collective: rank {source} sent {sent} bytes where rank {} expected {room}; the ranks' counts or datatypes differ",
                self.comm.rank()
            ),
        )
    }
}

impl P2p for Channel {
    fn rank(&self) -> usize {
        self.comm.rank()
    }

    fn size(&self) -> usize {
        self.comm.size()
    }

    unsafe fn isend(&self, to: usize, tag: i32, buf: *const u8, len: usize) -> Result<Pending> {
        let env = Envelope {
            context: self.comm.context(Traffic::Collective),
            source: self.comm.rank() as i32,
            tag,
        };
        let world = self.comm.group().world_rank(to);
        let mut dev = self.mpi.dev.borrow_mut();
        // SAFETY: the caller's promise.
        let request = unsafe { dev.isend(world, env, buf, len, Mode::Standard)? };
        // The device's "complete at once" is the same number as ours.
        Ok(Pending::new(request.0))
    }

    unsafe fn irecv(&self, from: usize, tag: i32, buf: *mut u8, len: usize) -> Result<Pending> {
        let pattern = Pattern {
            context: self.comm.context(Traffic::Collective),
            source: Some(from as i32),
            tag: Some(tag),
            from: Some(self.comm.group().world_rank(from)),
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
