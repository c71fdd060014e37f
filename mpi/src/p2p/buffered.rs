//! Buffered sends (MPI-5.0 §3.6), with memory that the program attached to a communicator or to the
//! process, or with the library's (`MPI_BUFFER_AUTOMATIC`).

use super::Data;
use super::bsend_buffer::{BsendBuffer, Detached, Gap};
use super::data::room;
use crate::adi::Mode;
use crate::comm::Communicator;
use crate::error::{Error, ErrorClass, Result};
use crate::request::RequestId;
use crate::runtime::Mpi;
use crate::status::{Completed, Status};
use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

/// Where a buffer is attached.
#[derive(Clone, Copy)]
enum Place<'a> {
    Process(&'a Mpi),
    Comm(&'a Communicator),
}

impl Place<'_> {
    fn slot(&self) -> &RefCell<Option<Rc<BsendBuffer>>> {
        match self {
            Place::Process(m) => &m.buffer,
            Place::Comm(c) => &c.buffer,
        }
    }
}

fn no_buffer() -> Error {
    Error::new(
        ErrorClass::Buffer,
        "no buffer is attached for buffered sends",
    )
}

impl Mpi {
    fn attach(&self, place: Place<'_>, memory: Option<(*mut u8, usize)>) -> Result<()> {
        let mut slot = place.slot().borrow_mut();
        if slot.is_some() {
            let text = "a buffer for buffered sends is attached already";
            return Err(Error::new(ErrorClass::Buffer, text));
        }
        let (addr, len) = memory.unwrap_or((std::ptr::null_mut(), 0));
        if addr.is_null() && len > 0 {
            return Err(Error::new(
                ErrorClass::Buffer,
                "the buffer to attach is null",
            ));
        }
        let memory = memory.map(|_| (addr.expose_provenance(), len));
        *slot = Some(Rc::new(BsendBuffer::new(memory)));
        Ok(())
    }

    fn attached(place: Place<'_>) -> Result<Rc<BsendBuffer>> {
        place.slot().borrow().clone().ok_or_else(no_buffer)
    }

    fn detach(&self, place: Place<'_>) -> Result<Detached> {
        let buffer = Self::attached(place)?;
        self.flush_buffer(&buffer)?;
        *place.slot().borrow_mut() = None;
        Ok(buffer.detached())
    }

    fn place<'a>(&'a self, comm: Option<&'a Communicator>) -> Place<'a> {
        comm.map_or(Place::Process(self), Place::Comm)
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
        self.attach(self.place(comm), memory)
    }

    /// `MPI_Buffer_detach`, `MPI_Comm_detach_buffer`: waits until all of it has left.
    pub fn buffer_detach(&self, comm: Option<&Communicator>) -> Result<Detached> {
        self.detach(self.place(comm))
    }

    /// `MPI_Buffer_flush`, `MPI_Comm_flush_buffer`.
    pub fn buffer_flush(&self, comm: Option<&Communicator>) -> Result<()> {
        let buffer = Self::attached(self.place(comm))?;
        self.flush_buffer(&buffer)
    }

    /// `MPI_Buffer_iflush`, `MPI_Comm_iflush_buffer`.
    pub fn buffer_iflush(&self, comm: Option<&Rc<Communicator>>) -> Result<RequestId> {
        let buffer = Self::attached(self.place(comm.map(|c| &**c)))?;
        let mpi = self.rc();
        let task = Box::pin(async move {
            poll_fn(|_| match buffer.reap(&mut mpi.dev.borrow_mut()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
            Completed::ok(Status::EMPTY)
        });
        Ok(self.start_task(comm, task))
    }

    pub(crate) fn flush_buffer(&self, buffer: &BsendBuffer) -> Result<()> {
        self.wait_until(None, |m| {
            Ok(buffer.reap(&mut m.dev.borrow_mut()).then_some(()))
        })
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
        let of_comm = comm.buffer.borrow().clone();
        let buffer = match of_comm {
            Some(b) => b,
            None => Self::attached(Place::Process(self))?,
        };
        let len = data.bytes()?;
        buffer.reap(&mut self.dev.borrow_mut());
        let mut own = None;
        let (gap, addr) = if buffer.is_automatic() {
            (buffer.end(), own.insert(room(len)?).as_mut_ptr())
        } else {
            let gap = self.find_gap(&buffer, len)?;
            let addr = buffer.address(&gap);
            (gap, addr)
        };
        // SAFETY: the caller's elements; `len` bytes at `addr` are free.
        unsafe { data.pack_into(addr, len) };
        let to = comm.peers().world_rank(dest as usize);
        self.posted(Some(to));
        let mut dev = self.dev.borrow_mut();
        let env = comm.envelope(dest as usize, tag);
        // SAFETY: the piece stays in the buffer until the send is complete.
        let request = unsafe { dev.isend(to, env, addr, len, Mode::Standard) }?;
        if dev.poll(request).is_none() {
            buffer.insert(gap, len, request, (comm.clone(), own));
        }
        Ok(())
    }

    fn find_gap(&self, buffer: &BsendBuffer, len: usize) -> Result<Gap> {
        if let Some(found) = buffer.gap(len) {
            return Ok(found);
        }
        self.poke(None)?;
        buffer.reap(&mut self.dev.borrow_mut());
        buffer.gap(len).ok_or_else(|| buffer.no_room(len))
    }
}
