//! Collective calls as values: run to their end, in the background, or again and again.

use std::rc::Rc;

use super::channel::Channel;
use super::ctx::Ctx;
use super::typed::{self, Shares, Typed};
use super::{Tuning, barrier, quick};
use crate::comm::Communicator;
use crate::error::{Error, ErrorClass, Result};
use crate::op::Op;
use crate::request::{RequestId, Task};
use crate::runtime::Mpi;
use crate::status::{Completed, Status};

/// A collective and its arguments. Buffers that `MPI_IN_PLACE` stands for, or that are not
/// significant on this rank, are `None`. Blocks for all ranks lie one after the other from the
/// buffer given for one; v and w forms have one buffer for each rank (none where they are not
/// significant).
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the fields are the standard's arguments")]
pub enum Call {
    /// `MPI_Barrier`.
    Barrier,
    /// `MPI_Bcast`.
    Bcast { data: Typed, root: usize },
    /// `MPI_Gather`.
    Gather {
        send: Option<Typed>,
        recv: Option<Typed>,
        root: usize,
    },
    /// `MPI_Gatherv`.
    Gatherv {
        send: Option<Typed>,
        recv: Vec<Typed>,
        root: usize,
    },
    /// `MPI_Scatter`.
    Scatter {
        send: Option<Typed>,
        recv: Option<Typed>,
        root: usize,
    },
    /// `MPI_Scatterv`.
    Scatterv {
        send: Vec<Typed>,
        recv: Option<Typed>,
        root: usize,
    },
    /// `MPI_Allgather`.
    Allgather { send: Option<Typed>, recv: Typed },
    /// `MPI_Allgatherv`.
    Allgatherv {
        send: Option<Typed>,
        recv: Vec<Typed>,
    },
    /// `MPI_Alltoall`.
    Alltoall { send: Option<Typed>, recv: Typed },
    /// `MPI_Alltoallv` and `MPI_Alltoallw`.
    Alltoallv {
        send: Option<Vec<Typed>>,
        recv: Vec<Typed>,
    },
    /// `MPI_Reduce`.
    Reduce {
        op: Rc<Op>,
        send: Option<Typed>,
        recv: Option<Typed>,
        root: usize,
    },
    /// `MPI_Allreduce`.
    Allreduce {
        op: Rc<Op>,
        send: Option<Typed>,
        recv: Typed,
    },
    /// `MPI_Reduce_scatter_block` and `MPI_Reduce_scatter`; in place, `recv` is the whole vector.
    ReduceScatter {
        op: Rc<Op>,
        send: Option<Typed>,
        recv: Typed,
        shares: Shares,
    },
    /// `MPI_Scan` and `MPI_Exscan`.
    Scan {
        op: Rc<Op>,
        send: Option<Typed>,
        recv: Typed,
        exclusive: bool,
    },
}

/// Makes the future of a call and does something with it: a blocking call gets the small future of
/// its operation, not one with room for every operation.
macro_rules! with_future {
    ($ctx:expr, $call:expr, $future:ident => $run:expr) => {
        match $call {
            Call::Barrier => {
                let $future = barrier($ctx);
                $run
            }
            Call::Bcast { data, root } => {
                let $future = typed::bcast($ctx, data, *root);
                $run
            }
            Call::Gather { send, recv, root } => {
                let $future = typed::gather($ctx, send, recv, *root);
                $run
            }
            Call::Gatherv { send, recv, root } => {
                let $future = typed::gatherv($ctx, send, recv, *root);
                $run
            }
            Call::Scatter { send, recv, root } => {
                let $future = typed::scatter($ctx, send, recv, *root);
                $run
            }
            Call::Scatterv { send, recv, root } => {
                let $future = typed::scatterv($ctx, send, recv, *root);
                $run
            }
            Call::Allgather { send, recv } => {
                let $future = typed::allgather($ctx, send, recv);
                $run
            }
            Call::Allgatherv { send, recv } => {
                let $future = typed::allgatherv($ctx, send, recv);
                $run
            }
            Call::Alltoall { send, recv } => {
                let $future = typed::alltoall($ctx, send, recv);
                $run
            }
            Call::Alltoallv { send, recv } => {
                let $future = typed::alltoallv($ctx, send, recv);
                $run
            }
            Call::Reduce {
                op,
                send,
                recv,
                root,
            } => {
                let $future = typed::reduce($ctx, op, send, recv, *root);
                $run
            }
            Call::Allreduce { op, send, recv } => {
                let $future = typed::allreduce($ctx, op, send, recv);
                $run
            }
            Call::ReduceScatter {
                op,
                send,
                recv,
                shares,
            } => {
                let $future = typed::reduce_scatter($ctx, op, send, recv, shares);
                $run
            }
            Call::Scan {
                op,
                send,
                recv,
                exclusive,
            } => {
                let $future = typed::scan($ctx, op, send, recv, *exclusive);
                $run
            }
        }
    };
}

