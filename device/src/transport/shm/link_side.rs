//! The part of one side in the memory of a link.

use std::io;

use super::link_memory::{Direction, LinkMemory};
use super::single_copy::peer_memory::Exposed;

/// The side of the handshake that this process was on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandshakeRole {
    /// This side dialed.
    Dialer,
    /// This side was dialed.
    Acceptor,
}

/// The memory of a link, as one side of its handshake holds it.
pub(crate) struct LinkSide {
    pub(super) memory: LinkMemory,
    /// The direction that this side writes.
    pub(super) own: Direction,
    /// The secret that the peer may try to read in this process.
    pub(super) secret: Exposed,
}

impl LinkSide {
    /// Publishes a secret of this side in the memory.
    pub(crate) fn new(memory: LinkMemory, role: HandshakeRole) -> Self {
        let own = match role {
            HandshakeRole::Dialer => Direction::FromDialer,
            HandshakeRole::Acceptor => Direction::ToDialer,
        };
        let secret = Exposed::to(&memory, own);
        Self {
            memory,
            own,
            secret,
        }
    }

    /// Has the peer read nothing in this process any more.
    pub(crate) fn withdraw(&self) {
        self.secret.withdraw();
    }

    /// Whether the acceptor knows the same layout, as [`LinkMemory::agreed`] says.
    ///
    /// # Errors
    /// The two versions.
    pub(crate) fn agreed(&self, opened: bool) -> io::Result<()> {
        self.memory.agreed(opened)
    }

    /// Drops a mapping that this process does not have, without a system call.
    pub(crate) fn forget(self) {
        self.memory.forget();
    }
}
