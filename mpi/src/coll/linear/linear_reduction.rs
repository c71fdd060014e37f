//! Linear reductions: every rank sends its operands directly to the ranks that combine them.
//!
//! Who combines what is a tuning ([`Combiners`]); the order is that of the algorithm in steps
//! ([`ExchangeOrder`]), so the results have the same bits. Operands travel piece by piece: a piece
//! stays in its core's cache until it is combined.

use std::future::{Future, poll_fn};
use std::task::{Poll, ready};

use crate::coll::call::{Ctx, Initiated, P2p, Receives, Sends, Temp, WINDOW, begin};
use crate::coll::linear::send_to_all;
use crate::coll::memory::{Mem, Split};
use crate::coll::reduction::{ExchangeOrder, MAX_PLACES, Reducer};
use crate::coll::tuning::{Exchange, LINEAR_CACHE, LINEAR_PIECE, LINEAR_REDUCTION_RANKS};
use crate::error::Result;

// The sends of one piece fit in a window, and the operands in a plan.
const _: () = assert!(LINEAR_REDUCTION_RANKS <= WINDOW && LINEAR_REDUCTION_RANKS <= MAX_PLACES);

/// Which ranks combine operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::coll) enum Combiners {
    /// Every rank combines the whole vector: no rank waits for another's result.
    Everyone,
    /// This rank the whole vector.
    Only(usize),
    /// Every rank its block of the vector. Symmetric operations only: which operand is left depends
    /// on where the result goes.
    Blocks,
}

/// The blocks of [`Combiners::Blocks`].
#[derive(Clone, Copy, Debug)]
enum BlockSizes<'a> {
    /// Blocks as even as whole elements allow.
    Even,
    /// The blocks of a reduce-scatter.
    Given(Split<'a>),
}

/// A linear reduction.
#[derive(Clone, Copy)]
pub(in crate::coll) struct Linear<'a, P, R> {
    ctx: Ctx<'a, P>,
    op: R,
    /// The rank at place 0: places count on from there.
    first: usize,
    /// The order of combining; along a ring each block begins at its own place.
    order: ExchangeOrder,
    combiners: Combiners,
    blocks: BlockSizes<'a>,
    /// Elements of the whole vector.
    elements: usize,
}

/// How a reduction of `len` bytes goes whose algorithm in steps has this order. `first` is the rank
/// at place 0. `whole` combine all of the vector where that is the way. `None`: in steps.
#[inline(always)]
pub(in crate::coll) fn plan<'a, P: P2p, R: Reducer + Copy>(
    ctx: Ctx<'a, P>,
    op: R,
    len: usize,
    (order, first): (ExchangeOrder, usize),
    whole: Combiners,
) -> Option<Linear<'a, P, R>> {
    let (size, tuning) = (ctx.size(), ctx.tuning());
    let combiners = match tuning.operands(ctx.on_one_host(), size, len, op.symmetric()) {
        Exchange::Stepwise => return None,
        // Along a ring each block has its own order.
        Exchange::Linear if matches!(order, ExchangeOrder::Ring(_)) => return None,
        Exchange::Linear => whole,
        Exchange::LinearBlocks if size == 2 && whole == Combiners::Everyone => whole,
        Exchange::LinearBlocks => Combiners::Blocks,
    };
    Some(Linear {
        ctx,
        op,
        first,
        order,
        combiners,
        blocks: BlockSizes::Even,
        elements: len / op.element(),
    })
}

/// How a reduce-scatter goes whose algorithm in steps has this order; `None`: in steps.
#[inline(always)]
pub(in crate::coll) fn plan_of_parts<'a, P: P2p, R: Reducer + Copy>(
    ctx: Ctx<'a, P>,
    op: R,
    split: Split<'a>,
    order: ExchangeOrder,
) -> Option<Linear<'a, P, R>> {
    let (size, tuning) = (ctx.size(), ctx.tuning());
    let elements = split.start(size);
    let exchange = tuning.operands(
        ctx.on_one_host(),
        size,
        elements * op.element(),
        op.symmetric(),
    );
    (exchange != Exchange::Stepwise && op.symmetric()).then_some(Linear {
        ctx,
        op,
        first: 0,
        order,
        combiners: Combiners::Blocks,
        blocks: BlockSizes::Given(split),
        elements,
    })
}

