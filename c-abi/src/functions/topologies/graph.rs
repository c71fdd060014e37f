//! Graphs and distributed graphs (MPI-5.0 §8.5.3, §8.5.4).

#![allow(clippy::too_many_arguments)] // the standard's own lists

use std::ffi::c_int;

use rejoin_mpi::Result;
use rejoin_mpi::topology::{DistGraph, Edge, Graph};

use crate::constants::*;
use crate::functions::communicators::create::{give, prepare};
use crate::functions::topologies::cart::{fill, length, put_rank};
use crate::state::AbiState;
use crate::support::{arg_error, slice, store};
use crate::types::*;

/// # Safety
/// `indx` is null or has `nnodes` elements, `edges` as many as the last of them says.
unsafe fn graph(nnodes: c_int, indx: *const c_int, edges: *const c_int) -> Result<Graph> {
    let n = length(nnodes, "the number of nodes")?;
    // SAFETY: the caller's.
    let index = unsafe { slice(indx, n, "the index") }?;
    let count = length(index.last().copied().unwrap_or(0), "the number of edges")?;
    // SAFETY: the caller's.
    let edges = unsafe { slice(edges, count, "the edges") }?;
    Graph::new(index, edges)
}

/// `MPI_Graph_create` (MPI-5.0 §8.5.3). Ranks stay as they are, whatever `reorder` says.
///
/// # Safety
/// The arrays are null or as long as the arguments say; `comm_graph` is null or valid.
pub unsafe fn graph_create(
    mpi: &AbiState,
    comm_old: MPI_Comm,
    nnodes: c_int,
    indx: *const c_int,
    edges: *const c_int,
    _reorder: c_int,
    comm_graph: *mut MPI_Comm,
) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { prepare(comm_graph) }?;
    let old = mpi.comms.get(comm_old)?;
    // SAFETY: the caller's.
    let graph = unsafe { graph(nnodes, indx, edges) }?;
    let made = mpi.core()?.graph_create(&old, graph)?;
    // SAFETY: not null, and so valid by the caller's promise.
    unsafe { give(mpi, comm_graph, made, comm_old) }
}

/// `MPI_Graph_map` (MPI-5.0 §8.5.8): the own rank, as nothing is reordered.
///
/// # Safety
/// The conditions of [`graph_create`]; `newrank` is null or valid.
pub unsafe fn graph_map(
    mpi: &AbiState,
    comm: MPI_Comm,
    nnodes: c_int,
    indx: *const c_int,
    edges: *const c_int,
    newrank: *mut c_int,
) -> Result<()> {
    // SAFETY: the caller's.
    unsafe {
        let size = graph(nnodes, indx, edges)?.nodes();
        put_rank(
            newrank,
            mpi.core()?.graph_map(&*mpi.comms.get(comm)?, size)?,
        )
    }
}

/// `MPI_Graphdims_get` (MPI-5.0 §8.5.5).
///
/// # Safety
/// The pointers are null or valid.
pub unsafe fn graphdims_get(
    mpi: &AbiState,
    comm: MPI_Comm,
    nnodes: *mut c_int,
    nedges: *mut c_int,
) -> Result<()> {
    let comm = mpi.comms.get(comm)?;
    let (nodes, edges) = comm.with_graph(|g| (g.nodes(), g.edges().len()))?;
    // SAFETY: the program passed both for results.
    unsafe {
        store(nnodes, "the number of nodes", nodes as c_int)?;
        store(nedges, "the number of edges", edges as c_int)
    }
}

/// `MPI_Graph_get` (MPI-5.0 §8.5.5).
///
/// # Safety
/// The arrays are null or as long as the arguments say.
pub unsafe fn graph_get(
    mpi: &AbiState,
    comm: MPI_Comm,
    maxindex: c_int,
    maxedges: c_int,
    indx: *mut c_int,
    edges: *mut c_int,
) -> Result<()> {
    let graph = mpi.comms.get(comm)?.with_graph(Graph::clone)?;
    // SAFETY: the caller's.
    unsafe {
        fill(indx, maxindex, "indices", graph.index().iter().copied())?;
        fill(edges, maxedges, "edges", graph.edges().iter().copied())
    }
}

