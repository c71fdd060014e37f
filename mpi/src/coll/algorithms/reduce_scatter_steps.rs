//! Reduce-scatters in steps: by halving, in pairs, or in the order of ranks.

use crate::coll::call::{Ctx, P2p, Receives, Sends};
use crate::coll::memory::{Mem, Split, stride};
use crate::coll::reduction::{
    ActiveSet, Halves, Membership, Reducer, combine_into, fold, send_value, take_excluded,
};
use crate::error::Result;

pub(in crate::coll) async fn halving<P: P2p>(
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
    let current = take_excluded(ctx, op, neighbour, vector, work).await?;
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

pub(in crate::coll) async fn pairwise<P: P2p>(
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

/// The operands of this rank's part come directly from all ranks and are combined from the last to
/// the first.
pub(in crate::coll) async fn ordered<P: P2p>(
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
