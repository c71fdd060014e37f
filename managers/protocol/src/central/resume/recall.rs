//! The job's state from the records of an earlier central manager.

use super::past::{Past, Resuming};
use crate::central::interface::{FailureHistory, Job, Record};
use crate::central::job_state::Central;
use crate::central::moves::RankMove;
use crate::central::phase::CentralPhase;
use crate::central::recovery::Relaunching;
use crate::central::recovery_groups::GroupCheckpoint;
use crate::committed_levels::CommittedCheckpoint;
use crate::levels::Level;
use rejoin_channel_table::{BusinessCard, Epoch, Rank};

impl Central {
    /// Central of a job that another central manager has begun and recorded.
    /// [`CentralInput::Begin`](crate::central::CentralInput::Begin) comes first, then
    /// [`CentralInput::HostLost`](crate::central::CentralInput::HostLost) or
    /// [`CentralInput::HostGone`](crate::central::CentralInput::HostGone) for each host that the
    /// driver knows to be lost.
    #[must_use]
    pub fn resume(job: Job, records: Vec<Record>) -> Self {
        let mut central = Central::new(job);
        let mut past = Past::default();
        for record in records {
            central.recall(record, &mut past);
        }
        let placed = central.placement().filter(|p| !p.lost.is_empty());
        let placed = placed.map(|placement| placement.from);
        let from = placed.or(central.from.filter(|_| central.has_partners()));
        for host in central.departures.visited() {
            central.hosts.forget_told(host);
        }
        if let Some(oldest) = past.committed.oldest() {
            central.former_hosts.forget_before(oldest);
        }
        let known = past.committed.all();
        central.groups.recall_files(known.map(|c| c.epoch));
        if let Some(checkpoints) = central.mode.checkpoints_mut() {
            checkpoints.resume(past.committed, past.last_epoch.max(past.last_number));
            checkpoints.recall_void(&past.void);
            if let Some(stop) = &central.stop {
                checkpoints.pursue_files(stop.from());
            }
            if from.is_some() && from == checkpoints.epochs().partner {
                // Of these files there may be one each.
                checkpoints.want_files();
                checkpoints.request_later();
            }
        }
        if let Some(relaunch) = past.relaunching {
            let decided = Relaunching::Decided(Box::new(relaunch), None);
            central.phase = CentralPhase::Relaunching(decided);
        } else if past.decided {
            central.phase = CentralPhase::Ending;
        } else if past.began {
            let resuming = Resuming::new(past, central.hosts.len());
            central.phase = CentralPhase::Resuming(Box::new(resuming));
        }
        central
    }

    fn recall(&mut self, record: Record, past: &mut Past) {
        match record {
            Record::Began {
                generation,
                incarnations,
                at,
            } => {
                past.began = true;
                self.begins(at);
                self.ranks.recall(generation, &incarnations);
            }
            Record::Started { generation, table } => {
                past.started = Some(generation);
                past.cards = table.into_iter().map(|(_, card)| card).collect();
            }
            Record::Requested { epoch } => past.last_epoch = past.last_epoch.max(epoch),
            Record::RegionsNumbered { epoch } => past.last_number = past.last_number.max(epoch),
            Record::RegionsCommitted { epochs } => self.regions.resume(epochs),
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
            Record::Restoring { .. } => self.recall_rollback(record, past),
            Record::GroupCommitted { .. } | Record::GroupRestoring { .. } => {
                self.recall_group(record, past);
            }
            Record::Moving { .. } | Record::Moved { .. } | Record::Draining(_) => {
                self.recall_move(record, past);
            }
            Record::Finalized { last, .. } => {
                past.finalized = true;
                self.mode.set_last_checkpoint(last);
            }
            Record::HostAdded { request, added } => self.recall_added(request, added),
            Record::HostDone(host) => self.hosts.recall_done(host),
            Record::Decided(verdict) => {
                past.decided = true;
                self.end.recall_verdict(verdict);
            }
            Record::Settled(verdict) => self.end.recall_verdict(verdict),
            Record::Memory(memory) => self.recall_memory(*memory),
            Record::Interrupted { signal, .. } => self.end.recall_interrupted(signal),
            Record::Stopping { request, .. } => self.stop = request,
            Record::Passed { signal } => self.end.recall_passed(signal),
            Record::Relaunching(relaunch) => past.relaunching = Some(relaunch),
        }
    }

    fn recall_group(&mut self, record: Record, past: &mut Past) {
        match record {
            Record::GroupCommitted { rank, epoch, at } => {
                past.last_epoch = past.last_epoch.max(epoch);
                // It may be older than the one before, whose image was gone.
                self.groups.fall_back(rank, GroupCheckpoint { epoch, at });
            }
            Record::GroupRestoring {
                ranks,
                epoch,
                placement,
                memory,
            } => {
                self.ranks.recall_group(&ranks);
                let members: Vec<Rank> = ranks.iter().map(|(rank, _)| *rank).collect();
                self.former_hosts.roll_back_of(&members, epoch);
                self.groups.return_of(&members, epoch, None);
                past.return_of(&members, epoch);
                if let Some(placement) = placement
                    && self.place(*placement)
                {
                    past.committed.partner = None;
                }
                self.recall_memory(*memory);
                past.returning
                    .extend(ranks.into_iter().map(|(rank, _)| rank));
            }
            _ => {}
        }
    }

    fn recall_rollback(&mut self, record: Record, past: &mut Past) {
        let Record::Restoring {
            generation,
            epoch,
            incarnations,
            placement,
            memory,
        } = record
        else {
            return;
        };
        past.restored = Some(epoch);
        past.returning.clear();
        self.groups.forget_commits();
        past.roll_back(epoch);
        self.former_hosts.roll_back(epoch.unwrap_or_default());
        self.regions.roll_back(epoch);
        self.ranks.recall(generation, &incarnations);
        if let Some(placement) = placement
            && self.place(*placement)
        {
            past.committed.partner = None;
        }
        self.recall_memory(*memory);
    }

    fn recall_move(&mut self, record: Record, past: &mut Past) {
        match record {
            Record::Moving {
                plans,
                visited,
                spent,
                number,
                moves,
            } => {
                self.moves.recall_plans(plans);
                past.last_epoch = past.last_epoch.max(number);
                for (rank, incarnation) in spent {
                    self.ranks.spend(rank, incarnation);
                }
                for host in visited {
                    self.departures.visit(host);
                }
                past.moving = Some((number, moves));
            }
            Record::Moved {
                number,
                moved,
                card,
            } => self.recall_moved(number, moved, *card, past),
            Record::Draining(host) => {
                self.departures.visit(host);
                self.hosts.drain(host);
            }
            _ => {}
        }
    }

    fn recall_moved(
        &mut self,
        number: Epoch,
        moved: RankMove,
        card: BusinessCard,
        past: &mut Past,
    ) {
        self.departures.visit(moved.from);
        self.departures.visit(moved.to);
        if self.has_moved(number, &moved) {
            past.committed.partner = None;
        }
        if let Some(place) = past.cards.get_mut(moved.rank.index()) {
            *place = card.into();
        }
        if let Some((_, moves)) = &mut past.moving {
            moves.retain(|one| one.rank != moved.rank);
        }
        past.moved.push((number, moved));
    }

    fn recall_memory(&mut self, memory: FailureHistory) {
        self.mode.set_history(memory.history);
        self.losses = memory.losses;
    }
}
