//! Arguments of Fortran: integers for handles, texts that end with blanks, and addresses that stand
//! for something. Logical values are those of C with the compilers that Open MPI is built with.

use std::ffi::{c_char, c_int, c_void};

use crate::integers::*;
use crate::program_types::{ProgramHandle, ProgramStatus};

/// Before the library has written a handle.
pub const NOTHING: ProgramHandle = ProgramHandle(0);
/// `MPI_UNDEFINED` of both.
pub const UNDEFINED: c_int = -32766;
/// `MPI_IN_PLACE`, `MPI_UNWEIGHTED` and `MPI_WEIGHTS_EMPTY` of Open MPI in C.
const IN_PLACE: usize = 1;
const UNWEIGHTED: usize = 2;
const WEIGHTS_EMPTY: usize = 3;
/// Bytes of the longest text that the library gives.
const LONGEST_TEXT: usize = 8192;

/// How a kind of handles becomes integers, and back.
pub struct Kind {
    of_number: unsafe extern "C" fn(c_int) -> ProgramHandle,
    number: unsafe extern "C" fn(ProgramHandle) -> c_int,
}

macro_rules! kinds {
    ($($kind:ident $f2c:ident $c2f:ident;)*) => {
        unsafe extern "C" {
            $(fn $f2c(number: c_int) -> ProgramHandle;
            fn $c2f(handle: ProgramHandle) -> c_int;)*
        }
        $(pub const $kind: Kind = Kind { of_number: $f2c, number: $c2f };)*
    };
}

kinds! {
    COMM PMPI_Comm_f2c PMPI_Comm_c2f;
    ERRHANDLER PMPI_Errhandler_f2c PMPI_Errhandler_c2f;
    FILE PMPI_File_f2c PMPI_File_c2f;
    GROUP PMPI_Group_f2c PMPI_Group_c2f;
    INFO PMPI_Info_f2c PMPI_Info_c2f;
    MESSAGE PMPI_Message_f2c PMPI_Message_c2f;
    OP PMPI_Op_f2c PMPI_Op_c2f;
    REQUEST PMPI_Request_f2c PMPI_Request_c2f;
    SESSION PMPI_Session_f2c PMPI_Session_c2f;
    TYPE PMPI_Type_f2c PMPI_Type_c2f;
    WIN PMPI_Win_f2c PMPI_Win_c2f;
}

impl Kind {
    /// The handle of an integer.
    pub unsafe fn handle(&self, number: c_int) -> ProgramHandle {
        // SAFETY: any integer may be asked for.
        unsafe { (self.of_number)(number) }
    }

    /// The handles of an array.
    ///
    /// # Safety
    /// There are as many integers.
    pub unsafe fn handles(&self, count: c_int, numbers: *const c_int) -> Vec<ProgramHandle> {
        let count = usize::try_from(count).unwrap_or(0);
        // SAFETY: the caller's promise.
        (0..count)
            .map(|i| unsafe { self.handle(*numbers.add(i)) })
            .collect()
    }

    /// Gives the program the integer of a handle.
    ///
    /// # Safety
    /// The place is valid.
    pub unsafe fn give(&self, handle: ProgramHandle, place: *mut c_int) {
        // SAFETY: the caller's promise; the handle is one of the program's.
        unsafe { *place = (self.number)(handle) }
    }

    /// Gives those of an array.
    ///
    /// # Safety
    /// There are as many places.
    pub unsafe fn give_all(&self, handles: &[ProgramHandle], places: *mut c_int) {
        for (i, handle) in handles.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { self.give(*handle, places.add(i)) }
        }
    }
}

/// Whether a program means this place, which may be a common block of its own.
fn is_at<T, U>(given: *const T, place: &'static U) -> bool {
    std::ptr::addr_eq(given, place)
}

/// A buffer, or what its address stands for.
pub fn buffer_at(given: *mut c_void) -> *mut c_void {
    if is_at(given, &mpi_fortran_bottom_) {
        return std::ptr::null_mut();
    }
    match is_at(given, &mpi_fortran_in_place_) {
        true => std::ptr::without_provenance_mut(IN_PLACE),
        false => given,
    }
}

/// A status; null if it is ignored.
pub fn status_at(given: *mut ProgramStatus) -> *mut ProgramStatus {
    match is_at(given, &mpi_fortran_status_ignore_) {
        true => std::ptr::null_mut(),
        false => given,
    }
}

/// Statuses; null if they are ignored.
pub fn statuses_at(given: *mut ProgramStatus) -> *mut ProgramStatus {
    match is_at(given, &mpi_fortran_statuses_ignore_) {
        true => std::ptr::null_mut(),
        false => given,
    }
}

/// Weights, or what their address stands for.
pub fn fortran_weights(given: *mut c_int) -> *mut c_int {
    if is_at(given, &mpi_fortran_unweighted_) {
        return std::ptr::without_provenance_mut(UNWEIGHTED);
    }
    match is_at(given, &mpi_fortran_weights_empty_) {
        true => std::ptr::without_provenance_mut(WEIGHTS_EMPTY),
        false => given,
    }
}

