//! The central manager's state. Each part has its own fields; handlers of events change the parts
//! through their methods.

use super::central_omission::CentralOmission;
use super::copy_groups::CopyGroups;
use super::group_turns::GroupTurns;
use super::host_table::HostTable;
use super::interface::{CentralEffect, Failover, HostIndex, Job, RankPlacement};
use super::job_clock::JobClock;
use super::job_end::JobEnd;
use super::log_table::LogTable;
use super::losses::Losses;
use super::moves::{Departures, FormerHosts, MoveTable, RankMove};
use super::phase::CentralPhase;
use super::rank_table::RankTable;
use super::recovery::{HeldGroupOrders, LostHosts, RecoveryMode};
use super::recovery_groups::RecoveryGroups;
use super::stop_request::StopRequest;
use crate::checkpoint::CopyInterval;
use crate::detector::HostWatch;
use crate::manager_messages::Time;
use crate::region_commits::RegionCommits;
use crate::verdict::Verdict;
use rejoin_channel_table::{Epoch, Incarnation, Rank};

/// State of the job's central manager.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Central {
    pub(super) phase: CentralPhase,
    pub(super) hosts: HostTable,
    /// Of a job whose local managers probe each other.
    pub(super) watch: Option<HostWatch>,
    pub(super) ranks: RankTable,
    pub(super) clock: JobClock,
    pub(super) end: JobEnd,
    pub(super) mode: RecoveryMode,
    pub(super) groups: RecoveryGroups,
    /// Files of images lack messages that their receivers' images hold.
    pub(super) files_lack: bool,
    /// What the logs of ranks hold, in jobs of several groups.
    pub(super) logs: LogTable,
    pub(super) losses: Losses,
    /// The job is to stop with a last checkpoint.
    pub(super) stop: Option<StopRequest>,
    /// Of a job that may be launched again without a lost host.
    pub(super) failover: Option<Failover>,
    /// The checkpoint from whose files the first processes are made.
    pub(super) from: Option<Epoch>,
    /// The highest number of a checkpoint that earlier launches have requested. Without recovery,
    /// also the highest of this launch.
    pub(super) requested: Epoch,
    /// Checkpoints of registered memory.
    pub(super) regions: RegionCommits,
    /// Hosts that are lost, until it is decided how the job continues.
    pub(super) lost_hosts: LostHosts,
    /// The groups that take their images, and those that write them to files.
    pub(super) image_turns: GroupTurns,
    pub(super) file_turns: GroupTurns,
    /// Ranks of groups that come back on other hosts once nothing acts on a lost one.
    pub(super) held_groups: HeldGroupOrders,
    /// Ranks that move to other hosts.
    pub(super) moves: MoveTable,
    pub(super) former_hosts: FormerHosts,
    /// Where processes of ranks that are on other hosts may still act.
    pub(super) departures: Departures,
    /// Where ranks are, if this launch has lost hosts or ranks have moved.
    placement: Option<RankPlacement>,
    /// The size of groups of hosts whose files other hosts keep, if they do.
    group_size: Option<usize>,
    /// When files are copied.
    copy_interval: CopyInterval,
    /// Which host keeps what of which files; empty where no copies are made.
    copy_groups: CopyGroups,
    /// The part that a test leaves out.
    #[cfg(feature = "omissions")]
    omitted: Option<CentralOmission>,
}

#[cfg(feature = "omissions")]
impl Central {
    /// Leaves this part out from now on.
    pub fn omit(&mut self, part: CentralOmission) {
        self.omitted = Some(part);
    }
}

