//! Connections: delays, cuts, half-open ends, and the times of dials.

use rejoin_channel_table::Rank;
use rejoin_engine::{Envelope, HEADER_LEN};

use super::memory_reads::{GET_DELAY, GET_SOON};
use super::{Connection, Event, HANDSHAKE_LIMIT, IN_FLIGHT, Time, World};
use crate::node::Load;
use crate::node::{ConnectionId, Output, Violation};

impl World {
    pub(super) fn delay(&mut self) -> Time {
        match self.rng.below(20) {
            0 => self.rng.between(500, 3_000),
            1..=4 => self.rng.between(50, 500),
            _ => self.rng.between(5, 50),
        }
    }

    /// Schedules a load to the end `side`.
    pub(super) fn travel(
        &mut self,
        id: ConnectionId,
        side: usize,
        load: Option<Load>,
        extra: Time,
    ) {
        let delay = self.delay() + extra;
        let now = self.now;
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        if connection.cut && load.is_some() {
            return;
        }
        connection.in_flight[side] += load.as_ref().map_or(0, Load::len);
        let time = connection.last_arrival[side].max(now + delay);
        connection.last_arrival[side] = time;
        self.at(time, Event::Arrive(id, side, load));
    }

    pub(super) fn arrive(
        &mut self,
        id: ConnectionId,
        side: usize,
        load: Option<Load>,
    ) -> Result<(), Violation> {
        // Whether the rank's call would read all arrived messages.
        let any = self.rng.chance(60);
        let Some(connection) = self.connections.get_mut(&id) else {
            return Ok(());
        };
        let (rank, writer) = (connection.ranks[side], connection.ranks[1 - side]);
        connection.in_flight[side] -= load.as_ref().map_or(0, Load::len);
        if !connection.open[side] || (connection.cut && load.is_some()) {
            return Ok(());
        }
        match load {
            None => self.end(id, side),
            Some(load) => {
                let all = any && self.programs[rank as usize].spins == 0;
                let failed = self.nodes[rank as usize].arrive(id, load, all)?;
                self.bounds(rank)?;
                let peer = self.connections[&id].ranks[1 - side];
                self.dialed(rank, peer, failed);
            }
        }
        self.reap(rank)?;
        self.step_if_waiting(rank)?;
        self.drain_queues(rank);
        self.drain_queues_to(writer, rank);
        if self.is_near(rank, writer) && self.rng.chance(GET_SOON) {
            let delay = self.rng.below(GET_DELAY);
            self.after(delay, Event::Get(rank));
        }
        Ok(())
    }

    /// The end `side` of a connection is over for its rank.
    pub(super) fn end(&mut self, id: ConnectionId, side: usize) {
        let ranks = self.connections[&id].ranks;
        let failed = self.nodes[ranks[side] as usize].end(id);
        self.dialed(ranks[side], ranks[1 - side], failed);
    }

    pub(super) fn dialed(&mut self, from: u32, to: u32, failed: bool) {
        if failed {
            let failures = self.failures.entry((from, to)).or_default();
            *failures += 1;
            let longest = 200 << (*failures).min(6);
            let delay = self.rng.between(100, longest);
            if self.dialing.insert((from, to)) {
                self.after(delay, Event::Dial(from, to));
            }
        } else if self.nodes[from as usize].table().live(Rank(to)).is_some() {
            self.failures.remove(&(from, to));
        }
    }

    pub(super) fn dial(&mut self, from: u32, to: u32) {
        self.dialing.remove(&(from, to));
        let nonces = [self.rng.nonce(), self.rng.nonce()];
        let node = &mut self.nodes[from as usize];
        let id = self.next_connection;
        if !node.wants_link(Rank(to)) || node.dial(Rank(to), id, nonces[0]).is_err() {
            return;
        }
        self.next_connection += 1;
        let faulty = self.now < self.faults.until;
        let dead = faulty && self.rng.chance(self.faults.dead_on_arrival);
        self.connections.insert(
            id,
            Connection {
                ranks: [from, to],
                open: [true; 2],
                cut: dead,
                in_flight: [0; 2],
                last_arrival: [0; 2],
            },
        );
        self.nodes[to as usize].accept(id, nonces[1]);
        self.after(HANDSHAKE_LIMIT, Event::Expire(id, 0));
        self.after(HANDSHAKE_LIMIT, Event::Expire(id, 1));
        self.drain_queues(from);
    }

