//! Linear reductions: every rank sends its operands straight to the ranks that combine them.
//!
//! Who combines what is a tuning ([`Combiners`]); the order is that of the algorithm in steps
//! ([`Order`]), so the results have the same bits. Operands travel piece by piece: a piece stays in
//! its core's cache until it is combined.

use super::ctx::{Ctx, Receives, Sends, WINDOW};
use super::linear::send_to_all;
use super::mem::{Mem, Split};
use super::order::{MOST, Order};
use super::p2p::P2p;
use super::reducer::Reducer;
use super::tuning::{DIRECT_CACHE, DIRECT_PIECE, LINEAR_REDUCTION_RANKS};
use crate::error::Result;

// The sends of one piece fit in a window, and the operands in a plan.
const _: () = assert!(LINEAR_REDUCTION_RANKS <= WINDOW && LINEAR_REDUCTION_RANKS <= MOST);

/// Which ranks combine operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Combiners {
    /// Every rank the whole vector: nobody waits for another's result.
    Everyone,
    /// This rank the whole vector.
    Only(usize),
    /// Every rank its block of the vector. Symmetric operations only: which operand is left depends
    /// on where the result goes.
    Blocks,
}

/// A linear reduction.
pub(super) struct Linear<'a, P> {
    pub(super) ctx: &'a Ctx<P>,
    pub(super) op: &'a dyn Reducer,
    /// The rank at place 0: places count on from there.
    pub(super) first: usize,
    /// The order of combining; along a ring each block begins at its own place.
    pub(super) order: Order,
    pub(super) combiners: Combiners,
    /// Elements of the whole vector.
    pub(super) elements: usize,
}

