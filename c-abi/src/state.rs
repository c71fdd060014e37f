//! Everything that the library of one process holds.

use std::alloc::Layout;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::rc::Rc;

use rejoin_mpi::file::MpiFile;
use rejoin_mpi::op::Op;
use rejoin_mpi::p2p::MatchedMessage;
use rejoin_mpi::registered::Registered;
use rejoin_mpi::{Communicator, Error, ErrorClass, Group, Info, Mpi as Core, Result};

use crate::constants::MPI_FILE_NULL;
use crate::errors::Errors;
use crate::handles::{HandleKind, HandleTable};
use crate::library_state;
use crate::types::{MPI_Comm, MPI_File, MPI_Group, MPI_Info, MPI_Message, MPI_Op, MPI_Session};

pub mod datatypes;
pub mod fortran_facts;

use datatypes::Datatypes;
use fortran_facts::FortranFacts;

/// The object behind a session's handle.
#[derive(Debug)]
pub struct SessionState {
    /// The thread level that it provides, an `MPI_THREAD_…` constant.
    pub level: c_int,
}

/// The library's objects. One per process; reached through [`crate::enter::enter`] only, so that
/// one thread at a time sees it.
pub struct AbiState {
    /// Error handlers, error codes of the program, the last error.
    pub errors: Errors,
    /// Datatypes.
    pub datatypes: Datatypes,
    /// Reduction operations.
    pub ops: HandleTable<MPI_Op, Rc<Op>>,
    /// The runtime, from `MPI_Init` on.
    pub core: OnceCell<Rc<Core>>,
    /// Communicators.
    pub comms: HandleTable<MPI_Comm, Rc<Communicator>>,
    /// Files.
    pub files: HandleTable<MPI_File, Rc<MpiFile>>,
    /// Names of data representations that the program has registered.
    pub datareps: RefCell<Vec<String>>,
    /// Groups.
    pub groups: HandleTable<MPI_Group, Rc<Group>>,
    /// Info objects.
    pub infos: HandleTable<MPI_Info, Rc<Info>>,
    /// Messages taken by matching probes.
    pub messages: HandleTable<MPI_Message, MatchedMessage>,
    /// Sessions.
    pub sessions: HandleTable<MPI_Session, Rc<SessionState>>,
    /// How many sessions, and the world model as one more, use the runtime.
    pub users: Cell<u32>,
    /// How often the tools' interface is open.
    pub tools: Cell<u32>,
    /// Memory of `MPI_Alloc_mem`: address to layout.
    pub memory: RefCell<BTreeMap<usize, Layout>>,
    /// Memory that is stored with a checkpoint.
    pub regions: Registered,
    /// What a library for Fortran has said.
    pub fortran: FortranFacts,
}

/// The one instance.
struct Shared(AbiState);

// SAFETY: Entry points call `mpi()` after they have checked the library's state. At
// MPI_THREAD_MULTIPLE they hold the lock. Below it the program promises one thread at a time
// (MPI-5.0 §11.6.2). Functions that are thread-safe at any level always take the lock.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared(AbiState::new());

/// The library's objects.
///
/// # Safety
/// No other thread uses them during the call: see [`crate::enter::enter`].
#[inline(always)]
pub unsafe fn mpi() -> &'static AbiState {
    &SHARED.0
}

impl AbiState {
    /// The state before `MPI_Init`.
    pub const fn new() -> Self {
        Self {
            errors: Errors::new(),
            datatypes: Datatypes::new(),
            ops: HandleTable::new(),
            core: OnceCell::new(),
            comms: HandleTable::new(),
            files: HandleTable::new(),
            datareps: RefCell::new(Vec::new()),
            groups: HandleTable::new(),
            infos: HandleTable::new(),
            messages: HandleTable::new(),
            sessions: HandleTable::new(),
            users: Cell::new(0),
            tools: Cell::new(0),
            memory: RefCell::new(BTreeMap::new()),
            regions: Registered::new(),
            fortran: FortranFacts::new(),
        }
    }

    /// The runtime. Calls that need a running library find it.
    ///
    /// # Errors
    /// Before `MPI_Init`.
    #[inline(always)]
    pub fn core(&self) -> Result<&Rc<Core>> {
        self.core.get().ok_or_else(not_there)
    }

    /// Whether a handle of this kind stands for an object that can have an error handler. Files:
    /// also `MPI_FILE_NULL`, whose handler is the default of all files (MPI-5.0 §14.7).
    pub fn exists(&self, kind: HandleKind, raw: usize) -> bool {
        match kind {
            HandleKind::Comm => self.comms.contains(MPI_Comm(raw)),
            HandleKind::Session => self.sessions.contains(MPI_Session(raw)),
            HandleKind::File => raw == MPI_FILE_NULL.0 || self.files.contains(MPI_File(raw)),
            _ => false,
        }
    }

    /// Whether this is the process that called `MPI_Init`, or none has.
    ///
    /// # Errors
    /// In a child that `fork` made of it.
    pub fn check_process(&self) -> Result<()> {
        if !library_state::is_forked() {
            return Ok(());
        }
        let parent = self
            .core
            .get()
            .map_or_else(String::new, |core| format!(" of rank {}", core.rank()));
        let text = format!(
            "called in process {}, a child{parent} that fork() made: only the process that called \
             MPI_Init may call MPI",
            std::process::id()
        );
        Err(Error::new(ErrorClass::Other, text))
    }
}

impl Default for AbiState {
    fn default() -> Self {
        Self::new()
    }
}

#[cold]
fn not_there() -> Error {
    Error::new(ErrorClass::Other, "called before MPI_Init")
}
