//! The slots of requests, with generations: a stale id names no other request.

use super::{Request, RequestId, State};
use crate::adi::ReqId;
use crate::comm::Communicator;
use crate::error::{Error, ErrorClass, Result};
use crate::status::{Completed, Status};
use std::rc::Rc;

struct Slot {
    generation: u32,
    /// A receive of which there is nothing else to know; `request` is made of it when more is
    /// asked.
    plain: Option<(ReqId, Rc<Communicator>)>,
    request: Option<Request>,
}

impl Slot {
    #[inline]
    fn is_live(&self) -> bool {
        self.plain.is_some() || self.request.is_some()
    }

    #[inline]
    fn comm(&self) -> Option<&Rc<Communicator>> {
        match &self.plain {
            Some((_, comm)) => Some(comm),
            None => self.request.as_ref()?.comm.as_ref(),
        }
    }

    #[inline]
    fn grow_old(&mut self) {
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
        let sent = State::Ready(Completed::ok(Status::EMPTY));
        let slot = Slot {
            generation: RequestId::SENT.generation(),
            plain: None,
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

    /// Enters a receive that the device has as it is.
    #[inline]
    pub fn insert_plain(&mut self, request: ReqId, comm: Rc<Communicator>) -> RequestId {
        let (id, slot) = self.vacant();
        slot.plain = Some((request, comm));
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
            plain: None,
            request: None,
        });
        self.slots.len() as u32 - 1
    }

    /// The device's request, when the slab knows no more of it.
    #[inline]
    pub fn plain(&self, id: RequestId) -> Option<ReqId> {
        let slot = self.slots.get(id.slot())?;
        let plain = slot.plain.as_ref()?;
        (slot.generation == id.generation()).then_some(plain.0)
    }

    /// Drops what [`RequestSlab::plain`] has named.
    #[inline]
    pub fn discard_plain(&mut self, id: RequestId) {
        let slot = &mut self.slots[id.slot()];
        if slot.plain.take().is_some() {
            slot.grow_old();
            self.free.push(id.slot() as u32);
        }
    }

    #[inline]
    pub fn get(&mut self, id: RequestId) -> Result<&mut Request> {
        let slot = self.slots.get_mut(id.slot());
        let Some(slot) = slot.filter(|slot| slot.generation == id.generation()) else {
            return Err(stale(id));
        };
        if let Some((request, comm)) = slot.plain.take() {
            let mut whole = Request::new(State::Device(request), Some(comm));
            whole.receives = true;
            slot.request = Some(whole);
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
        slot.grow_old();
        self.free.push(id.slot() as u32);
        slot.request.take().ok_or_else(|| stale(id))
    }

    /// Drops a request where it is; an unknown id changes nothing.
    #[inline]
    pub fn discard(&mut self, id: RequestId) {
        if self.contains(id) {
            let slot = &mut self.slots[id.slot()];
            slot.grow_old();
            (slot.plain, slot.request) = (None, None);
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
