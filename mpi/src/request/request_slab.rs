//! The slots of requests, with generations: a stale id names no other request.

use super::{Request, RequestId, Started};
use crate::adi::ReqId;
use crate::comm::Communicator;
use crate::error::{Error, ErrorClass, Result};
use crate::status::Status;
use std::rc::Rc;

struct Slot {
    generation: u32,
    /// A receive without more state than this; `request` is made of it when a caller needs more.
    receive: Option<(ReqId, Rc<Communicator>)>,
    request: Option<Request>,
}

impl Slot {
    #[inline]
    fn is_live(&self) -> bool {
        self.receive.is_some() || self.request.is_some()
    }

    #[inline]
    fn comm(&self) -> Option<&Rc<Communicator>> {
        match &self.receive {
            Some((_, comm)) => Some(comm),
            None => self.request.as_ref()?.comm.as_ref(),
        }
    }

    #[inline]
    fn next_generation(&mut self) {
        self.generation = (self.generation & GENERATIONS) % GENERATIONS + 1;
    }
}

/// All requests of the process. The first slot is [`RequestId::SENT`]'s.
pub(super) struct RequestSlab {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Default for RequestSlab {
    fn default() -> Self {
        let sent = Started::complete(Status::EMPTY);
        let slot = Slot {
            generation: RequestId::SENT.generation(),
            receive: None,
            request: Some(Request::new(sent, None)),
        };
        Self {
            slots: vec![slot],
            free: Vec::new(),
        }
    }
}

const GENERATIONS: u32 = 0x00FF_FFFF;

#[cold]
fn stale(id: RequestId) -> Error {
    let text = format!(
        "request {:#x} was completed or freed, or never existed",
        id.0
    );
    Error::new(ErrorClass::Request, text)
}

impl RequestSlab {
    pub fn insert(&mut self, request: Request) -> RequestId {
        let (id, slot) = self.vacant();
        slot.request = Some(request);
        id
    }

    /// Enters a receive without more state than these.
    #[inline]
    pub fn insert_receive(&mut self, request: ReqId, comm: Rc<Communicator>) -> RequestId {
        let (id, slot) = self.vacant();
        slot.receive = Some((request, comm));
        id
    }

    #[inline]
    fn vacant(&mut self) -> (RequestId, &mut Slot) {
        let slot = self.free.pop().unwrap_or_else(|| self.grow());
        let s = &mut self.slots[slot as usize];
        (RequestId::new(slot, s.generation), s)
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        self.slots.push(Slot {
            generation: 1,
            receive: None,
            request: None,
        });
        self.slots.len() as u32 - 1
    }

    /// The device's request of a receive without more state.
    #[inline]
    pub fn receive(&self, id: RequestId) -> Option<ReqId> {
        let slot = self.slots.get(id.slot())?;
        let receive = slot.receive.as_ref()?;
        (slot.generation == id.generation()).then_some(receive.0)
    }

    /// Drops a receive that [`RequestSlab::receive`] has found.
    #[inline]
    pub fn discard_receive(&mut self, id: RequestId) {
        let slot = &mut self.slots[id.slot()];
        if slot.receive.take().is_some() {
            slot.next_generation();
            self.free.push(id.slot() as u32);
        }
    }

    #[inline]
    pub fn get(&mut self, id: RequestId) -> Result<&mut Request> {
        let slot = self.slots.get_mut(id.slot());
        let Some(slot) = slot.filter(|slot| slot.generation == id.generation()) else {
            return Err(stale(id));
        };
        if let Some((request, comm)) = slot.receive.take() {
            slot.request = Some(Request::new(Started::recv(request, None), Some(comm)));
        }
        slot.request.as_mut().ok_or_else(|| stale(id))
    }

    /// Whether `id` names a request.
    #[inline]
    pub fn contains(&self, id: RequestId) -> bool {
        let slot = self.slots.get(id.slot());
        slot.is_some_and(|slot| slot.generation == id.generation() && slot.is_live())
    }

    pub fn remove(&mut self, id: RequestId) -> Result<Request> {
        self.get(id)?;
        let slot = &mut self.slots[id.slot()];
        slot.next_generation();
        self.free.push(id.slot() as u32);
        slot.request.take().ok_or_else(|| stale(id))
    }

    /// Drops a request where it is; an unknown id changes nothing.
    #[inline]
    pub fn discard(&mut self, id: RequestId) {
        if self.contains(id) {
            let slot = &mut self.slots[id.slot()];
            slot.next_generation();
            (slot.receive, slot.request) = (None, None);
            self.free.push(id.slot() as u32);
        }
    }

    /// The id of the request in `slot`.
    pub fn in_slot(&self, slot: u32) -> Option<RequestId> {
        let found = self.slots.get(slot as usize)?;
        let id = RequestId::new(slot, found.generation);
        found.is_live().then_some(id)
    }

    /// Ids of the requests on `comm`.
    pub fn of(&self, comm: &Rc<Communicator>) -> Vec<RequestId> {
        let on = |s: &Slot| s.comm().is_some_and(|c| Rc::ptr_eq(c, comm));
        let slots = (0u32..).zip(&self.slots);
        let found = slots.filter(|(_, s)| on(s));
        found
            .map(|(i, s)| RequestId::new(i, s.generation))
            .collect()
    }

    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len() - 1
    }
}
