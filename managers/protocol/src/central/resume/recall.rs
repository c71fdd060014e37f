//! The job's state from the records of an earlier central manager.

use super::past::Past;
use crate::central::cluster::Cluster;
use crate::central::commits::Commits;
use crate::central::interface::{FailureHistory, Record, Return, ReturnScope};
use crate::central::job_course::JobCourse;
use crate::central::job_terms::JobTerms;
use crate::central::moves::{MoveTable, RankMove};
use crate::central::recovery_groups::GroupCheckpoint;
use crate::central::return_state::ReturnState;
use crate::committed_levels::CommittedCheckpoint;
use crate::levels::Level;
use rejoin_channel_table::{BusinessCard, MoveNumber, Rank};

/// Takes up the records of a job.
pub(in crate::central) struct Recall<'a> {
    pub(in crate::central) course: &'a mut JobCourse,
    pub(in crate::central) cluster: &'a mut Cluster,
    pub(in crate::central) commits: &'a mut Commits,
    pub(in crate::central) returns: &'a mut ReturnState,
    pub(in crate::central) moves: &'a mut MoveTable,
    pub(in crate::central) terms: &'a JobTerms,
}

impl Recall<'_> {
    /// Takes up all records in their order. Returns what the phase depends on.
    pub(in crate::central) fn all(mut self, records: Vec<Record>) -> Past {
        let mut past = Past::default();
        for record in records {
            self.recall(record, &mut past);
        }
        past.forget_images(self.commits.regions.since());
        let placed = self.cluster.placement().filter(|p| !p.lost.is_empty());
        let placed = placed.and_then(|placement| placement.from);
        let from = placed.or(self.terms.from.filter(|_| self.cluster.has_partners()));
        for host in self.cluster.departures.visited() {
            self.cluster.hosts.forget_notified(host);
        }
        if let Some(oldest) = past.committed.oldest() {
            self.cluster.former_hosts.forget_before(oldest);
        }
        let known = past.committed.all();
        self.commits.groups.recall_files(known.map(|c| c.epoch));
        if let Some(checkpoints) = self.commits.checkpoints_mut() {
            checkpoints.resume(past.committed, past.last_epoch.max(past.last_number));
            checkpoints.recall_void(&past.void);
            if let Some(stop) = &self.course.stop {
                checkpoints.pursue_files(stop.from());
            }
            if from.is_some() && from == checkpoints.epochs().partner {
                // Of these files there may be one each.
                checkpoints.want_files();
                checkpoints.request_later();
            }
        }
        past
    }

    fn recall(&mut self, record: Record, past: &mut Past) {
        match record {
            Record::Began {
                generation,
                incarnations,
                at,
            } => {
                past.began = true;
                self.course.clock.begin(at);
                self.commits.begin(at);
                self.cluster.ranks.recall(generation, &incarnations);
            }
            Record::Started { generation, table } => {
                past.started = Some(generation);
                past.cards = table.into_iter().map(|(_, card)| card).collect();
            }
            Record::Requested { epoch } => past.last_epoch = past.last_epoch.max(epoch),
            Record::RegionsNumbered { epoch } => past.last_number = past.last_number.max(epoch),
            Record::RegionsCommitted { epochs } => self.commits.regions.resume(epochs),
            Record::Committed {
                epoch,
                level,
                at,
                cost,
            } => {
                past.last_epoch = past.last_epoch.max(epoch);
                let committed = Some(CommittedCheckpoint { epoch, at, cost });
                match level {
                    Level::Memory => past.committed.memory = committed,
                    Level::File => past.committed.file = committed,
                    Level::Partner => past.committed.partner = committed,
                }
            }
            Record::Return(back) => self.recall_return(*back, past),
            Record::GroupCommitted { rank, epoch, at } => {
                past.last_epoch = past.last_epoch.max(epoch);
                // It may be older than the one before, whose image was gone.
                self.commits
                    .groups
                    .fall_back(rank, GroupCheckpoint { epoch, at });
            }
            Record::Moving { .. }
            | Record::MoveNumbered(_)
            | Record::Moved { .. }
            | Record::Draining(_) => {
                self.recall_move(record, past);
            }
            Record::Finalized { last, .. } => {
                past.finalized = true;
                self.commits.mode.set_last_checkpoint(last);
            }
            Record::HostAdded { request, added } => {
                self.cluster.hosts.add(request, added);
            }
            Record::HostDone(host) => self.cluster.hosts.recall_done(host),
            Record::Decided(verdict) => {
                past.decided = true;
                self.course.end.recall_verdict(verdict);
            }
            Record::Settled(verdict) => self.course.end.recall_verdict(verdict),
            Record::Memory(memory) => self.recall_memory(*memory),
            Record::Interrupted { signal, .. } => self.course.end.recall_interrupted(signal),
            Record::Stopping { request, .. } => self.course.stop = request,
            Record::Passed { signal } => self.course.end.recall_passed(signal),
        }
    }

    fn recall_return(&mut self, back: Return, past: &mut Past) {
        let ranks: Vec<Rank> = back.ranks.iter().map(|(rank, _)| *rank).collect();
        let epoch = back.from.unwrap_or_default();
        self.cluster.former_hosts.roll_back(&ranks, epoch);
        self.commits.regions.start_from(back.regions, back.since);
        match back.scope {
            ReturnScope::All => {
                past.restored = Some(back.from);
                past.returning.clear();
                past.roll_back(back.from);
                self.commits.groups.forget_commits();
                self.commits.regions.roll_back(back.from);
                let incarnations: Vec<_> = back.ranks.iter().map(|(_, one)| *one).collect();
                self.cluster.ranks.recall(back.generation, &incarnations);
            }
            ReturnScope::Groups => {
                self.cluster.ranks.recall_group(&back.ranks);
                self.commits.groups.return_of(&ranks, epoch);
                past.return_of(&ranks, epoch);
                past.returning.extend(ranks);
            }
            ReturnScope::Finalized => {
                past.restored = Some(back.from);
                self.cluster.ranks.recall_group(&back.ranks);
            }
        }
        if let Some(placement) = back.placement
            && self.cluster.place(*placement, &mut self.commits.mode)
        {
            past.committed.partner = None;
        }
        self.recall_memory(*back.memory);
    }

    fn recall_move(&mut self, record: Record, past: &mut Past) {
        match record {
            Record::Moving {
                plans,
                visited,
                spent,
                number,
                moves: _,
            } => {
                self.moves.recall_plans(plans);
                self.moves.recall_number(number);
                for (rank, incarnation) in spent {
                    self.cluster.ranks.spend(rank, incarnation);
                }
                for host in visited {
                    self.cluster.departures.visit(host);
                }
            }
            Record::Moved {
                number,
                moved,
                card,
            } => self.recall_moved(number, moved, *card, past),
            Record::MoveNumbered(number) => self.moves.recall_number(number),
            Record::Draining(host) => {
                self.cluster.departures.visit(host);
                self.cluster.hosts.drain(host);
            }
            _ => {}
        }
    }

    fn recall_moved(
        &mut self,
        number: MoveNumber,
        moved: RankMove,
        card: BusinessCard,
        past: &mut Past,
    ) {
        self.cluster.departures.visit(moved.from);
        self.cluster.departures.visit(moved.to);
        if self
            .cluster
            .has_moved(number, &moved, &mut self.commits.mode)
        {
            past.committed.partner = None;
        }
        if let Some(place) = past.cards.get_mut(moved.rank.index()) {
            *place = card.into();
        }
        past.moved.push((number, moved));
    }

    fn recall_memory(&mut self, memory: FailureHistory) {
        self.commits.mode.set_history(memory.history);
        self.returns.losses = memory.losses;
    }
}
