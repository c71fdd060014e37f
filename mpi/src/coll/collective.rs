//! Collective calls as values: run to their end, in the background, or repeatedly.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use super::neighborhood::Neighborhood;
use super::typed::{self, Between, Shares};
use crate::coll as bytes;
use crate::coll::call::{CallState, Ctx, GroupChannel, Initiated};
use crate::comm::Communicator;
use crate::error::Result;
use crate::op::Op;
use crate::p2p::Typed;
use crate::request::{RequestId, Task};
use crate::runtime::Mpi;
use crate::status::{Completed, Status};

/// A collective and its arguments.
///
/// ```
/// use rejoin_mpi::Mpi;
/// use rejoin_mpi::coll::Allreduce;
/// use rejoin_mpi::datatype::{Datatype, Named};
/// use rejoin_mpi::op::{Builtin, Op};
/// use rejoin_mpi::p2p::Typed;
///
/// let mpi = Mpi::init()?;
/// let int = Datatype::named(Named::Int);
/// let (mut mine, mut sum) = (5i32, 0i32);
/// // SAFETY: both numbers stay until the call returns.
/// let (send, recv) = unsafe {
///     let mine = Typed::new((&raw mut mine).cast(), 1, int.clone());
///     (mine, Typed::new((&raw mut sum).cast(), 1, int))
/// };
/// let op = Op::builtin(Builtin::Sum);
/// let send = Some(send);
/// mpi.collective(mpi.world(), &Allreduce { op, send, recv })?;
/// assert_eq!(sum, 5);
/// # Ok::<(), rejoin_mpi::Error>(())
/// ```
///
/// A buffer is `None` with `MPI_IN_PLACE`, or if it is not significant on this rank. On an
/// intercommunicator a root is a rank of the other group, [`ROOT_HERE`](crate::status::ROOT_HERE),
/// or [`ROOT_BESIDE`](crate::status::ROOT_BESIDE), and nothing is in place. Blocks for all ranks
/// are contiguous from the given buffer. The v and w forms have one buffer for each rank, or none
/// where they are not significant.
pub trait Collective: Clone + 'static {
    /// Runs it to its end.
    ///
    /// # Errors
    /// The errors of [`Mpi::collective`].
    fn run(&self, mpi: &Mpi, comm: &Communicator) -> Result<()>;

    /// All of it, with a tag of its own, in the background.
    fn task(self, mpi: Rc<Mpi>, comm: Rc<Communicator>, tag: i32) -> Task;

    /// All of it on an intercommunicator.
    fn between<'a>(&'a self, call: Between<'a>) -> LocalFuture<'a>;
}

