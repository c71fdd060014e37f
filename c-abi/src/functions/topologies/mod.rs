//! Virtual topologies (MPI-5.0 chapter 8).

pub mod cart;
pub mod graph;
pub mod neighbors;
