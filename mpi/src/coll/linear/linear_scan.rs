//! A scan without steps: every rank sends its operand directly to the higher ranks, which combine.
//!
//! The operands are combined in the order of [`scan_steps`](crate::coll::algorithms::scan_steps),
//! so the results have the same bits: the operands below a rank form one block of ranks for each
//! bit of its number. The values of a block combine in a binary tree, and the blocks from the
//! highest one down.

use std::future::Future;
use std::task::{Poll, ready};

use crate::coll::call::{Ctx, Initiated, P2p, Receives, Sends, Temp, WINDOW, begin};
use crate::coll::memory::{Mem, stride};
use crate::coll::reduction::{Reducer, fold};
use crate::coll::tuning::LINEAR_REDUCTION_RANKS;
use crate::error::Result;

// All receives of a rank fit in a window.
const _: () = assert!(LINEAR_REDUCTION_RANKS <= WINDOW);

/// Begins a linear scan; the arguments are those of [`scan`](crate::coll::scan()). In place, `mine`
/// is `recv`.
#[inline(always)]
pub(in crate::coll) fn linear_scan<'a, P: P2p, R: Reducer + Copy>(
    ctx: Ctx<'a, P>,
    op: R,
    mine: Mem,
    recv: Mem,
    exclusive: bool,
) -> Initiated<impl Future<Output = Result<()>>> {
    let in_place = mine.ptr() == recv.ptr();
    let (rank, stride) = (ctx.rank(), stride(mine.len()));
    // The value of the rank below may be received where the result goes.
    let into_result = !in_place && (exclusive || op.symmetric());
    let operands = Operands {
        mine,
        recv,
        stride,
        own: if into_result {
            rank.checked_sub(1)
        } else {
            None
        },
        exclusive,
    };
    let temp = match ctx.temp((rank - usize::from(operands.own.is_some())) * stride) {
        Ok(temp) => temp,
        Err(error) => return Initiated::Failed(error),
    };
    let scan = LinearScan { ctx, op, operands };
    let mut progress = Progress {
        temp,
        next: rank + 1,
        received: Received::Nothing,
        sends: Sends::new(),
        receives: Receives::new(),
    };
    begin!(scan.advance(&mut progress), scan.resume(&mut progress))
}

/// A linear scan of this rank.
struct LinearScan<'a, P, R> {
    ctx: Ctx<'a, P>,
    op: R,
    operands: Operands,
}

/// Where the values are.
#[derive(Clone, Copy)]
struct Operands {
    /// The value of this rank.
    mine: Mem,
    /// Where the result goes: `mine`, or memory that no other rank reads.
    recv: Mem,
    /// Bytes from one value to the next in temporary memory.
    stride: usize,
    /// The rank whose value is received in `recv`.
    own: Option<usize>,
    /// Whether the result leaves out the value of this rank.
    exclusive: bool,
}

/// How far it is.
struct Progress<'a> {
    temp: Temp<'a>,
    /// The next rank to send to.
    next: usize,
    received: Received,
    sends: Sends,
    receives: Receives,
}

/// What this rank has of the others' values.
enum Received {
    Nothing,
    /// The receives are posted.
    Posted,
    /// The result is there.
    Combined,
}

impl<P: P2p, R: Reducer + Copy> LinearScan<'_, P, R> {
    #[inline(always)]
    fn advance(&self, progress: &mut Progress<'_>) -> Poll<Result<()>> {
        let (ctx, operands) = (&self.ctx, &self.operands);
        while progress.next < ctx.size() {
            ready!(progress.sends.poll_room(ctx, 1))?;
            let send = ctx.isend(progress.next, operands.mine)?;
            progress.sends.push(send);
            progress.next += 1;
        }
        if let Received::Nothing = progress.received {
            let temp = progress.temp.mem();
            for from in (0..ctx.rank()).rev() {
                let into = operands.at(temp, from);
                progress.receives.take_or_push(ctx, from, into)?;
            }
            progress.received = Received::Posted;
        }
        if let Received::Posted = progress.received {
            ready!(progress.receives.poll_finish(ctx))?;
            if operands.mine.ptr() == operands.recv.ptr() {
                // The result is written to what the higher ranks receive.
                ready!(progress.sends.poll_finish(ctx))?;
            }
            operands.combine(&self.op, ctx.rank(), progress.temp.mem())?;
            progress.temp.give_back();
            progress.received = Received::Combined;
        }
        progress.sends.poll_finish(ctx)
    }

    #[inline(never)]
    fn resume(&self, progress: &mut Progress<'_>) -> Poll<Result<()>> {
        let scan = LinearScan {
            ctx: self.ctx.out_of_line(),
            op: self.op,
            operands: self.operands,
        };
        scan.advance(progress)
    }
}

impl Operands {
    /// The place of a lower rank's value.
    #[inline(always)]
    fn at(&self, temp: Mem, rank: usize) -> Mem {
        if self.own == Some(rank) {
            return self.recv;
        }
        temp.part(rank * self.stride, self.mine.len())
    }

    /// Combines the values of the lower ranks and this one's, all of which are there.
    fn combine(&self, op: &dyn Reducer, rank: usize, temp: Mem) -> Result<()> {
        let value = |rank| self.at(temp, rank);
        let (mut end, mut first) = (rank, true);
        if !self.exclusive && self.own.is_none() {
            self.recv.copy_from(self.mine);
            first = false;
        }
        while end > 0 {
            let ranks = 1 << end.trailing_zeros();
            let block = end - ranks..end;
            let mut step = 1;
            while step < ranks {
                for last in block.clone().skip(2 * step - 1).step_by(2 * step) {
                    fold(op, value(last - step), value(last))?;
                }
                step *= 2;
            }
            let result = value(end - 1);
            match first {
                true if self.own.is_none() => self.recv.copy_from(result),
                // It was received there.
                true if self.exclusive => {}
                true => fold(op, self.mine, self.recv)?,
                false => fold(op, result, self.recv)?,
            }
            first = false;
            end -= ranks;
        }
        if first && !self.exclusive {
            self.recv.copy_from(self.mine);
        }
        Ok(())
    }
}
