//! Notice of central for the user, for clients and for the event log. After a resumption central
//! tells some of them again: each is reported once.

use rejoin_channel_table::{Epoch, Generation, Incarnation, MoveNumber, Rank};
use rejoin_managers_protocol::central::{
    AddedHost, Event, HostCondition, HostIndex, RankPlacement,
};
use rejoin_managers_protocol::levels::{CommittedEpochs, Level};
use rejoin_managers_protocol::region_commits::RegionEpochs;
use rejoin_managers_protocol::verdict::Verdict;
use rejoin_managers_report::status_summary::StatusSummary;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Notice to report.
#[derive(Debug, Clone)]
pub(super) enum Notice {
    /// Something happened in the job.
    Event(Event),
    /// Ranks of lost hosts are on other hosts. This may come again.
    Placed(RankPlacement),
    /// Where ranks are while hosts are not lost. This may come again.
    Placing(Placing),
    /// The central manager's process ended, and this other one took over after so many nanoseconds.
    Again { how: String, pid: u32, took: u64 },
    /// The highest number of a checkpoint that will come to nothing, after it ended.
    Abandoned(Epoch),
    /// There is no journal for this reason; the central manager continues without it.
    Unjournaled(String),
}

/// Where ranks are.
#[derive(Debug, Clone)]
pub(super) enum Placing {
    /// The job has one more host, with this number.
    Added(HostIndex, AddedHost),
    /// This host may get ranks.
    Join(HostIndex),
    /// A rank has moved to this host with its image of this number.
    Moved {
        number: MoveNumber,
        rank: Rank,
        to: HostIndex,
    },
    /// The job rolls back to this checkpoint, and ranks are on these hosts, as they were then.
    MovedBack(Epoch, Vec<(Rank, HostIndex)>),
}

/// The news that are not reported yet, and what tells whether later ones are repeated.
pub(super) struct CentralNotices {
    summary: StatusSummary,
    notices: Vec<Notice>,
    /// Reported losses: generation, rank and process id.
    lost: BTreeSet<(Generation, Rank, u32)>,
    /// The last reported recovery of the job.
    recovered: Option<Generation>,
    /// Ranks that were restored alone.
    returned: BTreeSet<(Rank, Incarnation)>,
    /// Reported moves.
    moved: BTreeSet<(Rank, Incarnation)>,
    /// The last reported condition of each host that has changed.
    hosts: BTreeMap<String, HostCondition>,
    /// The last checkpoint that was requested, and when.
    requested: Option<(Epoch, Instant)>,
    /// The checkpoints that count.
    committed: CommittedEpochs,
    /// The last reported checkpoints of registered memory.
    regions: Option<RegionEpochs>,
    verdict: Option<Verdict>,
    /// The verdict, until it is reported.
    decided: Option<Verdict>,
}

impl CentralNotices {
    /// Without news. The summary collects events for clients.
    pub fn new(summary: StatusSummary) -> CentralNotices {
        CentralNotices {
            summary,
            notices: Vec::new(),
            lost: BTreeSet::new(),
            recovered: None,
            returned: BTreeSet::new(),
            moved: BTreeSet::new(),
            hosts: BTreeMap::new(),
            requested: None,
            committed: CommittedEpochs::default(),
            regions: None,
            verdict: None,
            decided: None,
        }
    }

    /// The summary, for clients that ask.
    pub fn summary(&self) -> &StatusSummary {
        &self.summary
    }

    /// An event, which may be a repeated one.
    pub fn event(&mut self, event: Event) {
        let fresh = match &event {
            Event::Requested(epoch) => {
                self.requested = Some((*epoch, Instant::now()));
                true
            }
            Event::Committed { counted, .. } => {
                self.committed = *counted;
                true
            }
            Event::RegionsCommitted { epochs } => self.regions.replace(*epochs) != Some(*epochs),
            Event::Aborted { .. }
            | Event::ImageLost { .. }
            | Event::NotStored { .. }
            | Event::NotCopied { .. }
            | Event::FallsBack { .. }
            | Event::Stretched { .. }
            | Event::Stopping { .. }
            | Event::StopGivenUp { .. }
            | Event::HostSilent { .. }
            | Event::HostSuspected { .. }
            | Event::HostAnswers { .. }
            | Event::HostLinkLost { .. }
            | Event::HostReplaced { .. }
            | Event::HostHeard { .. }
            | Event::Moving { .. }
            | Event::NotMoved { .. }
            | Event::MovesOver { .. }
            | Event::HostDrains { .. }
            | Event::HostAdded { .. }
            | Event::HostsAdded { .. }
            | Event::HostStays { .. }
            | Event::NoHealth { .. }
            | Event::EmptyHostLost { .. } => true,
            Event::HostChanged(host) => {
                let before = self.hosts.insert(host.name.clone(), host.condition);
                before != Some(host.condition)
            }
            Event::Moved {
                rank, incarnation, ..
            } => self.moved.insert((*rank, *incarnation)),
            Event::Lost {
                rank,
                generation,
                pid,
                ..
            } => self.lost.insert((*generation, *rank, *pid)),
            Event::Recovered {
                alone: Some(who), ..
            } => self.returned.insert(*who),
            Event::Recovered { generation, .. } => {
                self.recovered.replace(*generation) < Some(*generation)
            }
        };
        if fresh {
            self.summary.event(&event);
            self.notices.push(Notice::Event(event));
        }
    }

