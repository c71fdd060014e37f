//! Collectives that reduce typed data.

use std::future::Future;

use super::operator::Operator;
use super::staging::{Access, Staged, Typed, direct};
use crate::coll as bytes;
use crate::coll::call::{Ctx, Initiated, P2p, initiated_or};
use crate::coll::memory::{Mem, Split};
use crate::error::{Error, ErrorClass, Result};
use crate::op::Op;

/// How many elements of the vector each rank gets.
#[derive(Clone, Debug)]
pub enum Shares {
    /// One count for all ranks (`MPI_Reduce_scatter_block`).
    Equal(i64),
    /// One count for each rank (`MPI_Reduce_scatter`).
    Each(Vec<i64>),
}

impl Shares {
    /// Offsets of all parts, one more than there are ranks.
    fn offsets(counts: &[i64]) -> Result<Vec<usize>> {
        let mut offsets = Vec::with_capacity(counts.len() + 1);
        let mut end = 0usize;
        offsets.push(0);
        for &count in counts {
            let next = usize::try_from(count).ok().and_then(|c| end.checked_add(c));
            end = next.ok_or_else(|| bad_count(count))?;
            offsets.push(end);
        }
        Ok(offsets)
    }
}

fn bad_count(count: i64) -> Error {
    Error::new(
        ErrorClass::Count,
        format!("the count {count} of a rank's part is negative, or all parts are too long"),
    )
}

#[inline]
fn stage<'a, P: P2p>(ctx: &Ctx<'a, P>, send: &'a Option<Typed>) -> Result<Option<Staged<'a>>> {
    send.as_ref()
        .map(|send| Staged::new(ctx, send.data(), Access::Read))
        .transpose()
}

fn access(in_place: bool) -> Access {
    if in_place {
        Access::Both
    } else {
        Access::Write
    }
}

/// `MPI_Reduce` (MPI-5.0 §6.9.1); `recv` on the root only, `send` `None` there for `MPI_IN_PLACE`.
///
/// # Errors
/// See [`bytes::reduce`].
#[inline(always)]
pub(in crate::coll) fn reduce<'a, P: P2p>(
    ctx: Ctx<'a, P>,
    op: &'a Op,
    send: &'a Option<Typed>,
    recv: &'a Option<Typed>,
    root: usize,
) -> Initiated<impl Future<Output = Result<()>>> {
    let Some(any) = recv.as_ref().or(send.as_ref()) else {
        return Initiated::Failed(no_buffer());
    };
    let operator = Operator::new(op, any.datatype(), ctx.scratch());
    let out = send.as_ref().map(|send| direct(&send.data()));
    let into = match recv {
        Some(recv) if ctx.rank() == root => direct(&recv.data()),
        _ => Some(Mem::EMPTY),
    };
    let initiated = match (out, into) {
        (Some(None), _) | (_, None) => None,
        (out, Some(into)) => Some(bytes::reduce(ctx, operator, out.flatten(), into, root)),
    };
    initiated_or(initiated, move || {
        staged_reduce(ctx.out_of_line(), operator, send, recv, root)
    })
}

#[cold]
fn no_buffer() -> Error {
    Error::new(ErrorClass::Buffer, "reduce without a buffer")
}

/// A reduction of elements that are packed first.
async fn staged_reduce<P: P2p>(
    ctx: Ctx<'_, P>,
    operator: Operator<'_>,
    send: &Option<Typed>,
    recv: &Option<Typed>,
    root: usize,
) -> Result<()> {
    let out = stage(&ctx, send)?;
    let from = out.as_ref().map(Staged::mem);
    let (true, Some(recv)) = (ctx.rank() == root, recv) else {
        return bytes::reduce(ctx, operator, from, Mem::EMPTY, root)
            .finish()
            .await;
    };
    let into = Staged::new(&ctx, recv.data(), access(send.is_none()))?;
    bytes::reduce(ctx, operator, from, into.mem(), root)
        .finish()
        .await?;
    into.finish();
    Ok(())
}

/// `MPI_Allreduce` (MPI-5.0 §6.9.6).
///
/// # Errors
/// See [`bytes::allreduce`].
#[inline(always)]
pub(in crate::coll) fn allreduce<'a, P: P2p>(
    ctx: Ctx<'a, P>,
    op: &'a Op,
    send: &'a Option<Typed>,
    recv: &'a Typed,
) -> Initiated<impl Future<Output = Result<()>>> {
    let operator = Operator::new(op, recv.datatype(), ctx.scratch());
    let into = direct(&recv.data());
    let out = match send {
        Some(send) => direct(&send.data()),
        None => into,
    };
    let initiated = match (out, into) {
        (Some(out), Some(into)) => Some(bytes::allreduce(ctx, operator, Some(out), into)),
        _ => None,
    };
    initiated_or(initiated, move || {
        staged_allreduce(ctx.out_of_line(), op, send, recv)
    })
}

