//! Collectives that move typed data. `None` for a send (or, in a scatter, receive) buffer is
//! `MPI_IN_PLACE` where the standard has it, and "not significant here" on ranks that are not the
//! root.

use std::future::Future;

use super::staging::{Access, Staged, StagedParts, Typed, direct};
use crate::coll as bytes;
use crate::coll::call::{Ctx, Initiated, P2p, initiated_or};
use crate::coll::memory::{Blocks, Mem, check_equal};
use crate::error::Result;

fn access(in_place: bool) -> Access {
    if in_place {
        Access::Both
    } else {
        Access::Write
    }
}

fn read<'a, P: P2p>(ctx: &Ctx<'a, P>, data: &'a Option<Typed>) -> Result<Option<Staged<'a>>> {
    data.as_ref()
        .map(|data| Staged::new(ctx, data.data(), Access::Read))
        .transpose()
}

fn mem(staged: &Option<Staged<'_>>) -> Option<Mem> {
    staged.as_ref().map(Staged::mem)
}

/// `MPI_Bcast` (MPI-5.0 §6.4).
///
/// # Errors
/// See [`bytes::bcast`].
pub(in crate::coll) async fn bcast<P: P2p>(
    ctx: &Ctx<'_, P>,
    data: &Typed,
    root: usize,
) -> Result<()> {
    let access = if ctx.rank() == root {
        Access::Read
    } else {
        Access::Write
    };
    let data = Staged::new(ctx, data.data(), access)?;
    bytes::bcast(*ctx, data.mem(), root).finish().await?;
    data.finish();
    Ok(())
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
    let out = send.as_ref().map(|send| direct(&send.data()));
    let into = match recv {
        Some(block) if ctx.rank() == root => direct_blocks(block, ctx.size()),
        _ => Some(Mem::EMPTY),
    };
    let initiated = match (out, into) {
        (Some(None), _) | (_, None) => None,
        (out, Some(into)) => Some(bytes::gather(ctx, out.flatten(), into, root)),
    };
    initiated_or(initiated, move || {
        staged_gather(ctx.out_of_line(), send, recv, root)
    })
}

/// So many blocks as they lie in memory, if that is how they are packed.
#[inline(always)]
fn direct_blocks(block: &Typed, n: usize) -> Option<Mem> {
    direct(&block.times(n).ok()?)
}

/// A gather of elements that are packed first.
async fn staged_gather<P: P2p>(
    ctx: Ctx<'_, P>,
    send: &Option<Typed>,
    recv: &Option<Typed>,
    root: usize,
) -> Result<()> {
    let out = read(&ctx, send)?;
    let (true, Some(block)) = (ctx.rank() == root, recv) else {
        return bytes::gather(ctx, mem(&out), Mem::EMPTY, root)
            .finish()
            .await;
    };
    let all = block.times(ctx.size())?;
    let into = Staged::new(&ctx, all, access(send.is_none()))?;
    bytes::gather(ctx, mem(&out), into.mem(), root)
        .finish()
        .await?;
    into.finish();
    Ok(())
}

/// `MPI_Gatherv` (MPI-5.0 §6.5); `recv` has one buffer for each rank on the root.
///
/// # Errors
/// See [`bytes::gather`].
pub(in crate::coll) async fn gatherv<P: P2p>(
    ctx: &Ctx<'_, P>,
    send: &Option<Typed>,
    recv: &[Typed],
    root: usize,
) -> Result<()> {
    let out = read(ctx, send)?;
    if ctx.rank() != root {
        return bytes::gatherv(*ctx, mem(&out), Blocks::Table(&[]), root)
            .finish()
            .await;
    }
    let into = StagedParts::new(ctx, recv, access(send.is_none()))?;
    bytes::gatherv(*ctx, mem(&out), into.blocks(), root)
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
    let into = recv.as_ref().map(|recv| direct(&recv.data()));
    let out = match send {
        Some(block) if ctx.rank() == root => direct_blocks(block, ctx.size()),
        _ => Some(Mem::EMPTY),
    };
    let initiated = match (out, into) {
        (None, _) | (_, Some(None)) => None,
        (Some(out), into) => Some(bytes::scatter(ctx, out, into.flatten(), root)),
    };
    initiated_or(initiated, move || {
        staged_scatter(ctx.out_of_line(), send, recv, root)
    })
}

