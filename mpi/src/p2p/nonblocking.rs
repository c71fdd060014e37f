//! Nonblocking sends and receives (MPI-5.0 §3.7).

use super::data::Bytes;
use super::{Data, SendMode, Staging};
use crate::adi::{Mode, Pattern, ReqId, SendAttempt};
use crate::check;
use crate::comm::{Communicator, NO_CONTEXT};
use crate::error::Result;
use crate::request::{RequestId, Started};
use crate::runtime::Mpi;
use crate::status::{PROC_NULL, Status};
use std::rc::Rc;

/// The device's mode; ready is standard, buffered never gets here.
#[inline]
pub(super) fn device_mode(mode: SendMode) -> Mode {
    match mode {
        SendMode::Synchronous => Mode::Synchronous,
        _ => Mode::Standard,
    }
}

impl Mpi {
    /// Starts a send; arguments are checked.
    ///
    /// # Safety
    /// The elements are readable and unmodified until the operation completes.
    pub(super) unsafe fn post_send(
        &self,
        data: &Data<'_>,
        dest: i32,
        tag: i32,
        comm: &Rc<Communicator>,
        mode: SendMode,
    ) -> Result<Started> {
        if dest == PROC_NULL {
            return Ok(Started::complete(Status::EMPTY));
        }
        if mode == SendMode::Buffered {
            // SAFETY: the caller's.
            unsafe { self.bsend(data, dest, tag, comm) }?;
            return Ok(Started::complete(Status::EMPTY));
        }
        // SAFETY: the caller's.
        let ((addr, len), staging) = unsafe { data.outgoing() }?;
        let to = comm.peers().world_rank(dest as usize);
        let env = comm.envelope(dest as usize, tag);
        self.before_send()?;
        self.posted(Some(to));
        let (mode, attempt) = (device_mode(mode), SendAttempt::Untried);
        // SAFETY: the caller keeps the elements, the request keeps the packed copy.
        let r = unsafe { self.dev_mut().isend(to, env, (addr, len), mode, attempt) }?;
        Ok(Started::send(r, staging))
    }

    /// Starts a receive; arguments are checked.
    ///
    /// # Safety
    /// The elements are writable and unaccessed until the operation completes.
    pub(super) unsafe fn post_recv(
        &self,
        data: &Data<'_>,
        source: i32,
        tag: i32,
        comm: &Rc<Communicator>,
    ) -> Result<Started> {
        if source == PROC_NULL {
            return Ok(Started::complete(Status::PROC_NULL));
        }
        let (bytes, staging) = data.incoming()?;
        // SAFETY: the caller keeps the elements, the request keeps the temporary.
        unsafe { self.post_bytes(comm.pattern(source, tag), bytes, staging) }
    }

    /// Posts a receive of the program. One that is to be cancelled in a replay is not posted.
    ///
    /// # Safety
    /// The bytes are writable and unaccessed until the operation completes.
    pub(super) unsafe fn post_bytes(
        &self,
        pattern: Pattern,
        (addr, len): Bytes,
        staging: Option<Staging>,
    ) -> Result<Started> {
        let mut number = 0;
        if self.decider().logs() {
            number = self.decider().next_operation();
            if self.recorded_cancel(number) == Some(true) {
                // SAFETY: the caller's promise.
                unsafe { self.skip_receive(pattern, (addr, len)) }?;
                return Ok(Started::withheld().numbered(number));
            }
        }
        self.posted(pattern.from);
        // SAFETY: the caller's promise.
        let r = unsafe { self.dev_mut().irecv(pattern, addr, len) }?;
        Ok(Started::recv(r, staging).numbered(number))
    }

    /// Instead of a receive that is to be cancelled: one that nothing matches takes its number
    /// among the receives with a wildcard, and is cancelled at once.
    ///
    /// # Safety
    /// The conditions of [`Mpi::post_bytes`].
    #[cold]
    unsafe fn skip_receive(&self, pattern: Pattern, (addr, len): Bytes) -> Result<()> {
        let context = NO_CONTEXT;
        let mut dev = self.dev_mut();
        // SAFETY: the caller's promise.
        let request = unsafe { dev.irecv(Pattern { context, ..pattern }, addr, len) }?;
        dev.cancel(request);
        dev.poll(request);
        Ok(())
    }

    /// `MPI_Isend` and its modes.
    ///
    /// # Safety
    /// The elements are readable and unmodified until the request completes.
    pub unsafe fn isend(
        &self,
        data: &Data<'_>,
        dest: i32,
        tag: i32,
        comm: &Rc<Communicator>,
        mode: SendMode,
    ) -> Result<RequestId> {
        check::destination(dest, comm)?;
        check::tag(tag)?;
        data.check()?;
        // SAFETY: the caller's.
        let started = unsafe { self.post_send(data, dest, tag, comm, mode) }?;
        if started.is_device(ReqId::DONE) {
            return Ok(RequestId::SENT);
        }
        Ok(self.enter_request(started, comm))
    }

    /// `MPI_Irecv`.
    ///
    /// # Safety
    /// The elements are writable and unaccessed until the request completes.
    pub unsafe fn irecv(
        &self,
        data: &Data<'_>,
        source: i32,
        tag: i32,
        comm: &Rc<Communicator>,
    ) -> Result<RequestId> {
        check::source(source, comm)?;
        check::tag_or_any(tag)?;
        data.check()?;
        // SAFETY: the caller's.
        let started = unsafe { self.post_recv(data, source, tag, comm) }?;
        Ok(self.enter_request(started, comm))
    }
}
