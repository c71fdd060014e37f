//! The types of the engine's interface: segments, envelopes, requests, completions, pieces.

use rejoin_channel_table::ids::{Incarnation, Rank, Ssn};

/// A piece of the application's memory. The engine never looks into it; the device does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Segment {
    /// Address of the first byte.
    pub addr: usize,
    /// Length in bytes.
    pub len: usize,
}

impl Segment {
    /// The part of `len` bytes that starts `offset` bytes into the segment, cut at its end.
    #[must_use]
    pub fn part(self, offset: usize, len: usize) -> Segment {
        let offset = offset.min(self.len);
        Segment {
            addr: self.addr.wrapping_add(offset),
            len: len.min(self.len - offset),
        }
    }
}

/// The fields by which a message is matched (MPI-5.0 §3.2.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Envelope {
    /// Context id of the communicator.
    pub context: u32,
    /// Sender's rank in that communicator.
    pub source: i32,
    /// Tag.
    pub tag: i32,
}

/// What a receive or a probe matches (MPI-5.0 §3.2.4); `None` is the wildcard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// Context id of the communicator.
    pub context: u32,
    /// Sender's rank in the communicator, or any.
    pub source: Option<i32>,
    /// Tag, or any.
    pub tag: Option<i32>,
    /// World rank of the sender when `source` is given: whose window matters.
    pub from: Option<Rank>,
}

/// Send mode (MPI-5.0 §3.4). Buffered and ready sends are standard ones to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageMode {
    /// Completes when the buffer may be used again.
    Standard,
    /// Like `Standard`; and the caller will [`detach`](crate::Engine::detach) it after its write,
    /// so that the receiver need not hurry to acknowledge it.
    Blocking,
    /// Completes not before the message is matched.
    Synchronous,
}

/// A request: generational, so that a stale copy answers nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReqId(pub u64);

impl ReqId {
    /// Stands for a send that was complete at once: `poll` answers it again and again.
    pub const DONE: ReqId = ReqId(u64::MAX);
}

/// A message taken out of matching by a matched probe (MPI-5.0 §3.8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MsgId(pub u64);

/// The result of a send call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sent {
    /// Complete: the memory may be used again.
    Done,
    /// Poll the request; until then the memory stays as it is.
    Pending(ReqId),
}

/// The end of a request. Of a send only `cancelled` says something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Completion {
    /// Sender's rank in the communicator.
    pub source: i32,
    /// Tag of the message.
    pub tag: i32,
    /// Bytes delivered, at most the length of the buffer.
    pub len: u64,
    /// The message's length when it was longer than the buffer.
    pub truncated: Option<u64>,
    /// The request was cancelled and nothing was delivered.
    pub cancelled: bool,
}

/// The result of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Probe {
    /// Sender's rank in the communicator.
    pub source: i32,
    /// Tag of the message.
    pub tag: i32,
    /// Length of the message in bytes.
    pub len: u64,
}

/// Where the body after a header goes; every byte of it is read from the link in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RxBody {
    /// No body follows, and the frame is done with.
    None,
    /// `into.len` bytes into user memory, then `discard` bytes away; then `rx_done`.
    Into {
        /// Target in user memory.
        into: Segment,
        /// Bytes after it that do not fit.
        discard: u64,
    },
    /// The whole body goes into [`Engine::rx_buffer`](crate::Engine::rx_buffer), which has its
    /// length; then `rx_done`.
    Buffer,
    /// So many bytes are thrown away; then `rx_done`.
    Discard(u64),
}

/// A piece of the next write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritePiece<'a> {
    /// Bytes of the engine.
    Bytes(&'a [u8]),
    /// User memory.
    Memory(Segment),
}

impl WritePiece<'_> {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        match self {
            WritePiece::Bytes(bytes) => bytes.len(),
            WritePiece::Memory(segment) => segment.len,
        }
    }

    /// Whether the piece has no bytes; the engine makes none such.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Most pieces of one [`WriteVector`].
pub const MAX_PIECES: usize = 16;

/// The next pieces to write, in order, for one vectored write.
#[derive(Clone, Copy, Debug)]
pub struct WriteVector<'a> {
    pieces: [WritePiece<'a>; MAX_PIECES],
    count: usize,
    bytes: usize,
}

impl<'a> WriteVector<'a> {
    pub(crate) const fn new() -> Self {
        WriteVector {
            pieces: [WritePiece::Bytes(&[]); MAX_PIECES],
            count: 0,
            bytes: 0,
        }
    }

