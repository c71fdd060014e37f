//! The only place where the program's memory is touched by address.

use rejoin_engine::{
    BodySource, Copy, Detach, Engine, LogCopy, Received, ReceivedBody, ReqId, Segment, WritePiece,
};

use crate::{streaming_copy, transport};

/// Bytes of a body that are logged at once while its receiver takes it: about as long as a short
/// message may wait.
const EARLY_COPY: usize = 128 << 10;

/// The segment that a buffer of the program's is to the engine.
#[inline]
pub(crate) fn segment(buffer: *const u8, len: usize) -> Segment {
    Segment {
        addr: buffer.expose_provenance(),
        len,
    }
}

/// Where a segment begins, to write to.
#[inline]
pub(crate) fn start(segment: Segment) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(segment.addr)
}

/// The bytes of a segment.
///
/// # Safety
/// The segment is readable, and unmodified while the slice lives.
#[inline]
pub(crate) unsafe fn bytes<'a>(segment: Segment) -> &'a [u8] {
    if segment.len == 0 {
        // An empty buffer may be a null pointer.
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(start(segment), segment.len) }
}

/// A piece to write, as the transport takes it.
#[inline]
pub(crate) fn outgoing(piece: &WritePiece<'_>) -> transport::Piece {
    match *piece {
        WritePiece::Bytes(bytes) => transport::Piece {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        },
        WritePiece::Memory(segment) => incoming(start(segment), segment.len),
    }
}

/// A piece to read into.
#[inline]
pub(crate) fn incoming(at: *mut u8, len: usize) -> transport::Piece {
    transport::Piece {
        iov_base: at.cast(),
        iov_len: len,
    }
}

/// A segment to read into.
#[inline]
pub(crate) fn place(segment: Segment) -> transport::Piece {
    incoming(start(segment), segment.len)
}

/// Copies bytes to the front of a segment, which is at least as long.
///
/// # Safety
/// The segment is writable memory that belongs to a request under way.
#[inline]
pub(crate) unsafe fn fill(segment: Segment, from: &[u8]) {
    debug_assert!(from.len() <= segment.len);
    let len = from.len().min(segment.len);
    // SAFETY: the caller's promise; received bytes lie in the library's memory, never in the
    // program's.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), start(segment), len) };
}

/// Makes a copy that the engine asked for.
///
/// # Safety
/// The segments belong to requests under way.
unsafe fn carry_out(copy: &Copy<'_>) {
    match copy.from {
        // SAFETY: the caller's promise.
        BodySource::Bytes(bytes) => unsafe { fill(copy.to, bytes) },
        BodySource::Memory(from) => {
            let len = from.len.min(copy.to.len);
            // SAFETY: the caller's promise; a program that sends a buffer to itself in place is
            // wrong by MPI-5.0 §3.2, and `copy` keeps even that defined.
            unsafe { std::ptr::copy(start(from), start(copy.to), len) };
        }
    }
}

/// Makes the copies that the engine asks for.
#[inline]
pub(crate) fn copy_out(engine: &mut Engine) {
    while let Some(copy) = engine.next_copy() {
        // SAFETY: the engine names segments of requests under way only, for whose memory the
        // callers of `isend`, `irecv` and their kin have promised.
        unsafe { carry_out(&copy) };
    }
}

/// Copies the bodies that the log needs. Their sends are complete then.
pub(crate) fn log_out(engine: &mut Engine) {
    while let Some(copy) = engine.next_log_copy() {
        log_body(copy);
    }
}

/// Copies a part of a body that its receiver is taking into the log; false if there is none.
#[cold]
pub(crate) fn log_early(engine: &mut Engine) -> bool {
    engine.next_early_copy(EARLY_COPY).map(log_body).is_some()
}

fn log_body(copy: LogCopy<'_>) {
    // SAFETY: the segment belongs to a send under way.
    let from = unsafe { bytes(copy.from) };
    assert_eq!(from.len(), copy.into.len(), "a copy of the whole part");
    // SAFETY: both are slices of this length, and one of them is borrowed mutably. Nobody reads the
    // log soon.
    unsafe { streaming_copy::copy(copy.into.as_mut_ptr(), from.as_ptr(), from.len()) };
}

/// Shows the messages that the engine wants to have logged, with their bodies. `log` says whether
/// it has logged them.
pub(crate) fn log_whole_messages(
    engine: &mut Engine,
    mut log: impl FnMut(&Received<'_>, &[u8]) -> bool,
) {
    engine.log_received(|received| {
        let body = match received.body {
            // SAFETY: the buffer of a receive that is complete, and that the program was not told
            // of.
            ReceivedBody::Memory(segment) => unsafe { bytes(segment) },
            ReceivedBody::Bytes(bytes) => bytes,
        };
        log(received, body)
    });
}

/// Completes a blocking send by copying its body, if its write is through; true when complete.
pub(crate) fn detach(engine: &mut Engine, request: ReqId) -> bool {
    match engine.detach(request) {
        Detach::Done => true,
        Detach::Wait => false,
        Detach::Copy { from, into } => {
            // SAFETY: the segment belongs to a blocking send under way.
            into.copy_from_slice(unsafe { bytes(from) });
            true
        }
    }
}
