//! Keeps a link connected from the dialing side. It dials when there is no connection, or when the
//! connection has been silent for too long.

use super::auth::Whose;
use super::dial::{Dialed, ManagerDialer};
use super::session_link::SessionLink;
use crate::address::ManagerAddress;
use crate::reactor::{Reactor, Token};
use rejoin_channel_table::JobKey;
use rejoin_managers_host::error::{Error, Result};
use std::time::{Duration, Instant};

/// How long the first connection to another host is tried.
const FIRST_CALL: Duration = Duration::from_secs(25);

/// The result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Called {
    /// The link is as it was.
    Nothing,
    /// The other side is a process that this link had no connection to before.
    NewPeer,
    /// The other side wants this link no more, or is gone.
    Dismissed,
}

/// The calls of one link.
pub struct Redial {
    /// The other side, for the user.
    peer: &'static str,
    dialer: ManagerDialer,
    /// The other side has answered once.
    answered: bool,
    begun: Instant,
    /// Between hosts: a connection over which nothing has come for so long may be dead.
    silence: Option<Duration>,
    /// When the last thing had come before the other side was probed.
    probed: Option<Instant>,
}

impl Redial {
    /// Calls to `peer`, on another host (`remote`) or on this one: between processes of one host,
    /// no connection falls silent.
    #[must_use]
    pub fn new(
        peer: &'static str,
        key: JobKey,
        whose: Whose,
        addresses: Vec<ManagerAddress>,
        token: Token,
        remote: bool,
    ) -> Redial {
        let mut dialer = ManagerDialer::new(key, whose, addresses, token);
        if remote {
            // Until it is said for how long.
            dialer.end_after(FIRST_CALL);
        }
        Redial {
            peer,
            dialer,
            answered: false,
            begun: Instant::now(),
            silence: remote.then_some(Duration::from_secs(2)),
            probed: None,
        }
    }

    /// A connection that is silent for so long is replaced. The other side counts as gone when it
    /// has refused connections for `patience`, where it took one before.
    pub fn set_limits(&mut self, silence: Duration, patience: Duration) {
        self.silence = Some(silence);
        self.dialer.end_after(patience);
    }

    fn wants(&self, link: &SessionLink) -> bool {
        let silent = |limit| link.last_received().elapsed() > limit;
        !link.is_connected() || self.silence.is_some_and(silent)
    }

    /// Calls if there is need, and asks for an answer over a connection that has been silent for a
    /// while.
    ///
    /// # Errors
    /// The first call has reached no peer for too long, or an error of the system.
    pub fn call(&mut self, link: &mut SessionLink, reactor: &Reactor) -> Result<Called> {
        let heard = link.last_received();
        let quiet = |limit: Duration| heard.elapsed() > limit / 2;
        if link.is_connected() && self.silence.is_some_and(quiet) && self.probed != Some(heard) {
            self.probed = Some(heard);
            link.probe();
            link.flush(reactor)?;
        }
        let dialed = self.dialer.poll(self.wants(link), reactor)?;
        if !self.answered && self.silence.is_some() && self.begun.elapsed() > FIRST_CALL {
            let (peer, why) = (self.peer, self.dialer.trouble());
            return Err(Error::Usage(format!("no connection to {peer}: {why}")));
        }
        Ok(self.called(dialed, link))
    }

    /// A call continues.
    ///
    /// # Errors
    /// The system refuses to watch a socket.
    pub fn ready(&mut self, link: &mut SessionLink, reactor: &Reactor) -> Result<Called> {
        let dialed = self.dialer.ready(link, reactor)?;
        Ok(self.called(dialed, link))
    }

    fn called(&mut self, dialed: Dialed, link: &mut SessionLink) -> Called {
        match dialed {
            Dialed::Nothing => Called::Nothing,
            Dialed::Dismissed => Called::Dismissed,
            Dialed::Connected => {
                self.answered = true;
                match link.take_new_peer() {
                    true => Called::NewPeer,
                    false => Called::Nothing,
                }
            }
        }
    }

    /// When [`Redial::call`] is due.
    #[must_use]
    pub fn wait_limit(&self, link: &SessionLink) -> Option<Duration> {
        let wanted = self.wants(link);
        let silent = self.silence.filter(|_| !wanted).map(|limit| {
            let probed = self.probed == Some(link.last_received());
            let at = link.last_received() + if probed { limit } else { limit / 2 };
            at.saturating_duration_since(Instant::now()) + Duration::from_millis(1)
        });
        let dial = self.dialer.wait_limit(wanted);
        silent.into_iter().chain(dial).min()
    }

    /// Makes no connection any more.
    pub fn cancel(&mut self, reactor: &Reactor) {
        self.dialer.cancel(reactor);
    }
}
