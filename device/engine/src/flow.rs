//! Acks and credit that no message carries, and grants beyond a window.
//!
//! Why nothing deadlocks: control frames and data frames need no window, so acks, credits and
//! matched rendezvous always flow. A sender waits only for the window. The receiver tells credit
//! when a quarter of the window is untold, and one eager message takes half of it at most; so while
//! a sender waits, a quarter of the window or more holds messages that were not consumed.
//! Either the program receives them, and credit follows; or it waits for something else, which may
//! be behind them: then the receiver grants envelopes beyond the window, in steps that double
//! while they are used up, until the one it waits for has come. Envelopes beyond the window bring
//! short bodies along and no others; what they cost is bounded for the whole rank by
//! `Config::beyond`, which counts the most that each may take from the moment it is granted.

use rejoin_channel_table::ids::Rank;

use crate::channel::{Channel, FIRST_STEP};
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

/// Ranks that a [`Sought`] names before it stands for all.
const NAMED: usize = 4;

/// Whose messages probes have looked for in vain: of several patterns, since each of several
/// threads may have its own and a program may look for one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sought {
    from: [Option<Rank>; NAMED],
    any: bool,
}

impl Sought {
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

    /// Grants envelopes to peers that may hold what this rank waits for (its posted receives, and
    /// what it probes for) behind a window full of unexpected messages. True if any frame
    /// became due. Call it before blocking, after a failed probe, and now and then while polling.
    pub fn grant_if_starved(&mut self, sought: &Sought) -> bool {
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
            if given > 0 || (channel.tight(&self.config) && channel.rx.window.untold() > 0) {
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

    /// The same towards one peer.
    pub fn is_quiet(&self, peer: Rank) -> bool {
        self.peer(peer).is_none_or(Channel::quiet)
    }

    /// Whether all that was sent to a peer is acknowledged, and what is missing is a word of the
    /// peer's: that a receive has taken a message, or that there is room for more.
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

    /// It has left the memory of unexpected messages.
    pub(crate) fn grant_over(&mut self, body: u64) {
        self.beyond = self.beyond.saturating_sub(ENVELOPE_MEMORY + body);
    }
}

impl Channel {
    /// Whether the peer does not know all that it could.
    pub(crate) fn owes(&self) -> bool {
        self.rx.unacked > 0 || self.rx.window.untold() > 0
    }

    /// Whether the peer may be waiting for the window.
    fn tight(&self, config: &Config) -> bool {
        let largest = ENVELOPE_COST + config.eager_max as u64;
        self.rx.window.held() + self.rx.window.untold() + largest > config.window
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
