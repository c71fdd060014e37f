//! The order of sends in logging modes.
//!
//! A nonblocking collective is a task: it issues its sends when messages have come. So timing
//! decides which of its sends precede which sends of the program and of other tasks. A replay must
//! issue them in the same order. If it does not, a message gets the sequence number of another one
//! that the receiver has already.
//!
//! The log counts all sends of the rank and records those of tasks: the number of the send, and the
//! number of the task. Tasks are numbered as they start. In a replay a task whose turn it is not
//! gets a *deferred* send, which is issued at its turn. The program waits before a send of its own
//! until no recorded send of a task precedes that send.
//!
//! The sends of one task have one order: each collective issues them in a sequence that depends on
//! its arguments only, not on arrivals.

use crate::adi::{Completion, Dev, Envelope, Mode, Rank, ReqId, SendAttempt};
use crate::error::Result;
use rejoin_device::determinants::SendTurn;
use std::cell::{Cell, RefCell};
use std::task::Poll;

/// The low half of the ids of deferred sends. No request of the device has it.
const DEFERRED: u32 = u32::MAX;

/// Bytes of the longest message that the device buffers, so that no rank waits for its end.
pub(crate) const MAX_BUFFERED: usize = 8 << 10;

/// A message of a task, as the task gives it.
#[derive(Clone, Copy)]
pub(super) struct TaskSend {
    /// Number of the task.
    pub task: u64,
    pub to: Rank,
    pub env: Envelope,
    /// Address and length.
    pub bytes: (*const u8, usize),
}

/// The progress of a deferred send.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SendStep {
    /// The turn of the send has not come.
    Deferred,
    /// The device has it.
    Issued(ReqId),
    Complete,
}

struct DeferredSend {
    id: u32,
    send: TaskSend,
    step: SendStep,
}

/// The deferred sends of a process, and the numbers of its tasks.
#[derive(Default)]
pub(super) struct SendOrder {
    /// Number of the next task.
    tasks: Cell<u64>,
    /// Id of the next deferred send.
    next: Cell<u32>,
    /// In the order in which the tasks made them.
    deferred: RefCell<Vec<DeferredSend>>,
}

impl SendOrder {
    /// The number of a task that starts.
    pub(super) fn next_task(&self) -> u64 {
        let number = self.tasks.get();
        self.tasks.set(number + 1);
        number
    }

    /// How many tasks have started.
    pub(super) fn tasks(&self) -> u64 {
        self.tasks.get()
    }

    /// Defers a send; returns its id, which names no request of the device.
    pub(super) fn defer(&self, send: TaskSend) -> ReqId {
        let id = self.next.get();
        // The id of all ones is `ReqId::DONE`.
        self.next.set((id + 1) % u32::MAX);
        self.deferred.borrow_mut().push(DeferredSend {
            id,
            send,
            step: SendStep::Deferred,
        });
        ReqId(u64::from(id) << 32 | u64::from(DEFERRED))
    }

    /// Whether a send of this task is deferred.
    pub(super) fn defers(&self, task: u64) -> bool {
        let deferred = self.deferred.borrow();
        let mut own = deferred.iter().filter(|d| d.send.task == task);
        own.any(|d| d.step == SendStep::Deferred)
    }

    /// The first deferred send that may be issued at this turn, and its place in the list.
    pub(super) fn first_at(&self, turn: SendTurn) -> Option<(usize, TaskSend)> {
        let deferred = self.deferred.borrow();
        let mut waiting = deferred.iter().enumerate();
        let found = waiting.find(|(_, d)| {
            d.step == SendStep::Deferred
                && match turn {
                    SendTurn::Anyone => true,
                    SendTurn::Program => false,
                    SendTurn::Task(task) => task == d.send.task,
                }
        });
        found.map(|(at, d)| (at, d.send))
    }

    /// The send at this place of the list is issued as this request, or complete at once.
    pub(super) fn issued(&self, at: usize, request: Option<ReqId>) {
        let step = request.map_or(SendStep::Complete, SendStep::Issued);
        self.deferred.borrow_mut()[at].step = step;
    }

    /// Polls a deferred send; `poll` polls the device. It is gone once it is complete.
    pub(super) fn poll(
        &self,
        id: ReqId,
        poll: impl FnOnce(ReqId) -> Option<Completion>,
    ) -> Poll<Completion> {
        let mut deferred = self.deferred.borrow_mut();
        let number = (id.0 >> 32) as u32;
        let Some(at) = deferred.iter().position(|d| d.id == number) else {
            return Poll::Ready(Completion::default());
        };
        let done = match deferred[at].step {
            SendStep::Deferred => None,
            SendStep::Issued(request) => poll(request),
            SendStep::Complete => Some(Completion::default()),
        };
        if done.is_some() {
            deferred.remove(at);
        }
        done.map_or(Poll::Pending, Poll::Ready)
    }
}

/// Gives a message of a collective to the device. `None`: it is complete.
///
/// # Safety
/// The bytes are readable and stay unmodified until the request completes.
///
/// # Errors
/// The errors of the device.
pub(crate) unsafe fn issue(
    dev: &mut Dev,
    to: Rank,
    env: Envelope,
    bytes: (*const u8, usize),
    attempt: SendAttempt,
) -> Result<Option<ReqId>> {
    if bytes.1 <= MAX_BUFFERED {
        // SAFETY: the caller's promise.
        return unsafe { dev.send(to, env, bytes, attempt) };
    }
    // SAFETY: the caller's promise.
    let request = unsafe { dev.isend(to, env, bytes, Mode::Standard, attempt) }?;
    Ok((request != ReqId::DONE).then_some(request))
}

/// Whether `id` names a deferred send and no request of the device.
#[inline]
pub(crate) fn is_deferred(id: ReqId) -> bool {
    id.0 as u32 == DEFERRED && id != ReqId::DONE
}
