//! A file that is open on all ranks of a communicator.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::access_mode::{AccessMode, FileDirection};
use super::file_view::{FileView, ViewArguments};
use super::hints::FileHints;
use super::shared_pointer::{SharedPointer, not_with_logging};
use super::storage::FileStorage;
use crate::comm::Communicator;
use crate::error::{Error, ErrorClass, Result};
use crate::info::Info;
use crate::runtime::Mpi;
use crate::status::Status;

/// A split collective access that has begun (MPI-5.0 §14.4.5): its direction, the address of the
/// buffer, and its result.
pub(super) struct SplitAccess {
    pub direction: FileDirection,
    pub buffer: usize,
    pub status: Status,
}

/// A file that is open on all ranks of a communicator.
///
/// ```
/// use rejoin_mpi::Mpi;
/// use rejoin_mpi::datatype::{Datatype, Named};
/// use rejoin_mpi::file::{self, AccessMode, FileDirection, FilePosition};
/// use rejoin_mpi::p2p::Typed;
///
/// let mpi = Mpi::init()?;
/// let path = std::env::temp_dir().join(format!("rejoin-doc-{}", std::process::id()));
/// let mode = AccessMode::CREATE | AccessMode::RDWR | AccessMode::DELETE_ON_CLOSE;
/// let opened = file::open(&mpi, mpi.self_comm(), Ok(path), mode, Ok(None))?;
/// let (mut out, mut into) = ([1i32, 2, 3], [0i32; 2]);
/// let int = Datatype::named(Named::Int);
/// // SAFETY: both arrays stay until the calls return.
/// let (out, into_them) = unsafe {
///     let out = Typed::new(out.as_mut_ptr().cast(), 3, int.clone());
///     (out, Typed::new(into.as_mut_ptr().cast(), 2, int))
/// };
/// opened.access(FileDirection::Write, FilePosition::Individual, Ok(out))?;
/// let status = opened.access(FileDirection::Read, FilePosition::At(4), Ok(into_them))?;
/// assert_eq!((status.count, into), (8, [2, 3]));
/// file::close(&opened)?;
/// # Ok::<(), rejoin_mpi::Error>(())
/// ```
pub struct MpiFile {
    pub(super) mpi: Rc<Mpi>,
    /// The file's own: its messages meet no others.
    pub(super) comm: Rc<Communicator>,
    pub(super) storage: FileStorage,
    pub(super) mode: AccessMode,
    pub(super) hints: RefCell<Rc<FileHints>>,
    pub(super) view: RefCell<Rc<FileView>>,
    /// The individual pointer, in etypes.
    pub(super) position: Cell<i64>,
    pub(super) shared: SharedPointer,
    pub(super) is_atomic: Cell<bool>,
    pub(super) split: RefCell<Option<SplitAccess>>,
}

impl std::fmt::Debug for MpiFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MpiFile({:?})", self.storage)
    }
}

impl MpiFile {
    /// The communicator of the file's own. Its handle is that of the file, whose error handler gets
    /// the errors of requests.
    pub fn comm(&self) -> &Rc<Communicator> {
        &self.comm
    }

    /// `MPI_File_get_amode`.
    pub fn mode(&self) -> AccessMode {
        self.mode
    }

    /// `MPI_File_get_size`, in bytes.
    pub fn size(&self) -> Result<i64> {
        self.storage.size()
    }

    /// `MPI_File_get_view`.
    pub fn view_arguments(&self) -> ViewArguments {
        self.view.borrow().arguments().clone()
    }

    /// `MPI_File_get_atomicity`.
    pub fn is_atomic(&self) -> bool {
        self.is_atomic.get()
    }

    /// `MPI_File_get_info`.
    pub fn info(&self) -> Result<Info> {
        self.hints.borrow().to_info()
    }

    /// The shared pointer.
    ///
    /// # Errors
    /// `UnsupportedOperation` in logging modes: a rank that returns alone would get other values.
    pub(super) fn shared_pointer(&self) -> Result<&SharedPointer> {
        match self.mpi.repeats_answers() {
            false => Ok(&self.shared),
            true => Err(not_with_logging()),
        }
    }

    /// # Errors
    /// `Other` between the two halves of a split collective access.
    pub(super) fn check_no_split(&self) -> Result<()> {
        if self.split.borrow().is_none() {
            return Ok(());
        }
        let text = "the file is between the two halves of a split collective access";
        Err(Error::new(ErrorClass::Other, text))
    }
}
