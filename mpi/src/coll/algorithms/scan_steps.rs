//! Scans in steps: by recursive doubling, or along a chain.

use crate::coll::call::{Ctx, P2p, Receives, Sends};
use crate::coll::memory::{Mem, stride};
use crate::coll::reduction::{Pair, Reducer, fold};
use crate::coll::tuning::SEGMENT;
use crate::error::Result;

/// Hillis and Steele (1986) on groups of 1, 2, 4 … ranks. A value from a lower group is the left
/// operand for both the group's value and the result.
pub(in crate::coll) async fn doubling<P: P2p>(
    ctx: &Ctx<'_, P>,
    op: &dyn Reducer,
    mine: Mem,
    recv: Mem,
    exclusive: bool,
) -> Result<()> {
    let (rank, size, len) = (ctx.rank(), ctx.size(), recv.len());
    // Of two ranks neither changes its group's value.
    let changes = size > 2;
    let temp = ctx.temp(if changes { 2 } else { 1 } * stride(len))?;
    let mut group = Pair {
        acc: mine,
        other: temp.mem().head(len),
    };
    if changes {
        group.acc = temp.mem().part(stride(len), len);
        group.acc.copy_from(mine);
    }
    let mut started = !exclusive;
    if started {
        recv.copy_from(mine);
    }
    let mut mask = 1;
    while mask < size {
        let partner = rank ^ mask;
        mask *= 2;
        if partner >= size {
            continue;
        }
        let (lower, last) = (partner < rank, mask >= size);
        // No rank needs the group's value of the last step.
        match (last, lower) {
            (true, false) => return ctx.send(partner, group.acc).await,
            (true, true) if !started => return ctx.recv(partner, recv).await,
            (true, true) => ctx.recv(partner, group.other).await?,
            (false, _) => {
                ctx.exchange(partner, group.acc, partner, group.other)
                    .await?;
            }
        }
        if lower && started {
            fold(op, group.other, recv)?;
        } else if lower {
            recv.copy_from(group.other);
            started = true;
        }
        if !last {
            group.combine(op, lower)?;
        }
    }
    Ok(())
}

/// Segments travel from rank to rank, each adding its own value at the end.
pub(in crate::coll) async fn chain<P: P2p>(
    ctx: &Ctx<'_, P>,
    op: &dyn Reducer,
    mine: Mem,
    recv: Mem,
    exclusive: bool,
) -> Result<()> {
    let (rank, size, len) = (ctx.rank(), ctx.size(), recv.len());
    let step = SEGMENT.div_ceil(op.element()) * op.element();
    let segment = |whole: Mem, at: usize| whole.part(at, step.min(len - at));
    let temp = ctx.temp(if rank == 0 { 0 } else { 2 * stride(len) })?;
    // The received value and the forwarded value have own buffers, because `recv` may be the value.
    let (before, total) = if rank == 0 {
        (Mem::EMPTY, mine)
    } else {
        (temp.mem().head(len), temp.mem().part(stride(len), len))
    };
    let mut ahead = (0..len).step_by(step);
    let mut receives = Receives::new();
    let mut sends = Sends::new();
    for at in (0..len).step_by(step) {
        if rank > 0 {
            while !receives.is_full()
                && let Some(next) = ahead.next()
            {
                receives.push(ctx.irecv(rank - 1, segment(before, next))?);
            }
            receives.pop(ctx).await?;
            segment(total, at).copy_from(segment(mine, at));
            fold(op, segment(before, at), segment(total, at))?;
        }
        if rank + 1 < size {
            let send = ctx.isend(rank + 1, segment(total, at))?;
            sends.push_or_wait(ctx, send).await?;
        }
    }
    sends.finish(ctx).await?;
    match (exclusive, rank) {
        (false, _) => recv.copy_from(total),
        (true, 0) => {}
        (true, _) => recv.copy_from(before),
    }
    Ok(())
}
