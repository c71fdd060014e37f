//! Exhaustive check, with stateright, of optimistic logging on the code itself: engine, table,
//! handshake, resume, log of determinants, its copies, and what is stable.
//!
//! A server and two clients ([`server_and_clients`]), each a recovery group on a host of its own.
//! Determinants leave for a keeper on another host, and arrive at any later step. Messages leave
//! before that. Hosts are lost at any step, with all that only they have. Each rank comes back from
//! its last committed image and the keeper's copy. A rank that depends on something lost comes back
//! from its own log, which it has cut before that. Clients take images when they like. Ranks also
//! log the messages that they receive: their senders need not retain them once the keeper has a
//! copy of that log. The model checks that
//!
//! - no rank refuses what another one says, and no committed image depends on something lost;
//! - every client always ends with the answers that belong to the server's order: no orphan
//!   survives, in memory or in a committed image;
//! - it finds a violation when ranks do not say what their messages depend on, when orphans stay,
//!   when their logs are not cut, when images are committed that depend on what can be lost, when
//!   received messages count before they are copied, and when lost ones come out of the log.
//!
//! Bounds: a question of each client, one connection of a client at a time, whole writes.
//! `REJOIN_MODELS=soak` takes larger ones than `ci`. Without the variable only random runs are
//! made: long ones with many losses, and the searches for violations.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use rejoin_channel_table::{Epoch, Incarnation};
use rejoin_engine::WildMatch;
use rejoin_logging::determinants::{
    CopiedLog, Dependencies, Dependency, DeterminantError, DeterminantLog, IncarnationEnds,
    LogPart, StableMark, StableMarks,
};
use rejoin_logging::receive_log::{CopiedReceives, ReceivedPart};
use rejoin_sim::node::Node;
use rejoin_sim::rng::Rng;
use rejoin_sim::seed_range::seed_range;
use rejoin_tests::models::{ci, soak, tell};
use stateright::{Checker, Model, Property};

mod server_and_clients;

use server_and_clients::{CLIENTS, Program, RANKS, Ranks, SERVER, Step, book, identity, rank};

type Log = DeterminantLog<Vec<u64>>;

/// Records of a log.
const RECORDS: usize = 100;
/// Steps of the longest run.
const STEPS: usize = 2_000;

fn memory() -> Vec<u64> {
    vec![0; 16 + 4 * RECORDS]
}

/// What a rank has beside its engine, and what is in its image.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Recorded {
    log: Log,
    dependencies: Dependencies,
    /// How far it has asked for the log to be stored, and how far that is.
    asked: u64,
    stable: u64,
}

impl Recorded {
    fn new() -> Recorded {
        Recorded {
            log: Log::new(memory()).expect("room for records"),
            dependencies: Dependencies::default(),
            asked: 0,
            stable: 0,
        }
    }
}

/// The memory of a log, and that of a receive log if there is one.
type LeftMemory = (Vec<u64>, Option<Vec<u64>>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    ranks: Ranks,
    recorded: [Recorded; RANKS],
    images: [BTreeMap<Epoch, (Program, Recorded)>; RANKS],
    committed: [Epoch; RANKS],
    taken: [Option<Epoch>; RANKS],
    incarnations: [u32; RANKS],
    /// The memory of an orphan's log, while it is away, and that of its receive log.
    left_memory: [Option<LeftMemory>; RANKS],
    /// Parts of logs on their way to the keeper.
    parts: [VecDeque<(LogPart, StableMark)>; RANKS],
    copies: [CopiedLog; RANKS],
    /// The same of receive logs.
    received: [VecDeque<ReceivedPart>; RANKS],
    copied: [CopiedReceives; RANKS],
    marks: StableMarks,
    ends: IncarnationEnds,
    left: Budget,
}

/// How often each may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Budget {
    images: u8,
    losses: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Step(Step),
    /// The next part of a rank's log arrives at the keeper.
    Store(usize),
    /// The next part of its receive log arrives there.
    StoreReceived(usize),
    TakeImage(usize),
    Commit(usize),
    /// The host of a rank is lost.
    Lose(usize),
    Back(usize),
}

/// What is switched off, to show that the model finds what it prevents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Without {
    Nothing,
    /// Ranks say what their messages depend on.
    Intervals,
    /// Orphans come back.
    Return,
    /// They cut their logs.
    Cut,
    /// Images are committed when all that they depend on is stable.
    Gate,
    /// Received messages count as logged when they are copied.
    Copies,
    /// What depends on lost determinants does not come out of a receive log.
    Filter,
    /// A rank depends on what the messages depend on that it takes from its receive log.
    Notes,
}