/// A collective that runs, as a value of one size.
pub type LocalFuture<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// The type of a collective's arguments, and how it begins.
macro_rules! collectives {
    ($($words:literal $name:ident { $($field:ident: $type:ty),* }
        $(#[$inline:meta])? |$this:ident, $ctx:ident| $begin:expr,
        |$call:ident| $between:expr;)*) => {$(
        #[doc = concat!("Arguments of ", $words, ".")]
        #[derive(Clone, Debug)]
        #[allow(missing_docs, reason = "the fields are the standard's arguments")]
        pub struct $name {
            $(pub $field: $type,)*
        }

        impl $name {
            /// Does all that needs no waiting; the rest is a future.
            $(#[$inline])?
            fn begin<'a>(
                &'a self,
                $ctx: Ctx<'a, GroupChannel<'a>>,
            ) -> Initiated<impl Future<Output = Result<()>>> {
                let $this = self;
                $begin
            }
        }

        impl Collective for $name {
            fn run(&self, mpi: &Mpi, comm: &Communicator) -> Result<()> {
                let state = CallState::new(mpi);
                let tag = next_tag(comm, CallKind::Blocking);
                state.run(self.begin(Ctx::of_all(comm, tag, &state)))
            }

            fn task(self, mpi: Rc<Mpi>, comm: Rc<Communicator>, tag: i32) -> Task {
                Box::pin(async move {
                    let state = CallState::new(&mpi);
                    let result = self.begin(Ctx::of_all(&comm, tag, &state)).finish().await;
                    Completed {
                        status: Status::EMPTY,
                        error: result.err().map(|e| state.fail(e)),
                    }
                })
            }

            #[allow(unused_variables, reason = "not all have arguments")]
            fn between<'a>(&'a self, $call: Between<'a>) -> LocalFuture<'a> {
                let $this = self;
                Box::pin($between)
            }
        }
    )*};
}

collectives! {
    "`MPI_Barrier`" Barrier {}
        #[inline(always)] |_this, ctx| bytes::barrier(ctx),
        |call| call.barrier();
    "`MPI_Bcast`" Bcast { data: Typed, root: usize }
        |this, ctx| Initiated::Rest(typed::bcast(ctx.out_of_line(), &this.data, this.root)),
        |call| call.bcast(&this.data, this.root);
    "`MPI_Gather`" Gather { send: Option<Typed>, recv: Option<Typed>, root: usize }
        #[inline(always)] |this, ctx| typed::gather(ctx, &this.send, &this.recv, this.root),
        |call| call.gather(&this.send, &this.recv, this.root);
    "`MPI_Gatherv`" Gatherv { send: Option<Typed>, recv: Vec<Typed>, root: usize }
        |this, ctx| Initiated::Rest(typed::gatherv(ctx.out_of_line(), &this.send, &this.recv, this.root)),
        |call| call.gatherv(&this.send, this.recv.clone(), this.root);
    "`MPI_Scatter`" Scatter { send: Option<Typed>, recv: Option<Typed>, root: usize }
        #[inline(always)] |this, ctx| typed::scatter(ctx, &this.send, &this.recv, this.root),
        |call| call.scatter(&this.send, &this.recv, this.root);
    "`MPI_Scatterv`" Scatterv { send: Vec<Typed>, recv: Option<Typed>, root: usize }
        |this, ctx| Initiated::Rest(typed::scatterv(ctx.out_of_line(), &this.send, &this.recv, this.root)),
        |call| call.scatterv(this.send.clone(), &this.recv, this.root);
    "`MPI_Allgather`" Allgather { send: Option<Typed>, recv: Typed }
        |this, ctx| Initiated::Rest(typed::allgather(ctx.out_of_line(), &this.send, &this.recv)),
        |call| call.allgather(&this.send, &this.recv);
    "`MPI_Allgatherv`" Allgatherv { send: Option<Typed>, recv: Vec<Typed> }
        |this, ctx| Initiated::Rest(typed::allgatherv(ctx.out_of_line(), &this.send, &this.recv)),
        |call| call.allgatherv(&this.send, this.recv.clone());
    "`MPI_Alltoall`" Alltoall { send: Option<Typed>, recv: Typed }
        |this, ctx| Initiated::Rest(typed::alltoall(ctx.out_of_line(), &this.send, &this.recv)),
        |call| call.alltoall(&this.send, &this.recv);
    "`MPI_Alltoallv` and `MPI_Alltoallw`" Alltoallv { send: Option<Vec<Typed>>, recv: Vec<Typed> }
        |this, ctx| Initiated::Rest(typed::alltoallv(ctx.out_of_line(), &this.send, &this.recv)),
        |call| call.alltoallv(this.send.clone(), this.recv.clone());
    "`MPI_Reduce`"
        Reduce { op: Rc<Op>, send: Option<Typed>, recv: Option<Typed>, root: usize }
        #[inline(always)]
        |this, ctx| typed::reduce(ctx, &this.op, &this.send, &this.recv, this.root),
        |call| call.reduce(&this.op, &this.send, &this.recv, this.root);
    "`MPI_Allreduce`" Allreduce { op: Rc<Op>, send: Option<Typed>, recv: Typed }
        #[inline(always)] |this, ctx| typed::allreduce(ctx, &this.op, &this.send, &this.recv),
        |call| call.allreduce(&this.op, &this.send, &this.recv);
    "`MPI_Reduce_scatter_block` and `MPI_Reduce_scatter`; in place, `recv` is the whole vector"
        ReduceScatter { op: Rc<Op>, send: Option<Typed>, recv: Typed, shares: Shares }
        #[inline(always)]
        |this, ctx| typed::reduce_scatter(ctx, &this.op, &this.send, &this.recv, &this.shares),
        |call| call.reduce_scatter(&this.op, &this.send, &this.recv, &this.shares);
    "`MPI_Scan` and `MPI_Exscan`"
        Scan { op: Rc<Op>, send: Option<Typed>, recv: Typed, exclusive: bool }
        #[inline(always)]
        |this, ctx| typed::scan(ctx, &this.op, &this.send, &this.recv, this.exclusive),
        |call| call.refused();
    "`MPI_Neighbor_allgather` and `MPI_Neighbor_allgatherv`; `recv` has a buffer for each source"
        NeighborAllgatherv { edges: Neighborhood, send: Typed, recv: Vec<Typed> }
        |this, ctx| Initiated::Rest(
            typed::neighbor_allgatherv(ctx.out_of_line(), &this.edges, &this.send, &this.recv)
        ),
        |call| call.refused();
    "`MPI_Neighbor_alltoall`, `MPI_Neighbor_alltoallv` and `MPI_Neighbor_alltoallw`"
        NeighborAlltoallv { edges: Neighborhood, send: Vec<Typed>, recv: Vec<Typed> }
        |this, ctx| Initiated::Rest(
            typed::neighbor_alltoallv(ctx.out_of_line(), &this.edges, &this.send, &this.recv)
        ),
        |call| call.refused();
}

/// How a collective is called, as the highest bits of its tags.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum CallKind {
    Blocking = 0,
    Nonblocking = 1 << 28,
    /// Persistent collectives keep their tag for as long as they live.
    Persistent = 1 << 29,
}

