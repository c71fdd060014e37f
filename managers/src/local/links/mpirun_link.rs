//! The link to mpirun: from this host, a socket pair that mpirun made; from another, one that this
//! manager calls for.

use crate::launch::local_messages::{LocalToMpirun, MpirunToLocal};
use crate::local::kind;
use rejoin_channel_table::JobKey;
use rejoin_managers_host::error::{Context, Result};
use rejoin_managers_net::invite::Invitation;
use rejoin_managers_net::local_link::{Filled, LocalLink};
use rejoin_managers_net::manager_link::ManagerLink;
use rejoin_managers_net::reactor::{Interest, Reactor, Token};
use rejoin_managers_net::redial::{Called, Redial};
use rejoin_managers_net::session_link::SessionLink;
use rejoin_managers_protocol::lease::Terms;
use rejoin_wire::codec::MANAGER_LIMIT;
use serde_bytes::ByteBuf;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long this manager tries to send its last messages.
const LAST_MESSAGES: Duration = Duration::from_secs(5);

/// A local manager's link to mpirun.
pub struct MpirunLink {
    link: ManagerLink,
    open: bool,
    invited: Option<Invited>,
}

/// State of a local manager on another host, beside its link.
struct Invited {
    redial: Redial,
    key: JobKey,
    /// mpirun that says nothing for so long has gone with its host.
    orphaned: Option<Duration>,
    /// The ranks' working directory, where it is not there.
    missing: Option<ByteBuf>,
    /// Since when everything is over here.
    over: Option<Instant>,
}

impl MpirunLink {
    /// Takes the link that is our standard input; ranks must not find it as theirs.
    pub fn inherited(reactor: &Reactor) -> Result<MpirunLink> {
        let stdin = std::io::stdin();
        let socket = stdin
            .as_fd()
            .try_clone_to_owned()
            .context("take the link to mpirun")?;
        MpirunLink::over(socket, reactor)
    }

    /// A link over one end of a socket pair; mpirun has the other one.
    pub fn over(socket: OwnedFd, reactor: &Reactor) -> Result<MpirunLink> {
        let link = LocalLink::new(socket, MANAGER_LIMIT, MANAGER_LIMIT);
        let token = Token::single(kind::LINK);
        reactor.add(&link, token, Interest::READ)?;
        Ok(MpirunLink {
            link: ManagerLink::Pair(link, token),
            open: true,
            invited: None,
        })
    }

    /// Takes the invitation that is our standard input.
    pub fn invited() -> Result<MpirunLink> {
        let invitation = Invitation::read(std::io::stdin().lock())?;
        let missing = invitation.settle();
        // The parent process may end; this process does not share its terminal.
        let _ = nix::unistd::setsid();
        let whose = invitation.whose();
        let key = invitation.key.clone();
        let addresses = invitation.addresses.into_iter().map(Into::into).collect();
        let token = Token::single(kind::DIAL);
        let invited = Invited {
            redial: Redial::new("mpirun", key.clone(), whose, addresses, token, true),
            key,
            orphaned: None,
            missing,
            over: None,
        };
        let link = SessionLink::new(Token::single(kind::LINK));
        Ok(MpirunLink {
            link: ManagerLink::Net(link),
            open: true,
            invited: Some(invited),
        })
    }

    /// mpirun is on another host.
    pub fn is_remote(&self) -> bool {
        self.invited.is_some()
    }

    /// The key that the plan comes without, on another host.
    pub fn key(&self) -> Option<JobKey> {
        self.invited.as_ref().map(|invited| invited.key.clone())
    }

    /// The ranks' working directory, where it is not there.
    pub fn missing(&self) -> Option<&ByteBuf> {
        self.invited.as_ref()?.missing.as_ref()
    }

    /// Queues a message; nothing is said over a link that is closed.
    pub fn notify(&mut self, message: &LocalToMpirun) -> Result<()> {
        self.link.queue(message)
    }

    /// Reads once.
    pub fn fill(&mut self, reactor: &Reactor) -> Result<Filled> {
        self.link.fill(reactor)
    }

    /// The next whole message of the received bytes.
    pub fn next(&mut self) -> Result<Option<MpirunToLocal>> {
        self.link.next()
    }

    /// Writes as much as the link takes.
    pub fn flush(&mut self, reactor: &Reactor) -> Result<()> {
        if self.open {
            self.link.flush(reactor)?;
        }
        Ok(())
    }

    /// Bytes that wait to be written.
    pub fn backlog(&self) -> usize {
        match self.open {
            true => self.link.backlog(),
            false => 0,
        }
    }

    /// Closes it; whether it was open.
    pub fn close(&mut self, reactor: &Reactor) -> bool {
        let open = std::mem::take(&mut self.open);
        if open {
            self.link.close(reactor);
            if let Some(invited) = &mut self.invited {
                invited.redial.cancel(reactor);
            }
        }
        open
    }

    /// Whether mpirun has taken all messages, or is gone. `written`: the ranks' outputs are at
    /// their end.
    pub fn has_sent_all(&mut self, written: bool, reactor: &Reactor) -> Result<bool> {
        if !self.open {
            return Ok(true);
        }
        // Output waits for mpirun, but not for one that never comes back.
        if !written && !self.is_orphaned() {
            return Ok(false);
        }
        let left = self.link.flush(reactor)?;
        let Some(invited) = &mut self.invited else {
            return Ok(!left);
        };
        let since = *invited.over.get_or_insert_with(Instant::now);
        if !left || since.elapsed() > LAST_MESSAGES {
            self.close(reactor);
            return Ok(true);
        }
        Ok(false)
    }

    fn is_orphaned(&mut self) -> bool {
        let limit = self.invited.as_ref().and_then(|invited| invited.orphaned);
        let heard = self.link.net().map(|link| link.last_received().elapsed());
        limit.zip(heard).is_some_and(|(limit, heard)| heard > limit)
    }

    /// Calls mpirun, if there is need.
    pub fn call(&mut self, reactor: &Reactor) -> Result<Called> {
        match (&mut self.invited, self.link.net()) {
            (Some(invited), Some(link)) if self.open => invited.redial.call(link, reactor),
            _ => Ok(Called::Nothing),
        }
    }

    /// A call continues.
    pub fn answered(&mut self, reactor: &Reactor) -> Result<Called> {
        match (&mut self.invited, self.link.net()) {
            (Some(invited), Some(link)) => invited.redial.ready(link, reactor),
            _ => Ok(Called::Nothing),
        }
    }

    /// When [`MpirunLink::call`] is due.
    pub fn wait_limit(&mut self) -> Option<Duration> {
        let (invited, link) = (self.invited.as_ref()?, self.link.net()?);
        let over = invited.over.map(|_| Duration::from_millis(100));
        let call = invited.redial.wait_limit(link).filter(|_| self.open);
        over.into_iter().chain(call).min()
    }

    /// This host is reached over a network.
    pub fn use_leases(&mut self, terms: Terms) {
        if let Some(invited) = &mut self.invited {
            // By then mpirun, if it lives, has no use for this host any more.
            invited
                .redial
                .set_limits(terms.silence(), terms.lost_after());
            invited.orphaned = Some(Duration::from_millis(terms.orphaned));
        }
    }
}
