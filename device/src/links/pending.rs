//! A connection in its handshake.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::time::{Duration, Instant};

use rejoin_channel_table::ids::{Attempt, JobKey, Rank};
use rejoin_channel_table::{
    Acceptor, AcceptorStep, Address, AddressBook, Dialer, DialerStep, Established,
    HandshakeRefusal, Proved, Resume,
};
use socket2::Socket;

use crate::error::text_of;
use crate::transport::{AnyEndpoint, Copies, Wireup, WireupFailure};

/// How long an incoming connection may take for its handshake.
pub(super) const ACCEPT_PATIENCE: Duration = Duration::from_secs(10);

/// The step that the handshake requests of the device after bytes of the peer.
pub(crate) enum HandshakeRequest {
    /// No step: more bytes are needed.
    Nothing,
    /// The peer has proved its identity: this rank is to do so, too ([`PendingConnection::prove`]).
    Prove(Rank, Attempt),
    /// The peer has accepted this rank.
    Established(Box<Established>),
    /// The peer has proved its identity, and is to be accepted or refused.
    Admit(Box<Proved>),
    /// One side refuses the other.
    Refused(HandshakeRefusal),
}

/// Which side of the handshake this is.
enum Side {
    /// This rank dialed.
    Dial(Dialer),
    /// This rank was dialed.
    Accept(Acceptor),
}

/// A connection that is no link yet.
pub(crate) struct PendingConnection {
    socket: Socket,
    wireup: Wireup,
    side: Side,
    /// The other end of an attempt of this rank's.
    pub(super) address: Option<Address>,
    /// Bytes to send, and how many of them are sent.
    out: Vec<u8>,
    sent: usize,
    /// The connection is established (an accepted one from the start).
    pub(super) connected: bool,
    /// Bytes of the peer have arrived.
    pub(super) answered: bool,
    /// Close as soon as everything is sent.
    closing: bool,
    /// The failure of the attempt, where the connection caused it.
    failing: Option<WireupFailure>,
    /// When it was made.
    pub(super) begun: Instant,
    /// When to give up; a dialer whose peer computes may wait for long.
    pub(super) deadline: Instant,
}

impl PendingConnection {
    /// An attempt of this rank's, with its first message to send.
    pub(crate) fn dialed(
        socket: Socket,
        address: Address,
        dialer: Dialer,
        out: Vec<u8>,
        until: Instant,
    ) -> Self {
        Self {
            socket,
            wireup: Wireup::new(matches!(address, Address::Local(_))),
            side: Side::Dial(dialer),
            address: Some(address),
            out,
            sent: 0,
            connected: false,
            answered: false,
            closing: false,
            failing: None,
            begun: Instant::now(),
            deadline: until,
        }
    }

    /// An incoming connection, over a local socket or over TCP.
    pub(crate) fn accepted(socket: OwnedFd, local: bool, acceptor: Acceptor) -> Self {
        let begun = Instant::now();
        Self {
            socket: Socket::from(socket),
            wireup: Wireup::new(local),
            side: Side::Accept(acceptor),
            address: None,
            out: Vec::new(),
            sent: 0,
            connected: true,
            answered: false,
            closing: false,
            failing: None,
            begun,
            deadline: begun + ACCEPT_PATIENCE,
        }
    }

    /// Has the other side read nothing in this process, though it may hold the connection for a
    /// link already.
    pub(crate) fn withdraw(&self) {
        self.wireup.withdraw();
    }

    /// Whether this rank was dialed.
    pub(crate) fn accepts(&self) -> bool {
        matches!(self.side, Side::Accept(_))
    }

    /// The claimed identity of the dialer, which is not proved yet.
    pub(crate) fn claims(&self) -> Option<Rank> {
        match &self.side {
            Side::Dial(_) => None,
            Side::Accept(acceptor) => acceptor.claims().map(|(rank, _)| rank),
        }
    }

