//! Jobs whose ranks move while they run: what the moves add to the small job, environments that
//! break one rule each, and the models.

use super::leased::Leased;
use super::{Faults, Process, ProcessStep, SimFile, SimImage, SimRestore, System};
use crate::{Action, Jobs, NONE, TWO, check};
use rejoin_channel_table::{Epoch, ImageId, Incarnation, MoveNumber, Rank};
use rejoin_managers_protocol::central::{CentralInput, Event, MoveRequest, Movers, Record};
use rejoin_managers_protocol::local::LocalInput;
use rejoin_managers_protocol::manager_messages::{ProcessInstance, RankMoveOrder, ToLocal};
use rejoin_managers_protocol::verdict::Verdict;
use rejoin_tests::models::{ci, full, soak};
use rejoin_wire::FromManager;
use stateright::{Checker, HasDiscoveries, Model, Path, Property};
use std::collections::BTreeMap;

/// The name of the property that the update reaches all.
const CARD_RULE: &str = "all ranks have the newest card of each when nothing is on its way";

/// A request to move one rank: to this host, or to the one with the fewest ranks.
pub type Request = (u32, Option<usize>);

/// What happens in a job whose ranks move, beside what happens in all jobs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum MoveAction {
    /// The user asks for the next move.
    Ask(Request),
    /// The local manager of a host ends, with all processes there.
    HostEnds(usize),
    /// Central learns which state is stored.
    Answer,
    /// Time passes until the next clock rings.
    Ring,
}

/// What the journal and the links do to moves. All but the first two break a rule that the cores
/// rely on, and the model must find that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Environment {
    /// They carry what they are given.
    #[default]
    Correct,
    /// Each order about a move arrives twice.
    Repeats,
    /// The order of a move is not in the journal.
    ForgetsMoving,
    /// The end of a move is not in the journal.
    ForgetsMoved,
    /// A rank whose move is given up does not learn that.
    DropsStay,
    /// Ranks are not told the new card.
    DropsUpdate,
    /// The old process ends before the new one has registered.
    VacatesEarly,
    /// The old process continues after the new one has registered.
    StaysForVacate,
}

/// What a job adds whose ranks move.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct MoveModel {
    /// What the journal and the links do.
    pub environment: Environment,
    /// For each process the incarnation of each rank whose card it has.
    known: BTreeMap<(Rank, Incarnation), Vec<Incarnation>>,
    /// What hosts say reaches central at once.
    pub is_quick: bool,
    /// Some rank has moved.
    pub moved: bool,
    /// Some move was given up.
    pub stayed: bool,
}

impl MoveModel {
    /// Whether the journal loses a record.
    pub fn forgets(&self, record: &Record) -> bool {
        match record {
            Record::Moving { .. } => self.environment == Environment::ForgetsMoving,
            Record::Moved { .. } => self.environment == Environment::ForgetsMoved,
            _ => false,
        }
    }

    /// What arrives of an order.
    fn arrives(&self, order: ToLocal) -> Vec<ToLocal> {
        let is_of_move = matches!(
            order,
            ToLocal::Move(RankMoveOrder::Move { .. })
                | ToLocal::Move(RankMoveOrder::Stay { .. })
                | ToLocal::Move(RankMoveOrder::Vacate { .. })
                | ToLocal::Update { .. }
        );
        match (self.environment, order) {
            (Environment::Repeats, order) if is_of_move => vec![order.clone(), order],
            (Environment::DropsStay, ToLocal::Move(RankMoveOrder::Stay { .. }))
            | (Environment::DropsUpdate, ToLocal::Update { .. }) => Vec::new(),
            (Environment::StaysForVacate, ToLocal::Move(RankMoveOrder::Vacate { instance })) => {
                vec![ToLocal::Move(RankMoveOrder::Stay {
                    instance,
                    number: MoveNumber {
                        after: Epoch(1),
                        step: 2,
                    },
                })]
            }
            (_, order) => vec![order],
        }
    }
}

impl System {
    /// A job whose last host is a spare, and whose ranks can move.
    pub fn moving(hosts: usize, ranks: u32, environment: Environment, is_quick: bool) -> System {
        let mut system = System::new(hosts, ranks, true);
        system.leased = Some(Box::new(Leased::without_leases(hosts, ranks, system.job())));
        system.central = rejoin_managers_protocol::central::Central::new(system.job());
        system.moving = Some(Box::new(MoveModel {
            environment,
            is_quick,
            ..MoveModel::default()
        }));
        system
    }

    /// An order to a host, as far as the links carry it.
    pub fn carry(&mut self, host: usize, order: ToLocal) {
        let early = self.vacates_early(&order);
        let orders = match &self.moving {
            Some(moving) => moving.arrives(order),
            None => vec![order],
        };
        self.hosts[host].down.extend(orders);
        if let Some((from, order)) = early {
            self.hosts[from].down.push_back(order);
        }
    }

