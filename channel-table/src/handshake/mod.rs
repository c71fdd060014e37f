//! The handshake that opens or reopens a channel, without sockets, clocks or randomness.
//!
//! ```text
//! dialer                                   acceptor
//!   Hello(view, attempt, nonce)        ->
//!                                      <-  Challenge(view, nonce, keyed hash)
//!   Proof(seen, keyed hash) + resume   ->
//!                                      <-  Accept(renounced, keyed hash) + resume
//! ```
//!
//! Every keyed hash covers role, version, job, both views of generation and incarnations, both
//! ranks, the attempt and both nonces. A *view* is the generation and the incarnations that a side
//! knows for the pair. When the views differ, the dialer reports its view under a keyed hash. So
//! both sides learn, from a peer that knows the key, which of them is behind. The side that is
//! behind asks its manager; the other side waits.
//!
//! A side takes its resume when it commits itself. The dialer does so after the challenge, when it
//! has no live link. The acceptor does so after [`crate::table::Table::admit`] has closed the live
//! link. From that moment on the side processes no frame of an older link, so frames never undo a
//! resume. The table does not change before the peer has proved that it knows the key.

mod acceptor;
mod dialer;
mod inbox;
mod message;

#[cfg(test)]
mod tests;

use crate::ids::{Attempt, Generation, Identity, Incarnation, Rank};
use crate::resume::Resume;

pub use acceptor::{Acceptor, AcceptorStep, Proved};
pub use dialer::{Dialer, DialerStep};
pub use message::{LONGEST, Nonce, VERSION};

/// The generation and the incarnations that one side knows for a pair of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PairView {
    /// The job's generation.
    pub generation: Generation,
    /// The side's own incarnation.
    pub mine: Incarnation,
    /// The other side's incarnation.
    pub yours: Incarnation,
}

impl PairView {
    /// Compares this view with the peer's; `None` if both agree.
    fn judge(&self, peer: Rank, theirs: &PairView) -> Option<HandshakeRefusal> {
        let agree = self.generation == theirs.generation
            && self.mine == theirs.yours
            && self.yours == theirs.mine;
        if agree {
            return None;
        }
        let behind = self.generation < theirs.generation
            || (self.generation == theirs.generation
                && (self.yours < theirs.mine || self.mine < theirs.yours));
        let theirs = *theirs;
        Some(if behind {
            HandshakeRefusal::PeerIsNewer { peer, theirs }
        } else {
            HandshakeRefusal::PeerIsOlder { peer, theirs }
        })
    }
}

/// The result of the dialer's handshake: an open link.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Established {
    /// The dialing side: this process, as it was when it dialed.
    pub me: Identity,
    /// Rank and incarnation of the process that accepted.
    pub peer: Identity,
    /// The dialer's attempt.
    pub attempt: Attempt,
    /// The highest attempt that the acceptor had proved itself and gave up by accepting.
    pub renounced: Attempt,
    /// The acceptor's resume.
    pub resume: Resume,
}

/// Why a handshake ended without a link. All but the first two are tried again after a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum HandshakeRefusal {
    /// Authenticated: this side is behind. A rollback replaces every process, so the manager of
    /// this process is about to end it.
    #[error(
        "rank {peer} is ahead (generation {}, incarnation {}, and holds ours for {})",
        theirs.generation, theirs.mine, theirs.yours
    )]
    PeerIsNewer {
        /// The rank at the other end.
        peer: Rank,
        /// View of the other end; `theirs.yours` above our incarnation means that we have been
        /// replaced.
        theirs: PairView,
    },
    /// Authenticated: the peer is behind. Its manager is about to replace its process; dial again
    /// after a while.
    #[error(
        "rank {peer} is behind (generation {}, incarnation {}, and holds ours for {})",
        theirs.generation, theirs.mine, theirs.yours
    )]
    PeerIsOlder {
        /// The rank at the other end.
        peer: Rank,
        /// The generation and incarnations that the other end holds for true.
        theirs: PairView,
    },
    /// The other side belongs to another job.
    #[error("the process there belongs to another job")]
    WrongJob,
    /// The other side speaks another version.
    #[error("the process there speaks version {theirs} of the handshake, not {VERSION}")]
    WrongVersion {
        /// Version of the handshake that the other end speaks.
        theirs: u16,
    },
    /// Another rank listens at that address, or a rank dialed itself.
    #[error("another rank listens there")]
    WrongRank,
    /// The dialer's rank is not in the job.
    #[error("the rank that dialed is not in the job")]
    UnknownRank,
    /// A keyed hash is wrong: the peer does not know the key, or bytes were changed.
    #[error("the peer did not prove that it knows the job's key")]
    BadProof,
    /// Not a message of the handshake, or not the expected one.
    #[error("the peer does not speak Rejoin's handshake")]
    Malformed,
    /// Simultaneous connect: the attempt of the larger rank survives, and this attempt is the
    /// smaller rank's.
    #[error("the other side's own attempt is under way")]
    Yield,
    /// A newer attempt, incarnation or link has taken this one's place.
    #[error("a newer attempt took this one's place")]
    Superseded,
}

impl HandshakeRefusal {
    /// The code of this refusal in a message to the other side; 0 for a refusal without a message.
    fn code(&self) -> u8 {
        match self {
            HandshakeRefusal::PeerIsNewer { .. } | HandshakeRefusal::PeerIsOlder { .. } => 1,
            HandshakeRefusal::WrongJob => 2,
            HandshakeRefusal::WrongVersion { .. } => 3,
            HandshakeRefusal::WrongRank => 4,
            HandshakeRefusal::UnknownRank => 5,
            HandshakeRefusal::Yield => 6,
            HandshakeRefusal::Superseded => 7,
            HandshakeRefusal::BadProof | HandshakeRefusal::Malformed => 0,
        }
    }
}
