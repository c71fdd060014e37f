//! Long reductions between ranks that read each other's memory.
//!
//! Each rank combines one block of the vector, whose operands it takes straight from all others, piece by piece, so
//! that a piece stays in its core's cache until it is combined. Then whoever needs the blocks takes them from there.

use super::ctx::{Ctx, Receives, Sends, WINDOW};
use super::mem::{Mem, Split};
use super::order::{MOST, Order};
use super::p2p::P2p;
use super::reducer::Reducer;
use super::select::{DIRECT_CACHE, DIRECT_PIECE};
use crate::error::Result;

/// A long reduction by blocks. Symmetric operations only: which operand is left depends on where the result goes.
pub(super) struct Direct<'a, P> {
    pub(super) ctx: &'a Ctx<P>,
    pub(super) op: &'a dyn Reducer,
    /// The rank at place 0: places count on from there.
    pub(super) first: usize,
    /// The order of combining; along a ring each block begins at its own place.
    pub(super) order: Order,
    /// Whether every rank combines the whole vector, not a block: of two ranks each reads as much either way, and
    /// need not wait for the other's block.
    pub(super) whole: bool,
    /// Elements of the whole vector.
    pub(super) elements: usize,
}

impl<P: P2p> Direct<'_, P> {
    fn place(&self, rank: usize) -> usize {
        (rank + self.ctx.size() - self.first) % self.ctx.size()
    }

    /// The block that a rank combines.
    fn block(&self, rank: usize) -> usize {
        (self.place(rank) + self.shift()) % self.ctx.size()
    }

    /// A rank's block of a vector.
    pub(super) fn part(&self, vector: Mem, rank: usize) -> Mem {
        if self.whole {
            return vector;
        }
        let split = Split::Even {
            elements: self.elements,
            parts: self.ctx.size(),
        };
        split.part(vector, self.op.element(), self.block(rank))
    }

    /// Along a ring the rank of a block's last operand combines it, else the one of its first.
    fn shift(&self) -> usize {
        usize::from(matches!(self.order, Order::Ring(_)))
    }

    fn order(&self, rank: usize) -> Order {
        match self.order {
            Order::Ring(_) => Order::Ring(self.block(rank)),
            order => order,
        }
    }

    /// Bytes of a piece: with one of each other rank it fits in a core's own cache.
    fn step(&self) -> usize {
        let element = self.op.element().max(1);
        let bytes = DIRECT_CACHE / (self.ctx.size() - 1);
        (bytes.max(DIRECT_PIECE) / element).max(1) * element
    }

    /// A piece of a block, if it is that long.
    fn piece(&self, block: Mem, step: usize) -> Option<Mem> {
        let at = step * self.step();
        (at < block.len()).then(|| block.part(at, self.step().min(block.len() - at)))
    }

    /// Leaves this rank's block of the result in `result`: in place there in `mine`, or memory of its own.
    /// The sends that `sends` holds at the end are still reading `mine`.
    pub(super) async fn reduce(&self, mine: Mem, result: Mem, sends: &mut Sends) -> Result<()> {
        let (ctx, rank, size) = (self.ctx, self.ctx.rank(), self.ctx.size());
        let own = self.part(mine, rank);
        let in_place = own.ptr() == result.ptr();
        let room = self.step().min(result.len()).next_multiple_of(64);
        let temp = ctx.temp(size * room)?;
        let me = self.place(rank);
        let target = if in_place { me } else { (me + 1) % size };
        let longest = self.part(mine, self.rank_of_block(0)).len();
        let steps = longest.div_ceil(self.step());
        // All that may be in flight: then a rank need not run again for the others to go on.
        let ahead = match in_place && self.whole {
            true => 1,
            false => WINDOW / (size - 1),
        };
        let mut offered = 0;
        for step in 0..steps {
            while offered < steps.min(step + ahead) {
                self.offer(mine, offered, sends).await?;
                offered += 1;
            }
            let (Some(piece), Some(own)) = (self.piece(result, step), self.piece(own, step)) else {
                continue;
            };
            let value = |place: usize| match place {
                _ if place == target => piece,
                _ if place == me => own,
                _ => temp.mem().part(place * room, piece.len()),
            };
            let mut receives = Receives::new();
            for place in (me + 1..size).chain(0..me) {
                let from = (place + self.first) % size;
                receives.push_or_wait(ctx, from, value(place)).await?;
            }
            receives.finish(ctx).await?;
            if in_place && self.whole {
                // The others have read what is overwritten now.
                sends.finish(ctx).await?;
            }
            self.order(rank)
                .combine_into(self.op, size, value, me, target)?;
        }
        // Sends that are still on their way would keep the memory from going back to its pool.
        ctx.give_back(temp);
        Ok(())
    }

    /// Takes the blocks that other ranks have combined.
    pub(super) async fn take_blocks(&self, recv: Mem) -> Result<()> {
        let (rank, size) = (self.ctx.rank(), self.ctx.size());
        let mut receives = Receives::new();
        for from in (rank + 1..size).chain(0..rank) {
            let block = self.part(recv, from);
            if !block.is_empty() {
                receives.push_or_wait(self.ctx, from, block).await?;
            }
        }
        receives.finish(self.ctx).await
    }

    fn rank_of_block(&self, block: usize) -> usize {
        let size = self.ctx.size();
        (block + self.first + size - self.shift()) % size
    }

    /// Sends everyone a piece of the block that is theirs.
    async fn offer(&self, mine: Mem, step: usize, sends: &mut Sends) -> Result<()> {
        let (ctx, rank, size) = (self.ctx, self.ctx.rank(), self.ctx.size());
        for to in (0..rank).rev().chain((rank + 1..size).rev()) {
            if let Some(piece) = self.piece(self.part(mine, to), step) {
                let send = ctx.isend(to, piece)?;
                sends.push(ctx, send).await?;
            }
        }
        Ok(())
    }
}

/// Most ranks that reduce so.
pub(super) const RANKS: usize = if WINDOW < MOST { WINDOW } else { MOST };
