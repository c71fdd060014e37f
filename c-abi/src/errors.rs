//! Errors on their way to the program (MPI-5.0 chapter 9): which handler, which code, which text.
//!
//! Handlers are kept here, by handle value of the object that has one, so that the fast path carries
//! nothing of them. A returned code is the number of the error class; the sentence that says what was
//! wrong is kept for `MPI_Error_string` until the next error.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::rc::Rc;

use rejoin_mpi::{Error, Result};

use crate::callback::outside;
use crate::constants::*;
use crate::enter::Call;
use crate::functions::environment::errhandler::session_handler;
use crate::handles::{Handle, Kind, Table};
use crate::lock;
use crate::state::Mpi;
use crate::types::*;

mod codes;
mod strings;

pub use codes::Codes;
pub use strings::{class_name, class_text};

/// Whose error handler an error goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Nobody's: the handler of `MPI_COMM_SELF` (MPI-5.0 §9.1).
    None,
    /// The object of this kind and handle value.
    Object(Kind, usize),
    /// The same, read from where the program keeps the handle (`MPI_Comm_free`).
    At(Kind, *const usize),
    /// The object that the call makes, with the handler that it gets (`MPI_Session_init`).
    Made(MPI_Errhandler),
    /// A function of the tools' interface: the code is returned, no handler runs.
    Tool,
}

impl Owner {
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

/// What an error handler does.
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

/// An error handler object: what it does, and, for those that the program made, how many of its handles
/// the program has still to free. Copies are the same object.
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
    pub handlers: Table<MPI_Errhandler, Installed>,
    /// Error classes and codes that the program added.
    pub codes: Codes,
    /// Handlers of objects that do not have the default one.
    set: RefCell<BTreeMap<(Kind, usize), Installed>>,
    /// The latest error: its code and sentence.
    last: RefCell<Option<(c_int, String)>>,
    /// A better owner than the call's arguments tell, see [`Errors::blame`].
    blamed: Cell<Option<Owner>>,
}

impl Errors {
    /// The state before `MPI_Init`.
    pub const fn new() -> Self {
        Self {
            handlers: Table::new(),
            codes: Codes::new(),
            set: RefCell::new(BTreeMap::new()),
            last: RefCell::new(None),
            blamed: Cell::new(None),
        }
    }

    /// The error that the running call is about to return belongs to this object. For calls whose
    /// arguments do not name it, such as `MPI_Wait`.
    pub fn blame<H: Handle>(&self, handle: H) {
        self.blamed.set(Some(Owner::of(handle)));
    }

    /// The handler of an object; without one of its own, the default of its kind.
    pub fn handler<H: Handle>(&self, object: H) -> Installed {
        self.lookup(H::KIND, object.raw())
    }

