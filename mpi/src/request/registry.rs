//! The requests of a process, and which of them need more than their completion.

use super::request_slab::RequestSlab;
use super::{Request, RequestId, State};
use crate::adi::ReqId;
use crate::comm::Communicator;
use crate::error::Result;
use crate::status::Completed;
use std::cell::RefCell;
use std::rc::Rc;

/// The outcome of [`RequestRegistry::end_simple`].
pub(crate) enum SimpleEnd {
    /// More is to be done at its end than the device does.
    Other,
    /// The request is not complete.
    NotYet,
    /// The request is complete, and gone.
    Done(Completed),
}

/// All requests of a process.
#[derive(Default)]
pub(crate) struct RequestRegistry {
    slab: RefCell<RequestSlab>,
    /// Requests with tasks that are to be polled.
    tasks: RefCell<Vec<RequestId>>,
    /// Freed requests that are still in flight.
    freed: RefCell<Vec<RequestId>>,
    /// The communicator of the last request that failed.
    failed_comm: RefCell<Option<Rc<Communicator>>>,
}

impl RequestRegistry {
    /// Enters a request.
    pub fn insert(&self, request: Request) -> RequestId {
        self.slab.borrow_mut().insert(request)
    }

    /// Enters a receive on `comm` that `post` gives to the device. `None`: `post` gave none, or
    /// the requests are in use.
    #[inline(always)]
    pub fn insert_receive(
        &self,
        comm: &Rc<Communicator>,
        post: impl FnOnce() -> Option<ReqId>,
    ) -> Option<RequestId> {
        let mut slab = self.slab.try_borrow_mut().ok()?;
        let request = post()?;
        Some(slab.insert_receive(request, comm.clone()))
    }

    /// The result of `act` on a request. `act` uses no other request.
    ///
    /// # Errors
    /// `Request` when there is none of this id.
    #[inline]
    pub fn with<T>(&self, id: RequestId, act: impl FnOnce(&mut Request) -> T) -> Result<T> {
        self.slab.borrow_mut().get(id).map(act)
    }

    /// The device's request behind `id`.
    #[inline]
    pub fn device_request(&self, id: RequestId) -> Option<ReqId> {
        let mut slab = self.slab.borrow_mut();
        if let receive @ Some(_) = slab.receive(id) {
            return receive;
        }
        match slab.get(id).ok()?.operation.state {
            State::Device(request) => Some(request),
            _ => None,
        }
    }

    /// Ends a receive without more state than its id if `poll` gives its result. `None`: it is not
    /// such a receive, it is not complete, or the requests are in use.
    #[inline]
    pub fn end_receive<T>(
        &self,
        id: RequestId,
        poll: impl FnOnce(ReqId) -> Option<T>,
    ) -> Option<T> {
        let mut slab = self.slab.try_borrow_mut().ok()?;
        let done = poll(slab.receive(id)?)?;
        slab.discard_receive(id);
        Some(done)
    }

    /// Ends a request of which nothing is left to do after the device, if `poll` gives its result.
    /// An error goes to the request's communicator. The second argument of `poll` says whether it
    /// is a receive.
    ///
    /// # Errors
    /// `Request` when there is none of this id.
    #[inline]
    pub fn end_simple(
        &self,
        id: RequestId,
        poll: impl FnOnce(ReqId, bool) -> Option<Completed>,
    ) -> Result<SimpleEnd> {
        let mut slab = self.slab.borrow_mut();
        let polled = match slab.receive(id) {
            Some(request) => poll(request, true),
            None => {
                let request = slab.get(id)?;
                match request.operation.state {
                    State::Device(r) if request.is_simple() => poll(r, request.operation.receives),
                    _ => return Ok(SimpleEnd::Other),
                }
            }
        };
        let Some(done) = polled else {
            return Ok(SimpleEnd::NotYet);
        };
        if done.error.is_some() {
            self.set_failed_comm(slab.get(id)?.comm.clone());
        }
        slab.discard(id);
        Ok(SimpleEnd::Done(done))
    }

    /// Takes a request out.
    ///
    /// # Errors
    /// `Request` when there is none of this id.
    pub fn remove(&self, id: RequestId) -> Result<Request> {
        self.slab.borrow_mut().remove(id)
    }

    /// Whether `id` names a request.
    #[inline]
    pub fn contains(&self, id: RequestId) -> bool {
        self.slab.borrow().contains(id)
    }

    /// The id of the request in a slot.
    pub fn in_slot(&self, slot: u32) -> Option<RequestId> {
        self.slab.borrow().in_slot(slot)
    }

    /// Ids of the requests on `comm`.
    pub fn of(&self, comm: &Rc<Communicator>) -> Vec<RequestId> {
        self.slab.borrow().of(comm)
    }

    /// Number of requests.
    pub fn len(&self) -> usize {
        self.slab.borrow().len()
    }

    /// Lists a request whose task is to be polled.
    pub fn add_task(&self, id: RequestId) {
        self.tasks.borrow_mut().push(id);
    }

    /// Takes a request whose task is over off the list. The last one is looked at first.
    pub fn remove_task(&self, id: RequestId) {
        let mut list = self.tasks.borrow_mut();
        if let Some(at) = list.iter().rposition(|&one| one == id) {
            list.remove(at);
        }
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
                self.remove_task(id);
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
    pub fn set_failed_comm(&self, comm: Option<Rc<Communicator>>) {
        self.failed_comm.replace(comm);
    }

    /// Takes the communicator of the last request that failed.
    pub fn take_failed_comm(&self) -> Option<Rc<Communicator>> {
        self.failed_comm.take()
    }
}