    fn vacates_early(&self, order: &ToLocal) -> Option<(usize, ToLocal)> {
        let moving = self.moving.as_ref()?;
        let ToLocal::Restore {
            generation,
            from: Some(ImageId::Move(_)),
            moved,
            ..
        } = order
        else {
            return None;
        };
        let is_early = moving.environment == Environment::VacatesEarly;
        let rank = moved.iter().find(|_| is_early)?.rank;
        let mut moves = self.stored.moving.iter().flat_map(|(_, moves)| moves);
        let one = moves.find(|one| one.rank == rank)?;
        let instance = ProcessInstance {
            generation: *generation,
            rank,
            incarnation: one.incarnation,
        };
        Some((one.from, ToLocal::Move(RankMoveOrder::Vacate { instance })))
    }

    /// Something happens that only jobs have whose ranks move.
    pub fn act_on_moves(&mut self, action: MoveAction) {
        match action {
            MoveAction::Ask(request) => self.ask_move(request),
            MoveAction::HostEnds(host) => {
                self.faults.hosts += 1;
                self.lose_host(host, true);
            }
            MoveAction::Answer => self.answer(true),
            MoveAction::Ring => {
                self.ring();
            }
        }
    }

    /// The user asks for the next move.
    fn ask_move(&mut self, (rank, to): Request) {
        self.faults.moves += 1;
        self.central(CentralInput::Move(MoveRequest {
            id: u64::from(self.faults.moves),
            movers: Movers::Ranks(vec![Rank(rank)]),
            to,
        }));
    }

    /// What the user learns of moves.
    pub fn note_move(&mut self, event: &Event) {
        if let Some(moving) = &mut self.moving {
            moving.moved |= matches!(event, Event::Moved { .. });
            moving.stayed |= matches!(event, Event::NotMoved { .. });
        }
    }

    /// A rank has moved, or is back where it was.
    pub fn placed(&mut self, rank: Rank, host: usize) {
        self.lease_state().placement[rank.index()] = host;
    }

    /// The host that has an image.
    pub fn image_home(&self, rank: Rank, id: ImageId) -> usize {
        let image = self.images.get(&(rank, id));
        let image = image.filter(|_| self.moving.is_some());
        image.map_or_else(|| self.host_of(rank), |image| image.home)
    }

    /// A process that can take an image of its move.
    pub fn is_to_stop(&self, index: usize) -> bool {
        let process = &self.processes[index];
        process.inside() && process.asked.is_none() && process.moving.is_some()
    }

    /// It stops there, or continues if the image is a copy ahead, or can take no image.
    pub fn stop_to_move(&mut self, index: usize, refuse: bool) {
        let home = self.home_of(self.processes[index].instance);
        let process = &mut self.processes[index];
        let Some((number, stops)) = process.moving.take() else {
            return;
        };
        let id = ImageId::Move(number);
        let message = process.image_report(id, refuse);
        if !refuse {
            process.waits = Some(number).filter(|_| stops);
            let image = SimImage::of(process, home);
            self.images.insert((process.instance.rank, id), image);
        }
        self.says(index, message);
    }

    /// A host has loaded a copy ahead of a rank that is to move there, or can't.
    pub fn load(&self, rank: Rank, number: MoveNumber) -> LocalInput {
        let image = self.images.get(&(rank, ImageId::Move(number)));
        match image.is_some_and(|image| image.file == SimFile::Whole) {
            true => LocalInput::Loaded(rank, number, 0),
            false => LocalInput::NotLoaded(rank, number, "there is no file".into()),
        }
    }

    /// The process that a restore makes of a rank's image for a move. The rank's state advances in
    /// its predecessor, until the new process starts.
    pub fn arrival(&self, restore: &SimRestore, image: &SimImage, process: Process) -> Process {
        match restore.image {
            ImageId::Checkpoint(_) => process,
            ImageId::Move(number) => Process {
                from: image.from,
                epoch: image.epoch,
                arrives: Some(number),
                has_work: false,
                ..process
            },
        }
    }

    /// A process has got a message from its manager.
    pub fn hears(&mut self, instance: ProcessInstance, message: &FromManager) {
        let key = (instance.rank, instance.incarnation);
        let of = |p: &Process| (p.instance.rank, p.instance.incarnation) == key;
        let Some(index) = self.processes.iter().position(of) else {
            return;
        };
        match message {
            FromManager::Committed { .. } if self.moving.is_some() => return,
            FromManager::Card {
                generation,
                rank,
                incarnation,
                ..
            } => {
                if *generation != self.processes[index].instance.generation {
                    self.complain(format!("{message:?} to {instance:?}"));
                }
                return self.learns(key, *rank, *incarnation);
            }
            message => self.processes[index].on_message(message),
        }
        if let (FromManager::Start { table, .. }, Some(moving)) = (message, &mut self.moving) {
            let known = table.iter().map(|(incarnation, _)| *incarnation);
            moving.known.insert(key, known.collect());
            self.takes_over(index);
        }
    }

