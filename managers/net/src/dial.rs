//! The local manager's side of a connection: dialing, proving, and dialing again.

use super::address::{self, ManagerAddress};
use super::auth::{self, AuthError, AuthNonce, CHALLENGE, HELLO, WELCOME, Whose};
use super::manager_listener::read_some;
use super::session_link::SessionLink;
use crate::reactor::{Interest, Reactor, Token};
use rejoin_channel_table::JobKey;
use rejoin_managers_host::error::{Result, system_text};
use rejoin_managers_host::random::random;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::Write;
use std::time::{Duration, Instant};

/// An attempt that takes longer is ended, and a new one begins: the system's own repeats become
/// ever rarer, ours do not.
const ATTEMPT: Duration = Duration::from_millis(1000);

/// Between attempts that are refused at once.
const PAUSE: Duration = Duration::from_millis(100);

/// The dialing side.
pub struct ManagerDialer {
    key: JobKey,
    whose: Whose,
    addresses: Vec<ManagerAddress>,
    /// The address that is next, and stays so once it was right.
    next: usize,
    /// The other side has answered at the address `next`.
    known: bool,
    token: Token,
    attempt: Option<Attempt>,
    not_before: Instant,
    /// Since when the known address has no listener.
    refused: Option<Instant>,
    /// After so long of that the other side is gone. A refusal as such proves nothing: a
    /// firewall gives them, too.
    patience: Option<Duration>,
    /// The last error.
    last: String,
    /// The last error was a refusal.
    last_refused: bool,
}

struct Attempt {
    socket: Socket,
    hello: [u8; HELLO],
    until: Instant,
    /// Bytes of the message that is awaited.
    input: Vec<u8>,
    stage: Stage,
}

enum Stage {
    Connecting,
    Greeted,
    Proved(AuthNonce),
}

/// The result of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialed {
    /// The attempt is still under way.
    Nothing,
    /// The link has a new connection.
    Connected,
    /// The other side does not want this link any more, or is gone.
    Dismissed,
}

impl ManagerDialer {
    /// A dialer whose events have this token.
    #[must_use]
    pub fn new(
        key: JobKey,
        whose: Whose,
        addresses: Vec<ManagerAddress>,
        token: Token,
    ) -> ManagerDialer {
        ManagerDialer {
            key,
            whose,
            addresses,
            next: 0,
            known: false,
            token,
            attempt: None,
            not_before: Instant::now(),
            refused: None,
            patience: None,
            last: "no attempt was made".into(),
            last_refused: false,
        }
    }

    /// Has [`ManagerDialer::poll`] say that the other side is gone when it was refused for so long
    /// where it was answered before; without this it never does.
    pub fn end_after(&mut self, patience: Duration) {
        self.patience = Some(patience);
    }

