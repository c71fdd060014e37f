//! Broadcasts in steps: along a tree or a chain, or as a scatter and an allgather.

use std::future::Future;

use crate::coll::algorithms::allgather_steps;
use crate::coll::call::{Ctx, Initiated, P2p, Receives, Sends, initiated_or};
use crate::coll::linear;
use crate::coll::memory::Mem;
use crate::coll::tuning::{BcastAlgorithm, SEGMENT};
use crate::error::Result;

/// Without steps, where that is the way.
#[inline(always)]
pub(in crate::coll) fn linear<P: P2p>(
    ctx: Ctx<'_, P>,
    data: Mem,
    root: usize,
) -> Option<Initiated<impl Future<Output = Result<()>>>> {
    match ctx.is_linear() {
        true => Some(linear::scatter(ctx, root, move |_| Some(data), Some(data))),
        false => None,
    }
}

/// Among all ranks alike.
pub(in crate::coll) async fn among<P: P2p>(ctx: &Ctx<'_, P>, data: Mem, root: usize) -> Result<()> {
    initiated_or(linear(*ctx, data, root), || stepwise(ctx, data, root))
        .finish()
        .await
}

pub(in crate::coll) async fn stepwise<P: P2p>(
    ctx: &Ctx<'_, P>,
    data: Mem,
    root: usize,
) -> Result<()> {
    match ctx.tuning().bcast(ctx.size(), data.len()) {
        BcastAlgorithm::Binomial => binomial(ctx, data, root).await,
        BcastAlgorithm::Chain => chain(ctx, data, root).await,
        BcastAlgorithm::ScatterDoubling => scatter_allgather(ctx, data, root, true).await,
        BcastAlgorithm::ScatterRing => scatter_allgather(ctx, data, root, false).await,
    }
}

async fn binomial<P: P2p>(ctx: &Ctx<'_, P>, data: Mem, root: usize) -> Result<()> {
    let size = ctx.size();
    let place = (ctx.rank() + size - root) % size;
    let mut mask = 1;
    while mask < size && place & mask == 0 {
        mask *= 2;
    }
    if place != 0 {
        ctx.recv((place - mask + root) % size, data).await?;
    }
    let mut sends = Sends::new();
    while mask > 1 {
        mask /= 2;
        if place + mask < size {
            let send = ctx.isend((place + mask + root) % size, data)?;
            sends.push_or_wait(ctx, send).await?;
        }
    }
    sends.finish(ctx).await
}

async fn chain<P: P2p>(ctx: &Ctx<'_, P>, data: Mem, root: usize) -> Result<()> {
    let size = ctx.size();
    let place = (ctx.rank() + size - root) % size;
    let (before, after) = ((ctx.rank() + size - 1) % size, (ctx.rank() + 1) % size);
    let segment = |at: usize| data.part(at, SEGMENT.min(data.len() - at));
    let mut ahead = (0..data.len()).step_by(SEGMENT);
    let mut receives = Receives::new();
    let mut sends = Sends::new();
    for at in (0..data.len()).step_by(SEGMENT) {
        if place > 0 {
            while !receives.is_full()
                && let Some(next) = ahead.next()
            {
                receives.push(ctx.irecv(before, segment(next))?);
            }
            receives.pop(ctx).await?;
        }
        if place + 1 < size {
            let send = ctx.isend(after, segment(at))?;
            sends.push_or_wait(ctx, send).await?;
        }
    }
    sends.finish(ctx).await
}

/// The root's data is cut into one share for each place; places count ranks from the root. Shares
/// travel down a binomial tree, then all ranks gather all shares.
async fn scatter_allgather<P: P2p>(
    ctx: &Ctx<'_, P>,
    data: Mem,
    root: usize,
    doubling: bool,
) -> Result<()> {
    let size = ctx.size();
    let place = (ctx.rank() + size - root) % size;
    let share = data.len().div_ceil(size);
    let from = |p: usize| (p * share).min(data.len());
    let shares = |start: usize, end: usize| data.range(from(start), from(end.min(size)));
    let mut mask = 1;
    while mask < size && place & mask == 0 {
        mask *= 2;
    }
    if place != 0 {
        let mine = shares(place, place + mask);
        if !mine.is_empty() {
            ctx.recv((place - mask + root) % size, mine).await?;
        }
    }
    let mut sends = Sends::new();
    while mask > 1 {
        mask /= 2;
        let theirs = shares((place + mask).min(size), place + 2 * mask);
        if place + mask < size && !theirs.is_empty() {
            let send = ctx.isend((place + mask + root) % size, theirs)?;
            sends.push_or_wait(ctx, send).await?;
        }
    }
    sends.finish(ctx).await?;
    if doubling {
        return doubling_shares(ctx, root, place, shares).await;
    }
    let table = ctx.table(size, |p| shares(p, p + 1))?;
    allgather_steps::ring(ctx, table.blocks(), place).await
}

async fn doubling_shares<P: P2p>(
    ctx: &Ctx<'_, P>,
    root: usize,
    place: usize,
    shares: impl Fn(usize, usize) -> Mem,
) -> Result<()> {
    let size = ctx.size();
    let mut mask = 1;
    while mask < size {
        let partner = place ^ mask;
        let (mine, theirs) = (place & !(mask - 1), partner & !(mask - 1));
        let (out, into) = (shares(mine, mine + mask), shares(theirs, theirs + mask));
        let peer = (partner + root) % size;
        ctx.exchange(peer, out, peer, into).await?;
        mask *= 2;
    }
    Ok(())
}
