//! The cores of central and local managers under a model checker while ranks take images, die, and
//! are restored, in every order that few ranks allow. Ranks and images die at any step, also in the
//! middle of a checkpoint or a recovery. There are signals, and exits that turn out not to be
//! failures.
//!
//! `REJOIN_MODELS=soak` takes larger bounds than `full`, for hours, and `full` larger ones than
//! `ci`; without the variable they are smallest.

mod recovery;

use recovery::{Environment, FAULT, Faults, MoveAction, ProcessStep, Request, SimFile, System};
use rejoin_channel_table::{Epoch, ImageId, Rank};
use rejoin_managers_protocol::central;
use rejoin_managers_protocol::local;
use rejoin_managers_protocol::manager_messages::End;
use rejoin_managers_protocol::verdict::Verdict;
use rejoin_tests::models::{ci, full, soak, tell};
use stateright::{Checker, Model, Property};
use std::time::Instant;

#[derive(Debug, Clone, Copy)]
struct Jobs {
    hosts: usize,
    ranks: u32,
    /// How often each may happen.
    bounds: Faults,
    /// Deaths may be noticed early.
    early: bool,
    /// How processes die.
    kinds: &'static [End],
    /// Processes may die before they call `MPI_Init`.
    before_init: bool,
    /// Records of rollbacks are lost when central is started again.
    forgets: bool,
    /// Images also go to files.
    files: bool,
    /// Moves that are asked for, in this order. The last host is a spare then.
    requests: &'static [Request],
    /// What the journal and the links do to moves.
    environment: Environment,
    /// What hosts say reaches central at once, which makes the model smaller.
    is_quick: bool,
}

const KILLED: End = End::Signaled(9);
const FAULTED: End = End::Signaled(FAULT);
const EXITED: End = End::Exited(3);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Action {
    Up(usize),
    Down(usize),
    Advance(usize),
    Image(usize),
    Refuse(usize),
    Ends(usize, End),
    /// The same, noticed before its end's end.
    Dies(usize),
    /// Which comes now.
    ExitStatus(usize, End),
    Stop(usize),
    Restored(usize),
    LoseImage(Rank, ImageId),
    /// The file of an image is whole, or can't be written.
    Written(Rank, ImageId, bool),
    /// A copy of it is whole, or can't be made.
    Copied(Rank, Epoch, bool),
    EndsBySignal(usize, i32),
    Swept(usize),
    Ask,
    /// It concerns a job whose ranks move.
    OfMoves(MoveAction),
    Signal,
    /// The job is to stop with a last checkpoint.
    StopJob,
    TickLocal(usize),
    /// Central is killed; its messages under way are lost, or arrive late.
    CentralDies {
        late: bool,
    },
    /// Central will be killed in its next step, after so many records.
    Doom(u8),
}

impl Jobs {
    /// Faults suffice for a rollback to another checkpoint than the newest.
    fn falls_back(&self) -> bool {
        let Faults {
            deaths,
            images,
            checkpoints,
            ..
        } = self.bounds;
        self.files && deaths > 0 && images > 0 && checkpoints > 0
    }