/// An allreduce of elements that are packed first.
async fn staged_allreduce<P: P2p>(
    ctx: Ctx<'_, P>,
    op: &Op,
    send: &Option<Typed>,
    recv: &Typed,
) -> Result<()> {
    let operator = Operator::new(op, recv.datatype(), ctx.scratch());
    let out = stage(&ctx, send)?;
    let into = Staged::new(&ctx, recv.data(), access(send.is_none()))?;
    let from = out.as_ref().map(Staged::mem);
    bytes::allreduce(ctx, operator, from, into.mem())
        .finish()
        .await?;
    into.finish();
    Ok(())
}

/// `MPI_Reduce_scatter_block` and `MPI_Reduce_scatter` (MPI-5.0 §6.10); with `MPI_IN_PLACE`, `recv`
/// is the whole vector.
///
/// # Errors
/// See [`bytes::reduce_scatter`].
#[inline(always)]
pub(in crate::coll) fn reduce_scatter<'a, P: P2p>(
    ctx: Ctx<'a, P>,
    op: &'a Op,
    send: &'a Option<Typed>,
    recv: &'a Typed,
    shares: &'a Shares,
) -> Initiated<impl Future<Output = Result<()>>> {
    let initiated = match (send.as_ref().map(|send| direct(&send.data())), shares) {
        (Some(Some(out)), &Shares::Equal(count)) if let Ok(count) = usize::try_from(count) => {
            let operator = Operator::new(op, recv.datatype(), ctx.scratch());
            let split = Split::Uniform(count);
            direct(&recv.data())
                .map(|into| bytes::reduce_scatter(ctx, operator, Some(out), into, split))
        }
        _ => None,
    };
    initiated_or(initiated, move || {
        staged_reduce_scatter(ctx.out_of_line(), op, send, recv, shares)
    })
}

/// A reduce-scatter in place, of parts that differ, or of elements that are packed first.
async fn staged_reduce_scatter<P: P2p>(
    ctx: Ctx<'_, P>,
    op: &Op,
    send: &Option<Typed>,
    recv: &Typed,
    shares: &Shares,
) -> Result<()> {
    let operator = Operator::new(op, recv.datatype(), ctx.scratch());
    let out = stage(&ctx, send)?;
    let into = Staged::new(&ctx, recv.data(), access(send.is_none()))?;
    let from = out.as_ref().map(Staged::mem);
    let offsets;
    let split = match shares {
        Shares::Equal(count) => {
            Split::Uniform(usize::try_from(*count).map_err(|_| bad_count(*count))?)
        }
        Shares::Each(counts) => {
            offsets = Shares::offsets(counts)?;
            Split::Offsets(&offsets)
        }
    };
    bytes::reduce_scatter(ctx, operator, from, into.mem(), split)
        .finish()
        .await?;
    into.finish();
    Ok(())
}

/// `MPI_Scan` and, `exclusive`, `MPI_Exscan` (MPI-5.0 §6.11).
///
/// # Errors
/// See [`bytes::scan`].
#[inline(always)]
pub(in crate::coll) fn scan<'a, P: P2p>(
    ctx: Ctx<'a, P>,
    op: &'a Op,
    send: &'a Option<Typed>,
    recv: &'a Typed,
    exclusive: bool,
) -> Initiated<impl Future<Output = Result<()>>> {
    let operator = Operator::new(op, recv.datatype(), ctx.scratch());
    let out = send.as_ref().map(|send| direct(&send.data()));
    let initiated = match (out, direct(&recv.data())) {
        (Some(None), _) | (_, None) => None,
        (out, Some(into)) => Some(bytes::scan(ctx, operator, out.flatten(), into, exclusive)),
    };
    initiated_or(initiated, move || {
        staged_scan(ctx.out_of_line(), operator, send, recv, exclusive)
    })
}

async fn staged_scan<P: P2p>(
    ctx: Ctx<'_, P>,
    operator: Operator<'_>,
    send: &Option<Typed>,
    recv: &Typed,
    exclusive: bool,
) -> Result<()> {
    let out = stage(&ctx, send)?;
    // An exclusive scan leaves rank 0's buffer as it was.
    let into = Staged::new(&ctx, recv.data(), access(send.is_none() || exclusive))?;
    let from = out.as_ref().map(Staged::mem);
    bytes::scan(ctx, operator, from, into.mem(), exclusive)
        .finish()
        .await?;
    into.finish();
    Ok(())
}
