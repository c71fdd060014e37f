//! Reductions to all ranks: by doubling, by halving, or on a ring.

use std::future::Future;

use crate::coll::algorithms::allgather_steps;
use crate::coll::call::{Ctx, Initiated, P2p, Sends};
use crate::coll::linear::{self, Combiners, Linear};
use crate::coll::memory::{Mem, Split, stride};
use crate::coll::reduction::{
    ActiveSet, ExchangeOrder, Halves, Membership, Pair, Reducer, combine_into, send_value,
    take_excluded,
};
use crate::coll::tuning::AllreduceAlgorithm;
use crate::error::Result;

/// The linear form, if that is the way, and the algorithm in steps.
#[inline(always)]
fn plan<'a, P: P2p, R: Reducer + Copy>(
    ctx: Ctx<'a, P>,
    op: R,
    len: usize,
) -> (Option<Linear<'a, P, R>>, AllreduceAlgorithm) {
    let algorithm = ctx.tuning().allreduce(ctx.size(), len, op.commutative());
    let order = match algorithm {
        AllreduceAlgorithm::Doubling => ExchangeOrder::Doubling,
        AllreduceAlgorithm::Rabenseifner => ExchangeOrder::Halving,
        AllreduceAlgorithm::Ring => ExchangeOrder::Ring(0),
    };
    let linear = linear::plan(ctx, op, len, (order, 0), Combiners::Everyone);
    (linear, algorithm)
}

/// Begins where every rank combines all operands; `None`: that is not the way.
#[inline(always)]
pub(in crate::coll) fn linear<P: P2p, R: Reducer + Copy>(
    ctx: Ctx<'_, P>,
    op: R,
    mine: Mem,
    recv: Mem,
) -> Option<Initiated<impl Future<Output = Result<()>>>> {
    if !ctx.is_linear() {
        return None;
    }
    let linear = plan(ctx, op, recv.len()).0?;
    match linear.is_whole() {
        true => Some(linear.whole(mine, recv)),
        false => None,
    }
}

/// In steps, or each rank combines a block.
pub(in crate::coll) async fn stepwise<P: P2p>(
    ctx: &Ctx<'_, P>,
    op: &dyn Reducer,
    mine: Mem,
    recv: Mem,
) -> Result<()> {
    match plan(*ctx, op, recv.len()) {
        (Some(linear), _) if !linear.is_whole() => linear.by_blocks(mine, recv).await,
        (_, AllreduceAlgorithm::Ring) => ring(ctx, op, mine, recv).await,
        (_, algorithm) => {
            let by_halving = algorithm == AllreduceAlgorithm::Rabenseifner;
            among_active(ctx, op, mine, recv, by_halving).await
        }
    }
}

/// Among a power of two of the ranks. Each excluded rank has its neighbour combine its value, and
/// gets the result from it.
async fn among_active<P: P2p>(
    ctx: &Ctx<'_, P>,
    op: &dyn Reducer,
    mine: Mem,
    recv: Mem,
    by_halving: bool,
) -> Result<()> {
    let active = ActiveSet::new(ctx.size(), false);
    let (number, neighbour) = match active.part(ctx.rank()) {
        Membership::Excluded(to) => {
            send_value(ctx, op, to, mine).await?;
            return ctx.recv(to, recv).await;
        }
        Membership::Active(number, neighbour) => (number, neighbour),
    };
    if by_halving {
        let current = take_excluded(ctx, op, neighbour, mine, recv).await?;
        rabenseifner(ctx, op, (active, number), current, recv).await?;
    } else {
        recv.copy_from(mine);
        doubling(ctx, op, (active, number, neighbour), recv).await?;
    }
    match neighbour {
        Some(neighbour) => ctx.send(neighbour, recv).await,
        None => Ok(()),
    }
}

/// In each step both partners combine the lower group's value with the upper's, in this order.
async fn doubling<P: P2p>(
    ctx: &Ctx<'_, P>,
    op: &dyn Reducer,
    (active, number, neighbour): (ActiveSet, usize, Option<usize>),
    recv: Mem,
) -> Result<()> {
    let temp = ctx.temp(stride(recv.len()))?;
    let mut pair = Pair {
        acc: recv,
        other: temp.mem().head(recv.len()),
    };
    if let Some(neighbour) = neighbour {
        pair.receive(ctx, op, neighbour, true).await?;
    }
    let mut mask = 1;
    while mask < active.count {
        let partner = number ^ mask;
        let lower = partner < number;
        pair.exchange(ctx, op, active.place(partner), lower).await?;
        mask *= 2;
    }
    recv.copy_from(pair.acc);
    Ok(())
}

/// Each active rank reduces a block; then all gather the blocks.
async fn rabenseifner<P: P2p>(
    ctx: &Ctx<'_, P>,
    op: &dyn Reducer,
    (active, number): (ActiveSet, usize),
    current: Mem,
    recv: Mem,
) -> Result<()> {
    let split = Split::Even {
        elements: recv.len() / op.element(),
        parts: active.count,
    };
    let halves = Halves {
        ctx,
        active,
        number,
        start: |i| split.start(i) * op.element(),
        rank: |place| place,
    };
    halves.reduce_scatter(op, current, recv).await?;
    halves.allgather(recv).await
}

/// Every block travels once round the ring, growing by each rank's value, then the results travel
/// round it.
async fn ring<P: P2p>(ctx: &Ctx<'_, P>, op: &dyn Reducer, mine: Mem, recv: Mem) -> Result<()> {
    let (rank, size) = (ctx.rank(), ctx.size());
    let (after, before) = ((rank + 1) % size, (rank + size - 1) % size);
    let split = Split::Even {
        elements: recv.len() / op.element(),
        parts: size,
    };
    let block =
        |whole: Mem, step: usize| split.part(whole, op.element(), (rank + 2 * size - step) % size);
    let mut sends = Sends::new();
    for step in 1..size {
        let out = if step == 1 { mine } else { recv };
        let out = (after, block(out, step - 1));
        let (value, result) = (block(mine, step), block(recv, step));
        combine_into(ctx, op, out, before, value, result, &mut sends).await?;
    }
    sends.finish(ctx).await?;
    let table = ctx.table(size, |i| split.part(recv, op.element(), i))?;
    // This rank has the result of its successor's block.
    allgather_steps::ring(ctx, table.blocks(), (rank + 1) % size).await
}
