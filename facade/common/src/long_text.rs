//! Texts that may be longer than the program expects, and other places of the program.

use std::ffi::{c_char, c_int, c_void};

use crate::facade_traits::Facade;

/// Room for the library's text, which the program gets as far as it has room.
pub struct LongText<const ROOM: usize> {
    place: *mut c_char,
    text: [c_char; ROOM],
}

impl<const ROOM: usize> LongText<ROOM> {
    /// For a place of the program.
    pub fn new(place: *mut c_char) -> Self {
        let text = [0; ROOM];
        Self { place, text }
    }

    /// Where the library writes.
    pub fn place(&mut self) -> *mut c_char {
        if self.place.is_null() {
            return std::ptr::null_mut();
        }
        self.text.as_mut_ptr()
    }

    /// Gives the program at most `most` bytes, the last of which is 0.
    ///
    /// # Safety
    /// The program's place has so many, and `length` is null or valid.
    pub unsafe fn give(&self, most: usize, length: *mut c_int) {
        let end = self.text.iter().position(|c| *c == 0).unwrap_or(ROOM);
        let end = end.min(most - 1);
        // SAFETY: the caller's promise; the text is as long at least.
        unsafe {
            self.place.copy_from_nonoverlapping(self.text.as_ptr(), end);
            self.place.add(end).write(0);
            if let Some(length) = length.as_mut() {
                *length = end as c_int;
            }
        }
    }
}

/// Changes an integer of the program, if there is one.
///
/// # Safety
/// The pointer is null or valid.
#[inline(always)]
pub unsafe fn change(place: *mut c_int, with: impl FnOnce(c_int) -> c_int) {
    // SAFETY: the caller's promise.
    if let Some(place) = unsafe { place.as_mut() } {
        *place = with(*place);
    }
}

/// Addresses that stand for no weights in the standard ABI (`MPI_UNWEIGHTED`,
/// `MPI_WEIGHTS_EMPTY`).
const NO_WEIGHTS: [usize; 2] = [10, 11];

/// An array of weights, or an address that stands for none.
pub fn weights_in<F: Facade, P: Copy + WeightsPointer>(given: P) -> P {
    let theirs = F::no_weights();
    let which = theirs.iter().position(|t| *t == given.address());
    which.map_or(given, |which| P::special(NO_WEIGHTS[which]))
}

/// A buffer, or the address that stands for the place of the result (`MPI_IN_PLACE`).
#[inline(always)]
pub fn buffer_in<F: Facade>(given: *const c_void) -> *mut c_void {
    match given.addr() == F::IN_PLACE {
        true => std::ptr::without_provenance_mut(IN_PLACE),
        false => given.cast_mut(),
    }
}

/// A buffer for messages that are sent, or the address that stands for the library's
/// (`MPI_BUFFER_AUTOMATIC`).
pub fn attached_buffer_in<F: Facade>(given: *mut c_void) -> *mut c_void {
    match given.addr() == F::BUFFER_AUTOMATIC {
        true => std::ptr::without_provenance_mut(BUFFER_AUTOMATIC),
        false => given,
    }
}

/// `MPI_IN_PLACE` and `MPI_BUFFER_AUTOMATIC` of the standard ABI.
const IN_PLACE: usize = 1;
const BUFFER_AUTOMATIC: usize = 2;

/// Arrays of weights that are read, and those that are written.
pub trait WeightsPointer {
    /// Where the array is.
    fn address(self) -> usize;
    /// An address that stands for none.
    fn special(address: usize) -> Self;
}

impl WeightsPointer for *const c_int {
    fn address(self) -> usize {
        self.addr()
    }
    fn special(address: usize) -> Self {
        std::ptr::without_provenance(address)
    }
}

impl WeightsPointer for *mut c_int {
    fn address(self) -> usize {
        self.addr()
    }
    fn special(address: usize) -> Self {
        std::ptr::without_provenance_mut(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_facade::Sample;

    #[test]
    fn a_text_is_cut_to_the_room_of_the_program() {
        let mut room = [b'x' as c_char; 8];
        let mut length = -1;
        for (written, most, expected) in [("abcdefgh", 5, "abcd"), ("abc", 5, "abc"), ("", 5, "")] {
            let mut text = LongText::<16>::new(room.as_mut_ptr());
            // SAFETY: the texts are short enough.
            unsafe {
                let from = written.as_ptr().cast();
                text.place().copy_from_nonoverlapping(from, written.len());
                text.give(most, &mut length);
            }
            let got: Vec<u8> = room.iter().map(|c| *c as u8).collect();
            assert_eq!(&got[..expected.len()], expected.as_bytes());
            assert_eq!((got[expected.len()], length), (0, expected.len() as c_int));
            assert_eq!(got[7], b'x');
        }
        assert!(LongText::<4>::new(std::ptr::null_mut()).place().is_null());
    }

    #[test]
    fn addresses_that_stand_for_no_weights_are_translated() {
        let own = [1, 2];
        let read = |given: *const c_int| weights_in::<Sample, _>(given);
        assert_eq!(read(own.as_ptr()), own.as_ptr());
        assert!(read(std::ptr::null()).is_null());
        assert_eq!(weights_in::<Sample, _>(<*mut c_int>::special(2)).addr(), 10);
        assert_eq!(read(std::ptr::without_provenance(3)).addr(), 11);
    }

    #[test]
    fn addresses_that_stand_for_buffers_are_translated() {
        let own = 5;
        let own = (&raw const own).cast();
        assert_eq!(buffer_in::<Sample>(own), own.cast_mut());
        assert!(buffer_in::<Sample>(std::ptr::null()).is_null());
        let in_place = std::ptr::without_provenance(Sample::IN_PLACE);
        assert_eq!(buffer_in::<Sample>(in_place).addr(), IN_PLACE);
        assert_eq!(attached_buffer_in::<Sample>(own.cast_mut()), own.cast_mut());
        let automatic = std::ptr::without_provenance_mut(Sample::BUFFER_AUTOMATIC);
        assert_eq!(
            attached_buffer_in::<Sample>(automatic).addr(),
            BUFFER_AUTOMATIC
        );
    }
}
