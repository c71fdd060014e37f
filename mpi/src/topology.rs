//! Virtual topologies (MPI-5.0 chapter 8): grids, graphs and distributed graphs attached to a
//! communicator. A grid may give processes other ranks than its old communicator (`grid_layout`).

mod cart;
mod communicators;
mod dims;
mod graph;
mod grid_layout;

pub use cart::Cart;
pub use dims::dims_create;
pub use graph::{DistGraph, Edge, Graph};

/// The topology of a communicator.
#[derive(Debug)]
pub enum Topology {
    /// `MPI_CART`.
    Cart(Cart),
    /// `MPI_GRAPH`.
    Graph(Graph),
    /// `MPI_DIST_GRAPH`.
    DistGraph(DistGraph),
}

#[cfg(test)]
mod tests;
