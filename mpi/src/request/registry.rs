//! The requests of a process, and which of them need more than their completion.

use super::{RequestId, RequestSlab};
use crate::comm::Communicator;
use std::cell::{BorrowMutError, Ref, RefCell, RefMut};
use std::rc::Rc;

/// All requests of a process.
#[derive(Default)]
pub(crate) struct RequestRegistry {
    slab: RefCell<RequestSlab>,
    /// Requests with tasks that are to be polled.
    tasks: RefCell<Vec<RequestId>>,
    /// Freed requests that are still in flight.
    freed: RefCell<Vec<RequestId>>,
    /// The communicator of the last request that failed.
    blamed: RefCell<Option<Rc<Communicator>>>,
}

impl RequestRegistry {
    /// The requests, to look at.
    #[inline(always)]
    pub fn borrow(&self) -> Ref<'_, RequestSlab> {
        self.slab.borrow()
    }

    /// The requests, to change.
    #[inline(always)]
    pub fn borrow_mut(&self) -> RefMut<'_, RequestSlab> {
        self.slab.borrow_mut()
    }

    /// The requests, to change unless they are in use.
    #[inline(always)]
    pub fn try_borrow_mut(&self) -> Result<RefMut<'_, RequestSlab>, BorrowMutError> {
        self.slab.try_borrow_mut()
    }

    /// Lists a request whose task is to be polled.
    pub fn add_task(&self, id: RequestId) {
        self.tasks.borrow_mut().push(id);
    }

    /// Whether tasks are to be polled.
    #[inline]
    pub fn has_tasks(&self) -> bool {
        !self.tasks.borrow().is_empty()
    }

    /// Polls each task once by `poll`, which says whether it is over, and may add others.
    pub fn poll_tasks(&self, poll: impl Fn(RequestId) -> bool) {
        let task = |at: usize| self.tasks.borrow().get(at).copied();
        let mut at = 0;
        while let Some(id) = task(at) {
            if poll(id) {
                let mut list = self.tasks.borrow_mut();
                if let Some(i) = list.iter().position(|&f| f == id) {
                    list.remove(i);
                }
            } else {
                at += 1;
            }
        }
    }

    /// Lists a request that the program has freed while it is in flight.
    pub fn add_freed(&self, id: RequestId) {
        self.freed.borrow_mut().push(id);
    }

    /// Whether freed requests are in flight.
    #[inline]
    pub fn has_freed(&self) -> bool {
        !self.freed.borrow().is_empty()
    }

    /// The freed requests that are in flight.
    pub fn freed(&self) -> Vec<RequestId> {
        self.freed.borrow().clone()
    }

    /// Takes the freed requests that are over off the list: `is_over` says it of each, and `end`
    /// gets those.
    pub fn reap_freed(&self, is_over: impl Fn(RequestId) -> bool, end: impl Fn(RequestId)) {
        let freed = |at: usize| self.freed.borrow().get(at).copied();
        let mut at = 0;
        while let Some(id) = freed(at) {
            if is_over(id) {
                self.freed.borrow_mut().remove(at);
                end(id);
            } else {
                at += 1;
            }
        }
    }

    /// Notes the communicator of a request that failed.
    pub fn blame(&self, comm: Option<Rc<Communicator>>) {
        self.blamed.replace(comm);
    }

    /// Takes the communicator of the last request that failed.
    pub fn take_blamed(&self) -> Option<Rc<Communicator>> {
        self.blamed.take()
    }
}
