//! `MPI_Barrier` (MPI-5.0 §6.3).

use super::ctx::Ctx;
use super::flat;
use super::levels;
use super::mem::Mem;
use super::p2p::P2p;
use super::select::Barrier;
use crate::error::Result;

/// Returns on no rank before it was called on all.
///
/// # Errors
/// When a message fails.
pub async fn barrier<P: P2p>(ctx: &Ctx<P>) -> Result<()> {
    match ctx.hosts() {
        Some(hosts) => Box::pin(levels::barrier(ctx, hosts)).await,
        None => among(ctx).await,
    }
}

pub(super) async fn among<P: P2p>(ctx: &Ctx<P>) -> Result<()> {
    if ctx.choice.flat(ctx.alone()) {
        return flat::swap_all(ctx, |_| Some(Mem::EMPTY), |_| Some(Mem::EMPTY)).await;
    }
    match ctx.choice.barrier() {
        Barrier::Dissemination => dissemination(ctx).await,
        Barrier::Tree => tree(ctx).await,
    }
}

async fn dissemination<P: P2p>(ctx: &Ctx<P>) -> Result<()> {
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

async fn tree<P: P2p>(ctx: &Ctx<P>) -> Result<()> {
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
