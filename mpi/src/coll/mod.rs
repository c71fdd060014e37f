//! Collective algorithms (MPI-5.0 chapter 6), and exchanges with neighbours (§8.6).
//!
//! Each operation works on blocks of bytes ([`Mem`], [`Blocks`]) over [`P2p`]; reductions have a
//! [`Reducer`]. It is initiated and, if it has to wait, continues as a future ([`Initiated`]).
//! There is no runtime: [`block_on`] runs the future for a blocking call, and the same future,
//! boxed, is a nonblocking collective. [`Ctx`] is one call: its tag, its messages, its temporary
//! memory.
//!
//! On an intercommunicator, a collective is one or several among some processes of both groups
//! (`typed/between.rs`).
//!
//! A collective begins in the file of its name. The rooms: `call/` is one call and its messages,
//! `linear/` and `algorithms/` are linear exchanges and those in steps, `hosts/` is what ranks of
//! one host do together, `reduction/` is what reductions share, `memory/` has regions and temporary
//! memory. `typed/` packs elements before and after; `collective.rs` makes calls values,
//! `simple_collectives.rs` is the entry for few contiguous elements.
//!
//! All ranks of a communicator call collectives in the same order, each call with a tag of its own,
//! the same on all ranks. The order in which a reduction combines operands is a function of the
//! number of ranks, the count, the operation (and the root) alone.

mod algorithms;
mod allgather;
mod allreduce;
mod alltoall;
mod barrier;
mod bcast;
mod call;
mod collective;
mod gather;
mod hosts;
mod linear;
mod memory;
mod neighborhood;
mod reduce;
mod reduce_scatter;
mod reduction;
mod scan;
mod scatter;
mod simple_collectives;
pub mod tuning;
pub mod typed;

#[cfg(test)]
mod testnet;
#[cfg(test)]
mod tests;

pub use allgather::allgather;
pub use allreduce::allreduce;
pub use alltoall::alltoall;
pub use barrier::barrier;
pub use bcast::bcast;
pub use call::{
    Boxed, CallState, Ctx, GroupChannel, Initiated, P2p, Pending, Resources, block_on, poll_once,
};
pub use collective::*;
pub(crate) use collective::{CallKind, next_tag};
pub use gather::{gather, gatherv};
pub use hosts::Locality;
pub use memory::{Blocks, Mem, Scratch, Split};
pub use neighborhood::Neighborhood;
pub use reduce::reduce;
pub use reduce_scatter::reduce_scatter;
pub use reduction::Reducer;
pub use scan::scan;
pub use scatter::{scatter, scatterv};
pub use tuning::Tuning;
pub(crate) use typed::{receive_from, send_to};
