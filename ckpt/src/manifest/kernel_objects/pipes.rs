//! Pipes within the process, with their contents.

use std::os::fd::RawFd;

use super::super::description::Description;
use crate::sys;

/// A pipe.
pub(super) struct Pipe {
    ends: Vec<Description>,
    /// Room in bytes, as `F_GETPIPE_SZ` gives it.
    room: i32,
    /// What was written and not read. A pipe with `O_DIRECT` keeps the limits between writes.
    contents: Vec<Vec<u8>>,
}

impl Pipe {
    /// Whether no other process has an end of the pipe: both ends are here, or one end is closed.
    pub fn is_within(ends: &[Description]) -> bool {
        let reader = ends.iter().find(|end| end.reads());
        let writer = ends.iter().find(|end| end.writes());
        match (reader, writer) {
            (Some(reader), None) => shows(reader.number(), libc::POLLHUP),
            (None, Some(writer)) => shows(writer.number(), libc::POLLERR),
            (reader, writer) => reader.is_some() && writer.is_some(),
        }
    }

    /// Reads the contents and leaves them there.
    pub fn capture(ends: Vec<Description>) -> sys::Sys<Self> {
        let room = sys::control(ends[0].number(), libc::F_GETPIPE_SZ, 0)?;
        let contents = match ends.iter().find(|end| end.reads()) {
            Some(reader) => contents(reader.number(), room)?,
            None => Vec::new(),
        };
        Ok(Self {
            ends,
            room,
            contents,
        })
    }

    /// One of the pipe's numbers.
    pub fn number(&self) -> RawFd {
        self.ends[0].number()
    }

    /// The open file descriptions of all ends.
    pub fn descriptions(&self) -> impl Iterator<Item = &Description> {
        self.ends.iter()
    }

    /// Bytes of the contents.
    pub fn size(&self) -> usize {
        self.contents.iter().map(Vec::len).sum()
    }

    /// Makes it anew.
    pub fn restore(&self) -> sys::Sys<()> {
        let [read, write] = pipe(self.room)?;
        let filled = self.fill(write);
        let made = filled.and_then(|()| {
            for end in &self.ends {
                // Each description has its own flags, also where several have one kind of access.
                let path = sys::ShortPath::new(format_args!("/proc/thread-self/fd/{read}"));
                end.install(sys::open(path.as_c_str(), end.access() | libc::O_NONBLOCK)?)?;
            }
            Ok(())
        });
        [read, write].into_iter().for_each(sys::close);
        made
    }

    fn fill(&self, write: RawFd) -> sys::Sys<()> {
        let writer = self.ends.iter().find(|end| end.writes());
        if writer.is_some_and(Description::keeps_limits) {
            sys::control(write, libc::F_SETFL, libc::O_NONBLOCK | libc::O_DIRECT)?;
        }
        self.contents
            .iter()
            .try_for_each(|bytes| sys::write_all(write, bytes))
    }
}

/// The unread bytes of a pipe, which stay in it.
fn contents(reader: RawFd, room: i32) -> sys::Sys<Vec<Vec<u8>>> {
    let unread = sys::readable_bytes(reader)?;
    if unread == 0 {
        return Ok(Vec::new());
    }
    let [read, write] = pipe(room)?;
    let copied = copy(reader, [read, write], unread);
    [read, write].into_iter().for_each(sys::close);
    copied
}

/// Copies the references to the pages into another pipe, and reads that one.
fn copy(reader: RawFd, [read, write]: [RawFd; 2], unread: usize) -> sys::Sys<Vec<Vec<u8>>> {
    // SAFETY: touches no memory of this process.
    let count = unsafe { libc::tee(reader, write, unread, libc::SPLICE_F_NONBLOCK) };
    if sys::check(count as i64)? as usize != unread {
        // The user may have no more room in pipes.
        return Err(libc::ENOBUFS);
    }
    let mut all = Vec::new();
    let mut left = unread;
    while left > 0 {
        let mut bytes = vec![0; left];
        // SAFETY: pointer and length describe the buffer.
        let count = unsafe { libc::read(read, bytes.as_mut_ptr().cast(), left) };
        let count = sys::check(count as i64)? as usize;
        if count == 0 {
            return Err(libc::EIO);
        }
        bytes.truncate(count);
        left -= count;
        all.push(bytes);
    }
    Ok(all)
}

/// A nonblocking pipe with so much room.
fn pipe(room: i32) -> sys::Sys<[RawFd; 2]> {
    let mut ends = [0; 2];
    // SAFETY: the pointer is to two numbers.
    let made = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) };
    sys::check(made.into())?;
    if sys::control(ends[1], libc::F_GETPIPE_SZ, 0) != Ok(room) {
        // A user who may have no more room gets less; the contents decide whether it is enough.
        let _ = sys::control(ends[1], libc::F_SETPIPE_SZ, room);
    }
    Ok(ends)
}

fn shows(fd: RawFd, event: i16) -> bool {
    sys::events_now(fd) & event != 0
}
