//! The second entry of collectives, for simple, valid arguments: few elements that are contiguous.
//! It begins the same algorithms without references to communicator and buffers. Other arguments
//! are refused before anything is done; the general entry checks them and reports the error.

use std::future::Future;
use std::rc::Rc;

use super::collective::{CallKind, next_tag};
use super::typed::Operator;
use crate::check;
use crate::coll as bytes;
use crate::coll::call::{CallState, Ctx, Initiated};
use crate::coll::memory::{Blocks, Mem};
use crate::comm::Communicator;
use crate::error::Result;
use crate::op::{Builtin, Op};
use crate::p2p::Data;
use crate::runtime::Mpi;

/// Most elements of a block that the second entry of a collective takes.
const MAX_SIMPLE_BLOCK: i64 = 1 << 10;

/// The memory of `count` blocks, of which `data` is the first, if each has few elements and they
/// are contiguous.
#[inline(always)]
fn simple_blocks(data: &Data<'_>, count: usize) -> Option<Mem> {
    if !(1..=MAX_SIMPLE_BLOCK).contains(&data.count()) {
        return None;
    }
    let (addr, len) = data.times(count)?.valid_contiguous()?;
    // SAFETY: the elements are there until the call ends (the caller's promise).
    Some(unsafe { Mem::new(addr, len) })
}

/// The elements that a reduction reads and those that it writes, if all arguments are simple and
/// valid. The operation is predefined, so no function of the program runs.
#[inline(always)]
fn simple_operands(op: &Op, send: &Data<'_>, recv: Option<*mut u8>) -> Option<(Mem, Mem)> {
    let from = simple_blocks(send, 1)?;
    let into = match recv {
        Some(addr) => simple_blocks(&send.moved(addr), 1)?,
        None => Mem::EMPTY,
    };
    let reduces = !matches!(op.as_builtin()?, Builtin::Replace | Builtin::NoOp);
    let valid = reduces && from.ptr() != into.ptr() && op.check(send.datatype()).is_ok();
    valid.then_some((from, into))
}

/// Runs a reduction of simple operands to its end.
macro_rules! run_reduction {
    ($mpi:ident, $op:ident, $send:ident, $comm:ident, |$ctx:ident, $operator:ident| $begin:expr) => {{
        // A function of the program that runs during a wait may free the caller's objects.
        let (op, datatype) = ($op.clone(), $send.datatype().clone());
        let state = CallState::new($mpi);
        let $ctx = Ctx::of_all($comm, next_tag($comm, CallKind::Blocking), &state);
        let $operator = Operator::new(&op, &datatype, $ctx.scratch());
        Some(run_borrowed(&state, $comm, $begin))
    }};
}

/// Runs a collective on a communicator without a reference of the caller. A call that waits takes a
/// reference: operations of the program run meanwhile and may free the communicator.
#[inline(always)]
fn run_borrowed(
    state: &CallState<'_>,
    comm: &Rc<Communicator>,
    initiated: Initiated<impl Future<Output = Result<()>>>,
) -> Result<()> {
    match initiated {
        Initiated::Rest(rest) => {
            let share = comm.clone();
            let result = state.wait(rest);
            drop(share);
            result
        }
        ended => state.run(ended),
    }
}

impl Mpi {
    /// A broadcast with simple, valid arguments, to its end. `None`: nothing was done, and the
    /// caller continues with [`Mpi::collective`].
    ///
    /// # Safety
    /// The elements are writable, on the root readable.
    #[inline(always)]
    pub unsafe fn try_bcast(
        &self,
        data: &Data<'_>,
        root: i32,
        comm: &Rc<Communicator>,
    ) -> Option<Result<()>> {
        let (addr, len) = data.valid_contiguous()?;
        check::intra(comm).ok()?;
        let root = check::root(root, comm).ok()?;
        // SAFETY: the elements are there until the call ends.
        let data = unsafe { Mem::new(addr, len) };
        let state = CallState::new(self);
        let ctx = Ctx::of_all(comm, next_tag(comm, CallKind::Blocking), &state);
        Some(run_borrowed(&state, comm, bytes::bcast(ctx, data, root)))
    }