    /// Cards of earlier incarnations than the known one mean nothing.
    fn learns(&mut self, key: (Rank, Incarnation), rank: Rank, incarnation: Incarnation) {
        let known = self.moving.as_mut().and_then(|m| m.known.get_mut(&key));
        if let Some(known) = known.and_then(|known| known.get_mut(rank.index())) {
            *known = incarnation.max(*known);
        }
    }

    /// A process whose rank has moved starts: its predecessor waits, or has ended.
    fn takes_over(&mut self, index: usize) {
        let process = &self.processes[index];
        let (instance, arrives) = (process.instance, process.arrives);
        if process.has_work || arrives.is_none() {
            return;
        }
        let before = |p: &&mut Process| {
            p.instance.rank == instance.rank && p.instance.incarnation < instance.incarnation
        };
        let mut beside = None;
        for process in self.processes.iter_mut().filter(before) {
            if process.acts() && process.has_work && process.waits != arrives {
                beside = Some(process.instance);
            }
            process.has_work = false;
        }
        self.processes[index].has_work = true;
        if let Some(other) = beside {
            self.complain(format!("{other:?} acts beside {instance:?}"));
        }
    }

    /// Nothing is on its way between managers.
    fn is_quiet(&self) -> bool {
        self.hosts
            .iter()
            .all(|host| host.up.is_empty() && host.down.is_empty())
    }

    /// Whether each rank that computes has the newest card of each other.
    fn has_newest_cards(&self) -> bool {
        let Some(moving) = self.moving.as_ref().filter(|_| self.is_quiet()) else {
            return true;
        };
        let computes = |p: &&Process| {
            let step = matches!(p.step, ProcessStep::Computes | ProcessStep::WaitsForAll);
            p.has_rank() && step && p.instance.generation == self.stored.generation
        };
        let all: Vec<&Process> = self.processes.iter().filter(computes).collect();
        let knows = |one: &Process, other: &Process| {
            let known = moving
                .known
                .get(&(one.instance.rank, one.instance.incarnation));
            let known = known.and_then(|known| known.get(other.instance.rank.index()));
            let same = one.instance.rank == other.instance.rank;
            same || known == Some(&other.instance.incarnation)
        };
        all.iter()
            .all(|one| all.iter().all(|other| knows(one, other)))
    }

    /// What hosts say reaches central at once.
    pub fn is_quick(&self) -> bool {
        self.moving.as_ref().is_some_and(|moving| moving.is_quick)
    }

    /// Some clock rings when nothing else happens.
    pub fn has_deadline(&self) -> bool {
        let local = |host: &super::Host| host.local.deadline().is_some();
        self.central.deadline().is_some() || self.hosts.iter().any(local)
    }

    /// Central waits to learn which state is stored.
    pub fn requests_state(&self) -> bool {
        let leased = self.leased.as_ref();
        leased.is_some_and(|leased| leased.is_asked)
    }

    /// A host that no process was ever to be made on.
    pub fn is_unused(&self, host: usize) -> bool {
        let leased = self.leased.as_ref().filter(|_| self.moving.is_some());
        leased.is_some_and(|leased| leased.has_never_had(host))
    }
}

impl Jobs {
    /// The moves and the losses of hosts that may come now.
    pub fn of_moves(&self, state: &System, actions: &mut Vec<Action>) {
        let faults = state.faults;
        if faults.hosts < self.bounds.hosts {
            let is_over = |host: usize| state.is_gone(host) || state.hosts[host].done;
            let there = |host: &usize| !is_over(*host) && !state.is_unused(*host);
            let ends = (0..self.hosts).filter(there).map(MoveAction::HostEnds);
            actions.extend(ends.map(Action::OfMoves));
        }
        if let Some(request) = self.requests.get(usize::from(faults.moves)) {
            actions.push(Action::OfMoves(MoveAction::Ask(*request)));
        }
    }
}

/// What holds of moves.
pub fn move_properties() -> Vec<Property<Jobs>> {
    fn shows(state: &System, what: impl Fn(&MoveModel) -> bool) -> bool {
        let shown = state.moving.as_ref().is_none_or(|moving| what(moving));
        state.over == Some(Verdict::Success) && shown
    }
    vec![
        Property::always(CARD_RULE, |_, s: &System| s.has_newest_cards()),
        Property::sometimes("it succeeds after a move", |_, s: &System| {
            shows(s, |moving| moving.moved)
        }),
        Property::sometimes(
            "it succeeds after a move was given up",
            |m: &Jobs, s: &System| {
                let may = m.bounds.refusals + m.bounds.deaths > 0;
                shows(s, |moving| moving.stayed || !may)
            },
        ),
    ]
}