/// Counts indices from 1, as Fortran does.
///
/// # Safety
/// There are as many, if the count is not `MPI_UNDEFINED`.
pub unsafe fn count_from_one(count: c_int, indices: *mut c_int) {
    for i in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the caller's promise.
        unsafe {
            let index = indices.add(i);
            if *index != UNDEFINED {
                *index += 1;
            }
        }
    }
}

/// A text for the library: without the blanks at its end.
///
/// # Safety
/// The text has this length.
pub unsafe fn in_text(text: *const c_char, length: u32) -> Vec<c_char> {
    // SAFETY: the caller's promise.
    let text = unsafe { std::slice::from_raw_parts(text, length as usize) };
    let end = text.iter().rposition(|c| *c != b' ' as c_char);
    let text = &text[..end.map_or(0, |last| last + 1)];
    text.iter().copied().chain([0]).collect()
}

/// Room for a text of the library.
pub struct OutText([c_char; LONGEST_TEXT]);

impl OutText {
    /// An empty one.
    pub fn new() -> Self {
        Self([0; LONGEST_TEXT])
    }

    /// Where the library writes.
    pub fn place(&mut self) -> *mut c_char {
        self.0.as_mut_ptr()
    }

    /// Gives the program the text with blanks behind it.
    ///
    /// # Safety
    /// The place has this length.
    pub unsafe fn give(&self, place: *mut c_char, length: u32) {
        // SAFETY: the caller's promise.
        let place = unsafe { std::slice::from_raw_parts_mut(place, length as usize) };
        let text = self.0.iter().copied().take_while(|c| *c != 0);
        let padded = text.chain(std::iter::repeat(b' ' as c_char));
        for (to, from) in place.iter_mut().zip(padded) {
            *to = from;
        }
    }
}

/// Gives the program the error code, if it wants one.
///
/// # Safety
/// The pointer is null or valid.
pub unsafe fn give(ierror: *mut c_int, code: c_int) {
    // SAFETY: the caller's promise.
    if let Some(ierror) = unsafe { ierror.as_mut() } {
        *ierror = code;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_lose_their_blanks_and_get_them_back() {
        let given = b" a b  ".map(|c| c as c_char);
        // SAFETY: the lengths are those of the arrays.
        unsafe {
            let text = in_text(given.as_ptr(), given.len() as u32);
            assert_eq!(text, b" a b\0".map(|c| c as c_char));
            assert_eq!(in_text(given.as_ptr().add(4), 2), [0]);
            let mut out = OutText::new();
            out.place()
                .copy_from_nonoverlapping(text.as_ptr(), text.len());
            for (length, expected) in [(6, &b" a b  "[..]), (3, b" a "), (0, b"")] {
                let mut place = vec![0; length as usize];
                out.give(place.as_mut_ptr(), length);
                assert_eq!(
                    place,
                    expected.iter().map(|c| *c as c_char).collect::<Vec<_>>()
                );
            }
        }
    }

    #[test]
    fn addresses_stand_for_what_they_are_named_after() {
        let mut own = [0; 6];
        let own: *mut c_int = own.as_mut_ptr();
        let at = |place: *const u8| place.cast_mut();
        assert!(buffer_at(at(mpi_fortran_bottom_.as_ptr()).cast()).is_null());
        assert_eq!(
            buffer_at(at(mpi_fortran_in_place_.as_ptr()).cast()).addr(),
            1
        );
        assert_eq!(buffer_at(own.cast()), own.cast());
        assert!(status_at(at(mpi_fortran_status_ignore_.as_ptr()).cast()).is_null());
        assert!(statuses_at(at(mpi_fortran_statuses_ignore_.as_ptr()).cast()).is_null());
        assert_eq!(status_at(own.cast()), own.cast());
        assert_eq!(
            fortran_weights(at(mpi_fortran_unweighted_.as_ptr()).cast()).addr(),
            2
        );
        assert_eq!(
            fortran_weights(at(mpi_fortran_weights_empty_.as_ptr()).cast()).addr(),
            3
        );
        assert_eq!(fortran_weights(own), own);
    }

    #[test]
    fn handles_become_integers_and_indices_count_from_one() {
        // MPI_INTEGER, MPI_REAL, MPI_DOUBLE_PRECISION.
        let numbers = [7, 13, 17];
        let mut back = [0; 3];
        let mut indices = [0, 4, UNDEFINED, 9];
        // SAFETY: the lengths are those of the arrays.
        unsafe {
            let handles = TYPE.handles(3, numbers.as_ptr());
            assert_eq!(handles[0].abi().0, 0x219);
            TYPE.give_all(&handles, back.as_mut_ptr());
            count_from_one(3, indices.as_mut_ptr());
        }
        assert_eq!((back, indices), (numbers, [1, 5, UNDEFINED, 9]));
    }
}
