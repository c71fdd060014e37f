//! Handles that the library writes only when a request completes: the communicators of
//! `MPI_COMM_IDUP`. The program's integer follows at the call that completes the request.

use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::fortran_export::{fortran, give};
use crate::fortran_handles::{CHandle, COMM, INFO, NOTHING, REQUEST};
use crate::generated::c_functions::*;

/// A handle that the library will write, and where its integer belongs.
struct Late {
    handle: *mut CHandle,
    number: *mut c_int,
}

// SAFETY: the places stay until the request completes, whichever thread completes it.
unsafe impl Send for Late {}

impl Late {
    /// The handle, once the library has written it.
    fn written(&self) -> Option<CHandle> {
        // SAFETY: the place is a box of this file. The library writes a whole word.
        let made = unsafe { self.handle.read_volatile() };
        (made != NOTHING && made != NO_COMM).then_some(made)
    }
}

/// `MPI_COMM_NULL`, which the library may write first.
const NO_COMM: CHandle = CHandle(0x100);

static LATE: Mutex<Vec<Late>> = Mutex::new(Vec::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Gives the program the integers of handles that the library has written since. Every call that
/// may complete a request ends with this.
#[inline(always)]
pub fn give_late_handles() {
    if COUNT.load(Ordering::Relaxed) != 0 {
        give_written();
    }
}

#[cold]
fn give_written() {
    let Ok(late) = LATE.lock() else { return };
    let written: Vec<CHandle> = late.iter().filter_map(Late::written).collect();
    // A conversion takes the library's lock, whose holder may wait for the list.
    drop(late);
    let numbers: Vec<c_int> = written.iter().map(|made| COMM.number(*made)).collect();
    let Ok(mut late) = LATE.lock() else { return };
    late.retain(|late| {
        let found = written
            .iter()
            .zip(&numbers)
            .find(|(made, _)| late.written() == Some(**made));
        let Some((_, number)) = found else {
            return true;
        };
        // SAFETY: the place of the handle is a box of this file; that of the integer is the
        // program's, which leaves it alone until the request completes.
        unsafe {
            *late.number = *number;
            drop(Box::from_raw(late.handle));
        }
        false
    });
    COUNT.store(late.len(), Ordering::Relaxed);
}

/// Calls a function of C that writes a communicator later.
///
/// # Safety
/// The places are valid, that of the communicator until the request completes.
unsafe fn begin(
    number: *mut c_int,
    request: *mut c_int,
    ierror: *mut c_int,
    call: impl FnOnce(*mut CHandle, *mut CHandle) -> c_int,
) {
    let handle = Box::into_raw(Box::new(NOTHING));
    let mut made = NOTHING;
    let code = call(handle, &mut made);
    // SAFETY: the caller's promise; the box is this function's.
    unsafe {
        if code == 0 {
            REQUEST.give(made, request);
            if let Ok(mut late) = LATE.lock() {
                late.push(Late { handle, number });
                COUNT.store(late.len(), Ordering::Relaxed);
            }
            give_late_handles();
        } else {
            drop(Box::from_raw(handle));
        }
        give(ierror, code);
    }
}

fortran! { [mpi_comm_idup_ mpi_comm_idup_f08_] [pmpi_comm_idup_ pmpi_comm_idup_f08_]
    MPI_Comm_idup PMPI_Comm_idup |call| (
    comm: *const c_int, newcomm: *mut c_int, request: *mut c_int, ierror: *mut c_int
) {
    let comm = COMM.handle(*comm);
    begin(newcomm, request, ierror, |made, request| call(comm, made, request));
} }

fortran! { [mpi_comm_idup_with_info_ mpi_comm_idup_with_info_f08_]
    [pmpi_comm_idup_with_info_ pmpi_comm_idup_with_info_f08_]
    MPI_Comm_idup_with_info PMPI_Comm_idup_with_info |call| (
    comm: *const c_int, info: *const c_int, newcomm: *mut c_int, request: *mut c_int,
    ierror: *mut c_int
) {
    let (comm, info) = (COMM.handle(*comm), INFO.handle(*info));
    begin(newcomm, request, ierror, |made, request| call(comm, info, made, request));
} }
