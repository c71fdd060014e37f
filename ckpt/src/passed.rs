//! Descriptors that came with a message over a local socket, and those with numbers of their own.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd, OwnedFd, RawFd};

use crate::sys;

/// A copy of a descriptor, close-on-exec, at the lowest free number from `first` on, whatever the
/// program's soft limit on open files is.
///
/// # Errors
/// The hard limit is too low, or all numbers are taken.
pub fn raised(descriptor: impl AsFd, first: RawFd) -> io::Result<OwnedFd> {
    let raised = sys::raise_above_limit(descriptor.as_fd().as_raw_fd(), first);
    let raised = raised.map_err(io::Error::from_raw_os_error)?;
    // SAFETY: the system has just made this descriptor, and no other code has it.
    Ok(unsafe { OwnedFd::from_raw_fd(raised) })
}

/// The descriptors of a message, also where the kernel has dropped some of them: the others are
/// open, and the library `nix` does not show them.
///
/// # Safety
/// `recvmsg` has just filled the header and its buffers, and no other code takes the descriptors.
#[must_use]
pub unsafe fn descriptors(header: &libc::msghdr) -> Vec<OwnedFd> {
    let mut all = Vec::new();
    // SAFETY: the kernel has written the control messages, and their lengths are within the buffer.
    // A descriptor that it has installed belongs to nobody yet.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(header);
        while let Some(head) = next.as_ref() {
            if (head.cmsg_level, head.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let length = head.cmsg_len - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(next).cast::<RawFd>();
                let numbers = (0..length / size_of::<RawFd>()).map(|at| data.add(at));
                all.extend(numbers.map(|at| OwnedFd::from_raw_fd(at.read_unaligned())));
            }
            next = libc::CMSG_NXTHDR(header, next);
        }
    }
    all
}
