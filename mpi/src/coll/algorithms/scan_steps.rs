//! Scans in steps: by recursive doubling, or along a chain.

use std::future::Future;
use std::task::{Poll, ready};

use crate::coll::call::{Ctx, Initiated, P2p, Receives, Sends, Temp, begin};
use crate::coll::memory::{Mem, stride};
use crate::coll::reduction::{Pair, Reducer, fold};
use crate::coll::tuning::{SCAN_DOUBLING, SEGMENT};
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

/// Begins a scan along the chain of ranks: each receives the value of the ranks below, combines it
/// with its own, and sends the result to the next rank. Long values go in segments.
#[inline(always)]
pub(in crate::coll) fn chain<'a, P: P2p, R: Reducer + Copy>(
    ctx: Ctx<'a, P>,
    op: R,
    mine: Mem,
    recv: Mem,
    exclusive: bool,
) -> Initiated<impl Future<Output = Result<()>>> {
    let (rank, size, len) = (ctx.rank(), ctx.size(), recv.len());
    // The value of the ranks below may be received where this rank's result goes.
    let into_result = !exclusive && op.symmetric() && mine.ptr() != recv.ptr();
    let needs_temp = rank > 0 && !into_result && (!exclusive || rank + 1 < size);
    let temp = match ctx.temp(if needs_temp { len } else { 0 }) {
        Ok(temp) => temp,
        Err(error) => return Initiated::Failed(error),
    };
    let (below, total) = match (rank, exclusive) {
        (0, _) => (Mem::EMPTY, mine),
        (_, true) => (recv, temp.mem()),
        (_, false) if into_result => (recv, recv),
        (_, false) => (temp.mem(), recv),
    };
    if needs_temp {
        total.copy_from(mine);
    }
    let scan = ChainScan {
        ctx,
        op,
        mine,
        below,
        total,
        // Two ranks gain nothing from segments.
        step: match len <= if size == 2 { SCAN_DOUBLING } else { SEGMENT } {
            true => len,
            false => SEGMENT.div_ceil(op.element()) * op.element(),
        },
        len,
        result: (!exclusive && rank == 0).then_some(recv),
    };
    let mut progress = ChainProgress {
        _temp: temp,
        at: 0,
        posted: 0,
        combined: false,
        sends: Sends::new(),
        receives: Receives::new(),
    };
    begin!(scan.advance(&mut progress), scan.resume(&mut progress))
}

/// A scan along a chain, at this rank.
struct ChainScan<'a, P, R> {
    ctx: Ctx<'a, P>,
    op: R,
    /// The value of this rank.
    mine: Mem,
    /// Where the value of the ranks below is received.
    below: Mem,
    /// The value for the next rank, which includes this rank's. The last rank of an exclusive scan
    /// has none. Where it is `below`, it becomes `mine` combined with what is received there.
    total: Mem,
    /// Bytes of a segment.
    step: usize,
    /// Bytes of a value.
    len: usize,
    /// Where rank 0 copies its value.
    result: Option<Mem>,
}

/// How far the scan is.
struct ChainProgress<'a> {
    _temp: Temp<'a>,
    /// The first byte of the segment that is not sent yet.
    at: usize,
    /// The first byte for which no receive is posted.
    posted: usize,
    /// Whether the segment at `at` is received and combined.
    combined: bool,
    sends: Sends,
    receives: Receives,
}

impl<P: P2p, R: Reducer + Copy> ChainScan<'_, P, R> {
    #[inline(always)]
    fn advance(&self, progress: &mut ChainProgress<'_>) -> Poll<Result<()>> {
        let (ctx, next) = (&self.ctx, self.ctx.rank() + 1);
        while progress.at < self.len {
            if ctx.rank() > 0 && !progress.combined {
                self.post(progress)?;
                ready!(progress.receives.poll_oldest(ctx))?;
                self.combine(&self.op, progress.at)?;
                progress.combined = true;
            }
            if next < ctx.size() {
                ready!(progress.sends.poll_room(ctx, 1))?;
                let send = ctx.isend(next, self.segment(self.total, progress.at))?;
                progress.sends.push(send);
            }
            progress.at += self.step;
            progress.combined = false;
        }
        ready!(progress.sends.poll_finish(ctx))?;
        if let Some(result) = self.result {
            result.copy_from(self.mine);
        }
        Poll::Ready(Ok(()))
    }

    #[inline(never)]
    fn resume(&self, progress: &mut ChainProgress<'_>) -> Poll<Result<()>> {
        let scan = ChainScan {
            ctx: self.ctx.out_of_line(),
            op: self.op,
            mine: self.mine,
            below: self.below,
            total: self.total,
            step: self.step,
            len: self.len,
            result: self.result,
        };
        scan.advance(progress)
    }

    #[inline(always)]
    fn segment(&self, whole: Mem, at: usize) -> Mem {
        whole.part(at, self.step.min(self.len - at))
    }

    /// Posts receives ahead. A single short message may be there already.
    #[inline(always)]
    fn post(&self, progress: &mut ChainProgress<'_>) -> Result<()> {
        let (ctx, from) = (&self.ctx, self.ctx.rank() - 1);
        while progress.posted < self.len && !progress.receives.is_full() {
            let into = self.segment(self.below, progress.posted);
            match self.step >= self.len {
                true => progress.receives.take_or_push(ctx, from, into)?,
                false => progress.receives.push(ctx.irecv(from, into)?),
            }
            progress.posted += self.step;
        }
        Ok(())
    }

    /// Combines a segment that was received.
    #[inline(always)]
    fn combine(&self, op: &dyn Reducer, at: usize) -> Result<()> {
        if self.total.is_empty() {
            return Ok(());
        }
        let other = match self.total.ptr() == self.below.ptr() {
            true => self.mine,
            false => self.below,
        };
        fold(op, self.segment(other, at), self.segment(self.total, at))
    }
}
