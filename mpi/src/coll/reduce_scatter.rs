//! `MPI_Reduce_scatter_block` and `MPI_Reduce_scatter` (MPI-5.0 §6.10).

use std::future::Future;

use super::algorithms::reduce_scatter_steps;
use super::call::{Ctx, Initiated, P2p, initiated_or};
use super::linear::{self, Linear};
use super::memory::{Mem, Split, check_equal};
use super::reduction::{ExchangeOrder, Reducer};
use super::tuning::ReduceScatterAlgorithm;
use crate::error::Result;

/// Combines `send` of all ranks, whose parts `split` says, and leaves part i in `recv` on rank i.
/// `None`: the vector is in `recv`, which is as long, and the result goes to its start
/// (`MPI_IN_PLACE`).
///
/// # Errors
/// When a message fails, the lengths differ among ranks, or the operation fails.
#[inline(always)]
pub fn reduce_scatter<'a, P: P2p, R: Reducer + Copy>(
    ctx: Ctx<'a, P>,
    op: R,
    send: Option<Mem>,
    recv: Mem,
    split: Split<'a>,
) -> Initiated<impl Future<Output = Result<()>>> {
    let (rank, size) = (ctx.rank(), ctx.size());
    let element = op.element();
    let vector = send.unwrap_or(recv);
    let total = split.start(size) * element;
    let own = split.count(rank) * element;
    let checked = check_equal(vector.len(), total).and(match send {
        Some(_) => check_equal(recv.len(), own),
        None => Ok(()),
    });
    if checked.is_err() || total == 0 {
        return checked.into();
    }
    let result = recv.head(own);
    if size == 1 {
        result.copy_from(vector);
        return Initiated::Done;
    }
    // In place the result overwrites parts that are still to be sent.
    let linear = plan(ctx, op, split).filter(|_| send.is_some());
    let initiated = linear.map(|linear| linear.own_part(vector, result));
    initiated_or(initiated, move || {
        stepwise(ctx.out_of_line(), op, (vector, result), split)
    })
}

/// The linear form, if that is the way: on all ranks or on none, whichever of them call in place.
#[inline(always)]
fn plan<'a, P: P2p, R: Reducer + Copy>(
    ctx: Ctx<'a, P>,
    op: R,
    split: Split<'a>,
) -> Option<Linear<'a, P, R>> {
    let total = split.start(ctx.size()) * op.element();
    let algorithm = ctx.tuning().reduce_scatter(total, op.commutative());
    if !ctx.is_linear() || algorithm != ReduceScatterAlgorithm::Halving {
        return None;
    }
    linear::plan_of_parts(ctx, op, split, ExchangeOrder::Halving)
}

async fn stepwise<P: P2p>(
    ctx: Ctx<'_, P>,
    op: impl Reducer + Copy,
    (vector, result): (Mem, Mem),
    split: Split<'_>,
) -> Result<()> {
    if let Some(linear) = plan(ctx, op, split) {
        let temp = ctx.temp(result.len())?;
        linear.own_part(vector, temp.mem()).finish().await?;
        result.copy_from(temp.mem());
        return Ok(());
    }
    let algorithm = ctx.tuning().reduce_scatter(vector.len(), op.commutative());
    let (ctx, op) = (&ctx, &op);
    match algorithm {
        ReduceScatterAlgorithm::Halving => {
            reduce_scatter_steps::halving(ctx, op, vector, result, split).await
        }
        ReduceScatterAlgorithm::Pairwise => {
            reduce_scatter_steps::pairwise(ctx, op, vector, result, split).await
        }
        ReduceScatterAlgorithm::Ordered => {
            reduce_scatter_steps::ordered(ctx, op, vector, result, split).await
        }
    }
}
