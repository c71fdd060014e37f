//! `MPI_Gather` and `MPI_Gatherv` (MPI-5.0 §6.5).

use std::future::Future;

use super::ctx::Ctx;
use super::initiated::{Initiated, initiated_or};
use super::linear;
use super::mem::{Blocks, Mem, check_equal};
use super::p2p::P2p;
use super::tuning::GatherAlgorithm;
use super::windows::Receives;
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
    initiated_or(initiated, move || tree(ctx, send, (recv, each), root))
}

/// The same with blocks of any length: every rank sends straight to the root.
///
/// # Errors
/// As [`gather`].
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
        return binomial(&ctx, send.unwrap_or(Mem::EMPTY), root).await;
    }
    own_block(send, Blocks::Uniform { all: recv, each }, root)?;
    binomial_root(&ctx, recv, each).await
}

fn own_block(send: Option<Mem>, recv: Blocks<'_>, root: usize) -> Result<()> {
    if let Some(send) = send {
        check_equal(send.len(), recv.get(root).len())?;
        recv.get(root).copy_from(send);
    }
    Ok(())
}

/// The part of a rank that is not the root: collects its subtree's blocks and passes them on.
/// Places count ranks from the root; the subtree below a place is the run of places that share its
/// leading bits.
async fn binomial<P: P2p>(ctx: &Ctx<'_, P>, send: Mem, root: usize) -> Result<()> {
    let (size, each) = (ctx.size(), send.len());
    let place = (ctx.rank() + size - root) % size;
    let reach = 1 << place.trailing_zeros();
    let parent = (place - reach + root) % size;
    let below = reach.min(size - place);
    if below == 1 {
        return ctx.send(parent, send).await;
    }
    let temp = ctx.temp(below * each)?;
    temp.mem().copy_from(send);
    let mut receives = Receives::new();
    let mut mask = 1;
    while mask < below {
        let n = mask.min(below - mask);
        let into = temp.mem().part(mask * each, n * each);
        receives
            .push_or_wait(ctx, (place + mask + root) % size, into)
            .await?;
        mask *= 2;
    }
    receives.finish(ctx).await?;
    ctx.send(parent, temp.mem()).await
}

async fn binomial_root<P: P2p>(ctx: &Ctx<'_, P>, recv: Mem, each: usize) -> Result<()> {
    let (root, size) = (ctx.rank(), ctx.size());
    let mut receives = Receives::new();
    let mut wrapped = None;
    let mut mask = 1;
    while mask < size {
        let n = mask.min(size - mask);
        let child = (mask + root) % size;
        let into = if child + n <= size {
            recv.part(child * each, n * each)
        } else {
            let temp = ctx.temp(n * each)?;
            let into = temp.mem();
            wrapped = Some((temp, child));
            into
        };
        receives.push_or_wait(ctx, child, into).await?;
        mask *= 2;
    }
    receives.finish(ctx).await?;
    if let Some((temp, child)) = wrapped {
        let (whole, straight) = (temp.mem(), (size - child) * each);
        recv.part(child * each, straight)
            .copy_from(whole.head(straight));
        recv.copy_from(whole.range(straight, whole.len()));
    }
    Ok(())
}
