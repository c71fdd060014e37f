//! Send and receive in one call (MPI-5.0 §3.11).

use super::{Data, SendMode, Staging};
use crate::check;
use crate::comm::Communicator;
use crate::datatype::{Datatype, Named};
use crate::error::{Error, Result};
use crate::request::{RequestId, Task};
use crate::runtime::Mpi;
use crate::status::{Completed, PROC_NULL, Status};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

/// Peer and tag of one side.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeSide {
    /// Rank of the peer.
    pub peer: i32,
    /// Tag.
    pub tag: i32,
}

/// A task that ends when both requests have; it has the status of the receive.
fn both(mpi: &Mpi, send: RequestId, recv: RequestId, replace: Option<Staging>) -> Task {
    let mpi = mpi.rc();
    Box::pin(async move {
        let mut left = [Some(send), Some(recv)];
        let mut said = [const { None::<Completed> }; 2];
        poll_fn(|_| {
            for (id, said) in left.iter_mut().zip(&mut said) {
                if let Some(done) = id.and_then(|id| finished(&mpi, id)) {
                    *id = None;
                    *said = Some(done);
                }
            }
            match left {
                [None, None] => Poll::Ready(()),
                _ => Poll::Pending,
            }
        })
        .await;
        drop(replace);
        let [sent, received] = said;
        let mut done = received.unwrap_or(Completed::ok(Status::EMPTY));
        done.error = done.error.or(sent.and_then(|s| s.error));
        done
    })
}

fn finished(mpi: &Mpi, id: RequestId) -> Option<Completed> {
    match mpi.try_finish(id) {
        Ok(done) => done,
        Err(e) => Some(Completed {
            status: Status::EMPTY,
            error: Some(e),
        }),
    }
}

impl Mpi {
    /// Takes back the receive `r` of an operation that cannot continue because of `error`, so that
    /// nothing is written to its buffer any more.
    #[cold]
    fn withdraw(&self, r: RequestId, error: Error) -> Error {
        // Cancelled, or complete because its message is here already, or the device is shut.
        let _ = self.cancel(r).and_then(|()| self.wait(r));
        error
    }

    fn check_sides(&self, to: ExchangeSide, from: ExchangeSide, comm: &Communicator) -> Result<()> {
        check::destination(to.peer, comm)?;
        check::tag(to.tag)?;
        check::source(from.peer, comm)?;
        check::tag_or_any(from.tag)
    }

    /// `MPI_Sendrecv`.
    ///
    /// # Safety
    /// The elements of `send` are readable, those of `recv` writable, until the call returns.
    pub unsafe fn sendrecv(
        &self,
        send: &Data<'_>,
        to: ExchangeSide,
        recv: &Data<'_>,
        from: ExchangeSide,
        comm: &Rc<Communicator>,
    ) -> Result<Completed> {
        self.check_sides(to, from, comm)?;
        send.check()?;
        // SAFETY: the caller's, as this call waits for both.
        let r = unsafe { self.irecv(recv, from.peer, from.tag, comm) }?;
        // SAFETY: as above.
        let sent = unsafe { self.send(send, to.peer, to.tag, comm, SendMode::Standard) };
        match sent {
            Ok(()) => self.wait(r),
            Err(e) => Err(self.withdraw(r, e)),
        }
    }

    /// `MPI_Sendrecv_replace`: sends a packed copy, so that the buffer is free for the received
    /// message.
    ///
    /// # Safety
    /// The elements are readable and writable until the call returns.
    pub unsafe fn sendrecv_replace(
        &self,
        data: &Data<'_>,
        to: ExchangeSide,
        from: ExchangeSide,
        comm: &Rc<Communicator>,
    ) -> Result<Completed> {
        // SAFETY: the caller's, as this call waits.
        let id = unsafe { self.isendrecv_replace(data, to, from, comm) }?;
        self.wait(id)
    }

    /// `MPI_Isendrecv`.
    ///
    /// # Safety
    /// The conditions of [`Mpi::sendrecv`], until the request completes.
    pub unsafe fn isendrecv(
        &self,
        send: &Data<'_>,
        to: ExchangeSide,
        recv: &Data<'_>,
        from: ExchangeSide,
        comm: &Rc<Communicator>,
    ) -> Result<RequestId> {
        self.check_sides(to, from, comm)?;
        send.check()?;
        // SAFETY: the caller's.
        let r = unsafe { self.irecv(recv, from.peer, from.tag, comm) }?;
        // SAFETY: the caller's.
        match unsafe { self.isend(send, to.peer, to.tag, comm, SendMode::Standard) } {
            Ok(s) => Ok(self.start_task(Some(comm), both(self, s, r, None))),
            Err(e) => Err(self.withdraw(r, e)),
        }
    }

    /// `MPI_Isendrecv_replace`.
    ///
    /// # Safety
    /// The conditions of [`Mpi::sendrecv_replace`], until the request completes.
    pub unsafe fn isendrecv_replace(
        &self,
        data: &Data<'_>,
        to: ExchangeSide,
        from: ExchangeSide,
        comm: &Rc<Communicator>,
    ) -> Result<RequestId> {
        self.check_sides(to, from, comm)?;
        data.check()?;
        if to.peer == PROC_NULL && from.peer == PROC_NULL {
            let done = Completed::ok(Status::PROC_NULL);
            return Ok(self.start_task(Some(comm), Box::pin(async move { done })));
        }
        // SAFETY: the caller's.
        let mut copy = Staging::of_send(unsafe { data.pack() }?);
        let (addr, len) = copy.bytes();
        // SAFETY: the caller's.
        let r = unsafe { self.irecv(data, from.peer, from.tag, comm) }?;
        let byte = Datatype::named(Named::Byte);
        let packed = Data::new(addr, len as i64, &byte);
        // SAFETY: the task keeps the copy until both are complete.
        match unsafe { self.isend(&packed, to.peer, to.tag, comm, SendMode::Standard) } {
            Ok(s) => Ok(self.start_task(Some(comm), both(self, s, r, Some(copy)))),
            Err(e) => Err(self.withdraw(r, e)),
        }
    }
}
