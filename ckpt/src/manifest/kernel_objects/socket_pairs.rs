//! Pairs of local sockets within the process (`socketpair`), with what was sent and not received.

use std::os::fd::RawFd;

use super::super::description::Description;
use super::event_sources::information;
use super::socket_peer::SocketPeer;
use crate::{proc, sys};

/// Options of a socket that are numbers and are set again.
const OPTIONS: [i32; 4] = [
    libc::SO_PASSCRED,
    libc::SO_RCVLOWAT,
    libc::SO_PRIORITY,
    libc::SO_PEEK_OFF,
];
/// Options of a socket that are times and are set again.
const TIMES: [i32; 2] = [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO];
/// Options of its buffers: the system doubles what is set.
const BUFFERS: [i32; 2] = [libc::SO_SNDBUF, libc::SO_RCVBUF];
/// `ioctl`: memory of what was sent and not received (`SIOCOUTQ`).
const SENT_MEMORY: u64 = libc::TIOCOUTQ;

/// One end of a pair of sockets.
pub(super) struct SavedSocket {
    description: Description,
    options: [i32; OPTIONS.len()],
    times: [(i64, i64); TIMES.len()],
    buffers: [i32; BUFFERS.len()],
    /// Directions that are shut down.
    shut: u8,
    /// Messages that were not received, in order; one for a stream.
    unread: Vec<Vec<u8>>,
    /// The receiver is so far behind that this end could not send.
    is_full: bool,
}

/// Two ends, or one whose other end is closed.
pub(super) struct SocketPair {
    kind: i32,
    ends: [Option<SavedSocket>; 2],
}

/// The kind of a local socket that has no name; `None` for all others.
pub(super) fn kind_of(fd: RawFd) -> Option<i32> {
    // SAFETY: plain data for which all zeros is a value.
    let mut name: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: pointer and length describe the name.
    let named = unsafe { libc::getsockname(fd, (&raw mut name).cast(), &raw mut length) };
    let is_unnamed = length as usize == size_of::<libc::sa_family_t>();
    let is_local = named == 0 && i32::from(name.sun_family) == libc::AF_UNIX;
    (is_local && is_unnamed).then(|| option(fd, libc::SO_TYPE))
}

impl SocketPair {
    /// Of two ends, or of one whose other end is closed. `EBUSY` if a message with descriptors is
    /// under way.
    pub fn capture(kind: i32, ends: [Option<(Description, SocketPeer)>; 2]) -> sys::Sys<Self> {
        let mut pair = Self {
            kind,
            ends: [None, None],
        };
        for (place, end) in pair.ends.iter_mut().zip(ends) {
            *place = match end {
                Some((description, peer)) => {
                    Some(SavedSocket::capture(kind, description, peer.shut)?)
                }
                None => None,
            };
        }
        Ok(pair)
    }

    /// One of the pair's numbers.
    pub fn number(&self) -> RawFd {
        self.descriptions().next().map_or(-1, Description::number)
    }

    /// The open file descriptions of all ends.
    pub fn descriptions(&self) -> impl Iterator<Item = &Description> {
        self.ends.iter().flatten().map(|end| &end.description)
    }

    /// Bytes of the contents.
    pub fn size(&self) -> usize {
        let unread = self.ends.iter().flatten().flat_map(|end| &end.unread);
        unread.map(Vec::len).sum()
    }

    /// Makes it anew.
    pub fn restore(&self) -> sys::Sys<()> {
        let mut new = [0; 2];
        let kind = self.kind | libc::SOCK_CLOEXEC;
        // SAFETY: the pointer is to two numbers.
        let made = unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, new.as_mut_ptr()) };
        sys::check(made.into())?;
        self.fill(new)?;
        let is_pair = self.ends.iter().all(Option::is_some);
        for (end, new) in self.ends.iter().zip(new) {
            let Some(end) = end else {
                sys::close(new);
                continue;
            };
            if is_pair && end.shut != 0 {
                let how =
                    [libc::SHUT_RD, libc::SHUT_WR, libc::SHUT_RDWR][usize::from(end.shut & 3) - 1];
                // SAFETY: touches no memory.
                sys::check(unsafe { libc::shutdown(new, how) }.into())?;
            }
            end.description.install(new)?;
        }
        Ok(())
    }

    fn fill(&self, new: [RawFd; 2]) -> sys::Sys<()> {
        for (receiver, sender) in [(0, 1), (1, 0)] {
            let Some(end) = &self.ends[receiver] else {
                continue;
            };
            let from = new[sender];
            // Joined in another way, the same bytes may need more room than they had.
            set_option(from, libc::SO_SNDBUF, &(i32::MAX / 2))?;
            let full = self.ends[sender].as_ref().filter(|end| end.is_full);
            match (&end.unread[..], full) {
                ([bytes], Some(full)) if self.kind == libc::SOCK_STREAM => {
                    send_until_full(from, bytes, full.buffers[0])?;
                }
                (messages, _) => messages
                    .iter()
                    .try_for_each(|bytes| send_all(from, bytes))?,
            }
        }
        for (end, fd) in self.ends.iter().zip(new) {
            if let Some(end) = end {
                end.set_options(fd)?;
            }
        }
        Ok(())
    }
}

impl SavedSocket {
    fn capture(kind: i32, description: Description, shut: u8) -> sys::Sys<Self> {
        let fd = description.number();
        let text = information(fd)?;
        let passed = proc::field(&text, "scm_fds:").and_then(proc::number);
        if passed.is_some_and(|count| count > 0) {
            return Err(libc::EBUSY);
        }
        let options = OPTIONS.map(|name| option(fd, name));
        let buffers = BUFFERS.map(|name| option(fd, name));
        Ok(Self {
            unread: unread(fd, kind, shut)?,
            is_full: sent_memory(fd) >= buffers[0],
            times: TIMES.map(|name| time(fd, name)),
            description,
            options,
            buffers,
            shut,
        })
    }

