//! The collectives on bytes: each is done in two levels where that pays, else among all ranks
//! alike.

use std::future::Future;

use super::ctx::Ctx;
use super::initiated::{Initiated, initiated_or};
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
#[inline(always)]
pub fn barrier<P: P2p>(ctx: Ctx<'_, P>) -> Initiated<impl Future<Output = Result<()>>> {
    initiated_or(super::barrier::linear(ctx), move || stepwise_barrier(ctx))
}

async fn stepwise_barrier<P: P2p>(ctx: Ctx<'_, P>) -> Result<()> {
    match ctx.hosts() {
        Some(hosts) => Box::pin(two_level::barrier(&ctx, hosts)).await,
        None => super::barrier::stepwise(&ctx).await,
    }
}

/// `data` on `root` goes to `data` on all ranks; the length is the same everywhere.
///
/// # Errors
/// When a message fails or the lengths differ.
#[inline(always)]
pub fn bcast<P: P2p>(
    ctx: Ctx<'_, P>,
    data: Mem,
    root: usize,
) -> Initiated<impl Future<Output = Result<()>>> {
    if ctx.size() == 1 || data.is_empty() {
        return Initiated::Done;
    }
    let initiated = super::bcast::linear(ctx, data, root);
    initiated_or(initiated, move || stepwise_bcast(ctx, data, root))
}

async fn stepwise_bcast<P: P2p>(ctx: Ctx<'_, P>, data: Mem, root: usize) -> Result<()> {
    match ctx.hosts() {
        Some(hosts) => Box::pin(two_level::bcast(&ctx, hosts, data, root)).await,
        None => super::bcast::stepwise(&ctx, data, root).await,
    }
}

/// `send` of rank i goes to block i of `recv` on all ranks. `None`: it is there already
/// (`MPI_IN_PLACE`).
///
/// # Errors
/// When a message fails or the blocks' lengths differ among ranks.
#[inline(always)]
pub fn allgather<'a, P: P2p>(
    ctx: Ctx<'a, P>,
    send: Option<Mem>,
    recv: Blocks<'a>,
) -> Initiated<impl Future<Output = Result<()>>> {
    let own = recv.get(ctx.rank());
    let mine = send.unwrap_or(own);
    if let Err(error) = check_equal(mine.len(), own.len()) {
        return Initiated::Failed(error);
    }
    let some = |data: Mem| (!data.is_empty()).then_some(data);
    let initiated = match ctx.is_linear() {
        true => {
            let into = move |from| some(recv.get(from));
            let exchange = linear::exchange_all(ctx, move |_| some(mine), into);
            Some(exchange.then(move || own.copy_from(mine)))
        }
        false => None,
    };
    initiated_or(initiated, move || stepwise_allgather(ctx, mine, recv))
}

/// In steps: among the hosts first where that pays.
async fn stepwise_allgather<P: P2p>(ctx: Ctx<'_, P>, mine: Mem, recv: Blocks<'_>) -> Result<()> {
    let ctx = &ctx;
    let total = recv.total(0, ctx.size(), ctx.size());
    if let Some(hosts) = ctx.hosts()
        && (1..=ALLGATHER_LOGARITHMIC).contains(&total)
    {
        return Box::pin(two_level::allgather(ctx, hosts, mine, recv)).await;
    }
    recv.get(ctx.rank()).copy_from(mine);
    super::allgather::among(ctx, recv).await
}

