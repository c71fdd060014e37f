//! Collectives on intercommunicators (MPI-5.0 §6.2.3), by the collectives of intracommunicators
//! among some of the processes of both groups. Blocks of ranks are those of the other group.

use super::moves;
use super::staging::{Access, Staged, StagedParts};
use crate::adi::Rank;
use crate::coll as bytes;
use crate::coll::call::{CallState, Ctx, GroupChannel, OutOfLine};
use crate::coll::memory::Mem;
use crate::comm::{Communicator, Traffic};
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;
use crate::p2p::Typed;
use crate::runtime::Mpi;
use crate::status::{ROOT_BESIDE, ROOT_HERE};

/// A call among some processes of both groups.
type Among<'a> = Ctx<'a, OutOfLine<GroupChannel<'a>>>;

/// One call of a collective on an intercommunicator.
#[derive(Clone, Copy)]
pub struct Between<'a> {
    comm: &'a Communicator,
    tag: i32,
    state: &'a CallState<'a>,
}

/// A buffer that is significant here.
pub(super) fn needed<T>(buffer: &Option<T>) -> Result<&T> {
    buffer.as_ref().ok_or_else(|| {
        let text = "collectives on intercommunicators need their buffers and have no MPI_IN_PLACE";
        Error::new(ErrorClass::Buffer, text)
    })
}

/// The root's blocks in a group that it leads: it sends none to itself.
fn after_own(mut blocks: Vec<Typed>) -> Vec<Typed> {
    blocks.insert(0, Typed::nothing());
    blocks
}

impl<'a> Between<'a> {
    /// A call with its own `tag` on an intercommunicator.
    pub(in crate::coll) fn new(comm: &'a Communicator, tag: i32, state: &'a CallState<'a>) -> Self {
        Self { comm, tag, state }
    }

