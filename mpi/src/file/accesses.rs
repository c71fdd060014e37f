//! Reading and writing (MPI-5.0 §14.4): all positions, alone and together, in each way of waiting.

use std::rc::Rc;

use super::access_mode::{FileDirection, FilePosition};
use super::agreement::{FileCall, agree};
use super::domains::FileDomains;
use super::file_view::FileView;
use super::hints::FileHints;
use super::independent::FileAccess;
use super::mpi_file::{MpiFile, SplitAccess};
use super::stream::{IncomingBytes, OutgoingBytes};
use super::two_phase;
use crate::coll::{CallKind, CallState, Ctx, next_tag};
use crate::error::{Error, ErrorClass, Result};
use crate::p2p::Typed;
use crate::request::{RequestId, Started};
use crate::status::{Completed, Status};

/// An access that was checked. It keeps what the file had when it began: later calls may change
/// that on some ranks before others go on with it.
struct Access {
    view: Rc<FileView>,
    hints: Rc<FileHints>,
    is_atomic: bool,
    /// Where it begins in the stream of the view.
    from: i64,
    buffer: AccessBuffer,
}

impl Access {
    /// # Errors
    /// `Arg` for a place that no file has.
    fn begin_at(&mut self, etypes: i64) -> Result<()> {
        let len = self.buffer.len() as i64;
        self.from = self.view.stream_offset(etypes, len)?;
        Ok(())
    }
}

enum AccessBuffer {
    Out(OutgoingBytes),
    In(IncomingBytes),
}

impl AccessBuffer {
    fn len(&self) -> usize {
        match self {
            Self::Out(bytes) => bytes.len(),
            Self::In(bytes) => bytes.len(),
        }
    }
}

/// The status of an access of so many bytes of elements.
fn status(bytes: u64) -> Status {
    Status {
        count: bytes,
        ..Status::EMPTY
    }
}

impl MpiFile {
    /// A blocking access of this rank alone.
    ///
    /// # Errors
    /// Wrong arguments, and what the system says.
    pub fn access(
        &self,
        direction: FileDirection,
        position: FilePosition,
        elements: Result<Typed>,
    ) -> Result<Status> {
        let access = self.prepare(direction, position, elements?)?;
        self.run_alone(&access).map(status)
    }

    /// A nonblocking access of this rank alone: it is complete when the call returns.
    ///
    /// # Errors
    /// Those of [`MpiFile::access`].
    pub fn start_access(
        &self,
        direction: FileDirection,
        position: FilePosition,
        elements: Result<Typed>,
    ) -> Result<RequestId> {
        let status = self.access(direction, position, elements)?;
        Ok(self
            .mpi
            .enter_request(Started::complete(status), &self.comm))
    }

    /// A blocking collective access. At the shared pointer, the ranks' data is in order of ranks.
    ///
    /// # Errors
    /// Those of [`MpiFile::access`], on all ranks if one rank has any.
    pub fn access_all(
        &self,
        direction: FileDirection,
        position: FilePosition,
        elements: Result<Typed>,
    ) -> Result<Status> {
        let access = self.prepare_all(direction, position, elements);
        let state = CallState::new(&self.mpi);
        let call = Ctx::of_all(&self.comm, next_tag(&self.comm, CallKind::Blocking), &state);
        let ordered = position == FilePosition::Shared;
        state
            .wait(self.run_together(&call, access, ordered))
            .map(status)
    }

    /// A nonblocking collective access.
    ///
    /// # Errors
    /// None yet: those of [`MpiFile::access_all`] come with the completion.
    pub fn start_access_all(
        self: &Rc<Self>,
        direction: FileDirection,
        position: FilePosition,
        elements: Result<Typed>,
    ) -> Result<RequestId> {
        let access = self.prepare_all(direction, position, elements);
        let tag = next_tag(&self.comm, CallKind::Nonblocking);
        let file = self.clone();
        let task = async move {
            let state = CallState::new(&file.mpi);
            let call = Ctx::of_all(&file.comm, tag, &state);
            match file.run_together(&call, access, false).await {
                Ok(bytes) => Completed::ok(status(bytes)),
                Err(error) => Completed {
                    status: Status::EMPTY,
                    error: Some(state.fail(error)),
                },
            }
        };
        Ok(self.mpi.start_task(Some(&self.comm), Box::pin(task)))
    }