/// `MPI_Graph_neighbors_count` (MPI-5.0 §8.5.5).
///
/// # Safety
/// `nneighbors` is null or valid.
pub unsafe fn graph_neighbors_count(
    mpi: &AbiState,
    comm: MPI_Comm,
    rank: c_int,
    nneighbors: *mut c_int,
) -> Result<()> {
    let comm = mpi.comms.get(comm)?;
    let n = comm.with_graph(|g| g.neighbors(rank).map(<[_]>::len))??;
    // SAFETY: the program passed it for the result.
    unsafe { store(nneighbors, "the number of neighbours", n as c_int) }
}

/// `MPI_Graph_neighbors` (MPI-5.0 §8.5.5).
///
/// # Safety
/// `neighbors` is null or has `maxneighbors` elements.
pub unsafe fn graph_neighbors(
    mpi: &AbiState,
    comm: MPI_Comm,
    rank: c_int,
    maxneighbors: c_int,
    neighbors: *mut c_int,
) -> Result<()> {
    let comm = mpi.comms.get(comm)?;
    let found = comm.with_graph(|g| g.neighbors(rank).map(<[_]>::to_vec))??;
    // SAFETY: the caller's.
    unsafe { fill(neighbors, maxneighbors, "neighbours", found.into_iter()) }
}

/// The program's weights; `None` for `MPI_UNWEIGHTED`.
///
/// # Safety
/// `weights` is one of the constants, null, or has `n` elements.
unsafe fn weights_of(n: usize, weights: *const c_int) -> Result<Option<Vec<i32>>> {
    if weights == MPI_UNWEIGHTED.cast_const() {
        return Ok(None);
    }
    if weights == MPI_WEIGHTS_EMPTY.cast_const() {
        if n > 0 {
            return Err(arg_error(format!("MPI_WEIGHTS_EMPTY for {n} edges")));
        }
        return Ok(Some(Vec::new()));
    }
    // SAFETY: the caller's.
    Ok(Some(unsafe { slice(weights, n, "the weights") }?.to_vec()))
}

/// `MPI_Dist_graph_create_adjacent` (MPI-5.0 §8.5.4). Ranks stay as they are; no hint is known.
///
/// # Safety
/// The arrays are null, a constant, or have as many elements as the degrees say; `comm_dist_graph`
/// is null or valid.
pub unsafe fn dist_graph_create_adjacent(
    mpi: &AbiState,
    comm_old: MPI_Comm,
    indegree: c_int,
    sources: *const c_int,
    sourceweights: *const c_int,
    outdegree: c_int,
    destinations: *const c_int,
    destweights: *const c_int,
    _info: MPI_Info,
    _reorder: c_int,
    comm_dist_graph: *mut MPI_Comm,
) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { prepare(comm_dist_graph) }?;
    let old = mpi.comms.get(comm_old)?;
    let (n, m) = (
        length(indegree, "the indegree")?,
        length(outdegree, "the outdegree")?,
    );
    // SAFETY: the caller's.
    let graph = unsafe {
        let weights = (weights_of(n, sourceweights)?, weights_of(m, destweights)?);
        DistGraph {
            sources: slice(sources, n, "the sources")?.to_vec(),
            destinations: slice(destinations, m, "the destinations")?.to_vec(),
            weights: match weights {
                (None, None) => None,
                // One side without edges may come without weights.
                (a, b) if (a.is_some() || n == 0) && (b.is_some() || m == 0) => {
                    Some((a.unwrap_or_default(), b.unwrap_or_default()))
                }
                _ => return Err(arg_error("only one side of the edges has weights")),
            },
        }
    };
    let made = mpi.core()?.dist_graph_create_adjacent(&old, graph)?;
    // SAFETY: not null, and so valid by the caller's promise.
    unsafe { give(mpi, comm_dist_graph, made, comm_old) }
}

