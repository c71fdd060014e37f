//! `MPI_Allreduce` (MPI-5.0 §6.9.6).

use std::future::Future;

use super::algorithms::allreduce_steps;
use super::call::{Ctx, Initiated, P2p, initiated_or};
use super::hosts::two_level;
use super::memory::{Mem, check_equal};
use super::reduction::Reducer;
use crate::error::Result;

/// Combines `send` of all ranks into `recv` on all ranks, the same bits everywhere. `None`: the
/// value is in `recv` (`MPI_IN_PLACE`).
///
/// # Errors
/// When a message fails, the lengths differ among ranks, or the operation fails.
#[inline(always)]
pub fn allreduce<P: P2p, R: Reducer + Copy>(
    ctx: Ctx<'_, P>,
    op: R,
    send: Option<Mem>,
    recv: Mem,
) -> Initiated<impl Future<Output = Result<()>>> {
    let mine = send.unwrap_or(recv);
    if recv.is_empty() || mine.len() != recv.len() {
        return check_equal(mine.len(), recv.len()).into();
    }
    if ctx.size() == 1 {
        recv.copy_from(mine);
        return Initiated::Done;
    }
    let initiated = allreduce_steps::linear(ctx, op, mine, recv);
    initiated_or(initiated, move || {
        stepwise(ctx.out_of_line(), op, mine, recv)
    })
}

/// In steps: within each host first where the operation allows it.
async fn stepwise<P: P2p>(ctx: Ctx<'_, P>, op: impl Reducer, mine: Mem, recv: Mem) -> Result<()> {
    match ctx.hosts() {
        Some(hosts) if ctx.tuning().host_by_host(op.commutative(), op.exact()) => {
            Box::pin(two_level::allreduce(&ctx, hosts, &op, (mine, recv))).await
        }
        _ => allreduce_steps::stepwise(&ctx, &op, mine, recv).await,
    }
}
