//! Cancelling an operation (MPI-5.0 §3.8.4).
//!
//! Whether it worked is a nondeterministic answer. Operations are numbered for it: receives when
//! they are posted, sends when they are cancelled. In a replay, a receive that was cancelled is not
//! posted at all, because its message belongs to another receive.

use super::{Cancelling, Generalized, Request, RequestId, Started, State};
use crate::error::{Error, ErrorClass, Result};
use crate::runtime::Mpi;
use crate::status::{Completed, Status};
use std::rc::Rc;

impl Mpi {
    /// `MPI_Cancel` (MPI-5.0 §3.8.4): marks for cancellation; the completion says whether it
    /// worked.
    pub fn cancel(&self, id: RequestId) -> Result<()> {
        if id == RequestId::SENT {
            return self.cancel_sent();
        }
        let general = self
            .requests()
            .with(id, |request| self.cancel_request(request))??;
        general.map_or(Ok(()), |general| general.cancel())
    }

    /// Cancels a send that was complete when its call returned. It has a number, too, because
    /// timing decides whether a send is complete then.
    fn cancel_sent(&self) -> Result<()> {
        match self.decider().logs() {
            false => Ok(()),
            true => self.record_cancel(self.decider().next_operation(), false),
        }
    }

    /// Cancels what the library has of a request; returns what the program has.
    fn cancel_request(&self, request: &mut Request) -> Result<Option<Rc<Generalized>>> {
        let refused = |text: &'static str| Err(Error::new(ErrorClass::Request, text));
        match &request.operation.state {
            State::General(general) => return Ok(Some(general.clone())),
            State::Inactive => return refused("an inactive request cannot be cancelled"),
            State::Task(_) => return refused("this kind of request cannot be cancelled"),
            State::Device(_) | State::Ready(_) | State::Withheld => {}
        }
        let operation = &mut request.operation;
        match operation.cancelling {
            Cancelling::No if self.decider().logs() => self.cancel_recorded(operation)?,
            Cancelling::No => self.request_cancel(operation),
            Cancelling::Requested | Cancelling::Decided => {}
        }
        Ok(None)
    }

    /// Asks the device to cancel what it has; the completion says whether that worked.
    fn request_cancel(&self, operation: &mut Started) {
        if let State::Device(request) = operation.state {
            self.dev_mut().cancel(request);
            operation.cancelling = Cancelling::Requested;
        }
    }

    /// Cancels in logging modes: in a replay with the recorded outcome.
    #[cold]
    fn cancel_recorded(&self, operation: &mut Started) -> Result<()> {
        if !operation.receives {
            operation.number = self.decider().next_operation();
        }
        let number = operation.number;
        let recorded = self.recorded_cancel(number);
        let cancelled = match operation.state {
            State::Device(_) if recorded != Some(false) => {
                self.request_cancel(operation);
                return Ok(());
            }
            State::Withheld => Some(Status::of(0, 0, 0)),
            // The receiver knows the message already, and that it was cancelled.
            State::Ready(_) if recorded == Some(true) && !operation.receives => Some(Status::EMPTY),
            // It was complete before, or the log says so.
            _ => None,
        };
        operation.cancelling = Cancelling::Decided;
        if let Some(status) = cancelled {
            let cancelled = true;
            operation.state = State::Ready(Completed::ok(Status {
                cancelled,
                ..status
            }));
        }
        self.record_cancel(number, cancelled.is_some())
    }
}
