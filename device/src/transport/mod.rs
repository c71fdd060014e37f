//! Transports: what carries a channel's bytes between two ranks.
//!
//! A transport makes links; a link is a stream of bytes in both directions that keeps order and may
//! break at any moment. The rest of the device needs no more than [`Stream`], so a link over shared
//! memory is a pair of rings, and one over verbs a queue pair that carries the stream in messages.
//! Dispatch is by the enum [`Link`], so the small calls on the fast path are inlined.

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
///   descriptor ready (edge-triggered) as soon as something can.
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
pub enum Link {
    /// Over TCP.
    Tcp(tcp::TcpLink),
}

impl Stream for Link {
    #[inline]
    unsafe fn write(&mut self, pieces: &[Piece]) -> Result<usize, Box<Fault>> {
        match self {
            // SAFETY: the caller keeps the same promise.
            Self::Tcp(link) => unsafe { link.write(pieces) },
        }
    }

    #[inline]
    unsafe fn read(&mut self, pieces: &[Piece]) -> Result<usize, Box<Fault>> {
        match self {
            // SAFETY: the caller keeps the same promise.
            Self::Tcp(link) => unsafe { link.read(pieces) },
        }
    }

    fn cut(&mut self) {
        match self {
            Self::Tcp(link) => link.cut(),
        }
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(link) => link.descriptor(),
        }
    }

    fn path(&self) -> io::Result<Path> {
        match self {
            Self::Tcp(link) => link.path(),
        }
    }

    fn forget(self) {
        match self {
            Self::Tcp(link) => link.forget(),
        }
    }
}
