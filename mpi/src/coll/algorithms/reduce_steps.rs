//! Reductions to one rank: along a tree, or by halving.

use std::future::Future;

use crate::coll::call::{Ctx, Initiated, P2p, Sends, initiated_or};
use crate::coll::linear::{self, Combiners, Linear};
use crate::coll::memory::{Mem, Split, stride};
use crate::coll::reduction::{
    ActiveSet, ExchangeOrder, Halves, Membership, Reducer, exchange_fold, send_value, take_excluded,
};
use crate::coll::tuning::ReduceAlgorithm;
use crate::error::Result;

/// The linear form, if that is the way, and the algorithm in steps.
#[inline(always)]
fn plan<'a, P: P2p, R: Reducer + Copy>(
    ctx: Ctx<'a, P>,
    op: R,
    len: usize,
    root: usize,
) -> (Option<Linear<'a, P, R>>, ReduceAlgorithm) {
    let commutative = op.commutative();
    let algorithm = ctx.tuning().reduce(ctx.size(), len, commutative);
    let order = match algorithm {
        ReduceAlgorithm::Binomial => ExchangeOrder::Binomial,
        ReduceAlgorithm::Rabenseifner => ExchangeOrder::Halving,
    };
    // In the order of ranks the tree's root is rank 0, for the others it is the root.
    let first = if commutative { root } else { 0 };
    let linear = linear::plan(ctx, op, len, (order, first), Combiners::Only(root));
    (linear, algorithm)
}

/// Begins where the root combines all operands; `None`: that is not the way.
#[inline(always)]
pub(in crate::coll) fn linear<P: P2p, R: Reducer + Copy>(
    ctx: Ctx<'_, P>,
    op: R,
    mine: Mem,
    recv: Mem,
    root: usize,
) -> Option<Initiated<impl Future<Output = Result<()>>>> {
    if !ctx.is_linear() {
        return None;
    }
    let linear = plan(ctx, op, mine.len(), root).0?;
    match linear.is_whole() {
        true => Some(linear.whole(mine, recv)),
        false => None,
    }
}

/// Among all ranks alike.
pub(in crate::coll) async fn among<P: P2p>(
    ctx: &Ctx<'_, P>,
    op: &dyn Reducer,
    mine: Mem,
    recv: Mem,
    root: usize,
) -> Result<()> {
    if ctx.size() == 1 {
        recv.copy_from(mine);
        return Ok(());
    }
    let rest = || stepwise(ctx, op, mine, recv, root);
    initiated_or(linear(*ctx, op, mine, recv, root), rest)
        .finish()
        .await
}

/// In steps, or each rank combines a block.
pub(in crate::coll) async fn stepwise<P: P2p>(
    ctx: &Ctx<'_, P>,
    op: &dyn Reducer,
    mine: Mem,
    recv: Mem,
    root: usize,
) -> Result<()> {
    match plan(*ctx, op, mine.len(), root) {
        (Some(linear), _) if !linear.is_whole() => linear.blocks_to_root(mine, recv, root).await,
        (Some(linear), _) => linear.combine_whole(mine, recv).await,
        (None, ReduceAlgorithm::Rabenseifner) => rabenseifner(ctx, op, mine, recv, root).await,
        (None, ReduceAlgorithm::Binomial) if op.commutative() => {
            binomial(ctx, op, mine, recv, root).await
        }
        (None, ReduceAlgorithm::Binomial) => ordered(ctx, op, mine, recv, root).await,
    }
}

/// The tree's root must be rank 0 for the order of ranks; the result continues from there.
async fn ordered<P: P2p>(
    ctx: &Ctx<'_, P>,
    op: &dyn Reducer,
    mine: Mem,
    recv: Mem,
    root: usize,
) -> Result<()> {
    if root == 0 {
        return binomial(ctx, op, mine, recv, 0).await;
    }
    if ctx.rank() == 0 {
        let result = ctx.temp(mine.len())?;
        binomial(ctx, op, mine, result.mem(), 0).await?;
        return ctx.send(root, result.mem()).await;
    }
    binomial(ctx, op, mine, Mem::EMPTY, 0).await?;
    if ctx.rank() == root {
        ctx.recv(0, recv).await?;
    }
    Ok(())
}

/// Children represent runs of places right after this one's. So a received value is the upper
/// operand, and the result stays where it was received.
async fn binomial<P: P2p>(
    ctx: &Ctx<'_, P>,
    op: &dyn Reducer,
    mine: Mem,
    recv: Mem,
    root: usize,
) -> Result<()> {
    let size = ctx.size();
    let place = (ctx.rank() + size - root) % size;
    let rank = |p: usize| (p + root) % size;
    let children = if place == 0 {
        size
    } else {
        (size - place).min(1 << place.trailing_zeros())
    };
    if children == 1 {
        return send_value(ctx, op, rank(place & (place - 1)), mine).await;
    }
    let temp = ctx.temp(2 * stride(mine.len()))?;
    let buffers = [
        temp.mem().head(mine.len()),
        temp.mem().part(stride(mine.len()), mine.len()),
    ];
    let mut current = mine;
    let mut mask = 1;
    while mask < children {
        let into = buffers[usize::from(current.ptr() == buffers[0].ptr())];
        let from = rank(place + mask);
        let mut none = Sends::new();
        exchange_fold(
            ctx,
            op,
            (from, Mem::EMPTY),
            (from, into),
            current,
            false,
            &mut none,
        )
        .await?;
        current = into;
        mask *= 2;
    }
    if place == 0 {
        recv.copy_from(current);
        return Ok(());
    }
    send_value(ctx, op, rank(place & (place - 1)), current).await
}

async fn rabenseifner<P: P2p>(
    ctx: &Ctx<'_, P>,
    op: &dyn Reducer,
    mine: Mem,
    recv: Mem,
    root: usize,
) -> Result<()> {
    let size = ctx.size();
    let place = (ctx.rank() + size - root) % size;
    let rank = |p: usize| (p + root) % size;
    let active = ActiveSet::new(size, true);
    let (number, neighbour) = match active.part(place) {
        Membership::Excluded(to) => return send_value(ctx, op, rank(to), mine).await,
        Membership::Active(number, neighbour) => (number, neighbour),
    };
    let temp = if place == 0 {
        None
    } else {
        Some(ctx.temp(mine.len())?)
    };
    let work = temp.as_ref().map_or(recv, |temp| temp.mem());
    let current = take_excluded(ctx, op, neighbour.map(rank), mine, work).await?;
    let split = Split::Even {
        elements: mine.len() / op.element(),
        parts: active.count,
    };
    let halves = Halves {
        ctx,
        active,
        number,
        start: |i| split.start(i) * op.element(),
        rank,
    };
    halves.reduce_scatter(op, current, work).await?;
    halves.gather(work).await
}
