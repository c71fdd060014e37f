//! Collectives that move typed data. `None` for a send (or, in a scatter, receive) buffer is
//! `MPI_IN_PLACE` where the standard has it, and "not significant here" on ranks that are not the
//! root.

use std::future::Future;

use super::staging::{Access, Staged, StagedParts, both_contiguous, contiguous, staged};
use crate::coll as bytes;
use crate::coll::call::{Ctx, Initiated, P2p, initiated_or};
use crate::coll::memory::{Blocks, Mem, check_equal};
use crate::error::Result;
use crate::p2p::Typed;

fn stage<'a, P: P2p>(
    ctx: &Ctx<'a, P>,
    data: &'a Option<Typed>,
    access: Access,
) -> Result<Option<Staged<'a>>> {
    data.as_ref()
        .map(|data| Staged::new(ctx, data.data(), access))
        .transpose()
}

fn mem(staged: &Option<Staged<'_>>) -> Option<Mem> {
    staged.as_ref().map(Staged::mem)
}

/// Sends the elements to a rank of the channel.
pub(crate) async fn send_to<P: P2p>(ctx: &Ctx<'_, P>, to: usize, data: &Typed) -> Result<()> {
    let from = Staged::new(ctx, data.data(), Access::Read)?;
    ctx.send(to, from.mem()).await
}

/// Receives the elements from a rank of the channel.
pub(crate) async fn receive_from<P: P2p>(
    ctx: &Ctx<'_, P>,
    from: usize,
    data: &Typed,
) -> Result<()> {
    let into = Staged::new(ctx, data.data(), Access::Both)?;
    ctx.recv(from, into.mem()).await?;
    into.finish();
    Ok(())
}

/// `MPI_Bcast` (MPI-5.0 §6.4).
///
/// # Errors
/// See [`bytes::bcast`].
pub(in crate::coll) async fn bcast<P: P2p>(
    ctx: Ctx<'_, P>,
    data: &Typed,
    root: usize,
) -> Result<()> {
    let access = match ctx.rank() == root {
        true => Access::Read,
        false => Access::Write,
    };
    staged(ctx, None, Some((data.data(), access)), |_, data| {
        bytes::bcast(ctx, data.unwrap_or(Mem::EMPTY), root)
    })
    .await
}

/// `MPI_Gather` (MPI-5.0 §6.5); `recv` is one rank's block, at the start of all.
///
/// # Errors
/// See [`bytes::gather`].
#[inline(always)]
pub(in crate::coll) fn gather<'a, P: P2p>(
    ctx: Ctx<'a, P>,
    send: &'a Option<Typed>,
    recv: &'a Option<Typed>,
    root: usize,
) -> Initiated<impl Future<Output = Result<()>>> {
    let all = recv.as_ref().filter(|_| ctx.rank() == root);
    let into = match all {
        Some(block) => contiguous_blocks(block, ctx.size()),
        None => Some(Mem::EMPTY),
    };
    let initiated =
        both_contiguous(send, into).map(|(from, into)| bytes::gather(ctx, from, into, root));
    initiated_or(initiated, move || async move {
        let ctx = ctx.out_of_line();
        let all = all.map(|block| block.times(ctx.size())).transpose()?;
        let into = all.map(|all| (all, Access::to_write(send.is_none())));
        staged(ctx, send.as_ref().map(Typed::data), into, |from, into| {
            bytes::gather(ctx, from, into.unwrap_or(Mem::EMPTY), root)
        })
        .await
    })
}

/// `n` blocks where they are in memory, if their elements are contiguous.
#[inline(always)]
fn contiguous_blocks(block: &Typed, n: usize) -> Option<Mem> {
    contiguous(&block.times(n).ok()?)
}

/// `MPI_Gatherv` (MPI-5.0 §6.5); `recv` has one buffer for each rank on the root.
///
/// # Errors
/// See [`bytes::gather`].
pub(in crate::coll) async fn gatherv<P: P2p>(
    ctx: Ctx<'_, P>,
    send: &Option<Typed>,
    recv: &[Typed],
    root: usize,
) -> Result<()> {
    let out = stage(&ctx, send, Access::Read)?;
    let recv = if ctx.rank() == root { recv } else { &[] };
    let into = StagedParts::new(&ctx, recv, Access::to_write(send.is_none()))?;
    bytes::gatherv(ctx, mem(&out), into.blocks(), root)
        .finish()
        .await?;
    into.finish();
    Ok(())
}

