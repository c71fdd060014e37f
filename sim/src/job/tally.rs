//! Counts of the events of a run, and the verdicts that they allow.

use rejoin_managers_protocol::central::Event;
use rejoin_managers_protocol::levels::Level;
use rejoin_managers_protocol::manager_messages::{Cause, End};
use rejoin_managers_protocol::policy::Refusal;
use rejoin_managers_protocol::verdict::Verdict;

/// Counts of the events of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Checkpoints that were committed.
    pub commits: u64,
    /// Of these, while ranks were about to move.
    pub commits_in_moves: u64,
    /// The ranks that this run of central moves.
    pub(super) moving: u64,
    /// Commits of recovery groups.
    pub group_commits: u64,
    /// Returns of recovery groups while others stood.
    pub group_returns: u64,
    /// Returns of groups to earlier checkpoints than they had come back from.
    pub returns_beside: u64,
    /// Ranks that came back in their generation.
    pub returned: u64,
    /// Most recovery groups of a run that took their images at once, or wrote them to files.
    pub most_at_once: [u64; 2],
    /// Completed recoveries.
    pub recoveries: u64,
    /// Ranks that came back alone and left.
    pub alone: u64,
    /// Failures of single ranks after the last checkpoint, in `MPI_Finalize`.
    pub lone_losses: u64,
    /// Processes that were killed.
    pub kills: u64,
    /// Of these, those before the first commit.
    pub early: u64,
    /// Of these, those before all ranks were released from `MPI_Finalize`.
    pub unreleased: u64,
    /// Images that were lost.
    pub images: u64,
    /// Requests to refuse an image.
    pub refuses: u64,
    /// Images that were refused.
    pub refused: u64,
    /// Images that outlived their process in a file.
    pub outlived: u64,
    /// Whole files.
    pub files: u64,
    /// Whole copies of files on other hosts.
    pub copies: u64,
    /// Of these, parities of several files.
    pub parities: u64,
    /// Checkpoints that were committed in files.
    pub file_commits: u64,
    /// Requests to fail the writing of a file.
    pub unwritable: u64,
    /// Files that could not be written.
    pub unwritten: u64,
    /// Rollbacks to another checkpoint than the newest.
    pub fallbacks: u64,
    /// Parted hosts.
    pub parts: u64,
    /// Cut connections between hosts and central.
    pub cuts: u64,
    /// Dead local managers.
    pub locals: u64,
    /// Hosts that were to be added.
    pub added: u64,
    /// Hosts that were to end soon.
    pub leaves: u64,
    /// Orders to suspend ranks.
    pub stops: u64,
    /// Hosts that were silent.
    pub silent: u64,
    /// Starts of all ranks with registered memory.
    pub region_starts: u64,
    /// Rollbacks on other hosts, within a launch.
    pub moves: u64,
    /// Requests to move ranks.
    pub move_requests: u64,
    /// Ranks that have moved while the job ran.
    pub live_moves: u64,
    /// Ranks that could not.
    pub failed_moves: u64,
    /// Suspended processes of lost hosts whose successors began.
    pub displaced: u64,
    /// Deaths of central.
    pub centrals: u64,
    /// Signals to the launcher.
    pub signals: u64,
    /// Requests to stop with a last checkpoint.
    pub stop_requests: u64,
    /// Jobs that stopped with a last checkpoint.
    pub stopped: u64,
    /// A signal came before all ranks were released.
    pub interrupted: bool,
    /// Hosts that central dropped.
    pub dropped: u64,
    /// Messages from central to local managers.
    pub orders: u64,
    /// Messages between local managers that probe each other.
    pub probes: u64,
    /// Hosts that answered neither another host nor central.
    pub suspected: u64,
    /// Links between two hosts that counted as lost.
    pub links_lost: u64,
    /// Messages from local managers to central.
    pub reports: u64,
    /// Cards that ranks were given.
    pub cards: u64,
    /// The verdict.
    pub verdict: Option<Verdict>,
    /// Virtual time of the end, in nanoseconds.
    pub ended: u64,
}

