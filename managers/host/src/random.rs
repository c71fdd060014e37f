//! Random numbers of the kernel.

use crate::error::{Context, Result};

/// `N` random bytes, at most 256.
///
/// # Errors
/// The system gives none.
pub fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    // SAFETY: the buffer is as long as we say. Up to 256 bytes come at once or not at all.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), N, 0) };
    if got == N as isize {
        return Ok(bytes);
    }
    Err(std::io::Error::last_os_error()).context("get random numbers")
}