/// `MPI_Scatter` (MPI-5.0 §6.6); `send` is one rank's block, at the start of all.
///
/// # Errors
/// See [`bytes::scatter`].
#[inline(always)]
pub(in crate::coll) fn scatter<'a, P: P2p>(
    ctx: Ctx<'a, P>,
    send: &'a Option<Typed>,
    recv: &'a Option<Typed>,
    root: usize,
) -> Initiated<impl Future<Output = Result<()>>> {
    let all = send.as_ref().filter(|_| ctx.rank() == root);
    let from = match all {
        Some(block) => contiguous_blocks(block, ctx.size()),
        None => Some(Mem::EMPTY),
    };
    let initiated =
        both_contiguous(recv, from).map(|(into, from)| bytes::scatter(ctx, from, into, root));
    initiated_or(initiated, move || async move {
        let ctx = ctx.out_of_line();
        let all = all.map(|block| block.times(ctx.size())).transpose()?;
        let into = recv.as_ref().map(|recv| (recv.data(), Access::Write));
        staged(ctx, all, into, |from, into| {
            bytes::scatter(ctx, from.unwrap_or(Mem::EMPTY), into, root)
        })
        .await
    })
}

/// `MPI_Scatterv` (MPI-5.0 §6.6); `send` has one buffer for each rank on the root.
///
/// # Errors
/// See [`bytes::scatter`].
pub(in crate::coll) async fn scatterv<P: P2p>(
    ctx: Ctx<'_, P>,
    send: &[Typed],
    recv: &Option<Typed>,
    root: usize,
) -> Result<()> {
    let into = stage(&ctx, recv, Access::Write)?;
    let send = if ctx.rank() == root { send } else { &[] };
    let out = StagedParts::new(&ctx, send, Access::Read)?;
    bytes::scatterv(ctx, out.blocks(), mem(&into), root)
        .finish()
        .await?;
    if let Some(into) = into {
        into.finish();
    }
    Ok(())
}

/// `MPI_Allgather` (MPI-5.0 §6.7); `recv` is one rank's block, at the start of all.
///
/// # Errors
/// See [`bytes::allgather`].
pub(in crate::coll) async fn allgather<P: P2p>(
    ctx: Ctx<'_, P>,
    send: &Option<Typed>,
    recv: &Typed,
) -> Result<()> {
    let (all, each) = (recv.times(ctx.size())?, recv.bytes()?);
    let into = Some((all, Access::to_write(send.is_none())));
    staged(ctx, send.as_ref().map(Typed::data), into, |from, into| {
        let all = into.unwrap_or(Mem::EMPTY);
        bytes::allgather(ctx, from, Blocks::Uniform { all, each })
    })
    .await
}

/// `MPI_Allgatherv` (MPI-5.0 §6.7); `recv` has one buffer for each rank.
///
/// # Errors
/// See [`bytes::allgather`].
pub(in crate::coll) async fn allgatherv<P: P2p>(
    ctx: Ctx<'_, P>,
    send: &Option<Typed>,
    recv: &[Typed],
) -> Result<()> {
    let out = stage(&ctx, send, Access::Read)?;
    let into = StagedParts::new(&ctx, recv, Access::to_write(send.is_none()))?;
    bytes::allgather(ctx, mem(&out), into.blocks())
        .finish()
        .await?;
    into.finish();
    Ok(())
}

/// `MPI_Alltoall` (MPI-5.0 §6.8); `send` and `recv` are one rank's block, at the start of all.
///
/// # Errors
/// See [`bytes::alltoall`].
pub(in crate::coll) async fn alltoall<P: P2p>(
    ctx: Ctx<'_, P>,
    send: &Option<Typed>,
    recv: &Typed,
) -> Result<()> {
    let (all, each) = (recv.times(ctx.size())?, recv.bytes()?);
    let from = match send {
        Some(send) => {
            check_equal(send.bytes()?, each)?;
            Some(send.times(ctx.size())?)
        }
        None => None,
    };
    let into = Some((all, Access::to_write(send.is_none())));
    let uniform = |all| Blocks::Uniform { all, each };
    staged(ctx, from, into, |from, into| {
        bytes::alltoall(ctx, from.map(uniform), uniform(into.unwrap_or(Mem::EMPTY)))
    })
    .await
}

/// `MPI_Alltoallv` and `MPI_Alltoallw` (MPI-5.0 §6.8); one buffer for each rank.
///
/// # Errors
/// See [`bytes::alltoall`].
pub(in crate::coll) async fn alltoallv<P: P2p>(
    ctx: Ctx<'_, P>,
    send: &Option<Vec<Typed>>,
    recv: &[Typed],
) -> Result<()> {
    let out = send
        .as_ref()
        .map(|send| StagedParts::new(&ctx, send, Access::Read))
        .transpose()?;
    let into = StagedParts::new(&ctx, recv, Access::to_write(send.is_none()))?;
    let from = out.as_ref().map(StagedParts::blocks);
    bytes::alltoall(ctx, from, into.blocks()).finish().await?;
    into.finish();
    Ok(())
}
