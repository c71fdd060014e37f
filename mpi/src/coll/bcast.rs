//! `MPI_Bcast` (MPI-5.0 §6.4).

use std::future::Future;

use super::algorithms::bcast_steps;
use super::call::{Ctx, Initiated, P2p, initiated_or};
use super::hosts::two_level;
use super::memory::Mem;
use crate::error::Result;

/// `data` on `root` goes to `data` on all ranks; the length is the same everywhere.
///
/// # Errors
/// When a message fails or the lengths differ.
#[inline(always)]
pub fn bcast<P: P2p>(
    ctx: Ctx<'_, P>,
    data: Mem,
    root: usize,
) -> Initiated<impl Future<Output = Result<()>>> {
    if ctx.size() == 1 || data.is_empty() {
        return Initiated::Done;
    }
    let initiated = bcast_steps::linear(ctx, data, root);
    initiated_or(initiated, move || stepwise(ctx.out_of_line(), data, root))
}

/// In steps: between hosts first where some ranks share one.
async fn stepwise<P: P2p>(ctx: Ctx<'_, P>, data: Mem, root: usize) -> Result<()> {
    match ctx.hosts() {
        Some(hosts) => Box::pin(two_level::bcast(&ctx, hosts, data, root)).await,
        None => bcast_steps::stepwise(&ctx, data, root).await,
    }
}
