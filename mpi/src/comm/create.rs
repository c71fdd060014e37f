//! Making and freeing communicators (MPI-5.0 §7.4).

use super::context::Contexts;
use super::meeting::{Bridge, check_disjoint, leaders, leaders_in, meet};
use super::{Communicator, Traffic, united};
use crate::attr::Attributes;
use crate::check;
use crate::coll::{CallState, Ctx};
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;
use crate::runtime::Mpi;
use std::cmp::Ordering;
use std::rc::Rc;

/// Tag of creation messages in a communicator's collective context: no algorithm uses it.
pub(crate) const CREATION_TAG: i32 = i32::MAX;

impl Mpi {
    pub(super) fn build(&self, contexts: Contexts, group: Rc<Group>) -> Rc<Communicator> {
        Communicator::new(contexts, group)
    }

    /// A communicator of the groups of `comm`. `contexts` are those of all its processes.
    fn build_like(&self, comm: &Communicator, contexts: Contexts) -> Rc<Communicator> {
        let group = comm.group().clone();
        match comm.remote_group() {
            Ok(remote) => Communicator::between(contexts, group, remote.clone()),
            Err(_) => self.build(contexts, group),
        }
    }

    /// A communicator of some processes of `comm`: of `group`, and of `remote` if that is an
    /// intercommunicator; `None` if no process of the other group takes part. `contexts` are those
    /// of all processes of `comm`.
    pub(super) fn build_part(
        &self,
        comm: &Communicator,
        contexts: Contexts,
        group: Rc<Group>,
        remote: Option<Rc<Group>>,
    ) -> Option<Rc<Communicator>> {
        let all = comm.whole().group();
        let of = |contexts: Contexts, group: &Group| {
            contexts.of(group.iter().filter_map(|process| all.find(process)))
        };
        match remote {
            None => Some(self.build(of(contexts, &group), group)),
            Some(remote) if remote.size() == 0 => None,
            Some(remote) => {
                let contexts = of(contexts, &united(&group, &remote));
                Some(Communicator::between(contexts, group, remote))
            }
        }
    }

    /// The ids of all processes of `comm` for a new communicator.
    fn contexts_of_all(&self, comm: &Communicator) -> Result<Contexts> {
        let state = CallState::new(self);
        let ctx = Ctx::of_all(comm.whole(), CREATION_TAG, &state);
        state.wait(ctx.exchange_contexts())
    }

    /// The ids of the members of `group`, a part of `comm`. Only they take part.
    fn contexts_of_some(&self, comm: &Communicator, group: &Group, tag: i32) -> Result<Contexts> {
        let state = CallState::new(self);
        let ctx = Ctx::of_some(comm, group, (Traffic::Creation, tag), &state)?;
        state.wait(ctx.exchange_contexts())
    }

    /// A communicator of the library's own with the same group. Collective.
    pub(crate) fn comm_like(&self, comm: &Communicator) -> Result<Rc<Communicator>> {
        let contexts = self.contexts_of_all(comm)?;
        Ok(self.build(contexts, comm.group().clone()))
    }

    /// `MPI_Comm_dup`: the same group, attributes by their copy callbacks, the topology.
    pub fn comm_dup(&self, comm: &Rc<Communicator>) -> Result<Rc<Communicator>> {
        let contexts = self.contexts_of_all(comm)?;
        let new = self.build_like(comm, contexts);
        if let Some(topology) = comm.topology() {
            new.set_topology(topology.clone());
        }
        comm.attributes().copy_to(comm.handle(), &new.attributes)?;
        Ok(new)
    }

