//! Barriers in steps: by dissemination, or along a tree.

use crate::coll::call::{Ctx, P2p};
use crate::coll::memory::Mem;
use crate::coll::tuning::BarrierAlgorithm;
use crate::error::Result;

/// In steps.
pub(in crate::coll) async fn stepwise<P: P2p>(ctx: &Ctx<'_, P>) -> Result<()> {
    match ctx.tuning().barrier() {
        BarrierAlgorithm::Dissemination => dissemination(ctx).await,
        BarrierAlgorithm::Tree => tree(ctx).await,
    }
}

async fn dissemination<P: P2p>(ctx: &Ctx<'_, P>) -> Result<()> {
    let (rank, size) = (ctx.rank(), ctx.size());
    let mut distance = 1;
    while distance < size {
        let to = (rank + distance) % size;
        let from = (rank + size - distance) % size;
        ctx.exchange(to, Mem::EMPTY, from, Mem::EMPTY).await?;
        distance *= 2;
    }
    Ok(())
}

async fn tree<P: P2p>(ctx: &Ctx<'_, P>) -> Result<()> {
    let (rank, size) = (ctx.rank(), ctx.size());
    let mut mask = 1;
    while mask < size && rank & mask == 0 {
        if rank + mask < size {
            ctx.recv(rank + mask, Mem::EMPTY).await?;
        }
        mask *= 2;
    }
    if rank != 0 {
        ctx.exchange(rank - mask, Mem::EMPTY, rank - mask, Mem::EMPTY)
            .await?;
    }
    while mask > 1 {
        mask /= 2;
        if rank + mask < size {
            ctx.send(rank + mask, Mem::EMPTY).await?;
        }
    }
    Ok(())
}
