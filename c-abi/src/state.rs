//! Everything that the library of one process holds.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::time::Duration;

use rejoin_mpi::op::Op;
use rejoin_mpi::p2p::Message;
use rejoin_mpi::{Communicator, Error, ErrorClass, Group, Info, Mpi as Core, Result};

use crate::constants::MPI_FILE_NULL;
use crate::errors::Errors;
use crate::functions::datatype::Datatypes;
use crate::functions::memory::Memory;
use crate::functions::session::Session;
use crate::handles::{Kind, Table};
use crate::types::{MPI_Comm, MPI_Group, MPI_Info, MPI_Message, MPI_Op, MPI_Session};

/// The library's objects. One per process; reached through [`crate::enter::enter`] only, so that one
/// thread at a time sees it.
pub struct Mpi {
    /// Error handlers, error codes of the program, the last error.
    pub errors: Errors,
    /// Datatypes.
    pub datatypes: Datatypes,
    /// Reduction operations.
    pub ops: Table<MPI_Op, Rc<Op>>,
    /// The runtime, from `MPI_Init` on.
    pub core: OnceCell<Rc<Core>>,
    /// Communicators.
    pub comms: Table<MPI_Comm, Rc<Communicator>>,
    /// Groups.
    pub groups: Table<MPI_Group, Rc<Group>>,
    /// Info objects.
    pub infos: Table<MPI_Info, Rc<Info>>,
    /// Messages taken by matching probes.
    pub messages: Table<MPI_Message, Message>,
    /// Sessions.
    pub sessions: Table<MPI_Session, Rc<Session>>,
    /// How many sessions, and the world model as one more, use the runtime.
    pub users: Cell<u32>,
    /// What `MPI_Alloc_mem` gave out.
    pub memory: Memory,
}

/// The one instance.
struct Shared(Mpi);

// SAFETY: `mpi()` is called by entry points that passed the gate. At MPI_THREAD_MULTIPLE they hold the
// lock; below it the program promises one thread at a time (MPI-5.0 §11.6.2), and functions that are
// thread-safe at any level always take the lock.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared(Mpi::new());

/// The library's objects.
///
/// # Safety
/// No other thread uses them during the call: see [`crate::enter::enter`].
#[inline(always)]
pub unsafe fn mpi() -> &'static Mpi {
    &SHARED.0
}

impl Mpi {
    /// The state before `MPI_Init`.
    pub const fn new() -> Self {
        Self {
            errors: Errors::new(),
            datatypes: Datatypes::new(),
            ops: Table::new(),
            core: OnceCell::new(),
            comms: Table::new(),
            groups: Table::new(),
            infos: Table::new(),
            messages: Table::new(),
            sessions: Table::new(),
            users: Cell::new(0),
            memory: Memory::new(),
        }
    }

    /// The runtime. Calls that the gate lets through find it.
    ///
    /// # Errors
    /// Before `MPI_Init`.
    #[inline(always)]
    pub fn core(&self) -> Result<&Rc<Core>> {
        self.core.get().ok_or_else(not_there)
    }

    /// Whether a handle of this kind stands for an object that can have an error handler. Files: also
    /// `MPI_FILE_NULL`, whose handler is the default of all files (MPI-5.0 §14.7).
    pub fn exists(&self, kind: Kind, raw: usize) -> bool {
        match kind {
            Kind::Comm => self.comms.contains(MPI_Comm(raw)),
            Kind::Session => self.sessions.contains(MPI_Session(raw)),
            Kind::File => raw == MPI_FILE_NULL.0,
            _ => false,
        }
    }

    /// Ends the whole job (MPI-5.0 §9.3, §9.4 `MPI_Abort`): `why` is one line for the user.
    pub fn abort(&self, code: i32, why: &str) -> ! {
        let line = match self.core.get() {
            Some(core) => format!("rejoin: rank {}: {why}\n", core.rank()),
            None => format!("rejoin: {why}\n"),
        };
        say_last(line);
        // What the parent sees is the low byte, and it must not look like success.
        let status = if code & 0xff == 0 { 1 } else { code & 0xff };
        if let Some(core) = self.core.get() {
            core.abort(status);
        }
        // SAFETY: ends the process without running the program's exit handlers, which may call MPI.
        unsafe { libc::_exit(status) }
    }
}

impl Default for Mpi {
    fn default() -> Self {
        Self::new()
    }
}

/// How long an abort waits for its line and the program's output to get away.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Writes `line` and what the program has printed, and waits for it, but not for ever: a full pipe or a
/// thread that reads from a stream, which holds the stream's lock, must not keep the job from its end.
fn say_last(line: String) {
    let (done, waiting) = std::sync::mpsc::channel::<()>();
    let speak = move || {
        // One write, so that lines of several ranks do not mix; not through a lock of this process. Nobody
        // is left to tell when standard error is gone.
        // SAFETY: the line is alive during the call.
        unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
        // SAFETY: writes out what the program printed; null means all of its streams.
        unsafe { libc::fflush(std::ptr::null_mut()) };
        drop(done);
    };
    // Without a thread the end must come all the same, and silently.
    if std::thread::Builder::new().spawn(speak).is_ok() {
        let _ = waiting.recv_timeout(LAST_WORDS);
    }
}

#[cold]
fn not_there() -> Error {
    Error::new(ErrorClass::Other, "called before MPI_Init")
}
