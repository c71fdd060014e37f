//! `MPI_Reduce` (MPI-5.0 §6.9.1).

use super::ctx::{Ctx, Sends};
use super::direct::{Combiners, Linear};
use super::halving::{Halves, Part, Survivors};
use super::levels;
use super::mem::{Mem, Split};
use super::order::Order;
use super::p2p::P2p;
use super::reducer::{Reducer, combine_into, exchange_fold, send_value};
use super::select::{Near, Reduce};
use crate::error::Result;

/// Combines `send` of all ranks into `recv` on `root`; `recv` means nothing elsewhere. `None` on the root: its
/// value is in `recv` (`MPI_IN_PLACE`). The order of a commutative operation's operands depends on the number of
/// ranks, the count, the operation and the root.
///
/// # Errors
/// When a message fails, the lengths differ among ranks, or the operation fails.
pub async fn reduce<P: P2p>(
    ctx: &Ctx<P>,
    op: &dyn Reducer,
    send: Option<Mem>,
    recv: Mem,
    root: usize,
) -> Result<()> {
    let mine = send.unwrap_or(recv);
    if ctx.rank() == root {
        super::check_equal(mine.len(), recv.len())?;
    }
    if mine.is_empty() {
        return Ok(());
    }
    match ctx.hosts() {
        Some(hosts) if ctx.choice.host_by_host(op) => {
            Box::pin(levels::reduce(ctx, hosts, op, (mine, recv), root)).await
        }
        _ => among(ctx, op, mine, recv, root).await,
    }
}

pub(super) async fn among<P: P2p>(
    ctx: &Ctx<P>,
    op: &dyn Reducer,
    mine: Mem,
    recv: Mem,
    root: usize,
) -> Result<()> {
    let size = ctx.size();
    if size == 1 {
        recv.copy_from(mine);
        return Ok(());
    }
    let (len, commutative) = (mine.len(), op.commutative());
    let algorithm = ctx.choice.reduce(size, len, commutative);
    let order = match algorithm {
        Reduce::Binomial => Order::Binomial,
        Reduce::Rabenseifner => Order::Halving,
    };
    // In the order of ranks the tree's root is rank 0, for the others it is the root.
    let first = if commutative { root } else { 0 };
    let combiners = match ctx.choice.operands(ctx.alone(), size, len, op.symmetric()) {
        Near::Steps => None,
        Near::Flat => Some(Combiners::Only(root)),
        Near::Direct => Some(Combiners::Blocks),
    };
    if let Some(combiners) = combiners {
        let linear = Linear {
            ctx,
            op,
            first,
            order,
            combiners,
            elements: len / op.element(),
        };
        return linear.to_root(mine, recv, root).await;
    }
    match algorithm {
        Reduce::Rabenseifner => rabenseifner(ctx, op, mine, recv, root).await,
        Reduce::Binomial if op.commutative() => binomial(ctx, op, mine, recv, root).await,
        Reduce::Binomial => ordered(ctx, op, mine, recv, root).await,
    }
}

/// The tree's root must be rank 0 for the order of ranks; the result goes on from there.
async fn ordered<P: P2p>(
    ctx: &Ctx<P>,
    op: &dyn Reducer,
    mine: Mem,
    recv: Mem,
    root: usize,
) -> Result<()> {
    if root == 0 {
        return binomial(ctx, op, mine, recv, 0).await;
    }
    if ctx.rank() == 0 {
        let result = ctx.temp(mine.len())?;
        binomial(ctx, op, mine, result.mem(), 0).await?;
        return ctx.send(root, result.mem()).await;
    }
    binomial(ctx, op, mine, Mem::EMPTY, 0).await?;
    if ctx.rank() == root {
        ctx.recv(0, recv).await?;
    }
    Ok(())
}

/// Children stand for runs of places right after this one's, so what is received is the upper operand, and the
/// result stays where it was received.
async fn binomial<P: P2p>(
    ctx: &Ctx<P>,
    op: &dyn Reducer,
    mine: Mem,
    recv: Mem,
    root: usize,
) -> Result<()> {
    let size = ctx.size();
    let place = (ctx.rank() + size - root) % size;
    let rank = |p: usize| (p + root) % size;
    let children = if place == 0 {
        size
    } else {
        (size - place).min(1 << place.trailing_zeros())
    };
    if children == 1 {
        return send_value(ctx, op, rank(place & (place - 1)), mine).await;
    }
    let temp = ctx.temp(2 * stride(mine.len()))?;
    let buffers = [
        temp.mem().head(mine.len()),
        temp.mem().part(stride(mine.len()), mine.len()),
    ];
    let mut current = mine;
    let mut mask = 1;
    while mask < children {
        let into = buffers[usize::from(current.ptr() == buffers[0].ptr())];
        let from = rank(place + mask);
        let mut none = Sends::new();
        exchange_fold(
            ctx,
            op,
            (from, Mem::EMPTY),
            (from, into),
            current,
            false,
            &mut none,
        )
        .await?;
        current = into;
        mask *= 2;
    }
    if place == 0 {
        recv.copy_from(current);
        return Ok(());
    }
    send_value(ctx, op, rank(place & (place - 1)), current).await
}

/// Room for `len` bytes such that what comes after it is aligned.
pub(super) const fn stride(len: usize) -> usize {
    len.next_multiple_of(64)
}

async fn rabenseifner<P: P2p>(
    ctx: &Ctx<P>,
    op: &dyn Reducer,
    mine: Mem,
    recv: Mem,
    root: usize,
) -> Result<()> {
    let size = ctx.size();
    let place = (ctx.rank() + size - root) % size;
    let rank = |p: usize| (p + root) % size;
    let survivors = Survivors::new(size, true);
    let (number, neighbour) = match survivors.part(place) {
        Part::Leaves(to) => return send_value(ctx, op, rank(to), mine).await,
        Part::Stays(number, neighbour) => (number, neighbour),
    };
    let temp = if place == 0 {
        None
    } else {
        Some(ctx.temp(mine.len())?)
    };
    let work = temp.as_ref().map_or(recv, |temp| temp.mem());
    let mut current = mine;
    if let Some(neighbour) = neighbour {
        let mut none = Sends::new();
        let from = rank(neighbour);
        combine_into(ctx, op, (from, Mem::EMPTY), from, current, work, &mut none).await?;
        current = work;
    }
    let split = Split::Even {
        elements: mine.len() / op.element(),
        parts: survivors.count,
    };
    let halves = Halves {
        ctx,
        survivors,
        number,
        start: |i| split.start(i) * op.element(),
        rank,
    };
    halves.reduce_scatter(op, current, work).await?;
    halves.gather(work).await
}
