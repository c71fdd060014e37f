//! `MPI_Scatter` and `MPI_Scatterv` (MPI-5.0 §6.6).

use super::ctx::Ctx;
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
pub async fn scatter<P: P2p>(
    ctx: &Ctx<'_, P>,
    send: Mem,
    recv: Option<Mem>,
    root: usize,
) -> Result<()> {
    let (rank, size) = (ctx.rank(), ctx.size());
    let each = if rank == root {
        send.len() / size
    } else {
        recv.map_or(0, Mem::len)
    };
    let blocks = Blocks::Uniform { all: send, each };
    match ctx.tuning().scatter(ctx.on_one_host(), each) {
        GatherAlgorithm::Linear => scatterv(ctx, blocks, recv, root).await,
        GatherAlgorithm::Binomial if each == 0 => Ok(()),
        GatherAlgorithm::Binomial if rank == root => {
            own_block(blocks, recv, root)?;
            binomial_root(ctx, send, each).await
        }
        GatherAlgorithm::Binomial => binomial(ctx, recv.unwrap_or(Mem::EMPTY), root).await,
    }
}

/// The same with blocks of any length: the root sends straight to every rank.
///
/// # Errors
/// As [`scatter`].
pub async fn scatterv<P: P2p>(
    ctx: &Ctx<'_, P>,
    send: Blocks<'_>,
    recv: Option<Mem>,
    root: usize,
) -> Result<()> {
    let (rank, size) = (ctx.rank(), ctx.size());
    if rank != root {
        return match recv {
            Some(into) if !into.is_empty() => ctx.recv(root, into).await,
            _ => Ok(()),
        };
    }
    own_block(send, recv, root)?;
    let mut sends = Sends::new();
    for to in (0..size).filter(|&r| r != root) {
        if !send.get(to).is_empty() {
            let pending = ctx.isend(to, send.get(to))?;
            sends.push_or_wait(ctx, pending).await?;
        }
    }
    sends.finish(ctx).await
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
