//! The order in which a reduction combines the values of all ranks, as a plan that one rank can
//! follow alone.
//!
//! Each plan combines in the same order as the algorithm of the same name over messages, so the
//! results have the same bits. A reduction may move its operands as the hosts require, and has the
//! same result on any placement.

use crate::coll::memory::Mem;
use crate::coll::reduction::{ActiveSet, Reducer, fold};
use crate::error::Result;

/// Most places of a plan: ranks whose values one rank combines alone.
pub(in crate::coll) const MAX_PLACES: usize = 32;

/// An algorithm's order. Places are numbers of ranks from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::coll) enum ExchangeOrder {
    /// A binomial tree to place 0.
    Binomial,
    /// Recursive doubling: keeps the order of ranks.
    Doubling,
    /// Recursive halving; for commutative operations.
    Halving,
    /// Once round the ring from this place on; for commutative operations.
    Ring(usize),
}

impl ExchangeOrder {
    /// Calls `join` for each combination: the value at the first place becomes the first's op the
    /// second's. Returns the place that has the result.
    fn each(self, size: usize, mut join: impl FnMut(usize, usize) -> Result<()>) -> Result<usize> {
        match self {
            ExchangeOrder::Binomial => {
                let mut mask = 1;
                while mask < size {
                    for place in (0..size - mask).step_by(2 * mask) {
                        join(place, place + mask)?;
                    }
                    mask *= 2;
                }
                Ok(0)
            }
            ExchangeOrder::Ring(first) => {
                for step in 1..size {
                    join(first, (first + step) % size)?;
                }
                Ok(first)
            }
            ExchangeOrder::Doubling | ExchangeOrder::Halving => {
                let active = ActiveSet::new(size, true);
                for number in 0..active.extra {
                    join(2 * number, 2 * number + 1)?;
                }
                let mut pair = |a, b| join(active.place(a), active.place(b));
                let count = active.count;
                if self == ExchangeOrder::Doubling {
                    let masks = (0..).map(|i| 1 << i).take_while(|&mask| mask < count);
                    for mask in masks {
                        for number in (0..count).step_by(2 * mask) {
                            pair(number, number + mask)?;
                        }
                    }
                } else {
                    let masks = (0..count.ilog2()).rev().map(|i| 1 << i);
                    for mask in masks {
                        // The other half combines in the same way for other blocks.
                        for number in 0..mask {
                            pair(number, number + mask)?;
                        }
                    }
                }
                Ok(0)
            }
        }
    }

    /// Combines the values at all places, which are overwritten, and returns where the result is.
    pub(in crate::coll) fn combine(
        self,
        op: &dyn Reducer,
        size: usize,
        value: impl Fn(usize) -> Mem,
    ) -> Result<Mem> {
        if size == 2 && !matches!(self, ExchangeOrder::Ring(_)) {
            fold(op, value(0), value(1))?;
            return Ok(value(1));
        }
        let mut now = [0u8; MAX_PLACES];
        for (place, now) in now.iter_mut().enumerate().take(size) {
            *now = place as u8;
        }
        let last = self.each(size, |lower, upper| {
            let (a, b) = (now[lower], now[upper]);
            now[lower] = b;
            fold(op, value(a.into()), value(b.into()))
        })?;
        Ok(value(now[last].into()))
    }

    /// Combines the values of a commutative operation in this order, without a write to the value
    /// at the place `kept`. The result is at the place `target`. It may be the same place if the
    /// value there need not be kept.
    pub(in crate::coll) fn combine_into(
        self,
        op: &dyn Reducer,
        size: usize,
        value: impl Fn(usize) -> Mem,
        kept: usize,
        target: usize,
    ) -> Result<()> {
        if size == 2 {
            return fold(op, value(1 - target), value(target));
        }
        let mut now = [0u8; MAX_PLACES];
        for (place, now) in now.iter_mut().enumerate().take(size) {
            *now = place as u8;
        }
        self.each(size, |lower, upper| {
            let (a, b) = (usize::from(now[lower]), usize::from(now[upper]));
            let (from, into) = if a == target || (b == kept && b != target) {
                (b, a)
            } else {
                (a, b)
            };
            now[lower] = into as u8;
            fold(op, value(from), value(into))
        })?;
        Ok(())
    }
}
