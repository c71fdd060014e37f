//! Transports, which carry a channel's messages between two ranks.
//!
//! An *endpoint* is this rank's end of an established link to one peer. [`Endpoint`] is all that
//! the rest of the device knows of it: capabilities, and calls that never block. Every endpoint
//! carries a stream of bytes in both directions that keeps order and may break at any moment. Some
//! also carry short messages beside it, with less work ([`Capabilities::max_short`],
//! [`Capabilities::max_bcopy`]), or let the receiver read a body out of the sender's memory
//! ([`Endpoint::get`]). Dispatch is by the enum [`AnyEndpoint`], so the calls of the fast path are
//! inlined.
//!
//! A transport is a folder here: its endpoint, its part in [`Wireup`], and its listener.

mod any;
#[cfg(test)]
mod conformance;
mod listeners;
mod shm;
mod tcp;
mod wireup;

pub use any::AnyEndpoint;
pub use listeners::InterfaceFilter;
pub(crate) use listeners::{Accepted, ListenOptions, Listeners};
pub(crate) use shm::MAX_BODY as MAX_BESIDE_STREAM;
#[cfg(fuzzing)]
pub use shm::malicious_peer;
pub(crate) use wireup::{Wireup, WireupFailure, connect};

use std::fmt::{self, Display, Formatter};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rejoin_engine::{Gets, ShortHeader};

/// A transport, which users see by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportId {
    /// A connection over TCP.
    Tcp,
    /// Memory that two processes of one host share.
    SharedMemory,
}

impl Display for TransportId {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Tcp => "TCP",
            Self::SharedMemory => "shared memory",
        })
    }
}

/// A piece of memory to write from or to read into.
pub type Piece = libc::iovec;

/// A link's bytes cannot flow any more: end of file, a reset, or a protocol breach on it. Never a
/// verdict on the peer, only on this link.
#[derive(Debug)]
pub struct Lost(pub String);

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Self {
        Self(crate::error::text_of(&error))
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

/// The result of a message on the fast path.
#[derive(Debug)]
pub enum SendOutcome {
    /// The message is on its way, and complete for its sender.
    Sent,
    /// Other work comes first, and the message was not tried.
    Untried,
    /// The endpoint can't take it now, or not on the fast path. Nothing was done: the slow path
    /// continues, without another attempt.
    WouldBlock,
    /// The sender retains it, and sends it again over the next link. The device is to drop this
    /// link ([`Device::link_lost`](crate::Device::link_lost)).
    LinkLost(Box<Fault>),
}

/// The system's state of the path to the other end.
#[derive(Clone, Copy, Debug)]
pub struct PathState {
    /// Something is under way that the other end has not answered, though it was sent again or the
    /// other end was probed.
    pub waits: bool,
    /// Time since the last ack, to whatever.
    pub since_ack: Duration,
    /// Bytes that were acknowledged or received on this link, its handshake included.
    pub moved: u64,
}

/// The capabilities of an endpoint beside its stream of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Longest body in bytes that goes with its header ([`Endpoint::try_short`]), if any does.
    pub max_short: Option<usize>,
    /// Longest body in bytes that is copied into a buffer of the link ([`Endpoint::try_bcopy`]), if
    /// any is.
    pub max_bcopy: Option<usize>,
    /// The endpoint raises no event until its doorbell is armed, and must be polled.
    pub doorbell: bool,
}

impl Capabilities {
    /// The capabilities of a mere stream of bytes, which raises events by itself.
    pub const STREAM: Self = Self {
        max_short: None,
        max_bcopy: None,
        doorbell: false,
    };
}

/// How the body of a message travels over a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// The body goes with its header ([`Endpoint::try_short`]).
    Short,
    /// The body goes through a buffer of the link ([`Endpoint::try_bcopy`]).
    BufferedCopy,
    /// The body goes as a frame in the stream of bytes. Where the receiver can read the sender's
    /// memory, the frame of a body of [`Endpoint::gets`] says where the body is (single
    /// copy): the engine knows whether the receiver can.
    Stream,
}

impl Capabilities {
    /// The mechanism for a body of `len` bytes.
    #[inline(always)]
    #[must_use]
    pub fn mechanism(&self, len: usize) -> Mechanism {
        let fits = |most: Option<usize>| most.is_some_and(|most| len <= most);
        if fits(self.max_short) {
            Mechanism::Short
        } else if fits(self.max_bcopy) {
            Mechanism::BufferedCopy
        } else {
            Mechanism::Stream
        }
    }
}