impl Central {
    /// Central of a job that has not begun.
    #[must_use]
    pub fn new(job: Job) -> Self {
        let size = u32::try_from(job.placement.len()).unwrap_or(u32::MAX);
        let first = first_incarnation(&job);
        let copy_groups = groups(&job.placement, job.copies);
        let mut mode = RecoveryMode::new(job.recovery, size);
        if let (Some(recovery), Some(checkpoints)) = (job.recovery, mode.checkpoints_mut())
            && !copy_groups.stripes().is_empty()
        {
            checkpoints.copy_files(recovery.copies);
        }
        let mut central = Central {
            phase: CentralPhase::Starting,
            watch: watch_of(&job),
            hosts: HostTable::new(&job),
            ranks: RankTable::new(job.generation, first, &job.placement),
            clock: JobClock::new(job.limit, job.spent),
            end: JobEnd::default(),
            mode,
            groups: RecoveryGroups::new(job.log_groups),
            files_lack: job.files_lack,
            logs: LogTable::default(),
            losses: Losses::default(),
            stop: None,
            failover: job.failover,
            from: job.from,
            requested: job.requested,
            regions: RegionCommits::default(),
            lost_hosts: LostHosts::default(),
            image_turns: GroupTurns::default(),
            file_turns: GroupTurns::default(),
            held_groups: HeldGroupOrders::default(),
            moves: MoveTable::default(),
            former_hosts: FormerHosts::default(),
            departures: Departures::default(),
            placement: None,
            copy_interval: job.recovery.map(|r| r.copies).unwrap_or_default(),
            group_size: job.copies,
            copy_groups,
            #[cfg(feature = "omissions")]
            omitted: None,
        };
        // The driver shows them before the first step.
        for (host, view) in central.host_views().into_iter().enumerate() {
            central.hosts.tell_condition(host, view.condition);
        }
        central
    }

    /// Whether a test leaves out this part.
    #[inline(always)]
    pub(super) fn omits(&self, part: CentralOmission) -> bool {
        #[cfg(feature = "omissions")]
        return self.omitted == Some(part);
        #[cfg(not(feature = "omissions"))]
        {
            let _ = part;
            false
        }
    }

    /// Where ranks are, if this launch has lost hosts or ranks have moved.
    pub(super) fn placement(&self) -> Option<&RankPlacement> {
        self.placement.as_ref()
    }

    /// Ranks of lost hosts are on other hosts from now on, or ranks are back after moves. Returns
    /// whether copies begin anew.
    pub(super) fn place(&mut self, placement: RankPlacement) -> bool {
        self.ranks.place(&placement.hosts);
        self.hosts.set_changed();
        let begins = self.regroup();
        placement
            .lost
            .iter()
            .for_each(|host| self.hosts.recall_lost(*host));
        self.placement = Some(placement);
        begins
    }

    /// Ranks are on other hosts: others keep copies of their files. Returns whether copies begin
    /// anew, because there was no host for them before.
    fn regroup(&mut self) -> bool {
        let had_partners = self.has_partners();
        self.copy_groups = groups(&self.ranks.placement(), self.group_size);
        let has_partners = self.has_partners();
        let interval = self.copy_interval;
        let begins = has_partners && !had_partners;
        match self.mode.checkpoints_mut() {
            Some(checkpoints) if begins => checkpoints.copy_files(interval),
            Some(checkpoints) if !has_partners => checkpoints.stop_copies(),
            _ => {}
        }
        begins
    }

    /// A rank has moved with its image of this number. Returns whether copies begin anew.
    pub(super) fn has_moved(&mut self, number: Epoch, moved: &RankMove) -> bool {
        self.former_hosts.add(moved.rank, number, moved.from);
        self.ranks.move_to(moved.rank, moved.to, moved.incarnation);
        if let Some(checkpoints) = self.mode.checkpoints_mut() {
            checkpoints.moved(number);
        }
        self.note_placement()
    }

    /// These ranks are back on these hosts.
    pub(super) fn move_back(&mut self, ranks: &[(Rank, HostIndex)]) {
        for (rank, host) in ranks {
            let incarnation = self.ranks.instance(*rank).incarnation;
            self.ranks.move_to(*rank, *host, incarnation);
        }
        self.note_placement();
    }

    fn note_placement(&mut self) -> bool {
        self.hosts.set_changed();
        let begins = self.regroup();
        let hosts = self.ranks.placement();
        let placement = self.placement.get_or_insert_with(|| RankPlacement {
            hosts: Vec::new(),
            lost: Vec::new(),
            moved: Vec::new(),
            from: Epoch(0),
        });
        placement.hosts = hosts;
        begins
    }

    /// Hosts copy files of each other.
    pub(super) fn copies_files(&self) -> bool {
        self.group_size.is_some()
    }

    /// Which host kept what of which files when ranks were on these hosts.
    pub(super) fn copy_groups_of(&self, placement: &[HostIndex]) -> CopyGroups {
        groups(placement, self.group_size)
    }

    /// Which host keeps what of which files.
    pub(super) fn copy_groups(&self) -> &CopyGroups {
        &self.copy_groups
    }

