//! Neighbourhood collectives on grids and graphs, also where a process is a neighbour more than
//! once, or its own.

use super::super::{NeighborAllgatherv, NeighborAlltoallv};
use super::typed::{Buffer, bytes, types};
use crate::adi::testnet;
use crate::comm::Communicator;
use crate::datatype::Datatype;
use crate::error::ErrorClass;
use crate::runtime::Mpi;
use crate::status::PROC_NULL;
use crate::topology::{Cart, DistGraph, Graph};
use std::rc::Rc;

/// The block that goes from a process to its neighbour at this place.
fn block(t: &Datatype, rank: usize, place: usize) -> Vec<u8> {
    bytes(t, 2, 1 + 100 * rank + place)
}

/// A block's sender and its place there; `None`: none comes.
type Origin = Option<(usize, usize)>;

/// Exchanges blocks of all kinds. `origins` are those of the blocks that come, in their order, and
/// `out` the number of blocks that go.
fn exchange(m: &Mpi, comm: &Rc<Communicator>, origins: &[Origin], out: usize) {
    let me = comm.rank();
    let edges = comm.neighborhood().unwrap();
    assert_eq!((edges.indegree(), edges.outdegree()), (origins.len(), out));
    for t in &types() {
        let expected = |place: &dyn Fn(usize) -> usize| -> Vec<u8> {
            let came = origins.iter().map(|origin| match origin {
                Some((rank, at)) => block(t, *rank, place(*at)),
                None => bytes(t, 2, 7),
            });
            came.collect::<Vec<_>>().concat()
        };
        // What comes from nobody stays as it was.
        let before = bytes(t, 2, 7).repeat(origins.len());
        let lines: Vec<u8> = (0..out).flat_map(|at| block(t, me, at)).collect();
        let (mut send, mut recv) = (Buffer::filled(t, &lines), Buffer::filled(t, &before));
        let parts = |b: &mut Buffer, n: usize| (0..n).map(|i| b.part(2 * i, 2)).collect();
        let call = NeighborAlltoallv {
            edges: edges.clone(),
            send: parts(&mut send, out),
            recv: parts(&mut recv, origins.len()),
        };
        m.collective(comm, &call).unwrap();
        assert_eq!(recv.packed(), expected(&|at| at));

        let (mut send, mut recv) = (
            Buffer::filled(t, &block(t, me, 0)),
            Buffer::filled(t, &before),
        );
        let call = NeighborAllgatherv {
            edges: edges.clone(),
            send: send.all(),
            recv: parts(&mut recv, origins.len()),
        };
        let request = m.start_collective(comm, call).unwrap();
        assert_eq!(m.wait(request).unwrap().error, None);
        assert_eq!(recv.packed(), expected(&|_| 0));
    }
}

#[test]
fn grids_whose_neighbours_above_and_below_are_one_process() {
    let grids: &[(&[i32], &[bool])] = &[
        (&[1], &[true]),
        (&[1], &[false]),
        (&[2], &[true]),
        (&[2], &[false]),
        (&[3], &[true]),
        (&[2, 2], &[true, true]),
        (&[2, 3], &[true, false]),
        (&[1, 2, 2], &[true, true, false]),
        (&[1, 1], &[true, true]),
        (&[], &[]),
    ];
    for (seed, &(dims, periods)) in grids.iter().enumerate() {
        let cart = Cart::new(dims, periods).unwrap();
        testnet::run(cart.size(), 1 + seed as u64, move |m| {
            let comm = m
                .cart_create(m.world(), cart.clone(), true)
                .unwrap()
                .unwrap();
            let neighbors = cart.neighbors(comm.rank() as i32).unwrap();
            // What the neighbour below has sent to the one above it comes from below.
            let origin = |(place, &rank): (usize, &i32)| {
                (rank != PROC_NULL).then_some((rank as usize, place ^ 1))
            };
            let origins: Vec<Origin> = neighbors.iter().enumerate().map(origin).collect();
            exchange(&m, &comm, &origins, neighbors.len());
        });
    }
}

#[test]
fn graphs_in_which_all_are_neighbours_of_all_and_of_themselves() {
    for n in 1..=20 {
        testnet::run(n, n as u64, move |m| {
            let index: Vec<i32> = (1..=n as i32).map(|i| i * n as i32).collect();
            let edges: Vec<i32> = (0..n).flat_map(|_| 0..n as i32).collect();
            let graph = Graph::new(&index, &edges).unwrap();
            let comm = m.graph_create(m.world(), graph).unwrap().unwrap();
            let origins: Vec<Origin> = (0..n).map(|rank| Some((rank, comm.rank()))).collect();
            exchange(&m, &comm, &origins, n);
        });
    }
}

#[test]
fn graphs_with_repeated_edges_and_without_any() {
    testnet::run(3, 5, |m| {
        // From 0 to 1 lead three edges, from 1 to itself two; 2 has none.
        let graph = |sources: &[i32], destinations: &[i32]| DistGraph {
            sources: sources.to_vec(),
            destinations: destinations.to_vec(),
            weights: None,
        };
        let (graph, origins): (_, &[Origin]) = match m.rank().0 {
            0 => (graph(&[1], &[1, 1, 1]), &[Some((1, 1))]),
            1 => (
                graph(&[0, 1, 0, 1, 0], &[1, 0, 1]),
                &[
                    Some((0, 0)),
                    Some((1, 0)),
                    Some((0, 1)),
                    Some((1, 2)),
                    Some((0, 2)),
                ],
            ),
            _ => (graph(&[], &[]), &[]),
        };
        let out = graph.destinations.len();
        let comm = m.dist_graph_create_adjacent(m.world(), graph);
        exchange(&m, &comm.unwrap().unwrap(), origins, out);
        let none = m.world().neighborhood();
        assert_eq!(none.unwrap_err().class, ErrorClass::Topology);
    });
}