struct Setup {
    questions: usize,
    budget: Budget,
    /// Only the host of the server is lost.
    server_only: bool,
    without: Without,
    /// Ranks log what they receive.
    logs: bool,
}

/// Words of a receive log's memory.
const RECEIVE_WORDS: usize = 8 + 60;

impl State {
    fn new(setup: &Setup) -> State {
        let image = || BTreeMap::from([(Epoch(1), (Program::default(), Recorded::new()))]);
        let ranks = Ranks::new(|node| {
            if setup.logs {
                node.begin_receive_log(RECEIVE_WORDS, setup.without != Without::Copies);
            }
        });
        State {
            ranks,
            recorded: std::array::from_fn(|_| Recorded::new()),
            images: std::array::from_fn(|_| image()),
            committed: [Epoch(1); RANKS],
            taken: [None; RANKS],
            incarnations: [0; RANKS],
            left_memory: Default::default(),
            parts: Default::default(),
            copies: Default::default(),
            received: Default::default(),
            copied: Default::default(),
            marks: StableMarks::default(),
            ends: IncarnationEnds::default(),
            left: setup.budget,
        }
    }

    fn fail(&mut self, why: impl ToString) {
        self.ranks.wrong.get_or_insert_with(|| why.to_string());
    }

    /// All steps that the ranks make by themselves after an event.
    fn settle(&mut self, without: Without) {
        for number in 0..RANKS {
            if self.ranks.away[number] {
                continue;
            }
            self.record(number);
            self.ask(number, without);
            self.ranks.settle(number);
            let keep = [Some(self.committed[number]), self.taken[number]];
            self.ranks.nodes[number].keep_images(|epoch| keep.contains(&Some(epoch)));
            self.images[number].retain(|epoch, _| keep.contains(&Some(*epoch)));
        }
    }

    /// Records what a rank depends on, and its matches.
    fn record(&mut self, number: usize) {
        let recorded = &mut self.recorded[number];
        let engine = &mut self.ranks.nodes[number].engine;
        let mut failed = None;
        while let Some(on) = engine.next_dependency() {
            let on = Dependency {
                rank: on.peer,
                // Links end with the incarnation.
                incarnation: Incarnation(self.incarnations[on.peer.index()]),
                mark: on.mark,
            };
            if !recorded.dependencies.contains(&on) {
                recorded.dependencies.add(on);
                failed = failed.or(recorded.log.depends(on).err());
            }
        }
        engine.store_wild_matches(|one| {
            let stored = recorded.log.matched(one.number, one.source, one.tag);
            failed = failed.take().or(stored.err());
            true
        });
        if let Some(error) = failed {
            self.fail(error);
        }
    }

    /// Has the log stored, and tells peers what messages depend on until it is.
    fn ask(&mut self, number: usize, without: Without) {
        let recorded = &mut self.recorded[number];
        let mark = recorded.log.mark();
        if mark > recorded.asked.max(recorded.stable) {
            recorded.asked = mark;
            let part = LogPart::read(recorded.log.memory(), 0).expect("a log");
            let asked = StableMark {
                rank: rank(number),
                incarnation: Incarnation(self.incarnations[number]),
                mark,
            };
            self.parts[number].push_back((part, asked));
        }
        let part = self.ranks.nodes[number].received_part();
        let asked = self.received[number].back().map_or(0, ReceivedPart::end);
        let queue = &mut self.received[number];
        if part.end() > asked.max(self.copied[number].end()) && queue.is_empty() {
            queue.push_back(part);
        }
        let unstable = recorded.stable < mark && without != Without::Intervals;
        let interval = if unstable { recorded.asked } else { 0 };
        self.ranks.nodes[number].engine.set_interval(interval);
    }

    fn is_stable(&self, number: usize) -> bool {
        let recorded = &self.recorded[number];
        recorded.stable >= recorded.log.mark()
    }

    fn store(&mut self, number: usize) {
        let Some((part, asked)) = self.parts[number].pop_front() else {
            return;
        };
        if let Err(error) = self.copies[number].add(&part) {
            self.fail(error);
        }
        self.marks.add(rank(number), &part);
        self.marks.stored(asked);
        for news in self.marks.advance() {
            let of = news.rank.index();
            if news.incarnation.0 == self.incarnations[of] {
                let stable = &mut self.recorded[of].stable;
                *stable = news.mark.max(*stable);
            }
        }
    }