    fn set_options(&self, fd: RawFd) -> sys::Sys<()> {
        for (name, value) in BUFFERS.into_iter().zip(self.buffers) {
            if option(fd, name) != value {
                set_option(fd, name, &(value / 2))?;
            }
        }
        for (name, value) in OPTIONS.into_iter().zip(self.options) {
            if option(fd, name) != value {
                set_option(fd, name, &value)?;
            }
        }
        for (name, (tv_sec, tv_usec)) in TIMES.into_iter().zip(self.times) {
            set_option(fd, name, &libc::timeval { tv_sec, tv_usec })?;
        }
        Ok(())
    }
}

/// The messages that were not received, which stay there.
fn unread(fd: RawFd, kind: i32, shut: u8) -> sys::Sys<Vec<Vec<u8>>> {
    if sys::events_now(fd) & libc::POLLIN == 0 {
        return Ok(Vec::new());
    }
    // Each look continues behind the last one.
    let before = option(fd, libc::SO_PEEK_OFF);
    set_option(fd, libc::SO_PEEK_OFF, &0)?;
    let read = match kind {
        libc::SOCK_STREAM => sys::readable_bytes(fd).and_then(|total| stream(fd, total)),
        _ => messages(fd, shut & 1 != 0),
    };
    set_option(fd, libc::SO_PEEK_OFF, &before)?;
    read
}

fn stream(fd: RawFd, total: usize) -> sys::Sys<Vec<Vec<u8>>> {
    if total == 0 {
        return Ok(Vec::new());
    }
    let bytes = peek(fd, total)?;
    if bytes.len() == total {
        Ok(vec![bytes])
    } else {
        Err(libc::EIO)
    }
}

fn messages(fd: RawFd, is_ended: bool) -> sys::Sys<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    loop {
        match peek(fd, LONGEST_MESSAGE) {
            // At the end of messages each call gives another empty one.
            Ok(bytes) if bytes.is_empty() && is_ended => return Ok(all),
            Ok(bytes) => all.push(bytes),
            Err(libc::EAGAIN) => return Ok(all),
            Err(errno) => return Err(errno),
        }
        if all.len() > MOST_MESSAGES {
            return Err(libc::EMSGSIZE);
        }
    }
}

/// More messages than fit into a buffer.
const MOST_MESSAGES: usize = 1 << 16;

/// No buffer holds a longer message by default.
const LONGEST_MESSAGE: usize = 4 << 20;

fn peek(fd: RawFd, most: usize) -> sys::Sys<Vec<u8>> {
    let mut bytes = vec![0; most];
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: pointer and length describe the buffer.
    let count = unsafe { libc::recv(fd, bytes.as_mut_ptr().cast(), most, flags) };
    let count = sys::check(count as i64)? as usize;
    if count > most {
        return Err(libc::EMSGSIZE);
    }
    bytes.truncate(count);
    bytes.shrink_to_fit();
    Ok(bytes)
}

fn send_all(fd: RawFd, mut bytes: &[u8]) -> sys::Sys<()> {
    loop {
        let sent = send(fd, bytes)?;
        bytes = &bytes[sent..];
        if bytes.is_empty() {
            return Ok(());
        }
    }
}

/// Sends bytes such that they fill so much memory: some of them one by one, because each message
/// takes memory of its own.
fn send_until_full(fd: RawFd, bytes: &[u8], memory: i32) -> sys::Sys<()> {
    let mut rest = bytes;
    while rest.len() > 1 && sent_memory(fd) + (rest.len() as i32) < memory {
        rest = &rest[send(fd, &rest[..1])?..];
    }
    send_all(fd, rest)
}

fn send(fd: RawFd, bytes: &[u8]) -> sys::Sys<usize> {
    let (start, length) = (bytes.as_ptr().cast(), bytes.len());
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: pointer and length describe the bytes.
    let count = unsafe { libc::send(fd, start, length, flags) };
    sys::check(count as i64).map(|count| count as usize)
}

fn sent_memory(fd: RawFd) -> i32 {
    let mut value = 0;
    // SAFETY: the request fills in one number.
    unsafe { libc::ioctl(fd, SENT_MEMORY, &raw mut value) };
    value
}

fn option(fd: RawFd, name: i32) -> i32 {
    let mut value = 0;
    read_option(fd, name, &mut value);
    value
}

fn time(fd: RawFd, name: i32) -> (i64, i64) {
    let mut value = libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    read_option(fd, name, &mut value);
    (value.tv_sec, value.tv_usec)
}

/// Leaves the value as it is if the system does not know the option.
fn read_option<T: Copy>(fd: RawFd, name: i32, value: &mut T) {
    let mut length = size_of::<T>() as libc::socklen_t;
    let place = std::ptr::from_mut(value).cast();
    // SAFETY: pointer and length describe the value, which is a number or a timeval.
    unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, name, place, &raw mut length) };
}

fn set_option<T: Copy>(fd: RawFd, name: i32, value: &T) -> sys::Sys<()> {
    let length = size_of::<T>() as libc::socklen_t;
    let place = std::ptr::from_ref(value).cast();
    // SAFETY: pointer and length describe the value.
    let set = unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, name, place, length) };
    sys::check(set.into()).map(drop)
}
