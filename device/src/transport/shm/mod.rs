//! Links over shared memory, between ranks of one host.
//!
//! A body goes by one of three mechanisms, each a module here. Its length and the endpoint's
//! capabilities choose ([`Capabilities::mechanism`], and the engine for a single copy):
//!
//! | mechanism | module | bodies |
//! |---|---|---|
//! | short | [`short`] | up to 96 bytes, with their header in a cell |
//! | buffered copy | [`buffered`] | others: behind a cell up to 8 KiB, else as frames |
//! | single copy | [`single_copy`] | long ones that the receiver does better to read ([`crate::cost`]) |
//!
//! The bytes go through blocks of memory of both sides ([`memory`]), without a system call while
//! neither side sleeps. Beside them is the local socket over which the handshake went. A byte on it
//! is a wake-up, and its end is the end of the link. Data that a peer has published before its end
//! is complete.
//!
//! A piece of memory that cannot be used ends the process here, where a socket would return an
//! error.

mod buffered;
mod doorbells;
mod host_listener;
mod link_memory;
mod link_side;
#[cfg(any(test, fuzzing))]
pub mod malicious_peer;
mod ring_side;
mod short;
mod single_copy;

pub use host_listener::{HostListener, connect};
pub(crate) use host_listener::{receive, send_with};
pub(crate) use link_memory::LinkMemory;
pub(crate) use link_side::{HandshakeRole, LinkSide};
pub(crate) use short::MAX_BODY;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt};
use rejoin_engine::{Gets, ShortHeader};
use rejoin_ring::{OutOfBounds, doorbell};

use crate::cost::gets_of_word;

use super::{
    Capabilities, Copies, Endpoint, Fault, GetPart, Lost, MakeHeader, PathState, Piece,
    SendOutcome, TransportId,
};
use buffered::block_stream::BlockStream;
use buffered::small_ring::SmallRing;
use doorbells::Doorbells;
use link_memory::{Direction, SharedWord, word};
use short::link_cells::Cells;
use short::{MAX_SHORT, Pace};
use single_copy::cooperative::CooperativeCopy;
use single_copy::peer_memory::{self, Exposed, PeerMemory};

/// Most bytes of the blocks of one direction, with few ranks on the host: those of both directions
/// fill the second-level cache of most cores, so a stream seldom writes a line that is still in the
/// reader's.
const USUAL: usize = 1 << 20;
/// Bytes that the blocks of all directions which a rank writes may take together, as long as each
/// of them has the least size. With more than 128 ranks on the host each has that least size, and
/// all together take more.
const BUDGET: usize = 8 << 20;
/// Most bytes of the blocks of one direction where so many ranks share a host: 1 MiB up to 8 of
/// them, then less, but no less than 64 KiB.
#[must_use]
pub fn capacity(local_size: u32) -> usize {
    let ranks = usize::try_from(local_size.max(1)).unwrap_or(usize::MAX);
    let share = (BUDGET / ranks).clamp(link_memory::LEAST, USUAL);
    1 << share.ilog2()
}

/// Whether this process can have memory for a link.
///
/// # Errors
/// Why not.
pub fn try_memory(local_size: u32) -> io::Result<()> {
    LinkMemory::attempt(capacity(local_size))
}

/// Lets the other ranks of this host read this process's memory where a security module (Yama)
/// would forbid it. It allows the process at the other end of the manager's channel and all
/// processes that it has started.
pub fn be_readable(manager: BorrowedFd<'_>) {
    let Ok(manager) = getsockopt(&manager, sockopt::PeerCredentials) else {
        return;
    };
    // Pid 0: the manager is in another namespace of processes. Other processes get no permission.
    if manager.pid() > 0 {
        // SAFETY: the call touches no memory. Where there is no such module it is refused, and not
        // needed.
        let _ = unsafe { libc::prctl(libc::PR_SET_PTRACER, manager.pid(), 0, 0, 0) };
    }
}

/// A link: memory of both sides and a socket, non-blocking, in the library's block of descriptors.
/// The order of the fields matters: the memory is unmapped last.
pub struct ShmEndpoint {
    cells: Cells,
    small_ring: SmallRing,
    stream: BlockStream,
    /// Shortest body that the peer is to read itself, if the user has said so.
    min_get: Option<usize>,
    /// What either side asks the other for: see [`crate::cost`].
    asks: [NonNull<AtomicU64>; 2],
    cooperative: CooperativeCopy,
    /// This side's knowledge of the reader's progress.
    pace: Pace,
    doorbells: Doorbells,
    /// The other side has closed the socket, or it broke.
    ended: bool,
    /// Bytes of both directions.
    moved: u64,
    /// The peer's memory, if it can be read.
    peer: Option<PeerMemory>,
    /// The system's error of the attempt.
    obstacle: Option<io::Error>,
    /// The direction that this side writes.
    own: Direction,
    /// All pointers above point into it.
    memory: LinkMemory,
    /// The secret that the peer reads in this process.
    secret: Exposed,
}

impl ShmEndpoint {
    /// Takes over the socket of a handshake that is over, and this side of the link's memory.
    pub(crate) fn new(socket: OwnedFd, side: LinkSide, copies: Copies) -> Self {
        let LinkSide {
            memory,
            own: out,
            secret,
        } = side;
        let (peer, obstacle) = match PeerMemory::try_read(&memory, out, copies.single) {
            Ok(peer) => (Some(peer), None),
            Err(error) => (None, error),
        };
        Self {
            peer,
            obstacle,
            own: out,
            secret,
            cells: Cells::new(&memory, out),
            small_ring: SmallRing::new(&memory, out),
            stream: BlockStream::new(&memory, out, copies.shared_cores),
            min_get: copies.min_get,
            asks: [out, out.opposite()].map(|way| memory.word(SharedWord::BodyWays(way))),
            cooperative: CooperativeCopy::new(&memory, out),
            doorbells: Doorbells::new(&memory, out, socket),
            pace: Pace::new(copies.shared_cores),
            ended: false,
            moved: 0,
            memory,
        }
    }

