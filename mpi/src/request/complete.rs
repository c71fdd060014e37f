//! Completing one request: `MPI_Wait`, `MPI_Test`, `MPI_Request_get_status`, `MPI_Cancel`,
//! `MPI_Request_free`.

use super::registry::SimpleEnd;
use super::{Cancelling, Persistent, Request, RequestId, Started, State, Task};
use crate::adi::{Completion, ReqId};
use crate::coll::poll_once;
use crate::comm::Communicator;
use crate::error::{Error, ErrorClass, Result, counted};
use crate::runtime::Mpi;
use crate::status::{Completed, Status};
use rejoin_device::determinants::DeterminantKind;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

/// The result of a receive, from the device's completion.
pub(crate) fn received(done: &Completion) -> Completed {
    let status = Status {
        cancelled: done.cancelled,
        ..Status::of(done.source, done.tag, done.len)
    };
    let error = done.truncated.map(|whole| {
        let (sent, room) = (counted(whole, "byte"), counted(done.len, "byte"));
        let text = format!(
            "a message of {sent} from rank {} with tag {} was received into a buffer of {room}",
            done.source, done.tag
        );
        Error::new(ErrorClass::Truncate, text)
    });
    Completed { status, error }
}

/// The result of a send, from the device's completion.
pub(crate) fn sent(done: &Completion) -> Completed {
    Completed::ok(Status {
        cancelled: done.cancelled,
        ..Status::EMPTY
    })
}

/// The result of a receive or a send, from the device's completion.
fn completed(done: &Completion, receives: bool) -> Completed {
    match receives {
        true => received(done),
        false => sent(done),
    }
}

impl Mpi {
    /// A request for an operation on `comm`.
    pub(crate) fn enter_request(&self, started: Started, comm: &Rc<Communicator>) -> RequestId {
        let request = Request::new(started, Some(comm.clone()));
        self.requests().insert(request)
    }

    /// A persistent request on `comm`, which is not started.
    pub(crate) fn enter_persistent(
        &self,
        persistent: Persistent,
        comm: &Rc<Communicator>,
    ) -> RequestId {
        self.requests().insert(Request {
            persistent: Some(Rc::new(persistent)),
            ..Request::new(Started::new(State::Inactive), Some(comm.clone()))
        })
    }

    /// The operation of an inactive persistent request, and its communicator.
    ///
    /// # Errors
    /// `Request` for any other request.
    pub(crate) fn startable(&self, id: RequestId) -> Result<(Rc<Persistent>, Rc<Communicator>)> {
        self.requests().with(id, |request| {
            match (&request.operation.state, &request.persistent, &request.comm) {
                (State::Inactive, Some(p), Some(comm)) => Ok((p.clone(), comm.clone())),
                _ => {
                    let text = "only an inactive persistent request can be started";
                    Err(Error::new(ErrorClass::Request, text))
                }
            }
        })?
    }

    /// Gives a request the operation that its start began.
    pub(crate) fn start_request(&self, id: RequestId, started: Started) -> Result<()> {
        let is_task = matches!(started.state, State::Task(_));
        let started = match is_task {
            true => started.numbered(self.next_task()),
            false => started,
        };
        self.requests()
            .with(id, |request| request.operation = started)?;
        if is_task {
            self.begin_task(id);
        }
        Ok(())
    }

    /// A request that runs `task`, which is polled once now.
    pub fn start_task(&self, comm: Option<&Rc<Communicator>>, task: Task) -> RequestId {
        let started = Started::task(task).numbered(self.next_task());
        let request = Request::new(started, comm.cloned());
        let id = self.requests().insert(request);
        self.begin_task(id);
        id
    }

    /// The first poll of a request's task, which is listed only while it is to be polled again.
    fn begin_task(&self, id: RequestId) {
        self.requests().add_task(id);
        if self.poll_task(id) {
            self.requests().remove_task(id);
            self.after_tasks();
        }
    }

    /// Polls one task; true when it is finished or gone.
    pub(crate) fn poll_task(&self, id: RequestId) -> bool {
        let taken = self
            .requests()
            .with(id, |request| match &mut request.operation.state {
                State::Task(slot) => Some((slot.take(), request.operation.number)),
                _ => None,
            });
        let (mut task, number) = match taken {
            Ok(Some((Some(task), number))) => (task, number),
            // It is being polled further up this stack.
            Ok(Some((None, _))) => return false,
            _ => return true,
        };
        let polled = match self.decider().logs() {
            false => poll_once(task.as_mut()),
            true => self.poll_sender(number, task.as_mut()),
        };
        let (state, over) = match polled {
            Poll::Ready(done) => (State::Ready(done), true),
            Poll::Pending => (State::Task(Some(task)), false),
        };
        // Nobody has removed the request meanwhile; else its state goes with it.
        let _ = self
            .requests()
            .with(id, |request| request.operation.state = state);
        if over {
            self.event();
        }
        over
    }

