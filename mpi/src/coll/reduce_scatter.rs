//! `MPI_Reduce_scatter_block` and `MPI_Reduce_scatter` (MPI-5.0 §6.10).

use super::ctx::Ctx;
use super::halving::{ActiveSet, Halves, Membership};
use super::mem::{Mem, Split, check_equal};
use super::p2p::P2p;
use super::reduce::stride;
use super::reducer::{Reducer, combine_into, fold, send_value};
use super::tuning::ReduceScatterAlgorithm;
use super::windows::{Receives, Sends};
use crate::error::Result;

/// Combines `send` of all ranks, whose parts `split` says, and leaves part i in `recv` on rank i.
/// `None`: the vector is in `recv`, which is as long, and the result goes to its start
/// (`MPI_IN_PLACE`).
///
/// # Errors
/// When a message fails, the lengths differ among ranks, or the operation fails.
pub async fn reduce_scatter<P: P2p>(
    ctx: &Ctx<'_, P>,
    op: &dyn Reducer,
    send: Option<Mem>,
    recv: Mem,
    split: Split<'_>,
) -> Result<()> {
    let (rank, size) = (ctx.rank(), ctx.size());
    let element = op.element();
    let vector = send.unwrap_or(recv);
    let total = split.start(size) * element;
    let own = split.count(rank) * element;
    check_equal(vector.len(), total)?;
    if send.is_some() {
        check_equal(recv.len(), own)?;
    }
    if total == 0 {
        return Ok(());
    }
    let result = recv.head(own);
    if size == 1 {
        result.copy_from(vector);
        return Ok(());
    }
    match ctx.tuning().reduce_scatter(total, op.commutative()) {
        ReduceScatterAlgorithm::Halving => halving(ctx, op, vector, result, split).await,
        ReduceScatterAlgorithm::Pairwise => pairwise(ctx, op, vector, result, split).await,
        ReduceScatterAlgorithm::Ordered => ordered(ctx, op, vector, result, split).await,
    }
}

async fn halving<P: P2p>(
    ctx: &Ctx<'_, P>,
    op: &dyn Reducer,
    vector: Mem,
    result: Mem,
    split: Split<'_>,
) -> Result<()> {
    let (rank, element) = (ctx.rank(), op.element());
    let active = ActiveSet::new(ctx.size(), false);
    let (number, neighbour) = match active.part(rank) {
        Membership::Excluded(to) => {
            send_value(ctx, op, to, vector).await?;
            return if result.is_empty() {
                Ok(())
            } else {
                ctx.recv(to, result).await
            };
        }
        Membership::Active(number, neighbour) => (number, neighbour),
    };
    let temp = ctx.temp(vector.len())?;
    let work = temp.mem();
    let mut current = vector;
    if let Some(from) = neighbour {
        let mut none = Sends::new();
        combine_into(ctx, op, (from, Mem::EMPTY), from, current, work, &mut none).await?;
        current = work;
    }
    let halves = Halves {
        ctx,
        active,
        number,
        start: |i| {
            let place = if i == active.count {
                ctx.size()
            } else {
                active.first(i)
            };
            split.start(place) * element
        },
        rank: |place| place,
    };
    halves.reduce_scatter(op, current, work).await?;
    result.copy_from(split.part(work, element, rank));
    match neighbour.map(|to| (to, split.part(work, element, to))) {
        Some((to, theirs)) if !theirs.is_empty() => ctx.send(to, theirs).await,
        _ => Ok(()),
    }
}

async fn pairwise<P: P2p>(
    ctx: &Ctx<'_, P>,
    op: &dyn Reducer,
    vector: Mem,
    result: Mem,
    split: Split<'_>,
) -> Result<()> {
    let (rank, size) = (ctx.rank(), ctx.size());
    let part = |i: usize| split.part(vector, op.element(), i);
    let temp = ctx.temp(result.len())?;
    let mut current = part(rank);
    let mut sends = Sends::new();
    for step in 1..size {
        let (to, from) = ((rank + step) % size, (rank + size - step) % size);
        let out = (to, part(to));
        combine_into(ctx, op, out, from, current, temp.mem(), &mut sends).await?;
        current = temp.mem();
    }
    sends.finish(ctx).await?;
    // Only now: with `MPI_IN_PLACE` the result lies over parts that had to be sent.
    result.copy_from(current);
    Ok(())
}

/// The operands of this rank's part come straight from all ranks and are combined from the last to
/// the first.
async fn ordered<P: P2p>(
    ctx: &Ctx<'_, P>,
    op: &dyn Reducer,
    vector: Mem,
    result: Mem,
    split: Split<'_>,
) -> Result<()> {
    let (rank, size) = (ctx.rank(), ctx.size());
    let room = stride(result.len());
    let temp = ctx.temp(size * room)?;
    let operand = |i: usize| temp.mem().part(i * room, result.len());
    let mut receives = Receives::new();
    let mut sends = Sends::new();
    for step in 1..size {
        let (to, from) = ((rank + step) % size, (rank + size - step) % size);
        let part = split.part(vector, op.element(), to);
        if !result.is_empty() {
            receives.push_or_wait(ctx, from, operand(from)).await?;
        }
        if !part.is_empty() {
            let send = ctx.isend(to, part)?;
            sends.push_or_wait(ctx, send).await?;
        }
    }
    operand(rank).copy_from(split.part(vector, op.element(), rank));
    receives.finish(ctx).await?;
    sends.finish(ctx).await?;
    if result.is_empty() {
        return Ok(());
    }
    let last = operand(size - 1);
    for i in (0..size - 1).rev() {
        // x(i) op (x(i+1) op …): operations are associative, only the order of ranks matters.
        fold(op, operand(i), last)?;
    }
    result.copy_from(last);
    Ok(())
}
