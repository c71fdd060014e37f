//! The table of channels: links to peers, dials, and the attempt that survives a simultaneous
//! connect.
//!
//! The same rules hold on both sides:
//!
//! - Only a channel without a link dials, so the dialer reads no link when it takes its resume.
//! - A dialer that has proved itself (same generation and incarnations) is admitted even if the
//!   acceptor has a live link. The dialer has no link, so the acceptor's link is dead. The acceptor
//!   closes that link first and takes its resume after that.
//! - Simultaneous connect: the attempt of the larger rank survives. Once the larger rank has proved
//!   itself in its own attempt, it refuses the attempt of the smaller rank. The smaller rank gives
//!   up its own attempt when the proof of the larger rank arrives. An unanswered dial is no rival:
//!   if only one direction works, that direction is used.
//! - Attempts of one dialer are admitted in ascending order only. A side that accepts *renounces*
//!   every attempt that it had proved itself, and names the last of them. So a late proof from a
//!   closed connection can neither displace a newer link nor bring back an old resume.
//! - A dialer names the last attempt of the other side whose end it has *seen*. A larger rank may
//!   still wait for an answer on a dead connection; so it does not insist on that attempt.

use crate::book::{AddressBook, BookError};
use crate::card::BusinessCard;
use crate::handshake::{Established, HandshakeRefusal, Proved};
use crate::ids::{Attempt, Identity, Incarnation, Rank};

/// The table's state of one channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LinkState<H> {
    /// No link and no attempt: the next use dials.
    #[default]
    Null,
    /// This side dials.
    Dialing {
        /// Number of the attempt that is under way.
        attempt: Attempt,
        /// The proof, and the resume with it, has been sent.
        proved: bool,
    },
    /// A link is open.
    Live {
        /// The device's handle of the link.
        handle: H,
    },
}

/// The caller's duties before it uses an admitted link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Admission<H> {
    /// The handle of the link that the new one replaces. No frame of the old link is processed any
    /// more; close it, then take the resume.
    pub closes: Option<H>,
    /// The own attempt that the new link ends: close that connection.
    pub abandons: Option<Attempt>,
    /// For [`crate::handshake::Acceptor::accept`].
    pub renounced: Attempt,
}

/// Why the table refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// The job has no such rank.
    #[error("rank {rank} is not in a job of {size} ranks")]
    NotInJob {
        /// The rank asked for.
        rank: Rank,
        /// Ranks in the job.
        size: u32,
    },
    /// A rank has no channel to itself.
    #[error("a rank does not dial itself")]
    Oneself,
    /// An attempt is under way.
    #[error("rank {0} is being dialed")]
    AlreadyDialing(Rank),
    /// There is a link.
    #[error("the channel to rank {0} is open")]
    AlreadyLive(Rank),
    /// The attempt is no longer the current one: close its connection.
    #[error("attempt {attempt} to reach rank {peer} has been superseded")]
    Superseded {
        /// The rank that it dialed.
        peer: Rank,
        /// Number of the attempt that wins.
        attempt: Attempt,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Channel<H> {
    state: LinkState<H>,
    /// Highest attempt assigned here, which is never assigned again.
    dialed: Attempt,
    /// Highest attempt proved here.
    proved: Attempt,
    /// Highest attempt of the peer that was admitted here or renounced there.
    done: Attempt,
}

/// The channels of one rank. `H` is the device's handle of a link (an index, a token).
///
/// A lost link is nulled, and the next use of the channel dials again. A handle names one link: the
/// loss of a link that another one has replaced changes nothing.
///
/// ```
/// use rejoin_channel_table::{AddressBook, Generation, Identity, Incarnation, JobId, Rank};
/// use rejoin_channel_table::{Established, LinkState, Resume, Table};
///
/// let identity = |rank| Identity {
///     job: JobId(1),
///     rank: Rank(rank),
///     generation: Generation(0),
///     incarnation: Incarnation(0),
/// };
/// let book = AddressBook::new(vec![Default::default(); 2]);
/// let mut table = Table::new(identity(0), book);
///
/// // The handshake with rank 1 proves who it is, and then opens the link.
/// let (attempt, _) = table.dial(Rank(1))?;
/// let renounced = table.prove(Rank(1), attempt)?;
/// let opened = Established {
///     me: identity(0),
///     peer: identity(1),
///     attempt,
///     renounced,
///     resume: Resume::default(),
/// };
/// table.established(&opened, "token 7")?;
/// assert_eq!(table.live(Rank(1)), Some("token 7"));
///
/// assert!(table.lost(Rank(1), "token 7"));
/// assert!(table.live(Rank(1)).is_none());
/// // What still names the lost link changes nothing any more.
/// assert!(!table.lost(Rank(1), "token 7"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Table<H> {
    me: Identity,
    book: AddressBook,
    /// Rank to position in `channels`, plus one; 0 for a rank without a channel.
    positions: Vec<u32>,
    channels: Vec<Channel<H>>,
}