/// How the sides of a link copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copies {
    /// Long bodies go from memory to memory, where the system lets them.
    pub(crate) single: bool,
    /// The shortest of them. `None`: the transport finds it out.
    pub(crate) min_get: Option<usize>,
    /// Ranks share cores.
    pub(crate) shared_cores: bool,
}

/// Makes the header of a message once there is room for it, or refuses.
pub trait MakeHeader {
    /// The header; `None`: the message goes another way, and nothing was done.
    fn make(self) -> Option<ShortHeader>;
}

impl<F: FnOnce() -> Option<ShortHeader>> MakeHeader for F {
    #[inline(always)]
    fn make(self) -> Option<ShortHeader> {
        self()
    }
}

/// Most parts of one [`Endpoint::get`].
pub const MAX_GET_PARTS: usize = rejoin_ring::chunks::MOST;

/// A part of a body: where it is in the peer's memory, and where it goes in this process's.
#[derive(Clone, Copy, Debug)]
pub struct GetPart {
    /// Address in the peer's memory.
    pub from: u64,
    /// Where it goes.
    pub to: *mut u8,
    /// Bytes.
    pub len: usize,
}

impl GetPart {
    /// None at all.
    pub const EMPTY: Self = Self {
        from: 0,
        to: std::ptr::null_mut(),
        len: 0,
    };
}

/// The contract of an endpoint.
///
/// - No call blocks but `get`, which waits until the sender has finished the chunks that it copies.
///   The calls that await room or the peer's progress spin for microseconds.
/// - A count of 0 means that nothing can be moved now; the transport then makes its descriptor
///   ready (edge-triggered) as soon as something can. An endpoint with a doorbell
///   ([`Capabilities::doorbell`]) does so only while the doorbell is armed.
/// - Fewer bytes than asked for means the same as 0 about the rest, so a caller need not try again
///   before the next event.
/// - Bytes that `try_write` took may be lost with the link. The caller keeps the bytes that it
///   needs.
/// - Short messages, buffered copies and bytes keep one order.
/// - After [`Fault::Link`] the endpoint is only good for dropping.
/// - `try_short` and `try_bcopy` report a lost link only when they wake the peer. Where they find a
///   position that the peer can't have, they refuse the message. The slow path writes after each
///   refusal, and that write returns the fault. So the fast path makes no test for lost links.
pub trait Endpoint {
    /// The transport of the link, for messages to users and for the handshake.
    fn transport(&self) -> TransportId;

    /// The endpoint's capabilities beside the stream.
    fn capabilities(&self) -> Capabilities;

    /// Sends a message with its header, if there is room: `pack` makes the header then, and may
    /// still refuse. After [`SendOutcome::WouldBlock`] the message goes as a frame.
    #[inline(always)]
    fn try_short(&mut self, _body: &[u8], _pack: impl MakeHeader) -> SendOutcome {
        SendOutcome::WouldBlock
    }

    /// Sends a message like [`Endpoint::try_short`], with a body that is copied into a buffer of
    /// the link.
    #[inline(always)]
    fn try_bcopy(&mut self, _body: &[u8], _pack: impl MakeHeader) -> SendOutcome {
        SendOutcome::WouldBlock
    }

    /// Waits for room for a short message while the peer continues to take some, for microseconds.
    /// False: there is none.
    #[inline(always)]
    fn await_room(&mut self) -> bool {
        true
    }

    /// Waits until the peer takes something, for microseconds; false when the peer does not.
    fn await_peer_progress(&mut self) -> bool {
        false
    }

    /// The header of the short message or buffered copy that comes next, if one does: a copy that
    /// the peer cannot change.
    #[inline(always)]
    fn try_recv(&self) -> Option<ShortHeader> {
        None
    }

    /// Takes the message whose header [`Endpoint::try_recv`] gave: copies the first bytes of its
    /// body to where they go.
    ///
    /// # Safety
    /// `into` is writable memory of at most as many bytes as the body has, that nothing else uses.
    #[inline(always)]
    unsafe fn take(&mut self, _header: &ShortHeader, _into: Piece) {}

