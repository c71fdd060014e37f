//! Collectives on typed data. Data that is not contiguous is packed before and unpacked after the
//! collective, so the algorithms see bytes only.

mod moves;
mod operator;
mod reductions;
mod staging;

pub(super) use moves::{
    allgather, allgatherv, alltoall, alltoallv, bcast, gather, gatherv, scatter, scatterv,
};
pub(super) use operator::Operator;
pub use reductions::Shares;
pub(super) use reductions::{allreduce, reduce, reduce_scatter, scan};
