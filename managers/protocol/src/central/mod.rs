//! The central manager's core: the job as a whole.
//!
//! It gathers the ranks' cards and lets them start together. It requests checkpoints, and rolls the
//! job back to the last one when a rank fails. It lets the ranks leave `MPI_Finalize` together, and
//! gives exactly one [`Verdict`].
//!
//! [`CentralEffect::Persist`] names the records that a restarted central manager needs. The driver
//! must store the record before it carries out any later effect. Drivers without a store ignore it;
//! their job ends with its central manager. [`Central::resume`] continues a job.

mod checkpoints;
mod event;
mod hosts;
mod losses;
mod messages;
pub mod placement;
mod recovery;
mod resume;
mod view;

pub use event::Event;
pub use losses::Losses;
pub use messages::{
    CentralEffect, CentralInput, Failover, FailureHistory, HostIndex, Job, Leases, Record,
    Recovery, Relaunch,
};
pub use resume::REPORT_BOUND;
pub use view::{Course, JobView, RankView};

use crate::control::{ProcessInstance, Stage, Time, ToCentral, ToLocal};
use crate::lease::Giver;
use crate::signals;
use crate::verdict::Verdict;
use recovery::{GlobalRestore, RecoveryMode, Relaunching};
use rejoin_channel_table::{BusinessCard, Generation, Incarnation, Rank};
use rejoin_wire::Limits;
use resume::Resuming;
use std::collections::BTreeMap;