impl<'a, P: P2p, R: Reducer + Copy> Linear<'a, P, R> {
    /// Whether each combiner combines all of the vector.
    #[inline(always)]
    pub(in crate::coll) fn is_whole(&self) -> bool {
        self.combiners != Combiners::Blocks
    }

    /// Leaves the result in `recv` on all ranks ([`Combiners::Everyone`]) or on one
    /// ([`Combiners::Only`]), each of which combines all of it.
    #[inline(always)]
    pub(in crate::coll) fn whole(
        self,
        mine: Mem,
        recv: Mem,
    ) -> Initiated<impl Future<Output = Result<()>>> {
        let result = self.part(recv, self.ctx.rank());
        self.own_part(mine, result)
    }

    /// Leaves this rank's part of the result in `result`, which lies in no part of `mine` that
    /// another rank combines.
    #[inline(always)]
    pub(in crate::coll) fn own_part(
        self,
        mine: Mem,
        result: Mem,
    ) -> Initiated<impl Future<Output = Result<()>>> {
        let combining = self.combine(mine, result);
        let mut progress = match combining.begin() {
            Ok(progress) => progress,
            Err(error) => return Initiated::Failed(error),
        };
        begin!(
            combining.poll_to_end(&mut progress),
            combining.resume(&mut progress)
        )
    }

    /// Reduces as [`Linear::whole`], for a call that is a future already: with the code of the
    /// other futures here.
    pub(in crate::coll) async fn combine_whole(self, mine: Mem, recv: Mem) -> Result<()> {
        let ctx = &self.ctx;
        let result = self.part(recv, ctx.rank());
        let mut operands = self.combine(mine, result).run().await?;
        operands.finish(ctx).await
    }

    /// Leaves the result in `recv` on all ranks, each of which combines a block
    /// ([`Combiners::Blocks`]).
    pub(in crate::coll) async fn by_blocks(self, mine: Mem, recv: Mem) -> Result<()> {
        let ctx = &self.ctx;
        let block = self.part(recv, ctx.rank());
        let mut operands = self.combine(mine, block).run().await?;
        // So few ranks that all these sends go at once.
        let results = match block.is_empty() {
            true => None,
            false => Some(send_to_all(*ctx, block)),
        };
        self.take_blocks(mine, recv, &mut operands).await?;
        operands.finish(ctx).await?;
        match results {
            Some(results) => results.finish().await,
            None => Ok(()),
        }
    }

    /// Leaves the result in `recv` on `root`; each rank combines a block ([`Combiners::Blocks`]).
    pub(in crate::coll) async fn blocks_to_root(
        self,
        mine: Mem,
        recv: Mem,
        root: usize,
    ) -> Result<()> {
        let (ctx, rank) = (&self.ctx, self.ctx.rank());
        if rank == root {
            let block = self.part(recv, root);
            let mut operands = self.combine(mine, block).run().await?;
            self.take_blocks(mine, recv, &mut operands).await?;
            return operands.finish(ctx).await;
        }
        let temp = ctx.temp(self.part(mine, rank).len())?;
        let mut operands = self.combine(mine, temp.mem()).run().await?;
        if !temp.mem().is_empty() {
            ctx.send(root, temp.mem()).await?;
        }
        operands.finish(ctx).await
    }

    /// The part of a vector that a rank combines.
    #[inline(always)]
    fn part(&self, vector: Mem, rank: usize) -> Mem {
        match self.combiners {
            Combiners::Everyone => vector,
            Combiners::Only(root) if rank == root => vector,
            Combiners::Only(_) => Mem::EMPTY,
            Combiners::Blocks => self.block_of(vector, rank),
        }
    }

    #[inline(always)]
    fn block_of(&self, vector: Mem, rank: usize) -> Mem {
        let split = match self.blocks {
            BlockSizes::Given(split) => split,
            BlockSizes::Even => Split::Even {
                elements: self.elements,
                parts: self.ctx.size(),
            },
        };
        split.part(vector, self.op.element(), self.block(rank))
    }

    #[inline(always)]
    fn place(&self, rank: usize) -> usize {
        let place = rank + self.ctx.size() - self.first;
        if place < self.ctx.size() {
            place
        } else {
            place - self.ctx.size()
        }
    }

