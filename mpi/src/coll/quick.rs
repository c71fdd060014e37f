//! Short blocking collectives among few ranks of one host, without a future.
//!
//! They send the same messages as the flat algorithms: only the way to wait is shorter. Whatever is not of
//! this kind is refused before anything is sent, and goes the usual way.

use std::task::Poll;

use super::call::Call;
use super::channel::Channel;
use super::ctx::{Ctx, Receive};
use super::mem::Mem;
use super::order::Order;
use super::p2p::Pending;
use super::reducer::Reducer;
use super::select::{Allreduce, Near};
use super::typed::{Operator, Typed};
use crate::error::Result;

/// Most ranks.
const RANKS: usize = 8;
/// Longest contribution of a rank.
const BYTES: usize = 1 << 10;

/// Runs a call to its end, if it is of this kind.
pub(super) fn run(ctx: &Ctx<Channel>, call: &Call) -> Option<Result<()>> {
    let usual = ctx.choice.near.is_none() && ctx.choice.flat(ctx.alone());
    if !usual || !(2..=RANKS).contains(&ctx.size()) {
        return None;
    }
    match call {
        Call::Barrier => Some(exchange(ctx, |_| Mem::EMPTY, |_| Mem::EMPTY)),
        Call::Bcast { data, root } => Some(bcast(ctx, short(data)?, *root)),
        Call::Allgather { send, recv } => {
            let all = equal(ctx, recv)?;
            let own = all(ctx.rank());
            let mine = match send {
                Some(send) => short(send)?,
                None => own,
            };
            let done = |()| own.copy_from(mine);
            (mine.len() == own.len()).then(|| exchange(ctx, |_| mine, all).map(done))
        }
        Call::Alltoall { send, recv } => {
            let (out, into) = (equal(ctx, send.as_ref()?)?, equal(ctx, recv)?);
            let (mine, own) = (out(ctx.rank()), into(ctx.rank()));
            let done = |()| own.copy_from(mine);
            (mine.len() == own.len()).then(|| exchange(ctx, out, into).map(done))
        }
        Call::Allreduce { op, send, recv } => {
            let into = short(recv)?;
            let mine = match send {
                Some(send) => short(send)?,
                None => into,
            };
            let operator = Operator::new(op, recv.datatype(), ctx.scratch());
            let choice = &ctx.choice;
            let (size, len, commutative) = (ctx.size(), into.len(), operator.commutative());
            let flat = choice.operands(true, size, len, operator.symmetric()) == Near::Flat
                && choice.allreduce(size, len, commutative) == Allreduce::Doubling;
            let same = mine.len() == len && len > 0;
            (flat && same).then(|| allreduce(ctx, &operator, mine, into))
        }
        _ => None,
    }
}

/// A buffer that is short and not empty, where it lies.
fn short(data: &Typed) -> Option<Mem> {
    let mem = data.direct().ok().flatten()?;
    (1..=BYTES).contains(&mem.len()).then_some(mem)
}

/// Short blocks of all ranks, by rank, of which `block` is the first.
fn equal(ctx: &Ctx<Channel>, block: &Typed) -> Option<impl Fn(usize) -> Mem + Copy> {
    let each = short(block)?.len();
    let all = block.times(ctx.size()).ok()?.direct().ok().flatten()?;
    Some(move |rank| all.part(rank * each, each))
}

fn sent(ctx: &Ctx<Channel>, mut pending: Pending) -> Result<()> {
    if pending == Pending::DONE {
        return Ok(());
    }
    loop {
        match ctx.poll_part(&mut pending) {
            Poll::Ready(result) => return result.map(drop),
            Poll::Pending => ctx.p2p().wait()?,
        }
    }
}

fn received(ctx: &Ctx<Channel>, mut receive: Receive) -> Result<()> {
    loop {
        match ctx.poll_part(&mut receive.pending) {
            Poll::Ready(result) => return ctx.whole(&receive, result?),
            Poll::Pending => ctx.p2p().wait()?,
        }
    }
}

/// Sends `out(i)` to each other rank i and receives `into(i)` from it.
fn exchange(
    ctx: &Ctx<Channel>,
    out: impl Fn(usize) -> Mem,
    into: impl Fn(usize) -> Mem,
) -> Result<()> {
    let (rank, size) = (ctx.rank(), ctx.size());
    let mut sends = [Pending::DONE; RANKS];
    let mut receives = [None; RANKS];
    for to in (rank + 1..size).chain(0..rank) {
        sends[to] = ctx.isend(to, out(to))?;
    }
    for from in (0..rank).rev().chain((rank + 1..size).rev()) {
        receives[from] = Some(ctx.irecv(from, into(from))?);
    }
    for receive in receives.into_iter().flatten() {
        received(ctx, receive)?;
    }
    sends.into_iter().try_for_each(|send| sent(ctx, send))
}

fn bcast(ctx: &Ctx<Channel>, data: Mem, root: usize) -> Result<()> {
    let (rank, size) = (ctx.rank(), ctx.size());
    if rank != root {
        return received(ctx, ctx.irecv(root, data)?);
    }
    let mut sends = [Pending::DONE; RANKS];
    for to in (rank + 1..size).chain(0..rank) {
        sends[to] = ctx.isend(to, data)?;
    }
    sends.into_iter().try_for_each(|send| sent(ctx, send))
}

fn allreduce(ctx: &Ctx<Channel>, op: &dyn Reducer, mine: Mem, recv: Mem) -> Result<()> {
    let room = recv.len().next_multiple_of(64);
    let temp = ctx.temp(ctx.size() * room)?;
    let value = |rank: usize| temp.mem().part(rank * room, recv.len());
    exchange(ctx, |_| mine, value)?;
    value(ctx.rank()).copy_from(mine);
    recv.copy_from(Order::Doubling.combine(op, ctx.size(), value)?);
    Ok(())
}
