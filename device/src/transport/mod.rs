//! Transports: what carries a channel's bytes between two ranks.
//!
//! A transport makes links; a link is a stream of bytes in both directions that keeps order and may
//! break at any moment. [`Stream`] is all that the device needs of it for messages, so a transport can be added
//! that does no more. A link over shared memory does: it has a short way for brief messages
//! ([`Link::brief`]), and bodies may be read out of the sender's memory past it. Dispatch is by the enum
//! [`Link`], so the small calls on the fast path are inlined.

pub mod shm;
pub mod tcp;

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// A piece of memory to write from or to read into.
pub type Piece = libc::iovec;

/// A link's bytes cannot flow any more: end of file, a reset, or a protocol breach on it. Never a
/// verdict on the peer, only on this link.
#[derive(Debug)]
pub struct Lost(pub String);

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

/// Why bytes did not move.
#[derive(Debug)]
pub enum Fault {
    /// The link is broken.
    Link(Lost),
    /// The link is good, but the system cannot use the memory that it was given.
    Memory(io::Error),
}

/// What the system knows of the way to the other end.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Something is under way that the other end has not answered, though it was sent again or the
    /// other end was probed.
    pub waits: bool,
    /// Time since the last ack, to whatever.
    pub since_ack: Duration,
    /// Bytes that were acknowledged or received on this link, its handshake included.
    pub moved: u64,
}

/// The contract of a link.
///
/// - No call blocks. A count of 0 means that nothing can be moved now; the transport then makes its
///   descriptor ready (edge-triggered) as soon as something can. One that is polled
///   ([`Stream::is_polled`]) does so only while it is armed.
/// - Fewer bytes than asked for means the same as 0 about the rest, so a caller need not try again
///   before the next event.
/// - Bytes that were taken by `write` may be lost with the link. Whoever needs them keeps them.
/// - After [`Fault::Link`] the link is only good for dropping.
pub trait Stream {
    /// Writes the pieces in order, as far as there is room, and returns the number of bytes taken.
    ///
    /// # Safety
    /// Each piece is readable memory.
    ///
    /// # Errors
    /// The link is broken, or a piece is no readable memory.
    unsafe fn write(&mut self, pieces: &[Piece]) -> Result<usize, Box<Fault>>;

    /// Reads into the pieces in order, as far as there is data, and returns the number of bytes.
    ///
    /// # Safety
    /// Each piece is writable memory that nothing else uses during the call.
    ///
    /// # Errors
    /// The link is broken, the peer has closed it, or a piece is no writable memory.
    unsafe fn read(&mut self, pieces: &[Piece]) -> Result<usize, Box<Fault>>;

    /// Writes the end of the handshake, which goes ahead of everything, where the peer expects it.
    ///
    /// # Errors
    /// The link is broken.
    fn write_ahead(&mut self, bytes: &[u8]) -> Result<usize, Box<Fault>>;

    /// An event has come for the descriptor. What it brought shows at the next read.
    fn heard(&mut self) {}

    /// Whether the link must be looked at without an event: it raises none until it is armed.
    fn is_polled(&self) -> bool {
        false
    }

    /// Asks for an event at the next byte, and at the next room where a write has found none. True
    /// when either is there already: no event may come then.
    ///
    /// # Errors
    /// The link is broken.
    fn arm(&mut self, _for_room: bool) -> Result<bool, Box<Fault>> {
        Ok(false)
    }

    /// No event is needed any more. True when there is something to read.
    fn disarm(&mut self) -> bool {
        false
    }

    /// Breaks the link at once, so that both sides notice (tests only).
    fn cut(&mut self);

    /// The descriptor to watch.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// What is known of the way to the other end, also of a broken link.
    ///
    /// # Errors
    /// When the system does not tell.
    fn path(&self) -> io::Result<Path>;

    /// Lets go of descriptors that are no longer this process's, without a system call.
    fn forget(self);
}

/// A live link of some transport.
#[allow(
    clippy::large_enum_variant,
    reason = "it lies in a box of its own, and the fast path follows no second one"
)]
pub enum Link {
    /// Over TCP.
    Tcp(tcp::TcpLink),
    /// Over shared memory.
    Shm(shm::ShmLink),
}

/// The same call on whichever link it is.
macro_rules! each {
    ($link:expr, $name:ident => $call:expr) => {
        match $link {
            Link::Tcp($name) => $call,
            Link::Shm($name) => $call,
        }
    };
}

impl Link {
    /// Whether a polled link has nothing to read and no end to be noticed.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        match self {
            Self::Tcp(_) => false,
            Self::Shm(link) => link.is_idle(),
        }
    }

    /// The link as one that carries brief messages.
    #[inline]
    pub(crate) fn brief(&mut self) -> Option<&mut shm::ShmLink> {
        match self {
            Self::Tcp(_) => None,
            Self::Shm(link) => Some(link),
        }
    }

    /// Has the peer read nothing in this process any more.
    pub(crate) fn withdraw(&self) {
        match self {
            Self::Tcp(_) => {}
            Self::Shm(link) => link.withdraw(),
        }
    }

    /// Bytes of shared memory that the link takes, and system calls that it has made to wake its peer.
    pub(crate) fn shared(&self) -> (usize, u64) {
        match self {
            Self::Tcp(_) => (0, 0),
            Self::Shm(link) => (link.memory(), link.wakes()),
        }
    }
}

impl Stream for Link {
    #[inline]
    unsafe fn write(&mut self, pieces: &[Piece]) -> Result<usize, Box<Fault>> {
        // SAFETY: the caller keeps the same promise.
        each!(self, link => unsafe { link.write(pieces) })
    }

    #[inline]
    unsafe fn read(&mut self, pieces: &[Piece]) -> Result<usize, Box<Fault>> {
        // SAFETY: the caller keeps the same promise.
        each!(self, link => unsafe { link.read(pieces) })
    }

    fn write_ahead(&mut self, bytes: &[u8]) -> Result<usize, Box<Fault>> {
        each!(self, link => link.write_ahead(bytes))
    }

    #[inline]
    fn heard(&mut self) {
        each!(self, link => link.heard());
    }

    #[inline]
    fn is_polled(&self) -> bool {
        each!(self, link => link.is_polled())
    }

    fn arm(&mut self, for_room: bool) -> Result<bool, Box<Fault>> {
        each!(self, link => link.arm(for_room))
    }

    fn disarm(&mut self) -> bool {
        each!(self, link => link.disarm())
    }

    fn cut(&mut self) {
        each!(self, link => link.cut());
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        each!(self, link => link.descriptor())
    }

    fn path(&self) -> io::Result<Path> {
        each!(self, link => link.path())
    }

    fn forget(self) {
        each!(self, link => link.forget());
    }
}

/// What a system call that moves bytes said.
#[inline]
fn moved(count: isize) -> Result<usize, Box<Fault>> {
    if let Ok(count) = usize::try_from(count) {
        return Ok(count);
    }
    let error = io::Error::last_os_error();
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
        _ => Err(fault(error)),
    }
}

#[cold]
fn closed() -> Box<Fault> {
    let why = "the peer closed the connection".to_owned();
    Box::new(Fault::Link(Lost(why)))
}

/// The link's fault, or that of the memory: an address that is not mapped, or a length that no memory
/// can have.
#[cold]
fn fault(error: io::Error) -> Box<Fault> {
    Box::new(match error.raw_os_error() {
        Some(libc::EFAULT | libc::EINVAL) => Fault::Memory(error),
        _ => Fault::Link(error.into()),
    })
}
