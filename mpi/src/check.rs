//! Checks of arguments that many calls share (MPI-5.0 §3.2, §9.2).

use crate::comm::Communicator;
use crate::error::{Error, ErrorClass, Result, counted};
use crate::status::{ANY_SOURCE, ANY_TAG, PROC_NULL, ROOT_BESIDE, ROOT_HERE};

#[cold]
fn bad_rank(rank: i32, what: &str, comm: &Communicator) -> Error {
    let size = comm.peers().size();
    let name = comm.name();
    Error::new(
        ErrorClass::Rank,
        format!(
            "{what} {rank} is not in communicator \"{name}\" of {}",
            counted(size, "rank")
        ),
    )
}

/// Destination of a send: a rank or `MPI_PROC_NULL`.
#[inline]
pub fn destination(rank: i32, comm: &Communicator) -> Result<()> {
    if (rank >= 0 && (rank as usize) < comm.peers().size()) || rank == PROC_NULL {
        return Ok(());
    }
    Err(bad_rank(rank, "destination", comm))
}

/// Source of a receive: a rank, `MPI_ANY_SOURCE` or `MPI_PROC_NULL`.
#[inline]
pub fn source(rank: i32, comm: &Communicator) -> Result<()> {
    let known = (rank >= 0 && (rank as usize) < comm.peers().size()) || rank == ANY_SOURCE;
    if known || rank == PROC_NULL {
        return Ok(());
    }
    Err(bad_rank(rank, "source", comm))
}

/// Tag of a send: 0 to `MPI_TAG_UB`, which is the largest `int`.
#[inline]
pub fn tag(tag: i32) -> Result<()> {
    if tag >= 0 {
        return Ok(());
    }
    let text = format!("tag {tag} is not in 0..={}", crate::status::TAG_UB);
    Err(Error::new(ErrorClass::Tag, text))
}

/// Tag of a receive: as [`tag`], or `MPI_ANY_TAG`.
#[inline]
pub fn tag_or_any(value: i32) -> Result<()> {
    if value == ANY_TAG { Ok(()) } else { tag(value) }
}

/// Rank of a member of the group that ranks in point-to-point calls mean, `what` it is.
pub fn member(rank: i32, what: &str, comm: &Communicator) -> Result<usize> {
    let found = usize::try_from(rank).ok();
    let found = found.filter(|&r| r < comm.peers().size());
    found.ok_or_else(|| bad_rank(rank, what, comm))
}

/// Root of a collective on an intracommunicator.
#[inline]
pub fn root(rank: i32, comm: &Communicator) -> Result<usize> {
    // A negative number becomes larger than any size.
    match rank as u32 as usize {
        r if r < comm.size() => Ok(r),
        _ => {
            let e = bad_rank(rank, "root", comm);
            Err(Error::new(ErrorClass::Root, e.message))
        }
    }
}

/// Root of a collective: as [`root`], or on an intercommunicator a rank of the other group, or
/// [`ROOT_HERE`] or [`ROOT_BESIDE`] for `MPI_ROOT` and `MPI_PROC_NULL` (MPI-5.0 §6.2.3).
#[inline]
pub fn any_root(rank: i32, comm: &Communicator) -> Result<usize> {
    if !comm.is_inter() {
        return root(rank, comm);
    }
    match rank as u32 as usize {
        side @ (ROOT_HERE | ROOT_BESIDE) => Ok(side),
        r if r < comm.peers().size() => Ok(r),
        _ => {
            let e = bad_rank(rank, "root", comm);
            Err(Error::new(ErrorClass::Root, e.message))
        }
    }
}

/// The communicator of a call that is for intracommunicators only.
#[inline]
pub fn intra(comm: &Communicator) -> Result<()> {
    if !comm.is_inter() {
        return Ok(());
    }
    let text = "the communicator is an intercommunicator, and this call is for intracommunicators";
    Err(Error::new(ErrorClass::Comm, text))
}

/// Whether a buffer to send is the one for the blocks of all ranks, or this rank's block in it, of
/// `block` bytes. `MPI_IN_PLACE` is the way to express that (MPI-5.0 §6.2.3).
#[inline]
pub fn is_own_block(send: *const u8, recv: *const u8, block: isize, rank: usize) -> bool {
    send == recv || send == recv.wrapping_byte_offset(block.wrapping_mul(rank as isize))
}

/// A count.
#[inline]
pub fn count(n: i64) -> Result<()> {
    if n >= 0 {
        return Ok(());
    }
    Err(Error::new(
        ErrorClass::Count,
        format!("count {n} is negative"),
    ))
}
