//! Allgathers in steps: by doubling, on a ring, or by Bruck's algorithm.

use crate::coll::call::{Ctx, P2p, Receives, Sends};
use crate::coll::memory::{Blocks, Mem};
use crate::coll::tuning::AllgatherAlgorithm;
use crate::error::Result;

/// Each rank's own block is in its place.
pub(in crate::coll) async fn among<P: P2p>(ctx: &Ctx<'_, P>, recv: Blocks<'_>) -> Result<()> {
    let (rank, size) = (ctx.rank(), ctx.size());
    let total = recv.total(0, size, size);
    if size == 1 || total == 0 {
        return Ok(());
    }
    let equal = matches!(recv, Blocks::Uniform { .. });
    match (ctx.tuning().allgather(size, total, equal), recv) {
        (AllgatherAlgorithm::Ring, _) => ring(ctx, recv, rank).await,
        (AllgatherAlgorithm::Doubling, Blocks::Uniform { all, each }) => {
            doubling(ctx, all, each).await
        }
        _ => bruck(ctx, recv).await,
    }
}

/// For powers of two: groups of 1, 2, 4 … ranks exchange their data.
async fn doubling<P: P2p>(ctx: &Ctx<'_, P>, all: Mem, each: usize) -> Result<()> {
    let rank = ctx.rank();
    let mut mask = 1;
    while mask < ctx.size() {
        let partner = rank ^ mask;
        let group = |r: usize| all.part((r & !(mask - 1)) * each, mask * each);
        ctx.exchange(partner, group(rank), partner, group(partner))
            .await?;
        mask *= 2;
    }
    Ok(())
}

/// Every rank collects its own block, its successor's and so on, doubling their number in each
/// step.
async fn bruck<P: P2p>(ctx: &Ctx<'_, P>, recv: Blocks<'_>) -> Result<()> {
    let (rank, size) = (ctx.rank(), ctx.size());
    let temp = ctx.temp(recv.total(0, size, size))?;
    let gathered = temp.mem();
    gathered.copy_from(recv.get(rank));
    let mut distance = 1;
    while distance < size {
        let n = distance.min(size - distance);
        let (to, from) = ((rank + size - distance) % size, (rank + distance) % size);
        let out = gathered.head(recv.total(rank, n, size));
        let into = gathered.part(
            recv.total(rank, distance, size),
            recv.total(rank + distance, n, size),
        );
        ctx.exchange(to, out, from, into).await?;
        distance *= 2;
    }
    let mut at = 0;
    for i in 0..size {
        let block = recv.get((rank + i) % size);
        if i != 0 {
            block.copy_from(gathered.part(at, block.len()));
        }
        at += block.len();
    }
    Ok(())
}

/// Blocks travel round the ring. `place` is this process's position; its successor on the ring is
/// the next rank, round the end (a broadcast counts places from its root).
pub(in crate::coll) async fn ring<P: P2p>(
    ctx: &Ctx<'_, P>,
    blocks: Blocks<'_>,
    place: usize,
) -> Result<()> {
    let (rank, size) = (ctx.rank(), ctx.size());
    let (after, before) = ((rank + 1) % size, (rank + size - 1) % size);
    let block = |step: usize| blocks.get((place + size - step) % size);
    let mut ahead = 1..size;
    let mut receives = Receives::new();
    let mut sends = Sends::new();
    for step in 1..size {
        while !receives.is_full()
            && let Some(next) = ahead.next()
        {
            if !block(next).is_empty() {
                receives.push(ctx.irecv(before, block(next))?);
            }
        }
        if !block(step - 1).is_empty() {
            let send = ctx.isend(after, block(step - 1))?;
            sends.push_or_wait(ctx, send).await?;
        }
        if !block(step).is_empty() {
            receives.pop(ctx).await?;
        }
    }
    sends.finish(ctx).await
}
