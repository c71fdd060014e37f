//! Neighbourhood collectives on typed data (MPI-5.0 §8.6).

use super::staging::{Access, Staged, StagedParts};
use crate::coll::call::{Ctx, P2p};
use crate::coll::neighborhood::{self, Neighborhood};
use crate::error::Result;
use crate::p2p::Typed;

/// `MPI_Neighbor_allgather` and `MPI_Neighbor_allgatherv`; `recv` has one buffer for each source.
///
/// # Errors
/// When a message fails or the blocks' lengths differ among ranks.
pub(in crate::coll) async fn neighbor_allgatherv<P: P2p>(
    ctx: Ctx<'_, P>,
    edges: &Neighborhood,
    send: &Typed,
    recv: &[Typed],
) -> Result<()> {
    let out = Staged::new(&ctx, send.data(), Access::Read)?;
    let into = StagedParts::new(&ctx, recv, access(edges))?;
    let blocks = into.blocks();
    neighborhood::exchange(&ctx, edges, |_| out.mem(), |at| blocks.get(at)).await?;
    into.finish();
    Ok(())
}

/// `MPI_Neighbor_alltoall`, `MPI_Neighbor_alltoallv` and `MPI_Neighbor_alltoallw`; one buffer for
/// each destination, and one for each source.
///
/// # Errors
/// The errors of [`neighbor_allgatherv`].
pub(in crate::coll) async fn neighbor_alltoallv<P: P2p>(
    ctx: Ctx<'_, P>,
    edges: &Neighborhood,
    send: &[Typed],
    recv: &[Typed],
) -> Result<()> {
    let out = StagedParts::new(&ctx, send, Access::Read)?;
    let into = StagedParts::new(&ctx, recv, access(edges))?;
    let (from, blocks) = (out.blocks(), into.blocks());
    neighborhood::exchange(&ctx, edges, |at| from.get(at), |at| blocks.get(at)).await?;
    into.finish();
    Ok(())
}

/// Blocks of `MPI_PROC_NULL` stay as they are.
fn access(edges: &Neighborhood) -> Access {
    Access::to_write(edges.has_borders())
}
