//! A stream socket with frames in both directions that never blocks.

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, send};
use rejoin_managers_host::error::{Context, Result};
use rejoin_wire::codec::{CodecError, FrameReader, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// One end of a link.
#[derive(Debug)]
pub struct LocalLink {
    socket: OwnedFd,
    reader: FrameReader,
    out: Vec<u8>,
    written: usize,
    limit: usize,
    /// The other side reads no more, or can't be understood.
    closed: bool,
}

impl LocalLink {
    /// A link over a connected stream socket; bodies it sends are at most `send_limit` bytes,
    /// those that it takes at most `receive_limit`.
    #[must_use]
    pub fn new(socket: OwnedFd, send_limit: usize, receive_limit: usize) -> Self {
        LocalLink {
            socket,
            reader: FrameReader::new(receive_limit),
            out: Vec::new(),
            written: 0,
            limit: send_limit,
            closed: false,
        }
    }

    /// Queues a message. Nothing is written before [`LocalLink::flush`].
    ///
    /// # Errors
    /// The message is above the limit.
    pub fn queue<T: Serialize>(&mut self, message: &T) -> std::result::Result<(), CodecError> {
        if self.closed {
            return Ok(());
        }
        encode(message, self.limit, &mut self.out)
    }

    /// Queues a frame that is encoded already (one for many ranks).
    pub fn queue_frame(&mut self, frame: &[u8]) {
        if !self.closed {
            self.out.extend_from_slice(frame);
        }
    }

    /// Writes as much as the socket takes. Returns whether something is left.
    pub fn flush(&mut self) -> bool {
        while self.written < self.out.len() && !self.closed {
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
            match send(self.socket.as_raw_fd(), &self.out[self.written..], flags) {
                Ok(count) => self.written += count,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return true,
                Err(_) => self.closed = true,
            }
        }
        self.out.clear();
        self.written = 0;
        false
    }

    /// Bytes that wait to be written.
    #[must_use]
    pub fn backlog(&self) -> usize {
        self.out.len() - self.written
    }

    /// Reads once. `Ok(false)`: the other side has closed. Messages are then taken by
    /// [`LocalLink::next`].
    ///
    /// # Errors
    /// The system refuses.
    pub fn fill(&mut self) -> Result<Filled> {
        let mut buffer = [0u8; 64 * 1024];
        loop {
            match recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(0) | Err(Errno::ECONNRESET) => return Ok(Filled::Closed),
                Ok(count) => {
                    self.reader.push(&buffer[..count]);
                    return Ok(Filled::Some);
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Ok(Filled::Nothing),
                Err(error) => return Err(error).context("read from a manager's link"),
            }
        }
    }

    /// The next whole message.
    ///
    /// # Errors
    /// The bytes are no message.
    #[expect(clippy::should_implement_trait, reason = "it is generic and can fail")]
    pub fn next<T: DeserializeOwned>(&mut self) -> std::result::Result<Option<T>, CodecError> {
        self.reader.next()
    }

    /// The reader, for callers that receive by other means.
    pub fn reader(&mut self) -> &mut FrameReader {
        &mut self.reader
    }
}

impl AsFd for LocalLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filled {
    /// Bytes.
    Some,
    /// Nothing for now.
    Nothing,
    /// The end.
    Closed,
    /// The connection is lost, the link waits for another.
    Broken,
}
