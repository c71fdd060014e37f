//! Collective algorithms (MPI-5.0 chapter 6) for intracommunicators.
//!
//! Each operation works on blocks of bytes ([`Mem`], [`Blocks`]) over [`P2p`]; reductions have a
//! [`Reducer`]. It is initiated and, if it has to wait, continues as a future ([`Initiated`]).
//! There is no runtime: [`block_on`] runs the future for a blocking call, and the same future,
//! boxed, is a nonblocking collective. [`Ctx`] is one call: its tag, its messages, its temporary
//! memory.
//!
//! All ranks of a communicator call collectives in the same order, each call with a tag of its own,
//! the same on all ranks. The order in which a reduction combines operands is a function of the
//! number of ranks, the count, the operation (and the root) alone.

mod aggregate;
mod allgather;
mod allreduce;
mod alltoall;
mod barrier;
mod bcast;
mod call;
mod channel;
mod ctx;
mod entry;
mod gather;
mod halving;
mod initiated;
mod linear;
mod linear_reduction;
mod locality;
mod mem;
mod order;
mod p2p;
mod reduce;
mod reduce_scatter;
mod reducer;
mod run;
mod scan;
mod scatter;
mod scratch;
pub mod tuning;
mod two_level;
pub mod typed;
mod windows;

#[cfg(test)]
mod testnet;
#[cfg(test)]
mod tests;

pub use call::*;
pub use channel::{CallState, GroupChannel};
pub use ctx::{Ctx, Resources};
pub use entry::{allgather, allreduce, alltoall, barrier, bcast, reduce};
pub use gather::{gather, gatherv};
pub use initiated::Initiated;
pub use locality::Locality;
pub use mem::{Blocks, Mem, Split};
pub use p2p::{P2p, Pending};
pub use reduce_scatter::reduce_scatter;
pub use reducer::Reducer;
pub use run::{Boxed, block_on, poll_once};
pub use scan::scan;
pub use scatter::{scatter, scatterv};
pub use scratch::Scratch;
pub use tuning::Tuning;