    fn store_received(&mut self, number: usize) {
        let Some(part) = self.received[number].pop_front() else {
            return;
        };
        if let Err(error) = self.copied[number].add(&part) {
            self.fail(error);
        }
        if !self.ranks.away[number] {
            self.ranks.nodes[number].received_stored(part.end());
        }
    }

    /// The memory of a rank's receive log on another host; `None`: it has none.
    fn copy_of_received(&self, number: usize) -> Option<Vec<u64>> {
        self.ranks.nodes[number].received_memory()?;
        let mut memory = vec![0; RECEIVE_WORDS];
        for part in self.copied[number].parts(usize::MAX) {
            part.write(&mut memory).expect("as much room");
        }
        Some(memory)
    }

    fn take_image(&mut self, number: usize) {
        let epoch = Epoch(self.ranks.nodes[number].engine.epoch().0 + 1);
        self.ranks.nodes[number].enter(epoch);
        let program = self.ranks.programs[number].clone();
        self.images[number].insert(epoch, (program, self.recorded[number].clone()));
        self.taken[number] = Some(epoch);
    }

    /// Whether an image can be committed: what it depends on can't be lost.
    fn can_commit(&self, number: usize) -> bool {
        let image = self.taken[number].and_then(|epoch| self.images[number].get(&epoch));
        image.is_some_and(|(_, image)| self.recorded[number].stable >= image.log.mark())
    }

    fn commit(&mut self, number: usize) {
        if let Some(epoch) = self.taken[number].take() {
            self.committed[number] = epoch;
            self.ranks.nodes[number].commit(epoch);
        }
    }

    fn lose(&mut self, number: usize) {
        self.ranks.lose(number);
        self.taken[number] = None;
    }

    fn back(&mut self, number: usize, without: Without) {
        self.incarnations[number] += 1;
        let (epoch, now) = (self.committed[number], self.incarnations);
        let node = self.ranks.nodes[number].rejoin(epoch, identity(number, now), book(now));
        let image = self.images[number].get(&epoch);
        let (Some(mut node), Some((program, image))) = (node, image) else {
            return self.fail("a committed image is gone");
        };
        // Its commit was stored, whether or not the rank has told its peers.
        node.commit(epoch);
        self.ranks.programs[number] = program.clone();
        let mut recorded = image.clone();
        (recorded.asked, recorded.stable) = (0, 0);
        let (memory, received) = self.left_memory[number].take().unwrap_or_else(|| {
            let mut copy = memory();
            let all = self.copies[number].whole();
            all.write(&mut copy).expect("as much room");
            (copy, self.copy_of_received(number))
        });
        match reopen(&mut recorded, memory) {
            Ok(matches) => node.engine.replay_wild_matches(matches),
            Err(error) => return self.fail(error),
        }
        let before = Incarnation(now[number] - 1);
        self.ends.note(rank(number), before, recorded.log.mark());
        if let Err(error) = recorded.log.begin(Incarnation(now[number])) {
            return self.fail(error);
        }
        let restored = received.map(|memory| {
            restore_received(&mut node, memory, &mut recorded, (&self.ends, without))
        });
        if let Some(Err(error)) = restored {
            return self.fail(error);
        }
        self.ranks.nodes[number] = node;
        self.ranks.away[number] = false;
        let image = self.images[number].get(&epoch);
        let lost = image.and_then(|(_, image)| image.dependencies.lost(&self.ends));
        self.recorded[number] = recorded;
        if let Some(on) = lost {
            return self.fail(format!("a committed image depends on {on:?}"));
        }
        // What was lost while it was away it hears of now.
        if !self.returns_as_orphan(number, without) {
            self.tell_others(number, without);
        }
    }

    /// Whether a rank is an orphan, which ends its log before what was lost, and comes back.
    fn returns_as_orphan(&mut self, number: usize, without: Without) -> bool {
        let recorded = &self.recorded[number];
        if without == Without::Return || recorded.dependencies.lost(&self.ends).is_none() {
            return false;
        }
        let mut memory = recorded.log.memory().clone();
        if without != Without::Cut
            && let Err(error) = Dependency::cut(&mut memory, 0, &self.ends)
        {
            self.fail(error);
        }
        let received = self.ranks.nodes[number].received_memory();
        self.left_memory[number] = Some((memory, received));
        self.lose(number);
        true
    }

