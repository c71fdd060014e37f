//! Generalized requests (MPI-5.0 §13.2): operations of the program itself behind a request.

use super::{Request, RequestId, State};
use crate::error::{Error, ErrorClass, Result};
use crate::runtime::Mpi;
use crate::status::{Completed, Status};
use std::cell::Cell;
use std::rc::Rc;

/// The program's callbacks; an error is the code that they returned.
pub trait GeneralizedCallbacks {
    /// Tells the status of the finished operation.
    fn query(&self) -> (Status, Result<(), i32>);
    /// Frees what the program keeps with the request.
    fn free(&self) -> Result<(), i32>;
    /// Asked to cancel; `complete` says that the operation is over.
    fn cancel(&self, complete: bool) -> Result<(), i32>;
}

/// A generalized request.
pub struct Generalized {
    complete: Cell<bool>,
    callbacks: Box<dyn GeneralizedCallbacks>,
}

fn code(what: &'static str, result: Result<(), i32>) -> Result<()> {
    result.map_err(|code| Error::user(code, what))
}

impl Generalized {
    pub(crate) fn is_complete(&self) -> bool {
        self.complete.get()
    }

    /// The status, by the query callback.
    pub(crate) fn ask(&self) -> Completed {
        let (status, result) = self.callbacks.query();
        Completed {
            status,
            error: code("the query callback of a generalized request failed", result).err(),
        }
    }

    pub(crate) fn release(&self) -> Result<()> {
        let text = "the free callback of a generalized request failed";
        code(text, self.callbacks.free())
    }

    /// Query, then free; the first error counts.
    pub(crate) fn finish(&self) -> Completed {
        let mut done = self.ask();
        let freed = self.release().err();
        done.error = done.error.or(freed);
        done
    }

    pub(crate) fn cancel(&self) -> Result<()> {
        let text = "the cancel callback of a generalized request failed";
        code(text, self.callbacks.cancel(self.complete.get()))
    }
}

impl Mpi {
    /// `MPI_Grequest_start`.
    pub fn grequest_start(&self, callbacks: Box<dyn GeneralizedCallbacks>) -> RequestId {
        let general = Generalized {
            complete: Cell::new(false),
            callbacks,
        };
        self.enter_request(Request::new(State::General(Rc::new(general)), None))
    }

    /// `MPI_Grequest_complete`.
    pub fn grequest_complete(&self, id: RequestId) -> Result<()> {
        match &self.requests.borrow_mut().get(id)?.state {
            State::General(g) if !g.complete.replace(true) => {}
            _ => {
                let text = "not a generalized request that is still under way";
                return Err(Error::new(ErrorClass::Request, text));
            }
        }
        self.event();
        Ok(())
    }
}