    /// Writes the pieces in order, as far as there is room, and returns the number of bytes taken.
    ///
    /// # Safety
    /// Each piece is readable memory.
    ///
    /// # Errors
    /// The link is broken, or a piece is no readable memory.
    unsafe fn try_write(&mut self, pieces: &[Piece]) -> Result<usize, Box<Fault>>;

    /// Reads into the pieces in order, as far as there is data, and returns the number of bytes.
    /// The pieces have room for at least one byte.
    ///
    /// # Safety
    /// Each piece is writable memory that nothing else uses during the call.
    ///
    /// # Errors
    /// The link is broken, the peer has closed it, or a piece is no writable memory.
    unsafe fn try_read(&mut self, pieces: &[Piece]) -> Result<usize, Box<Fault>>;

    /// Writes the end of the handshake, which goes ahead of everything, where the peer expects it.
    ///
    /// # Errors
    /// The link is broken.
    fn write_handshake(&mut self, bytes: &[u8]) -> Result<usize, Box<Fault>>;

    /// Which bodies are better read out of the sender's memory than sent ([`Endpoint::get`]), where
    /// [`Endpoint::remote_access`] says that they can be. It may change while the link is there.
    fn gets(&self) -> Option<Gets> {
        None
    }

    /// Tells the peer which bodies to offer for reading: a word of
    /// [`BodyCosts`](crate::cost::BodyCosts).
    fn ask_for_gets(&self, _word: u64) {}

    /// Whether this side can read the peer's memory, and the peer this side's, if that is known
    /// yet.
    fn remote_access(&self) -> (bool, Option<bool>) {
        (false, Some(false))
    }

    /// Why the peer's memory cannot be read, if that was tried.
    fn obstacle(&self) -> Option<String> {
        None
    }

    /// Copies parts of bodies from the peer's memory, at most [`MAX_GET_PARTS`]. Returns bits of
    /// the parts that failed. `cooperative`: the peer may copy some of them while it waits for this
    /// side. A long wait calls `waits`.
    ///
    /// # Safety
    /// Each part's place is writable, and nothing else uses it during the call.
    unsafe fn get(
        &mut self,
        _parts: &[GetPart],
        _cooperative: bool,
        _waits: &mut dyn FnMut(),
    ) -> u64 {
        u64::MAX
    }

    /// Copies parts of a body into the peer's memory, if it asks for that; returns their bytes.
    #[inline]
    fn serve_get(&mut self) -> usize {
        0
    }

    /// Has the peer read nothing in this process any more.
    fn withdraw(&self) {}

    /// An event has arrived for the descriptor. The next read shows its bytes.
    fn note_event(&mut self) {}

    /// Whether there is neither anything to read nor an end to be noticed; false where only a read
    /// tells.
    #[inline]
    fn is_idle(&self) -> bool {
        false
    }

    /// Asks for an event at the next byte, and at the next room where a write has found none. True
    /// when either is there already: no event may come then.
    ///
    /// # Errors
    /// The link is broken.
    fn arm_doorbell(&mut self, _for_room: bool) -> Result<bool, Box<Fault>> {
        Ok(false)
    }

    /// No event is needed any more. True when there is something to read.
    fn disarm_doorbell(&mut self) -> bool {
        false
    }

    /// Doorbells that this side has rung so far, each of which takes a system call.
    fn doorbells_rung(&self) -> u64 {
        0
    }

    /// Bytes of memory that both ends share for the link.
    fn shared_bytes(&self) -> usize {
        0
    }

    /// Breaks the link at once, so that both sides notice (tests only).
    fn cut(&mut self);

    /// The descriptor to watch.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// The state of the path to the other end, also of a broken link.
    ///
    /// # Errors
    /// When the system does not tell.
    fn path(&self) -> io::Result<PathState>;

    /// Drops descriptors that are no longer this process's, without a system call.
    fn forget(self);
}

/// The result of a system call that moves bytes.
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

/// The link's fault, or that of the memory: an address that is not mapped, or a length that no
/// memory can have.
#[cold]
fn fault(error: io::Error) -> Box<Fault> {
    Box::new(match error.raw_os_error() {
        Some(libc::EFAULT | libc::EINVAL) => Fault::Memory(error),
        _ => Fault::Link(error.into()),
    })
}