#[inline]
pub(crate) fn next_tag(comm: &Communicator, kind: CallKind) -> i32 {
    let number =
        comm.next_collective(kind == CallKind::Blocking) & (CallKind::Nonblocking as u32 - 1);
    (number | kind as u32) as i32
}

/// A collective in the background, on either kind of communicator.
fn task_of(call: impl Collective, mpi: Rc<Mpi>, comm: Rc<Communicator>, tag: i32) -> Task {
    if !comm.is_inter() {
        return call.task(mpi, comm, tag);
    }
    Box::pin(async move {
        let state = CallState::new(&mpi);
        let result = call.between(Between::new(&comm, tag, &state)).await;
        Completed {
            status: Status::EMPTY,
            error: result.err().map(|e| state.fail(e)),
        }
    })
}

impl Mpi {
    /// Runs a collective to its end. All ranks of `comm` make the same calls in the same order.
    ///
    /// # Errors
    /// The errors of the collective.
    #[inline(always)]
    pub fn collective(&self, comm: &Communicator, call: &impl Collective) -> Result<()> {
        if comm.is_inter() {
            return self.collective_between(comm, call);
        }
        call.run(self, comm)
    }

    #[cold]
    fn collective_between(&self, comm: &Communicator, call: &impl Collective) -> Result<()> {
        let state = CallState::new(self);
        let tag = next_tag(comm, CallKind::Blocking);
        state.wait(call.between(Between::new(comm, tag, &state)))
    }

    /// Starts a nonblocking collective (MPI-5.0 §6.12).
    ///
    /// # Errors
    /// Those of the collective come with the request's completion.
    pub fn start_collective(
        &self,
        comm: &Rc<Communicator>,
        call: impl Collective,
    ) -> Result<RequestId> {
        let tag = next_tag(comm, CallKind::Nonblocking);
        let task = task_of(call, self.rc(), comm.clone(), tag);
        Ok(self.start_task(Some(comm), task))
    }

    /// Sets up a persistent collective (MPI-5.0 §6.13). Its tag is given here, so starts need not
    /// have one order.
    ///
    /// # Errors
    /// The errors of [`Mpi::start_collective`].
    pub fn collective_init(
        &self,
        comm: &Rc<Communicator>,
        call: impl Collective,
    ) -> Result<RequestId> {
        let tag = next_tag(comm, CallKind::Persistent);
        let (this, on) = (Rc::downgrade(&self.rc()), comm.clone());
        let make = move || -> Task {
            match this.upgrade() {
                Some(mpi) => task_of(call.clone(), mpi, on.clone(), tag),
                None => Box::pin(std::future::ready(Completed {
                    status: Status::EMPTY,
                    error: Some(Mpi::broken("a collective was started without a library")),
                })),
            }
        };
        Ok(self.task_init(comm, Box::new(make)))
    }
}
