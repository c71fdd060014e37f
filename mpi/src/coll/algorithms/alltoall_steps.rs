//! All-to-alls in steps: Bruck's algorithm, in pairs, or a window of messages at a time.

use crate::coll::call::{Ctx, P2p, Receives, Sends, WINDOW};
use crate::coll::memory::{Blocks, Mem};
use crate::coll::tuning::AlltoallAlgorithm;
use crate::error::Result;

/// The exchange in the steps of one algorithm, whatever the hosts.
pub(in crate::coll) async fn among<P: P2p>(
    ctx: &Ctx<'_, P>,
    send: Option<Blocks<'_>>,
    recv: Blocks<'_>,
) -> Result<()> {
    let equal = matches!(recv, Blocks::Uniform { .. });
    // Only equal blocks have the same tuning everywhere when it depends on their length.
    let block = if equal { recv.get(0).len() } else { 0 };
    match (ctx.tuning().alltoall(ctx.size(), block, equal), send, recv) {
        (AlltoallAlgorithm::Bruck, _, Blocks::Uniform { all, each }) => {
            let from = match send {
                Some(Blocks::Uniform { all, .. }) => all,
                _ => all,
            };
            bruck(ctx, from, all, each).await
        }
        (_, None, _) => in_place(ctx, recv).await,
        (AlltoallAlgorithm::Pairwise, Some(send), _) => pairwise(ctx, send, recv).await,
        (_, Some(send), _) => windowed(ctx, send, recv).await,
    }
}

/// log2 n steps: in the step of distance d, every block that has still to travel d (a bit of its
/// distance) does.
pub(in crate::coll) async fn bruck<P: P2p>(
    ctx: &Ctx<'_, P>,
    send: Mem,
    recv: Mem,
    each: usize,
) -> Result<()> {
    let (rank, size) = (ctx.rank(), ctx.size());
    let half = size.div_ceil(2);
    let temp = ctx.temp((size + 2 * half) * each)?;
    let blocks = temp.mem().head(size * each);
    let out = temp.mem().part(size * each, half * each);
    let into = temp.mem().part((size + half) * each, half * each);
    let to_end = (size - rank) * each;
    blocks.copy_from(send.part(rank * each, to_end));
    blocks
        .range(to_end, size * each)
        .copy_from(send.head(rank * each));
    let mut distance = 1;
    while distance < size {
        let moving = || (distance..size).filter(|i| i & distance != 0);
        let mut n = 0;
        for i in moving() {
            out.part(n * each, each)
                .copy_from(blocks.part(i * each, each));
            n += 1;
        }
        let (to, from) = ((rank + distance) % size, (rank + size - distance) % size);
        ctx.exchange(to, out.head(n * each), from, into.head(n * each))
            .await?;
        for (n, i) in moving().enumerate() {
            blocks
                .part(i * each, each)
                .copy_from(into.part(n * each, each));
        }
        distance *= 2;
    }
    for i in 0..size {
        recv.part((rank + size - i) % size * each, each)
            .copy_from(blocks.part(i * each, each));
    }
    Ok(())
}

async fn pairwise<P: P2p>(ctx: &Ctx<'_, P>, send: Blocks<'_>, recv: Blocks<'_>) -> Result<()> {
    let (rank, size) = (ctx.rank(), ctx.size());
    recv.get(rank).copy_from(send.get(rank));
    for step in 1..size {
        let (to, from) = ((rank + step) % size, (rank + size - step) % size);
        swap(ctx, to, send.get(to), from, recv.get(from)).await?;
    }
    Ok(())
}

/// An exchange without empty messages.
async fn swap<P: P2p>(ctx: &Ctx<'_, P>, to: usize, out: Mem, from: usize, into: Mem) -> Result<()> {
    match (out.is_empty(), into.is_empty()) {
        (false, false) => ctx.exchange(to, out, from, into).await,
        (false, true) => ctx.send(to, out).await,
        (true, false) => ctx.recv(from, into).await,
        (true, true) => Ok(()),
    }
}

/// All messages of a batch of steps are in flight before the first wait. So no cycle of ranks can
/// wait for each other, whichever blocks are empty.
pub(in crate::coll) async fn windowed<P: P2p>(
    ctx: &Ctx<'_, P>,
    send: Blocks<'_>,
    recv: Blocks<'_>,
) -> Result<()> {
    let (rank, size) = (ctx.rank(), ctx.size());
    for first in (1..size).step_by(WINDOW) {
        let steps = first..size.min(first + WINDOW);
        let mut receives = Receives::new();
        let mut sends = Sends::new();
        for from in steps.clone().map(|step| (rank + size - step) % size) {
            if !recv.get(from).is_empty() {
                receives.push(ctx.irecv(from, recv.get(from))?);
            }
        }
        for to in steps.map(|step| (rank + step) % size) {
            if !send.get(to).is_empty() {
                let pending = ctx.isend(to, send.get(to))?;
                sends.push_or_wait(ctx, pending).await?;
            }
        }
        receives.finish(ctx).await?;
        sends.finish(ctx).await?;
    }
    recv.get(rank).copy_from(send.get(rank));
    Ok(())
}

/// One partner in each round, the same for both: those whose ranks add up to the round's number.
async fn in_place<P: P2p>(ctx: &Ctx<'_, P>, recv: Blocks<'_>) -> Result<()> {
    let (rank, size) = (ctx.rank(), ctx.size());
    let temp = ctx.temp(recv.longest(size))?;
    for round in 0..size {
        let partner = (round + size - rank) % size;
        let block = recv.get(partner);
        if partner != rank && !block.is_empty() {
            let out = temp.mem().head(block.len());
            out.copy_from(block);
            ctx.exchange(partner, out, partner, block).await?;
        }
    }
    Ok(())
}