/// Block j of `send` on rank i goes to block i of `recv` on rank j. `None`: sends and replaces the
/// content of `recv` (`MPI_IN_PLACE`).
///
/// # Errors
/// When a message fails or the blocks' lengths differ among ranks.
#[inline(always)]
pub fn alltoall<'a, P: P2p>(
    ctx: Ctx<'a, P>,
    send: Option<Blocks<'a>>,
    recv: Blocks<'a>,
) -> Initiated<impl Future<Output = Result<()>>> {
    let rank = ctx.rank();
    if matches!(recv, Blocks::Uniform { each: 0, .. }) {
        return Initiated::Done;
    }
    if let Some(send) = send
        && let Err(error) = check_equal(send.len(rank), recv.len(rank))
    {
        return Initiated::Failed(error);
    }
    let some = |data: Mem| (!data.is_empty()).then_some(data);
    let initiated = match send {
        Some(send) if ctx.is_linear() => {
            let (out, into) = (
                move |to| some(send.get(to)),
                move |from| some(recv.get(from)),
            );
            let exchange = linear::exchange_all(ctx, out, into);
            Some(exchange.then(move || recv.get(rank).copy_from(send.get(rank))))
        }
        _ => None,
    };
    initiated_or(initiated, move || stepwise_alltoall(ctx, send, recv))
}

/// In steps: by the leaders of hosts where that pays.
async fn stepwise_alltoall<P: P2p>(
    ctx: Ctx<'_, P>,
    send: Option<Blocks<'_>>,
    recv: Blocks<'_>,
) -> Result<()> {
    let ctx = &ctx;
    if let (Some(hosts), Blocks::Uniform { all, each }) = (ctx.hosts(), recv)
        && ctx.tuning().by_leaders(hosts, each)
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
#[inline(always)]
pub fn reduce<P: P2p, R: Reducer + Copy>(
    ctx: Ctx<'_, P>,
    op: R,
    send: Option<Mem>,
    recv: Mem,
    root: usize,
) -> Initiated<impl Future<Output = Result<()>>> {
    let mine = send.unwrap_or(recv);
    if ctx.rank() == root
        && let Err(error) = check_equal(mine.len(), recv.len())
    {
        return Initiated::Failed(error);
    }
    if mine.is_empty() {
        return Initiated::Done;
    }
    if ctx.size() == 1 {
        recv.copy_from(mine);
        return Initiated::Done;
    }
    let initiated = super::reduce::linear(ctx, op, mine, recv, root);
    initiated_or(initiated, move || {
        stepwise_reduce(ctx, op, mine, recv, root)
    })
}

async fn stepwise_reduce<P: P2p>(
    ctx: Ctx<'_, P>,
    op: impl Reducer,
    mine: Mem,
    recv: Mem,
    root: usize,
) -> Result<()> {
    match ctx.hosts() {
        Some(hosts) if ctx.tuning().host_by_host(op.commutative(), op.exact()) => {
            Box::pin(two_level::reduce(&ctx, hosts, &op, (mine, recv), root)).await
        }
        _ => super::reduce::stepwise(&ctx, &op, mine, recv, root).await,
    }
}

/// Combines `send` of all ranks into `recv` on all ranks, the same bits everywhere. `None`: the
/// value is in `recv` (`MPI_IN_PLACE`).
///
/// # Errors
/// When a message fails, the lengths differ among ranks, or the operation fails.
#[inline(always)]
pub fn allreduce<P: P2p, R: Reducer + Copy>(
    ctx: Ctx<'_, P>,
    op: R,
    send: Option<Mem>,
    recv: Mem,
) -> Initiated<impl Future<Output = Result<()>>> {
    let mine = send.unwrap_or(recv);
    if recv.is_empty() || mine.len() != recv.len() {
        return check_equal(mine.len(), recv.len()).into();
    }
    if ctx.size() == 1 {
        recv.copy_from(mine);
        return Initiated::Done;
    }
    let initiated = super::allreduce::linear(ctx, op, mine, recv);
    initiated_or(initiated, move || stepwise_allreduce(ctx, op, mine, recv))
}

async fn stepwise_allreduce<P: P2p>(
    ctx: Ctx<'_, P>,
    op: impl Reducer,
    mine: Mem,
    recv: Mem,
) -> Result<()> {
    match ctx.hosts() {
        Some(hosts) if ctx.tuning().host_by_host(op.commutative(), op.exact()) => {
            Box::pin(two_level::allreduce(&ctx, hosts, &op, (mine, recv))).await
        }
        _ => super::allreduce::stepwise(&ctx, &op, mine, recv).await,
    }
}
