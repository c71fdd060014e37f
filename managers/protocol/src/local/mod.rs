//! The local manager's core: one host's ranks, from their start to their end.
//!
//! The driver starts processes, moves bytes and knows clocks; everything that is decided is decided
//! here. A rank is at its end when the process that the driver started has ended and so has the one
//! that called `MPI_Init`, which differ under a wrapper. Its images outlive it.

mod exits;
mod images;
mod lease;
mod lookups;
mod report;
mod restore;

mod process;

use crate::broadcast::Peer;
use crate::control::{Cause, End, ProcessExit, ProcessInstance, Stage, Time, ToCentral, ToLocal};
use crate::lease::Holder;
use crate::lookup;
use crate::signals::{self, CONT, KILL, TERM};
use lookups::HostLookups;
use process::{RankProcess, one_line, presentable, unfit};
use rejoin_channel_table::{Epoch, Generation, Incarnation, Rank};
use rejoin_wire::{FromManager, ToManager};
use restore::{LocalRestore, Retire};

/// Milliseconds between the polite signal and SIGKILL.
pub const GRACE: u64 = 200;

/// Milliseconds that a wrapper has to pass on how its rank ended.
pub const WRAPPER_GRACE: u64 = 100;

/// Milliseconds that a process has to call `MPI_Init` after the one that was started has left it
/// behind and ended well, as `setsid` does.
pub const FORK_GRACE: u64 = 5000;

/// Milliseconds that a rank has to end after it closed its socket.
pub const CLOSED_GRACE: u64 = 1000;

/// An input of the driver to the core.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LocalInput {
    /// Central said this.
    Central(ToLocal),
    /// The link to central is gone: the job is over.
    CentralLost,
    /// A process was started.
    Spawned(Rank, Incarnation, u32),
    /// A process could not be started.
    NotStarted(Rank, Incarnation, String),
    /// A rank said this; the kernel says that this process did.
    Said(Rank, Incarnation, u32, ToManager),
    /// Malformed bytes came from a rank.
    Malformed(Rank, Incarnation, String),
    /// A rank closed its socket (or all that held it ended).
    Closed(Rank, Incarnation),
    /// The process that the driver started has begun to end and does nothing more.
    ExitDetected(Rank, Incarnation),
    /// The process that the driver started ended.
    ChildEnded(Rank, Incarnation, End),
    /// The process that registered, another one, ended.
    CallerEnded(Rank, Incarnation, End),
    /// A process that was to retire can do nothing any more, and all that it wrote has been taken.
    Retired(Rank, Incarnation),
    /// A rank's image of this epoch ended.
    ImageEnded(Rank, Epoch),
    /// Another manager, or central, says this of where ranks are.
    Looked(Peer, lookup::LookupMessage),
    /// The deadline may have come.
    Tick,
    /// The sweep is over: no process is left.
    Swept,
}

/// An effect for the driver, which carries out effects in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalEffect {
    /// Start this process instance; answer with `Spawned` or `NotStarted`.
    Spawn(ProcessInstance),
    /// Stop this process instance and its descendants, and take all that it has written; answer
    /// with `Retired`.
    Retire(Rank, Incarnation),
    /// Have the rank's image of this epoch make this process instance; answer with `Spawned` or
    /// `NotStarted`.
    Wake(ProcessInstance, Epoch),
    /// End a retired process, and drop all that belongs to it.
    Discard(Rank, Incarnation),
    /// Drop an image.
    DropImage(Rank, Epoch),
    /// Tell the user once which state an image of this rank can't restore.
    Caveats(Rank, Vec<String>),
    /// Show the user this message of a rank: in any case, or only who wants to know how things go.
    Note(Rank, bool, String),
    /// Tell central.
    Central(ToCentral),
    /// Tell these ranks.
    Ranks(Vec<Rank>, FromManager),
    /// Tell another manager, or central, of where ranks are.
    Look(Peer, lookup::LookupMessage),
    /// Watch this process, which registered and is not the one that was started.
    Watch(Rank, Incarnation, u32),
    /// Suspend all present processes of ranks; nothing of them acts any more.
    StopAll,
    /// Have them continue.
    ContinueAll,
    /// Send this signal to the process group of this rank.
    SignalGroup(Rank, i32),
    /// Send this signal to the process of this rank that registered and is not the one that was
    /// started.
    SignalCaller(Rank, i32),
    /// Send this signal to every process below this one.
    SignalAll(i32),
    /// End the remaining processes below this one, answer with `Swept`.
    Sweep,
    /// Nothing is left to do.
    Exit,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Running,
    /// Asked to end; SIGKILL follows at the deadline.
    Ending(Option<Time>),
    Sweeping,
    /// No process is left; central has not confirmed that it has stored this.
    Done,
    Over,
}

