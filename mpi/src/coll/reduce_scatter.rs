//! `MPI_Reduce_scatter_block` and `MPI_Reduce_scatter` (MPI-5.0 §6.10).

use super::algorithms::reduce_scatter_steps;
use super::call::{Ctx, P2p};
use super::memory::{Mem, Split, check_equal};
use super::reduction::Reducer;
use super::tuning::ReduceScatterAlgorithm;
use crate::error::Result;

/// Combines `send` of all ranks, whose parts `split` says, and leaves part i in `recv` on rank i.
/// `None`: the vector is in `recv`, which is as long, and the result goes to its start
/// (`MPI_IN_PLACE`).
///
/// # Errors
/// When a message fails, the lengths differ among ranks, or the operation fails.
pub async fn reduce_scatter<P: P2p>(
    ctx: &Ctx<'_, P>,
    op: &dyn Reducer,
    send: Option<Mem>,
    recv: Mem,
    split: Split<'_>,
) -> Result<()> {
    let (rank, size) = (ctx.rank(), ctx.size());
    let element = op.element();
    let vector = send.unwrap_or(recv);
    let total = split.start(size) * element;
    let own = split.count(rank) * element;
    check_equal(vector.len(), total)?;
    if send.is_some() {
        check_equal(recv.len(), own)?;
    }
    if total == 0 {
        return Ok(());
    }
    let result = recv.head(own);
    if size == 1 {
        result.copy_from(vector);
        return Ok(());
    }
    match ctx.tuning().reduce_scatter(total, op.commutative()) {
        ReduceScatterAlgorithm::Halving => {
            reduce_scatter_steps::halving(ctx, op, vector, result, split).await
        }
        ReduceScatterAlgorithm::Pairwise => {
            reduce_scatter_steps::pairwise(ctx, op, vector, result, split).await
        }
        ReduceScatterAlgorithm::Ordered => {
            reduce_scatter_steps::ordered(ctx, op, vector, result, split).await
        }
    }
}