impl Tally {
    pub(super) fn event(&mut self, event: &Event) {
        match event {
            Event::Recovered { .. } => self.recoveries += 1,
            Event::Lost { alone: true, .. } => self.lone_losses += 1,
            Event::HostSilent { .. } => self.silent += 1,
            Event::HostSuspected { .. } => self.suspected += 1,
            Event::HostLinkLost { .. } => self.links_lost += 1,
            Event::Moving { .. } => self.moving += 1,
            Event::Moved { .. } => {
                self.live_moves += 1;
                self.moving = self.moving.saturating_sub(1);
            }
            Event::NotMoved { .. } => {
                self.failed_moves += 1;
                self.moving = self.moving.saturating_sub(1);
            }
            Event::Committed {
                level: Level::Memory,
                ..
            } if self.moving > 0 => self.commits_in_moves += 1,
            _ => {}
        }
    }

    /// Records a verdict. All reports of it must agree, unless a signal ends a job that waits for
    /// its next launch.
    pub(super) fn decided(&mut self, verdict: &Verdict) -> Result<(), String> {
        match self.verdict.replace(verdict.clone()) {
            Some(Verdict::HostLost { .. })
                if self.signals > 0 && matches!(verdict, Verdict::Interrupted { .. }) =>
            {
                Ok(())
            }
            Some(before) if before != *verdict => Err(format!("{before:?}, then {verdict:?}")),
            _ => Ok(()),
        }
    }

    pub(super) fn refuse(&mut self) -> bool {
        let refuse = self.refused < self.refuses;
        self.refused += u64::from(refuse);
        refuse
    }

    pub(super) fn fail_file(&mut self) -> bool {
        let fail = self.unwritten < self.unwritable;
        self.unwritten += u64::from(fail);
        fail
    }

    /// Whether a verdict has a cause.
    pub(super) fn allows(&self, verdict: &Verdict) -> bool {
        let images = self.images + self.refused > 0;
        match verdict {
            Verdict::Success => !self.interrupted,
            Verdict::Failed { cause, refusal, .. } => match (cause, refusal) {
                (_, Some(Refusal::NoCheckpoint)) => images,
                (Cause::NotStarted { .. }, _) | (_, Some(Refusal::NotRestored { .. })) => {
                    // Another host may be lost with copies before they are used.
                    images || self.locals + self.silent > 1
                }
                (
                    Cause::Ended {
                        end: End::Signaled(_),
                        ..
                    },
                    None,
                ) => self.signals + self.stop_requests > 0,
                _ => false,
            },
            Verdict::HostLost { .. } => self.locals + self.silent > 0,
            Verdict::Interrupted { .. } => self.signals + self.stop_requests > 0,
            Verdict::Stopped { .. } => self.stop_requests > 0,
            _ => false,
        }
    }
}

impl Tally {
    /// All counts.
    fn counts(&mut self) -> [&mut u64; 47] {
        [
            &mut self.commits,
            &mut self.commits_in_moves,
            &mut self.group_commits,
            &mut self.group_returns,
            &mut self.returns_beside,
            &mut self.returned,
            &mut self.recoveries,
            &mut self.alone,
            &mut self.lone_losses,
            &mut self.kills,
            &mut self.early,
            &mut self.unreleased,
            &mut self.images,
            &mut self.refuses,
            &mut self.refused,
            &mut self.outlived,
            &mut self.files,
            &mut self.copies,
            &mut self.parities,
            &mut self.file_commits,
            &mut self.unwritable,
            &mut self.unwritten,
            &mut self.fallbacks,
            &mut self.parts,
            &mut self.cuts,
            &mut self.locals,
            &mut self.leaves,
            &mut self.added,
            &mut self.stops,
            &mut self.silent,
            &mut self.region_starts,
            &mut self.moves,
            &mut self.move_requests,
            &mut self.live_moves,
            &mut self.failed_moves,
            &mut self.displaced,
            &mut self.centrals,
            &mut self.signals,
            &mut self.stop_requests,
            &mut self.stopped,
            &mut self.dropped,
            &mut self.probes,
            &mut self.suspected,
            &mut self.links_lost,
            &mut self.orders,
            &mut self.reports,
            &mut self.cards,
        ]
    }
}

impl std::ops::AddAssign<&Tally> for Tally {
    /// Adds the counts of another run. The verdict and its time stay.
    fn add_assign(&mut self, other: &Tally) {
        let mut other = other.clone();
        self.interrupted |= other.interrupted;
        for (most, of_other) in self.most_at_once.iter_mut().zip(other.most_at_once) {
            *most = of_other.max(*most);
        }
        for (count, more) in self.counts().into_iter().zip(other.counts()) {
            *count += *more;
        }
    }
}
