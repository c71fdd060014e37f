//! Every algorithm of every operation against a plain reference, over the in-memory network.

mod aggregate;
mod localities;
mod moves;
mod neighbors;
mod random;
mod reductions;
mod simple_arguments;
mod trouble;
mod two_groups;
mod typed;

use super::testnet::{Buffers, Fut, Layout, Rng, Run, TestCtx, mem};
use super::{Blocks, Ctx, Mem, P2p, Reducer};
use crate::error::Result;

/// Collectives that begin at once, as futures like the others.
async fn barrier(ctx: &Ctx<'_, impl P2p>) -> Result<()> {
    super::barrier(*ctx).finish().await
}

async fn bcast(ctx: &TestCtx<'_>, data: Mem, root: usize) -> Result<()> {
    super::bcast(*ctx, data, root).finish().await
}

async fn allgather(ctx: &TestCtx<'_>, send: Option<Mem>, recv: Blocks<'_>) -> Result<()> {
    super::allgather(*ctx, send, recv).finish().await
}

async fn alltoall(ctx: &TestCtx<'_>, send: Option<Blocks<'_>>, recv: Blocks<'_>) -> Result<()> {
    super::alltoall(*ctx, send, recv).finish().await
}

async fn allreduce(
    ctx: &TestCtx<'_>,
    op: &dyn Reducer,
    send: Option<Mem>,
    recv: Mem,
) -> Result<()> {
    super::allreduce(*ctx, op, send, recv).finish().await
}

/// The numbers of ranks that every algorithm is tried with.
const SIZES: [usize; 18] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 32,
];

/// Runs `body` on all ranks with one send and one receive buffer each; gives back the receive
/// buffers. The send buffers must come out as they were.
fn run(
    run: Run,
    sends: &Buffers,
    recvs: &Buffers,
    body: impl for<'a> Fn(&'a TestCtx<'a>, Mem, Mem) -> Fut<'a>,
) -> Buffers {
    let (mut before, mut after) = (sends.clone(), recvs.clone());
    let from: Vec<Mem> = before.iter_mut().map(mem).collect();
    let into: Vec<Mem> = after.iter_mut().map(mem).collect();
    let results = run.go(1, |ctx| {
        let rank = ctx[0].rank();
        body(&ctx[0], from[rank], into[rank])
    });
    for (rank, result) in results.into_iter().enumerate() {
        result.unwrap_or_else(|e| panic!("rank {rank}: {e}, {run:?}"));
    }
    assert_eq!(&before, sends, "a send buffer was written: {run:?}");
    after
}

/// `len` random bytes for each of `size` ranks.
fn random(size: usize, len: usize, seed: u64) -> Buffers {
    let mut rng = Rng(seed);
    (0..size)
        .map(|_| (0..len).map(|_| rng.next() as u8).collect())
        .collect()
}

/// `size` buffers of `len` bytes that no data of a test is likely to equal.
fn blank(size: usize, len: usize) -> Buffers {
    vec![vec![0xEE; len]; size]
}

fn concat(blocks: &[Vec<u8>]) -> Vec<u8> {
    blocks.concat()
}

/// Operations for tests, on little-endian elements.
#[derive(Clone, Copy, Debug)]
enum TestOp {
    /// Wrapping sum of `u64`.
    Sum,
    /// Sum of `f32`: not associative, so that the order shows in the bits.
    Float,
    /// Composition of the maps x -> a x + b (two wrapping `u64`): not commutative.
    Affine,
    /// Three bytes, added: an odd element size.
    Odd,
    /// The larger first byte, with its second one; of two equal ones the lower. Declared
    /// commutative, as users do for operations that are not so to the bit.
    First,
}

impl TestOp {
    /// `upper = lower op upper`, one element.
    fn one(self, lower: &[u8], upper: &mut [u8]) {
        let u = |b: &[u8], i: usize| u64::from_le_bytes(b[i * 8..i * 8 + 8].try_into().unwrap());
        let f = |b: &[u8]| f32::from_le_bytes(b.try_into().unwrap());
        match self {
            TestOp::Sum => {
                let sum = u(lower, 0).wrapping_add(u(upper, 0));
                upper.copy_from_slice(&sum.to_le_bytes());
            }
            TestOp::Float => {
                let sum = f(lower) + f(upper);
                upper.copy_from_slice(&sum.to_le_bytes());
            }
            TestOp::Affine => {
                let (a, b, c, d) = (u(lower, 0), u(lower, 1), u(upper, 0), u(upper, 1));
                let (x, y) = (a.wrapping_mul(c), b.wrapping_mul(c).wrapping_add(d));
                upper[..8].copy_from_slice(&x.to_le_bytes());
                upper[8..].copy_from_slice(&y.to_le_bytes());
            }
            TestOp::Odd => {
                for (a, b) in lower.iter().zip(upper) {
                    *b = b.wrapping_add(*a);
                }
            }
            TestOp::First => {
                if lower[0] % 4 >= upper[0] % 4 {
                    upper.copy_from_slice(lower);
                }
            }
        }
    }

    fn vector(self, lower: &[u8], upper: &mut [u8]) {
        let element = self.element();
        for (a, b) in lower.chunks(element).zip(upper.chunks_mut(element)) {
            self.one(a, b);
        }
    }

    /// The reference: `x0 op x1 op …` of ranks `0..n`.
    fn all(self, values: &[Vec<u8>]) -> Vec<u8> {
        let mut result = values[values.len() - 1].clone();
        for value in values[..values.len() - 1].iter().rev() {
            self.vector(value, &mut result);
        }
        result
    }

    /// Random operands of `count` elements.
    fn operands(self, size: usize, count: usize, seed: u64) -> Buffers {
        let mut rng = Rng(seed);
        let mut float = || (rng.next() as i32 as f32 * 1e-3).to_le_bytes();
        match self {
            TestOp::Float => (0..size)
                .map(|_| (0..count).flat_map(|_| float()).collect())
                .collect(),
            _ => random(size, count * self.element(), seed),
        }
    }
}

impl Reducer for TestOp {
    fn element(&self) -> usize {
        match self {
            TestOp::Sum => 8,
            TestOp::Float => 4,
            TestOp::Affine => 16,
            TestOp::Odd => 3,
            TestOp::First => 2,
        }
    }

    fn commutative(&self) -> bool {
        !matches!(self, TestOp::Affine)
    }

    fn symmetric(&self) -> bool {
        !matches!(self, TestOp::Affine | TestOp::First)
    }

    fn exact(&self) -> bool {
        matches!(self, TestOp::Sum | TestOp::Odd)
    }

    unsafe fn apply(&self, input: *const u8, inout: *mut u8, count: usize) -> Result<()> {
        let len = count * self.element();
        // SAFETY: the caller's promise: both have `count` elements and do not overlap.
        let (lower, upper) = unsafe {
            (
                std::slice::from_raw_parts(input, len),
                std::slice::from_raw_parts_mut(inout, len),
            )
        };
        self.vector(lower, upper);
        Ok(())
    }
}
