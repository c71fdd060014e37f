//! Reads and writes at positions of a file.

use std::os::fd::RawFd;

use crate::sys;

/// Bytes that are read at once.
const STEP: usize = 16 << 20;

/// Reads so many bytes, or fewer where the file ends. Takes the number of bytes from `left`; an
/// error if that is too small.
pub(super) fn read_at(fd: RawFd, from: u64, length: u64, left: &mut u64) -> sys::Sys<Vec<u8>> {
    *left = left.checked_sub(length).ok_or(libc::EFBIG)?;
    let mut bytes: Vec<u8> = Vec::with_capacity(length as usize);
    prefer_large_pages(bytes.spare_capacity_mut());
    while (bytes.len() as u64) < length {
        let room = (length as usize - bytes.len()).min(STEP);
        let at = (from + bytes.len() as u64) as i64;
        // SAFETY: the pointer is to `room` bytes of the vector's own spare memory.
        let count =
            unsafe { libc::pread(fd, bytes.as_mut_ptr().add(bytes.len()).cast(), room, at) };
        match sys::check(count as i64) {
            // SAFETY: the system has filled in `count` more bytes.
            Ok(count) if count > 0 => unsafe { bytes.set_len(bytes.len() + count as usize) },
            Err(libc::EINTR) => {}
            // Memory behind the end of its file.
            Ok(_) | Err(libc::EIO) => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(bytes)
}

/// Memory of so many bytes is worth the call.
const LARGE: usize = 4 << 20;

/// Bytes of a page.
const PAGE: usize = 4096;

/// Advises the system to use large pages for new memory: most of the time of copying 16 MiB goes
/// into faults on small ones. A refusal changes nothing but that time.
fn prefer_large_pages(memory: &mut [std::mem::MaybeUninit<u8>]) {
    if memory.len() < LARGE {
        return;
    }
    let start = memory.as_mut_ptr() as usize;
    let (from, to) = (
        start.next_multiple_of(PAGE),
        (start + memory.len()) / PAGE * PAGE,
    );
    // SAFETY: whole pages of memory that this code alone has. The advice keeps their contents.
    unsafe { libc::madvise(from as *mut _, to - from, libc::MADV_HUGEPAGE) };
}

/// Reads into a buffer once; 0 at the end of the file. With `at_once`, only what the system has in
/// memory ([`libc::EAGAIN`] if it has nothing).
pub(super) fn read_once(
    fd: RawFd,
    buffer: &mut [u8],
    position: u64,
    at_once: bool,
) -> sys::Sys<usize> {
    let piece = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let flags = if at_once { libc::RWF_NOWAIT } else { 0 };
    loop {
        // SAFETY: the piece describes the buffer.
        let count = unsafe { libc::preadv2(fd, &raw const piece, 1, position as i64, flags) };
        match sys::check(count as i64) {
            Err(libc::EINTR) => {}
            // The file system does not know the flag.
            Err(libc::EOPNOTSUPP) if at_once => return read_once(fd, buffer, position, false),
            result => return result.map(|count| count as usize),
        }
    }
}

/// Writes all of `bytes`.
pub(super) fn write_at(fd: RawFd, bytes: &[u8], position: u64) -> sys::Sys<()> {
    let mut done = 0;
    while done < bytes.len() {
        let (rest, at) = (&bytes[done..], (position + done as u64) as i64);
        // SAFETY: pointer and length describe the rest.
        let count = unsafe { libc::pwrite(fd, rest.as_ptr().cast(), rest.len(), at) };
        match sys::check(count as i64) {
            Ok(0) => return Err(libc::EIO),
            Ok(count) => done += count as usize,
            Err(libc::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
