//! Descriptors that came with a message over a local socket.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};

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
