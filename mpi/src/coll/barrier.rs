//! `MPI_Barrier` (MPI-5.0 §6.3).

use super::ctx::Ctx;
use super::linear;
use super::mem::Mem;
use super::p2p::P2p;
use super::tuning::BarrierAlgorithm;
use crate::error::Result;

pub(super) async fn among<P: P2p>(ctx: &Ctx<P>) -> Result<()> {
    if ctx.tuning.flat(ctx.on_one_host()) {
        return linear::exchange_all(ctx, |_| Some(Mem::EMPTY), |_| Some(Mem::EMPTY)).await;
    }
    match ctx.tuning.barrier() {
        BarrierAlgorithm::Dissemination => dissemination(ctx).await,
        BarrierAlgorithm::Tree => tree(ctx).await,
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
