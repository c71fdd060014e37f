//! The interface of a collective to the layer below: ordered messages between the ranks of one
//! communicator.

use std::task::Poll;

use crate::error::Result;

/// A send or receive in flight. Small and `Copy`: an implementation of [`P2p`] packs its request id
/// in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending(u64);

impl Pending {
    /// A send that was complete when it was posted: nothing to poll, nothing to free.
    pub const DONE: Pending = Pending(u64::MAX);

    /// Wraps a request id; any value but `u64::MAX`.
    pub const fn new(raw: u64) -> Self {
        Self(raw)
    }

    /// The id given to [`Pending::new`].
    pub const fn raw(self) -> u64 {
        self.0
    }
}

/// One communicator's channel for collectives, in ranks of that communicator.
///
/// Messages between one pair of ranks with the same tag must not overtake each other. Tags are
/// given out by the caller of a collective, one for each call, so that calls in flight at the same
/// time never mix.
pub trait P2p: Copy {
    /// The same channel with sends and receives that are calls of functions.
    type OutOfLine: P2p<OutOfLine = Self::OutOfLine>;

    /// The channel for all but the first steps of a short blocking call: so the library has the
    /// code of a send and of a receive once, not in each algorithm.
    fn out_of_line(self) -> Self::OutOfLine;

    /// This process's rank in the communicator.
    fn rank(self) -> usize;

    /// The number of ranks in the communicator.
    fn size(self) -> usize;

    /// A word for a rank, or for this process, that the caller knows, also if only a part of its
    /// ranks exchanges.
    fn named(self, rank: Option<usize>) -> String {
        format!("rank {}", rank.unwrap_or(self.rank()))
    }

    /// Starts a standard send of `len` bytes; [`Pending::DONE`] when it is complete at once.
    ///
    /// # Safety
    /// `buf` stays valid and unmodified until the returned request is done.
    ///
    /// # Errors
    /// When the message cannot be sent.
    unsafe fn isend(self, to: usize, tag: i32, buf: *const u8, len: usize) -> Result<Pending>;

    /// The longest message in bytes for which [`P2p::try_recv`] is worth a try.
    #[inline]
    fn max_short(self) -> usize {
        0
    }

    /// Receives a message of at most `len` bytes that is there or comes at once, and gives its
    /// length. `None`: nothing was done, and the caller starts a receive.
    ///
    /// # Safety
    /// `buf` is valid, and no other code reads or writes it during the call.
    ///
    /// # Errors
    /// When the message is longer than `len`.
    #[inline]
    unsafe fn try_recv(
        self,
        from: usize,
        tag: i32,
        buf: *mut u8,
        len: usize,
    ) -> Result<Option<usize>> {
        let _ = (from, tag, buf, len);
        Ok(None)
    }

    /// Starts a receive of at most `len` bytes.
    ///
    /// # Safety
    /// `buf` stays valid, and no other code reads or writes it, until the returned request is done.
    ///
    /// # Errors
    /// When the receive cannot be posted.
    unsafe fn irecv(self, from: usize, tag: i32, buf: *mut u8, len: usize) -> Result<Pending>;

    /// `Ready` with the message's length in bytes once the request is done, which frees it. Never
    /// called with [`Pending::DONE`], nor again after `Ready`. Must be cheap when nothing has
    /// happened.
    fn poll(self, pending: &mut Pending) -> Poll<Result<usize>>;
}

/// A channel whose sends and receives are calls of functions.
#[derive(Clone, Copy, Debug)]
pub struct OutOfLine<P>(pub(in crate::coll) P);

impl<P: P2p> P2p for OutOfLine<P> {
    type OutOfLine = Self;

    #[inline(always)]
    fn out_of_line(self) -> Self {
        self
    }

    #[inline(always)]
    fn rank(self) -> usize {
        self.0.rank()
    }

    #[inline(always)]
    fn size(self) -> usize {
        self.0.size()
    }

    fn named(self, rank: Option<usize>) -> String {
        self.0.named(rank)
    }

    #[inline(never)]
    unsafe fn isend(self, to: usize, tag: i32, buf: *const u8, len: usize) -> Result<Pending> {
        // SAFETY: the caller's promise.
        unsafe { self.0.isend(to, tag, buf, len) }
    }

    #[inline(always)]
    fn max_short(self) -> usize {
        self.0.max_short()
    }

    #[inline(never)]
    unsafe fn try_recv(
        self,
        from: usize,
        tag: i32,
        buf: *mut u8,
        len: usize,
    ) -> Result<Option<usize>> {
        // SAFETY: the caller's promise.
        unsafe { self.0.try_recv(from, tag, buf, len) }
    }

    #[inline(never)]
    unsafe fn irecv(self, from: usize, tag: i32, buf: *mut u8, len: usize) -> Result<Pending> {
        // SAFETY: the caller's promise.
        unsafe { self.0.irecv(from, tag, buf, len) }
    }

    #[inline(never)]
    fn poll(self, pending: &mut Pending) -> Poll<Result<usize>> {
        self.0.poll(pending)
    }
}
