//! From the start of the processes to the release of all ranks from `MPI_Init`.

use super::checkpoint_handler::CheckpointHandler;
use super::ending::EndHandler;
use super::interface::Record;
use super::job_parts::JobParts;
use super::phase::CentralPhase;
use super::recovery::{GlobalRestore, GroupCommitHandler};
use super::returns::{ReturnHandler, Returning};
use crate::committed_levels::{CommittedCheckpoint, LastCommits};
use crate::levels::Level;
use crate::manager_messages::ToLocal;
use crate::verdict::Verdict;
use rejoin_channel_table::{BusinessCard, Epoch, ImageId, Incarnation, Rank};
use rejoin_wire::ImageCost;
use std::sync::Arc;

/// Starts the processes, and releases all ranks from `MPI_Init` together.
pub(in crate::central) struct RegistrationHandler<'a> {
    /// All parts: what it does can touch each of them.
    pub(in crate::central) job: JobParts<'a>,
}

impl<'a> RegistrationHandler<'a> {
    /// The handler of a step.
    pub(in crate::central) fn of(job: &'a mut JobParts<'_>) -> Self {
        RegistrationHandler { job: job.all() }
    }
}

impl RegistrationHandler<'_> {
    /// Starts the job's processes.
    pub(super) fn begin(&mut self) {
        let now = self.job.out.now;
        self.job.course.clock.begin(now);
        self.job.commits.begin(now);
        let generation = self.job.cluster.ranks.generation();
        self.job.out.persist(Record::Began {
            generation,
            incarnations: self.job.cluster.ranks.incarnations(),
            at: now,
        });
        match self.job.terms.from {
            Some(epoch) => self.begin_from(epoch),
            None => self.begin_above_requested(),
        }
        let by_host = self.job.cluster.ranks.by_host(self.job.cluster.hosts.len());
        self.job.cluster.hosts.with_ranks_take_part(&by_host);
        let image = self.job.terms.from.map(ImageId::Checkpoint);
        for (host, ranks) in by_host.into_iter().enumerate() {
            if !ranks.is_empty() {
                self.job.cluster.order_restore(
                    host,
                    (image, None),
                    ranks,
                    Vec::new(),
                    self.job.out,
                );
            }
        }
    }

    /// The job begins anew. Its checkpoints get other numbers than those of earlier launches.
    fn begin_above_requested(&mut self) {
        let epoch = self.job.commits.requested;
        let checkpoints = self.job.commits.checkpoints_mut();
        if let Some(checkpoints) = checkpoints.filter(|_| epoch > Epoch(0)) {
            checkpoints.resume(LastCommits::default(), epoch);
            self.job.out.persist(Record::Requested { epoch });
        }
    }

    /// The job ended before, and continues from the files of this checkpoint, as after a rollback.
    fn begin_from(&mut self, epoch: Epoch) {
        let now = self.job.out.now;
        let has_partners = self.job.cluster.has_partners();
        let Some(checkpoints) = self.job.commits.mode.checkpoints_mut() else {
            return;
        };
        let (at, cost) = (now, ImageCost::default());
        let checkpoint = CommittedCheckpoint { epoch, at, cost };
        let requested = self.job.commits.requested.max(epoch);
        let last = Some(checkpoint);
        let last = LastCommits {
            memory: last,
            file: last,
            partner: last,
        };
        checkpoints.resume(last, requested);
        if has_partners {
            // Of these files there may be one each. Newer ones get copies.
            checkpoints.want_files();
            checkpoints.request_later();
        }
        self.job.course.phase = CentralPhase::Restoring(GlobalRestore {
            epoch: Some(epoch),
            since: now,
        });
        self.job.out.persist(Record::Requested { epoch: requested });
        for level in [Level::Memory, Level::File, Level::Partner] {
            self.job.out.persist(Record::Committed {
                epoch,
                level,
                at,
                cost,
            });
        }
        ReturnHandler::of(&mut self.job).store_return(&Returning::All, Some(epoch));
        GroupCommitHandler::of(&mut self.job).commit_all_groups(epoch, at);
    }

    /// A rank called `MPI_Init`.
    pub(super) fn registered(&mut self, rank: Rank) {
        self.compare(rank);
        self.start_when_complete();
        ReturnHandler::of(&mut self.job).start_alone(rank);
        ReturnHandler::of(&mut self.job).start_group(rank);
    }

    /// Ends the job if a rank goes by other settings than one that registered before it.
    pub(super) fn compare(&mut self, rank: Rank) {
        if let Some(verdict) = self.job.cluster.ranks.differing(rank) {
            EndHandler::of(&mut self.job).decide(verdict);
        }
    }

    /// Lets the ranks start once all have registered. A rank that ended without registering can't
    /// come any more, so a wait for it would never end.
    pub(super) fn start_when_complete(&mut self) {
        if !matches!(
            self.job.course.phase,
            CentralPhase::Starting | CentralPhase::Restoring(_)
        ) {
            return;
        }
        if let Some((rank, waiting)) = self.job.cluster.ranks.waits_for_absent() {
            return EndHandler::of(&mut self.job)
                .decide(Verdict::NeverRegistered { rank, waiting });
        }
        if let Some(table) = self.job.cluster.ranks.complete_table() {
            self.start(table);
        }
    }

    fn start(&mut self, table: Vec<(Incarnation, Arc<BusinessCard>)>) {
        let before = std::mem::replace(&mut self.job.course.phase, CentralPhase::Running);
        // The first image is taken without being asked, at the end of MPI_Init.
        let image = match &before {
            CentralPhase::Restoring(GlobalRestore { epoch: Some(_), .. }) => None,
            _ => CheckpointHandler::of(&mut self.job).request(),
        };
        let generation = self.job.cluster.ranks.generation();
        self.job.out.persist(Record::Started {
            generation,
            table: table.clone(),
        });
        let start = ToLocal::Start {
            generation,
            table,
            image,
        };
        self.job.cluster.hosts.spread(start, self.job.out);
        if let CentralPhase::Restoring(restoring) = before {
            ReturnHandler::of(&mut self.job).recovered(&restoring);
        }
    }
}
