//! Requests (MPI-5.0 §3.7, §3.9, §13.2): a slab with generations, so that a stale handle is an
//! error and not another request.

pub(crate) mod complete;
mod general;
mod generalized;
mod many;
mod registry;
mod request_slab;
pub use many::Any;
pub(crate) use registry::RequestRegistry;

pub use generalized::{Generalized, GeneralizedCallbacks};

use crate::adi::ReqId;
use crate::comm::Communicator;
use crate::datatype::Datatype;
use crate::decide::Wild;
use crate::p2p::{SendMode, Staging};
use crate::status::Completed;
use std::pin::Pin;
use std::rc::Rc;

/// Names a request: slot and generation. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(u64);

impl RequestId {
    /// Of every send that was complete when its call returned: there is nothing to keep of it.
    pub const SENT: Self = Self(1 << 32);

    fn new(slot: u32, generation: u32) -> Self {
        Self(u64::from(generation) << 32 | u64::from(slot))
    }

    fn slot(self) -> usize {
        self.0 as u32 as usize
    }

    fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// As a number: 24 bits of generation above 32 bits of slot.
    pub fn to_raw(self) -> u64 {
        self.0
    }

    /// From [`RequestId::to_raw`]; any number is safe, an unknown one names no request.
    pub fn from_raw(raw: u64) -> Self {
        Self(raw)
    }
}

/// The future of a nonblocking operation that consists of several messages.
pub type Task = Pin<Box<dyn Future<Output = Completed>>>;

/// The action of a start.
pub(crate) enum Action {
    /// A send.
    Send(SendMode),
    /// A receive.
    Recv,
    /// Makes the task of a collective.
    Task(Box<dyn Fn() -> Task>),
}

/// Arguments of a persistent operation.
pub(crate) struct Persistent {
    pub action: Action,
    pub addr: usize,
    pub count: i64,
    pub datatype: Option<Rc<Datatype>>,
    pub peer: i32,
    pub tag: i32,
}

/// The state of a request.
pub(crate) enum State {
    /// Persistent and not started.
    Inactive,
    /// The device has it.
    Device(ReqId),
    /// Finished, not yet told.
    Ready(Completed),
    /// A task; `None` while it is being polled.
    Task(Option<Task>),
    /// A generalized request.
    General(Rc<Generalized>),
}

/// One request.
pub(crate) struct Request {
    pub state: State,
    /// Keeps the context id; errors go to its handler.
    pub comm: Option<Rc<Communicator>>,
    /// The packed temporary of a receive, which is unpacked at its end, or of a send, which keeps
    /// it.
    pub staging: Option<Box<Staging>>,
    pub persistent: Option<Rc<Persistent>>,
    pub receives: bool,
    /// A receive with a wildcard: its match is a nondeterministic answer.
    pub wild: Option<Wild>,
    /// The program asked to cancel it.
    pub cancelling: bool,
    /// Freed by the program: goes when it completes.
    pub freed: bool,
}

impl Request {
    pub fn new(state: State, comm: Option<Rc<Communicator>>) -> Self {
        Self {
            state,
            comm,
            staging: None,
            persistent: None,
            receives: false,
            wild: None,
            cancelling: false,
            freed: false,
        }
    }

    /// Whether its end is the device's and nothing else.
    #[inline]
    fn is_plain(&self) -> bool {
        self.staging.is_none()
            && self.persistent.is_none()
            && self.wild.is_none()
            && !self.cancelling
    }
}

#[cfg(test)]
mod tests;
