//! `MPI_Alltoall`, `MPI_Alltoallv` and `MPI_Alltoallw` (MPI-5.0 §6.8).

use std::future::Future;

use super::algorithms::alltoall_steps;
use super::call::{Ctx, Initiated, P2p, initiated_or};
use super::hosts::aggregate;
use super::linear;
use super::memory::{Blocks, Mem, check_equal};
use crate::error::Result;

/// Block j of `send` on rank i goes to block i of `recv` on rank j. `None`: sends and replaces the
/// content of `recv` (`MPI_IN_PLACE`).
///
/// # Errors
/// When a message fails or the blocks' lengths differ among ranks.
#[inline(always)]
pub fn alltoall<'a, P: P2p>(
    ctx: Ctx<'a, P>,
    send: Option<Blocks<'a>>,
    recv: Blocks<'a>,
) -> Initiated<impl Future<Output = Result<()>>> {
    let rank = ctx.rank();
    if matches!(recv, Blocks::Uniform { each: 0, .. }) {
        return Initiated::Done;
    }
    if let Some(send) = send
        && let Err(error) = check_equal(send.len(rank), recv.len(rank))
    {
        return Initiated::Failed(error);
    }
    let some = |data: Mem| (!data.is_empty()).then_some(data);
    let initiated = match send {
        Some(send) if ctx.is_linear() => {
            let (out, into) = (
                move |to| some(send.get(to)),
                move |from| some(recv.get(from)),
            );
            let exchange = linear::exchange_all(ctx, out, into);
            Some(exchange.then(move || recv.get(rank).copy_from(send.get(rank))))
        }
        _ => None,
    };
    initiated_or(initiated, move || stepwise(ctx.out_of_line(), send, recv))
}

/// In steps: by the leaders of hosts where that pays.
async fn stepwise<P: P2p>(
    ctx: Ctx<'_, P>,
    send: Option<Blocks<'_>>,
    recv: Blocks<'_>,
) -> Result<()> {
    let ctx = &ctx;
    if let (Some(hosts), Blocks::Uniform { all, each }) = (ctx.hosts(), recv)
        && ctx.tuning().by_leaders(hosts, each)
    {
        let from = match send {
            Some(Blocks::Uniform { all, .. }) => Some(all),
            _ => None,
        };
        return Box::pin(aggregate::by_leaders(ctx, hosts, from, (all, each))).await;
    }
    alltoall_steps::among(ctx, send, recv).await
}
