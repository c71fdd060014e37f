//! Nonblocking sends and receives (MPI-5.0 §3.7).

use super::{Data, SendMode, Staging};
use crate::adi::{Mode, ReqId};
use crate::check;
use crate::comm::Communicator;
use crate::decide::Wild;
use crate::error::Result;
use crate::request::{Request, RequestId, State};
use crate::runtime::Mpi;
use crate::status::{Completed, PROC_NULL, Status};
use std::rc::Rc;

/// The device's mode; ready is standard, buffered never gets here.
#[inline]
pub(super) fn device_mode(mode: SendMode) -> Mode {
    match mode {
        SendMode::Synchronous => Mode::Synchronous,
        _ => Mode::Standard,
    }
}

/// An operation that has been started.
pub(super) type Started = (State, Option<Box<Staging>>);

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
            return Ok((State::Ready(Completed::ok(Status::EMPTY)), None));
        }
        if mode == SendMode::Buffered {
            // SAFETY: the caller's.
            unsafe { self.bsend(data, dest, tag, comm) }?;
            return Ok((State::Ready(Completed::ok(Status::EMPTY)), None));
        }
        let (addr, len, staging) = match data.contiguous()? {
            Some((addr, len)) => (addr, len, None),
            None => {
                // SAFETY: the caller's.
                let mut bytes = unsafe { data.pack() }?;
                let (addr, len) = (bytes.as_mut_ptr(), bytes.len());
                let target = None;
                (addr, len, Some(Box::new(Staging { bytes, target })))
            }
        };
        let to = comm.peers().world_rank(dest as usize);
        let env = comm.envelope(dest as usize, tag);
        self.posted(Some(to));
        let mut dev = self.dev_mut();
        // SAFETY: the caller keeps the elements, the request keeps the packed copy.
        let r = unsafe { dev.isend(to, env, addr, len, device_mode(mode)) }?;
        Ok((State::Device(r), staging))
    }

    /// Starts a receive; arguments are checked. Also gives its number if it has a wildcard.
    ///
    /// # Safety
    /// The elements are writable and unaccessed until the operation completes.
    pub(super) unsafe fn post_recv(
        &self,
        data: &Data<'_>,
        source: i32,
        tag: i32,
        comm: &Rc<Communicator>,
    ) -> Result<(Started, Option<Wild>)> {
        if source == PROC_NULL {
            let nothing = State::Ready(Completed::ok(Status::PROC_NULL));
            return Ok(((nothing, None), None));
        }
        let (addr, len, staging) = match data.contiguous()? {
            Some((addr, len)) => (addr, len, None),
            None => {
                let mut staging = data.staging()?;
                let (addr, len) = (staging.bytes.as_mut_ptr(), staging.bytes.len());
                (addr, len, Some(staging))
            }
        };
        let (pattern, wild) = self.decider().post(comm.pattern(source, tag));
        self.posted(pattern.from);
        // SAFETY: the caller keeps the elements, the request keeps the temporary.
        let r = unsafe { self.dev_mut().irecv(pattern, addr, len) }?;
        Ok(((State::Device(r), staging), wild))
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
        let (state, staging) = unsafe { self.post_send(data, dest, tag, comm, mode) }?;
        if matches!(state, State::Device(ReqId::DONE)) {
            return Ok(RequestId::SENT);
        }
        let mut request = Request::new(state, Some(comm.clone()));
        request.staging = staging;
        Ok(self.enter_request(request))
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
        let ((state, staging), wild) = unsafe { self.post_recv(data, source, tag, comm) }?;
        let mut request = Request::new(state, Some(comm.clone()));
        request.staging = staging;
        request.receives = true;
        request.wild = wild;
        Ok(self.enter_request(request))
    }
}
