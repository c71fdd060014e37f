//! The handshake as the transports need it: how its bytes travel, and the descriptor that
//! accompanies them.
//!
//! A handshake over a local socket also sets up the memory of a link. The dialer makes the memory
//! and sends its descriptor with the proof; the acceptor maps it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};

use rejoin_channel_table::Address;
use socket2::Socket;

use super::shm::{self, HandshakeRole, LinkMemory, LinkSide, ShmEndpoint};
use super::{AnyEndpoint, Copies, tcp};

/// Starts a connection to an address without waiting for it.
///
/// # Errors
/// When the system refuses at once.
pub(crate) fn connect(address: &Address) -> io::Result<Socket> {
    match address {
        Address::Tcp(at) | Address::Advertised(at) => tcp::connect(*at),
        Address::Local(name) => shm::connect(*name),
    }
}

/// A failure that may occur again with the same kind of connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WireupFailure {
    /// The connection broke, or was closed without an answer.
    Connection,
    /// No memory can be shared.
    Memory,
}

/// The transport's part of a connection in its handshake.
pub(crate) enum Wireup {
    /// The link is the socket.
    Tcp,
    /// The link is memory that goes along with the dialer's proof.
    Shm {
        /// This side of the memory, which the dialer makes and the acceptor maps.
        side: Option<LinkSide>,
        /// The descriptor of the memory, still to be sent.
        offer: Option<OwnedFd>,
        /// The descriptor of the memory, as it came.
        came: Option<OwnedFd>,
    },
}

impl Wireup {
    /// Of a connection over a local socket, or over TCP.
    pub(crate) fn new(local: bool) -> Self {
        if !local {
            return Self::Tcp;
        }
        Self::Shm {
            side: None,
            offer: None,
            came: None,
        }
    }

    /// Has the other side read nothing in this process, though it may hold the connection for a
    /// link already.
    pub(crate) fn withdraw(&self) {
        if let Self::Shm {
            side: Some(side), ..
        } = self
        {
            side.withdraw();
        }
    }

    /// Sends bytes of the handshake, with the accompanying descriptor; returns how many were taken.
    ///
    /// # Errors
    /// The connection broke, or takes nothing now.
    pub(crate) fn send(&mut self, socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
        let Self::Shm { offer, .. } = self else {
            return socket.send_with_flags(bytes, libc::MSG_NOSIGNAL);
        };
        let sent = match offer {
            Some(offer) => shm::send_with(socket, bytes, offer.as_fd()),
            None => socket.send_with_flags(bytes, libc::MSG_NOSIGNAL),
        };
        if sent.is_ok() {
            *offer = None;
        }
        sent
    }

    /// Receives bytes of the handshake, with the accompanying descriptor.
    ///
    /// # Errors
    /// The connection broke, or there is nothing now.
    pub(crate) fn receive(&mut self, socket: &Socket, into: &mut [u8]) -> io::Result<usize> {
        if let Self::Shm { came, .. } = self {
            let (count, descriptor) = shm::receive(socket.as_fd(), into)?;
            if descriptor.is_some() {
                *came = descriptor;
            }
            return Ok(count);
        }
        let (at, len) = (into.as_mut_ptr().cast(), into.len());
        let socket = socket.as_raw_fd();
        // SAFETY: the pointer and length describe `into`.
        let count = unsafe { libc::recv(socket, at, len, libc::MSG_DONTWAIT) };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }

    /// Makes the memory of the link, if `local_size` ranks share the host, and sends it with the
    /// next message. The dialer's part.
    ///
    /// # Errors
    /// Why the system refuses.
    pub(crate) fn offer(&mut self, local_size: u32) -> io::Result<()> {
        if let Self::Shm { side, offer, .. } = self {
            let (memory, descriptor) = LinkMemory::make(shm::capacity(local_size))?;
            *side = Some(LinkSide::new(memory, HandshakeRole::Dialer));
            *offer = Some(descriptor);
        }
        Ok(())
    }

    /// Accepts the memory that the dialer has sent. The acceptor's part.
    ///
    /// # Errors
    /// Nothing came, or it cannot be used.
    pub(crate) fn take(&mut self) -> io::Result<()> {
        if let Self::Shm { side, came, .. } = self {
            let none = || io::Error::other("no shared memory came with the handshake");
            let memory = LinkMemory::open(came.take().ok_or_else(none)?)?;
            *side = Some(LinkSide::new(memory, HandshakeRole::Acceptor));
        }
        Ok(())
    }

    /// Whether the acceptor, which has `taken` what the dialer sent or closed the connection,
    /// understands it. The dialer's part.
    ///
    /// # Errors
    /// The two versions.
    pub(crate) fn agreed(&self, taken: bool) -> io::Result<()> {
        match self {
            Self::Shm {
                side: Some(side), ..
            } => side.agreed(taken),
            _ => Ok(()),
        }
    }

    /// Drops the descriptors, which no longer belong to this process, without a system call.
    pub(crate) fn forget(self) {
        if let Self::Shm { side, offer, came } = self {
            if let Some(side) = side {
                side.forget();
            }
            let _ = [offer, came].map(|fd| fd.map(IntoRawFd::into_raw_fd));
        }
    }

    /// This rank's end of the link, the handshake being over.
    pub(crate) fn into_endpoint(self, socket: OwnedFd, copies: Copies) -> AnyEndpoint {
        match self {
            Self::Shm {
                side: Some(side), ..
            } => AnyEndpoint::Shm(ShmEndpoint::new(socket, side, copies)),
            _ => AnyEndpoint::Tcp(tcp::TcpEndpoint::new(socket)),
        }
    }
}
