//! Making and freeing communicators (MPI-5.0 §7.4).

use super::context::{ContextIds, WINDOW};
use super::{Communicator, Link};
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;
use crate::info::Info;
use crate::runtime::Mpi;
use std::rc::Rc;

/// Tag of creation messages in a communicator's collective context: no algorithm uses it.
pub(crate) const CREATION_TAG: i32 = i32::MAX;

impl Link {
    /// An id for a new communicator that is free at all members of this link.
    pub(crate) async fn agree(&self, ids: &ContextIds, parent: u32, tag: i32) -> Result<u32> {
        let mut agreement = ids.agree((parent, tag));
        loop {
            let mut offer = agreement.offer();
            self.and(&mut offer[..=WINDOW]).await?;
            match agreement.settle(&offer) {
                Some(Ok(id)) => {
                    // Taken before anything else of this process can run.
                    ids.take(id);
                    return Ok(id);
                }
                Some(Err(())) => {
                    return Err(Error::new(ErrorClass::Other, "too many communicators"));
                }
                None => {}
            }
        }
    }
}

fn intra(comm: &Communicator) -> Result<()> {
    if comm.is_inter() {
        let text = "inter-communicators are not supported in this call yet";
        return Err(Error::new(ErrorClass::UnsupportedOperation, text));
    }
    Ok(())
}

impl Mpi {
    pub(super) fn build(&self, id: u32, group: Rc<Group>) -> Rc<Communicator> {
        Communicator::new(id, self.ids.clone(), group, None)
    }

    fn agree_all(&self, comm: &Rc<Communicator>) -> Result<u32> {
        let link = Link::all(self, comm, CREATION_TAG);
        self.block_on(link.agree(&self.ids, comm.id(), -1))
    }

    /// `MPI_Comm_dup`: the same group, attributes by their copy callbacks, the topology.
    pub fn comm_dup(&self, comm: &Rc<Communicator>) -> Result<Rc<Communicator>> {
        intra(comm)?;
        let id = self.agree_all(comm)?;
        let new = self.build(id, comm.group().clone());
        *new.topology.borrow_mut() = comm.topology.borrow().clone();
        comm.attributes
            .copy_to(comm.handle.get(), &new.attributes)?;
        Ok(new)
    }

    /// `MPI_Comm_idup`, as a future to put into a request; the communicator is given to `done`.
    pub fn comm_idup(
        &self,
        comm: &Rc<Communicator>,
        done: impl FnOnce(Rc<Communicator>) + 'static,
    ) -> Result<impl Future<Output = Result<()>> + 'static> {
        intra(comm)?;
        let tag = comm.next_collective(false) as i32 & 0xFFFF;
        let link = Link::all(self, comm, CREATION_TAG - 1 - tag);
        let (mpi, comm) = (self.rc(), comm.clone());
        let topology = comm.topology.borrow().clone();
        Ok(async move {
            let id = link.agree(&mpi.ids, comm.id(), tag).await?;
            let new = mpi.build(id, comm.group().clone());
            *new.topology.borrow_mut() = topology;
            comm.attributes
                .copy_to(comm.handle.get(), &new.attributes)?;
            done(new);
            Ok(())
        })
    }

    /// `MPI_Comm_dup_with_info`: as dup, with the hints of `info`.
    pub fn comm_dup_with_info(
        &self,
        comm: &Rc<Communicator>,
        info: &Info,
    ) -> Result<Rc<Communicator>> {
        let new = self.comm_dup(comm)?;
        new.info.replace(info);
        Ok(new)
    }

    /// `MPI_Comm_create`: collective over `comm`; `None` for those not in `group`.
    pub fn comm_create(
        &self,
        comm: &Rc<Communicator>,
        group: &Rc<Group>,
    ) -> Result<Option<Rc<Communicator>>> {
        intra(comm)?;
        check_subset(group, comm)?;
        let id = self.agree_all(comm)?;
        if group.rank().is_some() {
            return Ok(Some(self.build(id, group.clone())));
        }
        self.ids.release(id);
        Ok(None)
    }

    /// `MPI_Comm_create_group`: collective over the members of `group` only.
    pub fn comm_create_group(
        &self,
        comm: &Rc<Communicator>,
        group: &Rc<Group>,
        tag: i32,
    ) -> Result<Option<Rc<Communicator>>> {
        intra(comm)?;
        crate::check::tag(tag)?;
        check_subset(group, comm)?;
        if group.rank().is_none() {
            return Ok(None);
        }
        let link = Link::part(self, comm, group, tag)?;
        let id = self.block_on(link.agree(&self.ids, comm.id(), tag))?;
        Ok(Some(self.build(id, group.clone())))
    }

    /// `MPI_Comm_free`: delete callbacks first; a failing one leaves the communicator as it is.
    /// The caller drops its reference then; pending operations keep theirs.
    pub fn comm_free(&self, comm: &Rc<Communicator>) -> Result<()> {
        if Rc::ptr_eq(comm, self.world()) || Rc::ptr_eq(comm, self.self_comm()) {
            let text = format!("{} cannot be freed", comm.name());
            return Err(Error::new(ErrorClass::Comm, text));
        }
        comm.attributes.delete_all(comm.handle.get())?;
        let buffer = comm.buffer.borrow_mut().take();
        if let Some(buffer) = buffer {
            self.flush_buffer(&buffer)?;
        }
        Ok(())
    }
}

fn check_subset(group: &Group, comm: &Communicator) -> Result<()> {
    if group.is_subset(comm.group()) {
        return Ok(());
    }
    let text = "the group has members that are not in the communicator";
    Err(Error::new(ErrorClass::Group, text))
}
