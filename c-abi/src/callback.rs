//! Functions of the program, as it passes them.

use std::cell::Cell;
use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::types::{
    MPI_Datarep_conversion_function, MPI_Datarep_conversion_function_c, MPI_User_function,
    MPI_User_function_c,
};

/// Calls inside the library without the lock. Below `MPI_THREAD_MULTIPLE` the program promises one
/// thread at a time, so loads and stores suffice. Zero while a function of the program runs.
static UNLOCKED: AtomicU32 = AtomicU32::new(0);
/// Calls inside the library with the lock, of all threads together: some of them may wait inside.
/// Only the holder of the lock changes it.
static LOCKED: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// This thread's part of [`LOCKED`]. The handler of checkpoint requests must not use it,
    /// because a thread's variable may take memory from the C library.
    static MINE: Cell<u32> = const { Cell::new(0) };
}

/// Marks that a call is inside the library. Returns the number of this thread's calls around it,
/// for [`leave`]. Two stores a call if no lock is needed.
#[inline(always)]
pub(crate) fn enter(locked: bool) -> u32 {
    if locked {
        return enter_locked();
    }
    let before = UNLOCKED.load(Ordering::Relaxed);
    UNLOCKED.store(before + 1, Ordering::Relaxed);
    before
}

/// The call of [`enter`] is over.
#[inline(always)]
pub(crate) fn leave(locked: bool, before: u32) {
    if locked {
        leave_locked(before);
    } else {
        UNLOCKED.store(before, Ordering::Relaxed);
    }
}

#[inline(never)]
fn enter_locked() -> u32 {
    LOCKED.store(LOCKED.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    let before = MINE.get();
    MINE.set(before + 1);
    before
}

#[inline(never)]
fn leave_locked(before: u32) {
    MINE.set(before);
    LOCKED.store(LOCKED.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
}

/// Whether code of the library is running, not code of the program or its callbacks. Then an image
/// of the process may be taken only at the library's own safe points.
pub fn is_inside() -> bool {
    UNLOCKED.load(Ordering::Relaxed) + LOCKED.load(Ordering::Relaxed) > 0
}

/// How many nested calls of this thread are inside: more than one if a signal handler of the
/// program has interrupted a call.
pub(crate) fn calls() -> u32 {
    UNLOCKED.load(Ordering::Relaxed) + MINE.get()
}

/// Calls a function of the program: attribute, operation, generalized request, error handler. All
/// such calls pass here. The caller borrows no state of the library, as the function may call MPI.
#[inline]
pub fn outside<R>(call: impl FnOnce() -> R) -> R {
    if crate::lock::is_held() {
        let before = MINE.replace(0);
        LOCKED.store(LOCKED.load(Ordering::Relaxed) - before, Ordering::Relaxed);
        let result = call();
        LOCKED.store(LOCKED.load(Ordering::Relaxed) + before, Ordering::Relaxed);
        MINE.set(before);
        return result;
    }
    let before = UNLOCKED.swap(0, Ordering::Relaxed);
    let result = call();
    UNLOCKED.store(before, Ordering::Relaxed);
    result
}

/// Lowest address that can hold a function; below it lie the ABI's constants such as
/// `MPI_COMM_DUP_FN`.
const LOWEST: usize = 0x1000;

/// A function pointer of the C type `F` (one of `types::MPI_…_function`), possibly null or one of
/// the ABI's constants, hence no Rust function pointer yet.
#[repr(transparent)]
pub struct Callback<F> {
    address: *const c_void,
    function: PhantomData<F>,
}

impl<F> Clone for Callback<F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Callback<F> {}

impl<F> fmt::Debug for Callback<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Callback({:?})", self.address)
    }
}

impl<F: Copy> Callback<F> {
    /// The value, to compare with constants such as `MPI_COMM_DUP_FN`.
    pub fn address(self) -> usize {
        self.address.addr()
    }

    /// The function; `None` for null and the ABI's constants.
    ///
    /// # Safety
    /// A value that is neither is a function of the type `F`.
    pub unsafe fn get(self) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*const c_void>()) };
        if self.address() < LOWEST {
            return None;
        }
        // SAFETY: `F` is a function pointer type (its size is checked), the address is a
        // function's.
        Some(unsafe { std::mem::transmute_copy(&self.address) })
    }
}

/// The function of `MPI_Op_create` or `MPI_Op_create_c` (MPI-5.0 §6.9.5).
#[derive(Clone, Copy, Debug)]
pub enum OpFunction {
    /// Takes the length as `int *`.
    Int(Callback<MPI_User_function>),
    /// Takes the length as `MPI_Count *`.
    Count(Callback<MPI_User_function_c>),
}

impl From<Callback<MPI_User_function>> for OpFunction {
    fn from(f: Callback<MPI_User_function>) -> Self {
        Self::Int(f)
    }
}

impl From<Callback<MPI_User_function_c>> for OpFunction {
    fn from(f: Callback<MPI_User_function_c>) -> Self {
        Self::Count(f)
    }
}

/// The conversion functions of `MPI_Register_datarep` or its `_c` form (MPI-5.0 §14.5.3).
#[derive(Clone, Copy, Debug)]
pub enum ConversionFunction {
    /// Takes the count as `int`.
    Int(Callback<MPI_Datarep_conversion_function>),
    /// Takes the count as `MPI_Count`.
    Count(Callback<MPI_Datarep_conversion_function_c>),
}

impl From<Callback<MPI_Datarep_conversion_function>> for ConversionFunction {
    fn from(f: Callback<MPI_Datarep_conversion_function>) -> Self {
        Self::Int(f)
    }
}

impl From<Callback<MPI_Datarep_conversion_function_c>> for ConversionFunction {
    fn from(f: Callback<MPI_Datarep_conversion_function_c>) -> Self {
        Self::Count(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock;

    // The lock is one for the process; holding it keeps calls of other tests out of the counters.
    #[test]
    fn the_program_is_outside_in_its_callbacks_and_inside_again_in_their_calls() {
        lock::acquire();
        let seen = LOCKED.load(Ordering::Relaxed);
        let call = enter(true);
        assert!(is_inside());
        let answer = outside(|| {
            assert_eq!(LOCKED.load(Ordering::Relaxed), seen);
            let nested = enter(true);
            assert_eq!(nested, 0, "in no other call of this thread");
            assert!(is_inside());
            outside(|| assert_eq!(LOCKED.load(Ordering::Relaxed), seen));
            assert_eq!(calls(), 1);
            leave(true, nested);
            42
        });
        assert_eq!(answer, 42);
        assert_eq!(LOCKED.load(Ordering::Relaxed), seen + 1);
        leave(true, call);
        assert_eq!(LOCKED.load(Ordering::Relaxed), seen);
        lock::release();
    }

    // At MPI_THREAD_MULTIPLE a waiting call lets others in, which may stay longer than it.
    #[test]
    fn calls_of_several_threads_end_in_any_order() {
        lock::acquire();
        let seen = LOCKED.load(Ordering::Relaxed);
        let first = enter(true);
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let (here, there) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            let mark = enter(true);
            assert_eq!((mark, calls()), (0, 1));
            here.send(()).expect("the first thread");
            gone.recv().expect("the first thread");
            leave(true, mark);
        });
        there.recv().expect("the second thread");
        leave(true, first);
        assert_eq!(LOCKED.load(Ordering::Relaxed), seen + 1);
        assert_eq!(enter(true), 0);
        go.send(()).expect("the second thread");
        other.join().expect("the second thread");
        leave(true, 0);
        assert_eq!(LOCKED.load(Ordering::Relaxed), seen);
        lock::release();
    }
}