impl<H: Copy> Table<H> {
    /// A table without channels.
    pub fn new(me: Identity, book: AddressBook) -> Self {
        let positions = vec![0; book.size() as usize];
        Table {
            me,
            book,
            positions,
            channels: Vec::new(),
        }
    }

    /// The identity of this process.
    pub fn me(&self) -> Identity {
        self.me
    }

    /// Everyone's incarnation and card.
    pub fn book(&self) -> &AddressBook {
        &self.book
    }

    /// The state of the channel to `peer`.
    pub fn state(&self, peer: Rank) -> LinkState<H> {
        self.channel(peer)
            .map_or(LinkState::Null, |channel| channel.state)
    }

    /// The handle of the open link to `peer`, if there is one.
    #[inline(always)]
    pub fn live(&self, peer: Rank) -> Option<H> {
        match self.channel(peer)?.state {
            LinkState::Live { handle } => Some(handle),
            LinkState::Null | LinkState::Dialing { .. } => None,
        }
    }

    /// Begins an attempt to reach `peer`: the number for [`crate::handshake::Dialer::new`], and the
    /// incarnation that it dials.
    ///
    /// # Errors
    /// The channel is open or being dialed, or there is no such peer.
    pub fn dial(&mut self, peer: Rank) -> Result<(Attempt, Incarnation), TableError> {
        let incarnation = self.check_peer(peer)?;
        let channel = self.channel_mut(peer);
        match channel.state {
            LinkState::Dialing { .. } => return Err(TableError::AlreadyDialing(peer)),
            LinkState::Live { .. } => return Err(TableError::AlreadyLive(peer)),
            LinkState::Null => {}
        }
        let attempt = channel.dialed.next();
        channel.dialed = attempt;
        channel.state = LinkState::Dialing {
            attempt,
            proved: false,
        };
        Ok((attempt, incarnation))
    }

    /// Commits this side: the acceptor's challenge to `attempt` is right, and the proof follows.
    /// Returns the highest attempt of the peer that is over, for
    /// [`crate::handshake::Dialer::prove`]. The resume is taken after this call.
    ///
    /// # Errors
    /// The attempt is no longer the current one.
    pub fn prove(&mut self, peer: Rank, attempt: Attempt) -> Result<Attempt, TableError> {
        let superseded = TableError::Superseded { peer, attempt };
        let channel = self.existing(peer).ok_or(superseded)?;
        match &mut channel.state {
            LinkState::Dialing {
                attempt: current,
                proved,
            } if *current == attempt => {
                *proved = true;
                channel.proved = attempt;
                Ok(channel.done)
            }
            _ => Err(superseded),
        }
    }

    /// A dialer's handshake is complete: opens the link.
    ///
    /// # Errors
    /// The attempt is no longer the current one, or generation or incarnations have changed since
    /// it began: close the connection.
    pub fn established(&mut self, opened: &Established, handle: H) -> Result<(), TableError> {
        let Established {
            me,
            peer,
            attempt,
            renounced,
            ..
        } = *opened;
        let superseded = TableError::Superseded {
            peer: peer.rank,
            attempt,
        };
        if !self.agrees(me, peer) {
            return Err(superseded);
        }
        let channel = self.existing(peer.rank).ok_or(superseded)?;
        match channel.state {
            LinkState::Dialing {
                attempt: current,
                proved: true,
            } if current == attempt => {}
            _ => return Err(superseded),
        }
        channel.done = channel.done.max(renounced);
        channel.state = LinkState::Live { handle };
        Ok(())
    }

    /// A dialer has proved itself: opens the link, or says why not.
    ///
    /// # Errors
    /// [`HandshakeRefusal::Yield`] in a simultaneous connect that this side wins;
    /// [`HandshakeRefusal::Superseded`] for an attempt that is over, or whose view of the pair is
    /// no longer the current one.
    pub fn admit(&mut self, proved: &Proved, handle: H) -> Result<Admission<H>, HandshakeRefusal> {
        let Proved {
            me,
            peer,
            attempt,
            seen,
            ..
        } = *proved;
        if peer.rank == self.me.rank || !self.agrees(me, peer) {
            return Err(HandshakeRefusal::Superseded);
        }
        let larger = self.me.rank > peer.rank;
        let channel = self.channel_mut(peer.rank);
        if attempt <= channel.done {
            return Err(HandshakeRefusal::Superseded);
        }
        let (closes, abandons) = match channel.state {
            LinkState::Null => (None, None),
            LinkState::Live { handle } => (Some(handle), None),
            LinkState::Dialing {
                attempt: mine,
                proved,
            } => {
                if proved && larger && mine > seen {
                    return Err(HandshakeRefusal::Yield);
                }
                (None, Some(mine))
            }
        };
        channel.done = attempt;
        channel.state = LinkState::Live { handle };
        let renounced = channel.proved;
        Ok(Admission {
            closes,
            abandons,
            renounced,
        })
    }

