//! Messages that were sent before their link was established, at the end of a blocking call.
//!
//! A link is dialed at the first message, and its handshake takes two answers of the peer. Nothing
//! makes progress between MPI calls: without this wait, a program that sends once and then computes
//! leaves its peer without the message until its next call. So a blocking call stays until the
//! handshake is over, as long as the peer can answer. A peer that gives no sign within [`SILENCE`]
//! computes, and gets the message at a later call.

use std::time::{Duration, Instant};

use rejoin_channel_table::ids::Rank;

use crate::device::Device;
use crate::error::Result;

/// How long a call waits for the first answer of a peer. A peer that is in an MPI call answers
/// within a millisecond, or within some tens of them where many ranks share a core.
const SILENCE: Duration = Duration::from_millis(100);
/// The wait is halved after each wait in vain, down to this: a rank that sends to many that compute
/// loses little by it.
const SHORTEST_SILENCE: Duration = Duration::from_millis(1);
/// How long a call waits for the rest of a handshake that the peer has answered.
const ANSWERED: Duration = Duration::from_secs(1);
/// After a recovery, a rank that knows at most so many peers makes the links to all of them at
/// once. With more, it makes those that it has something to send over.
const MOST_AT_ONCE: usize = 32;

/// The links that blocking calls wait for at their end.
#[derive(Debug)]
pub(crate) struct AwaitedLinks {
    ranks: Vec<Rank>,
    /// How long the next call waits for a first answer.
    silence: Duration,
}

impl Default for AwaitedLinks {
    fn default() -> Self {
        Self {
            ranks: Vec::new(),
            silence: SILENCE,
        }
    }
}

impl AwaitedLinks {
    fn add(&mut self, rank: Rank) {
        if !self.ranks.contains(&rank) {
            self.ranks.push(rank);
        }
    }
}

impl Device {
    /// Whether something was sent to a rank to which there was no link.
    #[inline]
    #[must_use]
    pub fn awaits_links(&self) -> bool {
        !self.awaited.ranks.is_empty()
    }

    /// Waits until the links are established over which the program has sent something, for as long
    /// as their peers answer. For the end of a blocking call that has nothing else to wait for.
    ///
    /// # Errors
    /// As [`Device::progress`].
    #[cold]
    pub fn await_links(&mut self) -> Result<()> {
        let begun = Instant::now();
        loop {
            let mut ranks = std::mem::take(&mut self.awaited.ranks);
            ranks.retain(|rank| !self.is_linked(*rank));
            let answered = ranks.iter().any(|rank| self.has_answered(*rank));
            self.awaited.ranks = ranks;
            if self.awaited.ranks.is_empty() {
                self.awaited.silence = SILENCE;
                return Ok(());
            }
            let limit = if answered {
                ANSWERED
            } else {
                self.awaited.silence
            };
            let left = limit.saturating_sub(begun.elapsed());
            if left.is_zero() {
                break;
            }
            self.wait(None, Some(left))?;
        }
        self.awaited.ranks.clear();
        self.awaited.silence = (self.awaited.silence / 2).max(SHORTEST_SILENCE);
        Ok(())
    }

    /// After a recovery: makes the links anew over which this rank has talked, while all ranks are
    /// in the library. A rank whose image was taken while it computed continues to compute behind
    /// this.
    ///
    /// # Errors
    /// As [`Device::progress`].
    pub(crate) fn restore_links(&mut self) -> Result<()> {
        if self.leaving {
            return Ok(());
        }
        let known: Vec<Rank> = self.engine.peers().collect();
        let all = known.len() <= MOST_AT_ONCE;
        for rank in known {
            if all || self.engine.tx_waiting(rank) {
                self.want_link(rank)?;
                self.awaited.add(rank);
            }
        }
        self.await_links()
    }

    /// Has the end of a blocking call wait for the link to a rank, if there is none and something
    /// is to be sent to it.
    #[inline]
    pub(crate) fn expect_link(&mut self, rank: Rank) {
        if self.table.live(rank).is_none() && self.engine.tx_waiting(rank) {
            self.awaited.add(rank);
        }
    }

    /// Whether the link to a rank is established, and nothing of the handshake is still to be sent.
    fn is_linked(&mut self, rank: Rank) -> bool {
        let live = self.io.slots.live_to(&self.table, rank);
        live.is_some_and(|live| live.ahead.is_empty())
    }

    /// Whether the rank takes part in a handshake with this one.
    fn has_answered(&mut self, rank: Rank) -> bool {
        let dialed = self.dial_state(rank).pending;
        let accepted = self.io.slots.accepting().iter().copied();
        let mut attempts = dialed.into_iter().chain(accepted);
        attempts.any(|token| {
            let pending = self.io.slots.pending_now(token);
            pending.is_some_and(|pending| pending.answered && pending.peer() == Some(rank))
        })
    }
}