    /// The others hear of a rank that has come back, and of what is lost.
    fn tell_others(&mut self, number: usize, without: Without) {
        let incarnation = Incarnation(self.incarnations[number]);
        for other in (0..RANKS).filter(|other| *other != number) {
            // One that is away gets the table as it comes back.
            if self.ranks.away[other] {
                continue;
            }
            if !self.returns_as_orphan(other, without)
                && let Err(error) = self.ranks.nodes[other].update(rank(number), incarnation)
            {
                self.fail(error);
            }
        }
    }

    /// Whether a rank may take part in a handshake: its resume must not depend on anything that
    /// can be lost.
    fn may_shake(&self, number: usize) -> bool {
        !self.ranks.away[number] && self.is_stable(number)
    }
}

/// Opens a log again; what its rank repeats.
fn reopen(recorded: &mut Recorded, memory: Vec<u64>) -> Result<Vec<WildMatch>, DeterminantError> {
    let log = &mut recorded.log;
    log.replay_from(memory)?;
    for on in log.take_dependencies() {
        recorded.dependencies.add(on);
    }
    let matches = log.take_matches();
    let matches = matches.map(|(number, source, tag)| WildMatch {
        number,
        source,
        tag,
    });
    Ok(matches.collect())
}

/// Takes what a receive log has, without what is lost, and notes what that depends on.
fn restore_received(
    node: &mut Node,
    memory: Vec<u64>,
    recorded: &mut Recorded,
    (ends, without): (&IncarnationEnds, Without),
) -> Result<(), String> {
    let mut failed = None;
    let restored = node.restore_received(memory, |head| {
        let on = Dependency {
            rank: head.sender,
            incarnation: head.incarnation,
            mark: head.interval,
        };
        let is_lost = !ends.has(&on);
        if !is_lost && without != Without::Notes && !recorded.dependencies.contains(&on) {
            recorded.dependencies.add(on);
            failed = failed.take().or(recorded.log.depends(on).err());
        }
        is_lost && without != Without::Filter
    });
    let noted = failed.map_or(Ok(()), |error| Err(error.to_string()));
    restored.map_err(|error| error.to_string()).and(noted)
}

impl Setup {
    fn of_rank(&self, number: usize, state: &State, actions: &mut Vec<Action>) {
        if !state.parts[number].is_empty() {
            actions.push(Action::Store(number));
        }
        if !state.received[number].is_empty() {
            actions.push(Action::StoreReceived(number));
        }
        if state.ranks.away[number] {
            return actions.push(Action::Back(number));
        }
        if state.ranks.can_step(number, self.questions) {
            actions.push(Action::Step(Step::Program(number)));
        }
        let gate = state.can_commit(number) || self.without == Without::Gate;
        if state.taken[number].is_some() && gate {
            actions.push(Action::Commit(number));
        }
    }
}

impl Model for Setup {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.ranks.wrong.is_some() {
            return;
        }
        for number in 0..RANKS {
            self.of_rank(number, state, actions);
        }
        let steps = state.ranks.connection_steps(|to| state.may_shake(to));
        actions.extend(steps.into_iter().map(Action::Step));
        if actions.is_empty() {
            let mut idle = state.clone();
            idle.ranks.make(Step::Idle, self.questions);
            idle.settle(self.without);
            if idle != *state {
                actions.push(Action::Step(Step::Idle));
            }
        }
        for number in (0..RANKS).filter(|number| !state.ranks.away[*number]) {
            if state.left.losses > 0 && (number == SERVER || !self.server_only) {
                actions.push(Action::Lose(number));
            }
            if (number == CLIENTS[0] || !self.server_only)
                && state.left.images > 0
                && state.taken[number].is_none()
            {
                actions.push(Action::TakeImage(number));
            }
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Step(step) => next.ranks.make(step, self.questions),
            Action::Store(number) => next.store(number),
            Action::StoreReceived(number) => next.store_received(number),
            Action::TakeImage(number) => {
                next.left.images -= 1;
                next.take_image(number);
            }
            Action::Commit(number) => next.commit(number),
            Action::Lose(number) => {
                next.left.losses -= 1;
                next.lose(number);
                next.parts[number].clear();
                next.received[number].clear();
            }
            Action::Back(number) => next.back(number, self.without),
        }
        next.settle(self.without);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nobody refuses or loses", |_: &Setup, state: &State| {
                state.ranks.wrong.is_none()
            }),
            Property::always("what ends, ends well", |model: &Setup, state: &State| {
                let mut actions = Vec::new();
                model.actions(state, &mut actions);
                let over = actions.iter().all(is_loss) && state.ranks.wrong.is_none();
                !over || state.ranks.verdict(model.questions).is_ok()
            }),
            Property::sometimes("an orphan comes back", |model: &Setup, s: &State| {
                let has = |client: usize| s.incarnations[client] > 0;
                let alone = has(CLIENTS[0]) && model.server_only;
                model.budget.losses == 0 || !model.server_only || alone
            }),
            Property::sometimes("all is done", |model: &Setup, s: &State| {
                let back = s.incarnations[SERVER] > 0 || model.budget.losses == 0;
                back && s.ranks.verdict(model.questions).is_ok()
            }),
        ]
    }
}