    /// `MPI_Comm_idup`, as a future to put into a request; the communicator is given to `done`.
    /// Attributes are copied now, as if by `MPI_Comm_dup` (MPI-5.0 §7.4.2).
    pub fn comm_idup(
        &self,
        comm: &Rc<Communicator>,
        done: impl FnOnce(Rc<Communicator>) + 'static,
    ) -> Result<impl Future<Output = Result<()>> + 'static> {
        let copies = Attributes::default();
        comm.attributes().copy_to(comm.handle(), &copies)?;
        let number = comm.next_collective(false) as i32 & 0xFFFF;
        let tag = CREATION_TAG - 1 - number;
        let (mpi, comm) = (self.rc(), comm.clone());
        let topology = comm.topology().cloned();
        Ok(async move {
            let state = CallState::new(&mpi);
            let ctx = Ctx::of_all(comm.whole(), tag, &state);
            let contexts = ctx.exchange_contexts().await;
            let contexts = contexts.map_err(|e| state.fail(e))?;
            let new = mpi.build_like(&comm, contexts);
            if let Some(topology) = topology {
                new.set_topology(topology);
            }
            new.attributes().adopt(copies);
            done(new);
            Ok(())
        })
    }

    /// `MPI_Comm_create`: collective over `comm`; `None` for those not in `group`. On an
    /// intercommunicator each group tells its own `group`; if one is empty, it is `None` for all.
    ///
    /// # Errors
    /// `Group` at all processes if one gives a group that is no part of its own.
    pub fn comm_create(
        &self,
        comm: &Rc<Communicator>,
        group: &Rc<Group>,
    ) -> Result<Option<Rc<Communicator>>> {
        let all = comm.whole();
        let state = CallState::new(self);
        let ctx = Ctx::of_all(all, CREATION_TAG, &state);
        let place = group.rank().map_or(u32::MAX, |rank| rank as u32);
        let place = check_subset(group, comm).map(|()| place.to_le_bytes());
        let (contexts, places) = state.wait(ctx.exchange_contexts_and(place, ErrorClass::Group))?;
        if group.rank().is_none() {
            return Ok(None);
        }
        let remote = comm.remote_group().ok().map(|remote| {
            let place = |process| all.group().find(process).map(|at| places[at]);
            let place = |process| place(process).map_or(u32::MAX, u32::from_le_bytes);
            let mut members: Vec<u32> = remote.iter().filter(|&w| place(w) != u32::MAX).collect();
            members.sort_unstable_by_key(|&process| place(process));
            Rc::new(Group::new(members, self.rank()))
        });
        Ok(self.build_part(comm, contexts, group.clone(), remote))
    }

    /// `MPI_Comm_create_group`: collective over the members of `group` only.
    pub fn comm_create_group(
        &self,
        comm: &Rc<Communicator>,
        group: &Rc<Group>,
        tag: i32,
    ) -> Result<Option<Rc<Communicator>>> {
        check::intra(comm)?;
        check::tag(tag)?;
        check_subset(group, comm)?;
        if group.rank().is_none() {
            return Ok(None);
        }
        let contexts = self.contexts_of_some(comm, group, tag)?;
        Ok(Some(self.build(contexts, group.clone())))
    }

    /// `MPI_Comm_create_from_group`: collective over the members of `group`, with no parent. `text`
    /// keeps apart what several threads make at the same time.
    pub fn comm_create_from_group(
        &self,
        group: &Rc<Group>,
        text: &str,
    ) -> Result<Option<Rc<Communicator>>> {
        if group.rank().is_none() {
            return Ok(None);
        }
        let contexts = self.contexts_of_some(self.world(), group, tag_of("", text))?;
        Ok(Some(self.build(contexts, group.clone())))
    }

    /// `MPI_Intercomm_merge`: all processes of an intercommunicator, those of the group whose
    /// processes are `high` last. If both groups are, or none, they have an order all the same.
    ///
    /// # Errors
    /// `Comm` for an intracommunicator, `Arg` if the processes of one group differ.
    pub fn intercomm_merge(&self, comm: &Rc<Communicator>, high: bool) -> Result<Rc<Communicator>> {
        let (group, remote) = (comm.group(), comm.remote_group()?);
        let all = comm.whole();
        let state = CallState::new(self);
        let ctx = Ctx::of_all(all, CREATION_TAG, &state);
        let high = Ok([u8::from(high)]);
        let (contexts, highs) = state.wait(ctx.exchange_contexts_and(high, ErrorClass::Arg))?;
        let is_high = |group: &Group| {
            let mut highs = group
                .iter()
                .filter_map(|w| Some(highs[all.group().find(w)?]));
            let first = highs.next();
            let text = "processes of one group say that it is high, and others that it is not";
            match highs.all(|high| Some(high) == first) {
                true => Ok(first),
                false => Err(Error::new(ErrorClass::Arg, text)),
            }
        };
        let merged = match is_high(group)?.cmp(&is_high(remote)?) {
            Ordering::Less => Rc::new(group.union(remote)),
            Ordering::Equal => all.group().clone(),
            Ordering::Greater => Rc::new(remote.union(group)),
        };
        let ranks = merged.iter().filter_map(|w| all.group().find(w));
        Ok(self.build(contexts.of(ranks), merged.clone()))
    }

    /// `MPI_Comm_free`: delete callbacks first; a failing one leaves the communicator as it is.
    /// The caller drops its reference then; pending operations keep theirs.
    pub fn comm_free(&self, comm: &Rc<Communicator>) -> Result<()> {
        if Rc::ptr_eq(comm, self.world()) || Rc::ptr_eq(comm, self.self_comm()) {
            let text = format!("{} cannot be freed", comm.name());
            return Err(Error::new(ErrorClass::Comm, text));
        }
        comm.attributes().delete_all(comm.handle())?;
        if let Some(buffer) = comm.buffer().take() {
            self.flush_buffer(&buffer)?;
        }
        Ok(())
    }

    /// `MPI_Comm_disconnect` (MPI-5.0 §11.10.4): [`Mpi::comm_free`] after all of this process's
    /// operations on the communicator are complete. Their requests stay, to be waited for.
    pub fn comm_disconnect(&self, comm: &Rc<Communicator>) -> Result<()> {
        self.wait_until(None, |m| {
            m.reap();
            Ok(m.is_quiet(comm)?.then_some(()))
        })?;
        if let Some(buffer) = self.buffer().attached() {
            self.flush_buffer(&buffer)?;
        }
        self.comm_free(comm)
    }

    /// `MPI_Intercomm_create`: collective over `comm`, whose rank `leader` meets the other group's.
    /// `peer`, which counts at the leader only, is a communicator of both, and the other's rank.
    ///
    /// # Errors
    /// `Comm` for an intercommunicator; `Rank` for a leader that is not there or that is in this
    /// group; `Tag`. At processes whose own arguments are right: `Arg` if those of a member of
    /// their group are wrong, `Comm` if the leaders did not meet, `Group` for groups that overlap.
    pub fn intercomm_create(
        &self,
        comm: &Rc<Communicator>,
        leader: i32,
        peer: Result<(Rc<Communicator>, i32)>,
        tag: i32,
    ) -> Result<Rc<Communicator>> {
        check::intra(comm)?;
        let group = comm.group();
        let leader = check::tag(tag).and_then(|()| check::member(leader, "local leader", comm));
        let is_leader = leader.as_ref().is_ok_and(|&leader| leader == comm.rank());
        let both = is_leader.then(|| {
            let (peer, remote) = peer?;
            leaders_in(&peer, remote, group).map(|both| (peer, both))
        });
        let state = CallState::new(self);
        let bridge = match &both {
            None => Bridge::Beside,
            Some(Err(error)) => Bridge::Broken(error.clone()),
            Some(Ok((peer, both))) => {
                let call = (Traffic::Meeting, tag);
                Bridge::to(Ctx::of_some(peer.whole(), both, call, &state), None)
            }
        };
        let ctx = Ctx::of_all(comm, CREATION_TAG, &state);
        let met = state.wait(meet(&ctx, group, leader, bridge))?;
        let (contexts, remote) = met.ok_or_else(|| Mpi::broken("the other group is empty"))?;
        Ok(Communicator::between(
            contexts,
            group.clone(),
            Rc::new(remote),
        ))
    }

    /// `MPI_Intercomm_create_from_groups`: collective over the members of both groups, with no
    /// parent; `None` if one of the groups is empty. The `remote` group and its leader count at
    /// rank `leader` of `group` only, so all members of `group` wait for the leader's word.
    ///
    /// # Errors
    /// `Group` for groups without this process, that overlap, or that are not those that the other
    /// leader has named; `Rank` for a leader that is not there. At processes whose own arguments
    /// are right: `Arg` if those of a member of their group are wrong, `Comm` if the leaders did
    /// not meet.
    pub fn intercomm_create_from_groups(
        &self,
        group: &Rc<Group>,
        leader: i32,
        remote: Result<(Rc<Group>, i32)>,
        text: &str,
    ) -> Result<Option<Rc<Communicator>>> {
        if group.size() == 0 {
            return Ok(None);
        }
        let (world, tag) = (self.world(), tag_of("\0", text));
        let state = CallState::new(self);
        let ctx = Ctx::of_some(world, group, (Traffic::Creation, tag), &state)?;
        let leader = group.check_rank(leader);
        let is_leader = leader.as_ref().is_ok_and(|&leader| leader == ctx.rank());
        let both = is_leader.then(|| {
            let (remote, other) = remote?;
            let both = self.leaders_of(group, &remote, other)?;
            Ok(both.map(|both| (remote, both)))
        });
        let bridge = match &both {
            None => Bridge::Beside,
            Some(Err(error)) => Bridge::Broken(Error::clone(error)),
            Some(Ok(None)) => Bridge::Nowhere,
            Some(Ok(Some((remote, both)))) => {
                let bridge = Ctx::of_some(world, both, (Traffic::Meeting, tag), &state);
                Bridge::to(bridge, Some(remote.clone()))
            }
        };
        let met = state.wait(meet(&ctx, group, leader, bridge))?;
        Ok(met.map(|(contexts, remote)| {
            Communicator::between(contexts, group.clone(), Rc::new(remote))
        }))
    }

    /// This process and the leader `other` of the group `remote`, or `None` if that is empty.
    fn leaders_of(&self, group: &Group, remote: &Group, other: i32) -> Result<Option<Group>> {
        if remote.size() == 0 {
            return Ok(None);
        }
        let (me, other) = (self.rank(), remote.world_rank(remote.check_rank(other)?));
        // The other leader finds it by itself. It may wait for one that is in both groups and here.
        check_disjoint(group, remote)?;
        Ok(Some(leaders(me, other)))
    }
}

/// The tag of a communicator that is made by groups with this text, below the tags of programs and
/// the -1 of creation by all (FNV-1a).
pub(super) fn tag_of(kind: &str, text: &str) -> i32 {
    let bytes = kind.bytes().chain(text.bytes());
    let hash = bytes.fold(0x811c_9dc5u32, |h, b| {
        (h ^ u32::from(b)).wrapping_mul(0x0100_0193)
    });
    -2 - (hash >> 2) as i32
}

fn check_subset(group: &Group, comm: &Communicator) -> Result<()> {
    if group.is_subset(comm.group()) {
        return Ok(());
    }
    let text = "the group has members that are not in the communicator";
    Err(Error::new(ErrorClass::Group, text))
}
