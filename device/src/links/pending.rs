//! A connection in its handshake.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::time::Instant;

use rejoin_channel_table::ids::{Attempt, Rank};
use rejoin_channel_table::{Acceptor, Address, Dialer};
use socket2::Socket;

use crate::transport::{AnyEndpoint, Copies, Failing, Wireup};

/// Which side of the handshake this is.
pub(crate) enum Side {
    /// This rank dialed.
    Dial(Dialer),
    /// This rank was dialed.
    Accept(Acceptor),
}

/// A connection that is no link yet.
pub(crate) struct Pending {
    socket: Socket,
    pub(crate) wireup: Wireup,
    pub(crate) side: Side,
    /// The other end of an attempt of this rank's.
    pub(crate) address: Option<Address>,
    /// Bytes to send, and how many of them are sent.
    pub(crate) out: Vec<u8>,
    pub(crate) sent: usize,
    /// The connection stands (one that was accepted does from the start).
    pub(crate) connected: bool,
    /// The other side has said something.
    pub(crate) answered: bool,
    /// Close as soon as everything is sent.
    pub(crate) closing: bool,
    /// Why the attempt fails, where that lies in the connection.
    pub(crate) failing: Option<Failing>,
    /// When it was made.
    pub(crate) begun: Instant,
    /// When to give up; a dialer whose peer computes may wait for long.
    pub(crate) deadline: Instant,
}

impl Pending {
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
    pub(crate) fn accepted(
        socket: OwnedFd,
        local: bool,
        acceptor: Acceptor,
        until: Instant,
    ) -> Self {
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
            begun: Instant::now(),
            deadline: until,
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

    /// Who dials this rank, as it claims; nothing vouches for it yet.
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

    /// Whom this rank dials with which attempt.
    pub(crate) fn dials(&self) -> Option<(Rank, Attempt)> {
        match &self.side {
            Side::Dial(dialer) => Some((dialer.peer(), dialer.attempt())),
            Side::Accept(_) => None,
        }
    }

    /// Looks whether an outgoing connection stands by now.
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
                Ok(count) => return Ok(Some(count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Lets go of a number that is no longer this library's, without a system call.
    pub(crate) fn forget(self) {
        let _ = self.socket.into_raw_fd();
        self.wireup.forget();
    }

    /// The descriptor to watch.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// What is missing, for messages to people.
    pub(crate) fn waiting_for(&self) -> &'static str {
        match &self.side {
            _ if !self.connected => "the connection",
            Side::Dial(dialer) => dialer.waiting_for(),
            Side::Accept(acceptor) => acceptor.waiting_for(),
        }
    }

    /// This rank's end of the link, the handshake being over, and what is still to be sent ahead of
    /// frames.
    pub(crate) fn into_endpoint(mut self, copies: Copies) -> (AnyEndpoint, Vec<u8>) {
        let rest = self.out.split_off(self.sent);
        let dialed = matches!(self.side, Side::Dial(_));
        let endpoint = self
            .wireup
            .into_endpoint(self.socket.into(), dialed, copies);
        (endpoint, rest)
    }
}
