//! `MPI_Allgather` and `MPI_Allgatherv` (MPI-5.0 §6.7).

use std::future::Future;

use super::algorithms::allgather_steps;
use super::call::{Ctx, Initiated, P2p, initiated_or};
use super::hosts::two_level;
use super::linear;
use super::memory::{Blocks, Mem, check_equal};
use super::tuning::ALLGATHER_LOGARITHMIC;
use crate::error::Result;

/// `send` of rank i goes to block i of `recv` on all ranks. `None`: it is there already
/// (`MPI_IN_PLACE`).
///
/// # Errors
/// When a message fails or the blocks' lengths differ among ranks.
#[inline(always)]
pub fn allgather<'a, P: P2p>(
    ctx: Ctx<'a, P>,
    send: Option<Mem>,
    recv: Blocks<'a>,
) -> Initiated<impl Future<Output = Result<()>>> {
    let own = recv.get(ctx.rank());
    let mine = send.unwrap_or(own);
    if let Err(error) = check_equal(mine.len(), own.len()) {
        return Initiated::Failed(error);
    }
    let some = |data: Mem| (!data.is_empty()).then_some(data);
    let initiated = match ctx.is_linear() {
        true => {
            let into = move |from| some(recv.get(from));
            let exchange = linear::exchange_all(ctx, move |_| some(mine), into);
            Some(exchange.then(move || own.copy_from(mine)))
        }
        false => None,
    };
    initiated_or(initiated, move || stepwise(ctx.out_of_line(), mine, recv))
}

/// In steps: among the hosts first where that pays.
async fn stepwise<P: P2p>(ctx: Ctx<'_, P>, mine: Mem, recv: Blocks<'_>) -> Result<()> {
    let ctx = &ctx;
    let total = recv.total(0, ctx.size(), ctx.size());
    if let Some(hosts) = ctx.hosts()
        && (1..=ALLGATHER_LOGARITHMIC).contains(&total)
    {
        return Box::pin(two_level::allgather(ctx, hosts, mine, recv)).await;
    }
    recv.get(ctx.rank()).copy_from(mine);
    allgather_steps::among(ctx, recv).await
}
