//! `MPI_Scan` and `MPI_Exscan` (MPI-5.0 §6.11).

use std::future::Future;

use super::algorithms::scan_steps;
use super::call::{Ctx, Initiated, P2p, initiated_or};
use super::linear::linear_scan;
use super::memory::{Mem, check_equal};
use super::reduction::Reducer;
use super::tuning::{Exchange, ScanAlgorithm};
use crate::error::Result;

/// Combines the values of ranks 0 to i into `recv` of rank i, in the order of ranks. With
/// `exclusive` the value of rank i is left out, and `recv` of rank 0 stays unchanged. `None`: the
/// value is in `recv` (`MPI_IN_PLACE`).
///
/// # Errors
/// When a message fails, the lengths differ among ranks, or the operation fails.
#[inline(always)]
pub fn scan<P: P2p, R: Reducer + Copy>(
    ctx: Ctx<'_, P>,
    op: R,
    send: Option<Mem>,
    recv: Mem,
    exclusive: bool,
) -> Initiated<impl Future<Output = Result<()>>> {
    let mine = send.unwrap_or(recv);
    if recv.is_empty() || mine.len() != recv.len() {
        return check_equal(mine.len(), recv.len()).into();
    }
    if ctx.size() == 1 {
        if !exclusive {
            recv.copy_from(mine);
        }
        return Initiated::Done;
    }
    let initiated = match ctx.tuning().scan(ctx.size(), recv.len()) {
        ScanAlgorithm::Chain => Some(scan_steps::chain(ctx, op, mine, recv, exclusive)),
        ScanAlgorithm::Doubling => None,
    };
    initiated_or(initiated, move || {
        doubling(ctx.out_of_line(), op, mine, recv, exclusive)
    })
}

/// Among more ranks: linear on one host, or in steps.
async fn doubling<P: P2p>(
    ctx: Ctx<'_, P>,
    op: impl Reducer + Copy,
    mine: Mem,
    recv: Mem,
    exclusive: bool,
) -> Result<()> {
    let (tuning, one_host) = (ctx.tuning(), ctx.on_one_host());
    match tuning.operands(one_host, ctx.size(), recv.len(), op.symmetric()) {
        Exchange::Linear => linear_scan(ctx, op, mine, recv, exclusive).finish().await,
        _ => scan_steps::doubling(&ctx, &op, mine, recv, exclusive).await,
    }
}