/// How a collective is called, as the highest bits of its tags.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Kind {
    Blocking = 0,
    Nonblocking = 1 << 28,
    /// These keep their tag for as long as they live.
    Persistent = 1 << 29,
}

#[inline]
pub(super) fn next_tag(comm: &Communicator, kind: Kind) -> i32 {
    let number = comm.next_collective(kind == Kind::Blocking) & (Kind::Nonblocking as u32 - 1);
    (number | kind as u32) as i32
}

fn intra(comm: &Communicator) -> Result<()> {
    if comm.is_inter() {
        let text = "collectives on inter-communicators are not implemented yet in Rejoin";
        return Err(Error::new(ErrorClass::UnsupportedOperation, text));
    }
    Ok(())
}

#[inline]
fn context<'a>(mpi: &'a Mpi, comm: &'a Communicator, tag: i32) -> Ctx<Channel<'a>> {
    Ctx::new(Channel::new(mpi, comm), tag).with_tuning(mpi.tuning)
}

fn task(mpi: Rc<Mpi>, comm: Rc<Communicator>, tag: i32, call: Rc<Call>) -> Task {
    Box::pin(async move {
        let ctx = context(&mpi, &comm, tag);
        let result = with_future!(&ctx, &*call, future => future.await);
        Completed {
            status: Status::EMPTY,
            error: result.err().map(|e| ctx.given_up(e)),
        }
    })
}

impl Mpi {
    /// Runs a collective to its end. All ranks of `comm` make the same calls in the same order.
    ///
    /// # Errors
    /// Those of the collective; `UnsupportedOperation` on an inter-communicator.
    pub fn collective(&self, comm: &Rc<Communicator>, call: &Call) -> Result<()> {
        self.collective_with(comm, call, self.tuning)
    }

    /// [`Mpi::collective`] with algorithms of the caller's tuning (tests and benches).
    ///
    /// # Errors
    /// As [`Mpi::collective`].
    pub fn collective_with(
        &self,
        comm: &Rc<Communicator>,
        call: &Call,
        tuning: Tuning,
    ) -> Result<()> {
        intra(comm)?;
        let tag = next_tag(comm, Kind::Blocking);
        if let Some(result) = quick::run(self, comm, tag, call, &tuning) {
            return result;
        }
        let ctx = context(self, comm, tag).with_tuning(tuning);
        with_future!(&ctx, call, future => ctx.run(future))
    }

    /// Starts a nonblocking collective (MPI-5.0 §6.12).
    ///
    /// # Errors
    /// `UnsupportedOperation` on an inter-communicator; all others come with the request's
    /// completion.
    pub fn start_collective(&self, comm: &Rc<Communicator>, call: Call) -> Result<RequestId> {
        intra(comm)?;
        let tag = next_tag(comm, Kind::Nonblocking);
        let task = task(self.rc(), comm.clone(), tag, Rc::new(call));
        Ok(self.start_task(Some(comm), task))
    }

    /// Sets up a persistent collective (MPI-5.0 §6.13). Its tag is given here, so starts need not
    /// have one order.
    ///
    /// # Errors
    /// As [`Mpi::start_collective`].
    pub fn collective_init(&self, comm: &Rc<Communicator>, call: Call) -> Result<RequestId> {
        intra(comm)?;
        let tag = next_tag(comm, Kind::Persistent);
        let (this, call, on) = (Rc::downgrade(&self.rc()), Rc::new(call), comm.clone());
        let make = move || -> Task {
            match this.upgrade() {
                Some(mpi) => task(mpi, on.clone(), tag, call.clone()),
                None => Box::pin(std::future::ready(Completed {
                    status: Status::EMPTY,
                    error: Some(Mpi::broken("a collective was started without a library")),
                })),
            }
        };
        Ok(self.task_init(comm, Box::new(make)))
    }
}
