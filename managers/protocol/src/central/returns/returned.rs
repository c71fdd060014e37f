//! Ranks that were ordered back have registered: they start, and that is reported.

use crate::central::central_omission::CentralOmission;
use crate::central::checkpoint_handler::CheckpointHandler;
use crate::central::event::Event;
use crate::central::phase::CentralPhase;
use crate::central::recovery::{GlobalRestore, GroupCommitHandler};
use crate::central::returns::ReturnHandler;
use crate::manager_messages::{ProcessInstance, Time, ToLocal};
use rejoin_channel_table::{Epoch, Incarnation, Rank};

impl ReturnHandler<'_> {
    /// A rank that comes back alone gets the table at once.
    pub(in crate::central) fn start_alone(&mut self, rank: Rank) {
        if self.job.course.phase != CentralPhase::Finalized {
            return;
        }
        let Some(table) = self.job.cluster.ranks.table() else {
            return;
        };
        let start = ToLocal::Start {
            generation: self.job.cluster.ranks.generation(),
            table,
            image: None,
        };
        let host = self.job.cluster.ranks.host_of(rank);
        self.job.out.send(host, start);
        if let Some(since) = self.job.cluster.ranks.restored(rank) {
            let epoch = self.job.commits.mode.last_checkpoint();
            let incarnation = self.job.cluster.ranks.instance(rank).incarnation;
            self.report_restored(epoch, since, Some((rank, incarnation)));
        }
    }

    /// Every rank is restored.
    pub(in crate::central) fn recovered(&mut self, restoring: &GlobalRestore) {
        let now = self.job.out.now;
        let Some(checkpoints) = self.job.commits.checkpoints_mut() else {
            return;
        };
        checkpoints.run_again(now);
        CheckpointHandler::of(&mut self.job).write_files_again();
        self.job.moves.drain_again(self.job.cluster);
        self.report_recovered(restoring);
    }

    /// Says so, once it is known how everyone ended.
    pub(in crate::central) fn report_recovered(&mut self, restoring: &GlobalRestore) {
        self.report_restored(restoring.epoch, restoring.since, None);
    }

    fn report_restored(
        &mut self,
        epoch: Option<Epoch>,
        since: Time,
        alone: Option<(Rank, Incarnation)>,
    ) {
        let now = self.job.out.now;
        let Some(checkpoints) = self.job.commits.checkpoints() else {
            return;
        };
        let from = match epoch {
            Some(epoch) => checkpoints.committed_at(epoch).unwrap_or(since),
            None => self.job.course.clock.began(),
        };
        let recovered = Event::Recovered {
            generation: self.job.cluster.ranks.generation(),
            alone,
            epoch,
            took: now.0.saturating_sub(since.0),
            repeated: since.0.saturating_sub(from.0),
        };
        self.job.returns.losses.report(recovered);
        self.job.returns.report_losses(self.job.out);
    }

    /// A rank has registered. If all of its group are back now, they start, and the others learn
    /// where they are.
    pub(in crate::central) fn start_group(&mut self, rank: Rank) {
        let now = self.job.out.now;
        let runs = matches!(
            self.job.course.phase,
            CentralPhase::Running | CentralPhase::Finalizing
        );
        if !runs || !self.job.commits.mode.logs_messages() || !self.job.cluster.ranks.is_away(rank)
        {
            return;
        }
        let members = self.job.commits.groups.members(rank).to_vec();
        if !members
            .iter()
            .all(|member| self.job.cluster.ranks.has_returned(*member))
        {
            return;
        }
        let since: Vec<Option<Time>> = (members.iter())
            .map(|member| self.job.cluster.ranks.restored(*member))
            .collect();
        self.notify_returned(&members);
        for (member, since) in members.iter().zip(since) {
            self.report_returned(*member, since.unwrap_or(now));
        }
        let is_any_away = self.job.cluster.ranks.is_any_away();
        if let Some(checkpoints) = self.job.commits.checkpoints_mut().filter(|_| !is_any_away) {
            checkpoints.run_again(now);
            self.job.moves.drain_again(self.job.cluster);
        }
    }

    /// Ranks that are back get the table, and all others learn where they are.
    pub(in crate::central) fn notify_returned(&mut self, members: &[Rank]) {
        let Some(table) = self.job.cluster.ranks.table() else {
            return;
        };
        let instances: Vec<ProcessInstance> = (members.iter())
            .map(|member| self.job.cluster.ranks.instance(*member))
            .collect();
        let ranks: Vec<_> = (instances.iter())
            .map(|one| (one.rank, one.incarnation))
            .collect();
        for host in self.job.cluster.ranks.on_hosts(&ranks).into_keys() {
            let start = ToLocal::Start {
                generation: self.job.cluster.ranks.generation(),
                table: table.clone(),
                image: None,
            };
            self.job.out.send(host, start);
        }
        // Those that are back do not know which images of theirs count by now.
        GroupCommitHandler::of(&mut self.job).notify_group_commit(members);
        for instance in instances {
            if self.job.terms.omits(CentralOmission::Updates) {
                continue;
            }
            let Some((_, card)) = table.get(instance.rank.index()) else {
                continue;
            };
            let card = card.as_ref().clone();
            self.job
                .cluster
                .hosts
                .spread(ToLocal::Update { instance, card }, self.job.out);
        }
    }

    fn report_returned(&mut self, rank: Rank, since: Time) {
        let now = self.job.out.now;
        let ProcessInstance {
            generation,
            incarnation,
            ..
        } = self.job.cluster.ranks.instance(rank);
        let from = self.job.commits.groups.committed(rank);
        let at = from.map_or(since, |checkpoint| checkpoint.at);
        self.job.returns.losses.report(Event::Recovered {
            generation,
            alone: Some((rank, incarnation)),
            epoch: from.map(|checkpoint| checkpoint.epoch),
            took: now.0.saturating_sub(since.0),
            repeated: since.0.saturating_sub(at.0),
        });
        self.job.returns.report_losses(self.job.out);
    }
}
