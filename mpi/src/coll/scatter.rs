//! `MPI_Scatter` and `MPI_Scatterv` (MPI-5.0 §6.6).

use std::future::Future;

use super::ctx::Ctx;
use super::initiated::{Initiated, initiated_or};
use super::linear;
use super::mem::{Blocks, Mem, check_equal};
use super::p2p::P2p;
use super::tuning::GatherAlgorithm;
use super::windows::Sends;
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
    initiated_or(initiated, move || tree(ctx, (send, each), recv, root))
}

/// The same with blocks of any length: the root sends straight to every rank.
///
/// # Errors
/// As [`scatter`].
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
        return binomial(&ctx, recv.unwrap_or(Mem::EMPTY), root).await;
    }
    own_block(Blocks::Uniform { all: send, each }, recv, root)?;
    binomial_root(&ctx, send, each).await
}

fn own_block(send: Blocks<'_>, recv: Option<Mem>, root: usize) -> Result<()> {
    if let Some(recv) = recv {
        check_equal(send.get(root).len(), recv.len())?;
        recv.copy_from(send.get(root));
    }
    Ok(())
}

async fn binomial<P: P2p>(ctx: &Ctx<'_, P>, recv: Mem, root: usize) -> Result<()> {
    let (size, each) = (ctx.size(), recv.len());
    let place = (ctx.rank() + size - root) % size;
    let reach = 1 << place.trailing_zeros();
    let parent = (place - reach + root) % size;
    let below = reach.min(size - place);
    if below == 1 {
        return ctx.recv(parent, recv).await;
    }
    let temp = ctx.temp(below * each)?;
    ctx.recv(parent, temp.mem()).await?;
    let mut sends = Sends::new();
    let mut mask = below.next_power_of_two() / 2;
    while mask > 0 {
        let n = mask.min(below - mask);
        let out = temp.mem().part(mask * each, n * each);
        let send = ctx.isend((place + mask + root) % size, out)?;
        sends.push_or_wait(ctx, send).await?;
        mask /= 2;
    }
    recv.copy_from(temp.mem().head(each));
    sends.finish(ctx).await
}

async fn binomial_root<P: P2p>(ctx: &Ctx<'_, P>, send: Mem, each: usize) -> Result<()> {
    let (root, size) = (ctx.rank(), ctx.size());
    let mut sends = Sends::new();
    let mut wrapped = None;
    let mut mask = size.next_power_of_two() / 2;
    while mask > 0 {
        let n = mask.min(size - mask);
        let child = (mask + root) % size;
        let out = if child + n <= size {
            send.part(child * each, n * each)
        } else {
            let temp = ctx.temp(n * each)?;
            let (whole, straight) = (temp.mem(), (size - child) * each);
            whole.copy_from(send.part(child * each, straight));
            whole
                .range(straight, whole.len())
                .copy_from(send.head(whole.len() - straight));
            wrapped = Some(temp);
            whole
        };
        let pending = ctx.isend(child, out)?;
        sends.push_or_wait(ctx, pending).await?;
        mask /= 2;
    }
    sends.finish(ctx).await?;
    drop(wrapped);
    Ok(())
}
