//! Requests (MPI-5.0 §3.7, §3.9, §13.2): a slab with generations, so that a stale handle is an
//! error and not another request.

mod cancel_request;
pub(crate) mod complete;
mod general;
mod generalized;
mod many;
mod partition_requests;
mod partitions;
mod registry;
mod request_slab;
pub use many::Any;
pub(crate) use partition_requests::{enter_partitioned, start_background};
pub use partition_requests::{parrived, pready};
pub(crate) use partitions::Partitions;
pub(crate) use registry::RequestRegistry;

pub use generalized::{Generalized, GeneralizedCallbacks};

use crate::adi::ReqId;
use crate::comm::Communicator;
use crate::p2p::{SendMode, Staging, Typed};
use crate::status::{Completed, Status};
use std::pin::Pin;
use std::rc::Rc;

/// Names a request: slot and generation. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(u64);

impl RequestId {
    /// The id of every send that was complete when its call returned. The library keeps nothing
    /// of such a send.
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

    /// The id as a number: 24 bits of generation above 32 bits of slot.
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

/// A persistent operation and its arguments.
pub(crate) enum Persistent {
    /// A send of these elements: destination, tag and mode.
    Send(Typed, i32, i32, SendMode),
    /// A receive into these elements: source and tag.
    Recv(Typed, i32, i32),
    /// A collective: what makes its task.
    Task(Box<dyn Fn() -> Task>),
    /// Partitioned communication: its partitions, and what makes its task.
    Partitioned(Rc<Partitions>, Box<dyn Fn() -> Task>),
}

/// The state of a request.
enum State {
    /// Persistent and not started.
    Inactive,
    /// The device has it.
    Device(ReqId),
    /// Complete; the program has not asked yet.
    Ready(Completed),
    /// A task; `None` while it is being polled.
    Task(Option<Task>),
    /// A generalized request.
    General(Rc<Generalized>),
    /// In a replay: a receive that the program is about to cancel.
    Withheld,
}

/// An operation that was started.
pub(crate) struct Started {
    state: State,
    /// The packed copy of a send, or the memory from which a receive is unpacked at its end.
    staging: Option<Box<Staging>>,
    receives: bool,
    /// In logging modes: of a receive or a send, its number among the operations that can be
    /// cancelled; of a task, its number among the tasks.
    number: u64,
    cancelling: Cancelling,
}

/// Whether the program has cancelled an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cancelling {
    No,
    /// The completion says whether it worked.
    Requested,
    /// The outcome of the cancel is known.
    Decided,
}

impl Started {
    fn new(state: State) -> Self {
        Self {
            state,
            staging: None,
            receives: false,
            number: 0,
            cancelling: Cancelling::No,
        }
    }

    /// An operation that was complete at once, with this status.
    pub fn complete(status: Status) -> Self {
        Self::new(State::Ready(Completed::ok(status)))
    }

    /// A send that the device has, and the packed copy of its elements.
    pub fn send(request: ReqId, staging: Option<Staging>) -> Self {
        Self {
            staging: staging.map(Box::new),
            ..Self::new(State::Device(request))
        }
    }

    /// A receive that the device has, and where its message is unpacked.
    pub fn recv(request: ReqId, staging: Option<Staging>) -> Self {
        Self {
            receives: true,
            ..Self::send(request, staging)
        }
    }

    /// In a replay, a receive that was cancelled: no message may match it.
    pub fn withheld() -> Self {
        Self {
            receives: true,
            ..Self::new(State::Withheld)
        }
    }

    /// The same operation with this number.
    pub fn numbered(self, number: u64) -> Self {
        Self { number, ..self }
    }

    /// A task that was not polled yet.
    pub fn task(task: Task) -> Self {
        Self::new(State::Task(Some(task)))
    }

    /// Whether it is this request of the device.
    pub fn is_device(&self, request: ReqId) -> bool {
        matches!(self.state, State::Device(r) if r == request)
    }
}

/// One request.
pub(crate) struct Request {
    /// The operation; that of an inactive request is not started.
    operation: Started,
    /// Keeps the context id; errors go to its handler.
    comm: Option<Rc<Communicator>>,
    persistent: Option<Rc<Persistent>>,
}

impl Request {
    fn new(operation: Started, comm: Option<Rc<Communicator>>) -> Self {
        Self {
            operation,
            comm,
            persistent: None,
        }
    }

    /// Whether nothing is left to do when the device has completed it.
    #[inline]
    fn is_simple(&self) -> bool {
        self.operation.staging.is_none()
            && self.persistent.is_none()
            && self.operation.cancelling == Cancelling::No
    }
}

#[cfg(test)]
mod tests;
