//! The link to mpirun: the end of it, and, on another host, the calls.

use super::{LocalManager, kind};
use crate::error::{Context, Error, Result};
use crate::host::descendants;
use crate::launch::local_messages::Down;
use crate::net::dial::{Dialed, Dialer};
use crate::net::invite::Invitation;
use crate::net::local_link::{Filled, LocalLink};
use crate::net::manager_link::ManagerLink;
use crate::net::reactor::{Interest, Reactor, Token};
use crate::net::session_link::SessionLink;
use rejoin_channel_table::JobKey;
use rejoin_managers_protocol::lease::Terms;
use rejoin_managers_protocol::local::Input;
use rejoin_wire::codec::MANAGER_LIMIT;
use serde_bytes::ByteBuf;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// mpirun is called for the first time for so long.
const FIRST_CALL: Duration = Duration::from_secs(25);

/// What the last words are worth: they are offered for so long.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// What a local manager on another host has beside its link.
pub(super) struct Calls {
    dialer: Dialer,
    key: JobKey,
    /// mpirun has answered once.
    answered: bool,
    begun: Instant,
    /// The connection that says nothing for so long may be dead.
    pub silence: Duration,
    /// mpirun that says nothing for so long has gone with its host.
    forsaken: Option<Duration>,
    /// The ranks' working directory, where it is not there.
    pub missing: Option<ByteBuf>,
    over: Option<Instant>,
}

/// Takes the link that is our standard input; ranks must not find it as theirs.
pub(super) fn inherited(reactor: &Reactor) -> Result<ManagerLink> {
    let stdin = std::io::stdin();
    let socket = stdin
        .as_fd()
        .try_clone_to_owned()
        .context("take the link to mpirun")?;
    let link = LocalLink::new(socket, MANAGER_LIMIT, MANAGER_LIMIT);
    let token = Token::single(kind::LINK);
    reactor.add(&link, token, Interest::READ)?;
    Ok(ManagerLink::Pair(link, token))
}

/// Takes the invitation that is our standard input.
pub(super) fn invited() -> Result<(ManagerLink, Calls)> {
    let invitation = Invitation::read(std::io::stdin().lock())?;
    let missing = invitation.settle();
    // What started us may go; its terminal, if it has one, is none of ours.
    let _ = nix::unistd::setsid();
    let whose = invitation.whose();
    let key = invitation.key.clone();
    let token = Token::single(kind::DIAL);
    let mut dialer = Dialer::new(key.clone(), whose, invitation.addresses, token);
    // Until the plan says for how long: mpirun may end before it has sent one.
    dialer.give_up_after(FIRST_CALL);
    let calls = Calls {
        dialer,
        key,
        answered: false,
        begun: Instant::now(),
        silence: Duration::from_secs(2),
        forsaken: None,
        missing,
        over: None,
    };
    let link = SessionLink::new(Token::single(kind::LINK));
    Ok((ManagerLink::Net(link), calls))
}

impl LocalManager {
    pub(super) fn read_link(&mut self) -> Result<()> {
        match self.link.fill(&self.reactor)? {
            // Called again when the timers are looked at.
            Filled::Nothing | Filled::Broken => {}
            Filled::Closed => self.link_ended(),
            Filled::Some => {
                while let Some(message) = self.link.next::<Down>()? {
                    self.carry_out(message)?;
                }
            }
        }
        Ok(())
    }

    /// mpirun is gone, or wants no more of us.
    pub(super) fn link_ended(&mut self) {
        if std::mem::take(&mut self.link_open) {
            self.link.close(&self.reactor);
            self.queue.push_back(Input::CentralLost);
        }
    }

    pub(super) fn flush_link(&mut self) -> Result<()> {
        if self.link_open {
            self.link.flush(&self.reactor)?;
        }
        Ok(())
    }

    /// Everything that we have said has been taken, or nobody is there to take it.
    pub(super) fn has_said_all(&mut self) -> Result<bool> {
        if !self.link_open {
            return Ok(true);
        }
        // Output waits for mpirun, but not for one that never comes back.
        if !self.outputs_done() && !self.is_forsaken() {
            return Ok(false);
        }
        let left = self.link.flush(&self.reactor)?;
        let Some(calls) = &mut self.calls else {
            return Ok(!left);
        };
        let since = *calls.over.get_or_insert_with(Instant::now);
        if !left || since.elapsed() > LAST_WORDS {
            self.link.close(&self.reactor);
            return Ok(true);
        }
        Ok(false)
    }