    /// The other side's host has refused the last attempt.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.last_refused
    }

    /// The last error, for the user.
    #[must_use]
    pub fn trouble(&self) -> String {
        let shown: Vec<_> = self.addresses.iter().map(ToString::to_string).collect();
        format!("{} (it listens on {})", self.last, shown.join(", "))
    }

    /// Sees to it that a connection is being made, if one is wanted.
    ///
    /// # Errors
    /// The system refuses to watch a socket.
    pub fn poll(&mut self, wanted: bool, reactor: &Reactor) -> Result<Dialed> {
        let now = Instant::now();
        let late = self.attempt.as_ref().is_some_and(|a| a.until <= now);
        if late {
            // Silence, not a refusal.
            self.refused = None;
            self.fail("no answer", Duration::ZERO, reactor);
        }
        if wanted && self.attempt.is_none() && self.not_before <= now {
            self.begin(reactor)?;
        }
        let refused = self.refused.zip(self.patience);
        let gone = refused.is_some_and(|(since, patience)| since.elapsed() > patience);
        Ok(if wanted && gone {
            Dialed::Dismissed
        } else {
            Dialed::Nothing
        })
    }

    /// When [`ManagerDialer::poll`] is due.
    #[must_use]
    pub fn wait_limit(&self, wanted: bool) -> Option<Duration> {
        let at = match &self.attempt {
            Some(attempt) => attempt.until,
            None if wanted => self.not_before,
            None => return None,
        };
        Some(at.saturating_duration_since(Instant::now()))
    }

    fn begin(&mut self, reactor: &Reactor) -> Result<()> {
        let Some(address) = self.addresses.get(self.next).cloned() else {
            return Ok(());
        };
        let socket = match connecting(&address) {
            Ok(socket) => socket,
            Err(error) => {
                self.fail(
                    &format!("{address}: {}", system_text(&error)),
                    PAUSE,
                    reactor,
                );
                return Ok(());
            }
        };
        reactor.add(&socket, self.token, Interest::WRITE)?;
        self.attempt = Some(Attempt {
            socket,
            hello: auth::hello(self.whose, &random()?),
            until: Instant::now() + ATTEMPT,
            input: Vec::new(),
            stage: Stage::Connecting,
        });
        Ok(())
    }

    fn fail(&mut self, why: &str, pause: Duration, reactor: &Reactor) {
        if let Some(attempt) = self.attempt.take() {
            reactor.remove(&attempt.socket);
        }
        tracing::debug!(why, "no connection");
        self.last_refused = false;
        if let Some(address) = self.addresses.get(self.next) {
            self.last = format!("{address}: {why}");
        }
        if !self.known {
            self.next = (self.next + 1) % self.addresses.len().max(1);
        }
        self.not_before = Instant::now() + pause;
    }

    /// Makes no connection any more.
    pub fn cancel(&mut self, reactor: &Reactor) {
        if let Some(attempt) = self.attempt.take() {
            reactor.remove(&attempt.socket);
        }
    }

    /// The attempt's socket is ready. The link's old connection is dropped before this side sends
    /// its count of received bytes, so that the count stays valid.
    ///
    /// # Errors
    /// The system refuses to watch a socket.
    pub fn ready(&mut self, link: &mut SessionLink, reactor: &Reactor) -> Result<Dialed> {
        let Some(attempt) = &mut self.attempt else {
            return Ok(Dialed::Nothing);
        };
        match attempt.advance(&self.key, link, reactor, self.token) {
            Ok(None) => Ok(Dialed::Nothing),
            Ok(Some(theirs)) => {
                let Some(attempt) = self.attempt.take() else {
                    return Ok(Dialed::Nothing);
                };
                reactor.remove(&attempt.socket);
                self.refused = None;
                let Some(theirs) = theirs else {
                    return Ok(Dialed::Dismissed);
                };
                self.known = true;
                link.attach(attempt.socket.into(), theirs, reactor)?;
                Ok(Dialed::Connected)
            }
            Err(error) => {
                let refused = error.kind() == std::io::ErrorKind::ConnectionRefused;
                if refused && self.known {
                    self.refused.get_or_insert_with(Instant::now);
                } else {
                    self.refused = None;
                }
                self.fail(&system_text(&error), PAUSE, reactor);
                self.last_refused = refused;
                Ok(Dialed::Nothing)
            }
        }
    }
}

fn connecting(to: &ManagerAddress) -> std::io::Result<Socket> {
    let (domain, protocol, address) = match to {
        ManagerAddress::Net(to) => {
            let domain = Domain::for_address(*to);
            (domain, Some(Protocol::TCP), SockAddr::from(*to))
        }
        ManagerAddress::Local(name) => (Domain::UNIX, None, address::abstract_socket(name)?),
    };
    let socket = Socket::new(domain, Type::STREAM.cloexec(), protocol)?;
    socket.set_nonblocking(true)?;
    if protocol.is_some() {
        socket.set_tcp_nodelay(true)?;
    }
    match socket.connect(&address) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket),
    }
}

impl Attempt {
    /// Continues as far as it can. At the end the other side's count, or `None` if it does not want
    /// us.
    fn advance(
        &mut self,
        key: &JobKey,
        link: &mut SessionLink,
        reactor: &Reactor,
        token: Token,
    ) -> std::io::Result<Option<Option<u64>>> {
        if let Stage::Connecting = self.stage {
            if let Some(error) = self.socket.take_error()? {
                return Err(error);
            }
            // A fresh socket takes that much.
            (&self.socket).write_all(&self.hello)?;
            self.stage = Stage::Greeted;
            let watched = reactor.change(&self.socket, token, Interest::READ);
            watched.map_err(std::io::Error::other)?;
        }
        if let Stage::Greeted = self.stage {
            let Some(challenge) = read_some::<CHALLENGE>(&self.socket, &mut self.input)? else {
                return Ok(None);
            };
            let (nonce, instance) =
                auth::read_challenge(key, &self.hello, &challenge).map_err(foreign)?;
            // The other side is the right one: from here on the old connection is not read.
            link.detach(reactor);
            link.meet(instance);
            let proof = auth::proof(key, &self.hello, &nonce, link.received());
            (&self.socket).write_all(&proof)?;
            self.stage = Stage::Proved(nonce);
        }
        let Stage::Proved(nonce) = &self.stage else {
            return Ok(None);
        };
        let Some(welcome) = read_some::<WELCOME>(&self.socket, &mut self.input)? else {
            return Ok(None);
        };
        auth::read_welcome(key, &self.hello, nonce, &welcome)
            .map(Some)
            .map_err(foreign)
    }
}

fn foreign(error: AuthError) -> std::io::Error {
    std::io::Error::other(error)
}
