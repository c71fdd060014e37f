//! The link between mpirun and a local manager, on this host or another.

use super::session_link::SessionLink;
use crate::local_link::{Filled, LocalLink};
use crate::reactor::{Interest, Reactor, Token};
use rejoin_managers_host::error::Result;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A link that is a socket pair, or one that outlives its connections.
#[derive(Debug)]
pub enum ManagerLink {
    /// Both managers are on one host.
    Pair(LocalLink, Token),
    /// The managers are on two hosts.
    Net(SessionLink),
}

impl ManagerLink {
    /// Queues a message.
    ///
    /// # Errors
    /// The message is above the limit.
    pub fn queue<T: Serialize>(&mut self, message: &T) -> Result<()> {
        match self {
            ManagerLink::Pair(link, _) => link.queue(message)?,
            ManagerLink::Net(link) => link.queue(message)?,
        }
        Ok(())
    }

    /// Writes what can be written, and watches for the rest. Returns whether something is left.
    ///
    /// # Errors
    /// The system refuses to watch.
    pub fn flush(&mut self, reactor: &Reactor) -> Result<bool> {
        match self {
            ManagerLink::Pair(link, token) => {
                let write = link.flush();
                let interest = Interest { read: true, write };
                reactor.change(&*link, *token, interest)?;
                Ok(write)
            }
            ManagerLink::Net(link) => link.flush(reactor),
        }
    }

    /// Reads once.
    ///
    /// # Errors
    /// The system refuses.
    pub fn fill(&mut self, reactor: &Reactor) -> Result<Filled> {
        match self {
            ManagerLink::Pair(link, _) => link.fill(),
            ManagerLink::Net(link) => Ok(link.fill(reactor)),
        }
    }

    /// The next whole message from the bytes already read.
    ///
    /// # Errors
    /// The bytes are no message.
    #[expect(clippy::should_implement_trait, reason = "it is generic and can fail")]
    pub fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        Ok(match self {
            ManagerLink::Pair(link, _) => link.next()?,
            ManagerLink::Net(link) => link.next()?,
        })
    }

    /// Stops watching.
    pub fn close(&mut self, reactor: &Reactor) {
        match self {
            ManagerLink::Pair(link, _) => reactor.remove(&*link),
            ManagerLink::Net(link) => {
                link.send_bye();
                // A side that does not take it learns of the end when it dials again.
                let _ = link.flush(reactor);
                link.detach(reactor);
            }
        }
    }

    /// Bytes that wait to be written.
    #[must_use]
    pub fn backlog(&self) -> usize {
        match self {
            ManagerLink::Pair(link, _) => link.backlog(),
            ManagerLink::Net(link) => link.backlog(),
        }
    }

    /// The link, if it is between two hosts.
    pub fn net(&mut self) -> Option<&mut SessionLink> {
        match self {
            ManagerLink::Pair(..) => None,
            ManagerLink::Net(link) => Some(link),
        }
    }
}
