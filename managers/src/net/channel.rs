//! The link between mpirun and a local manager, on this host or another.

use super::link::NetLink;
use crate::error::Result;
use crate::link::{Filled, Link};
use crate::reactor::{Interest, Reactor, Token};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A link that is a socket pair, or one that outlives its connections.
#[derive(Debug)]
pub enum Channel {
    /// Both managers are on one host.
    Pair(Link, Token),
    /// They are on two.
    Net(NetLink),
}

impl Channel {
    /// Queues a message.
    ///
    /// # Errors
    /// It is above the limit.
    pub fn queue<T: Serialize>(&mut self, message: &T) -> Result<()> {
        match self {
            Channel::Pair(link, _) => link.queue(message)?,
            Channel::Net(link) => link.queue(message)?,
        }
        Ok(())
    }

    /// Writes what can be written, and watches for the rest. Returns whether something is left.
    ///
    /// # Errors
    /// The system refuses to watch.
    pub fn flush(&mut self, reactor: &Reactor) -> Result<bool> {
        match self {
            Channel::Pair(link, token) => {
                let write = link.flush();
                let interest = Interest { read: true, write };
                reactor.change(&*link, *token, interest)?;
                Ok(write)
            }
            Channel::Net(link) => link.flush(reactor),
        }
    }

    /// Reads once.
    ///
    /// # Errors
    /// The system refuses.
    pub fn fill(&mut self, reactor: &Reactor) -> Result<Filled> {
        match self {
            Channel::Pair(link, _) => link.fill(),
            Channel::Net(link) => Ok(link.fill(reactor)),
        }
    }

    /// The next whole message of what was read.
    ///
    /// # Errors
    /// What came is no message.
    #[expect(clippy::should_implement_trait, reason = "it is generic and can fail")]
    pub fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        Ok(match self {
            Channel::Pair(link, _) => link.next()?,
            Channel::Net(link) => link.next()?,
        })
    }

    /// Stops watching.
    pub fn close(&mut self, reactor: &Reactor) {
        match self {
            Channel::Pair(link, _) => reactor.remove(&*link),
            Channel::Net(link) => {
                link.say_bye();
                // Who does not take it finds out when it dials again.
                let _ = link.flush(reactor);
                link.detach(reactor);
            }
        }
    }

    /// Bytes that wait to be written.
    #[must_use]
    pub fn backlog(&self) -> usize {
        match self {
            Channel::Pair(link, _) => link.backlog(),
            Channel::Net(link) => link.backlog(),
        }
    }

    /// The one over a network.
    pub fn net(&mut self) -> Option<&mut NetLink> {
        match self {
            Channel::Pair(..) => None,
            Channel::Net(link) => Some(link),
        }
    }
}