    /// Polls a task in logging modes: the sends during the poll are those of the task with this
    /// number.
    #[cold]
    fn poll_sender(
        &self,
        number: u64,
        task: Pin<&mut dyn Future<Output = Completed>>,
    ) -> Poll<Completed> {
        let before = self.dev_mut().set_task(Some(number));
        let polled = poll_once(task);
        self.dev_mut().set_task(before);
        // An error closes the device, and the next call reports it.
        let _ = self.issue_deferred();
        polled
    }

    /// Polls all tasks once.
    pub(crate) fn poll_tasks(&self) {
        self.requests().poll_tasks(|id| self.poll_task(id));
        self.after_tasks();
    }

    fn after_tasks(&self) {
        if !self.requests().has_tasks() {
            self.tasks_over();
        }
    }

    /// The device's request of `id`, which a wait polls first.
    pub(crate) fn hint(&self, id: RequestId) -> Option<ReqId> {
        self.requests().device_request(id)
    }

    /// Turns a completion of the device into a finished request; true when the request is finished.
    pub(crate) fn settle(&self, id: RequestId) -> Result<bool> {
        self.requests()
            .with(id, |request| self.settle_request(request))?
    }

    /// The same after a pass of progress, if that has moved anything.
    pub(super) fn settles(&self, id: RequestId) -> Result<bool> {
        Ok(self.settle(id)? || self.make_progress(self.hint(id))? && self.settle(id)?)
    }

    pub(super) fn settle_request(&self, request: &mut Request) -> Result<bool> {
        let operation = &mut request.operation;
        Ok(match &operation.state {
            State::Inactive | State::Ready(_) => true,
            State::Task(_) | State::Withheld => false,
            State::General(g) => g.is_complete(),
            State::Device(r) => {
                let cancelling = operation.cancelling == Cancelling::Requested;
                let logs_cancel = cancelling && self.decider().logs();
                if logs_cancel && !self.has_log_room()? {
                    return Ok(false);
                }
                let Some(done) = self.dev_mut().poll(*r) else {
                    return Ok(false);
                };
                operation.state = State::Ready(completed(&done, operation.receives));
                // A later cancel has its number and its record, whenever the completion came.
                if cancelling {
                    operation.cancelling = Cancelling::Decided;
                }
                if let Some(staging) = operation.staging.take() {
                    // SAFETY: the request's buffer is the library's until here.
                    unsafe { staging.finish(done.len) };
                }
                if logs_cancel {
                    self.record_cancel(operation.number, done.cancelled)?;
                }
                true
            }
        })
    }

    /// The result of `id`, if it is finished. The request is then gone, or inactive if persistent.
    #[inline]
    pub(crate) fn try_finish(&self, id: RequestId) -> Result<Option<Completed>> {
        if let Some(status) = self.ended(id) {
            return Ok(Some(Completed::ok(status)));
        }
        let poll = |r, receives| {
            let done = self.dev_mut().poll(r)?;
            Some(completed(&done, receives))
        };
        match self.requests().end_simple(id, poll)? {
            SimpleEnd::Done(done) => Ok(Some(done)),
            SimpleEnd::NotYet => Ok(None),
            SimpleEnd::Other => self.finish_any(id),
        }
    }

    /// The status of a simple receive or send that has ended without error. The request is then
    /// gone, and its handle becomes null. `None`: [`Mpi::wait`] handles the request.
    #[inline]
    pub fn ended(&self, id: RequestId) -> Option<Status> {
        if id == RequestId::SENT {
            return Some(Status::EMPTY);
        }
        let poll = |request| self.try_dev_mut()?.poll_whole(request);
        let done = self.requests().end_receive(id, poll)?;
        Some(Status::of(done.source, done.tag, done.len))
    }

    /// The result of a finished request of any kind, as [`Mpi::try_finish`] gives it.
    fn finish_any(&self, id: RequestId) -> Result<Option<Completed>> {
        if !self.settle(id)? {
            return Ok(None);
        }
        self.take(id).map(Some)
    }

    /// Takes the result of the finished request `id`.
    fn take(&self, id: RequestId) -> Result<Completed> {
        let (state, persistent) = self.requests().with(id, |request| {
            let state = std::mem::replace(&mut request.operation.state, State::Inactive);
            if matches!(&state, State::Ready(done) if done.error.is_some()) {
                self.requests().set_failed_comm(request.comm.clone());
            }
            (state, request.persistent.is_some())
        })?;
        match state {
            State::Inactive => Ok(Completed::ok(Status::EMPTY)),
            State::Ready(done) => {
                if !persistent {
                    self.requests().remove(id)?;
                }
                Ok(done)
            }
            State::General(g) => {
                self.requests().remove(id)?;
                let done = g.finish();
                if done.error.is_some() {
                    self.requests().set_failed_comm(None);
                }
                Ok(done)
            }
            other => {
                self.requests()
                    .with(id, |request| request.operation.state = other)?;
                Err(Self::broken("an unfinished request was taken"))
            }
        }
    }