impl<P: P2p> Linear<'_, P> {
    /// Leaves the result in `recv` on all ranks.
    pub(super) async fn to_all(&self, mine: Mem, recv: Mem) -> Result<()> {
        let ctx = self.ctx;
        let mut operands = Sends::new();
        let block = self.part(recv, ctx.rank());
        self.combine(mine, block, &mut operands).await?;
        if self.combiners != Combiners::Blocks {
            return operands.finish(ctx).await;
        }
        let mut results = Sends::new();
        if !block.is_empty() {
            send_to_all(ctx, block, &mut results).await?;
        }
        self.take_blocks(mine, recv, &mut operands).await?;
        operands.finish(ctx).await?;
        results.finish(ctx).await
    }

    /// Leaves the result in `recv` on `root`.
    pub(super) async fn to_root(&self, mine: Mem, recv: Mem, root: usize) -> Result<()> {
        let (ctx, rank) = (self.ctx, self.ctx.rank());
        let mut operands = Sends::new();
        if rank == root {
            let block = self.part(recv, root);
            self.combine(mine, block, &mut operands).await?;
            if self.combiners == Combiners::Blocks {
                self.take_blocks(mine, recv, &mut operands).await?;
            }
            return operands.finish(ctx).await;
        }
        let temp = ctx.temp(self.part(mine, rank).len())?;
        self.combine(mine, temp.mem(), &mut operands).await?;
        if !temp.mem().is_empty() {
            ctx.send(root, temp.mem()).await?;
        }
        operands.finish(ctx).await
    }

    /// A rank's part of a vector: what it combines.
    fn part(&self, vector: Mem, rank: usize) -> Mem {
        match self.combiners {
            Combiners::Everyone => vector,
            Combiners::Only(root) if rank == root => vector,
            Combiners::Only(_) => Mem::EMPTY,
            Combiners::Blocks => {
                let split = Split::Even {
                    elements: self.elements,
                    parts: self.ctx.size(),
                };
                split.part(vector, self.op.element(), self.block(rank))
            }
        }
    }

    fn place(&self, rank: usize) -> usize {
        let place = rank + self.ctx.size() - self.first;
        if place < self.ctx.size() {
            place
        } else {
            place - self.ctx.size()
        }
    }

    fn rank_at(&self, place: usize) -> usize {
        let rank = place + self.first;
        if rank < self.ctx.size() {
            rank
        } else {
            rank - self.ctx.size()
        }
    }

    /// The block that a rank combines.
    fn block(&self, rank: usize) -> usize {
        (self.place(rank) + self.shift()) % self.ctx.size()
    }

    /// Along a ring the rank of a block's last operand combines it, else the one of its first.
    fn shift(&self) -> usize {
        usize::from(matches!(self.order, Order::Ring(_)))
    }

    fn order(&self) -> Order {
        match self.order {
            Order::Ring(_) => Order::Ring(self.block(self.ctx.rank())),
            order => order,
        }
    }

    /// Bytes of a piece: with one of each other rank it fits in a core's own cache.
    fn step(&self) -> usize {
        let element = self.op.element().max(1);
        let bytes = DIRECT_CACHE / (self.ctx.size() - 1);
        (bytes.max(DIRECT_PIECE) / element).max(1) * element
    }

    /// Bytes of the longest part.
    fn longest(&self) -> usize {
        let elements = match self.combiners {
            Combiners::Blocks => self.elements.div_ceil(self.ctx.size()),
            Combiners::Everyone | Combiners::Only(_) => self.elements,
        };
        elements * self.op.element()
    }

    /// Sends operands, and leaves this rank's part of the result in `result`: in place there in
    /// `mine`, or memory of its own. The sends that `sends` holds at the end are still reading
    /// `mine`.
    async fn combine(&self, mine: Mem, result: Mem, sends: &mut Sends) -> Result<()> {
        let (ctx, size) = (self.ctx, self.ctx.size());
        let (step, longest) = (self.step(), self.longest());
        let own = self.part(mine, ctx.rank());
        // What is overwritten next, others must have read.
        let reread = own.ptr() == result.ptr() && self.combiners == Combiners::Everyone;
        // All that may be in flight: then a rank need not run again for the others to continue.
        let ahead = if reread { 1 } else { WINDOW / (size - 1) };
        let piece = |vector: Mem, at: usize| {
            (at < vector.len()).then(|| vector.part(at, step.min(vector.len() - at)))
        };
        let room = step.min(result.len()).next_multiple_of(64);
        let ordered = !self.op.symmetric();
        // Of two ranks the other's operand may be received where the result goes.
        let direct = size == 2 && !ordered && own.ptr() != result.ptr();
        let temp = ctx.temp(if direct { 0 } else { size * room })?;
        let mut offered = 0;
        let mut at = 0;
        while at < longest {
            while offered < longest.min(at + ahead * step) {
                self.offer(|vector| piece(vector, offered), mine, sends)
                    .await?;
                offered += step;
            }
            if let (Some(result), Some(own)) = (piece(result, at), piece(own, at)) {
                let values = Values {
                    temp: temp.mem(),
                    room,
                    result,
                    own,
                    me: self.place(ctx.rank()),
                    ordered,
                };
                self.receive(&values).await?;
                if reread {
                    sends.finish(ctx).await?;
                }
                values.combine(self.op, self.order(), size)?;
            }
            at += step;
        }
        // Sends that are still on their way would keep the memory from going back to its pool.
        ctx.give_back(temp);
        Ok(())
    }

    /// Sends each combiner a piece of its part.
    #[inline]
    async fn offer(
        &self,
        piece: impl Fn(Mem) -> Option<Mem>,
        mine: Mem,
        sends: &mut Sends,
    ) -> Result<()> {
        let (ctx, rank, size) = (self.ctx, self.ctx.rank(), self.ctx.size());
        for to in (0..rank).rev().chain((rank + 1..size).rev()) {
            if let Some(piece) = piece(self.part(mine, to)) {
                let send = ctx.isend(to, piece)?;
                sends.push_or_wait(ctx, send).await?;
            }
        }
        Ok(())
    }

    /// Receives the other ranks' operands of a piece.
    #[inline]
    async fn receive(&self, values: &Values) -> Result<()> {
        let mut receives = Receives::new();
        for place in (values.me + 1..self.ctx.size()).chain(0..values.me) {
            let from = self.rank_at(place);
            receives.take_or_push(self.ctx, from, values.at(place))?;
        }
        receives.finish(self.ctx).await
    }

    /// Takes the blocks that other ranks have combined; `operands` are still being read.
    async fn take_blocks(&self, mine: Mem, recv: Mem, operands: &mut Sends) -> Result<()> {
        let (ctx, rank, size) = (self.ctx, self.ctx.rank(), self.ctx.size());
        if mine.ptr() == recv.ptr() {
            // What comes now is written where they are read.
            operands.finish(ctx).await?;
        }
        let mut receives = Receives::new();
        for from in (rank + 1..size).chain(0..rank) {
            let block = self.part(recv, from);
            if !block.is_empty() {
                receives.push_or_wait(ctx, from, block).await?;
            }
        }
        receives.finish(ctx).await
    }
}

/// The operands of one piece at the rank that combines it, by place.
struct Values {
    temp: Mem,
    /// Bytes for each operand in `temp`.
    room: usize,
    /// Where the result goes: `own`, or memory that nobody reads.
    result: Mem,
    /// This rank's operand.
    own: Mem,
    /// The place of this rank.
    me: usize,
    /// Whether operands may not change places.
    ordered: bool,
}

impl Values {
    /// The place whose operand is received where the result goes.
    #[inline]
    fn target(&self) -> usize {
        if self.own.ptr() == self.result.ptr() {
            self.me
        } else {
            usize::from(self.me == 0)
        }
    }

    #[inline]
    fn at(&self, place: usize) -> Mem {
        if !self.ordered && place == self.target() {
            return self.result;
        }
        if !self.ordered && place == self.me {
            return self.own;
        }
        self.temp.part(place * self.room, self.result.len())
    }

    #[inline]
    fn combine(&self, op: &dyn Reducer, order: Order, size: usize) -> Result<()> {
        if self.ordered {
            self.at(self.me).copy_from(self.own);
            self.result
                .copy_from(order.combine(op, size, |place| self.at(place))?);
            return Ok(());
        }
        let value = |place| self.at(place);
        order.combine_into(op, size, value, self.me, self.target())
    }
}
