//! `MPI_Reduce` (MPI-5.0 §6.9.1).

use std::future::Future;

use super::algorithms::reduce_steps;
use super::call::{Ctx, Initiated, P2p, initiated_or};
use super::hosts::two_level;
use super::memory::{Mem, check_equal};
use super::reduction::Reducer;
use crate::error::Result;

/// Combines `send` of all ranks into `recv` on `root`; `recv` means nothing elsewhere. `None` on
/// the root: its value is in `recv` (`MPI_IN_PLACE`). The order of a commutative operation's
/// operands depends on the number of ranks, the count, the operation and the root.
///
/// # Errors
/// When a message fails, the lengths differ among ranks, or the operation fails.
#[inline(always)]
pub fn reduce<P: P2p, R: Reducer + Copy>(
    ctx: Ctx<'_, P>,
    op: R,
    send: Option<Mem>,
    recv: Mem,
    root: usize,
) -> Initiated<impl Future<Output = Result<()>>> {
    let mine = send.unwrap_or(recv);
    if ctx.rank() == root
        && let Err(error) = check_equal(mine.len(), recv.len())
    {
        return Initiated::Failed(error);
    }
    if mine.is_empty() {
        return Initiated::Done;
    }
    if ctx.size() == 1 {
        recv.copy_from(mine);
        return Initiated::Done;
    }
    let initiated = reduce_steps::linear(ctx, op, mine, recv, root);
    initiated_or(initiated, move || {
        stepwise(ctx.out_of_line(), op, mine, recv, root)
    })
}

/// In steps: within each host first where the operation allows it.
async fn stepwise<P: P2p>(
    ctx: Ctx<'_, P>,
    op: impl Reducer,
    mine: Mem,
    recv: Mem,
    root: usize,
) -> Result<()> {
    match ctx.hosts() {
        Some(hosts) if ctx.tuning().host_by_host(op.commutative(), op.exact()) => {
            Box::pin(two_level::reduce(&ctx, hosts, &op, (mine, recv), root)).await
        }
        _ => reduce_steps::stepwise(&ctx, &op, mine, recv, root).await,
    }
}
