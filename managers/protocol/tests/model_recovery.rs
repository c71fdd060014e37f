//! The cores of central and local managers under a model checker while ranks take images, die, and
//! come back: in every order that few ranks allow, with deaths at any step, in the middle of a
//! checkpoint and of a recovery, and images that die too.
//!
//! The processes here are this model's own: they take images when told, or when a peer is ahead of
//! them, and they speak until they are stopped.

use rejoin_channel_table::{BusinessCard, Epoch, Generation, Incarnation, Rank};
use rejoin_managers_protocol::central::{self, Central, Job, Record, Recovery};
use rejoin_managers_protocol::checkpoint::{Cost, Interval};
use rejoin_managers_protocol::control::{End, Life, Time, ToCentral, ToLocal};
use rejoin_managers_protocol::local::{self, Local};
use rejoin_managers_protocol::policy::Limit;
use rejoin_managers_protocol::rank::{FromManager, Limits, ToManager, VERSION};
use rejoin_managers_protocol::verdict::Verdict;
use stateright::{Checker, Model, Property};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Step {
    BeforeInit,
    /// Back from an image: it has not registered.
    Back,
    WaitsForStart,
    Computes,
    WaitsForAll,
    MayLeave,
    MayExit,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Process {
    life: Life,
    step: Step,
    /// Where it goes on after the start.
    then: Step,
    epoch: Epoch,
    /// An order to take an image.
    order: Option<Epoch>,
    stopping: bool,
    stopped: bool,
    /// It has begun to end, and its manager has noticed.
    dying: bool,
    alive: bool,
    asked: bool,
}

impl Process {
    fn new(life: Life, step: Step, then: Step, epoch: Epoch) -> Process {
        Process {
            life,
            step,
            then,
            epoch,
            order: None,
            stopping: false,
            stopped: false,
            dying: false,
            alive: true,
            asked: false,
        }
    }

    fn acts(&self) -> bool {
        self.alive && !self.stopped && !self.dying
    }

    fn pid(&self) -> u32 {
        100 + self.life.rank.0 * 20 + self.life.incarnation.0
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Wake {
    life: Life,
    epoch: Epoch,
    /// It is to retire as soon as it is there.
    stop: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Host {
    local: Local,
    up: VecDeque<ToCentral>,
    down: VecDeque<ToLocal>,
    sweeping: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct System {
    central: Central,
    hosts: Vec<Host>,
    processes: Vec<Process>,
    /// Images that live, with the step at which they were taken.
    images: BTreeMap<(Rank, Epoch), Step>,
    wakes: Vec<Wake>,
    over: Option<Verdict>,
    stored: Stored,
    /// What went wrong with what was stored.
    hasty: Option<String>,
    crashes: u8,
    lost_images: u8,
    refusals: u8,
    checkpoints: u8,
    recoveries: u8,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Stored {
    ordered: Epoch,
    committed: Option<Epoch>,
    generation: Generation,
    finalized: bool,
    decided: bool,
}

struct Jobs {
    /// Number of hosts; ranks are dealt out to them in turn.
    hosts: usize,
    ranks: u32,
    crashes: u8,
    /// Deaths may be noticed early.
    early: bool,
    lost_images: u8,
    refusals: u8,
    checkpoints: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Action {
    Up(usize),
    Down(usize),
    Advance(usize),
    Image(usize),
    Refuse(usize),
    Crash(usize),
    /// The same, noticed before its end's end.
    Dies(usize),
    /// Which comes now.
    Buried(usize),
    Stop(usize),
    Woken(usize),
    LoseImage(Rank, Epoch),
    Obeys(usize),
    Swept(usize),
    Ask,
    TickLocal(usize),
}

impl System {
    fn host_of(&self, rank: Rank) -> usize {
        rank.index() % self.hosts.len()
    }

    fn central(&mut self, input: central::Input) {
        let mut effects = Vec::new();
        self.central.step(Time(0), input, &mut effects);
        for effect in effects {
            match effect {
                central::Effect::Persist(record) => self.store(record),
                central::Effect::Send(host, order) => {
                    self.check_stored(&order);
                    self.hosts[host].down.push_back(order);
                }
                central::Effect::Event(central::Event::Recovered { .. }) => self.recoveries += 1,
                central::Effect::Event(_) | central::Effect::Decided(_) => {}
                central::Effect::Over(verdict) => self.over = Some(verdict),
                other => panic!("{other:?} in this model"),
            }
        }
    }

    fn store(&mut self, record: Record) {
        match record {
            Record::Ordered { epoch } => {
                assert!(epoch > self.stored.ordered, "an epoch was used twice");
                self.stored.ordered = epoch;
            }
            Record::Committed { epoch } => {
                for rank in 0..self.ranks() {
                    let there = self.images.contains_key(&(Rank(rank), epoch));
                    // One may have died since; that is told after the commit.
                    assert!(there || self.lost_images > 0, "a commit without an image");
                }
                self.stored.committed = Some(epoch);
            }
            Record::Restoring {
                generation, epoch, ..
            } => {
                assert_eq!(
                    epoch, self.stored.committed,
                    "back to what is not the last commit"
                );
                self.stored.generation = generation;
            }
            Record::Finalized { .. } => self.stored.finalized = true,
            Record::Decided(_) => self.stored.decided = true,
            Record::Began { .. } | Record::Started { .. } => {}
        }
    }

    fn check_stored(&mut self, order: &ToLocal) {
        let fine = match order {
            ToLocal::Checkpoint { epoch, .. } => *epoch <= self.stored.ordered,
            ToLocal::Start { image, .. } => image.is_none_or(|e| e <= self.stored.ordered),
            ToLocal::Keep { epoch, .. } => *epoch == self.stored.committed,
            ToLocal::Restore { generation, .. } => *generation == self.stored.generation,
            ToLocal::AllFinalized { .. } => self.stored.finalized,
            ToLocal::End { .. } => self.stored.decided,
            _ => true,
        };
        if !fine {
            self.hasty = Some(format!("{order:?}"));
        }
    }

    fn ranks(&self) -> u32 {
        let ranks: BTreeSet<Rank> = self.processes.iter().map(|p| p.life.rank).collect();
        ranks.len() as u32
    }

    fn local(&mut self, host: usize, input: local::Input) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let mut effects = Vec::new();
            self.hosts[host].local.step(Time(0), input, &mut effects);
            for effect in effects {
                self.perform(host, effect, &mut inputs);
            }
        }
    }

    fn current(&mut self, rank: Rank) -> Option<&mut Process> {
        let of = |p: &&mut Process| p.life.rank == rank;
        self.processes
            .iter_mut()
            .filter(of)
            .max_by_key(|p| p.life.incarnation)
    }

    fn perform(&mut self, host: usize, effect: local::Effect, inputs: &mut VecDeque<local::Input>) {
        match effect {
            local::Effect::Spawn(life) => {
                let process = Process::new(life, Step::BeforeInit, Step::Computes, Epoch(0));
                inputs.push_back(local::Input::Spawned(
                    life.rank,
                    life.incarnation,
                    process.pid(),
                ));
                self.processes.push(process);
            }
            local::Effect::Wake(life, epoch) => self.wakes.push(Wake {
                life,
                epoch,
                stop: false,
            }),
            local::Effect::Retire(rank, incarnation) => self.retire(rank, incarnation, inputs),
            local::Effect::Discard(rank, incarnation) => {
                for process in &mut self.processes {
                    if process.life.rank == rank && process.life.incarnation == incarnation {
                        assert!(!process.acts(), "a discarded one still acts");
                        process.alive &= process.dying;
                    }
                }
            }
            local::Effect::DropImage(rank, epoch) => {
                self.images.remove(&(rank, epoch));
            }
            local::Effect::Central(message) => self.hosts[host].up.push_back(message),
            local::Effect::Ranks(ranks, message) => {
                for rank in ranks {
                    if let Some(process) = self.current(rank).filter(|p| p.alive) {
                        process.hear(&message);
                    }
                }
            }
            local::Effect::SignalAll(_) => {
                let hosts = self.hosts.len();
                for process in &mut self.processes {
                    process.asked |= process.life.rank.index() % hosts == host;
                }
            }
            local::Effect::Sweep => self.hosts[host].sweeping = true,
            local::Effect::Exit => {}
            other => panic!("{other:?} in this model"),
        }
    }

    fn retire(
        &mut self,
        rank: Rank,
        incarnation: Incarnation,
        inputs: &mut VecDeque<local::Input>,
    ) {
        let same = |life: Life| life.rank == rank && life.incarnation == incarnation;
        if let Some(wake) = self.wakes.iter_mut().find(|w| same(w.life)) {
            wake.stop = true;
            return;
        }
        let there = self.processes.iter_mut().find(|p| same(p.life));
        match there.filter(|process| process.alive) {
            Some(process) if process.dying => {
                inputs.push_back(local::Input::Retired(rank, incarnation));
            }
            Some(process) => process.stopping = true,
            None => inputs.push_back(local::Input::Retired(rank, incarnation)),
        }
    }

    fn says(&mut self, index: usize, message: ToManager) {
        let process = &self.processes[index];
        let Life {
            rank, incarnation, ..
        } = process.life;
        let pid = process.pid();
        self.local(
            self.host_of(rank),
            local::Input::Said(rank, incarnation, pid, message),
        );
    }

    fn ended(&mut self, index: usize, end: End) {
        let process = &mut self.processes[index];
        process.alive = false;
        let Life {
            rank, incarnation, ..
        } = process.life;
        let stopping = std::mem::take(&mut process.stopping);
        let host = self.host_of(rank);
        self.local(host, local::Input::ChildEnded(rank, incarnation, end));
        if stopping {
            self.local(host, local::Input::Retired(rank, incarnation));
        }
    }

    /// A process begins to end: it does nothing more, but only the end of that tells how.
    fn dies(&mut self, index: usize) {
        let process = &mut self.processes[index];
        process.dying = true;
        let Life {
            rank, incarnation, ..
        } = process.life;
        let stopping = std::mem::take(&mut process.stopping);
        let host = self.host_of(rank);
        self.local(host, local::Input::Dying(rank, incarnation));
        if stopping {
            self.local(host, local::Input::Retired(rank, incarnation));
        }
    }

    /// The epoch that a process is asked to enter, by order or by a peer that is ahead.
    fn wants(&self, index: usize) -> Option<Epoch> {
        let process = &self.processes[index];
        let peers = self.processes.iter().filter(|p| {
            let ahead = matches!(p.step, Step::Computes | Step::WaitsForAll);
            p.acts() && ahead && p.life.generation == process.life.generation
        });
        let ahead = peers.map(|p| p.epoch).chain(process.order).max()?;
        let inside = matches!(process.step, Step::Computes | Step::WaitsForAll);
        (inside && process.acts() && ahead > process.epoch).then_some(ahead)
    }

    fn image(&mut self, index: usize, refuse: bool) {
        let Some(epoch) = self.wants(index) else {
            return;
        };
        let process = &mut self.processes[index];
        process.epoch = epoch;
        process.order = process.order.filter(|order| *order > epoch);
        let generation = process.life.generation;
        let (rank, step, pid) = (process.life.rank, process.step, process.pid());
        let message = if refuse {
            ToManager::NotImaged {
                generation,
                epoch,
                why: "it has threads".into(),
            }
        } else {
            self.images.insert((rank, epoch), step);
            ToManager::Imaged {
                generation,
                epoch,
                pid: pid + 1000 * epoch.0,
                cost: Cost::default(),
                streams: [true; 2],
                caveats: Vec::new(),
                holds: Default::default(),
            }
        };
        self.says(index, message);
    }

    fn advance(&mut self, index: usize) {
        let process = &mut self.processes[index];
        let life = process.life;
        match process.step {
            Step::BeforeInit | Step::Back => {
                process.step = Step::WaitsForStart;
                let register = ToManager::Register {
                    rank: life.rank,
                    incarnation: life.incarnation,
                    pid: process.pid(),
                    card: BusinessCard::default(),
                    version: VERSION,
                    limits: Limits::default(),
                };
                self.says(index, register);
            }
            Step::Computes => {
                process.step = Step::WaitsForAll;
                self.says(index, ToManager::Finalizing);
            }
            Step::MayLeave => {
                process.step = Step::MayExit;
                self.says(index, ToManager::Leave);
            }
            Step::MayExit => self.ended(index, End::Exited(0)),
            Step::WaitsForStart | Step::WaitsForAll => {}
        }
        self.says_again(index);
    }

    /// A process that was taken back into `MPI_Finalize` says so once it is let go on.
    fn says_again(&mut self, index: usize) {
        let process = &mut self.processes[index];
        if process.step == Step::WaitsForAll && process.then == Step::WaitsForAll {
            process.then = Step::Computes;
            self.says(index, ToManager::Finalizing);
        }
    }

    fn moves(&self, index: usize) -> bool {
        let process = &self.processes[index];
        let again = process.step == Step::WaitsForAll && process.then == Step::WaitsForAll;
        let waits = matches!(process.step, Step::WaitsForStart | Step::WaitsForAll);
        process.acts() && (!waits || again)
    }
}

impl Process {
    fn hear(&mut self, message: &FromManager) {
        match message {
            FromManager::Start {
                generation, image, ..
            } if self.step == Step::WaitsForStart => {
                assert_eq!(*generation, self.life.generation);
                self.step = self.then;
                self.order = self.order.max(*image);
            }
            FromManager::Checkpoint { generation, epoch } => {
                assert_eq!(*generation, self.life.generation);
                self.order = self.order.max(Some(*epoch));
            }
            FromManager::AllFinalized { .. } if self.step == Step::WaitsForAll => {
                self.step = Step::MayLeave;
            }
            FromManager::Stop { .. } => self.asked = true,
            message => panic!("{message:?} to a rank that is {:?}", self.step),
        }
    }
}

impl Model for Jobs {
    type State = System;
    type Action = Action;

    fn init_states(&self) -> Vec<System> {
        let host = || Host {
            local: Local::new(),
            up: VecDeque::new(),
            down: VecDeque::new(),
            sweeping: false,
        };
        let mut system = System {
            central: Central::new(Job {
                generation: Generation(0),
                hosts: (0..self.hosts).map(|n| format!("host{n}")).collect(),
                placement: (0..self.ranks as usize).map(|r| r % self.hosts).collect(),
                limit: None,
                recovery: Some(Recovery {
                    interval: Interval::Asked,
                    limit: Limit::default(),
                }),
            }),
            hosts: (0..self.hosts).map(|_| host()).collect(),
            processes: Vec::new(),
            images: BTreeMap::new(),
            wakes: Vec::new(),
            over: None,
            stored: Stored::default(),
            hasty: None,
            crashes: 0,
            lost_images: 0,
            refusals: 0,
            checkpoints: 0,
            recoveries: 0,
        };
        system.central(central::Input::Begin);
        vec![system]
    }

    fn actions(&self, state: &System, actions: &mut Vec<Action>) {
        for (index, host) in state.hosts.iter().enumerate() {
            if !host.up.is_empty() {
                actions.push(Action::Up(index));
            }
            if !host.down.is_empty() {
                actions.push(Action::Down(index));
            }
            if host.sweeping {
                actions.push(Action::Swept(index));
            }
            if host.local.deadline().is_some() {
                actions.push(Action::TickLocal(index));
            }
        }
        for (index, process) in state.processes.iter().enumerate() {
            if state.moves(index) {
                actions.push(Action::Advance(index));
            }
            if state.wants(index).is_some() {
                actions.push(Action::Image(index));
                if state.refusals < self.refusals {
                    actions.push(Action::Refuse(index));
                }
            }
            if process.acts() && state.crashes < self.crashes && process.step != Step::BeforeInit {
                actions.push(Action::Crash(index));
                if self.early {
                    actions.push(Action::Dies(index));
                }
            }
            if process.alive && process.dying {
                actions.push(Action::Buried(index));
            }
            if process.alive && process.stopping {
                actions.push(Action::Stop(index));
            }
            if process.alive && process.asked {
                actions.push(Action::Obeys(index));
            }
        }
        for index in 0..state.wakes.len() {
            actions.push(Action::Woken(index));
        }
        if state.lost_images < self.lost_images && state.over.is_none() {
            let lose = |(rank, epoch): &(Rank, Epoch)| Action::LoseImage(*rank, *epoch);
            actions.extend(state.images.keys().map(lose));
        }
        if state.checkpoints < self.checkpoints && state.over.is_none() {
            actions.push(Action::Ask);
        }
    }

    fn next_state(&self, last: &System, action: Action) -> Option<System> {
        let mut state = last.clone();
        match action {
            Action::Up(host) => {
                let message = state.hosts[host].up.pop_front()?;
                state.central(central::Input::Local(host, message));
            }
            Action::Down(host) => {
                let order = state.hosts[host].down.pop_front()?;
                state.local(host, local::Input::Central(order));
            }
            Action::Advance(index) => state.advance(index),
            Action::Image(index) => state.image(index, false),
            Action::Refuse(index) => {
                state.refusals += 1;
                state.image(index, true);
            }
            Action::Crash(index) => {
                state.crashes += 1;
                state.ended(index, End::Signaled(9));
            }
            Action::Dies(index) => {
                state.crashes += 1;
                state.dies(index);
            }
            Action::Buried(index) => {
                state.processes[index].dying = false;
                state.ended(index, End::Signaled(9));
            }
            Action::Stop(index) => {
                let process = &mut state.processes[index];
                process.stopped = true;
                process.stopping = false;
                let Life {
                    rank, incarnation, ..
                } = process.life;
                let host = state.host_of(rank);
                state.local(host, local::Input::Retired(rank, incarnation));
            }
            Action::Woken(index) => state.woken(index),
            Action::LoseImage(rank, epoch) => {
                state.lost_images += 1;
                state.images.remove(&(rank, epoch));
                let host = state.host_of(rank);
                state.local(host, local::Input::ImageEnded(rank, epoch));
            }
            Action::Obeys(index) => state.ended(index, End::Signaled(15)),
            Action::Swept(host) => {
                state.hosts[host].sweeping = false;
                state.local(host, local::Input::Swept);
            }
            Action::Ask => {
                state.checkpoints += 1;
                state.central(central::Input::Checkpoint);
            }
            Action::TickLocal(host) => state.tick_local(host),
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::eventually("the job ends", |_, s: &System| s.over.is_some()),
            Property::always("no two incarnations of a rank act", |_, s: &System| {
                let acting = s.processes.iter().filter(|p| p.acts());
                let mut ranks: Vec<_> = acting.map(|p| p.life.rank).collect();
                ranks.sort();
                ranks.windows(2).all(|two| two[0] != two[1])
            }),
            Property::always(
                "who computes in a generation is in one history",
                |_, s: &System| {
                    let inside = |p: &&Process| {
                        p.acts() && matches!(p.step, Step::Computes | Step::WaitsForAll)
                    };
                    // A rank that is alone behind in generations is stopped or about to be.
                    let newest = s
                        .processes
                        .iter()
                        .filter(inside)
                        .map(|p| p.life.generation)
                        .max();
                    let of = |p: &&Process| Some(p.life.generation) == newest;
                    let epochs = s
                        .processes
                        .iter()
                        .filter(inside)
                        .filter(of)
                        .map(|p| p.epoch);
                    epochs
                        .into_iter()
                        .all(|e| Some(e) >= s.stored.committed || e == Epoch(0))
                        || s.stored.finalized
                },
            ),
            Property::always("what is done is stored before", |_, s: &System| {
                s.hasty.is_none()
            }),
            Property::always("a failure has a cause", |m: &Jobs, s: &System| {
                let early = s.crashes > 1 || m.refusals > 0;
                let cause = s.lost_images > 0 || early;
                matches!(s.over, None | Some(Verdict::Success)) || cause
            }),
            Property::always("nothing outlives the job", |_, s: &System| {
                s.over.is_none() || s.processes.iter().all(|p| !p.acts())
            }),
            Property::sometimes("it succeeds after a recovery", |_, s: &System| {
                s.over == Some(Verdict::Success) && s.recoveries > 0
            }),
        ]
    }
}

impl System {
    fn woken(&mut self, index: usize) {
        let wake = self.wakes.remove(index);
        let Life {
            rank, incarnation, ..
        } = wake.life;
        let host = self.host_of(rank);
        let Some(step) = self.images.get(&(rank, wake.epoch)).copied() else {
            let why = "its image is gone".to_string();
            self.local(host, local::Input::NotStarted(rank, incarnation, why));
            if wake.stop {
                self.local(host, local::Input::Retired(rank, incarnation));
            }
            return;
        };
        let mut process = Process::new(wake.life, Step::Back, step, wake.epoch);
        process.stopped = wake.stop;
        let pid = process.pid();
        self.processes.push(process);
        self.local(host, local::Input::Spawned(rank, incarnation, pid));
        if wake.stop {
            self.local(host, local::Input::Retired(rank, incarnation));
        }
    }
}

impl System {
    fn tick_local(&mut self, host: usize) {
        let Some(at) = self.hosts[host].local.deadline() else {
            return;
        };
        let mut effects = Vec::new();
        self.hosts[host]
            .local
            .step(at, local::Input::Tick, &mut effects);
        let mut inputs = VecDeque::new();
        for effect in effects {
            self.perform(host, effect, &mut inputs);
        }
        for input in inputs {
            self.local(host, input);
        }
    }
}

fn check(jobs: Jobs) {
    let checker = jobs.checker().threads(2).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    checker.assert_properties();
}

#[test]
fn two_ranks_and_two_deaths() {
    check(Jobs {
        hosts: 1,
        ranks: 2,
        crashes: 2,
        early: false,
        lost_images: 0,
        refusals: 0,
        checkpoints: 0,
    });
}

#[test]
fn a_death_and_a_checkpoint_of_two_hosts() {
    check(Jobs {
        hosts: 2,
        ranks: 2,
        crashes: 1,
        early: true,
        lost_images: 0,
        refusals: 0,
        checkpoints: 1,
    });
}

#[test]
fn images_that_die_or_cannot_be_taken() {
    check(Jobs {
        hosts: 1,
        ranks: 2,
        crashes: 1,
        early: false,
        lost_images: 1,
        refusals: 1,
        checkpoints: 0,
    });
}

#[test]
fn two_deaths_that_are_noticed_early() {
    check(Jobs {
        hosts: 1,
        ranks: 2,
        crashes: 2,
        early: true,
        lost_images: 0,
        refusals: 0,
        checkpoints: 0,
    });
}
