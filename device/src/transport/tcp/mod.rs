//! Links over TCP, for IPv4 and IPv6.

mod interface_address;
pub mod interface_filter;
mod path;
mod socket;
mod system;
mod tcp_listeners;

pub use socket::connect;
pub use tcp_listeners::TcpListeners;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};

use super::{Capabilities, Endpoint, Fault, PathState, Piece, TransportId, closed, moved};

/// A connected socket, non-blocking, in the library's block of descriptors.
pub struct TcpEndpoint {
    socket: OwnedFd,
}

impl TcpEndpoint {
    /// Takes over a connected, non-blocking socket whose handshake is over.
    #[must_use]
    pub fn new(socket: OwnedFd) -> Self {
        socket::settled(&socket);
        Self { socket }
    }
}

impl Endpoint for TcpEndpoint {
    fn transport(&self) -> TransportId {
        TransportId::Tcp
    }

    #[inline(always)]
    fn capabilities(&self) -> Capabilities {
        Capabilities::STREAM
    }

    #[inline]
    unsafe fn try_write(&mut self, pieces: &[Piece]) -> Result<usize, Box<Fault>> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let socket = self.socket.as_raw_fd();
        if let [one] = pieces {
            // `send` spares the kernel a copy of the message header.
            // SAFETY: the caller promises readable memory.
            return moved(unsafe { libc::send(socket, one.iov_base, one.iov_len, flags) });
        }
        // SAFETY: all zeroes is a valid msghdr; sendmsg only reads through it.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = pieces.as_ptr().cast_mut();
        header.msg_iovlen = pieces.len();
        // SAFETY: the caller promises readable memory; the header lives through the call.
        moved(unsafe { libc::sendmsg(socket, &raw const header, flags) })
    }

    #[inline]
    unsafe fn try_read(&mut self, pieces: &[Piece]) -> Result<usize, Box<Fault>> {
        let socket = self.socket.as_raw_fd();
        let count = if let [one] = pieces {
            // SAFETY: the caller promises writable memory.
            unsafe { libc::recv(socket, one.iov_base, one.iov_len, libc::MSG_DONTWAIT) }
        } else {
            let pieces_count = i32::try_from(pieces.len()).unwrap_or(1);
            // SAFETY: the caller promises writable memory; the socket does not block.
            unsafe { libc::readv(socket, pieces.as_ptr(), pieces_count) }
        };
        if count == 0 {
            return Err(closed());
        }
        moved(count)
    }

    fn write_handshake(&mut self, bytes: &[u8]) -> Result<usize, Box<Fault>> {
        let piece = Piece {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        // SAFETY: the piece is the bytes.
        unsafe { self.try_write(&[piece]) }
    }

    fn cut(&mut self) {
        // SAFETY: the descriptor is open; shutdown touches no memory.
        let _ = unsafe { libc::shutdown(self.socket.as_raw_fd(), libc::SHUT_RDWR) };
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn path(&self) -> io::Result<PathState> {
        path::ask(self.socket.as_fd())
    }

    fn forget(self) {
        let _ = self.socket.into_raw_fd();
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::transport::conformance::conforms;

    /// Both ends of a new link.
    fn pair() -> (TcpEndpoint, TcpEndpoint) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a listener");
        let one = TcpStream::connect(listener.local_addr().expect("its address"));
        let (one, (other, _)) = (
            one.expect("connected"),
            listener.accept().expect("accepted"),
        );
        let ends = [one, other].map(|end| {
            end.set_nonblocking(true).expect("non-blocking");
            end.set_nodelay(true).expect("at once");
            TcpEndpoint::new(end.into())
        });
        ends.into()
    }

    conforms!(pair);
}