    /// The rank at the other end: the one that is dialed, or that the caller claims to be.
    pub(crate) fn peer(&self) -> Option<Rank> {
        self.dials().map(|(rank, _)| rank).or_else(|| self.claims())
    }

    /// The peer that this rank dials, and the attempt.
    pub(crate) fn dials(&self) -> Option<(Rank, Attempt)> {
        match &self.side {
            Side::Dial(dialer) => Some((dialer.peer(), dialer.attempt())),
            Side::Accept(_) => None,
        }
    }

    /// Checks whether an outgoing connection is established.
    ///
    /// # Errors
    /// Why it failed.
    pub(crate) fn connect(&mut self) -> io::Result<bool> {
        if self.connected {
            return Ok(true);
        }
        if let Some(error) = self.socket.take_error()? {
            return Err(error);
        }
        match self.socket.peer_addr() {
            Ok(peer) => {
                // The kernel may pick the listener's own port as the source.
                let own = self.socket.local_addr()?.as_socket();
                if own.is_some() && own == peer.as_socket() {
                    return Err(io::Error::other("the socket connected to itself"));
                }
                self.connected = true;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sends what it can; true when everything is sent.
    ///
    /// # Errors
    /// The connection broke.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        while self.sent < self.out.len() {
            let rest = &self.out[self.sent..];
            match self.wireup.send(&self.socket, rest) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(true)
    }

    /// Reads what there is, up to the buffer's length; `None` when there is nothing now.
    ///
    /// # Errors
    /// The connection broke, or the other side closed it.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match self.wireup.receive(&self.socket, into) {
                Ok(0) => return Err(io::Error::other("the other side closed the connection")),
                Ok(count) => {
                    self.answered = true;
                    return Ok(Some(count));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Passes received bytes to the handshake. Returns how many it took, and the next step.
    pub(crate) fn feed(
        &mut self,
        key: &JobKey,
        book: &AddressBook,
        bytes: &[u8],
    ) -> (usize, HandshakeRequest) {
        let out = &mut self.out;
        match &mut self.side {
            Side::Dial(dialer) => {
                let (taken, step) = dialer.feed(key, bytes, out);
                let said = match step {
                    DialerStep::More => HandshakeRequest::Nothing,
                    DialerStep::Prove => HandshakeRequest::Prove(dialer.peer(), dialer.attempt()),
                    DialerStep::Established(opened) => HandshakeRequest::Established(opened),
                    DialerStep::Refused(refusal) => HandshakeRequest::Refused(refusal),
                };
                (taken, said)
            }
            Side::Accept(acceptor) => {
                let (taken, step) = acceptor.feed(key, book, bytes, out);
                let said = match step {
                    AcceptorStep::More => HandshakeRequest::Nothing,
                    AcceptorStep::Admit(proved) => HandshakeRequest::Admit(proved),
                    AcceptorStep::Refused(refusal) => HandshakeRequest::Refused(refusal),
                };
                (taken, said)
            }
        }
    }

    /// Proves the identity of this rank, and offers the memory of the link if `local_size` ranks
    /// share the host. The dialer's part.
    ///
    /// # Errors
    /// Why the attempt is over.
    pub(crate) fn prove(
        &mut self,
        key: &JobKey,
        seen: Attempt,
        resume: &Resume,
        local_size: u32,
    ) -> Result<(), String> {
        if let Err(error) = self.wireup.offer(local_size) {
            // Another attempt may succeed where a signal has interrupted this one.
            let passes = error.kind() == io::ErrorKind::Interrupted;
            self.failing = Some(if passes {
                WireupFailure::Connection
            } else {
                WireupFailure::Memory
            });
            return Err(format!("no memory to share: {}", text_of(&error)));
        }
        match &mut self.side {
            Side::Dial(dialer) => dialer
                .prove(key, seen, resume, &mut self.out)
                .map_err(|error| error.to_string()),
            Side::Accept(_) => Ok(()),
        }
    }

    /// The acceptor has taken this rank's offer, if it understands it. The dialer's part.
    ///
    /// # Errors
    /// The two versions.
    pub(crate) fn agree(&mut self) -> Result<(), String> {
        self.wireup.agreed(true).map_err(|error| {
            self.failing = Some(WireupFailure::Memory);
            text_of(&error)
        })
    }

    /// Accepts the dialer's offer. The acceptor's part.
    ///
    /// # Errors
    /// Nothing came, or it cannot be used.
    pub(crate) fn take_over(&mut self) -> io::Result<()> {
        self.wireup.take()
    }

    /// Refuses the dialer. The acceptor's part.
    pub(crate) fn refuse(&mut self, key: &JobKey, refusal: HandshakeRefusal) {
        if let Side::Accept(acceptor) = &mut self.side {
            acceptor.refuse(key, refusal, &mut self.out);
        }
    }

    /// Accepts the dialer, which has to give up its attempts up to `renounced`. The acceptor's
    /// part.
    ///
    /// # Errors
    /// Why the attempt is over.
    pub(crate) fn accept(
        &mut self,
        key: &JobKey,
        renounced: Attempt,
        resume: &Resume,
    ) -> Result<(), String> {
        match &mut self.side {
            Side::Accept(acceptor) => acceptor
                .accept(key, renounced, resume, &mut self.out)
                .map_err(|error| error.to_string()),
            Side::Dial(_) => Ok(()),
        }
    }

    /// The connection broke: the reason, for messages to the user.
    pub(crate) fn connection_broke(&mut self, error: &io::Error) -> String {
        if self.dials().is_some()
            && let Err(other) = self.wireup.agreed(false)
        {
            self.failing = Some(WireupFailure::Memory);
            return other.to_string();
        }
        // After a long wait the other side drops the connection, as over TCP.
        if self.begun.elapsed() < ACCEPT_PATIENCE / 2 {
            self.failing = Some(WireupFailure::Connection);
        }
        text_of(error)
    }

    /// The failure of the attempt, where the connection caused it.
    pub(crate) fn failing(&self) -> Option<WireupFailure> {
        self.failing
    }

    /// The other end of an attempt of this rank's.
    pub(crate) fn address(&self) -> Option<&Address> {
        self.address.as_ref()
    }

    /// Whether the connection is established.
    pub(crate) fn is_connected(&self) -> bool {
        self.connected
    }

    /// Gives up when this time has passed without an answer.
    pub(crate) fn wait_for_answer(&mut self, patience: Duration) {
        self.deadline = Instant::now() + patience;
    }

    /// Closes the connection as soon as everything is sent.
    pub(crate) fn close_when_sent(&mut self) {
        self.closing = true;
    }

    /// Whether it is closed as soon as everything is sent.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing
    }

    /// Whether there is nothing to send.
    pub(crate) fn has_sent_all(&self) -> bool {
        self.out.is_empty()
    }

    /// Drops a number that is no longer this library's, without a system call.
    pub(crate) fn forget(self) {
        let _ = self.socket.into_raw_fd();
        self.wireup.forget();
    }

    /// The descriptor to watch.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The missing part, for messages to the user.
    pub(crate) fn waiting_for(&self) -> &'static str {
        match &self.side {
            _ if !self.connected => "the connection",
            Side::Dial(dialer) => dialer.waiting_for(),
            Side::Accept(acceptor) => acceptor.waiting_for(),
        }
    }

    /// This rank's end of the link after the handshake, and the bytes that must still be sent
    /// before frames.
    pub(crate) fn into_endpoint(mut self, copies: Copies) -> (AnyEndpoint, Vec<u8>) {
        let rest = self.out.split_off(self.sent);
        let endpoint = self.wireup.into_endpoint(self.socket.into(), copies);
        (endpoint, rest)
    }
}