    /// Some host keeps copies of another one's files.
    pub(super) fn has_partners(&self) -> bool {
        !self.copy_groups.stripes().is_empty()
    }

    /// When the driver must send [`CentralInput::Tick`](super::CentralInput::Tick) at the latest.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let of_phase = match &self.phase {
            CentralPhase::Over => return None,
            CentralPhase::Ending => return self.end.drop_at(),
            CentralPhase::Relaunching(relaunching) => {
                return earlier(self.clock.limit_at(), relaunching.due());
            }
            CentralPhase::Resuming(resuming) => {
                let of_job = earlier(self.clock.limit_at(), self.silence_due());
                return earlier(of_job, resuming.due());
            }
            _ if self.lost_hosts.is_pending() => return self.clock.limit_at(),
            CentralPhase::Running => {
                let checkpoints = self.mode.checkpoints();
                let begins = checkpoints.filter(|_| self.begins_files());
                let copies = begins.and_then(|c| c.copies_due_at());
                let moves = self.moves.deadline();
                earlier(
                    moves,
                    earlier(copies, checkpoints.and_then(|c| c.deadline())),
                )
            }
            CentralPhase::Finalizing => self.mode.checkpoints().and_then(|c| c.deadline()),
            CentralPhase::Restoring(restoring) => {
                let held = restoring.held.as_ref().map(|held| held.until);
                earlier(held, self.losses.deadline())
            }
            _ => self.losses.deadline(),
        };
        let of_job = earlier(self.clock.limit_at(), self.silence_due());
        let of_job = earlier(of_job, self.held_groups_due());
        let of_job = earlier(of_job, self.logs.due());
        earlier(earlier(of_job, self.stop_due()), of_phase)
    }

    /// When some host may count as silent, or an answer of one is overdue.
    fn silence_due(&self) -> Option<Time> {
        let watch = self.watch.as_ref().and_then(HostWatch::deadline);
        earlier(self.hosts.silence_due(), watch)
    }

    /// The verdict, once it is given.
    #[must_use]
    pub fn verdict(&self) -> Option<&Verdict> {
        self.end.verdict()
    }

    /// The last signal that asked the ranks to end.
    #[must_use]
    pub fn interrupted(&self) -> Option<i32> {
        self.end.interrupted()
    }

    /// Gives the verdict, unless there is one, and ends everything.
    pub(super) fn decide(&mut self, now: Time, verdict: Verdict, effects: &mut Vec<CentralEffect>) {
        if self.phase == CentralPhase::Ending {
            return;
        }
        self.end.decide(verdict, effects);
        self.phase = CentralPhase::Ending;
        self.lost_hosts.take_hosts();
        self.end_all(now, effects);
    }

    /// Tells every host to end. The ranks of a job that stops do nothing more: what they do after
    /// the checkpoint is done again.
    pub(super) fn end_all(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        let why = self.end.begin(now);
        if let Some(Verdict::Stopped { .. }) = self.end.verdict() {
            return self.kill_all(effects);
        }
        let end = || crate::manager_messages::ToLocal::End { why: why.clone() };
        self.hosts.send_all(end, effects);
    }

    /// Tells every host to kill all processes at once.
    pub(super) fn kill_all(&self, effects: &mut Vec<CentralEffect>) {
        let kill = || crate::manager_messages::ToLocal::Kill;
        self.hosts.send_all(kill, effects);
    }

    /// The job is over on every host.
    pub(super) fn over(&mut self, verdict: Verdict, effects: &mut Vec<CentralEffect>) {
        self.phase = CentralPhase::Over;
        effects.push(CentralEffect::Over(verdict));
    }
}

/// The incarnation of the first processes. In a job that is restarted, ranks that have not moved
/// get later ones than before. Processes of earlier launches are of earlier generations anyway.
fn first_incarnation(job: &Job) -> Incarnation {
    Incarnation(job.from.map_or(0, |_| job.generation.0))
}

fn watch_of(job: &Job) -> Option<HostWatch> {
    let detection = job.leases.as_ref()?.terms.detection;
    detection.probes().then(|| HostWatch::new(detection))
}

fn earlier(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    one.into_iter().chain(other).min()
}

fn groups(placement: &[HostIndex], size: Option<usize>) -> CopyGroups {
    size.map_or_else(CopyGroups::default, |size| CopyGroups::new(placement, size))
}
