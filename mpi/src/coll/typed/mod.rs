//! Collectives on typed data. Data that is not contiguous is packed before and unpacked after the
//! collective, so the algorithms see bytes only.

mod between;
mod between_reductions;
mod moves;
mod neighbor_moves;
mod operator;
mod reductions;
mod staging;

pub use between::Between;
pub(super) use moves::{
    allgather, allgatherv, alltoall, alltoallv, bcast, gather, gatherv, scatter, scatterv,
};
pub(crate) use moves::{receive_from, send_to};
pub(super) use neighbor_moves::{neighbor_allgatherv, neighbor_alltoallv};
pub(super) use operator::Operator;
pub use reductions::Shares;
pub(super) use reductions::{allreduce, reduce, reduce_scatter, scan};
