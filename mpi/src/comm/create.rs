//! Making and freeing communicators (MPI-5.0 §7.4).

use super::Communicator;
use super::context::Contexts;
use crate::attr::Attributes;
use crate::check;
use crate::coll::{CallState, Ctx};
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;
use crate::runtime::Mpi;
use std::rc::Rc;

/// Tag of creation messages in a communicator's collective context: no algorithm uses it.
pub(crate) const CREATION_TAG: i32 = i32::MAX;

impl Mpi {
    pub(super) fn build(&self, contexts: Contexts, group: Rc<Group>) -> Rc<Communicator> {
        Communicator::new(contexts, group, None)
    }

    /// The ids of all members of `comm` for a new communicator.
    fn contexts_of_all(&self, comm: &Communicator) -> Result<Contexts> {
        let state = CallState::new(self);
        let ctx = Ctx::of_all(comm, CREATION_TAG, &state);
        state.wait(ctx.exchange_contexts())
    }

    /// The ids of the members of `group`, a part of `comm`. Only they take part.
    fn contexts_of_some(&self, comm: &Communicator, group: &Group, tag: i32) -> Result<Contexts> {
        let state = CallState::new(self);
        let ctx = Ctx::of_some(comm, group, tag, &state)?;
        state.wait(ctx.exchange_contexts())
    }

    /// `MPI_Comm_dup`: the same group, attributes by their copy callbacks, the topology.
    pub fn comm_dup(&self, comm: &Rc<Communicator>) -> Result<Rc<Communicator>> {
        check::intra(comm)?;
        let contexts = self.contexts_of_all(comm)?;
        let new = self.build(contexts, comm.group().clone());
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
        check::intra(comm)?;
        let copies = Attributes::default();
        comm.attributes().copy_to(comm.handle(), &copies)?;
        let number = comm.next_collective(false) as i32 & 0xFFFF;
        let tag = CREATION_TAG - 1 - number;
        let (mpi, comm) = (self.rc(), comm.clone());
        let topology = comm.topology().cloned();
        Ok(async move {
            let state = CallState::new(&mpi);
            let ctx = Ctx::of_all(&comm, tag, &state);
            let contexts = ctx.exchange_contexts().await;
            let contexts = contexts.map_err(|e| state.fail(e))?;
            let new = mpi.build(contexts, comm.group().clone());
            if let Some(topology) = topology {
                new.set_topology(topology);
            }
            new.attributes().adopt(copies);
            done(new);
            Ok(())
        })
    }

    /// `MPI_Comm_create`: collective over `comm`; `None` for those not in `group`.
    pub fn comm_create(
        &self,
        comm: &Rc<Communicator>,
        group: &Rc<Group>,
    ) -> Result<Option<Rc<Communicator>>> {
        check::intra(comm)?;
        check_subset(group, comm)?;
        let contexts = self.contexts_of_all(comm)?;
        if group.rank().is_none() {
            return Ok(None);
        }
        let contexts = contexts.of(group.iter().filter_map(|rank| comm.group().find(rank)));
        Ok(Some(self.build(contexts, group.clone())))
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
        // FNV-1a; below the tags of programs and the -1 of creation by all.
        let hash = text.bytes().fold(0x811c_9dc5u32, |h, b| {
            (h ^ u32::from(b)).wrapping_mul(0x0100_0193)
        });
        let tag = -2 - (hash >> 2) as i32;
        let contexts = self.contexts_of_some(self.world(), group, tag)?;
        Ok(Some(self.build(contexts, group.clone())))
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
}

fn check_subset(group: &Group, comm: &Communicator) -> Result<()> {
    if group.is_subset(comm.group()) {
        return Ok(());
    }
    let text = "the group has members that are not in the communicator";
    Err(Error::new(ErrorClass::Group, text))
}