    /// Begins a split collective access (MPI-5.0 §14.4.5). All of it is done here.
    ///
    /// # Errors
    /// Those of [`MpiFile::access_all`].
    pub fn begin_all(
        &self,
        direction: FileDirection,
        position: FilePosition,
        elements: Result<Typed>,
    ) -> Result<()> {
        let buffer = elements
            .as_ref()
            .map_or(0, |typed| typed.data().at(0).addr());
        let status = self.access_all(direction, position, elements)?;
        *self.split.borrow_mut() = Some(SplitAccess {
            direction,
            buffer,
            status,
        });
        Ok(())
    }

    /// Ends a split collective access; `buffer` is the one of its beginning.
    ///
    /// # Errors
    /// `Other` if no such access has begun.
    pub fn end_all(&self, direction: FileDirection, buffer: *const u8) -> Result<Status> {
        let mut split = self.split.borrow_mut();
        let is_it = |s: &SplitAccess| s.direction == direction && s.buffer == buffer.addr();
        match split.as_ref() {
            Some(s) if is_it(s) => {
                let status = s.status;
                *split = None;
                Ok(status)
            }
            Some(_) => {
                let text = "another split collective access of the file has begun";
                Err(Error::new(ErrorClass::Other, text))
            }
            None => {
                let text = "no split collective access of the file has begun";
                Err(Error::new(ErrorClass::Other, text))
            }
        }
    }

    /// Checks a collective access. That of the shared pointer gets its place later.
    fn prepare_all(
        &self,
        direction: FileDirection,
        position: FilePosition,
        elements: Result<Typed>,
    ) -> Result<Access> {
        self.check_no_split()?;
        let elements = elements?;
        match position {
            FilePosition::Shared => {
                self.shared_pointer()?;
                self.with_buffer(direction, elements)
            }
            other => self.prepare(direction, other, elements),
        }
    }

    /// Checks an access, and moves its pointer on.
    fn prepare(
        &self,
        direction: FileDirection,
        position: FilePosition,
        elements: Typed,
    ) -> Result<Access> {
        if position != FilePosition::Shared {
            self.mode.check_not_sequential()?;
        }
        let mut access = self.with_buffer(direction, elements)?;
        let etypes = etypes(&access)?;
        let start = match position {
            FilePosition::At(offset) => offset,
            FilePosition::Individual => self.position.get(),
            FilePosition::Shared => self.shared_pointer()?.fetch_add(etypes)?,
        };
        access.begin_at(start)?;
        if position == FilePosition::Individual {
            self.position.set(start.saturating_add(etypes));
        }
        Ok(access)
    }

    /// Checks elements and direction; the access begins at 0.
    fn with_buffer(&self, direction: FileDirection, elements: Typed) -> Result<Access> {
        let view = self.view.borrow().clone();
        elements.data().check()?;
        let buffer = match direction {
            FileDirection::Read => {
                self.mode.check_read()?;
                AccessBuffer::In(IncomingBytes::new(elements, view.datarep())?)
            }
            FileDirection::Write => {
                self.mode.check_write()?;
                AccessBuffer::Out(OutgoingBytes::new(&elements, view.datarep())?)
            }
        };
        let access = Access {
            view,
            hints: self.hints.borrow().clone(),
            is_atomic: self.is_atomic.get(),
            from: 0,
            buffer,
        };
        if etypes(&access)? > 0 {
            access.view.check_data()?;
        }
        Ok(access)
    }

    /// Runs an access of this rank alone. Returns the bytes of the elements.
    fn run_alone(&self, access: &Access) -> Result<u64> {
        let way = self.way(access);
        let done = run_one(&way, access)?;
        note_written(&way, access);
        Ok(done)
    }