    /// Whether `id` names a request.
    pub fn request_exists(&self, id: RequestId) -> bool {
        self.requests().contains(id)
    }

    /// After a wait or test that has finished `id`: whether its handle becomes null.
    #[inline]
    pub fn request_is_over(&self, id: RequestId) -> bool {
        id == RequestId::SENT || !self.requests().contains(id)
    }

    /// The request in a slot (the low 32 bits of its number), for handles that keep less of it.
    pub fn request_in_slot(&self, slot: u32) -> Option<RequestId> {
        self.requests().in_slot(slot)
    }

    /// Number of requests, inactive ones too.
    pub fn live_requests(&self) -> usize {
        self.requests().len()
    }

    /// The communicator of the last request that failed, whose error handler is to be called.
    pub fn take_failed_comm(&self) -> Option<Rc<Communicator>> {
        self.requests().take_failed_comm()
    }

    /// The communicator of a request.
    pub fn request_comm(&self, id: RequestId) -> Option<Rc<Communicator>> {
        self.requests()
            .with(id, |request| request.comm.clone())
            .ok()?
    }

    /// `MPI_Wait`.
    #[inline]
    pub fn wait(&self, id: RequestId) -> Result<Completed> {
        if let Some(done) = self.try_finish(id)? {
            return Ok(done);
        }
        self.wait_for(self.hint(id), |m| m.try_finish(id))
    }

    /// `MPI_Test`.
    pub fn test(&self, id: RequestId) -> Result<Option<Completed>> {
        let finished = self.settles(id)?;
        if self.decide_whether(DeterminantKind::Test, finished)? {
            return self.wait(id).map(Some);
        }
        Ok(None)
    }

    /// Waits until `id` is finished, and leaves it.
    pub(crate) fn await_settled(&self, id: RequestId) -> Result<()> {
        self.wait_for(self.hint(id), |m| Ok(m.settle(id)?.then_some(())))
    }

    /// `MPI_Request_get_status`: as test, but the request stays as it is.
    pub fn request_status(&self, id: RequestId) -> Result<Option<Completed>> {
        let finished = self.settles(id)?;
        if self.decide_whether(DeterminantKind::Test, finished)? {
            self.await_settled(id)?;
            return self.peek(id).map(Some);
        }
        Ok(None)
    }

    /// The result of the finished request `id`, without taking it.
    pub(crate) fn peek(&self, id: RequestId) -> Result<Completed> {
        let done = self
            .requests()
            .with(id, |request| match &request.operation.state {
                State::Ready(done) => Ok(done.clone()),
                State::General(g) => Err(g.clone()),
                _ => Ok(Completed::ok(Status::EMPTY)),
            })?;
        // The callback runs while no request is in use.
        Ok(done.unwrap_or_else(|general| general.ask()))
    }

    /// `MPI_Request_free`: the operation continues; the request goes when it is over.
    pub fn request_free(&self, id: RequestId) -> Result<()> {
        if id == RequestId::SENT {
            return Ok(());
        }
        let finished = self.settle(id)?;
        if finished {
            self.requests()
                .with(id, |request| request.persistent = None)?;
            let removed = self.requests().remove(id)?;
            if let State::General(g) = &removed.operation.state {
                return g.release();
            }
            return Ok(());
        }
        self.requests().add_freed(id);
        Ok(())
    }

    /// Drops freed requests that are over.
    pub(crate) fn reap(&self) {
        let is_over = |id| !matches!(self.settle(id), Ok(false));
        self.requests().reap_freed(is_over, |id| {
            let gone = self.requests().remove(id);
            if let Ok(State::General(g)) = gone.map(|request| request.operation.state) {
                // No caller is left for the error of a failing callback.
                let _ = g.release();
            }
        });
    }

    /// True when no request on `comm` is in flight.
    pub(crate) fn is_quiet(&self, comm: &Rc<Communicator>) -> Result<bool> {
        let ids = self.requests().of(comm);
        for id in ids {
            if !self.settle(id)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits for freed sends and tasks; freed receives may never come.
    pub(crate) fn drain_freed(&self) -> Result<()> {
        self.wait_until(None, |m| {
            m.reap();
            let ids = m.requests().freed();
            let is_send = |r: &mut Request| {
                !r.operation.receives && !matches!(r.operation.state, State::General(_))
            };
            let sends = ids
                .iter()
                .any(|&id| m.requests().with(id, is_send).unwrap_or(false));
            Ok((!sends).then_some(()))
        })
    }
}
