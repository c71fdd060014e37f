//! The moves that are asked for and under way.

use super::move_request::{MoveRequest, Movers};
use crate::central::interface::HostIndex;
use crate::manager_messages::{ProcessInstance, Time};
use rejoin_channel_table::{Epoch, Incarnation, Rank};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Milliseconds after which a move is given up.
const LIMIT: u64 = 120_000;

/// A rank that moves.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RankMove {
    /// The rank.
    pub rank: Rank,
    /// The number of the host that it is on.
    pub from: HostIndex,
    /// The number of the host that it goes to.
    pub to: HostIndex,
    /// Its incarnation there.
    pub incarnation: Incarnation,
}

/// How far a move has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum MoveStage {
    /// The rank is to stop, with an image in a file.
    Stopping,
    /// A process is made of the image on the other host.
    Restoring,
}

/// Moves that are carried out together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct MoveOrder {
    request: u64,
    number: Epoch,
    since: Time,
    moves: Vec<(RankMove, MoveStage)>,
    /// The ranks that are on their new hosts.
    moved: Vec<Rank>,
    /// Why others are not.
    why: Option<String>,
}

/// The moves that are asked for and under way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(in crate::central) struct MoveTable {
    wanted: VecDeque<MoveRequest>,
    under_way: Option<MoveOrder>,
}

/// The end of a request.
pub(super) struct MovesOver {
    pub request: u64,
    pub moved: Vec<Rank>,
    pub why: Option<String>,
}

impl MoveTable {
    /// A request that is to be carried out when it can.
    pub fn want(&mut self, request: MoveRequest) {
        self.wanted.push_back(request);
    }

    /// Something is asked for or under way: no checkpoint is requested meanwhile.
    pub fn is_any(&self) -> bool {
        self.is_under_way() || !self.wanted.is_empty()
    }

    /// Some rank is on its way.
    pub fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// A request waits, and nothing is under way.
    pub fn is_waiting(&self) -> bool {
        !self.is_under_way() && !self.wanted.is_empty()
    }

    /// A request that drains this host waits, or moves of one are under way.
    pub fn drains(&self, host: HostIndex) -> bool {
        let waits = self
            .wanted
            .iter()
            .any(|one| one.movers == Movers::Drain(host));
        let order = self.under_way.iter();
        waits
            || order
                .flat_map(|order| &order.moves)
                .any(|(one, _)| one.from == host)
    }

    /// The next request.
    pub fn take_wanted(&mut self) -> Option<MoveRequest> {
        self.wanted.pop_front()
    }

    /// Moves of this number begin.
    pub(super) fn begin(&mut self, now: Time, request: u64, number: Epoch, moves: &[RankMove]) {
        let stopping = |one: &RankMove| (one.clone(), MoveStage::Stopping);
        self.under_way = Some(MoveOrder {
            request,
            number,
            since: now,
            moves: moves.iter().map(stopping).collect(),
            moved: Vec::new(),
            why: None,
        });
    }

    /// The number of the moves under way.
    pub fn number(&self) -> Option<Epoch> {
        self.under_way.as_ref().map(|order| order.number)
    }

    /// When the moves under way are given up.
    pub fn deadline(&self) -> Option<Time> {
        let order = self.under_way.as_ref()?;
        Some(order.since.plus_millis(LIMIT))
    }

    /// Since when the moves are under way.
    pub(super) fn since(&self) -> Option<Time> {
        self.under_way.as_ref().map(|order| order.since)
    }

    fn find(&mut self, rank: Rank) -> Option<&mut (RankMove, MoveStage)> {
        let order = self.under_way.as_mut()?;
        order.moves.iter_mut().find(|(one, _)| one.rank == rank)
    }

    /// The rank's image of this number is in a file. Returns its move, once.
    pub(super) fn stored(
        &mut self,
        host: HostIndex,
        rank: Rank,
        number: Epoch,
    ) -> Option<RankMove> {
        if self.number() != Some(number) {
            return None;
        }
        let (one, stage) = self.find(rank)?;
        if *stage != MoveStage::Stopping || one.from != host {
            return None;
        }
        *stage = MoveStage::Restoring;
        Some(one.clone())
    }

    /// The move of a rank that is under way to this host in this instance.
    pub(super) fn arriving(
        &mut self,
        host: HostIndex,
        instance: ProcessInstance,
    ) -> Option<RankMove> {
        let (one, stage) = self.find(instance.rank)?;
        let is_it = one.to == host && one.incarnation == instance.incarnation;
        (is_it && *stage == MoveStage::Restoring).then(|| one.clone())
    }

    /// A rank is on its new host.
    pub(super) fn moved(&mut self, rank: Rank) {
        if let Some(order) = &mut self.under_way {
            order.moves.retain(|(one, _)| one.rank != rank);
            order.moved.push(rank);
        }
    }

    /// A rank does not move. Returns its move and how far it had come.
    pub(super) fn give_up(&mut self, rank: Rank, why: &str) -> Option<(RankMove, MoveStage)> {
        let found = self.find(rank)?.clone();
        if let Some(order) = &mut self.under_way {
            order.moves.retain(|(one, _)| one.rank != rank);
            order.why.get_or_insert_with(|| why.to_string());
        }
        Some(found)
    }

    /// The ranks that are on their way.
    pub(super) fn ranks(&self) -> Vec<RankMove> {
        let order = self.under_way.iter();
        order
            .flat_map(|order| order.moves.iter().map(|(one, _)| one.clone()))
            .collect()
    }

    /// The end of the moves under way, once no rank is on its way.
    pub(super) fn take_over(&mut self) -> Option<MovesOver> {
        let order = self.under_way.take_if(|order| order.moves.is_empty())?;
        Some(MovesOver {
            request: order.request,
            moved: order.moved,
            why: order.why,
        })
    }
}