    /// An allgather with simple, valid arguments, as [`Mpi::try_bcast`].
    ///
    /// # Safety
    /// The elements to send are readable, those for all ranks writable.
    #[inline(always)]
    pub unsafe fn try_allgather(
        &self,
        send: &Data<'_>,
        recv: &Data<'_>,
        comm: &Rc<Communicator>,
    ) -> Option<Result<()>> {
        let (mine, all) = (simple_blocks(send, 1)?, simple_blocks(recv, comm.size())?);
        check::intra(comm).ok()?;
        let each = mine.len();
        let own = check::is_own_block(mine.ptr(), all.ptr(), each as isize, comm.rank());
        if own || each * comm.size() != all.len() {
            return None;
        }
        let state = CallState::new(self);
        let ctx = Ctx::of_all(comm, next_tag(comm, CallKind::Blocking), &state);
        let blocks = Blocks::Uniform { all, each };
        Some(run_borrowed(
            &state,
            comm,
            bytes::allgather(ctx, Some(mine), blocks),
        ))
    }

    /// An all-to-all with simple, valid arguments, as [`Mpi::try_bcast`].
    ///
    /// # Safety
    /// The elements for all ranks are readable, and those from them writable.
    #[inline(always)]
    pub unsafe fn try_alltoall(
        &self,
        send: &Data<'_>,
        recv: &Data<'_>,
        comm: &Rc<Communicator>,
    ) -> Option<Result<()>> {
        let size = comm.size();
        let (mine, all) = (simple_blocks(send, size)?, simple_blocks(recv, size)?);
        check::intra(comm).ok()?;
        if mine.len() != all.len() || check::is_own_block(mine.ptr(), all.ptr(), 0, comm.rank()) {
            return None;
        }
        let each = all.len() / size;
        let uniform = |all| Blocks::Uniform { all, each };
        let state = CallState::new(self);
        let ctx = Ctx::of_all(comm, next_tag(comm, CallKind::Blocking), &state);
        let initiated = bytes::alltoall(ctx, Some(uniform(mine)), uniform(all));
        Some(run_borrowed(&state, comm, initiated))
    }

    /// An allreduce with simple, valid arguments, as [`Mpi::try_bcast`]. As many elements are
    /// written to `recv`.
    ///
    /// # Safety
    /// The elements are readable, and those at `recv` writable.
    #[inline(always)]
    pub unsafe fn try_allreduce(
        &self,
        op: &Rc<Op>,
        send: &Data<'_>,
        recv: *mut u8,
        comm: &Rc<Communicator>,
    ) -> Option<Result<()>> {
        let (from, into) = simple_operands(op, send, Some(recv))?;
        check::intra(comm).ok()?;
        run_reduction!(self, op, send, comm, |ctx, operator| {
            bytes::allreduce(ctx, operator, Some(from), into)
        })
    }

    /// A reduction to one rank with simple, valid arguments, as [`Mpi::try_allreduce`].
    ///
    /// # Safety
    /// The elements are readable, and those at `recv` writable on the root.
    #[inline(always)]
    pub unsafe fn try_reduce(
        &self,
        op: &Rc<Op>,
        send: &Data<'_>,
        recv: *mut u8,
        root: i32,
        comm: &Rc<Communicator>,
    ) -> Option<Result<()>> {
        check::intra(comm).ok()?;
        let root = check::root(root, comm).ok()?;
        let recv = (comm.rank() == root).then_some(recv);
        let (from, into) = simple_operands(op, send, recv)?;
        run_reduction!(self, op, send, comm, |ctx, operator| {
            bytes::reduce(ctx, operator, Some(from), into, root)
        })
    }

    /// A scan with simple, valid arguments, as [`Mpi::try_allreduce`].
    ///
    /// # Safety
    /// The conditions of [`Mpi::try_allreduce`].
    #[inline(always)]
    pub unsafe fn try_scan(
        &self,
        op: &Rc<Op>,
        send: &Data<'_>,
        recv: *mut u8,
        exclusive: bool,
        comm: &Rc<Communicator>,
    ) -> Option<Result<()>> {
        let (from, into) = simple_operands(op, send, Some(recv))?;
        check::intra(comm).ok()?;
        run_reduction!(self, op, send, comm, |ctx, operator| {
            bytes::scan(ctx, operator, Some(from), into, exclusive)
        })
    }
}
