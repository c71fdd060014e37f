//! Error handlers, error codes and texts (MPI-5.0 chapter 9). [`crate::raise`] brings errors to the
//! handlers.
//!
//! This module keeps handlers by the handle value of their object, so that objects on the fast path
//! do not carry them. A returned code is the number of the error class. The sentence that describes
//! the error is kept for `MPI_Error_string` until the next error.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::rc::Rc;

use rejoin_mpi::{Error, ErrorClass, Result};

use crate::constants::*;
use crate::handles::{Handle, HandleKind, HandleTable};
use crate::lock;
use crate::types::*;

mod codes;
mod strings;

pub use codes::Codes;
pub use strings::{class_name, class_text};

/// Whose error handler an error goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorOwner {
    /// No object: the handler of `MPI_COMM_SELF` (MPI-5.0 §9.1).
    None,
    /// The object of this kind and handle value.
    Object(HandleKind, usize),
    /// The object of this kind whose handle the program keeps at this address (`MPI_Comm_free`).
    At(HandleKind, *const usize),
    /// The object of this kind that the call makes, with the handler that it gets
    /// (`MPI_Session_init`).
    Made(HandleKind, MPI_Errhandler),
    /// A function of the tools' interface: the code is returned, no handler runs.
    Tool,
}

impl ErrorOwner {
    /// The object of a handle.
    #[inline(always)]
    pub fn of<H: Handle>(handle: H) -> Self {
        Self::Object(H::KIND, handle.raw())
    }

    /// The object of a handle in the program's memory; the pointer may be null.
    #[inline(always)]
    pub fn at<H: Handle>(handle: *const H) -> Self {
        const { assert!(size_of::<H>() == size_of::<usize>()) };
        Self::At(H::KIND, handle.cast())
    }
}

/// The action of an error handler.
#[derive(Clone, Copy, Debug)]
pub enum Handler {
    /// `MPI_ERRORS_ARE_FATAL`.
    AreFatal,
    /// `MPI_ERRORS_ABORT`.
    Abort,
    /// `MPI_ERRORS_RETURN`.
    Return,
    /// A function of the program for communicators.
    Comm(MPI_Comm_errhandler_function),
    /// A function of the program for windows.
    Win(MPI_Win_errhandler_function),
    /// A function of the program for files.
    File(MPI_File_errhandler_function),
    /// A function of the program for sessions.
    Session(MPI_Session_errhandler_function),
}

/// An error handler object: its action, and, for those that the program made, the number of handles
/// that the program must still free. Copies are the same object.
#[derive(Clone, Debug)]
pub struct Installed {
    /// What it does.
    pub action: Handler,
    handles: Option<Rc<Cell<u32>>>,
}

impl Installed {
    /// A predefined handler.
    pub const fn predefined(action: Handler) -> Self {
        Self {
            action,
            handles: None,
        }
    }

    /// A new handler of the program, with one handle.
    pub fn made(action: Handler) -> Self {
        Self {
            action,
            handles: Some(Rc::new(Cell::new(1))),
        }
    }

    /// The predefined handler of a handle.
    pub fn of_predefined(handle: MPI_Errhandler) -> Option<Self> {
        let action = match handle {
            MPI_ERRORS_ARE_FATAL => Handler::AreFatal,
            MPI_ERRORS_ABORT => Handler::Abort,
            MPI_ERRORS_RETURN => Handler::Return,
            _ => return None,
        };
        Some(Self::predefined(action))
    }

    /// Whether objects of this kind can have the handler.
    fn fits(&self, kind: HandleKind) -> bool {
        match self.action {
            Handler::AreFatal | Handler::Abort | Handler::Return => true,
            Handler::Comm(_) => kind == HandleKind::Comm,
            Handler::Win(_) => kind == HandleKind::Win,
            Handler::File(_) => kind == HandleKind::File,
            Handler::Session(_) => kind == HandleKind::Session,
        }
    }

    fn is(&self, other: &Self) -> bool {
        match (&self.handles, &other.handles) {
            (Some(a), Some(b)) => Rc::ptr_eq(a, b),
            _ => false,
        }
    }
}

/// The part of the library's state that errors need.
pub struct Errors {
    /// Error handlers that the program made.
    pub handlers: HandleTable<MPI_Errhandler, Installed>,
    /// Error classes and codes that the program added.
    pub codes: Codes,
    /// Handlers of objects that do not have the default one.
    set: RefCell<BTreeMap<(HandleKind, usize), Installed>>,
    /// The latest error: its code and sentence.
    last: RefCell<Option<(c_int, String)>>,
    /// The owner of the error, if the call's arguments do not name it: see [`Errors::set_owner`].
    owner: Cell<Option<ErrorOwner>>,
}

impl Errors {
    /// The state before `MPI_Init`.
    pub const fn new() -> Self {
        Self {
            handlers: HandleTable::new(),
            codes: Codes::new(),
            set: RefCell::new(BTreeMap::new()),
            last: RefCell::new(None),
            owner: Cell::new(None),
        }
    }

    /// The error that the running call is about to return belongs to this object. For calls whose
    /// arguments do not name it, such as `MPI_Wait`.
    pub fn set_owner<H: Handle>(&self, handle: H) {
        self.owner.set(Some(ErrorOwner::of(handle)));
    }