/// Two ranks on two hosts and a spare, where the first moves to.
const MOVES: Jobs = Jobs {
    hosts: 3,
    files: true,
    requests: &[(0, Some(2))],
    ..TWO
};

/// One rank, its host, and a spare.
const ALONE: Jobs = Jobs {
    hosts: 2,
    ranks: 1,
    requests: &[(0, Some(1))],
    ..MOVES
};

#[test]
fn a_rank_moves_and_another_comes_to_its_host() {
    let requests: &[Request] = &[(0, Some(2)), (1, Some(0))];
    let jobs = Jobs {
        requests: &requests[..1 + usize::from(ci())],
        ..MOVES
    };
    check("two moves", jobs);
}

#[test]
fn a_rank_moves_there_and_back_while_orders_come_twice() {
    let jobs = Jobs {
        requests: &[(0, Some(1)), (0, Some(0))],
        environment: Environment::Repeats,
        ..ALONE
    };
    check("repeated orders", jobs);
}

#[test]
fn a_rank_dies_around_a_move() {
    let bounds = Faults {
        deaths: ci(),
        checkpoints: soak(),
        ..NONE
    };
    let jobs = Jobs {
        bounds,
        is_quick: soak() == 0,
        ..MOVES
    };
    check("a death and a move", jobs);
}

#[test]
fn the_moved_rank_dies_and_its_image_fails() {
    let bounds = Faults {
        deaths: 1 + soak(),
        files: ci(),
        refusals: soak(),
        checkpoints: soak(),
        ..NONE
    };
    let jobs = Jobs {
        bounds,
        early: ci() != 0,
        ..ALONE
    };
    check("a death of a moved rank", jobs);
}

#[test]
fn central_dies_around_moves_there_and_back() {
    let bounds = Faults {
        centrals: 1 + soak(),
        ..NONE
    };
    let requests: &[Request] = &[(0, Some(1)), (0, Some(0))];
    let jobs = Jobs {
        bounds,
        requests: &requests[..1 + usize::from(full())],
        ..ALONE
    };
    check("central and moves", jobs);
}

#[test]
fn central_and_the_moved_rank_die() {
    let bounds = Faults {
        deaths: full(),
        centrals: 1,
        refusals: soak(),
        ..NONE
    };
    let jobs = Jobs {
        bounds,
        is_quick: soak() == 0,
        ..ALONE
    };
    check("central, a death and a move", jobs);
}

#[test]
fn a_local_manager_ends_around_a_move() {
    let bounds = Faults {
        hosts: ci(),
        ..NONE
    };
    let jobs = Jobs {
        bounds,
        is_quick: full() == 0,
        ..MOVES
    };
    check("a host and a move", jobs);
}

/// The model finds each environment that breaks a rule of moves.
#[test]
fn broken_rules_of_moves_are_found_out() {
    let of = |environment, deaths, centrals| {
        let bounds = Faults {
            deaths,
            centrals,
            ..NONE
        };
        let requests: &[Request] = &[(0, Some(1)), (0, Some(0))];
        let jobs = match environment {
            Environment::DropsUpdate => Jobs {
                bounds,
                environment,
                ..MOVES
            },
            _ => Jobs {
                bounds,
                environment,
                requests,
                ..ALONE
            },
        };
        let checker = jobs
            .checker()
            .threads(2)
            .finish_when(HasDiscoveries::AnyFailures);
        let checker = checker.spawn_bfs().join();
        let found = checker.discoveries().into_iter();
        // Properties that begin like this are examples, which need not be found.
        let broken = found.filter(|(name, _)| !name.starts_with("it "));
        let why = |path: Path<System, _>| path.last_state().wrong.clone().unwrap_or_default();
        let broken: Vec<(&str, String)> = broken.map(|(name, path)| (name, why(path))).collect();
        println!("{environment:?}: {broken:?}");
        assert!(!broken.is_empty(), "{environment:?} is not found out");
        broken
    };
    of(Environment::ForgetsMoving, 0, 1);
    of(Environment::ForgetsMoved, 0, 1);
    of(Environment::DropsStay, 1, 0);
    of(Environment::VacatesEarly, 1, 0);
    let cards = of(Environment::DropsUpdate, 0, 0);
    assert!(
        cards.iter().all(|(name, _)| *name == CARD_RULE),
        "{cards:?}"
    );
    of(Environment::StaysForVacate, 0, 0);
}
