//! The collectives on bytes: each is done in two levels where that pays, else among all ranks
//! alike.

use super::ctx::Ctx;
use super::mem::{Blocks, Mem, check_equal};
use super::p2p::P2p;
use super::reducer::Reducer;
use super::tuning::ALLGATHER_LOGARITHMIC;
use super::{aggregate, linear, two_level};
use crate::error::Result;

/// Returns on no rank before it was called on all.
///
/// # Errors
/// When a message fails.
pub async fn barrier<P: P2p>(ctx: &Ctx<P>) -> Result<()> {
    match ctx.hosts() {
        Some(hosts) => Box::pin(two_level::barrier(ctx, hosts)).await,
        None => super::barrier::among(ctx).await,
    }
}

/// `data` on `root` goes to `data` on all ranks; the length is the same everywhere.
///
/// # Errors
/// When a message fails or the lengths differ.
pub async fn bcast<P: P2p>(ctx: &Ctx<P>, data: Mem, root: usize) -> Result<()> {
    if ctx.size() == 1 || data.is_empty() {
        return Ok(());
    }
    match ctx.hosts() {
        Some(hosts) => Box::pin(two_level::bcast(ctx, hosts, data, root)).await,
        None => super::bcast::among(ctx, data, root).await,
    }
}

/// `send` of rank i goes to block i of `recv` on all ranks. `None`: it is there already
/// (`MPI_IN_PLACE`).
///
/// # Errors
/// When a message fails or the blocks' lengths differ among ranks.
pub async fn allgather<P: P2p>(ctx: &Ctx<P>, send: Option<Mem>, recv: Blocks<'_>) -> Result<()> {
    let (rank, size) = (ctx.rank(), ctx.size());
    let own = recv.get(rank);
    let mine = send.unwrap_or(own);
    check_equal(mine.len(), own.len())?;
    if ctx.tuning.flat(ctx.on_one_host()) {
        let some = |data: Mem| (!data.is_empty()).then_some(data);
        linear::exchange_all(ctx, |_| some(mine), |from| some(recv.get(from))).await?;
        own.copy_from(mine);
        return Ok(());
    }
    let total = recv.total(0, size, size);
    if let Some(hosts) = ctx.hosts()
        && (1..=ALLGATHER_LOGARITHMIC).contains(&total)
    {
        return Box::pin(two_level::allgather(ctx, hosts, mine, recv)).await;
    }
    own.copy_from(mine);
    super::allgather::among(ctx, recv).await
}

/// Block j of `send` on rank i goes to block i of `recv` on rank j. `None`: what is in `recv` is
/// sent and replaced (`MPI_IN_PLACE`).
///
/// # Errors
/// When a message fails or the blocks' lengths differ among ranks.
pub async fn alltoall<P: P2p>(
    ctx: &Ctx<P>,
    send: Option<Blocks<'_>>,
    recv: Blocks<'_>,
) -> Result<()> {
    let rank = ctx.rank();
    let equal = matches!(recv, Blocks::Uniform { .. });
    if equal && recv.get(0).is_empty() {
        return Ok(());
    }
    if let Some(send) = send {
        check_equal(send.get(rank).len(), recv.get(rank).len())?;
    }
    if let Some(send) = send
        && ctx.tuning.flat(ctx.on_one_host())
    {
        let some = |data: Mem| (!data.is_empty()).then_some(data);
        linear::exchange_all(ctx, |to| some(send.get(to)), |from| some(recv.get(from))).await?;
        recv.get(rank).copy_from(send.get(rank));
        return Ok(());
    }
    if let (Some(hosts), Blocks::Uniform { all, each }) = (ctx.hosts(), recv)
        && ctx.tuning.by_leaders(hosts, each)
    {
        let from = match send {
            Some(Blocks::Uniform { all, .. }) => Some(all),
            _ => None,
        };
        return Box::pin(aggregate::by_leaders(ctx, hosts, from, (all, each))).await;
    }
    super::alltoall::among(ctx, send, recv).await
}

/// Combines `send` of all ranks into `recv` on `root`; `recv` means nothing elsewhere. `None` on
/// the root: its value is in `recv` (`MPI_IN_PLACE`). The order of a commutative operation's
/// operands depends on the number of ranks, the count, the operation and the root.
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
        check_equal(mine.len(), recv.len())?;
    }
    if mine.is_empty() {
        return Ok(());
    }
    match ctx.hosts() {
        Some(hosts) if ctx.tuning.host_by_host(op.commutative(), op.exact()) => {
            Box::pin(two_level::reduce(ctx, hosts, op, (mine, recv), root)).await
        }
        _ => super::reduce::among(ctx, op, mine, recv, root).await,
    }
}

/// Combines `send` of all ranks into `recv` on all ranks, the same bits everywhere. `None`: the
/// value is in `recv` (`MPI_IN_PLACE`).
///
/// # Errors
/// When a message fails, the lengths differ among ranks, or the operation fails.
pub async fn allreduce<P: P2p>(
    ctx: &Ctx<P>,
    op: &dyn Reducer,
    send: Option<Mem>,
    recv: Mem,
) -> Result<()> {
    let mine = send.unwrap_or(recv);
    check_equal(mine.len(), recv.len())?;
    if recv.is_empty() {
        return Ok(());
    }
    match ctx.hosts() {
        Some(hosts) if ctx.tuning.host_by_host(op.commutative(), op.exact()) => {
            Box::pin(two_level::allreduce(ctx, hosts, op, (mine, recv))).await
        }
        _ => super::allreduce::among(ctx, op, mine, recv).await,
    }
}