    /// The central manager's process ended `how` so long ago; the one of this process id took over.
    pub fn resumed_by(&mut self, pid: u32, how: String, took: Duration) {
        let took = nanos(took);
        self.notices.push(Notice::Again { how, pid, took });
    }

    /// Another central manager continues: the results of checkpoints may not have been reported.
    pub fn resumed(&mut self, committed: CommittedEpochs, abandoned: Epoch) {
        let before = self.committed;
        // Without copies, each commit in files is one on this level, too, and is not reported.
        let is_copied = committed.file == before.file || committed.partner != committed.file;
        let partner = committed.partner.filter(|_| is_copied);
        let missed = [
            (Level::Memory, before.memory, committed.memory),
            (Level::File, before.file, committed.file),
            (Level::Partner, before.partner, partner),
        ];
        for (level, reported, stored) in missed {
            let Some(epoch) = stored.filter(|_| stored > reported) else {
                continue;
            };
            let took = match self.requested {
                Some((requested, at)) if requested == epoch => nanos(at.elapsed()),
                _ => 0,
            };
            self.event(Event::Committed {
                epoch,
                level,
                took,
                cost: None,
                counted: committed,
            });
        }
        if Some(abandoned) > committed.memory.max(Some(Epoch(0))) {
            self.notices.push(Notice::Abandoned(abandoned));
        }
    }

    /// Ranks of lost hosts are on other hosts, maybe as told before.
    pub fn placed(&mut self, placement: RankPlacement) {
        self.notices.push(Notice::Placed(placement));
    }

    /// Where ranks are, maybe as told before.
    pub fn placing(&mut self, placing: Placing) {
        self.notices.push(Notice::Placing(placing));
    }

    /// There is no journal for this reason; the central manager continues without it.
    pub fn unjournaled(&mut self, why: String) {
        self.notices.push(Notice::Unjournaled(why));
    }

    /// Central has decided; only its first decision counts.
    pub fn decide(&mut self, verdict: Verdict) {
        if self.verdict.is_none() {
            tracing::info!(%verdict, "decided");
            self.verdict = Some(verdict.clone());
            self.decided = Some(verdict);
        }
    }

    /// The decision.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    /// The decision, once.
    pub fn take_decided(&mut self) -> Option<Verdict> {
        self.decided.take()
    }

    /// The news since the last call.
    pub fn take(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> CentralNotices {
        CentralNotices::new(StatusSummary::new(
            "a job".into(),
            "a program".into(),
            "none",
        ))
    }

    fn in_memory(epoch: u32) -> CommittedEpochs {
        CommittedEpochs {
            memory: Some(Epoch(epoch)),
            ..CommittedEpochs::default()
        }
    }

    fn committed(epoch: u32) -> Event {
        Event::Committed {
            epoch: Epoch(epoch),
            level: Level::Memory,
            took: 5,
            cost: None,
            counted: in_memory(epoch),
        }
    }

    #[test]
    fn a_commit_that_was_reported_before_a_resumption_is_not_reported_again() {
        let mut news = empty();
        news.event(committed(3));
        news.resumed(in_memory(3), Epoch(3));
        let reported = news.take();
        assert!(
            matches!(reported[..], [Notice::Event(Event::Committed { .. })]),
            "{reported:?}"
        );
        let with_files = CommittedEpochs {
            file: Some(Epoch(4)),
            ..in_memory(5)
        };
        news.resumed(with_files, Epoch(6));
        let reported = news.take();
        assert!(
            matches!(
                reported[..],
                [
                    Notice::Event(Event::Committed {
                        epoch: Epoch(5),
                        level: Level::Memory,
                        took: 0,
                        ..
                    }),
                    Notice::Event(Event::Committed {
                        epoch: Epoch(4),
                        level: Level::File,
                        ..
                    }),
                    Notice::Abandoned(Epoch(6))
                ]
            ),
            "{reported:?}"
        );
        assert!(news.take().is_empty());
    }

    #[test]
    fn only_the_first_decision_counts_and_it_is_reported_once() {
        let mut news = empty();
        news.decide(Verdict::Unread);
        news.decide(Verdict::Success);
        assert_eq!(news.take_decided(), Some(Verdict::Unread));
        assert_eq!(news.take_decided(), None);
        assert_eq!(news.verdict(), Some(&Verdict::Unread));
    }
}
