//! Operations of the program itself (MPI-5.0 §13.2): their callbacks and whether they are over.

use crate::error::{Error, Result};
use crate::status::{Completed, Status};
use std::cell::Cell;

/// The program's callbacks; an error is the code that they returned.
pub trait GeneralizedCallbacks {
    /// Tells the status of the finished operation.
    fn query(&self) -> (Status, Result<(), i32>);
    /// Frees the program's data of the request.
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
    pub(super) fn new(callbacks: Box<dyn GeneralizedCallbacks>) -> Self {
        Self {
            complete: Cell::new(false),
            callbacks,
        }
    }

    /// Notes that the operation is over; false: it was already.
    pub(super) fn complete(&self) -> bool {
        !self.complete.replace(true)
    }

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