fn check(name: &str, questions: usize, budget: Budget, server_only: bool) {
    if ci() == 0 {
        return println!("{name}: only with REJOIN_MODELS=ci");
    }
    let begun = Instant::now();
    let setup = Setup {
        questions,
        budget,
        server_only,
        without: Without::Nothing,
        logs: false,
    };
    let checker = setup.checker().spawn_dfs().join();
    tell(name, begun, &checker, |state| {
        let verdict = state.ranks.verdict(checker.model().questions);
        format!("{:?} {verdict:?}", state.ranks.wrong)
    });
    checker.assert_properties();
}

#[test]
fn hosts_are_lost_at_any_step() {
    let (images, losses) = (0, 1);
    check("one question", 1, Budget { images, losses }, true);
    if soak() > 0 {
        let images = 1;
        check("a client's image", 1, Budget { images, losses }, true);
        check("any host", 1, Budget { images: 0, losses }, false);
        let losses = 2;
        check("two losses", 1, Budget { images: 0, losses }, true);
    }
}

fn is_loss(action: &Action) -> bool {
    matches!(action, Action::Lose(_))
}

/// One run with this seed; the violation it ends with.
fn walk(setup: &Setup, seed: u64) -> Result<(), String> {
    let (mut rng, mut state) = (Rng::new(seed), State::new(setup));
    for _ in 0..STEPS {
        let mut actions = Vec::new();
        setup.actions(&state, &mut actions);
        if actions
            .iter()
            .all(|action| matches!(action, Action::Lose(_)))
        {
            break;
        }
        // Losses and images come late, too.
        let is_rare = |a: &Action| is_loss(a) || matches!(a, Action::TakeImage(_));
        if rng.chance(93) && !actions.iter().all(is_rare) {
            actions.retain(|action| !is_rare(action));
        }
        let next = setup.next_state(&state, *rng.pick(&actions));
        state = next.expect("each action leads somewhere");
    }
    match state.ranks.wrong.take() {
        Some(wrong) => Err(wrong),
        None => state.ranks.verdict(setup.questions),
    }
}

#[test]
fn many_losses_in_long_runs() {
    let [plain, logging] = [false, true].map(|logs| Setup {
        questions: 3,
        budget: Budget {
            images: 4,
            losses: 4,
        },
        server_only: false,
        without: Without::Nothing,
        logs,
    });
    for seed in seed_range("REJOIN_OPTIMISTIC_SEEDS", 0..3_000) {
        let setup = if seed % 2 == 0 { &plain } else { &logging };
        if let Err(wrong) = walk(setup, seed) {
            panic!("{wrong} (REJOIN_OPTIMISTIC_SEEDS={seed}..{})", seed + 1);
        }
    }
}

/// The violation that runs find without this part.
fn found(without: Without) -> String {
    let setup = Setup {
        questions: 2,
        budget: Budget {
            images: 2,
            losses: 2,
        },
        server_only: false,
        without,
        logs: matches!(without, Without::Copies | Without::Filter | Without::Notes),
    };
    let violation = (0..20_000).find_map(|seed| walk(&setup, seed).err());
    violation.expect("a violation")
}

#[test]
fn messages_that_do_not_say_what_they_depend_on_leave_orphans() {
    println!("{}", found(Without::Intervals));
}

#[test]
fn orphans_that_stay_contradict_the_others() {
    println!("{}", found(Without::Return));
}

#[test]
fn orphans_whose_logs_are_not_cut_never_come_to_an_end() {
    println!("{}", found(Without::Cut));
}

#[test]
fn images_that_are_committed_too_early_are_orphans() {
    println!("{}", found(Without::Gate));
}

#[test]
fn received_messages_that_count_before_they_are_copied_are_lost() {
    println!("{}", found(Without::Copies));
}

#[test]
fn received_messages_that_depend_on_what_is_lost_contradict_the_others() {
    println!("{}", found(Without::Filter));
}

#[test]
fn received_messages_whose_dependencies_are_forgotten_contradict_the_others() {
    println!("{}", found(Without::Notes));
}