    /// After how many bytes the next cell comes, if there is one.
    #[inline]
    fn next_cell(&self) -> Option<u32> {
        // SAFETY: the memory is mapped for as long as the link is there.
        unsafe { self.cells.next() }
    }

    /// Wakes the other side if it sleeps and has asked for this.
    #[inline]
    fn ring(&mut self, event: u64) {
        if self.doorbells.must_ring(event) {
            self.ended |= !self.doorbells.ring();
        }
    }
}

#[cold]
fn breach(error: OutOfBounds) -> Box<Fault> {
    Box::new(Fault::Link(Lost(error.to_string())))
}

impl Endpoint for ShmEndpoint {
    fn transport(&self) -> TransportId {
        TransportId::SharedMemory
    }

    #[inline(always)]
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            max_short: Some(MAX_SHORT),
            max_bcopy: Some(MAX_BODY),
            doorbell: true,
        }
    }

    #[inline(always)]
    fn try_short(&mut self, body: &[u8], pack: impl MakeHeader) -> SendOutcome {
        self.send_in_cell(body, pack)
    }

    #[inline(always)]
    fn try_bcopy(&mut self, body: &[u8], pack: impl MakeHeader) -> SendOutcome {
        self.send_buffered(body, pack)
    }

    #[inline(always)]
    fn await_room(&mut self) -> bool {
        self.await_cell()
    }

    fn await_peer_progress(&mut self) -> bool {
        self.await_reader_progress()
    }

    #[inline(always)]
    fn try_recv(&self) -> Option<ShortHeader> {
        self.next_header()
    }

    #[inline(always)]
    unsafe fn take(&mut self, header: &ShortHeader, into: Piece) {
        // SAFETY: the caller keeps the same promise.
        unsafe { self.take_next(header, into) };
    }

    #[inline]
    fn gets(&self) -> Option<Gets> {
        let asked = || gets_of_word(word!(self.asks[0]).load(Ordering::Relaxed));
        Some(self.min_get.map_or_else(asked, Gets::all_from))
    }

    fn ask_for_gets(&self, word: u64) {
        word!(self.asks[1]).store(word, Ordering::Relaxed);
    }

    fn remote_access(&self) -> (bool, Option<bool>) {
        (
            self.peer.is_some(),
            peer_memory::peer_can_read(&self.memory, self.own),
        )
    }

    fn obstacle(&self) -> Option<String> {
        let error = self.obstacle.as_ref()?;
        Some(format!(
            "process_vm_readv: {}",
            crate::error::text_of(error)
        ))
    }

    unsafe fn get(&mut self, parts: &[GetPart], cooperative: bool, waits: &mut dyn FnMut()) -> u64 {
        // SAFETY: the caller keeps the same promise.
        unsafe { self.get_parts(parts, cooperative, waits) }
    }

    #[inline]
    fn serve_get(&mut self) -> usize {
        self.copy_for_peer()
    }

    fn withdraw(&self) {
        self.secret.withdraw();
    }

    #[inline]
    fn is_idle(&self) -> bool {
        !self.ended && self.next_cell().is_none() && self.stream.is_empty()
    }

    fn doorbells_rung(&self) -> u64 {
        self.doorbells.rung()
    }

    fn shared_bytes(&self) -> usize {
        self.memory.used()
    }

    #[inline]
    unsafe fn try_write(&mut self, pieces: &[Piece]) -> Result<usize, Box<Fault>> {
        // SAFETY: the caller keeps the same promise.
        unsafe { self.write_bytes(pieces) }
    }

    #[inline]
    unsafe fn try_read(&mut self, pieces: &[Piece]) -> Result<usize, Box<Fault>> {
        // SAFETY: the caller keeps the same promise.
        unsafe { self.read_bytes(pieces) }
    }

    fn write_handshake(&mut self, bytes: &[u8]) -> Result<usize, Box<Fault>> {
        self.doorbells.write_handshake(bytes)
    }

    fn note_event(&mut self) {
        self.ended |= !self.doorbells.take_wakeups();
    }

    fn arm_doorbell(&mut self, for_room: bool) -> Result<bool, Box<Fault>> {
        self.doorbells.arm(if for_room {
            doorbell::DATA | doorbell::ROOM
        } else {
            doorbell::DATA
        });
        let room = for_room && self.stream.room(1).map_err(breach)? > 0;
        Ok(room || !self.is_idle())
    }

    fn disarm_doorbell(&mut self) -> bool {
        self.doorbells.disarm();
        !self.ended && !self.is_idle()
    }

    fn cut(&mut self) {
        self.doorbells.cut();
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.doorbells.descriptor()
    }

    fn path(&self) -> io::Result<PathState> {
        Ok(PathState {
            // The other end is on the same host: when it is gone, the socket says so.
            waits: false,
            since_ack: Duration::ZERO,
            moved: self.moved,
        })
    }

    fn forget(self) {
        self.doorbells.forget();
        self.memory.forget();
    }
}

#[cfg(test)]
mod tests;
