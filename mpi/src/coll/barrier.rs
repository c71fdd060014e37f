//! `MPI_Barrier` (MPI-5.0 §6.3).

use std::future::Future;

use super::algorithms::barrier_steps;
use super::call::{Ctx, Initiated, P2p, initiated_or};
use super::hosts::two_level;
use super::linear;
use super::memory::Mem;
use crate::error::Result;

/// Returns on no rank before it was called on all.
///
/// # Errors
/// When a message fails.
#[inline(always)]
pub fn barrier<P: P2p>(ctx: Ctx<'_, P>) -> Initiated<impl Future<Output = Result<()>>> {
    initiated_or(without_steps(ctx), move || stepwise(ctx.out_of_line()))
}

/// Without steps, where that is the way.
#[inline(always)]
fn without_steps<P: P2p>(ctx: Ctx<'_, P>) -> Option<Initiated<impl Future<Output = Result<()>>>> {
    let empty = |_| Some(Mem::EMPTY);
    match ctx.is_linear() {
        true => Some(linear::exchange_all(ctx, empty, empty)),
        false => None,
    }
}

/// In steps: within each host and between hosts where that pays.
async fn stepwise<P: P2p>(ctx: Ctx<'_, P>) -> Result<()> {
    match ctx.hosts() {
        Some(hosts) => Box::pin(two_level::barrier(&ctx, hosts)).await,
        None => barrier_steps::stepwise(&ctx).await,
    }
}
