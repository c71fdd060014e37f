//! The other end of a local socket, as the kernel's socket diagnosis tells it (`sock_diag(7)`).

use std::os::fd::RawFd;

use crate::sys;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
/// Asks for the inode of the peer.
const UDIAG_SHOW_PEER: u32 = 4;
/// Attributes of the answer.
const UNIX_DIAG_PEER: u16 = 2;
const UNIX_DIAG_SHUTDOWN: u16 = 6;
/// Length of the header of each message in bytes.
const HEADER: usize = 16;
/// Length of the fixed part of an answer in bytes.
const FIXED: usize = 16;
const REQUEST: usize = HEADER + 24;

/// What the kernel knows about a connected local socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SocketPeer {
    /// Inode of the other end; 0 if it is closed.
    pub inode: u64,
    /// Directions that are shut down: bit 0 receives, bit 1 sends.
    pub shut: u8,
}

/// Asks the kernel about sockets.
pub(super) struct SocketDiagnosis {
    socket: RawFd,
}

impl SocketDiagnosis {
    /// Opens the kernel's service.
    pub fn open() -> sys::Sys<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: touches no memory.
        let made = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_SOCK_DIAG) };
        let socket = sys::check(made.into())? as RawFd;
        Ok(Self { socket })
    }

    /// The peer of the local socket with this inode; `None` if it has none.
    pub fn peer(&self, inode: u64) -> sys::Sys<Option<SocketPeer>> {
        let request = request(u32::try_from(inode).map_err(|_| libc::EOVERFLOW)?);
        sys::send(self.socket, &request)?;
        let mut answer = [0u8; 1024];
        let room = answer.len();
        // SAFETY: pointer and length describe the buffer.
        let count = unsafe {
            libc::recv(
                self.socket,
                answer.as_mut_ptr().cast(),
                room,
                libc::MSG_DONTWAIT,
            )
        };
        let count = sys::check(count as i64)? as usize;
        parse(&answer[..count.min(room)])
    }
}

impl Drop for SocketDiagnosis {
    fn drop(&mut self) {
        sys::close(self.socket);
    }
}

/// A request for one socket: header, then family, protocol, padding, states, inode, what to show,
/// and the socket's cookie, of which none is known.
fn request(inode: u32) -> [u8; REQUEST] {
    let mut bytes = [0; REQUEST];
    bytes[..4].copy_from_slice(&(REQUEST as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    bytes[HEADER] = libc::AF_UNIX as u8;
    let words = [u32::MAX, inode, UDIAG_SHOW_PEER, u32::MAX, u32::MAX];
    for (place, word) in bytes[HEADER + 4..].chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

fn parse(answer: &[u8]) -> sys::Sys<Option<SocketPeer>> {
    let half = |at: usize| {
        let bytes = answer.get(at..at + 2)?;
        Some(u16::from_ne_bytes([bytes[0], bytes[1]]))
    };
    if half(4) == Some(libc::NLMSG_ERROR as u16) {
        let errno = word(answer.get(HEADER..).unwrap_or_default()).unwrap_or(0) as i32;
        return Err(errno.wrapping_neg());
    }
    if half(4) != Some(SOCK_DIAG_BY_FAMILY) {
        return Err(libc::EIO);
    }
    let (mut inode, mut shut) = (None, 0);
    let mut at = HEADER + FIXED;
    while let (Some(length), Some(kind)) = (half(at), half(at + 2)) {
        let length = usize::from(length);
        let Some(value) = answer.get(at + 4..at + length) else {
            break;
        };
        match kind {
            UNIX_DIAG_PEER => inode = word(value),
            UNIX_DIAG_SHUTDOWN => shut = value.first().copied().unwrap_or(0),
            _ => {}
        }
        at += length.next_multiple_of(4);
    }
    Ok(inode.map(|inode| SocketPeer {
        inode: inode.into(),
        shut,
    }))
}

fn word(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::{UnixDatagram, UnixStream};

    fn inode(socket: &impl AsRawFd) -> u64 {
        sys::status(socket.as_raw_fd()).expect("its data").st_ino
    }

    #[test]
    fn the_kernel_tells_the_other_end_of_a_pair() {
        let kernel = SocketDiagnosis::open().expect("the service");
        let (first, second) = UnixStream::pair().expect("a pair");
        let peer = kernel.peer(inode(&first)).expect("an answer");
        let open = SocketPeer {
            inode: inode(&second),
            shut: 0,
        };
        assert_eq!(peer, Some(open));
        second.shutdown(std::net::Shutdown::Write).expect("shut");
        let peer = kernel.peer(inode(&second)).expect("an answer");
        assert_eq!(peer.map(|peer| peer.shut), Some(2));
        drop(second);
        let peer = kernel.peer(inode(&first)).expect("an answer");
        assert_eq!(peer, Some(SocketPeer { inode: 0, shut: 3 }));
        let alone = UnixDatagram::unbound().expect("a socket");
        assert_eq!(kernel.peer(inode(&alone)), Ok(None));
        assert_eq!(kernel.peer(u64::from(u32::MAX)), Err(libc::ENOENT));
    }

    #[test]
    fn cut_answers_are_no_peers() {
        assert_eq!(parse(&[]), Err(libc::EIO));
        let mut answer = vec![0; HEADER + FIXED];
        answer[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        assert_eq!(parse(&answer), Ok(None));
        answer.extend([200, 0, 2, 0, 1, 2]);
        assert_eq!(parse(&answer), Ok(None));
        answer.truncate(HEADER + FIXED);
        answer.extend([0, 0, 2, 0]);
        assert_eq!(parse(&answer), Ok(None));
    }
}