    /// Appends a piece unless it is empty; false when there is no room.
    pub(crate) fn push(&mut self, piece: WritePiece<'a>) -> bool {
        if piece.is_empty() {
            return true;
        }
        let Some(slot) = self.pieces.get_mut(self.count) else {
            return false;
        };
        *slot = piece;
        self.count += 1;
        self.bytes += piece.len();
        true
    }

    /// The pieces in order, none of them empty.
    pub fn pieces(&self) -> &[WritePiece<'a>] {
        &self.pieces[..self.count]
    }

    /// Bytes of all pieces.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Where a body that is copied into user memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodySource<'a> {
    /// The engine's memory.
    Bytes(&'a [u8]),
    /// User memory (a rank that sends to itself).
    Memory(Segment),
}

/// A copy for the device to make before it calls the engine again. Both lengths are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy<'a> {
    /// From here.
    pub from: BodySource<'a>,
    /// To here.
    pub to: Segment,
}

/// A body for the device to read out of its sender's memory, before it calls the engine again; then
/// [`Engine::get_done`](crate::Engine::get_done).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RemoteGet {
    /// The sender.
    pub peer: Rank,
    /// The message.
    pub ssn: Ssn,
    /// Where the body is in the sender's memory, as the sender claims.
    pub from: u64,
    /// To here, all of it: the body's length, or that of a shorter buffer.
    pub to: Segment,
}

/// Shortest body of a class that the receiver reads from the sender's memory.
pub const MIN_GET: usize = GET_CLASSES[0];

/// Where the classes of lengths begin for which a device says apart whether bodies are read, in
/// bytes.
pub const GET_CLASSES: [usize; 4] = [64 << 10, 128 << 10, 256 << 10, 1 << 20];

/// The class of a length; `None`: it is shorter than all.
#[must_use]
#[inline]
pub fn get_class(len: usize) -> Option<usize> {
    GET_CLASSES.iter().rposition(|least| len >= *least)
}

/// Lengths of bodies that the peer reads from this rank's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GetLengths {
    /// All from this length on, in bytes.
    pub least: usize,
    /// Those of these classes as well: a bit for each of [`GET_CLASSES`].
    pub classes: u8,
}

impl GetLengths {
    /// All from this length on.
    #[must_use]
    pub const fn all_from(least: usize) -> Self {
        Self { least, classes: 0 }
    }

    /// Those of these classes.
    #[must_use]
    pub const fn of_classes(classes: u8) -> Self {
        Self {
            least: usize::MAX,
            classes,
        }
    }

    fn has(self, len: usize) -> bool {
        len >= self.least || get_class(len).is_some_and(|class| self.classes >> class & 1 == 1)
    }
}

/// Bodies that the peer reads from this rank's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gets {
    /// Of a body that is sent alone, or whose send blocks.
    pub single: GetLengths,
    /// Of a body that is sent while others are under way.
    pub stream: GetLengths,
}

impl Gets {
    /// All bodies from this length on.
    #[must_use]
    pub const fn all_from(least: usize) -> Self {
        let lengths = GetLengths::all_from(least);
        Self {
            single: lengths,
            stream: lengths,
        }
    }

    /// Whether a body is one of them.
    #[inline]
    pub(crate) fn have(self, len: usize, is_stream: bool) -> bool {
        if is_stream {
            self.stream.has(len)
        } else {
            self.single.has(len)
        }
    }
}

/// The answer of [`Engine::detach`](crate::Engine::detach).
#[derive(Debug, PartialEq, Eq)]
pub enum Detach<'a> {
    /// Complete: poll the request.
    Done,
    /// Not yet: the body is in the middle of being written, or the message must wait for the
    /// receiver. Make progress, then ask again.
    Wait,
    /// The device copies the segment into the bytes now (equal lengths); the request is complete.
    Copy {
        /// The user's body.
        from: Segment,
        /// Retained memory.
        into: &'a mut [u8],
    },
}

/// A body, or a part of one, to be copied out of user memory into the log, now.
#[derive(Debug)]
pub struct LogCopy<'a> {
    /// Where it is.
    pub from: Segment,
    /// Where it goes; as long.
    pub into: &'a mut [u8],
}

/// A mark of a peer's log on which this rank depends, and which is not recorded yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnrecordedMark {
    /// The peer.
    pub peer: Rank,
    /// The peer's incarnation; `None`: that of its link.
    pub incarnation: Option<Incarnation>,
    /// The mark.
    pub mark: u64,
}