    fn of_hosts(state: &System, actions: &mut Vec<Action>) {
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
        }
        actions.extend((0..state.restores.len()).map(Action::Restored));
        let is_written = |(_, image): &(_, &recovery::SimImage)| image.file == SimFile::Partial;
        let written = state.images.iter().filter(is_written);
        actions.extend(written.map(|((rank, id), _)| Action::Written(*rank, *id, true)));
        let copied = state.copies.iter().filter(|(_, is_whole)| !**is_whole);
        actions.extend(copied.map(|((rank, epoch), _)| Action::Copied(*rank, *epoch, true)));
    }

    fn of_processes(&self, state: &System, actions: &mut Vec<Action>) {
        for (index, process) in state.processes.iter().enumerate() {
            if process.exiting {
                let well = process.step == ProcessStep::MayExit;
                let exited = if well { &[End::Exited(0)] } else { self.kinds };
                actions.extend(exited.iter().map(|end| Action::ExitStatus(index, *end)));
                continue;
            }
            if process.moves() {
                actions.push(Action::Advance(index));
            }
            if state.wants(index).is_some() || state.is_to_stop(index) {
                actions.push(Action::Image(index));
                if state.faults.refusals < self.bounds.refusals {
                    actions.push(Action::Refuse(index));
                }
            }
            if process.stopping {
                actions.push(Action::Stop(index));
            }
            if let Some(signal) = process.asked {
                actions.push(Action::EndsBySignal(index, signal));
            }
        }
    }

    fn of_fate(&self, state: &System, actions: &mut Vec<Action>) {
        let (faults, bounds) = (state.faults, self.bounds);
        if state.over.is_some() {
            return;
        }
        for (index, process) in state.processes.iter().enumerate() {
            let init = process.step == ProcessStep::BeforeInit;
            let may = process.acts() && process.asked.is_none() && (self.before_init || !init);
            if may && faults.deaths < bounds.deaths {
                actions.extend(self.kinds.iter().map(|end| Action::Ends(index, *end)));
                // Only who has called it is watched.
                if self.early && !init {
                    actions.push(Action::Dies(index));
                }
            }
        }
        if faults.images < bounds.images {
            let in_memory = state.images.iter().filter(|(_, image)| image.in_memory);
            actions.extend(in_memory.map(|((rank, id), _)| Action::LoseImage(*rank, *id)));
        }
        if faults.files < bounds.files {
            let is_written = |(_, image): &(_, &recovery::SimImage)| image.file == SimFile::Partial;
            let written = state.images.iter().filter(is_written);
            actions.extend(written.map(|((rank, id), _)| Action::Written(*rank, *id, false)));
            let copied = state.copies.iter().filter(|(_, is_whole)| !**is_whole);
            actions.extend(copied.map(|((rank, epoch), _)| Action::Copied(*rank, *epoch, false)));
        }
        if faults.checkpoints < bounds.checkpoints {
            actions.push(Action::Ask);
        }
        self.of_moves(state, actions);
        if faults.signals < bounds.signals {
            actions.push(Action::Signal);
        }
        if faults.stops < bounds.stops {
            actions.push(Action::StopJob);
        }
        if faults.centrals < bounds.centrals && state.doomed.is_none() {
            let late = state.hosts.iter().any(|host| !host.down.is_empty());
            actions.push(Action::CentralDies { late: false });
            actions.extend(late.then_some(Action::CentralDies { late }));
            actions.extend([1, 2].map(Action::Doom));
        }
    }

    fn perform(state: &mut System, action: Action) {
        match action {
            Action::Up(host) => {
                if let Some(message) = state.hosts[host].up.pop_front() {
                    state.central(central::CentralInput::Local(host, message));
                }
            }
            Action::Down(host) => {
                if let Some(order) = state.hosts[host].down.pop_front() {
                    state.local(host, local::LocalInput::Central(order));
                }
            }
            Action::Advance(index) => state.advance(index),
            Action::Image(index) => state.image(index, false),
            Action::Refuse(index) => {
                state.faults.refusals += 1;
                state.image(index, true);
            }
            Action::Ends(index, end) => {
                state.faults.deaths += 1;
                state.ended(index, end);
            }
            Action::Dies(index) => {
                state.faults.deaths += 1;
                state.dies(index);
            }
            Action::ExitStatus(index, end) => state.ended(index, end),
            Action::Stop(index) => state.stop(index),
            Action::Restored(index) => state.restored(index),
            Action::LoseImage(rank, id) => {
                state.faults.images += 1;
                state.lose_image(rank, id);
            }
            Action::Written(rank, id, well) => {
                state.faults.files += u8::from(!well);
                state.written(rank, id, well);
            }
            Action::Copied(rank, epoch, well) => {
                state.faults.files += u8::from(!well);
                state.copied(rank, epoch, well);
            }
            Action::EndsBySignal(index, signal) => state.ended(index, End::Signaled(signal)),
            Action::Swept(host) => {
                state.hosts[host].sweeping = false;
                state.local(host, local::LocalInput::Swept);
            }
            Action::Ask => {
                state.faults.checkpoints += 1;
                state.central(central::CentralInput::Checkpoint);
            }
            Action::OfMoves(action) => state.act_on_moves(action),
            Action::Signal => {
                state.faults.signals += 1;
                state.interrupted |= !state.stored.finalized;
                state.central(central::CentralInput::Signal(2));
            }
            Action::StopJob => state.stop_job(),
            Action::TickLocal(host) => state.tick(host),
            Action::CentralDies { late } => {
                state.faults.centrals += 1;
                state.central_dies(late);
            }
            Action::Doom(records) => {
                state.faults.centrals += 1;
                state.doomed = Some(records);
            }
        }
        state.settle();
    }
}

