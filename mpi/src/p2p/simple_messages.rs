//! The fast path of a message whose arguments are all valid and simple, and the slow path that
//! continues it where the device can't finish the call at once. Other arguments are refused before
//! anything is done; the general path checks them and reports the error.

use super::Data;
use super::data::Bytes;
use crate::adi::{Caller, Envelope, Mode, Pattern, Rank, ReqId, SendAttempt};
use crate::comm::Communicator;
use crate::error::Result;
use crate::request::complete::received;
use crate::request::{RequestId, Started};
use crate::runtime::Mpi;
use crate::status::{Completed, Status};
use std::rc::Rc;

/// Where a message goes: its destination in the job, and its envelope.
type Destination = (Rank, Envelope);

impl Mpi {
    /// A blocking standard send; `None`: nothing was done, and [`Mpi::send`] must check the
    /// arguments.
    ///
    /// # Safety
    /// The elements are readable until the call returns.
    #[inline(always)]
    pub unsafe fn try_send(
        &self,
        data: &Data<'_>,
        dest: i32,
        tag: i32,
        comm: &Rc<Communicator>,
    ) -> Option<Result<()>> {
        let (to, bytes) = destination(data, dest, tag, comm)?;
        // SAFETY: the bytes are the elements.
        let attempt = unsafe { self.try_eager(&to, bytes, Caller::Blocking) };
        if attempt == SendAttempt::Sent {
            return Some(Ok(()));
        }
        // SAFETY: as above.
        Some(unsafe { self.continue_send(to, bytes, comm, attempt) })
    }

    /// A nonblocking standard send; `None`: nothing was done, and [`Mpi::isend`] must check the
    /// arguments.
    ///
    /// # Safety
    /// The elements are readable and unmodified until the request completes.
    #[inline(always)]
    pub unsafe fn try_isend(
        &self,
        data: &Data<'_>,
        dest: i32,
        tag: i32,
        comm: &Rc<Communicator>,
    ) -> Option<Result<RequestId>> {
        let (to, bytes) = destination(data, dest, tag, comm)?;
        // SAFETY: the bytes are the elements.
        Some(unsafe {
            match self.try_eager(&to, bytes, Caller::Nonblocking) {
                SendAttempt::Sent => Ok(RequestId::SENT),
                // Constants: the fast path keeps no register for the outcome.
                SendAttempt::WouldBlock => self.continue_isend::<true>(to, bytes, comm),
                SendAttempt::Untried => self.continue_isend::<false>(to, bytes, comm),
            }
        })
    }

    /// Tries to send the message on the device's fast path.
    ///
    /// # Safety
    /// The bytes are readable.
    #[inline(always)]
    unsafe fn try_eager(
        &self,
        to: &Destination,
        (addr, len): Bytes,
        caller: Caller,
    ) -> SendAttempt {
        let Some(mut dev) = self.try_dev_mut() else {
            return SendAttempt::Untried;
        };
        // SAFETY: the caller's promise.
        unsafe { dev.try_send(to.0, &to.1, addr, len, caller) }
    }

    #[inline(never)]
    unsafe fn continue_send(
        &self,
        (to, env): Destination,
        bytes: Bytes,
        comm: &Rc<Communicator>,
        attempt: SendAttempt,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        let attempt = unsafe { self.try_counted(&(to, env), bytes, Caller::Blocking, attempt) };
        if attempt == SendAttempt::Sent {
            return Ok(());
        }
        // The program may free its communicator during the wait.
        let _comm = comm.clone();
        // SAFETY: the caller's promise.
        unsafe { self.send_bytes(bytes, to, env, Mode::Standard, attempt) }
    }

    /// In logging modes, where each send is counted, the fast path of all sends tries nothing. So
    /// the message is tried here.
    ///
    /// # Safety
    /// The bytes are readable.
    #[inline(always)]
    unsafe fn try_counted(
        &self,
        to: &Destination,
        (addr, len): Bytes,
        caller: Caller,
        attempt: SendAttempt,
    ) -> SendAttempt {
        if attempt != SendAttempt::Untried || !self.decider().logs() {
            return attempt;
        }
        let Some(mut dev) = self.try_dev_mut() else {
            return attempt;
        };
        // SAFETY: the caller's promise.
        unsafe { dev.try_counted_send(to.0, &to.1, (addr, len), caller) }
    }

