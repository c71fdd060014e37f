//! `MPI_Scatter` and `MPI_Scatterv` (MPI-5.0 §6.6).

use std::future::Future;

use super::algorithms::scatter_tree;
use super::call::{Ctx, Initiated, P2p, initiated_or};
use super::linear;
use super::memory::{Blocks, Mem, check_equal};
use super::tuning::GatherAlgorithm;
use crate::error::Result;

/// The i-th of the equal blocks of `send` on `root` goes to `recv` of rank i; `send` means nothing
/// elsewhere. `None` on the root: its block stays where it is (`MPI_IN_PLACE`).
///
/// # Errors
/// When a message fails or the blocks' lengths differ among ranks.
#[inline(always)]
pub fn scatter<'a, P: P2p>(
    ctx: Ctx<'a, P>,
    send: Mem,
    recv: Option<Mem>,
    root: usize,
) -> Initiated<impl Future<Output = Result<()>>> {
    let each = if ctx.rank() == root {
        send.len() / ctx.size()
    } else {
        recv.map_or(0, Mem::len)
    };
    let initiated = match ctx.tuning().scatter(ctx.on_one_host(), each) {
        GatherAlgorithm::Linear => {
            let blocks = Blocks::Uniform { all: send, each };
            Some(scatterv(ctx, blocks, recv, root))
        }
        GatherAlgorithm::Binomial => None,
    };
    initiated_or(initiated, move || {
        tree(ctx.out_of_line(), (send, each), recv, root)
    })
}

/// A scatter of blocks of any length (`MPI_Scatterv`): the root sends directly to every rank.
///
/// # Errors
/// The errors of [`scatter`].
#[inline(always)]
pub fn scatterv<'a, P: P2p>(
    ctx: Ctx<'a, P>,
    send: Blocks<'a>,
    recv: Option<Mem>,
    root: usize,
) -> Initiated<impl Future<Output = Result<()>>> {
    if ctx.rank() == root
        && let Err(error) = own_block(send, recv, root)
    {
        return Initiated::Failed(error);
    }
    let some = |data: Mem| (!data.is_empty()).then_some(data);
    let out = move |to| some(send.get(to));
    linear::scatter(ctx, root, out, recv.and_then(some))
}

/// By a binomial tree; `send` are all blocks, and the length of each.
async fn tree<P: P2p>(
    ctx: Ctx<'_, P>,
    (send, each): (Mem, usize),
    recv: Option<Mem>,
    root: usize,
) -> Result<()> {
    if each == 0 {
        return Ok(());
    }
    if ctx.rank() != root {
        return scatter_tree::binomial(&ctx, recv.unwrap_or(Mem::EMPTY), root).await;
    }
    own_block(Blocks::Uniform { all: send, each }, recv, root)?;
    scatter_tree::binomial_root(&ctx, send, each).await
}

fn own_block(send: Blocks<'_>, recv: Option<Mem>, root: usize) -> Result<()> {
    if let Some(recv) = recv {
        check_equal(send.get(root).len(), recv.len())?;
        recv.copy_from(send.get(root));
    }
    Ok(())
}
