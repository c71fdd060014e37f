//! Makes connections, and sets the options of a link's socket.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};

use crate::descriptors;
use crate::error::Result as DeviceResult;

/// How long the kernel retransmits unacknowledged bytes before it gives up the link, in the
/// handshake only. Later it would also break the link to a computing peer with a full window,
/// although the peer's kernel answers every probe.
const USER_TIMEOUT: Duration = Duration::from_secs(20);
/// Idle time before the kernel probes a silent peer, and the time between probes.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// Starts a connection without waiting for it: the socket becomes writable when the outcome is
/// there.
///
/// # Errors
/// When the system refuses at once: no such network, no descriptors left.
pub fn connect(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    let socket = raise(socket)?;
    prepare(&socket, address.ip().is_loopback())?;
    match socket.connect(&SockAddr::from(address)) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
        Err(error) => return Err(error),
    }
    Ok(socket)
}

/// Sets what every link's socket needs.
///
/// The kernel tunes the buffers. Fixed sizes gained nothing over loopback, and sizes from 4 MiB on
/// cost several times the latency at 64 KiB. A connection within the host is never congested, and a
/// pacing congestion control (BBR) would halve its throughput from 1 MiB on.
pub(super) fn prepare(socket: &Socket, same_host: bool) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    socket.set_tcp_keepalive(
        &socket2::TcpKeepalive::new()
            .with_time(KEEP_ALIVE)
            .with_interval(KEEP_ALIVE),
    )?;
    if same_host {
        // One that does not pace; which ones are there and allowed depends on the machine.
        let _ = socket
            .set_tcp_congestion(b"cubic")
            .or_else(|_| socket.set_tcp_congestion(b"reno"));
    }
    Ok(())
}

/// The handshake is over. From now on, the kernel's own limits on retransmissions and on unanswered
/// probes detect a dead path; keepalive does so on an idle link.
pub(super) fn settled(socket: &OwnedFd) {
    // A link without the longer patience still works.
    let _ = SockRef::from(socket).set_tcp_user_timeout(None);
}

/// The socket under a number in the library's block.
pub(super) fn raise(socket: Socket) -> io::Result<Socket> {
    let raised: DeviceResult<OwnedFd> = descriptors::raise(socket.into());
    raised.map(Socket::from).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Endpoint;
    use crate::transport::tcp::TcpEndpoint;

    #[test]
    fn a_peer_that_computes_does_not_lose_its_link() {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap();
        prepare(&socket, true).unwrap();
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(USER_TIMEOUT));
        let link = TcpEndpoint::new(socket.into());
        let descriptor = link.descriptor();
        let socket = SockRef::from(&descriptor);
        assert_eq!(socket.tcp_user_timeout().unwrap(), None);
        assert!(socket.keepalive().unwrap());
    }
}
