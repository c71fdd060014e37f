//! The messages of the program: sends, receives, probes, and their requests.

use rejoin_channel_table::ids::Rank;
use rejoin_engine::{Completion, Envelope, MsgId, Pattern, Probe, ReqId, Sent};

use super::Device;
use crate::error::{Error, Result};
use crate::program_memory;
use crate::transport::SendOutcome;

/// Shortest body that the receiver ever reads from this rank's memory, as a user may ask.
const LEAST_READ: usize = 16 << 10;
/// Longest body of a blocking send that is copied after its write. Copying a longer one takes about
/// as long as to wait for its ack, and halves the rate of a program that only sends.
const DETACH_MAX: usize = 128 << 10;

/// When a nonblocking send completes (MPI-5.0 §3.4). The buffered and the ready mode are standard
/// ones at this level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// When the buffer may be used again.
    Standard,
    /// Not before the message is matched.
    Synchronous,
}

/// The kind of call that a send is made by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A call that returns when the send is complete.
    Blocking,
    /// A call that may be one of a burst, whose messages share system calls.
    Nonblocking,
}

impl Device {
    /// Starts a send. Small messages are complete at once ([`ReqId::DONE`]).
    ///
    /// # Safety
    /// `buf` is readable for `len` bytes and stays so, unmodified, until the request completes.
    ///
    /// # Errors
    /// No such rank, or a peer that cannot be reached.
    #[inline]
    pub unsafe fn isend(
        &mut self,
        to: Rank,
        env: Envelope,
        buf: *const u8,
        len: usize,
        mode: Mode,
    ) -> Result<ReqId> {
        let nonblocking = Caller::Nonblocking;
        // SAFETY: the caller's promise.
        if mode == Mode::Standard && unsafe { self.send_eager(to, &env, buf, len, nonblocking)? } {
            return Ok(ReqId::DONE);
        }
        // SAFETY: the caller's promise.
        unsafe { self.continue_isend(to, env, buf, len, mode) }
    }

    /// The slow path of [`Device::isend`], for a message that [`Device::try_send`] could not send
    /// ([`SendOutcome::WouldBlock`]).
    ///
    /// # Safety
    /// The conditions are those of [`Device::isend`].
    ///
    /// # Errors
    /// The errors are those of [`Device::isend`].
    pub unsafe fn continue_isend(
        &mut self,
        to: Rank,
        env: Envelope,
        buf: *const u8,
        len: usize,
        mode: Mode,
    ) -> Result<ReqId> {
        let mode = match mode {
            Mode::Standard => rejoin_engine::MessageMode::Standard,
            Mode::Synchronous => rejoin_engine::MessageMode::Synchronous,
        };
        // SAFETY: the caller's promise.
        let (sent, small) = unsafe { self.issue_send(to, env, buf, len, mode, "isend")? };
        if to == self.member.rank() {
            self.links().copy_matched();
        } else {
            let long = !small && len <= self.engine.config().eager_max;
            self.passes().push_out(to, len, long)?;
            self.links().expect_link(to);
        }
        Ok(match sent {
            Sent::Done => ReqId::DONE,
            Sent::Pending(request) => request,
        })
    }

    /// A blocking standard send. `None`: complete. A message of medium length is written and then
    /// copied, so that the caller need not wait for the receiver. Otherwise the caller waits for
    /// the request: for the receiver's ack or finish.
    ///
    /// # Safety
    /// The conditions are those of [`Device::isend`].
    ///
    /// # Errors
    /// The errors are those of [`Device::isend`].
    #[inline]
    pub unsafe fn send(
        &mut self,
        to: Rank,
        env: Envelope,
        buf: *const u8,
        len: usize,
    ) -> Result<Option<ReqId>> {
        // SAFETY: the caller's promise.
        if unsafe { self.send_eager(to, &env, buf, len, Caller::Blocking)? } {
            return Ok(None);
        }
        // SAFETY: the caller's promise.
        unsafe { self.continue_send(to, env, buf, len) }
    }

