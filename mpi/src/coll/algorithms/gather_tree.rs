//! Gathers along a binomial tree.

use crate::coll::call::{Ctx, P2p, Receives};
use crate::coll::memory::Mem;
use crate::error::Result;

/// The part of a rank that is not the root: collects its subtree's blocks and passes them on.
/// Places count ranks from the root; the subtree below a place is the run of places that share its
/// leading bits.
pub(in crate::coll) async fn binomial<P: P2p>(
    ctx: &Ctx<'_, P>,
    send: Mem,
    root: usize,
) -> Result<()> {
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

/// The root receives from each child the blocks of its subtree.
pub(in crate::coll) async fn binomial_root<P: P2p>(
    ctx: &Ctx<'_, P>,
    recv: Mem,
    each: usize,
) -> Result<()> {
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
        let (whole, to_end) = (temp.mem(), (size - child) * each);
        recv.part(child * each, to_end)
            .copy_from(whole.head(to_end));
        recv.copy_from(whole.range(to_end, whole.len()));
    }
    Ok(())
}