    #[inline(always)]
    fn rank_at(&self, place: usize) -> usize {
        let rank = place + self.first;
        if rank < self.ctx.size() {
            rank
        } else {
            rank - self.ctx.size()
        }
    }

    /// The block that a rank combines.
    #[inline(always)]
    fn block(&self, rank: usize) -> usize {
        (self.place(rank) + self.shift()) % self.ctx.size()
    }

    /// Along a ring the rank of a block's last operand combines it, else the one of its first.
    #[inline(always)]
    fn shift(&self) -> usize {
        usize::from(matches!(self.order, ExchangeOrder::Ring(_)))
    }

    #[inline(always)]
    fn order(&self) -> ExchangeOrder {
        match self.order {
            ExchangeOrder::Ring(_) => ExchangeOrder::Ring(self.block(self.ctx.rank())),
            order => order,
        }
    }

    /// Bytes of a piece: with one of each other rank it fits in a core's own cache.
    #[inline(always)]
    fn step(&self) -> usize {
        let element = self.op.element().max(1);
        let bytes = LINEAR_CACHE / (self.ctx.size() - 1);
        (bytes.max(LINEAR_PIECE) / element).max(1) * element
    }

    /// Bytes of the longest part.
    #[inline(always)]
    fn longest(&self) -> usize {
        let elements = match (self.combiners, self.blocks) {
            (Combiners::Everyone | Combiners::Only(_), _) => self.elements,
            (Combiners::Blocks, BlockSizes::Even) => self.elements.div_ceil(self.ctx.size()),
            (Combiners::Blocks, BlockSizes::Given(split)) => split.longest(self.ctx.size()),
        };
        elements * self.op.element()
    }

    /// The way to this rank's part of the result, which goes to `result`: in place there in `mine`,
    /// or memory of its own.
    #[inline(always)]
    fn combine(self, mine: Mem, result: Mem) -> Combining<'a, P, R> {
        let (size, step) = (self.ctx.size(), self.step());
        let own = self.part(mine, self.ctx.rank());
        let in_place = own.ptr() == result.ptr();
        // Other ranks must have read the part before it is overwritten.
        let reread = in_place && self.combiners == Combiners::Everyone;
        Combining {
            linear: self,
            mine,
            own,
            result,
            room: step.min(result.len()).next_multiple_of(64),
            step,
            longest: self.longest(),
            // All that may be in flight: then a rank need not run again for the others to continue.
            window: if reread { 1 } else { WINDOW / (size - 1) },
            reread,
            // Of two ranks the other's operand may be received where the result goes.
            into_result: size == 2 && self.op.symmetric() && !in_place,
        }
    }

    /// Takes the blocks that other ranks have combined; `operands` are still being read.
    async fn take_blocks(&self, mine: Mem, recv: Mem, operands: &mut Sends) -> Result<()> {
        let (ctx, rank, size) = (&self.ctx, self.ctx.rank(), self.ctx.size());
        if mine.ptr() == recv.ptr() {
            // The next message is written to the place where they are read.
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

/// The way to this rank's part of a result, piece by piece.
struct Combining<'a, P, R> {
    linear: Linear<'a, P, R>,
    /// This rank's operand of the whole vector.
    mine: Mem,
    /// This rank's part of that.
    own: Mem,
    result: Mem,
    /// Bytes for each operand in temporary memory.
    room: usize,
    /// Bytes of a piece.
    step: usize,
    /// Bytes of the longest part.
    longest: usize,
    /// How many pieces may be under way.
    window: usize,
    /// Whether the result overwrites what others receive.
    reread: bool,
    /// Whether no temporary memory is needed.
    into_result: bool,
}

/// How far it is.
struct Progress<'a> {
    temp: Temp<'a>,
    /// Up to here operands are sent.
    offered: usize,
    /// Up to here the result is there.
    at: usize,
    /// Whether the receives of the piece there are posted.
    posted: bool,
    /// Sends that are still reading `mine` at the end.
    sends: Sends,
    receives: Receives,
}