    /// Among all processes of both groups.
    pub(super) fn all(&self) -> Among<'a> {
        Ctx::of_all(self.comm.whole(), self.tag, self.state).out_of_line()
    }

    /// Among the processes of `group`, which are some of both groups.
    pub(super) fn among<'g>(&self, group: &'g Group) -> Result<Among<'g>>
    where
        'a: 'g,
    {
        let call = (Traffic::Creation, self.tag);
        let ctx = Ctx::of_some(self.comm.whole(), group, call, self.state)?;
        Ok(ctx.out_of_line())
    }

    /// This process's group.
    pub(super) fn group(&self) -> &'a Group {
        self.comm.group()
    }

    /// The other group.
    pub(super) fn remote(&self) -> &'a Group {
        self.comm.peers()
    }

    /// Whether this process is the first of its group.
    pub(super) fn leads(&self) -> bool {
        self.comm.rank() == 0
    }

    /// The root, and after it the group that it is not in; `None` beside the root.
    fn rooted(&self, root: usize) -> Option<Group> {
        let me = self.group().world_rank(self.comm.rank());
        let (root, others) = match root {
            ROOT_BESIDE => return None,
            ROOT_HERE => (me, self.remote()),
            rank => (self.remote().world_rank(rank), self.group()),
        };
        let members = std::iter::once(root.0).chain(others.iter());
        Some(Group::new(members.collect(), me))
    }

    /// A process's rank among all.
    pub(super) fn place(&self, process: Rank) -> Result<usize> {
        let place = self.comm.whole().group().find(process.0);
        place.ok_or_else(|| Mpi::broken("a process is in none of the two groups"))
    }

    /// Buffers for all processes of both groups, of which those of this group get nothing.
    fn for_remote(&self, remote: Vec<Typed>) -> Vec<Typed> {
        let own = std::iter::repeat_n(Typed::nothing(), self.group().size());
        match self.comm.whole().group().world_rank(0) == self.remote().world_rank(0) {
            true => remote.into_iter().chain(own).collect(),
            false => own.chain(remote).collect(),
        }
    }

    /// `MPI_Barrier` (MPI-5.0 §6.3).
    pub(in crate::coll) async fn barrier(self) -> Result<()> {
        bytes::barrier(self.all()).finish().await
    }

    /// `MPI_Bcast` (MPI-5.0 §6.4).
    pub(in crate::coll) async fn bcast(self, data: &Typed, root: usize) -> Result<()> {
        let Some(group) = self.rooted(root) else {
            return Ok(());
        };
        moves::bcast(self.among(&group)?, data, 0).await
    }

    /// `MPI_Gather` (MPI-5.0 §6.5); `recv` is one rank's block, at the start of all.
    pub(in crate::coll) async fn gather(
        self,
        send: &Option<Typed>,
        recv: &Option<Typed>,
        root: usize,
    ) -> Result<()> {
        let recv = match root {
            ROOT_HERE => needed(recv)?.blocks(self.remote().size())?,
            _ => Vec::new(),
        };
        self.gatherv(send, recv, root).await
    }

    /// `MPI_Gatherv` (MPI-5.0 §6.5).
    pub(in crate::coll) async fn gatherv(
        self,
        send: &Option<Typed>,
        recv: Vec<Typed>,
        root: usize,
    ) -> Result<()> {
        let Some(group) = self.rooted(root) else {
            return Ok(());
        };
        let ctx = self.among(&group)?;
        if root == ROOT_HERE {
            let own = Some(Typed::nothing());
            return moves::gatherv(ctx, &own, &after_own(recv), 0).await;
        }
        needed(send)?;
        moves::gatherv(ctx, send, &[], 0).await
    }

    /// `MPI_Scatter` (MPI-5.0 §6.6); `send` is one rank's block, at the start of all.
    pub(in crate::coll) async fn scatter(
        self,
        send: &Option<Typed>,
        recv: &Option<Typed>,
        root: usize,
    ) -> Result<()> {
        let send = match root {
            ROOT_HERE => needed(send)?.blocks(self.remote().size())?,
            _ => Vec::new(),
        };
        self.scatterv(send, recv, root).await
    }

    /// `MPI_Scatterv` (MPI-5.0 §6.6).
    pub(in crate::coll) async fn scatterv(
        self,
        send: Vec<Typed>,
        recv: &Option<Typed>,
        root: usize,
    ) -> Result<()> {
        let Some(group) = self.rooted(root) else {
            return Ok(());
        };
        let ctx = self.among(&group)?;
        if root == ROOT_HERE {
            let own = Some(Typed::nothing());
            return moves::scatterv(ctx, &after_own(send), &own, 0).await;
        }
        needed(recv)?;
        moves::scatterv(ctx, &[], recv, 0).await
    }

    /// `MPI_Allgather` (MPI-5.0 §6.7); `recv` is one rank's block, at the start of all.
    pub(in crate::coll) async fn allgather(self, send: &Option<Typed>, recv: &Typed) -> Result<()> {
        let recv = recv.blocks(self.remote().size())?;
        self.allgatherv(send, recv).await
    }

    /// `MPI_Allgatherv` (MPI-5.0 §6.7).
    pub(in crate::coll) async fn allgatherv(
        self,
        send: &Option<Typed>,
        recv: Vec<Typed>,
    ) -> Result<()> {
        let (all, recv) = (self.all(), self.for_remote(recv));
        let out = Staged::new(&all, needed(send)?.data(), Access::Read)?;
        let into = StagedParts::new(&all, &recv, Access::Write)?;
        let whole = self.comm.whole().group();
        let each = all.table(all.size(), |rank| {
            match self.group().find(whole.world_rank(rank).0) {
                Some(_) => Mem::EMPTY,
                None => out.mem(),
            }
        })?;
        bytes::alltoall(all, Some(each.blocks()), into.blocks())
            .finish()
            .await?;
        into.finish();
        Ok(())
    }

    /// `MPI_Alltoall` (MPI-5.0 §6.8); `send` and `recv` are one rank's block, at the start of all.
    pub(in crate::coll) async fn alltoall(self, send: &Option<Typed>, recv: &Typed) -> Result<()> {
        let n = self.remote().size();
        let send = needed(send)?.blocks(n)?;
        self.alltoallv(Some(send), recv.blocks(n)?).await
    }

    /// `MPI_Alltoallv` and `MPI_Alltoallw` (MPI-5.0 §6.8).
    pub(in crate::coll) async fn alltoallv(
        self,
        send: Option<Vec<Typed>>,
        recv: Vec<Typed>,
    ) -> Result<()> {
        let send = self.for_remote(needed(&send)?.clone());
        let recv = self.for_remote(recv);
        moves::alltoallv(self.all(), &Some(send), &recv).await
    }

    /// A collective that intercommunicators do not have.
    pub(in crate::coll) async fn refused(self) -> Result<()> {
        let text = "the communicator is an intercommunicator, on which this call is not defined";
        Err(Error::new(ErrorClass::Comm, text))
    }
}
