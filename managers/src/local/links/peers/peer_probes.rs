//! What a manager knows for its probes of other local managers.

use rejoin_managers_protocol::detector::{ProbeFailure, ProbeMessage};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Instant;

/// What a manager knows for its probes.
#[derive(Default)]
pub(super) struct Probing {
    /// Where others listen, as central has said.
    pub known: BTreeMap<u32, Vec<SocketAddr>>,
    /// Probes whose hosts' addresses are asked for.
    pub waiting: BTreeMap<u32, ProbeMessage>,
    /// The addresses that central is to be asked for.
    pub asks: BTreeSet<u32>,
    /// When the last probe went to a host.
    pub sent: BTreeMap<u32, Instant>,
    /// Messages for this manager's own core, with their senders.
    pub heard: Vec<(u32, ProbeMessage)>,
    /// Hosts to which there is no connection.
    pub failures: Vec<(u32, ProbeFailure)>,
}

impl Probing {
    /// Where a manager listens.
    pub fn addresses(&self, peer: u32) -> Option<&[SocketAddr]> {
        self.known.get(&peer).map(Vec::as_slice)
    }

    /// Another manager says this.
    pub fn on_message(&mut self, peer: u32, message: ProbeMessage) {
        self.heard.push((peer, message));
    }

    /// A link that was dialed here is gone, or was never there.
    pub fn is_down(&mut self, peer: u32, was_connected: bool, is_refused: bool) {
        let failure = match (was_connected, is_refused) {
            (true, _) => ProbeFailure::Broken,
            (false, true) => ProbeFailure::Refused,
            (false, false) => ProbeFailure::Silent,
        };
        self.failures.push((peer, failure));
    }
}