    pub(super) fn cut(&mut self) {
        let ids: Vec<ConnectionId> = self
            .connections
            .iter()
            .filter(|(_, c)| !c.cut && c.open == [true; 2])
            .map(|(id, _)| *id)
            .collect();
        if self.now < self.faults.until {
            let next = self.rng.between(1, 2 * self.faults.cut_every);
            self.after(next, Event::Cut);
            if !ids.is_empty() {
                let id = *self.rng.pick(&ids);
                self.cut_one(id);
            }
        }
    }

    pub(super) fn cut_one(&mut self, id: ConnectionId) {
        self.cuts += 1;
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.cut = true;
        }
        let late = self.rng.chance(self.faults.late);
        let deaf = self.rng.below(2) as usize;
        for side in 0..2 {
            let extra = if late && side == deaf { 300_000 } else { 0 };
            self.travel(id, side, None, extra);
        }
    }

    /// Carries out the requests of the node of `rank`, and writes all bytes that are ready.
    pub(super) fn drain_queues(&mut self, rank: u32) {
        self.flush(rank);
        while let Some(peer) = self.nodes[rank as usize].engine.next_ready() {
            self.drain_queues_to(rank, peer.0);
        }
    }

    pub(super) fn drain_queues_to(&mut self, rank: u32, peer: u32) {
        let node = &self.nodes[rank as usize];
        if node.wants_link(Rank(peer)) && self.dialing.insert((rank, peer)) {
            let delay = self.rng.below(100);
            self.after(delay, Event::Dial(rank, peer));
        }
        while let Some(id) = self.nodes[rank as usize].table().live(Rank(peer)) {
            let connection = &self.connections[&id];
            let side = usize::from(connection.ranks[0] == rank);
            let room = IN_FLIGHT.saturating_sub(connection.in_flight[side]);
            if room == 0 {
                break;
            }
            let limit = (self.rng.between(1, 9_000) as usize).min(room);
            let bytes = self.nodes[rank as usize].write(Rank(peer), limit);
            if bytes.is_empty() {
                break;
            }
            self.travel(id, side, Some(Load::Bytes(bytes)), 0);
        }
    }

    /// Sends a message at once as a short message, where the link to its receiver carries those.
    pub(super) fn send_short(&mut self, rank: u32, to: u32, env: Envelope, bytes: &[u8]) -> bool {
        let live = self.nodes[rank as usize].table().live(Rank(to));
        let Some(id) = live.filter(|_| self.is_near(rank, to)) else {
            return false;
        };
        let connection = &self.connections[&id];
        let side = usize::from(connection.ranks[0] == rank);
        if connection.in_flight[side] + HEADER_LEN + bytes.len() > IN_FLIGHT {
            return false;
        }
        let sent = self.nodes[rank as usize].send_short(Rank(to), env, bytes);
        let Some((id, load)) = sent else {
            return false;
        };
        self.travel(id, side, Some(load), 0);
        true
    }

    /// A rank that waits, or has ended its program, reads all arrived messages.
    pub(super) fn look(&mut self, rank: u32) -> Result<(), Violation> {
        let program = &self.programs[rank as usize];
        let over = program.position == self.plan.scripts[rank as usize].len();
        if program.waiting || over {
            self.nodes[rank as usize].take_in_all()?;
            self.bounds(rank)?;
        }
        Ok(())
    }

    pub(super) fn flush(&mut self, rank: u32) {
        for output in self.nodes[rank as usize].take_output() {
            match output {
                Output::Bytes(_, bytes) if bytes.is_empty() => {}
                Output::Bytes(id, bytes) => {
                    let side = usize::from(self.connections[&id].ranks[0] == rank);
                    self.travel(id, side, Some(Load::Bytes(bytes)), 0);
                }
                Output::Close(id) => {
                    let Some(connection) = self.connections.get_mut(&id) else {
                        continue;
                    };
                    let side = usize::from(connection.ranks[0] == rank);
                    connection.open[1 - side] = false;
                    if !connection.cut && connection.open[side] {
                        self.travel(id, side, None, 0);
                    }
                }
            }
        }
    }

    pub(super) fn bounds(&mut self, rank: u32) -> Result<(), Violation> {
        let node = &mut self.nodes[rank as usize];
        for (peer, header) in std::mem::take(&mut node.headers) {
            let credit = node.engine.resume(peer).credit;
            let bound = self.bounds.entry((rank, peer.0)).or_default();
            bound
                .note(&self.plan.config, &header, credit)
                .map_err(|e| format!("rank {rank} from {peer}: {e}"))?;
        }
        Ok(())
    }
}
