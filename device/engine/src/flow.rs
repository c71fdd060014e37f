//! Acks and credit that no message carries, and grants beyond a window.
//!
//! These rules prevent deadlocks. Control frames and data frames need no window, so acks, credits
//! and matched rendezvous always flow. A sender waits only for the window. The receiver reports
//! credit when a quarter of the window is unreported, and one eager message takes at most half of
//! the window. So while a sender waits, at least a quarter of the window holds messages that were
//! not consumed. If the program receives them, credit follows. Otherwise the program waits for
//! another message, which may be behind them. Then the receiver grants envelopes beyond the window
//! until that message has arrived. The number of grants doubles while they are used up.
//!
//! Envelopes beyond the window come with short bodies only. `Config::beyond` bounds their cost for
//! the whole rank. It counts the largest possible cost of each envelope from the grant on.

use rejoin_channel_table::ids::Rank;

use crate::channel_state::{Channel, FIRST_STEP};
use crate::config::Config;
use crate::core_state::Core;
use crate::engine::Engine;
use crate::frame::GRANTED_LIMIT;
use crate::tx::ENVELOPE_COST;
use crate::types::Pattern;

/// Memory that an unexpected envelope takes, in bytes, rounded up.
pub(crate) const ENVELOPE_MEMORY: u64 = 256;
/// Memory that a grant may cost: an envelope and a short body.
pub(crate) const GRANT_MEMORY: u64 = ENVELOPE_MEMORY + GRANTED_LIMIT;
/// Most envelopes granted at once.
const LAST_STEP: u64 = 4096;

/// Ranks that a [`FailedProbes`] can name. With more it means all ranks.
const NAMED: usize = 4;

/// The senders whose messages probes have not found. It holds several patterns: each thread may
/// probe for its own, and a program may probe for one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FailedProbes {
    from: [Option<Rank>; NAMED],
    any: bool,
}

impl FailedProbes {
    /// A probe with this pattern has found nothing.
    pub fn add(&mut self, pattern: &Pattern) {
        let Some(from) = pattern.from.filter(|_| !self.any) else {
            self.any = true;
            return;
        };
        let place = self.from.iter_mut();
        match place
            .into_iter()
            .find(|at| at.is_none_or(|rank| rank == from))
        {
            Some(at) => *at = Some(from),
            None => self.any = true,
        }
    }

    fn names(&self, rank: Rank) -> bool {
        self.any || self.from.contains(&Some(rank))
    }
}

impl Engine {
    /// Makes acks due for all peers that are owed any.
    pub fn flush_all_acks(&mut self) {
        for channel in self.channels.iter_mut().flatten() {
            if channel.owes() {
                channel.ack_soon(&mut self.core);
            }
        }
    }

    /// Grants envelopes to peers that may have a message for this rank's posted receives or probes
    /// behind a window full of unexpected messages. True if any frame became due. Call it before
    /// blocking, after a failed probe, and now and then while polling.
    pub fn grant_if_starved(&mut self, sought: &FailedProbes) -> bool {
        if self.core.matching.unexpected() == 0 {
            return false;
        }
        let any = self.core.posted_any > 0;
        let mut granted = false;
        for channel in self.channels.iter_mut().flatten() {
            let named =
                self.core.posted_from[channel.peer.index()] > 0 || sought.names(channel.peer);
            if !any && !named {
                continue;
            }
            let room = self.config.beyond.saturating_sub(self.core.beyond) / GRANT_MEMORY;
            let given = channel.grant(&self.config, room);
            self.core.beyond += given * GRANT_MEMORY;
            if given > 0 || (channel.tight(&self.config) && channel.rx.window.unreported() > 0) {
                channel.ack_soon(&mut self.core);
                granted = true;
            }
        }
        granted
    }

    /// Whether all that was sent is acknowledged and finished, and nothing is queued or owed.
    pub fn quiescent(&self) -> bool {
        self.core.copies.is_empty() && self.channels.iter().flatten().all(|c| c.quiet())
    }

    /// Whether all that was sent to one peer is acknowledged and finished, and nothing is queued or
    /// owed to it.
    pub fn is_quiet(&self, peer: Rank) -> bool {
        self.peer(peer).is_none_or(Channel::quiet)
    }

    /// Whether a peer has all that this rank has sent to it, also bodies that it has still to ask
    /// for after it came back.
    pub fn has_all(&self, peer: Rank) -> bool {
        self.peer(peer).is_none_or(Channel::has_all)
    }

    /// Whether all frames to a peer are acknowledged, and only a report of the peer is missing. It
    /// reports that a receive has matched a message, or that there is new credit.
    pub fn awaits(&self, peer: Rank) -> bool {
        self.peer(peer).is_some_and(Channel::awaits)
    }

    /// The peers that keep `quiescent` from being true.
    pub fn unfinished(&self) -> Vec<Rank> {
        let busy = self.channels.iter().flatten().filter(|c| !c.quiet());
        busy.map(|channel| channel.peer).collect()
    }
}

impl Core {
    /// A granted envelope has come, with so long a body.
    pub(crate) fn grant_used(&mut self, body: u64) {
        self.beyond = self
            .beyond
            .saturating_sub(GRANTED_LIMIT.saturating_sub(body));
    }

    /// A granted message has left the memory of unexpected messages.
    pub(crate) fn grant_over(&mut self, body: u64) {
        self.beyond = self.beyond.saturating_sub(ENVELOPE_MEMORY + body);
    }
}

impl Channel {
    /// Whether the peer does not know all that it could.
    pub(crate) fn owes(&self) -> bool {
        self.rx.unacked > 0 || self.rx.window.unreported() > 0
    }

    /// Whether the peer may be waiting for the window.
    fn tight(&self, config: &Config) -> bool {
        let largest = ENVELOPE_COST + config.eager_max as u64;
        self.rx.window.held() + self.rx.window.unreported() + largest > config.window
    }

    /// Grants the next step if the last is used up and the window, all credit told, is still full.
    fn grant(&mut self, config: &Config, room: u64) -> u64 {
        let largest = ENVELOPE_COST + config.eager_max as u64;
        let window = &mut self.rx.window;
        if window.held() + largest <= config.window {
            self.rx.step = FIRST_STEP;
            return 0;
        }
        if window.open_grants() > 0 {
            return 0;
        }
        let given = self.rx.step.min(room);
        window.grant(given);
        self.rx.step = (self.rx.step * 2).min(LAST_STEP);
        given
    }
}
