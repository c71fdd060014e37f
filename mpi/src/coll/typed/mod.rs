//! Collectives on typed data: what is not contiguous is packed on the way in and unpacked on the
//! way out, so the algorithms see bytes only.

mod moves;
mod operator;
mod reductions;
mod staging;

pub(super) use moves::{
    allgather, allgatherv, alltoall, alltoallv, bcast, gather, gatherv, scatter, scatterv,
};
pub use reductions::Shares;
pub(super) use reductions::{allreduce, reduce, reduce_scatter, scan};
pub use staging::Typed;