    /// The slow path of [`Device::send`], for a message that [`Device::try_send`] could not send
    /// ([`SendOutcome::WouldBlock`]).
    ///
    /// # Safety
    /// The conditions are those of [`Device::isend`].
    ///
    /// # Errors
    /// The errors are those of [`Device::isend`].
    pub unsafe fn continue_send(
        &mut self,
        to: Rank,
        env: Envelope,
        buf: *const u8,
        len: usize,
    ) -> Result<Option<ReqId>> {
        let copied = len <= DETACH_MAX;
        let mode = if copied {
            rejoin_engine::MessageMode::Blocking
        } else {
            rejoin_engine::MessageMode::Standard
        };
        // SAFETY: the caller's promise.
        let (sent, _) = unsafe { self.issue_send(to, env, buf, len, mode, "send")? };
        if to == self.member.rank() {
            self.links().copy_matched();
        } else {
            self.passes().flush_link(to)?;
            self.poll_occasionally()?;
            self.links().expect_link(to);
        }
        let Sent::Pending(request) = sent else {
            return Ok(None);
        };
        if !copied {
            return Ok(Some(request));
        }
        if program_memory::detach(&mut self.engine, request) {
            self.engine.poll(request);
            return Ok(None);
        }
        self.progress.detach_later(request);
        Ok(Some(request))
    }

    /// A small message on a link that has nothing else to write. False: nothing was done, and the
    /// engine is to plan it.
    ///
    /// # Safety
    /// The conditions are those of [`Device::isend`].
    #[inline]
    unsafe fn send_eager(
        &mut self,
        to: Rank,
        env: &Envelope,
        buf: *const u8,
        len: usize,
        caller: Caller,
    ) -> Result<bool> {
        // The slow path stores matches of wildcards before anything leaves.
        self.logs.note_action();
        if self.engine.has_groups()
            && (self.engine.any_to_record() || !self.logs().are_determinants_stable()?)
        {
            return Ok(false);
        }
        // SAFETY: the caller's promise.
        match unsafe { self.try_eager(to, env, buf, len, caller) } {
            SendOutcome::Untried | SendOutcome::WouldBlock => return Ok(false),
            SendOutcome::LinkLost(fault) => self.link_lost(to, *fault)?,
            SendOutcome::Sent => self.inject_cut_of(to)?,
        }
        // Writes that nonblocking sends have deferred: later fast calls make no pass.
        if caller == Caller::Blocking && self.engine.any_ready() {
            self.passes().flush_ready()?;
        }
        self.poll_occasionally()?;
        Ok(true)
    }

    /// Gives a message to the engine; says whether it was small.
    ///
    /// # Safety
    /// The conditions are those of [`Device::isend`].
    #[inline]
    unsafe fn issue_send(
        &mut self,
        to: Rank,
        env: Envelope,
        buf: *const u8,
        len: usize,
        mode: rejoin_engine::MessageMode,
        operation: &'static str,
    ) -> Result<(Sent, bool)> {
        self.logs.note_action();
        let segment = program_memory::segment(buf, len);
        let small = self.engine.copies(len);
        if len >= LEAST_READ {
            self.links().learn_access(to);
        }
        // SAFETY: the caller's promise.
        let bytes = small.then(|| unsafe { program_memory::bytes(segment) });
        match self.engine.send(to, env, segment, bytes, mode) {
            Ok(sent) => Ok((sent, small)),
            Err(error) => Err(self.refused_by_engine(to, operation, &error)),
        }
    }

    #[cold]
    fn refused_by_engine(
        &self,
        rank: Rank,
        operation: &'static str,
        error: &rejoin_engine::Error,
    ) -> Error {
        if let rejoin_engine::Error::NoSuchRank { rank, size } = *error {
            return Error::NoSuchRank {
                rank,
                size,
                operation,
            };
        }
        let host = self.host_of(rank).to_owned();
        Error::Refused {
            rank,
            host,
            operation,
            problem: error.to_string(),
        }
    }

