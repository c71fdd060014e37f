//! Errors of the MPI layer: a standard error class and a sentence that says what was wrong.

use std::borrow::Cow;
use std::fmt;

/// Result of the MPI layer.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The standard's error classes (MPI-5.0 §9.4). Their numbers belong to the ABI and live there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// `MPI_ERR_BUFFER`.
    Buffer,
    /// `MPI_ERR_COUNT`.
    Count,
    /// `MPI_ERR_TYPE`.
    Type,
    /// `MPI_ERR_TAG`.
    Tag,
    /// `MPI_ERR_COMM`.
    Comm,
    /// `MPI_ERR_RANK`.
    Rank,
    /// `MPI_ERR_REQUEST`.
    Request,
    /// `MPI_ERR_ROOT`.
    Root,
    /// `MPI_ERR_GROUP`.
    Group,
    /// `MPI_ERR_OP`.
    Op,
    /// `MPI_ERR_TOPOLOGY`.
    Topology,
    /// `MPI_ERR_DIMS`.
    Dims,
    /// `MPI_ERR_ARG`.
    Arg,
    /// `MPI_ERR_UNKNOWN`.
    Unknown,
    /// `MPI_ERR_TRUNCATE`.
    Truncate,
    /// `MPI_ERR_OTHER`.
    Other,
    /// `MPI_ERR_INTERN`.
    Intern,
    /// `MPI_ERR_PENDING`.
    Pending,
    /// `MPI_ERR_IN_STATUS`.
    InStatus,
    /// `MPI_ERR_ACCESS`.
    Access,
    /// `MPI_ERR_AMODE`.
    Amode,
    /// `MPI_ERR_ASSERT`.
    Assert,
    /// `MPI_ERR_BAD_FILE`.
    BadFile,
    /// `MPI_ERR_BASE`.
    Base,
    /// `MPI_ERR_CONVERSION`.
    Conversion,
    /// `MPI_ERR_DISP`.
    Disp,
    /// `MPI_ERR_DUP_DATAREP`.
    DupDatarep,
    /// `MPI_ERR_FILE_EXISTS`.
    FileExists,
    /// `MPI_ERR_FILE_IN_USE`.
    FileInUse,
    /// `MPI_ERR_FILE`.
    File,
    /// `MPI_ERR_INFO_KEY`.
    InfoKey,
    /// `MPI_ERR_INFO_NOKEY`.
    InfoNokey,
    /// `MPI_ERR_INFO_VALUE`.
    InfoValue,
    /// `MPI_ERR_INFO`.
    Info,
    /// `MPI_ERR_IO`.
    Io,
    /// `MPI_ERR_KEYVAL`.
    Keyval,
    /// `MPI_ERR_LOCKTYPE`.
    Locktype,
    /// `MPI_ERR_NAME`.
    Name,
    /// `MPI_ERR_NO_MEM`.
    NoMem,
    /// `MPI_ERR_NOT_SAME`.
    NotSame,
    /// `MPI_ERR_NO_SPACE`.
    NoSpace,
    /// `MPI_ERR_NO_SUCH_FILE`.
    NoSuchFile,
    /// `MPI_ERR_PORT`.
    Port,
    /// `MPI_ERR_QUOTA`.
    Quota,
    /// `MPI_ERR_READ_ONLY`.
    ReadOnly,
    /// `MPI_ERR_RMA_ATTACH`.
    RmaAttach,
    /// `MPI_ERR_RMA_CONFLICT`.
    RmaConflict,
    /// `MPI_ERR_RMA_RANGE`.
    RmaRange,
    /// `MPI_ERR_RMA_SHARED`.
    RmaShared,
    /// `MPI_ERR_RMA_SYNC`.
    RmaSync,
    /// `MPI_ERR_SERVICE`.
    Service,
    /// `MPI_ERR_SIZE`.
    Size,
    /// `MPI_ERR_SPAWN`.
    Spawn,
    /// `MPI_ERR_UNSUPPORTED_DATAREP`.
    UnsupportedDatarep,
    /// `MPI_ERR_UNSUPPORTED_OPERATION`.
    UnsupportedOperation,
    /// `MPI_ERR_WIN`.
    Win,
    /// `MPI_ERR_RMA_FLAVOR`.
    RmaFlavor,
    /// `MPI_ERR_PROC_ABORTED`.
    ProcAborted,
    /// `MPI_ERR_VALUE_TOO_LARGE`.
    ValueTooLarge,
    /// `MPI_ERR_SESSION`.
    Session,
    /// `MPI_ERR_ERRHANDLER`.
    Errhandler,
    /// `MPI_ERR_ABI`.
    Abi,
}

/// An error of an MPI call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The standard's class.
    pub class: ErrorClass,
    /// One sentence with the offending values, for `MPI_Error_string` and the abort message.
    pub message: Cow<'static, str>,
    /// The code that a user's callback or `MPI_Add_error_code` returned, when it is not the class
    /// itself.
    pub code: Option<i32>,
}

/// An error of the device, with the class that the standard has for it.
pub(crate) fn as_error(e: rejoin_device::Error) -> Error {
    let class = match e {
        rejoin_device::Error::Buffer { .. } => ErrorClass::Buffer,
        _ => ErrorClass::Other,
    };
    Error::new(class, e.to_string())
}

impl Error {
    /// An error of `class` with its reason.
    pub fn new(class: ErrorClass, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            class,
            message: message.into(),
            code: None,
        }
    }

    /// An error whose code came from the user (a callback's return value): passed through
    /// unchanged.
    pub fn user(code: i32, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            class: ErrorClass::Other,
            message: message.into(),
            code: Some(code),
        }
    }
}

/// A number with its noun, for messages: `1 byte`, `2 bytes`.
pub fn counted(count: impl fmt::Display, noun: &str) -> String {
    let count = count.to_string();
    let end = if count == "1" { "" } else { "s" };
    format!("{count} {noun}{end}")
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