/// A scatter of elements that are packed first.
async fn staged_scatter<P: P2p>(
    ctx: Ctx<'_, P>,
    send: &Option<Typed>,
    recv: &Option<Typed>,
    root: usize,
) -> Result<()> {
    let into = recv
        .as_ref()
        .map(|recv| Staged::new(&ctx, recv.data(), Access::Write))
        .transpose()?;
    let out = match send {
        Some(block) if ctx.rank() == root => {
            Some(Staged::new(&ctx, block.times(ctx.size())?, Access::Read)?)
        }
        _ => None,
    };
    bytes::scatter(ctx, mem(&out).unwrap_or(Mem::EMPTY), mem(&into), root)
        .finish()
        .await?;
    if let Some(into) = into {
        into.finish();
    }
    Ok(())
}

/// `MPI_Scatterv` (MPI-5.0 §6.6); `send` has one buffer for each rank on the root.
///
/// # Errors
/// See [`bytes::scatter`].
pub(in crate::coll) async fn scatterv<P: P2p>(
    ctx: &Ctx<'_, P>,
    send: &[Typed],
    recv: &Option<Typed>,
    root: usize,
) -> Result<()> {
    let into = recv
        .as_ref()
        .map(|recv| Staged::new(ctx, recv.data(), Access::Write))
        .transpose()?;
    if ctx.rank() == root {
        let out = StagedParts::new(ctx, send, Access::Read)?;
        bytes::scatterv(*ctx, out.blocks(), mem(&into), root)
            .finish()
            .await?;
    } else {
        bytes::scatterv(*ctx, Blocks::Table(&[]), mem(&into), root)
            .finish()
            .await?;
    }
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
    ctx: &Ctx<'_, P>,
    send: &Option<Typed>,
    recv: &Typed,
) -> Result<()> {
    let out = read(ctx, send)?;
    let all = recv.times(ctx.size())?;
    let into = Staged::new(ctx, all, access(send.is_none()))?;
    let blocks = Blocks::Uniform {
        all: into.mem(),
        each: recv.bytes()?,
    };
    bytes::allgather(*ctx, mem(&out), blocks).finish().await?;
    into.finish();
    Ok(())
}

/// `MPI_Allgatherv` (MPI-5.0 §6.7); `recv` has one buffer for each rank.
///
/// # Errors
/// See [`bytes::allgather`].
pub(in crate::coll) async fn allgatherv<P: P2p>(
    ctx: &Ctx<'_, P>,
    send: &Option<Typed>,
    recv: &[Typed],
) -> Result<()> {
    let out = read(ctx, send)?;
    let into = StagedParts::new(ctx, recv, access(send.is_none()))?;
    bytes::allgather(*ctx, mem(&out), into.blocks())
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
    ctx: &Ctx<'_, P>,
    send: &Option<Typed>,
    recv: &Typed,
) -> Result<()> {
    let out = match send {
        Some(send) => Some(Staged::new(ctx, send.times(ctx.size())?, Access::Read)?),
        None => None,
    };
    let all = recv.times(ctx.size())?;
    let into = Staged::new(ctx, all, access(send.is_none()))?;
    let each = recv.bytes()?;
    let uniform = |all| Blocks::Uniform { all, each };
    if let Some(send) = send {
        check_equal(send.bytes()?, each)?;
    }
    bytes::alltoall(*ctx, mem(&out).map(uniform), uniform(into.mem()))
        .finish()
        .await?;
    into.finish();
    Ok(())
}

/// `MPI_Alltoallv` and `MPI_Alltoallw` (MPI-5.0 §6.8); one buffer for each rank.
///
/// # Errors
/// See [`bytes::alltoall`].
pub(in crate::coll) async fn alltoallv<P: P2p>(
    ctx: &Ctx<'_, P>,
    send: &Option<Vec<Typed>>,
    recv: &[Typed],
) -> Result<()> {
    let out = send
        .as_ref()
        .map(|send| StagedParts::new(ctx, send, Access::Read))
        .transpose()?;
    let into = StagedParts::new(ctx, recv, access(send.is_none()))?;
    let from = out.as_ref().map(StagedParts::blocks);
    bytes::alltoall(*ctx, from, into.blocks()).finish().await?;
    into.finish();
    Ok(())
}
