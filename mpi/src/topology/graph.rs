//! Graphs that every process knows whole (MPI-5.0 §8.5.3), and those of which each knows its own
//! neighbours (§8.5.4).

use crate::error::{Error, ErrorClass, Result};

/// A graph: `index[i]` is the number of edges of the nodes up to `i`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    index: Vec<i32>,
    edges: Vec<i32>,
}

fn bad(text: String) -> Error {
    Error::new(ErrorClass::Arg, text)
}

impl Graph {
    /// A graph of `index.len()` nodes.
    ///
    /// # Errors
    /// An index that decreases or goes beyond the edges, an edge to no node.
    pub fn new(index: &[i32], edges: &[i32]) -> Result<Self> {
        let mut before = 0;
        for (i, &n) in index.iter().enumerate() {
            if n < before || n as usize > edges.len() {
                return Err(bad(format!("the index {n} of node {i} is wrong")));
            }
            before = n;
        }
        let edges = &edges[..before as usize];
        let nodes = index.len();
        if let Some(e) = edges.iter().find(|e| !in_range(**e, nodes)) {
            return Err(bad(format!("an edge leads to {e}, of {nodes} nodes")));
        }
        Ok(Self {
            index: index.to_vec(),
            edges: edges.to_vec(),
        })
    }

    /// How many edges the first nodes have together.
    pub fn index(&self) -> &[i32] {
        &self.index
    }

    /// The edges, node by node.
    pub fn edges(&self) -> &[i32] {
        &self.edges
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.index.len()
    }

    /// `MPI_Graph_neighbors`.
    ///
    /// # Errors
    /// `MPI_ERR_RANK` for a rank that is no node.
    pub fn neighbors(&self, rank: i32) -> Result<&[i32]> {
        if !in_range(rank, self.nodes()) {
            let text = format!("rank {rank} is not in the graph of {} nodes", self.nodes());
            return Err(Error::new(ErrorClass::Rank, text));
        }
        let at = rank as usize;
        let start = if at == 0 { 0 } else { self.index[at - 1] };
        Ok(&self.edges[start as usize..self.index[at] as usize])
    }
}

fn in_range(rank: i32, size: usize) -> bool {
    usize::try_from(rank).is_ok_and(|r| r < size)
}

/// One process's part of a distributed graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DistGraph {
    /// Ranks whose edges lead here.
    pub sources: Vec<i32>,
    /// Where the edges from here lead.
    pub destinations: Vec<i32>,
    /// Weights of both, unless the graph was made with `MPI_UNWEIGHTED`.
    pub weights: Option<(Vec<i32>, Vec<i32>)>,
}

/// An edge of a distributed graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Where it begins.
    pub source: i32,
    /// Where it ends.
    pub destination: i32,
    /// Weight of the edge; 0 in graphs without weights.
    pub weight: i32,
}

/// Bytes of an encoded edge.
pub(super) const EDGE: usize = 12;

impl Edge {
    pub(super) fn encode(self) -> [u8; EDGE] {
        let mut out = [0; EDGE];
        for (i, v) in [self.source, self.destination, self.weight]
            .iter()
            .enumerate()
        {
            out[4 * i..][..4].copy_from_slice(&v.to_le_bytes());
        }
        out
    }

    pub(super) fn decode(bytes: &[u8; EDGE]) -> Self {
        let int = |i: usize| {
            let b = &bytes[4 * i..];
            i32::from_le_bytes([b[0], b[1], b[2], b[3]])
        };
        Self {
            source: int(0),
            destination: int(1),
            weight: int(2),
        }
    }
}

/// Both ends are in a communicator of `size`, and no weight is negative.
pub(super) fn check_edges(edges: &[Edge], size: usize) -> Result<()> {
    for e in edges {
        if !in_range(e.source, size) || !in_range(e.destination, size) {
            let (a, b) = (e.source, e.destination);
            let text = format!("the edge from {a} to {b} leaves the communicator of size {size}");
            return Err(bad(text));
        }
        if e.weight < 0 {
            return Err(bad(format!("the weight {} is negative", e.weight)));
        }
    }
    Ok(())
}

impl DistGraph {
    /// The neighbours of `rank` by a list of edges, in the order of the list.
    pub(super) fn of_edges(rank: i32, edges: &[Edge], weighted: bool) -> Self {
        let into: Vec<&Edge> = edges.iter().filter(|e| e.destination == rank).collect();
        let out: Vec<&Edge> = edges.iter().filter(|e| e.source == rank).collect();
        let weights = |list: &[&Edge]| list.iter().map(|e| e.weight).collect();
        Self {
            sources: into.iter().map(|e| e.source).collect(),
            destinations: out.iter().map(|e| e.destination).collect(),
            weights: weighted.then(|| (weights(&into), weights(&out))),
        }
    }

    pub(super) fn check(&self, size: usize) -> Result<()> {
        let both = self.sources.iter().chain(&self.destinations);
        if let Some(r) = both.into_iter().find(|r| !in_range(**r, size)) {
            let text = format!("the neighbour {r} is not in the communicator of size {size}");
            return Err(bad(text));
        }
        let weights = self.weights.iter().flat_map(|(a, b)| a.iter().chain(b));
        match weights.into_iter().find(|w| **w < 0) {
            Some(w) => Err(bad(format!("the weight {w} is negative"))),
            None => Ok(()),
        }
    }
}
