//! The cores of central and local managers under a model checker: start, finalize, failures,
//! aborts, lost managers, signals and the time limit. The checker tries every order that two hosts
//! with few ranks allow.

use rejoin_channel_table::{BusinessCard, Generation, Incarnation, Rank};
use rejoin_managers_protocol::central::{self, Central, Job, Record};
use rejoin_managers_protocol::local::{self, Local};
use rejoin_managers_protocol::manager_messages::{End, ProcessInstance, Time, ToCentral, ToLocal};
use rejoin_managers_protocol::verdict::Verdict;
use rejoin_wire::{FromManager, Limits, ToManager, VERSION};
use stateright::{Checker, Model, Property};
use std::collections::{BTreeSet, VecDeque};

/// Any but the first, so that a constant in the code would be found.
const GENERATION: Generation = Generation(3);

/// The next step of a rank's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Step {
    NotThere,
    BeforeInit,
    WaitsForStart,
    Computes,
    WaitsForAll,
    MayLeave,
    MayExit,
    Dead,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Process {
    step: Step,
    /// Never calls `MPI_Init`.
    without_mpi: bool,
    /// Was sent SIGTERM or told to stop; it may end of it.
    asked: bool,
    /// Was sent SIGKILL.
    killed: bool,
    /// It exited with 0 as a program should.
    well: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Host {
    local: Local,
    up: VecDeque<ToCentral>,
    down: VecDeque<ToLocal>,
    sweeping: bool,
    lost: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct System {
    central: Central,
    hosts: Vec<Host>,
    ranks: Vec<Process>,
    decided: Vec<Verdict>,
    over: Vec<Verdict>,
    faults: u8,
    signals: u8,
    timed_out: bool,
    /// The records that would be found after central's death.
    stored: Stored,
    /// Something was done before it was stored.
    hasty: bool,
    differing: Option<usize>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Stored {
    began: bool,
    started: bool,
    finalized: bool,
    verdict: Option<Verdict>,
    left: BTreeSet<usize>,
}

impl Stored {
    fn store(&mut self, record: Record) {
        match record {
            Record::Began { .. } => self.began = true,
            Record::Started { .. } => self.started = true,
            Record::Finalized { .. } => self.finalized = true,
            Record::HostDone(host) => {
                self.left.insert(host);
            }
            Record::Decided(verdict) | Record::Settled(verdict) => self.verdict = Some(verdict),
            Record::Memory(_) | Record::Interrupted { .. } | Record::Passed { .. } => {}
            Record::Requested { .. }
            | Record::Committed { .. }
            | Record::RegionsNumbered { .. }
            | Record::RegionsCommitted { .. }
            | Record::Return(_)
            | Record::MoveNumbered(_)
            | Record::GroupCommitted { .. }
            | Record::Stopping { .. }
            | Record::Moving { .. }
            | Record::Moved { .. }
            | Record::Draining(_)
            | Record::HostAdded { .. } => {
                panic!("nothing is recovered in this model")
            }
        }
    }

    /// The order can't surprise a central manager that reads this.
    fn covers(&self, host: usize, order: &ToLocal) -> bool {
        match order {
            ToLocal::Spawn { .. } => self.began,
            ToLocal::Start { .. } => self.started,
            ToLocal::AllFinalized { .. } => self.finalized,
            ToLocal::End { .. } => self.verdict.is_some(),
            ToLocal::Leave => self.left.contains(&host),
            ToLocal::Signal { .. } | ToLocal::Kill | ToLocal::Release { .. } => true,
            other => panic!("{other:?} where nothing is recovered"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Action {
    Up(usize),
    Down(usize),
    Rank(usize),
    Crash(usize),
    Abort(usize),
    KillLocal(usize),
    EndsBySignal(usize),
    Swept(usize),
    TickLocal(usize),
    TickCentral,
    Interrupt,
}

struct Jobs {
    /// For each rank its host and whether it does not use MPI.
    ranks: Vec<(usize, bool)>,
    faults: u8,
    signals: u8,
    limit: bool,
    /// A rank whose sizes are not those of the others.
    differing: Option<usize>,
}

impl System {
    fn central(&mut self, now: Time, input: central::CentralInput) {
        let mut effects = Vec::new();
        self.central.step(now, input, &mut effects);
        for effect in effects {
            match effect {
                central::CentralEffect::Persist(record) => self.stored.store(record),
                central::CentralEffect::Send(host, order) => {
                    self.hasty |= !self.stored.covers(host, &order);
                    self.hosts[host].down.push_back(order);
                }
                central::CentralEffect::SendAll(hosts, order) => {
                    for host in hosts {
                        self.hasty |= !self.stored.covers(host, &order);
                        self.hosts[host].down.push_back(order.clone());
                    }
                }
                central::CentralEffect::Drop(host) => self.lose(host),
                central::CentralEffect::Event(event) => {
                    panic!("{event:?} where nothing is recovered")
                }
                central::CentralEffect::Resumed { .. } => panic!("nobody was started again"),
                central::CentralEffect::Counters(..) => panic!("nobody counts in this model"),
                central::CentralEffect::RequestStored { .. }
                | central::CentralEffect::Placed(_)
                | central::CentralEffect::Join(_)
                | central::CentralEffect::HostAdded { .. }
                | central::CentralEffect::Moved { .. }
                | central::CentralEffect::MovedBack(..) => {
                    panic!("no host has a successor in this model")
                }
                central::CentralEffect::Decided(verdict) => {
                    self.hasty |= self.stored.verdict.as_ref() != Some(&verdict);
                    self.decided.push(verdict);
                }
                central::CentralEffect::Over(verdict) => {
                    self.hasty |= self.stored.verdict.as_ref() != Some(&verdict);
                    self.over.push(verdict);
                }
            }
        }
    }

    fn lose(&mut self, host: usize) {
        let of = self.ranks_of(host);
        let host = &mut self.hosts[host];
        host.lost = true;
        host.down.clear();
        // The kernel's death signal, and mpirun that sweeps.
        for rank in of {
            self.ranks[rank].step = Step::Dead;
        }
    }

    fn ranks_of(&self, host: usize) -> Vec<usize> {
        (0..self.ranks.len())
            .filter(|r| self.host_of(*r) == host)
            .collect()
    }

    /// Ranks are dealt out to the hosts in turn.
    fn host_of(&self, rank: usize) -> usize {
        rank % self.hosts.len()
    }

    fn local(&mut self, host: usize, now: Time, input: local::LocalInput) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let mut effects = Vec::new();
            self.hosts[host].local.step(now, input, &mut effects);
            for effect in effects {
                self.perform(host, effect, &mut inputs);
            }
        }
    }

    fn perform(
        &mut self,
        host: usize,
        effect: local::LocalEffect,
        inputs: &mut VecDeque<local::LocalInput>,
    ) {
        match effect {
            local::LocalEffect::Spawn(ProcessInstance {
                rank,
                incarnation,
                generation,
            }) => {
                assert_eq!(generation, GENERATION);
                self.ranks[rank.0 as usize].step = Step::BeforeInit;
                inputs.push_back(local::LocalInput::Spawned(rank, incarnation, rank.0 + 100));
            }
            local::LocalEffect::Central(message) => self.hosts[host].up.push_back(message),
            local::LocalEffect::Ranks(ranks, message) => {
                for rank in ranks {
                    let process = &mut self.ranks[rank.0 as usize];
                    match (&message, process.step) {
                        (_, Step::Dead) => {}
                        (FromManager::Start { generation, .. }, Step::WaitsForStart) => {
                            assert_eq!(*generation, GENERATION);
                            process.step = Step::Computes;
                        }
                        (FromManager::AllFinalized { generation }, Step::WaitsForAll) => {
                            assert_eq!(*generation, GENERATION);
                            process.step = Step::MayLeave;
                        }
                        (FromManager::Stop { .. }, _) => process.asked = true,
                        (message, step) => panic!("{message:?} to a rank that is {step:?}"),
                    }
                }
            }
            local::LocalEffect::Watch(..) => panic!("no wrappers in this model"),
            local::LocalEffect::SignalGroup(rank, _) => self.ranks[rank.0 as usize].asked = true,
            local::LocalEffect::SignalAll(signal) => {
                for rank in self.ranks_of(host) {
                    self.ranks[rank].asked = true;
                    self.ranks[rank].killed |= signal == 9;
                }
            }
            local::LocalEffect::Sweep => self.hosts[host].sweeping = true,
            local::LocalEffect::Exit { .. } => {}
            other => panic!("{other:?} where nothing is recovered"),
        }
    }

    fn ended(&mut self, rank: usize, end: End) {
        let before = std::mem::replace(&mut self.ranks[rank].step, Step::Dead);
        self.ranks[rank].well = end == End::Exited(0);
        if before == Step::BeforeInit {
            // No other process holds its socket.
            let closed = local::LocalInput::Closed(Rank(rank as u32), Incarnation(0));
            self.local(self.host_of(rank), Time(0), closed);
        }
        let input = local::LocalInput::ChildEnded(Rank(rank as u32), Incarnation(0), end);
        self.local(self.host_of(rank), Time(0), input);
    }

    fn says(&mut self, rank: usize, message: ToManager) {
        let pid = rank as u32 + 100;
        let input = local::LocalInput::FromRank(Rank(rank as u32), Incarnation(0), pid, message);
        self.local(self.host_of(rank), Time(0), input);
    }

    fn advance(&mut self, rank: usize) {
        let process = &mut self.ranks[rank];
        match process.step {
            Step::BeforeInit if process.without_mpi => self.ended(rank, End::Exited(0)),
            Step::BeforeInit => {
                process.step = Step::WaitsForStart;
                let message = ToManager::Register {
                    rank: Rank(rank as u32),
                    incarnation: Incarnation(0),
                    pid: rank as u32 + 100,
                    card: BusinessCard::default(),
                    version: VERSION,
                    limits: Limits {
                        window: u64::from(self.differing == Some(rank)),
                        ..Limits::default()
                    },
                };
                self.says(rank, message);
            }
            Step::Computes => {
                process.step = Step::WaitsForAll;
                self.says(rank, ToManager::Finalizing);
            }
            Step::MayLeave => {
                process.step = Step::MayExit;
                self.says(rank, ToManager::Leave);
            }
            Step::MayExit => self.ended(rank, End::Exited(0)),
            Step::NotThere | Step::WaitsForStart | Step::WaitsForAll | Step::Dead => {}
        }
    }

    fn rank_moves(&self, rank: usize) -> bool {
        let step = self.ranks[rank].step;
        matches!(
            step,
            Step::BeforeInit | Step::Computes | Step::MayLeave | Step::MayExit
        )
    }

    fn rank_lives(&self, rank: usize) -> bool {
        !matches!(self.ranks[rank].step, Step::NotThere | Step::Dead)
    }
}

impl Model for Jobs {
    type State = System;
    type Action = Action;

    fn init_states(&self) -> Vec<System> {
        let count = self
            .ranks
            .iter()
            .map(|(host, _)| host + 1)
            .max()
            .unwrap_or(0);
        let process = |&(_, without_mpi): &(usize, bool)| Process {
            step: Step::NotThere,
            without_mpi,
            asked: false,
            killed: false,
            well: false,
        };
        let host = || Host {
            local: Local::new(),
            up: VecDeque::new(),
            down: VecDeque::new(),
            sweeping: false,
            lost: false,
        };
        let mut system = System {
            central: Central::new(Job {
                generation: GENERATION,
                hosts: (0..count).map(|n| format!("host{n}")).collect(),
                placement: self.ranks.iter().map(|(host, _)| *host).collect(),
                limit: self.limit.then_some(1),
                ..Job::default()
            }),
            hosts: (0..count).map(|_| host()).collect(),
            ranks: self.ranks.iter().map(process).collect(),
            decided: Vec::new(),
            over: Vec::new(),
            faults: 0,
            signals: 0,
            timed_out: false,
            stored: Stored::default(),
            hasty: false,
            differing: self.differing,
        };
        system.central(Time(0), central::CentralInput::Begin);
        vec![system]
    }

    fn actions(&self, state: &System, actions: &mut Vec<Action>) {
        for (index, host) in state.hosts.iter().enumerate() {
            if !host.up.is_empty() {
                actions.push(Action::Up(index));
            }
            if host.lost {
                continue;
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
            if state.faults < self.faults && state.over.is_empty() {
                actions.push(Action::KillLocal(index));
            }
        }
        for (rank, process) in state.ranks.iter().enumerate() {
            if state.rank_moves(rank) {
                actions.push(Action::Rank(rank));
            }
            if state.rank_lives(rank) && state.faults < self.faults {
                actions.push(Action::Crash(rank));
                if process.step == Step::Computes {
                    actions.push(Action::Abort(rank));
                }
            }
            if state.rank_lives(rank) && (process.asked || process.killed) {
                actions.push(Action::EndsBySignal(rank));
            }
        }
        if state.central.deadline().is_some() && state.over.is_empty() {
            actions.push(Action::TickCentral);
        }
        if state.signals < self.signals && state.over.is_empty() {
            actions.push(Action::Interrupt);
        }
    }

    fn next_state(&self, last: &System, action: Action) -> Option<System> {
        let mut state = last.clone();
        match action {
            Action::Up(host) => {
                let message = state.hosts[host].up.pop_front()?;
                state.central(Time(0), central::CentralInput::Local(host, message));
            }
            Action::Down(host) => {
                let order = state.hosts[host].down.pop_front()?;
                state.local(host, Time(0), local::LocalInput::Central(order));
            }
            Action::Rank(rank) => state.advance(rank),
            Action::Crash(rank) => {
                state.faults += 1;
                state.ended(rank, End::Signaled(11));
            }
            Action::Abort(rank) => {
                state.faults += 1;
                state.says(
                    rank,
                    ToManager::Abort {
                        code: 3,
                        why: String::new(),
                    },
                );
                state.ended(rank, End::Exited(3));
            }
            Action::KillLocal(host) => {
                state.faults += 1;
                state.lose(host);
                // Its sent messages may still arrive; the end of file comes last.
                while let Some(message) = state.hosts[host].up.pop_front() {
                    state.central(Time(0), central::CentralInput::Local(host, message));
                }
                state.central(Time(0), central::CentralInput::HostLost(host));
            }
            Action::EndsBySignal(rank) => state.ended(rank, End::Signaled(15)),
            Action::Swept(host) => {
                state.hosts[host].sweeping = false;
                state.local(host, Time(0), local::LocalInput::Swept);
            }
            Action::TickLocal(host) => {
                let at = state.hosts[host].local.deadline()?;
                state.local(host, at, local::LocalInput::Tick);
            }
            Action::TickCentral => {
                let at = state.central.deadline()?;
                state.timed_out = true;
                state.central(at, central::CentralInput::Tick);
            }
            Action::Interrupt => {
                state.signals += 1;
                state.central(Time(0), central::CentralInput::Signal(2));
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::eventually("the job ends", |_, s: &System| !s.over.is_empty()),
            Property::always("there is one verdict and it stays", |_, s: &System| {
                s.decided.len() <= 1
                    && s.over.len() <= 1
                    && (s.over.is_empty() || s.decided.is_empty() || s.decided == s.over)
            }),
            Property::always(
                "success means that every rank ended well",
                |_, s: &System| s.over != [Verdict::Success] || s.ranks.iter().all(|r| r.well),
            ),
            Property::always("failure has a cause", |_, s: &System| {
                let differing = s.differing.is_some();
                let cause = s.faults > 0 || s.signals > 0 || s.timed_out || differing;
                let mixed =
                    s.ranks.iter().any(|r| r.without_mpi) && s.ranks.iter().any(|r| !r.without_mpi);
                s.over.is_empty() || s.over == [Verdict::Success] || cause || mixed
            }),
            Property::always("no rank outlives the job", |_, s: &System| {
                s.over.is_empty() || (0..s.ranks.len()).all(|r| !s.rank_lives(r))
            }),
            Property::always(
                "no one computes before all have registered",
                |_, s: &System| {
                    let early = |r: &Process| matches!(r.step, Step::NotThere | Step::BeforeInit);
                    let running = s.ranks.iter().any(|r| r.step == Step::Computes);
                    !running || !s.ranks.iter().any(early)
                },
            ),
            Property::always("what is done is stored before", |_, s: &System| !s.hasty),
            Property::always("ranks that differ do not start", |_, s: &System| {
                s.differing.is_none() || s.ranks.iter().all(|r| r.step != Step::Computes)
            }),
            Property::sometimes("it can succeed", |_, s: &System| {
                s.over == [Verdict::Success]
            }),
        ]
    }
}

fn check(ranks: &[(usize, bool)], faults: u8, signals: u8, limit: bool) {
    let model = Jobs {
        ranks: ranks.to_vec(),
        faults,
        signals,
        limit,
        differing: None,
    };
    let checker = model.checker().threads(2).spawn_dfs().join();
    println!("{} states", checker.unique_state_count());
    checker.assert_properties();
}

#[test]
fn two_hosts_with_two_failures() {
    check(&[(0, false), (1, false)], 2, 0, false);
}

#[test]
fn one_host_with_two_failures_and_a_time_limit() {
    check(&[(0, false), (0, false)], 2, 0, true);
}

#[test]
fn interrupts_and_a_failure() {
    check(&[(0, false), (1, false)], 1, 2, false);
}

#[test]
fn three_ranks_and_a_failure() {
    check(&[(0, false), (1, false), (0, false)], 1, 0, false);
}

#[test]
fn plain_programs() {
    check(&[(0, true), (1, true)], 2, 1, false);
}

#[test]
fn a_rank_that_never_comes_ends_the_job() {
    let model = Jobs {
        ranks: vec![(0, true), (1, false)],
        faults: 1,
        signals: 0,
        limit: false,
        differing: None,
    };
    let checker = model.checker().threads(2).spawn_dfs().join();
    // This job can't succeed: one rank waits for one that never registers.
    checker.assert_no_discovery("it can succeed");
    for property in [
        "the job ends",
        "there is one verdict and it stays",
        "no rank outlives the job",
    ] {
        checker.assert_no_discovery(property);
    }
}

#[test]
fn ranks_with_different_sizes_end_the_job() {
    let model = Jobs {
        ranks: vec![(0, false), (1, false)],
        faults: 1,
        signals: 0,
        limit: false,
        differing: Some(1),
    };
    let checker = model.checker().threads(2).spawn_dfs().join();
    checker.assert_no_discovery("it can succeed");
    for property in [
        "the job ends",
        "there is one verdict and it stays",
        "no rank outlives the job",
        "ranks that differ do not start",
        "what is done is stored before",
    ] {
        checker.assert_no_discovery(property);
    }
}
