//! `MPI_Gather` and `MPI_Gatherv` (MPI-5.0 §6.5).

use std::future::Future;

use super::algorithms::gather_tree;
use super::call::{Ctx, Initiated, P2p, initiated_or};
use super::linear;
use super::memory::{Blocks, Mem, check_equal};
use super::tuning::GatherAlgorithm;
use crate::error::Result;

/// `send` of rank i goes to the i-th of the equal blocks of `recv` on `root`; `recv` means nothing
/// elsewhere. `None` on the root: its block is there already (`MPI_IN_PLACE`).
///
/// # Errors
/// When a message fails or the blocks' lengths differ among ranks.
#[inline(always)]
pub fn gather<'a, P: P2p>(
    ctx: Ctx<'a, P>,
    send: Option<Mem>,
    recv: Mem,
    root: usize,
) -> Initiated<impl Future<Output = Result<()>>> {
    let each = if ctx.rank() == root {
        recv.len() / ctx.size()
    } else {
        send.map_or(0, Mem::len)
    };
    let initiated = match ctx.tuning().gather(ctx.on_one_host(), each) {
        GatherAlgorithm::Linear => {
            let blocks = Blocks::Uniform { all: recv, each };
            Some(gatherv(ctx, send, blocks, root))
        }
        GatherAlgorithm::Binomial => None,
    };
    initiated_or(initiated, move || {
        tree(ctx.out_of_line(), send, (recv, each), root)
    })
}

/// A gather of blocks of any length (`MPI_Gatherv`): every rank sends directly to the root.
///
/// # Errors
/// The errors of [`gather`].
#[inline(always)]
pub fn gatherv<'a, P: P2p>(
    ctx: Ctx<'a, P>,
    send: Option<Mem>,
    recv: Blocks<'a>,
    root: usize,
) -> Initiated<impl Future<Output = Result<()>>> {
    if ctx.rank() == root
        && let Err(error) = own_block(send, recv, root)
    {
        return Initiated::Failed(error);
    }
    let some = |data: Mem| (!data.is_empty()).then_some(data);
    let into = move |from| some(recv.get(from));
    linear::gather(ctx, root, send.and_then(some), into)
}

/// By a binomial tree; `recv` are all blocks, and the length of each.
async fn tree<P: P2p>(
    ctx: Ctx<'_, P>,
    send: Option<Mem>,
    (recv, each): (Mem, usize),
    root: usize,
) -> Result<()> {
    if each == 0 {
        return Ok(());
    }
    if ctx.rank() != root {
        return gather_tree::binomial(&ctx, send.unwrap_or(Mem::EMPTY), root).await;
    }
    own_block(send, Blocks::Uniform { all: recv, each }, root)?;
    gather_tree::binomial_root(&ctx, recv, each).await
}

fn own_block(send: Option<Mem>, recv: Blocks<'_>, root: usize) -> Result<()> {
    if let Some(send) = send {
        check_equal(send.len(), recv.get(root).len())?;
        recv.get(root).copy_from(send);
    }
    Ok(())
}