    /// An attempt failed. True if it was the current one; another [`Table::dial`] may then follow.
    pub fn failed(&mut self, peer: Rank, attempt: Attempt) -> bool {
        let Some(channel) = self.existing(peer) else {
            return false;
        };
        let current = matches!(
            channel.state,
            LinkState::Dialing { attempt: current, .. } if current == attempt
        );
        if current {
            channel.state = LinkState::Null;
        }
        current
    }

    /// The link to `peer` with this handle broke: nulls the channel. False if it was no longer the
    /// current link, and nothing is to be done.
    pub fn lost(&mut self, peer: Rank, handle: H) -> bool
    where
        H: PartialEq,
    {
        let current = self.live(peer) == Some(handle);
        if current {
            self.null(peer);
        }
        current
    }

    /// Nulls the channel to `peer` whatever its state: the next use dials. Returns the handle of
    /// the link to close; the connection of an attempt under way fails by itself.
    pub fn null(&mut self, peer: Rank) -> Option<H> {
        let channel = self.existing(peer)?;
        match std::mem::take(&mut channel.state) {
            LinkState::Live { handle } => Some(handle),
            LinkState::Null | LinkState::Dialing { .. } => None,
        }
    }

    /// News of `peer` from the manager. A newer incarnation nulls its channel and forgets its
    /// attempts; returns the handle of the link to close.
    ///
    /// # Errors
    /// The errors of [`AddressBook::update`].
    pub fn update(
        &mut self,
        peer: Rank,
        incarnation: Incarnation,
        card: BusinessCard,
    ) -> Result<Option<H>, BookError> {
        if !self.book.update(peer, incarnation, card)? {
            return Ok(None);
        }
        let handle = self.null(peer);
        if let Some(channel) = self.existing(peer) {
            channel.forget();
        }
        Ok(handle)
    }

    /// Nulls every channel, because this process is now `me` in a job that `book` describes: the
    /// process was restored, or the whole job was rolled back. Returns the handles of the links to
    /// close.
    pub fn rejoin(&mut self, me: Identity, book: AddressBook) -> Vec<H> {
        let mut handles = Vec::new();
        for channel in &mut self.channels {
            if let LinkState::Live { handle } = std::mem::take(&mut channel.state) {
                handles.push(handle);
            }
            channel.forget();
        }
        self.positions.resize(book.size() as usize, 0);
        self.me = me;
        self.book = book;
        handles
    }

    /// True if a handshake's idea of both ends is the current one.
    fn agrees(&self, me: Identity, peer: Identity) -> bool {
        me == self.me
            && peer.job == self.me.job
            && peer.generation == self.me.generation
            && self.book.incarnation(peer.rank) == Some(peer.incarnation)
    }

    fn check_peer(&self, peer: Rank) -> Result<Incarnation, TableError> {
        if peer == self.me.rank {
            return Err(TableError::Oneself);
        }
        let size = self.book.size();
        self.book
            .incarnation(peer)
            .ok_or(TableError::NotInJob { rank: peer, size })
    }

    fn position(&self, peer: Rank) -> Option<usize> {
        (*self.positions.get(peer.index())? as usize).checked_sub(1)
    }

    fn channel(&self, peer: Rank) -> Option<&Channel<H>> {
        self.channels.get(self.position(peer)?)
    }

    fn existing(&mut self, peer: Rank) -> Option<&mut Channel<H>> {
        let position = self.position(peer)?;
        self.channels.get_mut(position)
    }

    /// `peer` must be in the book.
    fn channel_mut(&mut self, peer: Rank) -> &mut Channel<H> {
        let position = self.position(peer).unwrap_or_else(|| {
            self.channels.push(Channel {
                state: LinkState::Null,
                dialed: Attempt(0),
                proved: Attempt(0),
                done: Attempt(0),
            });
            self.positions[peer.index()] = self.channels.len() as u32;
            self.channels.len() - 1
        });
        &mut self.channels[position]
    }
}

impl<H> Channel<H> {
    /// One of the two sides is a new incarnation, so both count anew. This side never uses a number
    /// of an earlier attempt again, so that an old attempt is not mistaken for a new one.
    fn forget(&mut self) {
        self.proved = Attempt(0);
        self.done = Attempt(0);
    }
}

#[cfg(test)]
mod tests;
