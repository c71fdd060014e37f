//! Buffered sends (MPI-5.0 §3.6), with memory that the program attached to a communicator or to the
//! process, or with the library's (`MPI_BUFFER_AUTOMATIC`).

use super::Data;
use super::bsend_buffer::{BsendBuffer, BufferSlot, Detached, Gap};
use super::data::room;
use crate::adi::{Mode, SendAttempt};
use crate::comm::Communicator;
use crate::error::{Error, ErrorClass, Result};
use crate::request::RequestId;
use crate::runtime::Mpi;
use crate::status::{Completed, Status};
use rejoin_device::determinants::DeterminantKind;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

fn no_buffer() -> Error {
    Error::new(
        ErrorClass::Buffer,
        "no buffer is attached for buffered sends",
    )
}

impl Mpi {
    /// Where the buffer of the process, or of a communicator, is.
    fn slot<'a>(&'a self, comm: Option<&'a Communicator>) -> &'a BufferSlot {
        comm.map_or(self.buffer(), |comm| comm.buffer())
    }

    fn attached(&self, comm: Option<&Communicator>) -> Result<Rc<BsendBuffer>> {
        self.slot(comm).attached().ok_or_else(no_buffer)
    }

    /// `MPI_Buffer_attach`, or `MPI_Comm_attach_buffer` with a communicator; `memory` without is
    /// `MPI_BUFFER_AUTOMATIC`.
    ///
    /// # Safety
    /// The memory is valid and the library's alone until it is detached.
    pub unsafe fn buffer_attach(
        &self,
        comm: Option<&Communicator>,
        memory: Option<(*mut u8, usize)>,
    ) -> Result<()> {
        self.slot(comm).attach(memory)
    }

    /// `MPI_Buffer_detach`, `MPI_Comm_detach_buffer`: waits until all of it has left.
    pub fn buffer_detach(&self, comm: Option<&Communicator>) -> Result<Detached> {
        let buffer = self.attached(comm)?;
        self.flush_buffer(&buffer)?;
        self.slot(comm).take();
        Ok(buffer.detached())
    }

    /// `MPI_Buffer_flush`, `MPI_Comm_flush_buffer`.
    pub fn buffer_flush(&self, comm: Option<&Communicator>) -> Result<()> {
        let buffer = self.attached(comm)?;
        self.flush_buffer(&buffer)
    }

    /// `MPI_Buffer_iflush`, `MPI_Comm_iflush_buffer`.
    pub fn buffer_iflush(&self, comm: Option<&Rc<Communicator>>) -> Result<RequestId> {
        let buffer = self.attached(comm.map(|c| &**c))?;
        let mpi = self.rc();
        let task = Box::pin(async move {
            poll_fn(|_| match buffer.reap(&mut mpi.dev_mut()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
            Completed::ok(Status::EMPTY)
        });
        Ok(self.start_task(comm, task))
    }

    pub(crate) fn flush_buffer(&self, buffer: &BsendBuffer) -> Result<()> {
        self.wait_until(None, |m| Ok(buffer.reap(&mut m.dev_mut()).then_some(())))
    }

    /// A buffered send; arguments are checked.
    ///
    /// # Safety
    /// The elements are readable.
    pub(super) unsafe fn bsend(
        &self,
        data: &Data<'_>,
        dest: i32,
        tag: i32,
        comm: &Rc<Communicator>,
    ) -> Result<()> {
        let buffer = match comm.buffer().attached() {
            Some(buffer) => buffer,
            None => self.attached(None)?,
        };
        let len = data.bytes()?;
        buffer.reap(&mut self.dev_mut());
        let mut own = None;
        let (gap, addr) = if buffer.is_automatic() {
            self.before_send()?;
            (buffer.end(), own.insert(room(len)?).as_mut_ptr())
        } else {
            let gap = self.find_gap(&buffer, len)?;
            self.before_send()?;
            // Messages may have left during the wait for this send's turn.
            let gap = match self.decider().logs() {
                false => gap,
                true => buffer.gap(len).ok_or_else(|| buffer.no_room(len))?,
            };
            let addr = buffer.address(&gap);
            (gap, addr)
        };
        // SAFETY: the caller's elements; `len` bytes at `addr` are free.
        unsafe { data.pack_into(addr, len) };
        let to = comm.peers().world_rank(dest as usize);
        self.posted(Some(to));
        let mut dev = self.dev_mut();
        let env = comm.envelope(dest as usize, tag);
        // SAFETY: the piece stays in the buffer until the send is complete.
        let request =
            unsafe { dev.isend(to, env, (addr, len), Mode::Standard, SendAttempt::Untried) }?;
        if dev.poll(request).is_none() {
            buffer.insert(gap, len, request, (comm.clone(), own));
        }
        Ok(())
    }

    fn find_gap(&self, buffer: &BsendBuffer, len: usize) -> Result<Gap> {
        let mut found = buffer.gap(len);
        if found.is_none() {
            self.make_progress(None)?;
            buffer.reap(&mut self.dev_mut());
            found = buffer.gap(len);
        }
        if self.decide_whether(DeterminantKind::NoRoom, found.is_none())? {
            return Err(buffer.no_room(len));
        }
        match found {
            Some(found) => Ok(found),
            // In a replay: there was room, so messages will leave.
            None => self.wait_until(None, |m| {
                buffer.reap(&mut m.dev_mut());
                Ok(buffer.gap(len))
            }),
        }
    }
}