    /// One more handle of a handler that the program made: the same number as long as it has one.
    pub fn share(&self, handler: Installed) -> MPI_Errhandler {
        let Some(handles) = &handler.handles else {
            return MPI_ERRHANDLER_NULL;
        };
        handles.set(handles.get() + 1);
        let known = self.handlers.find(|h| h.is(&handler));
        known.unwrap_or_else(|| self.handlers.insert(handler))
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
    fn lookup(&self, kind: Kind, raw: usize) -> Installed {
        let set = self.set.borrow();
        if let Some(handler) = set.get(&(kind, raw)) {
            return handler.clone();
        }
        if kind == Kind::File {
            let default = set.get(&(kind, MPI_FILE_NULL.0)).cloned();
            return default.unwrap_or(Installed::predefined(Handler::Return));
        }
        Installed::predefined(Handler::AreFatal)
    }

    /// The handler that an error of `owner` goes to and the object it is told about. Null handles have
    /// no handler of their own (except `MPI_FILE_NULL`), nor do handles of nothing: their errors go to
    /// `MPI_COMM_SELF`'s.
    fn resolve(&self, mpi: &Mpi, owner: Owner) -> (Handler, Kind, usize) {
        let (kind, raw) = match owner {
            Owner::Object(kind, raw) => (kind, raw),
            Owner::Made(handle) => {
                if let Ok(handler) = session_handler(mpi, handle) {
                    return (handler.action, Kind::Session, MPI_SESSION_NULL.0);
                }
                return self.resolve(mpi, Owner::None);
            }
            // SAFETY: not null; the program passed it as a pointer to its handle.
            Owner::At(kind, at) if !at.is_null() => (kind, unsafe { at.read() }),
            // Not to be looked up: another thread may be making a communicator.
            _ => {
                let own = self.lookup(Kind::Comm, MPI_COMM_SELF.0).action;
                return (own, Kind::Comm, MPI_COMM_SELF.0);
            }
        };
        if kind != Kind::File && !mpi.exists(kind, raw) {
            let own = self.lookup(Kind::Comm, MPI_COMM_SELF.0).action;
            return (own, Kind::Comm, MPI_COMM_SELF.0);
        }
        (self.lookup(kind, raw).action, kind, raw)
    }

    /// The text of a code: of the latest error when it has this code, of an added code, of a class.
    pub fn text(&self, code: c_int) -> Option<String> {
        let known = match self.codes.text(code) {
            Some(text) => text,
            None => format!("{}: {}", class_name(code)?, class_text(code)),
        };
        match &*self.last.borrow() {
            Some((last, detail)) if *last == code => Some(format!("{known} ({detail})")),
            _ => Some(known),
        }
    }

    /// One line for the user: what the latest error says first, then the class.
    fn fatal_text(&self, code: c_int) -> String {
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

/// What errors share with functions that any thread may call at any time (`MPI_Error_string`,
/// `MPI_Info_create`; MPI-5.0 §11.6.1) is touched under the lock, also below `MPI_THREAD_MULTIPLE`.
fn locked<R>(touch: impl FnOnce() -> R) -> R {
    lock::acquire();
    let result = touch();
    lock::release();
    result
}

/// The number of an error for the program.
pub fn code(error: &Error) -> c_int {
    error.code.unwrap_or_else(|| class_number(error.class))
}

/// Sends an error to the handler of `owner`; what comes back is the call's return value.
#[cold]
#[inline(never)]
pub fn raise(mpi: &Mpi, call: &Call, owner: Owner, error: Error) -> c_int {
    let code = code(&error);
    let detail = format!("{}: {}", call.name, error.message);
    locked(|| mpi.errors.last.replace(Some((code, detail))));
    if owner == Owner::Tool {
        return code;
    }
    // What any thread may call at any time names its owner itself.
    let owner = match call.lock_always {
        true => owner,
        false => mpi.errors.blamed.take().unwrap_or(owner),
    };
    invoke(mpi, owner, code)
}

/// Runs the handler of `owner` with `code`; gives the code as the handler left it.
pub fn invoke(mpi: &Mpi, owner: Owner, mut code: c_int) -> c_int {
    let (handler, kind, raw) = locked(|| mpi.errors.resolve(mpi, owner));
    let code_at = &raw mut code;
    // The handlers' functions get the handle of the object, which they may read through the pointer.
    let (mut comm, mut win) = (MPI_Comm(raw), MPI_Win(raw));
    let (mut file, mut session) = (MPI_File(raw), MPI_Session(raw));
    match handler {
        Handler::Return => {}
        Handler::AreFatal | Handler::Abort => {
            let object = crate::handles::name(raw).unwrap_or(match kind {
                Kind::Win => "a window",
                Kind::File => "a file",
                Kind::Session => "a session",
                _ => "a communicator",
            });
            let why = locked(|| mpi.errors.fatal_text(code));
            crate::abort::abort(
                mpi,
                code,
                &format!("{why}, and the error handler of {object} is fatal"),
            );
        }
        // SAFETY: (all four) the program gave this function for this use; both pointers live.
        Handler::Comm(f) => outside(|| unsafe { f(&raw mut comm, code_at) }),
        // SAFETY: see above.
        Handler::Win(f) => outside(|| unsafe { f(&raw mut win, code_at) }),
        // SAFETY: see above.
        Handler::File(f) => outside(|| unsafe { f(&raw mut file, code_at) }),
        // SAFETY: see above.
        Handler::Session(f) => outside(|| unsafe { f(&raw mut session, code_at) }),
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::enter::{Phase, enter};
    use crate::state;

    /// As `MPI_Comm_rank` and `MPI_Error_string` are entered.
    static ANY_THREAD: Call = Call::new("MPI_Error_string", Phase::Any, true);
    static MAIN_ONLY: Call = Call::new("MPI_Comm_rank", Phase::Running, false);

    // Below MPI_THREAD_MULTIPLE the thread that fails holds no lock.
    #[test]
    fn a_thread_may_ask_for_texts_while_another_one_fails() {
        // SAFETY: what is shared is touched under the lock; this is what is tested.
        let mpi = || unsafe { state::mpi() };
        let returning = Installed::predefined(Handler::Return);
        mpi().errors.set_handler(MPI_COMM_SELF, returning);
        let fail = |i: usize| {
            let error = Error::new(rejoin_mpi::ErrorClass::Rank, format!("{i}"));
            assert_eq!(
                raise(mpi(), &MAIN_ONLY, Owner::None, error),
                MPI_ERR_RANK,
                "the handler of MPI_COMM_SELF returns"
            );
        };
        fail(0);
        std::thread::scope(|s| {
            s.spawn(|| (0..50_000).for_each(fail));
            for _ in 0..50_000 {
                let code = enter(&ANY_THREAD, Owner::None, |mpi| {
                    let text = mpi.errors.text(MPI_ERR_RANK).expect("a known class");
                    assert!(text.contains("MPI_Comm_rank: "), "{text}");
                    Ok(())
                });
                assert_eq!(code, MPI_SUCCESS);
            }
        });
    }
}