    #[inline(never)]
    unsafe fn continue_isend<const TRIED: bool>(
        &self,
        (to, env): Destination,
        (addr, len): Bytes,
        comm: &Rc<Communicator>,
    ) -> Result<RequestId> {
        let attempt = match TRIED {
            true => SendAttempt::WouldBlock,
            false => SendAttempt::Untried,
        };
        let destination = (to, env);
        // SAFETY: the caller's promise.
        let attempt =
            unsafe { self.try_counted(&destination, (addr, len), Caller::Nonblocking, attempt) };
        if attempt == SendAttempt::Sent {
            return Ok(RequestId::SENT);
        }
        self.before_send()?;
        self.posted(Some(to));
        let mut dev = self.dev_mut();
        // SAFETY: the caller's promise.
        let sent = unsafe { dev.isend(to, env, (addr, len), Mode::Standard, attempt) }?;
        Ok(match sent {
            ReqId::DONE => RequestId::SENT,
            sent => self.enter_request(Started::send(sent, None), comm),
        })
    }

    /// A receive without wildcards; `None`: nothing was done, and [`Mpi::recv`] must check the
    /// arguments.
    ///
    /// # Safety
    /// The elements are writable until the call returns.
    #[inline(always)]
    pub unsafe fn try_recv(
        &self,
        data: &Data<'_>,
        source: i32,
        tag: i32,
        comm: &Rc<Communicator>,
    ) -> Option<Result<Completed>> {
        let (pattern, bytes) = expected(data, source, tag, comm)?;
        // With several threads the slow path notifies the others.
        if !self.has_lock()
            && let Some(mut dev) = self.try_dev_mut()
            // SAFETY: the bytes are the elements.
            && let Some(done) = unsafe { dev.try_recv(&pattern, bytes.0, bytes.1) }
        {
            let status = Status::of(done.source, done.tag, done.len);
            return Some(Ok(Completed::ok(status)));
        }
        // SAFETY: as above.
        Some(unsafe { self.continue_recv(pattern, bytes, comm) })
    }

    /// A nonblocking receive without wildcards; `None`: nothing was done, and [`Mpi::irecv`] must
    /// check the arguments.
    ///
    /// # Safety
    /// The elements are writable and unaccessed until the request completes.
    #[inline(always)]
    pub unsafe fn try_irecv(
        &self,
        data: &Data<'_>,
        source: i32,
        tag: i32,
        comm: &Rc<Communicator>,
    ) -> Option<Result<RequestId>> {
        let (pattern, bytes) = expected(data, source, tag, comm)?;
        if !self.has_lock() {
            let posted = self.requests().insert_receive(comm, || {
                let mut dev = self.try_dev_mut()?;
                // SAFETY: the bytes are the elements.
                unsafe { dev.try_irecv(&pattern, bytes.0, bytes.1) }
            });
            if let Some(id) = posted {
                return Some(Ok(id));
            }
        }
        // SAFETY: as above.
        Some(unsafe { self.continue_irecv(pattern, bytes, comm) })
    }

    #[inline(never)]
    unsafe fn continue_recv(
        &self,
        pattern: Pattern,
        (addr, len): Bytes,
        comm: &Rc<Communicator>,
    ) -> Result<Completed> {
        // The program may free its communicator during the wait.
        let _comm = comm.clone();
        self.posted(pattern.from);
        // SAFETY: the caller keeps the bytes, and this call waits.
        let request = unsafe { self.dev_mut().irecv(pattern, addr, len) }?;
        let done = self.device_wait(request)?;
        Ok(received(&done))
    }

    #[inline(never)]
    unsafe fn continue_irecv(
        &self,
        pattern: Pattern,
        bytes: Bytes,
        comm: &Rc<Communicator>,
    ) -> Result<RequestId> {
        // SAFETY: the caller's promise.
        let started = unsafe { self.post_bytes(pattern, bytes, None) }?;
        Ok(self.enter_request(started, comm))
    }
}

/// The destination and the bytes of a send; `None`: an argument is invalid, or not simple.
#[inline(always)]
fn destination(
    data: &Data<'_>,
    dest: i32,
    tag: i32,
    comm: &Communicator,
) -> Option<(Destination, Bytes)> {
    let peers = comm.peers();
    let bytes = data.valid_contiguous()?;
    if dest < 0 || dest as usize >= peers.size() || tag < 0 {
        return None;
    }
    let dest = dest as usize;
    Some(((peers.world_rank(dest), comm.envelope(dest, tag)), bytes))
}

/// The expected message and the bytes of a receive without wildcards; `None`: as for a send.
#[inline(always)]
fn expected(
    data: &Data<'_>,
    source: i32,
    tag: i32,
    comm: &Communicator,
) -> Option<(Pattern, Bytes)> {
    let bytes = data.valid_contiguous()?;
    let named = source >= 0 && (source as usize) < comm.peers().size() && tag >= 0;
    named.then(|| (comm.pattern(source, tag), bytes))
}
