//! The listener for ranks of the same host: a local socket whose name is on the business card.
//!
//! Its name is abstract: it is in no file system, and is gone with the process. It belongs to the
//! network namespace, whose processes can list it, so the name is no secret. Both sides check each
//! other's user; the handshake is the same as over TCP.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, getsockopt, recvmsg, sendmsg, sockopt,
};
use rejoin_channel_table::card::DoorName;
use socket2::{Domain, SockAddr, Socket, Type};

use crate::descriptors;
use crate::os;

/// Connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 4096;

/// `SCM_MAX_FD` of Linux.
const MOST_DESCRIPTORS: usize = 253;

/// The listener.
#[derive(Debug)]
pub struct HostListener {
    socket: Socket,
    name: DoorName,
}

impl HostListener {
    /// Listens under a new random name.
    ///
    /// # Errors
    /// Why the system refuses.
    pub fn open() -> io::Result<Self> {
        let mut name = DoorName::default();
        os::random(&mut name.0).map_err(io::Error::other)?;
        let socket = raised(Socket::new(Domain::UNIX, Type::STREAM, None)?)?;
        socket.bind(&address(name)?)?;
        socket.listen(BACKLOG)?;
        Ok(Self { socket, name })
    }

    /// Its name, for the business card.
    #[must_use]
    pub fn name(&self) -> DoorName {
        self.name
    }

    /// The socket, to be watched.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Takes one waiting connection of the same user; `None` when there is none.
    pub fn accept(&self) -> Option<io::Result<OwnedFd>> {
        loop {
            match self.socket.accept() {
                Ok((socket, _)) => {
                    if check_user(&socket).is_err() {
                        continue;
                    }
                    return Some(raised(socket).map(OwnedFd::from));
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return None,
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    _ => return Some(Err(error)),
                },
            }
        }
    }

    /// Drops a number that is no longer this library's, without a system call.
    pub(crate) fn forget(self) {
        let _ = self.socket.into_raw_fd();
    }
}

/// Connects to a listener of this host, without waiting.
///
/// # Errors
/// No such listener here, or another user's.
pub fn connect(name: DoorName) -> io::Result<Socket> {
    let socket = raised(Socket::new(Domain::UNIX, Type::STREAM, None)?)?;
    socket.connect(&address(name)?)?;
    check_user(&socket)?;
    Ok(socket)
}

fn address(name: DoorName) -> io::Result<SockAddr> {
    SockAddr::unix(format!("\0rejoin-{name}"))
}

fn raised(socket: Socket) -> io::Result<Socket> {
    let socket = Socket::from(descriptors::raise(socket.into()).map_err(io::Error::other)?);
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn check_user(socket: &Socket) -> io::Result<()> {
    let theirs = getsockopt(socket, sockopt::PeerCredentials)?.uid();
    if theirs != nix::unistd::geteuid().as_raw() {
        let problem = format!("it belongs to another user, {theirs}");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
    }
    Ok(())
}

/// Sends bytes; `descriptor` leaves with the first of them.
///
/// # Errors
/// The connection broke, or there is no room now.
pub(crate) fn send_with(
    socket: &Socket,
    bytes: &[u8],
    descriptor: BorrowedFd<'_>,
) -> io::Result<usize> {
    let rights = [descriptor.as_raw_fd()];
    let rights = [ControlMessage::ScmRights(&rights)];
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    let bytes = [IoSlice::new(bytes)];
    Ok(sendmsg::<()>(
        socket.as_raw_fd(),
        &bytes,
        &rights,
        flags,
        None,
    )?)
}

/// Reads what there is, and the descriptor that came along; surplus ones are closed.
///
/// # Errors
/// The connection broke, or there is nothing now.
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    into: &mut [u8],
) -> io::Result<(usize, Option<OwnedFd>)> {
    // As many as the kernel passes at once: a list that is cut short could not be closed.
    let mut space = nix::cmsg_space!([RawFd; MOST_DESCRIPTORS]);
    let mut pieces = [IoSliceMut::new(into)];
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut pieces, Some(&mut space), flags)?;
    let mut came = None;
    for part in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(numbers) = part {
            for number in numbers {
                // SAFETY: the kernel has just made this descriptor, no other code owns it.
                came = Some(unsafe { OwnedFd::from_raw_fd(number) });
            }
        }
    }
    let came = came.map(descriptors::raise).transpose();
    Ok((message.bytes, came.map_err(io::Error::other)?))
}
