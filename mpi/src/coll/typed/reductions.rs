//! Collectives that reduce typed data.

use std::future::Future;

use super::operator::Operator;
use super::staging::{Access, both_contiguous, contiguous, staged};
use crate::coll as bytes;
use crate::coll::call::{Ctx, Initiated, P2p, initiated_or};
use crate::coll::memory::{Mem, Split};
use crate::error::{Error, ErrorClass, Result};
use crate::op::Op;
use crate::p2p::Typed;

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
    pub(super) fn offsets(counts: &[i64]) -> Result<Vec<usize>> {
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
    let result = recv.as_ref().filter(|_| ctx.rank() == root);
    let into = match result {
        Some(recv) => contiguous(&recv.data()),
        None => Some(Mem::EMPTY),
    };
    let initiated = both_contiguous(send, into)
        .map(|(from, into)| bytes::reduce(ctx, operator, from, into, root));
    initiated_or(initiated, move || {
        let ctx = ctx.out_of_line();
        let into = result.map(|recv| (recv.data(), Access::to_write(send.is_none())));
        staged(
            ctx,
            send.as_ref().map(Typed::data),
            into,
            move |from, into| bytes::reduce(ctx, operator, from, into.unwrap_or(Mem::EMPTY), root),
        )
    })
}

#[cold]
fn no_buffer() -> Error {
    Error::new(ErrorClass::Buffer, "reduce without a buffer")
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
    let initiated = both_contiguous(send, contiguous(&recv.data()))
        .map(|(from, into)| bytes::allreduce(ctx, operator, from, into));
    initiated_or(initiated, move || {
        let ctx = ctx.out_of_line();
        let into = (recv.data(), Access::to_write(send.is_none()));
        staged(
            ctx,
            send.as_ref().map(Typed::data),
            Some(into),
            move |from, into| bytes::allreduce(ctx, operator, from, into.unwrap_or(Mem::EMPTY)),
        )
    })
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
    let operator = Operator::new(op, recv.datatype(), ctx.scratch());
    let initiated = match (both_contiguous(send, contiguous(&recv.data())), shares) {
        (Some((Some(from), into)), &Shares::Equal(count))
            if let Ok(count) = usize::try_from(count) =>
        {
            let split = Split::Uniform(count);
            Some(bytes::reduce_scatter(
                ctx,
                operator,
                Some(from),
                into,
                split,
            ))
        }
        _ => None,
    };
    initiated_or(initiated, move || async move {
        // In place, of parts that differ, or of elements that are packed first.
        let ctx = ctx.out_of_line();
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
        let into = (recv.data(), Access::to_write(send.is_none()));
        staged(
            ctx,
            send.as_ref().map(Typed::data),
            Some(into),
            |from, into| {
                bytes::reduce_scatter(ctx, operator, from, into.unwrap_or(Mem::EMPTY), split)
            },
        )
        .await
    })
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
    let initiated = both_contiguous(send, contiguous(&recv.data()))
        .map(|(from, into)| bytes::scan(ctx, operator, from, into, exclusive));
    initiated_or(initiated, move || {
        let ctx = ctx.out_of_line();
        // An exclusive scan leaves rank 0's buffer as it was.
        let into = (recv.data(), Access::to_write(send.is_none() || exclusive));
        staged(
            ctx,
            send.as_ref().map(Typed::data),
            Some(into),
            move |from, into| {
                bytes::scan(ctx, operator, from, into.unwrap_or(Mem::EMPTY), exclusive)
            },
        )
    })
}
