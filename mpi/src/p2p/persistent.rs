//! Persistent requests (MPI-5.0 §3.9): set up once, started many times.

use super::{Data, SendMode};
use crate::check;
use crate::comm::Communicator;
use crate::error::Result;
use crate::request::{Persistent, RequestId, Started, Task};
use crate::runtime::Mpi;
use std::rc::Rc;

impl Mpi {
    /// `MPI_Send_init` and its modes.
    pub fn send_init(
        &self,
        data: &Data<'_>,
        dest: i32,
        tag: i32,
        comm: &Rc<Communicator>,
        mode: SendMode,
    ) -> Result<RequestId> {
        check::destination(dest, comm)?;
        check::tag(tag)?;
        data.check()?;
        let elements = data.to_typed();
        Ok(self.enter_persistent(Persistent::Send(elements, dest, tag, mode), comm))
    }

    /// `MPI_Recv_init`.
    pub fn recv_init(
        &self,
        data: &Data<'_>,
        source: i32,
        tag: i32,
        comm: &Rc<Communicator>,
    ) -> Result<RequestId> {
        check::source(source, comm)?;
        check::tag_or_any(tag)?;
        data.check()?;
        Ok(self.enter_persistent(Persistent::Recv(data.to_typed(), source, tag), comm))
    }

    /// A persistent collective: every start runs a task that `make` makes.
    pub fn task_init(&self, comm: &Rc<Communicator>, make: Box<dyn Fn() -> Task>) -> RequestId {
        self.enter_persistent(Persistent::Task(make), comm)
    }

    /// `MPI_Start`; `MPI_Startall` is a loop over it.
    ///
    /// # Safety
    /// The elements given at the set-up are valid, as for the nonblocking call, until completion.
    pub unsafe fn start(&self, id: RequestId) -> Result<()> {
        let (persistent, comm) = self.startable(id)?;
        let started = match &*persistent {
            Persistent::Send(elements, dest, tag, mode) => {
                // SAFETY: the caller's.
                unsafe { self.post_send(&elements.data(), *dest, *tag, &comm, *mode) }?
            }
            Persistent::Recv(elements, source, tag) => {
                // SAFETY: the caller's.
                unsafe { self.post_recv(&elements.data(), *source, *tag, &comm) }?
            }
            Persistent::Task(make) | Persistent::Partitioned(_, make) => Started::task(make()),
        };
        self.start_request(id, started)
    }
}
