//! Small helpers of the implementations: results into the program's memory, strings out of it.

use std::ffi::{CStr, c_char, c_int};

use rejoin_mpi::{Error, ErrorClass, Result};

/// An error of class `MPI_ERR_ARG`.
#[cold]
pub fn arg_error(message: impl Into<String>) -> Error {
    Error::new(ErrorClass::Arg, message.into())
}

/// Stores a result where the program wants it; a null pointer is an error that names the argument.
///
/// # Safety
/// A pointer that is not null is valid for writing.
#[inline]
pub unsafe fn store<T>(target: *mut T, what: &'static str, value: T) -> Result<()> {
    if target.is_null() {
        return Err(null(what));
    }
    // SAFETY: not null, and so valid by the caller's promise.
    unsafe { target.write(value) };
    Ok(())
}

/// Reads the target of the program's pointer; a null pointer is an error that names the argument.
///
/// # Safety
/// A pointer that is not null is valid for reading.
#[inline]
pub unsafe fn load<T: Copy>(source: *const T, what: &'static str) -> Result<T> {
    if source.is_null() {
        return Err(null(what));
    }
    // SAFETY: not null, and so valid by the caller's promise.
    Ok(unsafe { source.read() })
}

/// The program's array as a slice; empty when `len` is 0, whatever the pointer.
///
/// # Safety
/// A pointer that is not null points to `len` initialised elements that no other code changes
/// meanwhile.
pub unsafe fn slice<'a, T>(start: *const T, len: usize, what: &'static str) -> Result<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    if start.is_null() {
        return Err(null(what));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(start, len) })
}

/// A string of the program, bytes that are no UTF-8 replaced.
///
/// # Safety
/// A pointer that is not null points to a string that ends with NUL.
pub unsafe fn string(source: *const c_char, what: &'static str) -> Result<String> {
    if source.is_null() {
        return Err(null(what));
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(source) };
    Ok(text.to_string_lossy().into_owned())
}

/// Stores a string with its NUL into a buffer of `capacity` bytes, cut at a character's border when
/// it is too long; `length` gets the length without NUL, when it is not null.
///
/// # Safety
/// `target` is null or has room for `capacity` bytes; `length` is null or valid.
pub unsafe fn store_string(
    target: *mut c_char,
    capacity: usize,
    text: &str,
    length: *mut c_int,
) -> Result<()> {
    if target.is_null() {
        return Err(null("the string's buffer"));
    }
    let mut len = text.len().min(capacity.saturating_sub(1));
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    if capacity > 0 {
        // SAFETY: `len + 1` is at most `capacity`.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), target.cast(), len);
            target.add(len).write(0);
        }
    }
    if !length.is_null() {
        // SAFETY: not null, and so valid by the caller's promise. Buffers are shorter than 2^31.
        unsafe { length.write(len as c_int) };
    }
    Ok(())
}

#[cold]
#[inline(never)]
fn null(what: &'static str) -> Error {
    arg_error(format!("the pointer for {what} is null"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_cut_at_characters() {
        let mut buffer = [0x55u8; 8];
        let mut length = 0;
        // SAFETY: the buffer has five bytes and more.
        let result =
            unsafe { store_string(buffer.as_mut_ptr().cast(), 5, "abcé", &raw mut length) };
        assert!(result.is_ok());
        assert_eq!((&buffer[..], length), (&b"abc\0\x55\x55\x55\x55"[..], 3));
        // SAFETY: null is refused, not followed.
        let refused = unsafe { store_string(std::ptr::null_mut(), 5, "abc", &raw mut length) };
        assert!(refused.is_err());
    }

    #[test]
    fn null_is_refused_by_name() {
        // SAFETY: null is refused, not followed.
        let error = unsafe { store(std::ptr::null_mut::<i32>(), "the rank", 1) };
        let error = error.expect_err("null is refused");
        assert_eq!(error.class, ErrorClass::Arg);
        assert!(error.message.contains("the rank"));
        // SAFETY: no element is read.
        let empty = unsafe { slice(std::ptr::null::<i32>(), 0, "ranks") };
        assert_eq!(empty.map(<[i32]>::len), Ok(0));
    }
}