    /// The handler of an object; without one of its own, the default of its kind.
    pub fn handler<H: Handle>(&self, object: H) -> Installed {
        self.lookup(H::KIND, object.raw())
    }

    /// A handle of a handler, which the program frees. A handler that the program made keeps its
    /// number as long as it has a handle.
    pub fn share(&self, handler: Installed) -> MPI_Errhandler {
        let Some(handles) = &handler.handles else {
            return match handler.action {
                Handler::Abort => MPI_ERRORS_ABORT,
                Handler::Return => MPI_ERRORS_RETURN,
                _ => MPI_ERRORS_ARE_FATAL,
            };
        };
        handles.set(handles.get() + 1);
        let known = self.handlers.find(|h| h.is(&handler));
        known.unwrap_or_else(|| self.handlers.insert(handler))
    }

    /// The handler of a handle, for objects of this kind.
    ///
    /// # Errors
    /// `Errhandler` for an invalid handle, or one for objects of another kind.
    pub fn find(&self, kind: HandleKind, handle: MPI_Errhandler) -> Result<Installed> {
        let handler = match Installed::of_predefined(handle) {
            Some(handler) => handler,
            None => self.handlers.get(handle)?,
        };
        if !handler.fits(kind) {
            let text = "the error handler was made for objects of another kind";
            return Err(Error::new(ErrorClass::Errhandler, text));
        }
        Ok(handler)
    }

    /// The program freed a handle; the number is invalid once it has freed all of them.
    ///
    /// # Errors
    /// `Errhandler` for an invalid handle.
    pub fn free(&self, handle: MPI_Errhandler) -> Result<()> {
        let handler = self.handlers.get(handle)?;
        if let Some(handles) = &handler.handles {
            handles.set(handles.get() - 1);
            if handles.get() == 0 {
                drop(self.handlers.remove(handle)?);
            }
        }
        Ok(())
    }

    /// Gives an object its handler.
    pub fn set_handler<H: Handle>(&self, object: H, handler: Installed) {
        let key = (H::KIND, object.raw());
        locked(|| self.set.borrow_mut().insert(key, handler));
    }

    /// A new object takes over the handler of the one it was made from (MPI-5.0 §9.3.1).
    pub fn inherit<H: Handle, P: Handle>(&self, new: H, from: P) {
        let found = locked(|| self.set.borrow().get(&(P::KIND, from.raw())).cloned());
        if let Some(handler) = found {
            self.set_handler(new, handler);
        }
    }

    /// An object was freed.
    pub fn forget<H: Handle>(&self, object: H) {
        locked(|| self.set.borrow_mut().remove(&(H::KIND, object.raw())));
    }

    /// Handler of an object: its own, or for files the one of `MPI_FILE_NULL` (return, §14.7), for
    /// others fatal.
    pub(crate) fn lookup(&self, kind: HandleKind, raw: usize) -> Installed {
        let set = self.set.borrow();
        if let Some(handler) = set.get(&(kind, raw)) {
            return handler.clone();
        }
        if kind == HandleKind::File {
            let default = set.get(&(kind, MPI_FILE_NULL.0)).cloned();
            return default.unwrap_or(Installed::predefined(Handler::Return));
        }
        Installed::predefined(Handler::AreFatal)
    }

    /// Keeps the sentence of the latest error.
    pub(crate) fn record(&self, code: c_int, detail: String) {
        self.last.replace(Some((code, detail)));
    }

    /// The owner that [`Errors::set_owner`] gave the running call's error.
    pub(crate) fn take_owner(&self) -> Option<ErrorOwner> {
        self.owner.take()
    }

    /// The text of a code: the program's own; that of a class, with the sentence of the latest
    /// error when this has the code.
    pub fn text(&self, code: c_int) -> Option<String> {
        if let Some(text) = self.codes.text(code) {
            return Some(text);
        }
        let known = format!("{}: {}", class_name(code)?, class_text(code));
        match &*self.last.borrow() {
            Some((last, detail)) if *last == code => Some(format!("{known} ({detail})")),
            _ => Some(known),
        }
    }

    /// One line for the user: first the sentence of the latest error, then the class.
    pub(crate) fn fatal_text(&self, code: c_int) -> String {
        let class = self.codes.class_of(code).and_then(class_name);
        let class = class.map_or_else(|| format!("error code {code}"), str::to_owned);
        match &*self.last.borrow() {
            Some((last, detail)) if *last == code => format!("{detail} ({class})"),
            _ => class,
        }
    }
}

impl Default for Errors {
    fn default() -> Self {
        Self::new()
    }
}

/// Takes the lock for state that errors share with functions that any thread may call at any time
/// (`MPI_Error_string`, `MPI_Info_create`; MPI-5.0 §11.6.1), also below `MPI_THREAD_MULTIPLE`.
pub(crate) fn locked<R>(touch: impl FnOnce() -> R) -> R {
    lock::acquire();
    let result = touch();
    lock::release();
    result
}

/// The number of an error for the program.
pub fn code(error: &Error) -> c_int {
    error.code.unwrap_or_else(|| class_number(error.class))
}
