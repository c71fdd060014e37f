//! The listener for ranks of the same host: a local socket whose name is on the business card.
//!
//! Its name is abstract: it is in no file system, and is gone with the process. It belongs to the
//! network namespace, whose processes can list it, so the name is no secret. Both sides check each
//! other's user; the handshake is the same as over TCP.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};

use nix::sys::socket::{ControlMessage, MsgFlags, getsockopt, sendmsg, sockopt};
use rejoin_channel_table::card::LocalSocketName;
use rejoin_ckpt::passed;
use socket2::{Domain, SockAddr, Socket, Type};

use crate::descriptors;
use crate::os;

/// Connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 4096;

/// Words for the control message of as many descriptors as the kernel passes at once
/// (`SCM_MAX_FD`, 253).
const CONTROL_WORDS: usize = 2 + 253usize.div_ceil(2);
/// Connections of other users that are dropped before the rank does something else.
const MOST_FOREIGN: usize = 64;

/// The listener.
#[derive(Debug)]
pub struct HostListener {
    socket: Socket,
    name: LocalSocketName,
}

impl HostListener {
    /// Listens under a new random name.
    ///
    /// # Errors
    /// Why the system refuses.
    pub fn open() -> io::Result<Self> {
        let mut name = LocalSocketName::default();
        os::random(&mut name.0).map_err(io::Error::other)?;
        let socket = raised(Socket::new(Domain::UNIX, Type::STREAM, None)?)?;
        socket.bind(&address(name)?)?;
        socket.listen(BACKLOG)?;
        Ok(Self { socket, name })
    }

    /// The listener's name, for the business card.
    #[must_use]
    pub fn name(&self) -> LocalSocketName {
        self.name
    }

    /// The socket, to be watched.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Takes one waiting connection of the same user; `None` when there is none. An error is a lack
    /// of resources, or a flood of connections of other users.
    pub fn accept(&self) -> Option<io::Result<OwnedFd>> {
        self.accept_if(|socket| check_user(socket).is_ok())
    }

    /// Takes one waiting connection that is `wanted`, and drops others.
    fn accept_if(&self, wanted: impl Fn(&Socket) -> bool) -> Option<io::Result<OwnedFd>> {
        let mut foreign = 0;
        while foreign < MOST_FOREIGN {
            match self.socket.accept() {
                Ok((socket, _)) if wanted(&socket) => {
                    return Some(raised(socket).map(OwnedFd::from));
                }
                Ok(_) => foreign += 1,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return None,
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    _ => return Some(Err(error)),
                },
            }
        }
        let problem = format!("{foreign} connections of other users");
        Some(Err(io::Error::other(problem)))
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
pub fn connect(name: LocalSocketName) -> io::Result<Socket> {
    let socket = raised(Socket::new(Domain::UNIX, Type::STREAM, None)?)?;
    socket.connect(&address(name)?)?;
    check_user(&socket)?;
    Ok(socket)
}

fn address(name: LocalSocketName) -> io::Result<SockAddr> {
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
    let (count, came) = receive_all(socket, into, &mut [0; CONTROL_WORDS])?;
    let came = came.into_iter().next_back().map(descriptors::raise);
    Ok((count, came.transpose().map_err(io::Error::other)?))
}

/// Reads what there is, and all descriptors for which `control` and the limit on open files have
/// room.
fn receive_all(
    socket: BorrowedFd<'_>,
    into: &mut [u8],
    control: &mut [u64],
) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut piece = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: all zeroes is a valid msghdr.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut piece;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(control);
    // SAFETY: the header names buffers of these lengths, which live through the call.
    let count = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) };
    let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the call has just filled the header, and only this code takes the descriptors.
    Ok((count, unsafe { passed::descriptors(&header) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, pipe};
    use std::os::fd::RawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn descriptors_of_a_message_that_is_cut_short_are_closed() {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let (mut reader, writer) = pipe().expect("a pipe");
        let rights: [RawFd; 5] = [writer.as_raw_fd(); 5];
        let rights = [ControlMessage::ScmRights(&rights)];
        let bytes = [IoSlice::new(b"hello")];
        let socket = theirs.as_raw_fd();
        sendmsg::<()>(socket, &bytes, &rights, MsgFlags::empty(), None).expect("sent");
        drop(writer);
        let mut into = [0; 10];
        // There is room for two of the five.
        let (count, came) = receive_all(ours.as_fd(), &mut into, &mut [0; 3]).expect("read");
        assert_eq!((count, came.len()), (5, 2));
        drop(came);
        let rest = reader.read(&mut [0]).expect("the end of the pipe");
        assert_eq!(rest, 0, "no writer is left");
    }

    #[test]
    fn a_flood_of_foreign_connections_ends_the_call() {
        let listener = HostListener::open().expect("open");
        let flood: Vec<_> = (0..MOST_FOREIGN + 1)
            .map(|_| connect(listener.name()).expect("connected"))
            .collect();
        let refused = listener.accept_if(|_| false).expect("an answer");
        let error = refused.expect_err("none is wanted").to_string();
        assert!(error.contains("other users"), "{error}");
        assert!(listener.accept().expect("the last").is_ok());
        assert!(listener.accept().is_none());
        drop(flood);
    }
}