impl Model for Jobs {
    type State = System;
    type Action = Action;

    fn init_states(&self) -> Vec<System> {
        let mut system = match self.requests {
            [] => System::new(self.hosts, self.ranks, self.files),
            _ => System::moving(self.hosts, self.ranks, self.environment, self.is_quick),
        };
        system.forgets = self.forgets;
        system.prompt = self.bounds.centrals == 0;
        system.central(central::CentralInput::Begin);
        vec![system]
    }

    fn actions(&self, state: &System, actions: &mut Vec<Action>) {
        if state.wrong.is_some() {
            return;
        }
        Self::of_hosts(state, actions);
        self.of_processes(state, actions);
        let answer = Action::OfMoves(MoveAction::Answer);
        actions.extend(state.requests_state().then_some(answer));
        if actions.is_empty() && !self.requests.is_empty() {
            let ring = Action::OfMoves(MoveAction::Ring);
            actions.extend(state.has_deadline().then_some(ring));
        } else if actions.is_empty() {
            let rings = |host: &usize| state.hosts[*host].local.deadline().is_some();
            let hosts = (0..self.hosts).filter(rings);
            actions.extend(hosts.map(Action::TickLocal));
        }
        self.of_fate(state, actions);
    }

    fn next_state(&self, last: &System, action: Action) -> Option<System> {
        let mut state = last.clone();
        Self::perform(&mut state, action);
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = recovery::move_properties();
        all.extend([
            Property::eventually("the job ends", |_, s: &System| s.over.is_some()),
            Property::always("nothing goes wrong on the way", |_, s: &System| {
                s.wrong.is_none()
            }),
            Property::always("no two incarnations of a rank act", |_, s: &System| {
                let acting: Vec<_> = s.processes.iter().filter(|p| p.has_rank()).collect();
                let two = |two: &[&recovery::Process]| two[0].instance.rank != two[1].instance.rank;
                acting.windows(2).all(two)
            }),
            Property::always("one generation is one history", |_, s: &System| {
                s.processes.iter().all(|p| is_of_its_history(s, p))
            }),
            Property::always("a failure has a cause", |m: &Jobs, s: &System| {
                let images = s.faults.images > 0 || s.faults.refusals > 0;
                // The same fault of a rank a second time is an end.
                let again = m.kinds.contains(&FAULTED) && s.faults.deaths > 1;
                let cause = images || again || s.faults.exits > 0 || s.faults.signals > 0;
                let well = Some(Verdict::Success);
                let stopped = matches!(s.over, Some(Verdict::Stopped { .. }));
                s.over.is_none() || s.over == well || stopped || cause
            }),
            Property::always("an exit is an end", |_, s: &System| {
                let ended = s.faults.exits > 0 || s.interrupted;
                s.over != Some(Verdict::Success) || !ended
            }),
            Property::always("who came back alone is told", |m: &Jobs, s: &System| {
                let told = s.away.is_empty() || m.bounds.centrals > 0;
                s.over != Some(Verdict::Success) || told
            }),
            Property::always("nothing outlives the job", |_, s: &System| {
                s.over.is_none() || s.processes.iter().all(|p| !p.acts())
            }),
            Property::always("who is done may leave", |_, s: &System| {
                let leaves = |h: &recovery::Host| h.local.is_over() || !h.down.is_empty();
                let mut hosts = (0..).zip(&s.hosts);
                let away = |host: usize| s.is_unused(host) || s.is_gone(host);
                s.over.is_none() || hosts.all(|(host, h)| leaves(h) || away(host))
            }),
            Property::sometimes("it stops", |m: &Jobs, s: &System| {
                let stopped = matches!(s.over, Some(Verdict::Stopped { .. }));
                stopped || m.bounds.stops == 0
            }),
            Property::sometimes("it succeeds after a recovery", |m: &Jobs, s: &System| {
                s.over == Some(Verdict::Success) && (s.recovered || m.bounds.deaths == 0)
            }),
            Property::sometimes(
                "it succeeds after one came back alone",
                |m: &Jobs, s: &System| {
                    s.over == Some(Verdict::Success) && (s.alone || m.bounds.deaths == 0)
                },
            ),
            Property::sometimes("it succeeds from older files", |m: &Jobs, s: &System| {
                let fell_back = s.stored.fallbacks > 0;
                s.over == Some(Verdict::Success) && (fell_back || !m.falls_back())
            }),
            Property::sometimes("it succeeds after central died", |m: &Jobs, s: &System| {
                let died = s.faults.centrals >= m.bounds.centrals;
                s.over == Some(Verdict::Success) && died
            }),
        ]);
        all
    }
}

