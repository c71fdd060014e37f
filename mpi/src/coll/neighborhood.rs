//! Exchanges between neighbours in a topology (MPI-5.0 §8.6): who they are, and the messages.

use super::call::{Ctx, P2p, Pending};
use super::memory::{Mem, check_equal};
use crate::error::Result;

/// Whom a process exchanges blocks with, in the order of the blocks. Some may be `MPI_PROC_NULL`,
/// with which no block is exchanged.
#[derive(Clone, Debug)]
pub struct Neighborhood {
    /// Ranks from which blocks come.
    sources: Vec<i32>,
    /// Ranks to which blocks go.
    destinations: Vec<i32>,
    is_grid: bool,
}

/// A neighbour that is a process.
fn process(rank: i32) -> Option<usize> {
    usize::try_from(rank).ok()
}

impl Neighborhood {
    /// The neighbours in a graph.
    pub fn of_graph(sources: &[i32], destinations: &[i32]) -> Self {
        Self {
            sources: sources.to_vec(),
            destinations: destinations.to_vec(),
            is_grid: false,
        }
    }

    /// The neighbours in a grid: of each dimension the one below, then the one above.
    pub fn of_grid(neighbors: Vec<i32>) -> Self {
        Self {
            sources: neighbors.clone(),
            destinations: neighbors,
            is_grid: true,
        }
    }

    /// Number of ranks from which blocks come.
    pub fn indegree(&self) -> usize {
        self.sources.len()
    }

    /// Whether some blocks come from nobody.
    pub(in crate::coll) fn has_borders(&self) -> bool {
        self.sources.iter().any(|&rank| process(rank).is_none())
    }

    /// Number of ranks to which blocks go.
    pub fn outdegree(&self) -> usize {
        self.destinations.len()
    }

    /// Ranks of processes to which blocks go, with the places of the blocks.
    fn targets(&self) -> impl Iterator<Item = (usize, usize)> {
        let ranks = self.destinations.iter().enumerate();
        ranks.filter_map(|(at, &to)| Some((process(to)?, at)))
    }

    /// Ranks of processes from which blocks come, with the places of the blocks, in the order in
    /// which a process that is a neighbour more than once sends them. In a grid, what goes to the
    /// neighbour below comes to that as the block of the neighbour above.
    fn origins(&self) -> impl Iterator<Item = (usize, usize)> {
        let places = (0..self.sources.len()).map(|i| if self.is_grid { i ^ 1 } else { i });
        places.filter_map(|at| Some((process(self.sources[at])?, at)))
    }
}

/// Sends `out(i)` to the destination i and receives `into(i)` from the source i.
///
/// # Errors
/// When a message fails or the blocks' lengths differ among ranks.
pub(in crate::coll) async fn exchange<P: P2p>(
    ctx: &Ctx<'_, P>,
    edges: &Neighborhood,
    out: impl Fn(usize) -> Mem,
    into: impl Fn(usize) -> Mem,
) -> Result<()> {
    let me = ctx.rank();
    let own = edges.targets().filter(|(to, _)| *to == me);
    let own = own.zip(edges.origins().filter(|(from, _)| *from == me));
    for ((_, from), (_, to)) in own {
        check_equal(out(from).len(), into(to).len())?;
        into(to).copy_from(out(from));
    }
    // All is posted before the first wait: so processes do not wait for each other in a circle.
    let mut receives = Vec::with_capacity(edges.indegree());
    let mut sends = Vec::with_capacity(edges.outdegree());
    for (from, at) in edges.origins().filter(|(from, _)| *from != me) {
        receives.push(ctx.irecv(from, into(at))?);
    }
    for (to, at) in edges.targets().filter(|(to, _)| *to != me) {
        let pending = ctx.isend(to, out(at))?;
        if pending != Pending::DONE {
            sends.push(pending);
        }
    }
    for receive in receives {
        ctx.received(receive).await?;
    }
    for send in sends {
        ctx.sent(send).await?;
    }
    Ok(())
}
