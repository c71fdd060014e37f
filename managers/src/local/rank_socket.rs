//! Reads of a rank's socket: bytes, the sender's process id, and descriptors.

use nix::errno::Errno;
use rejoin_managers_net::local_link::LocalLink;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Most descriptors that come with one message.
const MOST_HANDED: usize = 3;
/// Most descriptors whose messages are not complete: those of the present message and of one
/// behind it. A rank with more has broken the rules of the socket.
pub const MOST_WAITING: usize = 2 * MOST_HANDED;

/// Words for the control messages of one read: credentials and descriptors.
const CONTROL_WORDS: usize = 16;

/// Receives once, with the sender's process id from the kernel and the descriptors that it sent.
/// `None`: nothing has arrived; `Err`: the end.
pub fn receive(socket: &mut LocalLink) -> std::result::Result<Option<(u32, Vec<OwnedFd>)>, ()> {
    let fd = socket.as_fd().as_raw_fd();
    let mut bytes = [0u8; 4096];
    let mut control = [0u64; CONTROL_WORDS];
    let mut part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: msghdr is plain data for which all zeros is a value.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control);
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    let count = loop {
        // SAFETY: the header names buffers of these sizes that live until the call returns.
        match Errno::result(unsafe { libc::recvmsg(fd, &mut header, flags) }) {
            Ok(count) => break count.cast_unsigned(),
            Err(Errno::EINTR) => continue,
            Err(Errno::EAGAIN) => return Ok(None),
            Err(_) => return Err(()),
        }
    };
    // SAFETY: the kernel has just filled the header and its buffers, which nobody has read.
    let (pid, handed) = unsafe { control_messages(&header) };
    if header.msg_flags & libc::MSG_CTRUNC != 0 {
        // Those that have arrived are taken, or they would stay open for ever.
        let count = handed.len();
        tracing::warn!(
            pid,
            count,
            "a rank handed over more descriptors than have arrived"
        );
    }
    if count == 0 {
        return Err(());
    }
    socket.reader().push(&bytes[..count]);
    Ok(Some((pid, handed)))
}

/// The sender's process id and its descriptors, from the control messages of a read. The library
/// `nix` does not show those of a read of which the kernel has dropped some.
///
/// # Safety
/// `recvmsg` has just filled the header and its buffers. Nobody else takes the descriptors.
unsafe fn control_messages(header: &libc::msghdr) -> (u32, Vec<OwnedFd>) {
    let (mut pid, mut handed) = (0, Vec::new());
    // SAFETY: the kernel has written the control messages, and their lengths are within the buffer.
    // A descriptor that it has installed belongs to nobody yet.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(header);
        while let Some(message) = next.as_ref() {
            let data = libc::CMSG_DATA(next);
            let length = message.cmsg_len - libc::CMSG_LEN(0) as usize;
            match (message.cmsg_level, message.cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) if length >= size_of::<libc::ucred>() => {
                    let who = data.cast::<libc::ucred>().read_unaligned();
                    pid = u32::try_from(who.pid).unwrap_or(0);
                }
                (libc::SOL_SOCKET, libc::SCM_RIGHTS) => {
                    for at in 0..length / size_of::<RawFd>() {
                        let number = data.cast::<RawFd>().add(at).read_unaligned();
                        handed.push(OwnedFd::from_raw_fd(number));
                    }
                }
                _ => {}
            }
            next = libc::CMSG_NXTHDR(header, next);
        }
    }
    (pid, handed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{
        AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, sendmsg, setsockopt,
        socketpair, sockopt,
    };
    use rejoin_wire::codec::MANAGER_LIMIT;
    use std::io::{IoSlice, PipeReader, Read};

    /// A socket of a rank, and the other end.
    fn pair() -> (LocalLink, OwnedFd) {
        let flags = SockFlag::SOCK_CLOEXEC;
        let (ours, theirs) =
            socketpair(AddressFamily::Unix, SockType::Stream, None, flags).unwrap();
        setsockopt(&ours, sockopt::PassCred, &true).unwrap();
        (LocalLink::new(ours, MANAGER_LIMIT, MANAGER_LIMIT), theirs)
    }

    /// Sends so many writing ends of a pipe, and returns its reading end.
    fn send_ends(socket: &OwnedFd, count: usize) -> PipeReader {
        let (reader, writer) = std::io::pipe().unwrap();
        let numbers = vec![writer.as_raw_fd(); count];
        let parts = [IoSlice::new(b"x")];
        let handed = [ControlMessage::ScmRights(&numbers)];
        let sent = sendmsg::<()>(socket.as_raw_fd(), &parts, &handed, MsgFlags::empty(), None);
        assert_eq!(sent, Ok(1));
        reader
    }

    #[test]
    fn descriptors_come_with_the_process_id_of_their_sender() {
        let (mut link, rank) = pair();
        assert!(matches!(receive(&mut link), Ok(None)));
        let _reader = send_ends(&rank, MOST_HANDED);
        let (pid, handed) = receive(&mut link).unwrap().unwrap();
        assert_eq!((pid, handed.len()), (std::process::id(), MOST_HANDED));
        drop(rank);
        assert!(receive(&mut link).is_err());
    }

    #[test]
    fn descriptors_of_a_message_with_too_many_do_not_stay_open() {
        let (mut link, rank) = pair();
        let mut reader = send_ends(&rank, 100);
        let (pid, handed) = receive(&mut link).unwrap().unwrap();
        assert_eq!(pid, std::process::id());
        assert!(handed.len() > MOST_WAITING && handed.len() < 100);
        drop(handed);
        // No writing end is left open here.
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }
}