/// Milliseconds that local managers have to end all processes before central drops them.
pub const END_BOUND: u64 = 2000;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct RankState {
    host: HostIndex,
    incarnation: Incarnation,
    stage: Stage,
    pid: u32,
    card: Option<BusinessCard>,
    limits: Option<Limits>,
    ended: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct HostState {
    name: String,
    /// No more is expected from it.
    done: bool,
    /// It has reported so, and that is stored.
    left: bool,
    /// Of a host that may fall silent.
    lease: Option<Giver>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Phase {
    /// Not begun, or some ranks have not registered.
    Starting,
    /// Taken up again: hosts are asked how everything is.
    Resuming(Box<Resuming>),
    /// Ranks are being rolled back, and some have not registered.
    Restoring(GlobalRestore),
    /// All ranks have registered and have each other's cards.
    Running,
    /// All ranks are in `MPI_Finalize`, and their last checkpoint is not yet committed.
    Finalizing,
    /// All ranks may leave `MPI_Finalize`; from here on each ends for itself.
    Finalized,
    /// Everything is being ended.
    Ending,
    /// The job has lost a host, has ended on all others, and may be launched again.
    Relaunching(Relaunching),
    /// Nothing more happens.
    Over,
}

/// State of the job's central manager.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Central {
    generation: Generation,
    phase: Phase,
    hosts: Vec<HostState>,
    ranks: Vec<RankState>,
    limit: Option<u64>,
    spent: u64,
    limit_at: Option<Time>,
    end_at: Option<Time>,
    interrupted: Option<i32>,
    verdict: Option<Verdict>,
    mode: RecoveryMode,
    losses: Losses,
    /// When the order under way was given.
    ordered_at: Time,
    /// Ranks that are coming back alone, and since when.
    alone: BTreeMap<Rank, Time>,
    /// When its processes were first started.
    began: Time,
    /// Of a job that may be launched again without a lost host.
    failover: Option<Failover>,
    /// A rank that ended without registering: a wait for it would never end.
    absent: Option<Rank>,
    /// Ranks below this one have registered: where to look first for one that has not.
    complete: usize,
}

impl Central {
    /// Central of a job that has not begun.
    #[must_use]
    pub fn new(job: Job) -> Self {
        let rank = |&host: &HostIndex| RankState {
            host,
            incarnation: Incarnation(0),
            stage: Stage::Spawned,
            pid: 0,
            card: None,
            limits: None,
            ended: false,
        };
        let size = u32::try_from(job.placement.len()).unwrap_or(u32::MAX);
        Central {
            mode: RecoveryMode::new(job.recovery, size),
            losses: Losses::default(),
            ordered_at: Time::default(),
            alone: BTreeMap::new(),
            began: Time::default(),
            absent: None,
            complete: 0,
            failover: job.failover,
            generation: job.generation,
            phase: Phase::Starting,
            hosts: job
                .hosts
                .into_iter()
                .enumerate()
                .map(|(host, name)| HostState {
                    name,
                    done: false,
                    left: false,
                    lease: hosts::giver(job.leases.as_ref(), host),
                })
                .collect(),
            ranks: job.placement.iter().map(rank).collect(),
            limit: job.limit,
            spent: job.spent,
            limit_at: None,
            end_at: None,
            interrupted: None,
            verdict: None,
        }
    }

    /// When the driver must send [`CentralInput::Tick`] at the latest.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        match self.phase {
            Phase::Over => None,
            Phase::Ending => self.end_at,
            Phase::Relaunching(_) => earlier(self.limit_at, self.relaunch_due()),
            Phase::Resuming(ref resuming) => {
                earlier(earlier(self.limit_at, resuming.due()), self.silence_due())
            }
            Phase::Running => earlier(
                earlier(self.limit_at, self.checkpoint_due()),
                self.silence_due(),
            ),
            _ => {
                let not_back = self.losses.deadline();
                earlier(earlier(self.limit_at, not_back), self.silence_due())
            }
        }
    }

    /// The verdict, once it is given.
    #[must_use]
    pub fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    /// The last signal that asked the ranks to end.
    #[must_use]
    pub fn interrupted(&self) -> Option<i32> {
        self.interrupted
    }

    /// One step.
    pub fn step(&mut self, now: Time, input: CentralInput, effects: &mut Vec<CentralEffect>) {
        if input == CentralInput::Begin {
            self.let_leave_again(effects);
        }
        match self.phase {
            Phase::Over => return,
            Phase::Resuming(_) => self.resuming(now, input, effects),
            Phase::Relaunching(_) => self.relaunching(now, input, effects),
            _ => self.take(now, input, effects),
        }
        self.close(effects);
    }

    fn take(&mut self, now: Time, input: CentralInput, effects: &mut Vec<CentralEffect>) {
        match input {
            CentralInput::Begin if self.phase == Phase::Ending => self.end_again(now, effects),
            CentralInput::Begin => self.begin(now, effects),
            CentralInput::Local(host, message) => self.heard(now, host, message, effects),
            CentralInput::HostLost(host) => {
                let why = "its local manager ended".to_string();
                self.nothing_acts_on(host);
                self.host_gone(now, host, why, effects);
            }
            CentralInput::HostGone(host, why) => self.host_gone(now, host, why, effects),
            CentralInput::Signal(signal) => self.signal(now, signal, effects),
            CentralInput::Checkpoint => self.checkpoint_asked(now, effects),
            CentralInput::OutputLost(why) => {
                let lost = |why| Verdict::OutputLost { why };
                self.decide(now, why.map_or(Verdict::Unread, lost), effects);
            }
            CentralInput::Tick => self.tick(now, effects),
            CentralInput::Slept => self.slept(now),
            CentralInput::Relaunchable => self.give_up_silent(now, effects),
            // No pending question, or the answer to a question of a predecessor.
            CentralInput::Stored(_) => {}
        }
    }

    /// When the time limit is reached, for a launch that begins now.
    fn limit_from(&self, now: Time) -> Option<Time> {
        let left = self.limit?.saturating_sub(self.spent);
        Some(now.plus_millis(left))
    }

    fn begin(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        self.began = now;
        self.limit_at = self.limit_from(now);
        effects.push(CentralEffect::Persist(Record::Began {
            generation: self.generation,
            incarnations: self.ranks.iter().map(|r| r.incarnation).collect(),
            at: now,
        }));
        for (host, ranks) in self.ranks_by_host().into_iter().enumerate() {
            if ranks.is_empty() {
                self.hosts[host].done = true;
            } else {
                let order = ToLocal::Spawn {
                    generation: self.generation,
                    ranks,
                    hold: self.mode.recovers(),
                };
                effects.push(CentralEffect::Send(host, order));
            }
        }
    }

    fn heard(
        &mut self,
        now: Time,
        host: HostIndex,
        message: ToCentral,
        effects: &mut Vec<CentralEffect>,
    ) {
        match message {
            ToCentral::Spawned { instance, pid } => {
                if let Some(rank) = self.find(host, instance) {
                    rank.pid = pid;
                }
            }
            ToCentral::Registered {
                instance,
                pid,
                card,
                limits,
            } => {
                if self.find(host, instance).is_some() {
                    self.registered(now, instance.rank, (pid, card, limits), effects);
                }
            }
            ToCentral::Imaged { .. }
            | ToCentral::NotImaged { .. }
            | ToCentral::ImageLost { .. }
            | ToCentral::Checkpoint { .. } => self.heard_of_image(now, host, message, effects),
            ToCentral::Counters { instance, counters } => {
                if self.find(host, instance).is_some() {
                    effects.push(CentralEffect::Counters(instance.rank, counters));
                }
            }
            ToCentral::Finalizing { instance } => {
                if let Some(rank) = self.find(host, instance) {
                    rank.stage = rank.stage.max(Stage::Finalizing);
                    if self.phase == Phase::Finalized {
                        self.let_go_alone(instance.rank, effects);
                    } else {
                        self.finalize_when_complete(now, effects);
                    }
                }
            }
            ToCentral::Ended { instance, stage } => self.ended(now, host, instance, stage, effects),
            ToCentral::ExitDetected { instance, .. } => {
                self.exit_detected(now, host, instance, effects)
            }
            ToCentral::ExitStatus {
                instance,
                pid,
                cause,
            } => self.exit_status(now, instance, host, (pid, cause), effects),
            ToCentral::Failed {
                instance,
                pid,
                cause,
            } => {
                if let Some(rank) = self.find(host, instance) {
                    rank.ended = true;
                    self.failed(now, instance.rank, host, pid, cause, effects);
                } else {
                    self.failed_too(now, instance, host, (pid, cause), effects);
                }
            }
            ToCentral::Done => self.host_done(host, effects),
            ToCentral::Renew { number } => self.renewed(now, host, number, effects),
            // No pending question, or the answer to a question of a predecessor.
            ToCentral::Report(_) => {}
        }
    }

    /// A rank called `MPI_Init`; its process id, card and sizes are known.
    fn registered(
        &mut self,
        now: Time,
        rank: Rank,
        (pid, card, limits): (u32, BusinessCard, Limits),
        effects: &mut Vec<CentralEffect>,
    ) {
        if let Some(state) = self.ranks.get_mut(rank.index()) {
            state.pid = pid;
            state.card = Some(card);
            state.limits = Some(limits);
            state.stage = state.stage.max(Stage::Registered);
        }
        self.compare(now, rank, limits, effects);
        self.start_when_complete(now, effects);
        self.start_alone(now, rank, effects);
    }

    /// A rank ended as it should.
    fn ended(
        &mut self,
        now: Time,
        host: HostIndex,
        instance: ProcessInstance,
        stage: Stage,
        effects: &mut Vec<CentralEffect>,
    ) {
        let Some(rank) = self.find(host, instance) else {
            return;
        };
        rank.ended = true;
        rank.stage = rank.stage.max(stage);
        if rank.stage == Stage::Spawned {
            self.absent = self.absent.or(Some(instance.rank));
        }
        self.start_when_complete(now, effects);
    }

    /// Ends the job if a rank goes by other settings than one that registered before it.
    fn compare(&mut self, now: Time, rank: Rank, limits: Limits, effects: &mut Vec<CentralEffect>) {
        // Earlier ranks have equal settings, so one of them represents all.
        let mut others = (0u32..).map(Rank).zip(&self.ranks);
        let known =
            others.find_map(|(other, r)| Some((other, r.limits.filter(|_| other != rank)?)));
        let verdict = known.and_then(|(other, theirs)| {
            let (variable, here, there) = limits.difference(&theirs)?;
            Some(Verdict::Differing {
                variable: variable.into(),
                one: (other, there),
                other: (rank, here),
            })
        });
        if let Some(verdict) = verdict {
            self.decide(now, verdict, effects);
        }
    }

    /// Lets the ranks start once all have registered. A rank that ended without registering can't
    /// come any more, so a wait for it would never end.
    fn start_when_complete(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        if !matches!(self.phase, Phase::Starting | Phase::Restoring(_)) {
            return;
        }
        if let Some(rank) = self.absent {
            let mut numbered = (0u32..).map(Rank).zip(&self.ranks);
            let waiting = numbered.find(|(_, r)| r.stage >= Stage::Registered);
            if let Some((waiting, _)) = waiting {
                return self.decide(now, Verdict::NeverRegistered { rank, waiting }, effects);
            }
        }
        // With many ranks, looking at all of them at each word would take longer than the words.
        let open = |r: &RankState| r.card.is_none();
        let rest = self.ranks[self.complete..].iter().position(open);
        if let Some(more) = rest {
            self.complete += more;
            return;
        }
        let cards = self
            .ranks
            .iter()
            .map(|r| Some((r.incarnation, r.card.clone()?)));
        if let Some(table) = cards.collect::<Option<Vec<_>>>() {
            self.start(now, table, effects);
        }
    }

    fn start(
        &mut self,
        now: Time,
        table: Vec<(Incarnation, BusinessCard)>,
        effects: &mut Vec<CentralEffect>,
    ) {
        let before = std::mem::replace(&mut self.phase, Phase::Running);
        self.complete = 0;
        // The first image is taken without being asked, at the end of MPI_Init.
        let image = match &before {
            Phase::Restoring(GlobalRestore { epoch: Some(_), .. }) => None,
            _ => self.order(now, effects),
        };
        let generation = self.generation;
        effects.push(CentralEffect::Persist(Record::Started {
            generation,
            table: table.clone(),
        }));
        self.spread(
            ToLocal::Start {
                generation,
                table,
                image,
            },
            effects,
        );
        if let Phase::Restoring(restoring) = before {
            self.recovered(now, &restoring, effects);
        }
    }

    fn finalize_when_complete(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        if self.phase != Phase::Running || self.ranks.iter().any(|r| r.stage < Stage::Finalizing) {
            return;
        }
        if !self.mode.recovers() {
            return self.finalize(effects);
        }
        // From the last checkpoint on no rank needs another: each can come back alone.
        self.phase = Phase::Finalizing;
        self.last_checkpoint(now, effects);
    }

    /// Lets all ranks leave `MPI_Finalize`.
    fn finalize(&mut self, effects: &mut Vec<CentralEffect>) {
        self.phase = Phase::Finalized;
        let generation = self.generation;
        let last = self.mode.last_checkpoint();
        effects.push(CentralEffect::Persist(Record::Finalized {
            generation,
            last,
        }));
        self.send_all(|| ToLocal::AllFinalized { generation }, effects);
    }

    fn signal(&mut self, now: Time, signal: i32, effects: &mut Vec<CentralEffect>) {
        let ends = signals::ends(signal);
        if ends && (self.interrupted.is_some() || self.phase == Phase::Ending) {
            // The second one means it.
            if self.failover.is_some() && self.interrupted.is_none() {
                // Nor is the job launched again.
                self.interrupted = Some(signal);
                let input = None;
                effects.push(CentralEffect::Persist(Record::Interrupted {
                    signal,
                    input,
                }));
            }
            self.decide(now, Verdict::Interrupted { signal }, effects);
            return self.send_all(|| ToLocal::Kill, effects);
        }
        if ends {
            self.interrupted = Some(signal);
            let input = None;
            effects.push(CentralEffect::Persist(Record::Interrupted {
                signal,
                input,
            }));
            if matches!(self.phase, Phase::Restoring(_)) {
                // A rank that is being restored would not get the signal.
                return self.decide(now, Verdict::Interrupted { signal }, effects);
            }
        }
        if self.phase != Phase::Ending {
            self.send_all(|| ToLocal::Signal { signal }, effects);
        }
    }

    fn tick(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        if self.phase == Phase::Ending {
            if self.end_at.is_some_and(|at| at <= now) {
                self.end_at = None;
                for (index, host) in self.hosts.iter_mut().enumerate() {
                    if !host.done {
                        host.done = true;
                        effects.push(CentralEffect::Drop(index));
                    }
                }
            }
        } else if self.limit_at.is_some_and(|at| at <= now) {
            let limit = self.limit.unwrap_or_default();
            self.decide(now, Verdict::TimedOut { limit }, effects);
        } else if !self.not_back_tick(now, effects) {
            self.checkpoint_tick(now, effects);
            self.silence_tick(now, effects);
        }
    }

    /// Gives the verdict, unless there is one, and ends everything.
    fn decide(&mut self, now: Time, verdict: Verdict, effects: &mut Vec<CentralEffect>) {
        if self.phase == Phase::Ending {
            return;
        }
        let fresh = self.verdict.is_none();
        let verdict = self.verdict.get_or_insert(verdict).clone();
        effects.push(CentralEffect::Persist(Record::Decided(verdict.clone())));
        if fresh {
            effects.push(CentralEffect::Decided(verdict));
        }
        self.phase = Phase::Ending;
        self.end_all(now, effects);
    }

    /// Tells every host to end.
    fn end_all(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        self.end_at = Some(now.plus_millis(END_BOUND));
        let verdict = self.verdict.as_ref().unwrap_or(&Verdict::Success);
        let why = format!("the job ends: {verdict}");
        self.send_all(|| ToLocal::End { why: why.clone() }, effects);
    }

    /// Gives the verdict, unless there is one, and lets everything continue.
    fn settle(&mut self, verdict: Verdict, effects: &mut Vec<CentralEffect>) {
        if self.verdict.is_none() {
            effects.push(CentralEffect::Persist(Record::Settled(verdict.clone())));
            effects.push(CentralEffect::Decided(verdict.clone()));
            self.verdict = Some(verdict);
        }
    }

    fn close(&mut self, effects: &mut Vec<CentralEffect>) {
        let closed = matches!(self.phase, Phase::Over | Phase::Relaunching(_));
        if closed || self.hosts.iter().any(|h| !h.done) || self.relaunches(effects) {
            return;
        }
        let verdict = self.verdict.get_or_insert(Verdict::Success).clone();
        if verdict == Verdict::Success {
            effects.push(CentralEffect::Persist(Record::Decided(Verdict::Success)));
        }
        self.over(verdict, effects);
    }

    fn over(&mut self, verdict: Verdict, effects: &mut Vec<CentralEffect>) {
        self.phase = Phase::Over;
        effects.push(CentralEffect::Over(verdict));
    }

    fn ranks_by_host(&self) -> Vec<Vec<(Rank, Incarnation)>> {
        let mut hosts = vec![Vec::new(); self.hosts.len()];
        for (rank, state) in (0u32..).map(Rank).zip(&self.ranks) {
            if let Some(ranks) = hosts.get_mut(state.host) {
                ranks.push((rank, state.incarnation));
            }
        }
        hosts
    }

    fn send_all(&self, message: impl Fn() -> ToLocal, effects: &mut Vec<CentralEffect>) {
        for (host, state) in self.hosts.iter().enumerate() {
            if !state.done {
                effects.push(CentralEffect::Send(host, message()));
            }
        }
    }

    /// Sends a message that is too long to be sent to each host separately.
    fn spread(&self, message: ToLocal, effects: &mut Vec<CentralEffect>) {
        let hosts = self.hosts.iter().enumerate().filter(|(_, h)| !h.done);
        let hosts = hosts.map(|(host, _)| host).collect();
        effects.push(CentralEffect::SendAll(hosts, message));
    }

    /// The rank of this instance, unless the news is of an older instance or from the wrong host.
    fn find(&mut self, host: HostIndex, instance: ProcessInstance) -> Option<&mut RankState> {
        let rank = self.ranks.get_mut(instance.rank.0 as usize)?;
        let same = instance.generation == self.generation
            && instance.incarnation == rank.incarnation
            && rank.host == host
            && !rank.ended;
        same.then_some(rank)
    }
}

fn earlier(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    one.into_iter().chain(other).min()
}
