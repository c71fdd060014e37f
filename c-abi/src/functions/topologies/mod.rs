//! Virtual topologies (MPI-5.0 chapter 8), without the neighborhood collectives.

pub mod cart;
pub mod graph;
