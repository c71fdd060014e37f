//! Communicators with a topology: how they are made, and how the topology is found.

use super::graph::{EDGE, check_edges};
use super::grid_layout;
use super::{Cart, DistGraph, Edge, Graph, Topology};
use crate::check;
use crate::coll::{CallState, Ctx, Neighborhood};
use crate::comm::{CREATION_TAG, Communicator};
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;
use crate::runtime::Mpi;
use std::rc::Rc;

/// The error of a communicator that has no topology of the kind that the call needs.
fn wrong(comm: &Communicator, needed: &str) -> Error {
    let text = format!(
        "the communicator {:?} has no {needed} topology",
        comm.name()
    );
    Error::new(ErrorClass::Topology, text)
}

/// Whether a topology of `size` processes can be made of the communicator.
fn check_room(comm: &Communicator, size: usize) -> Result<()> {
    check::intra(comm)?;
    if size <= comm.size() {
        return Ok(());
    }
    let text = format!(
        "the topology has {size} processes, the communicator only {}",
        comm.size()
    );
    Err(Error::new(ErrorClass::Arg, text))
}

macro_rules! lookup {
    ($(#[$doc:meta])* $name:ident, $kind:ident, $text:literal) => {
        $(#[$doc])*
        ///
        /// # Errors
        /// `MPI_ERR_TOPOLOGY` when it has none, or another one.
        pub fn $name<R>(&self, look: impl FnOnce(&$kind) -> R) -> Result<R> {
            match self.topology().map(Rc::as_ref) {
                Some(Topology::$kind(found)) => Ok(look(found)),
                _ => Err(wrong(self, $text)),
            }
        }
    };
}

impl Communicator {
    lookup! {
        /// Looks at the grid of the communicator.
        with_cart, Cart, "Cartesian"
    }
    lookup! {
        /// Looks at the graph of the communicator.
        with_graph, Graph, "graph"
    }
    lookup! {
        /// Looks at the neighbours of this process in the communicator's distributed graph.
        with_dist_graph, DistGraph, "distributed graph"
    }

    /// The neighbours of this process for neighbourhood collectives (MPI-5.0 §8.6).
    ///
    /// # Errors
    /// `MPI_ERR_TOPOLOGY` without a topology.
    pub fn neighborhood(&self) -> Result<Neighborhood> {
        let rank = self.rank() as i32;
        match self.topology().map(Rc::as_ref) {
            Some(Topology::Cart(grid)) => grid.neighbors(rank).map(Neighborhood::of_grid),
            Some(Topology::Graph(graph)) => {
                let neighbors = graph.neighbors(rank)?;
                Ok(Neighborhood::of_graph(neighbors, neighbors))
            }
            Some(Topology::DistGraph(graph)) => {
                Ok(Neighborhood::of_graph(&graph.sources, &graph.destinations))
            }
            None => Err(wrong(self, "virtual")),
        }
    }
}

impl Mpi {
    /// A communicator of the first `size` members of `comm` with a topology; `None` for the others.
    /// `order` gives the member for each of the new ranks.
    fn first_members(
        &self,
        comm: &Rc<Communicator>,
        size: usize,
        topology: Topology,
        order: Option<Vec<usize>>,
    ) -> Result<Option<Rc<Communicator>>> {
        check_room(comm, size)?;
        let old = comm.group();
        let order = order.unwrap_or_else(|| (0..size).collect());
        let members = order.into_iter().map(|r| old.world_rank(r).0).collect();
        let group = Rc::new(Group::new(members, old.world_rank(comm.rank())));
        let new = self.comm_create(comm, &group)?;
        if let Some(new) = &new {
            new.set_topology(Rc::new(topology));
        }
        Ok(new)
    }

    /// `MPI_Cart_create`: the first processes get the grid, the others `None`. `reorder` allows
    /// other ranks, with neighbours on one host where that is possible.
    ///
    /// # Errors
    /// A grid larger than the communicator.
    pub fn cart_create(
        &self,
        comm: &Rc<Communicator>,
        cart: Cart,
        reorder: bool,
    ) -> Result<Option<Rc<Communicator>>> {
        let order = reorder.then(|| self.grid_order(comm, &cart)).flatten();
        self.first_members(comm, cart.size(), Topology::Cart(cart), order)
    }

    /// The member of `comm` for each place of a grid that is no larger; `None`: in their order.
    fn grid_order(&self, comm: &Communicator, cart: &Cart) -> Option<Vec<usize>> {
        let hosts = comm.locality(self.locality());
        let fits = !comm.is_inter() && cart.size() <= comm.size();
        let of = fits.then(|| (0..cart.size()).map(|rank| hosts.of(rank) as u32).collect());
        grid_layout::by_hosts(cart, &of.unwrap_or_else(Vec::new))
    }

    /// `MPI_Cart_map`: the rank that this process gets in the grid if ranks may change; `None`:
    /// it is not in the grid.
    ///
    /// # Errors
    /// An intercommunicator, or a grid larger than the communicator.
    pub fn cart_map(&self, comm: &Communicator, cart: &Cart) -> Result<Option<usize>> {
        let same = self.graph_map(comm, cart.size())?;
        let order = self.grid_order(comm, cart);
        let place = |order: Vec<usize>| order.iter().position(|&member| member == comm.rank());
        Ok(order.map_or(same, place))
    }

    /// `MPI_Graph_map`: the own rank, if a graph of `size` processes has it. Nothing is reordered.
    ///
    /// # Errors
    /// An intercommunicator, or a graph larger than the communicator.
    pub fn graph_map(&self, comm: &Communicator, size: usize) -> Result<Option<usize>> {
        check_room(comm, size)?;
        Ok(Some(comm.rank()).filter(|&rank| rank < size))
    }

    /// `MPI_Cart_sub`: the grid of the dimensions that remain, through this process.
    ///
    /// # Errors
    /// A communicator without a grid.
    pub fn cart_sub(
        &self,
        comm: &Rc<Communicator>,
        remain: &[bool],
    ) -> Result<Option<Rc<Communicator>>> {
        let (color, key, sub) = comm.with_cart(|c| c.sub(comm.rank(), remain))?;
        let new = self.comm_split(comm, color, key)?;
        if let Some(new) = &new {
            new.set_topology(Rc::new(Topology::Cart(sub)));
        }
        Ok(new)
    }

    /// `MPI_Graph_create`: as [`Mpi::cart_create`], with a graph.
    ///
    /// # Errors
    /// A graph larger than the communicator.
    pub fn graph_create(
        &self,
        comm: &Rc<Communicator>,
        graph: Graph,
    ) -> Result<Option<Rc<Communicator>>> {
        self.first_members(comm, graph.nodes(), Topology::Graph(graph), None)
    }

    /// `MPI_Dist_graph_create_adjacent`: every process tells its own neighbours.
    ///
    /// # Errors
    /// A neighbour that is not in the communicator, a negative weight.
    pub fn dist_graph_create_adjacent(
        &self,
        comm: &Rc<Communicator>,
        graph: DistGraph,
    ) -> Result<Option<Rc<Communicator>>> {
        graph.check(comm.size())?;
        self.first_members(comm, comm.size(), Topology::DistGraph(graph), None)
    }

    /// `MPI_Dist_graph_create`: every process tells some edges, wherever they lie.
    ///
    /// # Errors
    /// An end of an edge that is not in the communicator, a negative weight.
    pub fn dist_graph_create(
        &self,
        comm: &Rc<Communicator>,
        edges: &[Edge],
        weighted: bool,
    ) -> Result<Option<Rc<Communicator>>> {
        check::intra(comm)?;
        check_edges(edges, comm.size())?;
        let told = self.exchange_edges(comm, edges)?;
        let graph = DistGraph::of_edges(comm.rank() as i32, &told, weighted);
        self.first_members(comm, comm.size(), Topology::DistGraph(graph), None)
    }

    /// Gives every member the edges that begin or end at it, in the order of the ranks that named
    /// them.
    fn exchange_edges(&self, comm: &Rc<Communicator>, edges: &[Edge]) -> Result<Vec<Edge>> {
        let (me, n) = (comm.rank(), comm.size());
        let concerns = |e: &Edge, r: usize| e.source as usize == r || e.destination as usize == r;
        let mut per_member: Vec<Vec<u8>> = vec![Vec::new(); n];
        for e in edges {
            per_member[e.source as usize].extend(e.encode());
            if e.destination != e.source {
                per_member[e.destination as usize].extend(e.encode());
            }
        }
        let state = CallState::new(self);
        let ctx = Ctx::of_all(comm, CREATION_TAG, &state);
        let all = state.wait(ctx.notify_each(&per_member))?;
        let all = all.as_chunks::<EDGE>().0.iter().map(Edge::decode);
        Ok(all.filter(|e| concerns(e, me)).collect())
    }
}
