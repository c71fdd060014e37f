//! Texts of Fortran, which have a length and end with blanks.

use std::ffi::c_char;

/// Bytes of the longest text that a library gives.
const LONGEST_TEXT: usize = 8192;
const BLANK: c_char = b' ' as c_char;

/// A text for the library: without the blanks at its end, with C's last byte.
///
/// # Safety
/// The text has this length.
pub unsafe fn in_text(text: *const c_char, length: usize) -> Vec<c_char> {
    // SAFETY: the caller's promise.
    let text = unsafe { slice(text, length) };
    let end = text.iter().rposition(|c| *c != BLANK);
    let text = &text[..end.map_or(0, |last| last + 1)];
    text.iter().copied().chain([0]).collect()
}

/// A text for the library where the standard ignores blanks at the beginning, too.
///
/// # Safety
/// The text has this length.
pub unsafe fn in_trimmed_text(text: *const c_char, length: usize) -> Vec<c_char> {
    // SAFETY: the caller's promise.
    let mut text = unsafe { in_text(text, length) };
    let blanks = text.iter().take_while(|c| **c == BLANK).count();
    text.drain(..blanks);
    text
}

/// # Safety
/// The text has this length; with none it may have no place.
unsafe fn slice<'a>(text: *const c_char, length: usize) -> &'a [c_char] {
    match length {
        0 => &[],
        // SAFETY: the caller's promise.
        _ => unsafe { std::slice::from_raw_parts(text, length) },
    }
}

/// Room for a text of the library.
pub struct OutText([c_char; LONGEST_TEXT]);

impl Default for OutText {
    fn default() -> Self {
        Self::new()
    }
}

impl OutText {
    /// Bytes of the room, with C's last one.
    pub const LENGTH: usize = LONGEST_TEXT;

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
    pub unsafe fn give(&self, place: *mut c_char, length: usize) {
        let text = self.0.iter().copied().take_while(|c| *c != 0);
        let padded = text.chain(std::iter::repeat(BLANK));
        for (i, from) in padded.take(length).enumerate() {
            // SAFETY: the caller's promise.
            unsafe { *place.add(i) = from };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &[u8]) -> Vec<c_char> {
        text.iter().map(|c| *c as c_char).collect()
    }

    #[test]
    fn texts_lose_their_blanks_and_get_them_back() {
        let given = texts(b" a b  ");
        // SAFETY: the lengths are those of the arrays.
        unsafe {
            let text = in_text(given.as_ptr(), given.len());
            assert_eq!(text, texts(b" a b\0"));
            assert_eq!(in_text(given.as_ptr().add(4), 2), [0]);
            assert_eq!(in_text(std::ptr::null(), 0), [0]);
            assert_eq!(in_trimmed_text(given.as_ptr(), 6), texts(b"a b\0"));
            assert_eq!(in_trimmed_text(given.as_ptr().add(4), 2), [0]);
            let mut out = OutText::new();
            out.place()
                .copy_from_nonoverlapping(text.as_ptr(), text.len());
            for (length, expected) in [(6, &b" a b  "[..]), (3, b" a "), (0, b"")] {
                let mut place = vec![0; length];
                out.give(place.as_mut_ptr(), length);
                assert_eq!(place, texts(expected));
            }
        }
    }
}