    fn is_forsaken(&mut self) -> bool {
        let limit = self.calls.as_ref().and_then(|calls| calls.forsaken);
        let heard = self.link.net().map(|link| link.heard().elapsed());
        limit.zip(heard).is_some_and(|(limit, heard)| heard > limit)
    }

    /// The connection is gone, or may be.
    fn wants_to_call(&mut self) -> bool {
        let Some(calls) = &self.calls else {
            return false;
        };
        let (silence, open) = (calls.silence, self.link_open);
        let Some(link) = self.link.net() else {
            return false;
        };
        open && (!link.is_connected() || link.heard().elapsed() > silence)
    }

    /// Calls mpirun, if there is need.
    pub(super) fn call(&mut self) -> Result<()> {
        let wanted = self.wants_to_call();
        let Some(calls) = &mut self.calls else {
            return Ok(());
        };
        let dialed = calls.dialer.poll(wanted, &self.reactor)?;
        if !calls.answered && calls.begun.elapsed() > FIRST_CALL {
            let why = calls.dialer.trouble();
            return Err(Error::Usage(format!("can't call mpirun back: {why}")));
        }
        self.called(dialed);
        Ok(())
    }

    /// A call continues.
    pub(super) fn answered(&mut self) -> Result<()> {
        let (Some(calls), Some(link)) = (&mut self.calls, self.link.net()) else {
            return Ok(());
        };
        let dialed = calls.dialer.ready(link, &self.reactor)?;
        self.called(dialed);
        Ok(())
    }

    fn called(&mut self, dialed: Dialed) {
        match (dialed, &mut self.calls) {
            (Dialed::Connected, Some(calls)) => calls.answered = true,
            (Dialed::Dismissed, _) => {
                tracing::warn!("mpirun does not want this host's manager any more");
                self.link_ended();
            }
            _ => {}
        }
    }

    /// When [`LocalManager::call`] is due.
    pub(super) fn call_limit(&mut self) -> Option<Duration> {
        let wanted = self.wants_to_call();
        let calls = self.calls.as_ref()?;
        let silent = self.link.net().map(|link| {
            let at = link.heard() + calls.silence;
            at.saturating_duration_since(Instant::now()) + Duration::from_millis(1)
        });
        let silent = silent.filter(|_| !wanted && self.link_open);
        let over = calls.over.map(|_| Duration::from_millis(100));
        let dial = calls.dialer.wait_limit(wanted);
        silent.into_iter().chain(dial).chain(over).min()
    }

    /// This host is reached over a network.
    pub(super) fn go_by_leases(&mut self, terms: Terms) {
        let now = self.now();
        self.core.go_by_leases(terms, now);
        if let Some(calls) = &mut self.calls {
            // Every renewal is answered at once: two without an answer, and a new connection is
            // tried.
            calls.silence = Duration::from_millis(2 * terms.every());
            calls.forsaken = Some(Duration::from_millis(terms.forsaken));
            // By then mpirun, if it lives, has no use for this host any more.
            calls.dialer.give_up_after(terms.given_up());
        }
        // The first renewal is due.
        self.queue.push_back(Input::Tick);
    }

    /// Suspends the ranks and what they have started. Their images are frozen anyway.
    pub(super) fn stop_all(&self) {
        tracing::warn!("no contact to mpirun: the ranks are suspended");
        self.signal_present(libc::SIGSTOP);
    }

    /// Has them continue.
    pub(super) fn continue_all(&self) {
        self.signal_present(libc::SIGCONT);
    }

    /// Not to process groups: processes that have retired must stay as they are.
    fn signal_present(&self, signal: i32) {
        let present = self.ranks.iter().filter(|r| !r.retiring);
        let mut waiting: Vec<u32> = present
            .flat_map(|r| r.child.iter().chain(&r.caller))
            .map(|(pid, _)| *pid)
            .collect();
        while let Some(pid) = waiting.pop() {
            descendants::send(pid, signal);
            waiting.extend(descendants::children(pid));
        }
    }

    /// The key that the plan came without.
    pub(super) fn key(&self) -> Option<JobKey> {
        self.calls.as_ref().map(|calls| calls.key.clone())
    }
}
