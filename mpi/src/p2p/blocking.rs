//! Blocking sends and receives. Contiguous data go from and to the program's memory, without a
//! request object and without allocating.

use super::data::Bytes;
use super::{Data, SendMode};
use crate::adi::{Completion, Envelope, Mode, Rank, ReqId, SendAttempt};
use crate::check;
use crate::comm::Communicator;
use crate::error::Result;
use crate::request::complete::received;
use crate::runtime::Mpi;
use crate::status::{Completed, PROC_NULL, Status};
use std::rc::Rc;

impl Mpi {
    /// Waits for one request of the device.
    #[inline]
    pub(crate) fn device_wait(&self, r: ReqId) -> Result<Completion> {
        if let Some(done) = self.dev_mut().poll(r) {
            return Ok(done);
        }
        self.wait_for(Some(r), |m| Ok(m.dev_mut().poll(r)))
    }

    /// `MPI_Send` and its modes.
    ///
    /// # Safety
    /// The elements are readable until the call returns.
    #[inline]
    pub unsafe fn send(
        &self,
        data: &Data<'_>,
        dest: i32,
        tag: i32,
        comm: &Rc<Communicator>,
        mode: SendMode,
    ) -> Result<()> {
        check::destination(dest, comm)?;
        check::tag(tag)?;
        data.check()?;
        if dest == PROC_NULL {
            return Ok(());
        }
        if mode == SendMode::Buffered {
            // SAFETY: the caller's.
            return unsafe { self.bsend(data, dest, tag, comm) };
        }
        let mode = super::nonblocking::device_mode(mode);
        let to = comm.peers().world_rank(dest as usize);
        let env = comm.envelope(dest as usize, tag);
        // SAFETY: the caller's.
        let (bytes, _packed) = unsafe { data.outgoing() }?;
        // SAFETY: the elements and their packed copy stay until the send is complete.
        unsafe { self.send_bytes(bytes, to, env, mode, SendAttempt::Untried) }
    }

    /// Sends bytes, and waits until the program may use them again.
    ///
    /// # Safety
    /// The bytes are readable until the call returns.
    #[inline]
    pub(super) unsafe fn send_bytes(
        &self,
        (addr, len): Bytes,
        to: Rank,
        env: Envelope,
        mode: Mode,
        attempt: SendAttempt,
    ) -> Result<()> {
        self.before_send()?;
        self.posted(Some(to));
        let started = {
            let (mut dev, bytes) = (self.dev_mut(), (addr.cast_const(), len));
            match mode {
                // SAFETY: the caller keeps the bytes until this call returns, which waits.
                Mode::Standard => unsafe { dev.send(to, env, bytes, attempt) }?,
                // SAFETY: as above.
                Mode::Synchronous => Some(unsafe { dev.isend(to, env, bytes, mode, attempt) }?),
            }
        };
        if let Some(r) = started {
            self.device_wait(r)?;
        }
        self.await_links()
    }

    /// `MPI_Recv`.
    ///
    /// # Safety
    /// The elements are writable until the call returns.
    #[inline]
    pub unsafe fn recv(
        &self,
        data: &Data<'_>,
        source: i32,
        tag: i32,
        comm: &Rc<Communicator>,
    ) -> Result<Completed> {
        check::source(source, comm)?;
        check::tag_or_any(tag)?;
        data.check()?;
        if source == PROC_NULL {
            return Ok(Completed::ok(Status::PROC_NULL));
        }
        let pattern = comm.pattern(source, tag);
        self.posted(pattern.from);
        let ((addr, len), staging) = data.incoming()?;
        // SAFETY: the elements and the temporary stay until the receive is complete.
        let r = unsafe { self.dev_mut().irecv(pattern, addr, len) }?;
        let done = self.device_wait(r)?;
        if let Some(staging) = staging {
            // SAFETY: the caller's.
            unsafe { staging.finish(done.len) };
        }
        Ok(received(&done))
    }
}
