//! The state of a job that was taken up again, until every host has reported.

use crate::central::interface::{CentralInput, HostIndex};
use crate::central::moves::RankMove;
use crate::committed_levels::{CommittedCheckpoint, LastCommits};
use crate::manager_messages::{Report, Time};
use rejoin_channel_table::{BusinessCard, Epoch, Generation, MoveNumber, Rank};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Milliseconds that a host has for its report.
pub const REPORT_BOUND: u64 = 10_000;

/// The job's course according to the records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(in crate::central) struct Past {
    pub began: bool,
    /// The last generation in which all ranks were released from `MPI_Init`.
    pub started: Option<Generation>,
    /// Where their ranks listened.
    pub cards: Vec<Arc<BusinessCard>>,
    /// The checkpoint that the job last rolled back to.
    pub restored: Option<Option<Epoch>>,
    /// The ranks that have come back in this generation while others stood, or were about to.
    pub returning: BTreeSet<Rank>,
    /// Images that count no more, of checkpoints that may count for other ranks: the rank's group
    /// has come back from an earlier one since.
    pub void: Vec<(Rank, Epoch)>,
    /// The highest that was ever requested.
    pub last_epoch: Epoch,
    /// The highest number that was given to registered memory.
    pub last_number: Epoch,
    /// The last commits.
    pub committed: LastCommits,
    pub finalized: bool,
    /// The moves in this generation.
    pub moved: Vec<(MoveNumber, RankMove)>,
    pub decided: bool,
}

impl Past {
    /// These ranks came back from this checkpoint while others stood: they have not moved since.
    pub fn return_of(&mut self, ranks: &[Rank], to: Epoch) {
        let later = self.committed.all();
        for later in later.filter(|checkpoint| checkpoint.epoch > to) {
            self.void
                .extend(ranks.iter().map(|rank| (*rank, later.epoch)));
        }
        let has_moved = |(number, one): &(MoveNumber, RankMove)| {
            number.after >= to && ranks.contains(&one.rank)
        };
        self.moved.retain(|moved| !has_moved(moved));
    }

    /// Images up to this number are void. The record of that may have been replaced by a later one.
    pub fn forget_images(&mut self, since: Epoch) {
        let last = &mut self.committed;
        for level in [&mut last.memory, &mut last.file, &mut last.partner] {
            level.take_if(|checkpoint| checkpoint.epoch <= since);
        }
    }

    /// The job rolled back to this checkpoint: later ones are void.
    pub fn roll_back(&mut self, to: Option<Epoch>) {
        self.moved.clear();
        let Some(to) = to else {
            return;
        };
        let last = &mut self.committed;
        let mut known = [last.file, last.partner].into_iter().flatten();
        let known = known.find(|stored| stored.epoch == to);
        for newest in [&mut last.memory, &mut last.file].into_iter().flatten() {
            if newest.epoch > to {
                // Of a checkpoint that was under way to a level, the records have no time of its
                // own.
                *newest = known.unwrap_or(CommittedCheckpoint {
                    epoch: to,
                    ..*newest
                });
            }
        }
    }
}

/// What the hosts reported, in their order; `None` from hosts that are done.
pub(in crate::central) type Reports = Vec<Option<Box<Report>>>;

/// Hosts are being asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::central) struct Resuming {
    past: Past,
    asked: bool,
    due: Option<Time>,
    reports: Reports,
    /// Inputs that arrived meanwhile.
    later: Vec<CentralInput>,
}

impl Resuming {
    /// So many hosts are to be asked.
    pub fn new(past: Past, hosts: usize) -> Resuming {
        Resuming {
            past,
            asked: false,
            due: None,
            reports: vec![None; hosts],
            later: Vec::new(),
        }
    }

    /// When hosts without an answer count as lost. Hosts that may fall silent have as long as their
    /// leases give.
    pub fn due(&self) -> Option<Time> {
        self.due
    }

    /// The hosts are asked now.
    pub fn request(&mut self, now: Time) {
        self.asked = true;
        self.due = Some(now.plus_millis(REPORT_BOUND));
    }

    /// Central was suspended, and no message could arrive meanwhile.
    pub fn was_suspended(&mut self, now: Time) {
        self.due = self.due.map(|_| now.plus_millis(REPORT_BOUND));
    }

    /// Hosts without an answer count as lost now.
    pub fn is_overdue(&mut self, now: Time) -> bool {
        self.due.take_if(|at| *at <= now).is_some()
    }

    /// A host has reported. Its first report counts.
    pub fn reported(&mut self, host: HostIndex, report: Box<Report>) {
        if let Some(place) = self.reports.get_mut(host) {
            place.get_or_insert(report);
        }
    }

    pub fn has_reported(&self, host: HostIndex) -> bool {
        matches!(self.reports.get(host), Some(Some(_)))
    }

    /// Keeps an input until every host has reported.
    pub fn postpone(&mut self, input: CentralInput) {
        self.later.push(input);
    }

    /// Every host has been asked, and has reported or is done.
    pub fn is_complete(&self, is_done: impl Fn(HostIndex) -> bool) -> bool {
        let known = |(host, report): (HostIndex, &Option<_>)| report.is_some() || is_done(host);
        self.asked && self.reports.iter().enumerate().all(known)
    }

    /// The records, the reports, and the inputs that arrived meanwhile.
    pub fn into_parts(self) -> (Past, Reports, Vec<CentralInput>) {
        (self.past, self.reports, self.later)
    }
}