/// `MPI_Dist_graph_create` (MPI-5.0 §8.5.4). Ranks stay as they are; no hint is known.
///
/// # Safety
/// `sources` and `degrees` have `n` elements, `destinations` as many as the degrees' sum, `weights`
/// too unless it is a constant; `comm_dist_graph` is null or valid.
pub unsafe fn dist_graph_create(
    mpi: &AbiState,
    comm_old: MPI_Comm,
    n: c_int,
    sources: *const c_int,
    degrees: *const c_int,
    destinations: *const c_int,
    weights: *const c_int,
    _info: MPI_Info,
    _reorder: c_int,
    comm_dist_graph: *mut MPI_Comm,
) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { prepare(comm_dist_graph) }?;
    let old = mpi.comms.get(comm_old)?;
    let n = length(n, "the number of sources")?;
    let mut edges = Vec::new();
    // SAFETY: the caller's.
    let weights = unsafe {
        let sources = slice(sources, n, "the sources")?;
        let degrees = slice(degrees, n, "the degrees")?;
        let mut total = 0usize;
        for d in degrees {
            total += length(*d, "the degree")?;
        }
        let destinations = slice(destinations, total, "the destinations")?;
        let weights = weights_of(total, weights)?;
        let begins = sources.iter().zip(degrees);
        let begins = begins.flat_map(|(s, d)| std::iter::repeat_n(*s, *d as usize));
        for (i, (source, destination)) in begins.zip(destinations).enumerate() {
            edges.push(Edge {
                source,
                destination: *destination,
                weight: weights.as_ref().map_or(0, |w| w[i]),
            });
        }
        weights
    };
    let core = mpi.core()?;
    let made = core.dist_graph_create(&old, &edges, weights.is_some())?;
    // SAFETY: not null, and so valid by the caller's promise.
    unsafe { give(mpi, comm_dist_graph, made, comm_old) }
}

/// `MPI_Dist_graph_neighbors_count` (MPI-5.0 §8.5.5).
///
/// # Safety
/// The pointers are null or valid.
pub unsafe fn dist_graph_neighbors_count(
    mpi: &AbiState,
    comm: MPI_Comm,
    indegree: *mut c_int,
    outdegree: *mut c_int,
    weighted: *mut c_int,
) -> Result<()> {
    let graph = mpi.comms.get(comm)?.with_dist_graph(DistGraph::clone)?;
    // SAFETY: the program passed them for results.
    unsafe {
        store(indegree, "the indegree", graph.sources.len() as c_int)?;
        store(
            outdegree,
            "the outdegree",
            graph.destinations.len() as c_int,
        )?;
        store(weighted, "the flag", c_int::from(graph.weights.is_some()))
    }
}

/// Fills an array with as many values as it has room for.
///
/// # Safety
/// `target` is null, a constant when `values` is empty, or has room for `room` elements.
unsafe fn fill_some(target: *mut c_int, room: usize, values: &[i32]) -> Result<()> {
    for (i, value) in values.iter().enumerate().take(room) {
        // SAFETY: `i` is below the room that the caller promises.
        unsafe { store(target.wrapping_add(i), "the neighbours", *value) }?;
    }
    Ok(())
}

/// `MPI_Dist_graph_neighbors` (MPI-5.0 §8.5.5): the first ones where the arrays are shorter.
///
/// # Safety
/// The arrays are null or as long as the arguments say; those of weights may be `MPI_UNWEIGHTED`.
pub unsafe fn dist_graph_neighbors(
    mpi: &AbiState,
    comm: MPI_Comm,
    maxindegree: c_int,
    sources: *mut c_int,
    sourceweights: *mut c_int,
    maxoutdegree: c_int,
    destinations: *mut c_int,
    destweights: *mut c_int,
) -> Result<()> {
    let graph = mpi.comms.get(comm)?.with_dist_graph(DistGraph::clone)?;
    let n = length(maxindegree, "the array's length")?;
    let m = length(maxoutdegree, "the array's length")?;
    // SAFETY: the caller's.
    unsafe {
        fill_some(sources, n, &graph.sources)?;
        fill_some(destinations, m, &graph.destinations)?;
        let Some((into, out)) = &graph.weights else {
            return Ok(());
        };
        if sourceweights != MPI_UNWEIGHTED {
            fill_some(sourceweights, n, into)?;
        }
        if destweights != MPI_UNWEIGHTED {
            fill_some(destweights, m, out)?;
        }
    }
    Ok(())
}