/// A process that has started in a generation comes from the checkpoint that the generation began
/// from. A process that was restored alone comes from the last checkpoint.
fn is_of_its_history(state: &System, process: &recovery::Process) -> bool {
    let started = !matches!(
        process.step,
        ProcessStep::BeforeInit | ProcessStep::Back | ProcessStep::WaitsForStart
    );
    let stored = &state.stored;
    let origin = if process.alone {
        Some(&stored.committed)
    } else {
        stored.origins.get(&process.instance.generation)
    };
    let known = !process.alone || stored.finalized;
    !process.acts() || !started || (known && origin == Some(&process.from))
}

fn check(name: &str, jobs: Jobs) {
    let begun = Instant::now();
    let checker = jobs.checker().threads(2).spawn_bfs().join();
    tell(name, begun, &checker, |state| format!("{:?}", state.wrong));
    checker.assert_properties();
}

const NONE: Faults = Faults {
    deaths: 0,
    exits: 0,
    images: 0,
    refusals: 0,
    files: 0,
    checkpoints: 0,
    signals: 0,
    stops: 0,
    moves: 0,
    hosts: 0,
    centrals: 0,
};

const TWO: Jobs = Jobs {
    hosts: 1,
    ranks: 2,
    bounds: NONE,
    early: false,
    kinds: &[KILLED],
    before_init: false,
    forgets: false,
    files: false,
    requests: &[],
    environment: Environment::Correct,
    is_quick: false,
};

#[test]
fn two_ranks_and_two_deaths() {
    let bounds = Faults {
        deaths: 2 + soak(),
        checkpoints: 1,
        ..NONE
    };
    check("two deaths", Jobs { bounds, ..TWO });
}

#[test]
fn two_deaths_that_are_noticed_early() {
    let bounds = Faults {
        deaths: 2 + soak(),
        checkpoints: full() + soak(),
        ..NONE
    };
    let jobs = Jobs {
        bounds,
        early: true,
        ..TWO
    };
    check("two early deaths", jobs);
}

#[test]
fn a_death_and_a_checkpoint_of_two_hosts() {
    let bounds = Faults {
        deaths: 1 + soak(),
        checkpoints: ci(),
        ..NONE
    };
    let jobs = Jobs {
        hosts: 2,
        bounds,
        early: true,
        ..TWO
    };
    check("two hosts", jobs);
}

#[test]
fn deaths_before_init() {
    let bounds = Faults {
        deaths: 1 + ci(),
        ..NONE
    };
    let jobs = Jobs {
        bounds,
        before_init: true,
        early: ci() != 0,
        ..TWO
    };
    check("before MPI_Init", jobs);
}

#[test]
fn three_ranks_and_two_deaths() {
    let bounds = Faults { deaths: 2, ..NONE };
    let jobs = Jobs {
        ranks: 3,
        bounds,
        early: soak() > 0,
        ..TWO
    };
    check("three ranks", jobs);
}

#[test]
fn images_that_die_or_cannot_be_taken() {
    let bounds = Faults {
        deaths: 1 + full(),
        images: 1,
        refusals: 1,
        checkpoints: ci() + soak(),
        ..NONE
    };
    check("images", Jobs { bounds, ..TWO });
}

#[test]
fn a_rank_dies_with_its_image_while_files_are_written() {
    let bounds = Faults {
        deaths: 1 + soak(),
        images: 1,
        checkpoints: ci(),
        ..NONE
    };
    let jobs = Jobs {
        bounds,
        files: true,
        ..TWO
    };
    check("files", jobs);
}

