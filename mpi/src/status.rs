//! The status of a completed operation (MPI-5.0 §3.2.5), and the standard's special ranks and tags.

use crate::error::Error;

/// `MPI_ANY_SOURCE`, with the ABI's number so that nothing needs converting.
pub const ANY_SOURCE: i32 = -1;
/// `MPI_ANY_TAG`.
pub const ANY_TAG: i32 = -2;
/// `MPI_PROC_NULL`.
pub const PROC_NULL: i32 = -3;
/// `MPI_ROOT`.
pub const ROOT: i32 = -4;
/// In place of the root's rank, in a collective on an intercommunicator: this process (`MPI_ROOT`).
pub const ROOT_HERE: usize = ROOT as u32 as usize;
/// In place of the root's rank: another process of this process's group (`MPI_PROC_NULL`).
pub const ROOT_BESIDE: usize = PROC_NULL as u32 as usize;
/// `MPI_UNDEFINED`.
pub const UNDEFINED: i32 = -32766;
/// Largest tag, the value of the attribute `MPI_TAG_UB`.
pub const TAG_UB: i32 = i32::MAX;

/// Source, tag and size of a message, as `MPI_Status` carries them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Rank of the sender in the communicator, or [`ANY_SOURCE`] when empty.
    pub source: i32,
    /// Tag of the message, or [`ANY_TAG`] when empty.
    pub tag: i32,
    /// Bytes received, packed size.
    pub count: u64,
    /// True when the operation was cancelled.
    pub cancelled: bool,
}

impl Status {
    /// The empty status of inactive and null requests and of sends.
    pub const EMPTY: Status = Status {
        source: ANY_SOURCE,
        tag: ANY_TAG,
        count: 0,
        cancelled: false,
    };
    /// The status of a message of so many bytes that was received or probed.
    #[inline(always)]
    pub(crate) const fn of(source: i32, tag: i32, count: u64) -> Status {
        Status {
            source,
            tag,
            count,
            cancelled: false,
        }
    }

    /// The status of a receive from `MPI_PROC_NULL` (MPI-5.0 §3.10).
    pub const PROC_NULL: Status = Status {
        source: PROC_NULL,
        tag: ANY_TAG,
        count: 0,
        cancelled: false,
    };
}

/// A finished operation: its status, and its error if it failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    /// The status of the operation; it is also meaningful with an error (truncation).
    pub status: Status,
    /// Why it failed.
    pub error: Option<Error>,
}

impl Completed {
    /// A success.
    pub const fn ok(status: Status) -> Self {
        Self {
            status,
            error: None,
        }
    }

    /// The status, or the error.
    pub fn into_result(self) -> Result<Status, Error> {
        match self.error {
            None => Ok(self.status),
            Some(e) => Err(e),
        }
    }
}