/// State of one host's local manager.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Local {
    generation: Generation,
    phase: Phase,
    /// In rank order.
    ranks: Vec<RankProcess>,
    central: bool,
    /// Failed ranks keep their place until central has said how to continue.
    hold: bool,
    restoring: Option<LocalRestore>,
    /// The last signal of those that ask programs to end that was passed on.
    signalled: Option<i32>,
    /// Exits that were not all to be expected, until central has acknowledged them.
    exits: Vec<ProcessExit>,
    /// Central was started again: images that it drops next were not abandoned for a reason.
    resumed: bool,
    /// The highest number that was given up for a reason.
    refused: Epoch,
    /// Processes that have retired and are still there.
    retired: Vec<(Rank, Incarnation)>,
    /// The checkpoint that counts.
    kept: Option<Epoch>,
    /// Images up to this one count only if kept.
    abandoned: Epoch,
    /// Of a host that is reached over a network.
    lease: Option<Holder>,
    /// The order to start ranks, until there is a lease.
    awaits_lease: Option<ToLocal>,
    /// Of a job whose ranks look cards up.
    lookups: Option<HostLookups>,
}

impl Default for Local {
    fn default() -> Self {
        Self::new()
    }
}

impl Local {
    /// A local manager with no ranks yet.
    #[must_use]
    pub fn new() -> Self {
        Local {
            generation: Generation(0),
            phase: Phase::Idle,
            ranks: Vec::new(),
            central: true,
            hold: false,
            restoring: None,
            signalled: None,
            exits: Vec::new(),
            resumed: false,
            refused: Epoch(0),
            retired: Vec::new(),
            kept: None,
            abandoned: Epoch(0),
            lease: None,
            awaits_lease: None,
            lookups: None,
        }
    }