#[test]
fn files_that_cannot_be_written() {
    let bounds = Faults {
        deaths: 1,
        images: soak(),
        files: 1,
        checkpoints: ci(),
        ..NONE
    };
    let jobs = Jobs {
        bounds,
        files: true,
        ..TWO
    };
    check("failed files", jobs);
}

#[test]
fn central_dies_while_files_are_written() {
    let bounds = Faults {
        deaths: soak(),
        centrals: 1,
        checkpoints: ci(),
        ..NONE
    };
    let jobs = Jobs {
        bounds,
        files: true,
        ..TWO
    };
    check("files and central", jobs);
}

#[test]
fn copies_that_cannot_be_made() {
    // A death as well takes minutes: the simulator runs it.
    let bounds = Faults {
        deaths: soak(),
        centrals: soak(),
        files: 1,
        ..NONE
    };
    let jobs = Jobs {
        hosts: 2,
        bounds,
        files: true,
        ..TWO
    };
    check("copies", jobs);
}

#[test]
fn a_job_stops_while_a_rank_dies() {
    let bounds = Faults {
        deaths: 1,
        stops: 1,
        ..NONE
    };
    let jobs = Jobs {
        bounds,
        early: true,
        files: true,
        ..TWO
    };
    check("a stop and a death", jobs);
}

#[test]
fn a_job_stops_while_central_dies() {
    let bounds = Faults {
        centrals: 1,
        stops: 1,
        ..NONE
    };
    let jobs = Jobs {
        bounds,
        files: true,
        ..TWO
    };
    check("a stop and central", jobs);
}

#[test]
fn ends_that_turn_out_to_be_no_failures() {
    let bounds = Faults {
        deaths: 1 + full(),
        ..NONE
    };
    let jobs = Jobs {
        bounds,
        early: true,
        kinds: &[KILLED, EXITED],
        ..TWO
    };
    check("exits", jobs);
}

#[test]
fn faults_that_come_again() {
    let bounds = Faults { deaths: 2, ..NONE };
    let jobs = Jobs {
        bounds,
        early: ci() != 0,
        kinds: &[FAULTED],
        ..TWO
    };
    check("faults", jobs);
}

#[test]
fn a_signal_and_a_death() {
    let bounds = Faults {
        deaths: 1 + full(),
        signals: 1 + soak(),
        ..NONE
    };
    let jobs = Jobs {
        bounds,
        early: true,
        ..TWO
    };
    check("signals", jobs);
}

#[test]
fn central_dies_at_any_step() {
    let bounds = Faults {
        centrals: 1 + ci() + soak(),
        checkpoints: soak(),
        ..NONE
    };
    check("central", Jobs { bounds, ..TWO });
}

#[test]
fn central_and_a_rank_die() {
    let bounds = Faults {
        deaths: 1 + soak(),
        centrals: 1 + soak(),
        ..NONE
    };
    let jobs = Jobs {
        bounds,
        early: true,
        ..TWO
    };
    check("central and a rank", jobs);
}

#[test]
fn central_of_two_hosts_dies() {
    let bounds = Faults {
        deaths: soak(),
        centrals: 1 + full(),
        ..NONE
    };
    let jobs = Jobs {
        hosts: 2,
        bounds,
        early: soak() > 0,
        ..TWO
    };
    check("central of two hosts", jobs);
}

#[test]
fn ends_while_central_is_dead() {
    let bounds = Faults {
        deaths: 1 + soak(),
        centrals: 1,
        ..NONE
    };
    let jobs = Jobs {
        bounds,
        early: ci() != 0,
        kinds: &[KILLED, EXITED],
        ..TWO
    };
    check("ends and central", jobs);
}

/// The checker finds a journal that does not keep what it is given.
#[test]
fn a_central_that_forgets_is_found_out() {
    let bounds = Faults {
        deaths: 1,
        centrals: 1,
        ..NONE
    };
    let jobs = Jobs {
        bounds,
        forgets: true,
        ..TWO
    };
    let checker = jobs.checker().threads(2).spawn_bfs().join();
    let found = checker.discoveries();
    assert!(found.keys().any(|name| !name.starts_with("it succeeds")));
}
