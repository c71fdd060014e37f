//! Scatters along a binomial tree.

use crate::coll::call::{Ctx, P2p, Sends};
use crate::coll::memory::Mem;
use crate::error::Result;

/// The part of a rank that is not the root: receives its subtree's blocks and passes them on.
pub(in crate::coll) async fn binomial<P: P2p>(
    ctx: &Ctx<'_, P>,
    recv: Mem,
    root: usize,
) -> Result<()> {
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

/// The root sends each child the blocks of its subtree.
pub(in crate::coll) async fn binomial_root<P: P2p>(
    ctx: &Ctx<'_, P>,
    send: Mem,
    each: usize,
) -> Result<()> {
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
            let (whole, to_end) = (temp.mem(), (size - child) * each);
            whole.copy_from(send.part(child * each, to_end));
            whole
                .range(to_end, whole.len())
                .copy_from(send.head(whole.len() - to_end));
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
