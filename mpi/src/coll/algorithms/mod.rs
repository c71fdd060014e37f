//! Algorithms in steps: trees, rings, and recursive doubling and halving.

pub(in crate::coll) mod allgather_steps;
pub(in crate::coll) mod allreduce_steps;
pub(in crate::coll) mod alltoall_steps;
pub(in crate::coll) mod barrier_steps;
pub(in crate::coll) mod bcast_steps;
pub(in crate::coll) mod gather_tree;
pub(in crate::coll) mod reduce_scatter_steps;
pub(in crate::coll) mod reduce_steps;
pub(in crate::coll) mod scan_steps;
pub(in crate::coll) mod scatter_tree;