    /// When the driver must send [`LocalInput::Tick`] at the latest.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let grace = match self.phase {
            Phase::Ending(at) => at,
            _ => None,
        };
        self.ranks
            .iter()
            .filter_map(|r| r.suspect)
            .chain(grace)
            .chain(self.lease.as_ref().and_then(Holder::deadline))
            .chain(self.lookups.as_ref().and_then(HostLookups::deadline))
            .min()
    }

    /// Every process of the job on this host has ended and central knows it.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// One step.
    pub fn step(&mut self, now: Time, input: LocalInput, effects: &mut Vec<LocalEffect>) {
        self.lease_tick(now, effects);
        match input {
            LocalInput::Central(order) => self.order(now, order, effects),
            LocalInput::CentralLost => self.abandoned_by_central(effects),
            LocalInput::Spawned(rank, incarnation, pid) => {
                self.spawned(rank, incarnation, pid, effects)
            }
            LocalInput::NotStarted(rank, incarnation, why) => {
                if let Some(process) = self.find(rank, incarnation) {
                    process.child_end = Some(End::Unknown);
                    self.fail(rank, incarnation, Cause::NotStarted { why }, effects);
                }
            }
            LocalInput::Said(asker, incarnation, _, ToManager::LookUp { rank, least }) => {
                let instance = self.instance(asker, incarnation);
                self.looks_up(now, instance, rank, least, effects);
            }
            LocalInput::Looked(from, message) => self.looked(now, from, message, effects),
            LocalInput::Said(rank, incarnation, pid, message) => {
                self.said(rank, incarnation, pid, message, effects);
            }
            LocalInput::Malformed(rank, incarnation, why) => {
                self.fail(rank, incarnation, Cause::Misbehaved { why }, effects);
            }
            LocalInput::Closed(rank, incarnation) => {
                if let Some(process) = self.find(rank, incarnation) {
                    process.closed = true;
                    let waits = matches!(process.stage, Stage::Registered | Stage::Finalizing);
                    if waits && process.suspect.is_none() {
                        process.suspect = Some(now.plus_millis(CLOSED_GRACE));
                    } else if process.stage == Stage::Spawned && process.child_end.is_some() {
                        self.judge(rank, incarnation, effects);
                    }
                }
            }
            LocalInput::ExitDetected(rank, incarnation) => {
                self.exit_detected(rank, incarnation, effects)
            }
            LocalInput::ChildEnded(rank, incarnation, end) => {
                if !self.exit_status(rank, incarnation, end, effects) {
                    self.child_ended(now, rank, incarnation, end, effects);
                }
            }
            LocalInput::CallerEnded(rank, incarnation, end) => {
                if let Some(process) = self.find(rank, incarnation) {
                    process.caller_end = Some(end);
                    if end == End::Unknown && process.child_end.is_none() {
                        process.suspect = Some(now.plus_millis(WRAPPER_GRACE));
                    } else {
                        self.judge(rank, incarnation, effects);
                    }
                }
            }
            LocalInput::Retired(rank, incarnation) => self.has_retired(rank, incarnation, effects),
            LocalInput::ImageEnded(rank, epoch) => self.image_ended(rank, epoch, effects),
            LocalInput::Tick => self.tick(now, effects),
            LocalInput::Swept => {
                if self.phase == Phase::Sweeping {
                    self.phase = Phase::Done;
                    self.tell(ToCentral::Done, effects);
                    if !self.central {
                        self.leave(effects);
                    }
                }
            }
        }
        self.sweep_when_empty(effects);
    }

    fn spawned(
        &mut self,
        rank: Rank,
        incarnation: Incarnation,
        pid: u32,
        effects: &mut Vec<LocalEffect>,
    ) {
        if let Some(process) = self.find(rank, incarnation) {
            process.child = Some(pid);
            let instance = self.instance(rank, incarnation);
            self.tell(ToCentral::Spawned { instance, pid }, effects);
        }
        if self.is_suspended() {
            // It was on its way when the lease ended.
            effects.push(LocalEffect::StopAll);
        }
        // A process that was being started when all got the order to end has not received it.
        match self.phase {
            Phase::Ending(Some(_)) => effects.push(LocalEffect::SignalAll(TERM)),
            Phase::Ending(None) => effects.push(LocalEffect::SignalAll(KILL)),
            _ => {}
        }
    }

    /// The job begins on this host, as soon as anything may run here.
    fn begin(&mut self, order: ToLocal, effects: &mut Vec<LocalEffect>) {
        if self.is_suspended() {
            self.awaits_lease = Some(order);
            return;
        }
        let ToLocal::Spawn {
            generation,
            ranks,
            hold,
        } = order
        else {
            return;
        };
        self.phase = Phase::Running;
        self.hold = hold;
        self.generation = generation;
        for (rank, incarnation) in ranks {
            self.ranks
                .push(RankProcess::new(self.instance(rank, incarnation)));
            effects.push(LocalEffect::Spawn(self.instance(rank, incarnation)));
        }
        self.ranks.sort_by_key(|r| r.instance.rank);
    }

    /// The job starts anew before any rank has been started here.
    fn begin_in(&mut self, later: Generation, anew: Vec<(Rank, Incarnation)>) {
        if let Some(ToLocal::Spawn {
            generation, ranks, ..
        }) = &mut self.awaits_lease
            && *generation < later
        {
            (*generation, *ranks) = (later, anew);
        }
    }

    fn order(&mut self, now: Time, order: ToLocal, effects: &mut Vec<LocalEffect>) {
        match order {
            ToLocal::Leave => self.leave(effects),
            // The asking central manager has not received it.
            ToLocal::Report | ToLocal::End { .. } | ToLocal::Kill if self.phase == Phase::Done => {
                self.tell(ToCentral::Done, effects);
            }
            ToLocal::Granted { number } => self.granted(now, number, effects),
            ToLocal::Spawn { .. } if self.phase == Phase::Idle => self.begin(order, effects),
            ToLocal::Start {
                generation,
                table,
                image,
            } if generation == self.generation && self.phase == Phase::Running => {
                self.take_table(generation, table, image, effects);
            }
            ToLocal::Begin {
                generation,
                process_map,
                image,
            } if generation == self.generation && self.phase == Phase::Running => {
                self.begin_without_table(generation, process_map, image, effects);
            }
            ToLocal::Checkpoint { generation, epoch } if generation == self.generation => {
                let to = self.listening(&[Stage::Registered, Stage::Finalizing]);
                let order = FromManager::Checkpoint { generation, epoch };
                effects.push(LocalEffect::Ranks(to, order));
            }
            ToLocal::Keep {
                generation,
                epoch,
                abandoned,
            } if generation == self.generation => self.keep(epoch, abandoned, effects),
            ToLocal::Restore {
                generation,
                epoch,
                ranks,
            } if self.phase == Phase::Running && generation >= self.generation => {
                self.restore(generation, epoch, ranks, effects);
            }
            ToLocal::Restore {
                generation, ranks, ..
            } if self.awaits_lease.is_some() => self.begin_in(generation, ranks),
            ToLocal::Release { instance } => self.release(instance),
            ToLocal::AllFinalized { generation } if generation == self.generation => {
                self.all_finalized(effects);
            }
            ToLocal::Signal { signal } => self.pass_signal(signal, effects),
            ToLocal::End { why } if matches!(self.phase, Phase::Idle | Phase::Running) => {
                self.end(now, why, effects);
            }
            ToLocal::Kill => self.kill(effects),
            ToLocal::Report => self.report(effects),
            ToLocal::Acknowledged { instance } => self.acknowledged(instance),
            // Stale news of an older generation, or an order that came twice.
            ToLocal::Spawn { .. }
            | ToLocal::Start { .. }
            | ToLocal::Begin { .. }
            | ToLocal::Checkpoint { .. }
            | ToLocal::Keep { .. }
            | ToLocal::Restore { .. }
            | ToLocal::AllFinalized { .. }
            | ToLocal::End { .. } => {}
        }
    }

    /// The job is over: orders every process to end.
    fn end(&mut self, now: Time, why: String, effects: &mut Vec<LocalEffect>) {
        if self.is_suspended() {
            // A suspended process can't end politely.
            return self.kill(effects);
        }
        let to = self.listening(&[Stage::Registered, Stage::Finalizing]);
        effects.push(LocalEffect::Ranks(to, FromManager::Stop { why }));
        effects.push(LocalEffect::SignalAll(TERM));
        // A stopped process takes no other signal but SIGKILL.
        effects.push(LocalEffect::SignalAll(CONT));
        // No successor comes any more.
        self.restoring = None;
        self.phase = Phase::Ending(Some(now.plus_millis(GRACE)));
    }

    /// Sends a signal on to the ranks' process groups.
    fn pass_signal(&mut self, signal: i32, effects: &mut Vec<LocalEffect>) {
        if self.is_suspended() {
            // It must not wake anybody. One that ends the job is given by hand again.
            return;
        }
        if signals::ends(signal) {
            self.signalled = Some(signal);
        }
        for process in self.ranks.iter().filter(|r| !r.ended()) {
            // A process that has left the process group of the started process gets the signal
            // separately.
            let to = match process.child_end {
                None => LocalEffect::SignalGroup,
                Some(_) => LocalEffect::SignalCaller,
            };
            effects.push(to(process.instance.rank, signal));
            if signals::ends(signal) {
                // A stopped process would keep it pending.
                effects.push(to(process.instance.rank, CONT));
            }
        }
    }

    /// Every rank has registered: those that wait for that continue.
    fn start(&mut self, start: FromManager, effects: &mut Vec<LocalEffect>) {
        let mut to = self.listening(&[Stage::Registered, Stage::Finalizing]);
        to.retain(|rank| {
            let process = self.ranks.iter_mut().find(|r| r.instance.rank == *rank);
            process.is_some_and(|process| std::mem::take(&mut process.waits))
        });
        effects.push(LocalEffect::Ranks(to, start));
        self.discard_retired(effects);
    }

    /// Every rank is in `MPI_Finalize`.
    fn all_finalized(&mut self, effects: &mut Vec<LocalEffect>) {
        let generation = self.generation;
        let to = self.listening(&[Stage::Finalizing]);
        for process in &mut self.ranks {
            if process.stage == Stage::Finalizing {
                process.stage = Stage::Finalized;
            }
        }
        effects.push(LocalEffect::Ranks(
            to,
            FromManager::AllFinalized { generation },
        ));
    }

    fn said(
        &mut self,
        rank: Rank,
        incarnation: Incarnation,
        pid: u32,
        message: ToManager,
        effects: &mut Vec<LocalEffect>,
    ) {
        let instance = self.instance(rank, incarnation);
        let Some(process) = self
            .find(rank, incarnation)
            .filter(|process| !process.is_retiring())
        else {
            if let ToManager::Imaged { epoch, .. } = message {
                effects.push(LocalEffect::DropImage(rank, epoch));
            }
            return;
        };
        let stage = process.stage;
        match message {
            ToManager::Imaged { .. } | ToManager::NotImaged { .. } => {
                self.said_of_image(instance, stage, message, effects);
            }
            ToManager::Checkpoint { after } if stage == Stage::Registered => {
                self.asked_for(instance, after, effects);
            }
            ToManager::Register { .. } if stage == Stage::Spawned => {
                self.register(instance, pid, message, effects);
            }
            // The driver tells mpirun, in its place among the output.
            ToManager::Stored { .. } => {}
            ToManager::Note { important, text } => Self::note(rank, important, &text, effects),
            ToManager::Finalizing if stage == Stage::Registered => {
                process.stage = Stage::Finalizing;
                self.tell(ToCentral::Finalizing { instance }, effects);
            }
            ToManager::Counters { counters } if stage == Stage::Finalized => {
                let counters = presentable(counters);
                self.tell(ToCentral::Counters { instance, counters }, effects);
            }
            ToManager::Leave if stage == Stage::Finalized => {
                process.stage = Stage::Left;
                process.suspect = None;
            }
            ToManager::Abort { code, why } => {
                let why = one_line(&why);
                self.fail(rank, incarnation, Cause::Aborted { code, why }, effects);
            }
            ToManager::Register { .. } => {
                let why = "a second process of this rank called MPI_Init".to_string();
                self.fail(rank, incarnation, Cause::Misbehaved { why }, effects);
            }
            ToManager::Checkpoint { .. }
            | ToManager::Finalizing
            | ToManager::Counters { .. }
            | ToManager::LookUp { .. }
            | ToManager::Leave => {
                let said = match message {
                    ToManager::Checkpoint { .. } => "Checkpoint",
                    ToManager::Finalizing => "Finalizing",
                    ToManager::Leave => "Leave",
                    ToManager::LookUp { .. } => "LookUp",
                    _ => "Counters",
                };
                let why = format!("it said {said} when it was {stage:?}");
                self.fail(rank, incarnation, Cause::Misbehaved { why }, effects);
            }
        }
    }

    /// A rank has a line for the user.
    fn note(rank: Rank, important: bool, text: &str, effects: &mut Vec<LocalEffect>) {
        effects.push(LocalEffect::Note(rank, important, one_line(text)));
    }

    /// The process that called `MPI_Init` is there.
    fn register(
        &mut self,
        instance: ProcessInstance,
        pid: u32,
        message: ToManager,
        effects: &mut Vec<LocalEffect>,
    ) {
        let ToManager::Register {
            rank: said,
            incarnation: also,
            card,
            version,
            limits,
            ..
        } = message
        else {
            return;
        };
        let (rank, incarnation) = (instance.rank, instance.incarnation);
        if let Some(why) = unfit(said, also, version, instance) {
            return self.fail(rank, incarnation, Cause::Misbehaved { why }, effects);
        }
        let Some(process) = self.find(rank, incarnation) else {
            return;
        };
        process.stage = Stage::Registered;
        process.suspect = None;
        process.waits = true;
        process.card = Some(card.clone());
        process.limits = Some(limits);
        if process.child != Some(pid) {
            process.caller = Some(pid);
            effects.push(LocalEffect::Watch(rank, incarnation, pid));
        }
        self.learn_of(instance, card.clone(), effects);
        let news = ToCentral::Registered {
            instance,
            pid,
            card,
            limits,
        };
        self.tell(news, effects);
    }

    /// The process that was started ended, and its exit was not detected before.
    fn child_ended(
        &mut self,
        now: Time,
        rank: Rank,
        incarnation: Incarnation,
        end: End,
        effects: &mut Vec<LocalEffect>,
    ) {
        let Some(process) = self.find(rank, incarnation) else {
            return;
        };
        process.child_end = Some(end);
        if process.may_have_forked() {
            process.suspect = Some(now.plus_millis(FORK_GRACE));
        } else {
            self.judge(rank, incarnation, effects);
        }
    }

    /// Decides about a rank of which a process ended.
    fn judge(&mut self, rank: Rank, incarnation: Incarnation, effects: &mut Vec<LocalEffect>) {
        let instance = self.instance(rank, incarnation);
        let Some(process) = self.find(rank, incarnation) else {
            return;
        };
        // One that came back has been an MPI process all along.
        let stage = match process.stage {
            Stage::Spawned if process.from_image => Stage::Registered,
            stage => stage,
        };
        if let Some(end) = process.failure() {
            return self.fail(rank, incarnation, Cause::Ended { end, stage }, effects);
        }
        if process.ended() && !process.is_reported() && !process.is_retiring() {
            process.end_well();
            process.suspect = None;
            self.tell(ToCentral::Ended { instance, stage }, effects);
        }
    }

    fn tick(&mut self, now: Time, effects: &mut Vec<LocalEffect>) {
        self.ask_again(now, effects);
        if let Phase::Ending(Some(at)) = self.phase
            && at <= now
        {
            self.kill(effects);
        }
        let due: Vec<_> = self
            .ranks
            .iter()
            .filter(|r| r.suspect.is_some_and(|at| at <= now))
            .map(|r| {
                (
                    r.instance.rank,
                    r.instance.incarnation,
                    r.caller_end,
                    r.stage,
                )
            })
            .collect();
        for (rank, incarnation, caller_end, stage) in due {
            if let Some(process) = self.find(rank, incarnation) {
                process.suspect = None;
            }
            if stage == Stage::Spawned {
                let text = "the process that mpirun started has ended, and what it left behind has \
                            not called MPI_Init: that is ended with the job";
                Self::note(rank, true, text, effects);
            }
            if caller_end.is_some() || stage == Stage::Spawned {
                self.judge(rank, incarnation, effects);
            } else if stage < Stage::Finalized {
                let why = "it closed its socket to the manager before MPI_Finalize".to_string();
                self.fail(rank, incarnation, Cause::Misbehaved { why }, effects);
            }
        }
    }

    fn kill(&mut self, effects: &mut Vec<LocalEffect>) {
        if !matches!(self.phase, Phase::Sweeping | Phase::Done | Phase::Over) {
            self.restoring = None;
            self.phase = Phase::Ending(None);
            effects.push(LocalEffect::SignalAll(KILL));
        }
    }

    /// Central does not come back: the rest of the job on this host ends.
    fn abandoned_by_central(&mut self, effects: &mut Vec<LocalEffect>) {
        self.central = false;
        self.kill(effects);
        self.leave(effects);
    }

    /// This local manager is no longer needed if every process of the job has ended.
    fn leave(&mut self, effects: &mut Vec<LocalEffect>) {
        if self.phase == Phase::Done {
            self.phase = Phase::Over;
            effects.push(LocalEffect::Exit);
        }
    }

    fn sweep_when_empty(&mut self, effects: &mut Vec<LocalEffect>) {
        let ending = matches!(self.phase, Phase::Ending(_));
        // A failed rank holds the host until central has decided how to continue.
        let held = |r: &RankProcess| self.hold && (r.is_lost() || r.is_retiring());
        let settled = |r: &RankProcess| r.ended() && (ending || (r.is_reported() && !held(r)));
        // Nor may it be gone before central has stored how its ranks ended.
        let told = !self.hold || self.exits.is_empty();
        let busy = ending || (self.phase == Phase::Running && !self.ranks.is_empty() && told);
        if busy && self.ranks.iter().all(settled) {
            for process in &mut self.ranks {
                process.suspect = None;
            }
            self.phase = Phase::Sweeping;
            effects.push(LocalEffect::Sweep);
        }
    }

    fn listening(&self, stages: &[Stage]) -> Vec<Rank> {
        let open = |r: &&RankProcess| !r.closed && stages.contains(&r.stage);
        self.ranks
            .iter()
            .filter(open)
            .map(|r| r.instance.rank)
            .collect()
    }

    fn tell(&self, message: ToCentral, effects: &mut Vec<LocalEffect>) {
        if self.central {
            effects.push(LocalEffect::Central(message));
        }
    }

    fn instance(&self, rank: Rank, incarnation: Incarnation) -> ProcessInstance {
        ProcessInstance {
            generation: self.generation,
            rank,
            incarnation,
        }
    }

    fn find(&mut self, rank: Rank, incarnation: Incarnation) -> Option<&mut RankProcess> {
        let index = self
            .ranks
            .binary_search_by_key(&rank, |r| r.instance.rank)
            .ok()?;
        self.ranks
            .get_mut(index)
            .filter(|r| r.instance.incarnation == incarnation)
    }
}
