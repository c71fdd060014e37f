//! Exchanges without steps: every rank sends all that it has for others at once, and then takes
//! what they sent.
//!
//! Between ranks of one host a message costs little, and waiting much where ranks share cores: each
//! rank runs once.

use super::ctx::{Ctx, Receives, Sends, WINDOW};
use super::mem::Mem;
use super::p2p::P2p;
use crate::error::Result;

/// Sends `out(i)` to each other rank i and receives `into(i)` from it; `None` on both sides is no
/// message.
pub(super) async fn exchange_all<P: P2p>(
    ctx: &Ctx<P>,
    out: impl Fn(usize) -> Option<Mem>,
    into: impl Fn(usize) -> Option<Mem>,
) -> Result<()> {
    let (rank, size) = (ctx.rank(), ctx.size());
    let after = |step| {
        let to = rank + step;
        if to < size { to } else { to - size }
    };
    let mut first = 1;
    while first < size {
        let end = size.min(first + WINDOW);
        let mut sends = Sends::new();
        let mut receives = Receives::new();
        for to in (first..end).map(after) {
            if let Some(data) = out(to) {
                sends.push(ctx.isend(to, data)?);
            }
        }
        for from in (first..end).map(|step| after(size - step)) {
            if let Some(room) = into(from) {
                receives.take_or_push(ctx, from, room)?;
            }
        }
        receives.finish(ctx).await?;
        sends.finish(ctx).await?;
        first = end;
    }
    Ok(())
}

/// Sends `data` to all other ranks.
pub(super) async fn send_to_all<P: P2p>(ctx: &Ctx<P>, data: Mem, sends: &mut Sends) -> Result<()> {
    let (rank, size) = (ctx.rank(), ctx.size());
    for to in (rank + 1..size).chain(0..rank) {
        let pending = ctx.isend(to, data)?;
        sends.push_or_wait(ctx, pending).await?;
    }
    Ok(())
}

/// `root` gets each other rank's `mine` in `into(i)`; the others are done when their data is read.
pub(super) async fn gather_at<P: P2p>(
    ctx: &Ctx<P>,
    root: usize,
    mine: Mem,
    into: impl Fn(usize) -> Mem,
) -> Result<()> {
    let (rank, size) = (ctx.rank(), ctx.size());
    if rank != root {
        return ctx.send(root, mine).await;
    }
    let mut receives = Receives::new();
    for from in (rank + 1..size).chain(0..rank) {
        receives.push_or_wait(ctx, from, into(from)).await?;
    }
    receives.finish(ctx).await
}
