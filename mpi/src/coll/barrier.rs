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
    let empty = |_| Some(Mem::EMPTY);
    let initiated = match ctx.is_linear() {
        true => Some(linear::exchange_all(ctx, empty, empty)),
        false => None,
    };
    initiated_or(initiated, move || stepwise(ctx))
}

/// In steps: within each host and between hosts where that pays.
async fn stepwise<P: P2p>(ctx: Ctx<'_, P>) -> Result<()> {
    match ctx.hosts() {
        Some(hosts) => Box::pin(two_level::barrier(&ctx, hosts)).await,
        None => barrier_steps::stepwise(&ctx).await,
    }
}
