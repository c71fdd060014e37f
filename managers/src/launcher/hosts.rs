//! The links to the local managers, by the number of their host.

use crate::error::{Context, Result};
use crate::link::{Filled, Link};
use crate::plan::{Down, Plan};
use crate::reactor::{Interest, Reactor, Token};
use crate::{LOCAL_MANAGER, descendants};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use rejoin_managers_protocol::central::HostIndex;
use rejoin_managers_protocol::codec::MANAGER_LIMIT;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// One local manager.
struct Local {
    link: Link,
    open: bool,
    pid: u32,
    token: Token,
}

/// All local managers; a host without ranks has none.
pub(super) struct Hosts {
    locals: Vec<Option<Local>>,
}

impl Hosts {
    /// Starts a local manager for each host that has ranks, and gives it its part of the plan. All
    /// of them run here as yet: `kind` is the kind of their events, the index is the host.
    pub fn start(
        plan: &Plan,
        placement: &[HostIndex],
        hosts: usize,
        kind: u8,
        reactor: &Reactor,
    ) -> Result<Hosts> {
        let mut locals = Vec::with_capacity(hosts);
        for host in 0..hosts {
            let part = plan.part(placement, host);
            if part.ranks.is_empty() {
                locals.push(None);
                continue;
            }
            let (socket, pid) = start_local()?;
            let mut link = Link::new(socket, MANAGER_LIMIT, MANAGER_LIMIT);
            let token = Token {
                kind,
                incarnation: 0,
                index: u32::try_from(host).unwrap_or(u32::MAX),
            };
            reactor.add(&link, token, Interest::READ)?;
            link.queue(&Down::Launch(Box::new(part)))?;
            locals.push(Some(Local {
                link,
                open: true,
                pid,
                token,
            }));
        }
        Ok(Hosts { locals })
    }

    /// Queues a message to a host; nothing is said to one whose link is closed.
    pub fn queue(&mut self, host: HostIndex, message: &Down) -> Result<()> {
        if let Some(local) = self.open(host) {
            local.link.queue(message)?;
        }
        Ok(())
    }

    /// Queues a message to every host.
    pub fn queue_all(&mut self, message: &Down) -> Result<()> {
        for host in 0..self.locals.len() {
            self.queue(host, message)?;
        }
        Ok(())
    }

    /// Writes what the links take, and watches those that did not take all.
    pub fn flush(&mut self, reactor: &Reactor) -> Result<()> {
        for local in self.locals.iter_mut().flatten().filter(|l| l.open) {
            let write = local.link.flush();
            let interest = Interest { read: true, write };
            reactor.change(&local.link, local.token, interest)?;
        }
        Ok(())
    }

    /// Reads once from a host.
    pub fn fill(&mut self, host: HostIndex) -> Result<Filled> {
        match self.open(host) {
            Some(local) => local.link.fill(),
            None => Ok(Filled::Nothing),
        }
    }

    /// The next message of a host, of what was read.
    pub fn next(&mut self, host: HostIndex) -> Result<Option<crate::plan::Up>> {
        match self.open(host) {
            Some(local) => Ok(local.link.next()?),
            None => Ok(None),
        }
    }

    /// Closes a host's link.
    pub fn close(&mut self, host: HostIndex, reactor: &Reactor) {
        if let Some(local) = self.open(host) {
            local.open = false;
            reactor.remove(&local.link);
        }
    }

    /// Closes all links.
    pub fn close_all(&mut self, reactor: &Reactor) {
        (0..self.locals.len()).for_each(|host| self.close(host, reactor));
    }

    /// Kills a local manager and closes its link. The kernel ends its ranks.
    pub fn kill(&mut self, host: HostIndex, reactor: &Reactor) {
        if let Some(local) = self.open(host) {
            descendants::send(local.pid, libc::SIGKILL);
        }
        self.close(host, reactor);
    }

    /// Some link is open.
    pub fn any_open(&self) -> bool {
        self.locals.iter().flatten().any(|l| l.open)
    }

    fn open(&mut self, host: HostIndex) -> Option<&mut Local> {
        self.locals.get_mut(host)?.as_mut().filter(|l| l.open)
    }
}

/// Starts the local manager: this program again, with its link as standard input, in a process
/// group of its own so that the terminal's signals reach mpirun alone.
fn start_local() -> Result<(OwnedFd, u32)> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::Stream, None, flags)
        .context("make the link to the local manager")?;
    let child = Command::new("/proc/self/exe")
        .arg0("rejoin-local")
        .arg(LOCAL_MANAGER)
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
        .context("start the local manager")?;
    Ok((ours, child.id()))
}