    fn way<'a>(&'a self, access: &'a Access) -> FileAccess<'a> {
        FileAccess {
            storage: &self.storage,
            view: &access.view,
            hints: &access.hints,
            locality: self.comm.locality(self.mpi.locality()),
            is_atomic: access.is_atomic,
        }
    }

    /// Runs an access with the other ranks. Returns the bytes of this rank's elements.
    async fn run_together(
        &self,
        call: &FileCall<'_>,
        access: Result<Access>,
        ordered: bool,
    ) -> Result<u64> {
        let mut access = agree(call, access).await?;
        if ordered {
            let start = self.ordered_start(call, etypes(&access)?).await?;
            agree(call, access.begin_at(start)).await?;
        }
        let way = self.way(&access);
        let switch = match access.buffer {
            AccessBuffer::Out(_) => access.hints.cb_write,
            AccessBuffer::In(_) => access.hints.cb_read,
        };
        let range = (access.from, access.buffer.len());
        let done = match FileDomains::agree(call, &way, range, switch).await? {
            None => run_one(&way, &access),
            Some(domains) => run_parts(call, &way, &domains, &access).await,
        };
        let done = agree(call, done).await?;
        note_written(&way, &access);
        Ok(done)
    }

    /// Where this rank's data begins in an access in order of ranks. The pointer moves on by all.
    async fn ordered_start(&self, call: &FileCall<'_>, mine: i64) -> Result<i64> {
        let lengths = call.notify_all(&mine.to_le_bytes()).await?;
        let (lengths, _) = lengths.as_chunks::<8>();
        let sum = |some: &[[u8; 8]]| {
            let numbers = some.iter().map(|one| i64::from_le_bytes(*one));
            numbers.fold(0, i64::saturating_add)
        };
        let start = match call.rank() {
            0 => self
                .shared_pointer()
                .and_then(|p| p.fetch_add(sum(lengths))),
            _ => Ok(0),
        };
        let start = agree(call, start).await?;
        let starts = call.notify_all(&start.to_le_bytes()).await?;
        let (starts, _) = starts.as_chunks::<8>();
        let before = sum(&lengths[..call.rank()]);
        Ok(i64::from_le_bytes(starts[0]).saturating_add(before))
    }
}

/// The etypes of an access.
///
/// # Errors
/// `Io` for one that ends inside an etype.
fn etypes(access: &Access) -> Result<i64> {
    let (bytes, each) = (access.buffer.len() as i64, access.view.etype_bytes());
    if bytes % each == 0 {
        return Ok(bytes / each);
    }
    let text =
        format!("the elements have {bytes} bytes in the file, no multiple of the etype's {each}");
    Err(Error::new(ErrorClass::Io, text))
}

/// After a write: images keep what this rank has written.
fn note_written(way: &FileAccess<'_>, access: &Access) {
    if let AccessBuffer::Out(bytes) = &access.buffer {
        let range = way.view.range(access.from, bytes.len() as i64);
        way.storage.reach(range.end);
    }
}

fn run_one(way: &FileAccess<'_>, access: &Access) -> Result<u64> {
    match &access.buffer {
        AccessBuffer::Out(bytes) => {
            // SAFETY: the bytes stay valid (`Typed::new`).
            unsafe { way.write(access.from, bytes.address(), bytes.len()) }?;
            Ok(bytes.elements())
        }
        AccessBuffer::In(bytes) => {
            // SAFETY: the room stays valid (`Typed::new`).
            let read = unsafe { way.read(access.from, bytes.address(), bytes.len()) }?;
            bytes.finish(read)
        }
    }
}

async fn run_parts(
    call: &FileCall<'_>,
    way: &FileAccess<'_>,
    domains: &FileDomains,
    access: &Access,
) -> Result<u64> {
    match &access.buffer {
        AccessBuffer::Out(bytes) => {
            two_phase::write(call, way, domains, (access.from, bytes)).await?;
            Ok(bytes.elements())
        }
        AccessBuffer::In(bytes) => {
            let read = two_phase::read(call, way, domains, (access.from, bytes)).await?;
            bytes.finish(read)
        }
    }
}
