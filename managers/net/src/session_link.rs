//! A link between managers that outlives its connections.

use super::session::Session;
use crate::local_link::Filled;
use crate::reactor::{Interest, Reactor, Token};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, send};
use rejoin_managers_host::error::Result;
use rejoin_wire::codec::{CodecError, FrameReader, MANAGER_LIMIT, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Instant;

/// One end of such a link.
#[derive(Debug)]
pub struct SessionLink {
    socket: Option<OwnedFd>,
    token: Token,
    session: Session,
    reader: FrameReader,
    /// Records on their way to the socket.
    wire: Vec<u8>,
    written: usize,
    heard: Instant,
    /// The instance of the other side, once it has been met.
    instance: Option<u64>,
    /// The other side has identified itself, and this was not handled yet.
    is_new: bool,
}

impl SessionLink {
    /// A link without a connection; its events will have this token.
    #[must_use]
    pub fn new(token: Token) -> SessionLink {
        SessionLink {
            socket: None,
            token,
            session: Session::default(),
            reader: FrameReader::new(MANAGER_LIMIT),
            wire: Vec::new(),
            written: 0,
            heard: Instant::now(),
            instance: None,
            is_new: false,
        }
    }

    /// Queues a message; it is retained until the other side has it.
    ///
    /// # Errors
    /// The message is above the limit.
    pub fn queue<T: Serialize>(&mut self, message: &T) -> std::result::Result<(), CodecError> {
        let mut frame = Vec::new();
        encode(message, MANAGER_LIMIT, &mut frame)?;
        self.session.push(&frame);
        Ok(())
    }

    /// The other side is this instance. If it was another one before, the link begins anew. Bytes
    /// retained for the former instance are useless to this one, and partial messages of the former
    /// are never completed.
    pub fn meet(&mut self, instance: u64) {
        let before = self.instance.replace(instance);
        if before == Some(instance) {
            return;
        }
        self.is_new = true;
        if before.is_some() {
            self.session = Session::default();
            self.reader = FrameReader::new(MANAGER_LIMIT);
        }
    }

    /// Whether another instance was met since the last call.
    pub fn take_new_peer(&mut self) -> bool {
        std::mem::take(&mut self.is_new)
    }

    /// Asks the other side for a sign of life.
    pub fn probe(&mut self) {
        self.session.probe();
    }

    /// Continues over a new connection; the old one is dropped.
    ///
    /// # Errors
    /// The system refuses. A connection with an impossible count is refused with a warning.
    pub fn attach(&mut self, socket: OwnedFd, theirs: u64, reactor: &Reactor) -> Result<()> {
        self.detach(reactor);
        if let Err(error) = self.session.resume(theirs) {
            tracing::warn!(%error, "a manager's connection is not taken");
            return Ok(());
        }
        reactor.add(&socket, self.token, Interest::READ)?;
        self.socket = Some(socket);
        self.heard = Instant::now();
        Ok(())
    }

    /// Drops the connection. The link stays.
    pub fn detach(&mut self, reactor: &Reactor) {
        if let Some(socket) = self.socket.take() {
            reactor.remove(&socket);
        }
        self.wire.clear();
        self.written = 0;
    }

    /// There is a connection, which may be dead.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.socket.is_some()
    }

    /// The other end's address, while there is a connection.
    #[must_use]
    pub fn peer(&self) -> Option<IpAddr> {
        let socket = socket2::SockRef::from(self.socket.as_ref()?);
        let address = socket.peer_addr().ok()?.as_socket()?;
        Some(address.ip())
    }

    /// When something came last.
    #[must_use]
    pub fn last_received(&self) -> Instant {
        self.heard
    }

    /// Count of bytes received, for a new connection.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.session.received()
    }

    /// The other side has everything.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.session.is_settled()
    }

    /// Bytes that the other side is not known to have.
    #[must_use]
    pub fn backlog(&self) -> usize {
        self.session.backlog()
    }

    /// Ends the link after the queued bytes.
    pub fn send_bye(&mut self) {
        self.session.send_bye();
    }

    /// Writes as much as the socket takes. Returns whether something is left.
    ///
    /// # Errors
    /// The system refuses to watch the socket.
    pub fn flush(&mut self, reactor: &Reactor) -> Result<bool> {
        loop {
            let Some(socket) = &self.socket else {
                return Ok(!self.session.is_settled());
            };
            if self.written == self.wire.len() {
                self.wire.clear();
                self.written = 0;
                if !self.session.gather(&mut self.wire) {
                    reactor.change(socket, self.token, Interest::READ)?;
                    return Ok(!self.session.is_settled());
                }
            }
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
            match send(socket.as_raw_fd(), &self.wire[self.written..], flags) {
                Ok(count) => self.written += count,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => {
                    reactor.change(socket, self.token, Interest::READ_AND_WRITE)?;
                    return Ok(true);
                }
                // Its unread bytes tell more.
                Err(_) => return Ok(true),
            }
        }
    }

    /// Reads once. [`Filled::Broken`]: the connection is lost and the link waits for another.
    pub fn fill(&mut self, reactor: &Reactor) -> Filled {
        let mut buffer = [0u8; 64 * 1024];
        let Some(socket) = &self.socket else {
            return Filled::Nothing;
        };
        let got = loop {
            match recv(socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                Err(Errno::EINTR) => {}
                other => break other,
            }
        };
        let count = match got {
            Err(Errno::EAGAIN) => return Filled::Nothing,
            Ok(0) | Err(_) if self.session.has_received_bye() => return Filled::Closed,
            Ok(0) | Err(_) => {
                self.detach(reactor);
                return Filled::Broken;
            }
            Ok(count) => count,
        };
        self.heard = Instant::now();
        let (session, reader) = (&mut self.session, &mut self.reader);
        if let Err(error) = session.receive(&buffer[..count], |bytes| reader.push(bytes)) {
            tracing::warn!(%error, "a manager's connection is dropped");
            self.detach(reactor);
            return Filled::Broken;
        }
        Filled::Some
    }

    /// The other side has ended the link.
    #[must_use]
    pub fn has_received_bye(&self) -> bool {
        self.session.has_received_bye()
    }

    /// The next whole message.
    ///
    /// # Errors
    /// The bytes are no message.
    #[expect(clippy::should_implement_trait, reason = "it is generic and can fail")]
    pub fn next<T: DeserializeOwned>(&mut self) -> std::result::Result<Option<T>, CodecError> {
        self.reader.next()
    }
}