impl<'a, P: P2p, R: Reducer + Copy> Combining<'a, P, R> {
    #[inline(always)]
    fn begin(&self) -> Result<Progress<'a>> {
        let ctx = &self.linear.ctx;
        Ok(Progress {
            temp: ctx.temp(if self.into_result {
                0
            } else {
                ctx.size() * self.room
            })?,
            offered: 0,
            at: 0,
            posted: false,
            sends: Sends::new(),
            receives: Receives::new(),
        })
    }

    /// Runs to the end; the sends are still reading the operands.
    async fn run(self) -> Result<Sends> {
        let mut progress = self.begin()?;
        poll_fn(|_| self.poll(&mut progress)).await?;
        Ok(progress.sends)
    }

    #[inline(always)]
    fn poll_to_end(&self, progress: &mut Progress<'_>) -> Poll<Result<()>> {
        ready!(self.poll(progress))?;
        progress.sends.poll_finish(&self.linear.ctx)
    }

    #[inline(never)]
    fn resume(&self, progress: &mut Progress<'_>) -> Poll<Result<()>> {
        self.out_of_line().poll_to_end(progress)
    }

    fn out_of_line(&self) -> Combining<'a, P::OutOfLine, R> {
        let linear = &self.linear;
        Combining {
            linear: Linear {
                ctx: linear.ctx.out_of_line(),
                op: linear.op,
                first: linear.first,
                order: linear.order,
                combiners: linear.combiners,
                blocks: linear.blocks,
                elements: linear.elements,
            },
            mine: self.mine,
            own: self.own,
            result: self.result,
            room: self.room,
            step: self.step,
            longest: self.longest,
            window: self.window,
            reread: self.reread,
            into_result: self.into_result,
        }
    }

    #[inline(always)]
    fn piece(&self, vector: Mem, at: usize) -> Option<Mem> {
        (at < vector.len()).then(|| vector.part(at, self.step.min(vector.len() - at)))
    }

    #[inline(always)]
    fn poll(&self, progress: &mut Progress<'_>) -> Poll<Result<()>> {
        let ctx = &self.linear.ctx;
        let (op, size, order) = (self.linear.op, ctx.size(), self.linear.order());
        while progress.at < self.longest {
            while progress.offered < self.longest.min(progress.at + self.window * self.step) {
                ready!(progress.sends.poll_room(ctx, size - 1))?;
                self.offer(progress)?;
            }
            if let (Some(result), Some(own)) = (
                self.piece(self.result, progress.at),
                self.piece(self.own, progress.at),
            ) {
                let values = Values {
                    temp: progress.temp.mem(),
                    room: self.room,
                    result,
                    own,
                    me: self.linear.place(ctx.rank()),
                    ordered: !op.symmetric(),
                };
                if !progress.posted {
                    self.post(&values, &mut progress.receives)?;
                    progress.posted = true;
                }
                ready!(progress.receives.poll_finish(ctx))?;
                if self.reread {
                    ready!(progress.sends.poll_finish(ctx))?;
                }
                values.combine(&op, order, size)?;
                progress.posted = false;
            }
            progress.at += self.step;
        }
        // Sends that are still on their way would keep the memory from going back to its pool.
        progress.temp.give_back();
        Poll::Ready(Ok(()))
    }

    /// Sends each combiner the next piece of its part.
    #[inline(always)]
    fn offer(&self, progress: &mut Progress<'_>) -> Result<()> {
        let linear = &self.linear;
        let (rank, size) = (linear.ctx.rank(), linear.ctx.size());
        for to in (0..rank).rev().chain((rank + 1..size).rev()) {
            if let Some(piece) = self.piece(linear.part(self.mine, to), progress.offered) {
                progress.sends.push(linear.ctx.isend(to, piece)?);
            }
        }
        progress.offered += self.step;
        Ok(())
    }

    /// Receives the other ranks' operands of a piece.
    #[inline(always)]
    fn post(&self, values: &Values, receives: &mut Receives) -> Result<()> {
        let linear = &self.linear;
        for place in (values.me + 1..linear.ctx.size()).chain(0..values.me) {
            let (from, into) = (linear.rank_at(place), values.at(place));
            receives.take_or_push(&linear.ctx, from, into)?;
        }
        Ok(())
    }
}

/// The operands of one piece at the rank that combines it, by place.
struct Values {
    temp: Mem,
    /// Bytes for each operand in `temp`.
    room: usize,
    /// Where the result goes: `own`, or memory that no other rank reads.
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
    fn combine(&self, op: &dyn Reducer, order: ExchangeOrder, size: usize) -> Result<()> {
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
