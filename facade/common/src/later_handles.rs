//! Handles that the library writes when a request completes (`MPI_Comm_idup`).
//!
//! Where handles of the program are as large as the library's, it writes to the program's place,
//! and a null handle of the library in it is translated at once. Otherwise, and in Fortran, the
//! library gets a place here. When a call has returned that may have completed the request, what
//! has been written there goes to the program. These places are memory of the process, so images
//! hold them.

use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::abi_types::AbiHandle;
use crate::facade_traits::{ProgramHandle, is_in_place};

/// One handle that is still to be written.
struct Pending {
    /// The library writes here.
    made: *mut AbiHandle,
    /// The program's place.
    place: *mut c_int,
    /// The program's handle, which is an integer where it is no address.
    translate: fn(AbiHandle) -> c_int,
}

// SAFETY: the program must leave its place alone until the request completes, in all threads.
unsafe impl Send for Pending {}

static PENDING: Mutex<Vec<Pending>> = Mutex::new(Vec::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A place for a communicator that the library makes later. The program has `MPI_COMM_NULL`
/// meanwhile.
///
/// # Safety
/// The pointer is null, or valid until the request has completed.
pub unsafe fn later<H: ProgramHandle>(place: *mut H) -> *mut AbiHandle {
    if is_in_place::<H>() || place.is_null() {
        return place.cast();
    }
    let made = Box::into_raw(Box::new(AbiHandle::COMM_NULL));
    // SAFETY: the caller's promise.
    unsafe { place.write(H::of_abi(AbiHandle::COMM_NULL)) }
    let pending = Pending {
        made,
        place: place.cast(),
        translate: |made| H::of_abi(made).fortran(),
    };
    if let Ok(mut list) = PENDING.lock() {
        list.push(pending);
        COUNT.store(list.len(), Ordering::Relaxed);
    }
    made
}

/// What follows the call that begins: if it has failed, nothing is written later.
///
/// # Safety
/// The pointer is that of [`later`], and `written` its answer.
pub unsafe fn begun<H: ProgramHandle>(place: *mut H, written: *mut AbiHandle, code: i32) {
    if place.is_null() {
        return;
    }
    if is_in_place::<H>() {
        // SAFETY: the library has written a null handle there.
        unsafe { *place = H::of_abi(*written) }
    } else if code != 0 {
        forget(written);
    } else {
        settle();
    }
}

fn forget(written: *mut AbiHandle) {
    if let Ok(mut list) = PENDING.lock() {
        list.retain(|pending| !std::ptr::eq(pending.made, written));
        COUNT.store(list.len(), Ordering::Relaxed);
        // SAFETY: `later` has made it, and nothing has it any more.
        drop(unsafe { Box::from_raw(written) });
    }
}

/// Gives the program those that have been written meanwhile.
#[inline(always)]
pub fn settle() {
    if COUNT.load(Ordering::Relaxed) != 0 {
        settle_all();
    }
}

#[cold]
#[inline(never)]
fn settle_all() {
    let written = |pending: &Pending| {
        // SAFETY: the library writes a whole word.
        let made = unsafe { pending.made.read_volatile() };
        (made != AbiHandle::COMM_NULL).then_some(made)
    };
    let Ok(list) = PENDING.lock() else { return };
    let found: Vec<_> = list
        .iter()
        .filter_map(|pending| Some((pending.made, written(pending)?, pending.translate)))
        .collect();
    // A translation takes the library's lock, whose holder may wait for the list.
    drop(list);
    let found: Vec<_> = found
        .into_iter()
        .map(|(place, made, translate)| (place, translate(made)))
        .collect();
    let Ok(mut list) = PENDING.lock() else { return };
    // Another thread may have given some of them to the program meanwhile.
    list.retain(|pending| {
        let Some((_, handle)) = found.iter().find(|one| std::ptr::eq(one.0, pending.made)) else {
            return true;
        };
        // SAFETY: the program keeps its place until the request completes; the library has written
        // its own, and is done with it.
        unsafe {
            pending.place.write(*handle);
            drop(Box::from_raw(pending.made));
        }
        false
    });
    COUNT.store(list.len(), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_facade::{Large, Small};

    #[test]
    fn what_is_written_later_arrives_in_small_and_large_places() {
        let own = AbiHandle(0x4100_0001_0000_0007);
        let (mut small, mut large) = (Small(5), Large(5));
        // SAFETY: the places are valid until the end.
        unsafe {
            let written = later(&mut small);
            begun(&raw mut small, written, 0);
            settle();
            assert_eq!(small, Small::of_abi(AbiHandle::COMM_NULL));
            *written = own;
            settle();
            assert_eq!(small, Small::of_abi(own));
            let failed = later(&mut small);
            begun(&raw mut small, failed, 5);
            assert_eq!(COUNT.load(Ordering::Relaxed), 0);
            let written = later(&mut large);
            *written = AbiHandle::COMM_NULL;
            begun(&raw mut large, written, 0);
            assert_eq!(large, Large::of_abi(AbiHandle::COMM_NULL));
        }
    }
}