    /// Starts a receive.
    ///
    /// # Safety
    /// `buf` is writable for `len` bytes, and nothing else uses it until the request completes.
    ///
    /// # Errors
    /// No such rank.
    #[inline]
    pub unsafe fn irecv(&mut self, pattern: Pattern, buf: *mut u8, len: usize) -> Result<ReqId> {
        self.logs.note_action();
        match self.engine.recv(pattern, program_memory::segment(buf, len)) {
            Ok(request) => self.matched(request),
            Err(error) => {
                let rank = pattern.from.unwrap_or(self.member.rank());
                Err(self.refused_by_engine(rank, "receive", &error))
            }
        }
    }

    /// A receive may have found its message. Its sender gets the answer now: a receive that is
    /// complete makes no pass, and the program may not call MPI for long.
    #[inline(always)]
    fn matched(&mut self, request: ReqId) -> Result<ReqId> {
        self.links().copy_matched();
        if self.engine.any_answer() {
            self.passes().flush_ready()?;
        }
        Ok(request)
    }

    /// Posts a receive without wildcards for which no message has come; `None`: nothing was done.
    ///
    /// # Safety
    /// The conditions are those of [`Device::irecv`].
    #[inline(always)]
    pub unsafe fn try_post(
        &mut self,
        pattern: &Pattern,
        buf: *mut u8,
        len: usize,
    ) -> Option<ReqId> {
        self.engine
            .post_named(pattern, program_memory::segment(buf, len))
    }

    /// The end of a receive that got a whole message, as [`Device::poll`] returns it; `None` for
    /// any other request.
    #[inline(always)]
    pub fn poll_whole(&mut self, request: ReqId) -> Option<Completion> {
        self.engine.poll_whole(request)
    }

    /// The end of a request, once; the id is free then. A stale id gives `None`.
    #[inline]
    pub fn poll(&mut self, request: ReqId) -> Option<Completion> {
        self.engine.poll(request)
    }

    /// Whether a request is complete.
    #[inline]
    #[must_use]
    pub fn is_complete(&self, request: ReqId) -> bool {
        self.engine.is_complete(request)
    }

    /// Asks to cancel a request (MPI-5.0 §3.8.4); its completion says whether it was.
    pub fn cancel(&mut self, request: ReqId) {
        self.logs.note_action();
        self.engine.cancel(request);
    }

    /// Frees a request, which completes in the background (`MPI_Request_free`, MPI-5.0 §3.7.3).
    pub fn free(&mut self, request: ReqId) {
        self.engine.free(request);
    }

    /// The first message that a receive with this pattern would get, if it has come. Makes no
    /// progress.
    pub fn probe(&mut self, pattern: &Pattern) -> Option<Probe> {
        let found = self.engine.probe(pattern);
        if found.is_none() {
            self.progress.probe_failed(pattern);
        }
        found
    }

    /// Finds a message like [`Device::probe`], and takes it out of matching (MPI-5.0 §3.8.2).
    pub fn mprobe(&mut self, pattern: &Pattern) -> Option<(MsgId, Probe)> {
        let found = self.engine.mprobe(pattern);
        if found.is_none() {
            self.progress.probe_failed(pattern);
        }
        found
    }

    /// Receives a message that `mprobe` took.
    ///
    /// # Safety
    /// The conditions are those of [`Device::irecv`].
    ///
    /// # Errors
    /// A message that was received already.
    pub unsafe fn imrecv(&mut self, message: MsgId, buf: *mut u8, len: usize) -> Result<ReqId> {
        self.logs.note_action();
        match self
            .engine
            .mrecv(message, program_memory::segment(buf, len))
        {
            Ok(request) => self.matched(request),
            Err(error) => Err(self.refused_by_engine(self.member.rank(), "mrecv", &error)),
        }
    }
}
