//! Recursive halving and doubling over a power of two of the ranks, as several reductions share it.

use crate::coll::call::{Ctx, P2p, Sends};
use crate::coll::memory::Mem;
use crate::coll::reduction::{Reducer, combine_into};
use crate::error::Result;

/// The active ranks, when their number is reduced to a power of two. Among the first `2 * extra`
/// places, one of each pair of neighbours is excluded after it has passed its value to the other.
#[derive(Clone, Copy, Debug)]
pub(in crate::coll) struct ActiveSet {
    /// Number that stay, a power of two.
    pub(in crate::coll) count: usize,
    /// Number that leave.
    pub(in crate::coll) extra: usize,
    /// Whether the even one of each pair stays (else the odd one).
    pub(in crate::coll) even: bool,
}

/// A place's part while the number is brought down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::coll) enum Membership {
    /// Hands its value to this place and waits for the result.
    Excluded(usize),
    /// Stays under a new number; takes the value of that place first, if any.
    Active(usize, Option<usize>),
}

impl ActiveSet {
    pub(in crate::coll) fn new(size: usize, even: bool) -> Self {
        let count = if size.is_power_of_two() {
            size
        } else {
            size.next_power_of_two() / 2
        };
        Self {
            count,
            extra: size - count,
            even,
        }
    }

    pub(in crate::coll) fn part(&self, place: usize) -> Membership {
        if place >= 2 * self.extra {
            return Membership::Active(place - self.extra, None);
        }
        let neighbour = place ^ 1;
        if place.is_multiple_of(2) == self.even {
            Membership::Active(place / 2, Some(neighbour))
        } else {
            Membership::Excluded(neighbour)
        }
    }

    /// The place of active rank `number`.
    pub(in crate::coll) fn place(&self, number: usize) -> usize {
        if number < self.extra {
            2 * number + usize::from(!self.even)
        } else {
            number + self.extra
        }
    }

    /// The first place that active rank `number` represents: its own, or that of its excluded
    /// neighbour.
    pub(in crate::coll) fn first(&self, number: usize) -> usize {
        if number < self.extra {
            2 * number
        } else {
            number + self.extra
        }
    }
}

/// A vector cut into one block for each active rank, on one of them.
pub(in crate::coll) struct Halves<'a, P, S, R> {
    pub(in crate::coll) ctx: &'a Ctx<'a, P>,
    pub(in crate::coll) active: ActiveSet,
    /// This process's number among the active.
    pub(in crate::coll) number: usize,
    /// Where block i starts, in bytes.
    pub(in crate::coll) start: S,
    /// The rank at a place.
    pub(in crate::coll) rank: R,
}

impl<P: P2p, S: Fn(usize) -> usize, R: Fn(usize) -> usize> Halves<'_, P, S, R> {
    fn blocks(&self, vector: Mem, from: usize, to: usize) -> Mem {
        vector.range((self.start)(from), (self.start)(to))
    }

    fn peer(&self, number: usize) -> usize {
        (self.rank)(self.active.place(number))
    }

    /// Leaves the fully reduced block of this active rank in its place in `work`. `mine` is the
    /// vector to be reduced, `work` itself or another one that stays as it is.
    pub(in crate::coll) async fn reduce_scatter(
        &self,
        op: &dyn Reducer,
        mine: Mem,
        work: Mem,
    ) -> Result<()> {
        let mut current = mine;
        let (mut low, mut high) = (0, self.active.count);
        let mut mask = self.active.count / 2;
        let mut sends = Sends::new();
        while mask > 0 {
            let middle = low + mask;
            let (keep, give) = if self.number & mask == 0 {
                ((low, middle), (middle, high))
            } else {
                ((middle, high), (low, middle))
            };
            let peer = self.peer(self.number ^ mask);
            let out = (peer, self.blocks(current, give.0, give.1));
            let kept = self.blocks(current, keep.0, keep.1);
            let result = self.blocks(work, keep.0, keep.1);
            combine_into(self.ctx, op, out, peer, kept, result, &mut sends).await?;
            current = work;
            (low, high) = keep;
            mask /= 2;
        }
        sends.finish(self.ctx).await
    }

    /// The way back: every active rank gets all blocks of `work`.
    pub(in crate::coll) async fn allgather(&self, work: Mem) -> Result<()> {
        let mut mask = 1;
        while mask < self.active.count {
            let partner = self.number ^ mask;
            let group = |n: usize| {
                let first = n & !(mask - 1);
                self.blocks(work, first, first + mask)
            };
            let peer = self.peer(partner);
            self.ctx
                .exchange(peer, group(self.number), peer, group(partner))
                .await?;
            mask *= 2;
        }
        Ok(())
    }

    /// Active rank 0 gets all blocks of `work`, along a binomial tree.
    pub(in crate::coll) async fn gather(&self, work: Mem) -> Result<()> {
        let mut mask = 1;
        while mask < self.active.count {
            let first = self.number & !(mask - 1);
            if self.number & mask != 0 {
                let mine = self.blocks(work, first, first + mask);
                return self.ctx.send(self.peer(self.number ^ mask), mine).await;
            }
            let theirs = self.blocks(work, first + mask, first + 2 * mask);
            self.ctx.recv(self.peer(self.number ^ mask), theirs).await?;
            mask *= 2;
        }
        Ok(())
    }
}
