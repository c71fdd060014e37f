//! A program whose messages go through the real engines of the ranks. A check compares every
//! received message, after any kills, cuts and rollbacks.

use super::MILLI;
use super::work::{Work, WorkRequest};
use crate::message_check::{self, Outcome};
use crate::message_plan::{Plan, Step, TALK_CONTEXT, content};
use crate::node::{ConnectionId, DisabledEpochRule, Node, Output};
use crate::node::{Load, ShortCounts};
use crate::rng::Rng;
use rejoin_channel_table::{
    AddressBook, BusinessCard, Epoch, Identity, ImageId, Incarnation, JobId, MoveNumber, Rank,
};
use rejoin_engine::{Envelope, FailedProbes, MessageMode, ReqId, Segment, WildMatch};
use rejoin_managers_protocol::manager_messages::ProcessInstance;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Most bytes written at once.
const WRITE: u64 = 9_000;

/// How often a receive polls for its message before it is posted.
const SPINS: u32 = 20;

/// A message or receive under way: its number in the plan, and its request.
#[derive(Debug, Clone)]
struct Pending {
    number: usize,
    id: ReqId,
    segment: Segment,
}

/// A rank's program as far as it has come.
#[derive(Debug, Clone, Default)]
struct Program {
    position: usize,
    sends: Vec<Pending>,
    receives: Vec<Pending>,
    bound: Vec<usize>,
    outcomes: BTreeMap<usize, Outcome>,
    /// How often a receive has polled for its message without being posted.
    spins: u32,
    finished: bool,
}

#[derive(Debug)]
struct Member {
    instance: Option<ProcessInstance>,
    incarnation: Incarnation,
    started: bool,
    /// The image that it comes from.
    from: Option<ImageId>,
    /// That image was dropped since. The process has its content, and gets it here when it starts.
    is_dropped: bool,
    /// `None` until its first process has started.
    node: Option<Node>,
    program: Program,
    images: BTreeMap<ImageId, Program>,
    /// Matches of receives with a wildcard, which outlive the process.
    matches: Vec<WildMatch>,
    dialing: BTreeSet<Rank>,
}

#[derive(Debug)]
struct Connection {
    instances: [ProcessInstance; 2],
    open: [bool; 2],
    queues: [VecDeque<Option<Load>>; 2],
}

/// Ranks with engines, and the links between them.
#[derive(Debug)]
pub struct Engines {
    plan: Plan,
    members: Vec<Member>,
    connections: BTreeMap<ConnectionId, Connection>,
    next: ConnectionId,
    /// Ends of connections whose other ends have closed, until that is on its way.
    closed: Vec<(ConnectionId, usize)>,
    /// Percent of the polls of a rank's links in which one of them breaks.
    cuts: u64,
    /// Random bits that decide which ranks share a host: their links carry short messages.
    near: u64,
    /// Counts of short messages of processes that have ended.
    short_counts: ShortCounts,
    /// Links that broke.
    pub broken: u64,
    /// Half of the rule of epochs switched off.
    pub disabled_rule: DisabledEpochRule,
    /// For each rank its recovery group; empty: the job is one.
    groups: Vec<u32>,
    /// Words of the memory in which each rank logs what it receives; 0: it does not.
    log_words: usize,
    /// Messages that ranks have taken from there, and those for which there was no room.
    pub received: (u64, u64),
}

/// An event of these ranks and links.
#[derive(Debug)]
pub enum EngineEvent {
    /// A rank's program takes a step.
    Step(ProcessInstance),
    /// The next bytes, or the end, come to an end of a connection.
    Arrive(ConnectionId, usize),
    /// A rank dials another.
    Dial(ProcessInstance, Rank),
    /// A rank polls its links.
    PollLinks(ProcessInstance),
}

type WorkRequests = Vec<WorkRequest<EngineEvent>>;

impl Engines {
    /// A random program without cancelled messages.
    #[must_use]
    pub fn new(rng: &mut Rng, ranks: u32, messages: usize, cuts: u64) -> Engines {
        let mut plan = Plan::random(rng, ranks, messages);
        while plan.cancels {
            plan = Plan::random(rng, ranks, messages);
        }
        for script in &mut plan.scripts {
            script.retain(|step| !matches!(step, Step::Checkpoint(_)));
        }
        let member = |_| Member {
            instance: None,
            incarnation: Incarnation(0),
            started: false,
            from: None,
            is_dropped: false,
            node: None,
            program: Program::default(),
            images: BTreeMap::new(),
            matches: Vec::new(),
            dialing: BTreeSet::new(),
        };
        Engines {
            plan,
            members: (0..ranks).map(member).collect(),
            connections: BTreeMap::new(),
            next: 0,
            closed: Vec::new(),
            cuts,
            near: rng.bits() | rng.bits(),
            short_counts: ShortCounts::default(),
            broken: 0,
            disabled_rule: DisabledEpochRule::default(),
            groups: Vec::new(),
            log_words: 0,
            received: (0, 0),
        }
    }

    /// The same where the ranks are several recovery groups. Matched probes are not repeated here,
    /// so the program has none.
    #[must_use]
    pub fn in_groups(mut self, groups: Vec<u32>) -> Engines {
        for receive in &mut self.plan.receives {
            receive.probed = false;
        }
        self.groups = groups;
        self
    }

    /// Each rank logs what it receives of other groups, in memory of so many words.
    #[must_use]
    pub fn with_receive_logs(mut self, words: usize) -> Engines {
        self.log_words = words;
        self
    }

    /// Stores the matches of receives with a wildcard, before anything leaves the rank.
    fn store_matches(&mut self, rank: Rank) {
        let Member { node, matches, .. } = &mut self.members[rank.index()];
        if let Some(node) = node {
            node.engine.store_wild_matches(|one| {
                matches.push(one);
                true
            });
        }
    }

    /// Counts of short messages, over all ranks and all of their processes.
    #[must_use]
    pub fn short_counts(&self) -> ShortCounts {
        let nodes = self.members.iter().filter_map(|m| m.node.as_ref());
        let mut all = self.short_counts;
        nodes.for_each(|node| all += node.short_counts);
        all
    }

    fn set_process(&mut self, instance: ProcessInstance, from: Option<ImageId>) {
        let member = &mut self.members[instance.rank.index()];
        member.instance = Some(instance);
        member.incarnation = instance.incarnation;
        member.started = false;
        (member.from, member.is_dropped) = (from, false);
        member.dialing.clear();
    }

    /// The node of a process that lives and has started.
    fn node(&mut self, instance: ProcessInstance) -> Option<&mut Node> {
        let member = &mut self.members[instance.rank.index()];
        let instances = member.instance == Some(instance) && member.started;
        member.node.as_mut().filter(|_| instances)
    }

    fn step(
        &mut self,
        instance: ProcessInstance,
        rng: &mut Rng,
        requests: &mut WorkRequests,
    ) -> Result<(), String> {
        let rank = instance.rank;
        let position = self.members[rank.index()].program.position;
        let Some(&step) = self.plan.scripts[rank.index()].get(position) else {
            return Ok(());
        };
        let mut pause = rng.between(1_000, 800_000);
        match step {
            Step::Receive(number) if self.spins(instance, number) => {
                requests.push(WorkRequest::After(20_000, EngineEvent::Step(instance)));
                return Ok(());
            }
            Step::Send(number) => self.send(instance, number, rng, requests),
            Step::Receive(number) => self.receive(instance, number)?,
            Step::Await(number) if !self.is_received(rank, number) => {
                requests.push(WorkRequest::After(100_000, EngineEvent::Step(instance)));
                return Ok(());
            }
            Step::Compute(micros) => pause += micros * 1_000,
            _ => {}
        }
        self.members[rank.index()].program.position += 1;
        requests.push(WorkRequest::After(pause, EngineEvent::Step(instance)));
        self.progress(instance, rng, requests)
    }

    fn is_received(&self, rank: Rank, number: usize) -> bool {
        let program = &self.members[rank.index()].program;
        program.outcomes.contains_key(&number)
    }

    /// Whether a receive polls for its message once more before it is posted.
    fn spins(&mut self, instance: ProcessInstance, number: usize) -> bool {
        let pattern = self.plan.receives[number].pattern;
        let spins = self.members[instance.rank.index()].program.spins;
        let again = spins < SPINS && self.node(instance).is_some_and(|n| n.may_poll(&pattern));
        self.members[instance.rank.index()].program.spins = if again { spins + 1 } else { 0 };
        again
    }

    fn receive(&mut self, instance: ProcessInstance, number: usize) -> Result<(), String> {
        let receive = self.plan.receives[number];
        let Some(node) = self.node(instance) else {
            return Ok(());
        };
        let immediate = node.receive_short(&receive.pattern, receive.len);
        let (done, pending) = if let Some((completion, segment)) = immediate {
            let bytes = node.bytes(segment).to_vec();
            node.overwrite(segment);
            let done = Outcome {
                receive: number,
                completion,
                bytes,
            };
            (Some(done), None)
        } else {
            let (id, segment) = node.receive(receive.pattern, receive.len)?;
            let pending = Pending {
                number,
                id,
                segment,
            };
            (None, Some(pending))
        };
        let program = &mut self.members[instance.rank.index()].program;
        program.bound.push(number);
        program.receives.extend(pending);
        program.outcomes.extend(done.map(|done| (number, done)));
        Ok(())
    }

    fn send(
        &mut self,
        instance: ProcessInstance,
        number: usize,
        rng: &mut Rng,
        requests: &mut WorkRequests,
    ) {
        let message = self.plan.messages[number];
        let envelope = Envelope {
            context: message.context,
            source: instance.rank.0.cast_signed(),
            tag: message.tag,
        };
        let bytes = content(number, message.len);
        // The device would detach blocking sends. Here each waits for its completion.
        let mode = match message.mode {
            MessageMode::Blocking => MessageMode::Standard,
            mode => mode,
        };
        let near = self.near >> ((instance.rank.0 ^ message.to) % 64) & 1 == 1;
        self.store_matches(instance.rank);
        let Some(node) = self.node(instance) else {
            return;
        };
        if near
            && mode == MessageMode::Standard
            && let Some((id, load)) = node.send_short(Rank(message.to), envelope, &bytes)
        {
            self.travel(instance, id, Some(load), rng, requests);
            return;
        }
        if let Some((id, segment)) = node.send(Rank(message.to), envelope, &bytes, mode) {
            let program = &mut self.members[instance.rank.index()].program;
            program.sends.push(Pending {
                number,
                id,
                segment,
            });
        }
    }

    /// Takes what has completed, and writes what is to be written.
    fn progress(
        &mut self,
        instance: ProcessInstance,
        rng: &mut Rng,
        requests: &mut WorkRequests,
    ) -> Result<(), String> {
        let rank = instance.rank;
        let script = self.plan.scripts[rank.index()].len();
        let Member { node, program, .. } = &mut self.members[rank.index()];
        let Some(node) = node else {
            return Ok(());
        };
        for pending in std::mem::take(&mut program.receives) {
            let Some(completion) = node.engine.poll(pending.id) else {
                program.receives.push(pending);
                continue;
            };
            let outcome = Outcome {
                receive: pending.number,
                completion,
                bytes: node.bytes(pending.segment).to_vec(),
            };
            node.overwrite(pending.segment);
            if program.outcomes.insert(pending.number, outcome).is_some() {
                return Err(format!("receive {} ended twice", pending.number));
            }
        }
        for pending in std::mem::take(&mut program.sends) {
            match node.engine.poll(pending.id) {
                Some(_) => node.overwrite(pending.segment),
                None => program.sends.push(pending),
            }
        }
        let idle = program.sends.is_empty() && program.receives.is_empty();
        let done = idle && program.position == script && node.engine.quiescent();
        if done && !program.finished {
            program.finished = true;
            requests.push(WorkRequest::Finished(rank));
        }
        self.drain_queues(instance, rng, requests);
        Ok(())
    }

    fn drain_queues(
        &mut self,
        instance: ProcessInstance,
        rng: &mut Rng,
        requests: &mut WorkRequests,
    ) {
        self.store_matches(instance.rank);
        let peers = (0..self.members.len() as u32).map(Rank);
        let member = &mut self.members[instance.rank.index()];
        let Some(node) = &mut member.node else {
            return;
        };
        let mut writes = Vec::new();
        for peer in peers {
            if node.wants_link(peer) && member.dialing.insert(peer) {
                let delay = rng.between(10_000, 300_000);
                requests.push(WorkRequest::After(delay, EngineEvent::Dial(instance, peer)));
            }
        }
        for output in node.take_output() {
            match output {
                Output::Bytes(_, bytes) if bytes.is_empty() => {}
                Output::Bytes(id, bytes) => writes.push((id, Some(Load::Bytes(bytes)))),
                Output::Close(id) => writes.push((id, None)),
            }
        }
        while let Some(peer) = node.engine.next_ready() {
            while let Some(id) = node.table().live(peer) {
                let bytes = node.write(peer, rng.between(1, WRITE) as usize);
                if bytes.is_empty() {
                    break;
                }
                writes.push((id, Some(Load::Bytes(bytes))));
            }
        }
        for (id, load) in writes {
            self.travel(instance, id, load, rng, requests);
        }
    }

    /// Puts bytes, or the end, on their way from this process to the other end.
    fn travel(
        &mut self,
        from: ProcessInstance,
        id: ConnectionId,
        load: Option<Load>,
        rng: &mut Rng,
        requests: &mut WorkRequests,
    ) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let side = usize::from(connection.instances[0] == from);
        if connection.open[1 - side] {
            connection.open[1 - side] = load.is_some();
            connection.queues[side].push_back(load);
            let delay = rng.between(5_000, 150_000);
            requests.push(WorkRequest::After(delay, EngineEvent::Arrive(id, side)));
        }
    }

    fn dial(
        &mut self,
        instance: ProcessInstance,
        peer: Rank,
        rng: &mut Rng,
        requests: &mut WorkRequests,
    ) {
        let other = &self.members[peer.index()];
        let there = other.instance.filter(|_| other.started);
        let Some(other) = there.filter(|other| other.generation == instance.generation) else {
            // The peer does not listen yet.
            requests.push(WorkRequest::After(MILLI, EngineEvent::Dial(instance, peer)));
            return;
        };
        self.members[instance.rank.index()].dialing.remove(&peer);
        let (id, nonces) = (self.next, [rng.nonce(), rng.nonce()]);
        let Some(node) = self.node(instance).filter(|node| node.wants_link(peer)) else {
            return;
        };
        if node.dial(peer, id, nonces[0]).is_err() {
            return;
        }
        self.next += 1;
        let connection = Connection {
            instances: [instance, other],
            open: [true; 2],
            queues: Default::default(),
        };
        self.connections.insert(id, connection);
        if let Some(node) = self.node(other) {
            node.accept(id, nonces[1]);
        }
        self.drain_queues(instance, rng, requests);
    }

    fn arrive(
        &mut self,
        id: ConnectionId,
        side: usize,
        rng: &mut Rng,
        requests: &mut WorkRequests,
    ) -> Result<(), String> {
        let Some(connection) = self.connections.get_mut(&id) else {
            return Ok(());
        };
        let (instance, next) = (
            connection.instances[side],
            connection.queues[side].pop_front(),
        );
        let spins = self.members[instance.rank.index()].program.spins > 0;
        let Some(node) = self.node(instance) else {
            return Ok(());
        };
        let before = node.engine.epoch();
        match next {
            Some(Some(load)) => {
                let all = rng.chance(60) && !spins;
                node.arrive(id, load, all)?;
            }
            Some(None) => {
                node.end(id);
            }
            None => {}
        }
        self.entered(instance, before, requests);
        self.progress(instance, rng, requests)
    }

    /// Frames that arrived may have made the node enter epochs after `before`.
    fn entered(&mut self, instance: ProcessInstance, before: Epoch, requests: &mut WorkRequests) {
        let Some(node) = self.node(instance) else {
            return;
        };
        let entered = before.0 + 1..=node.engine.epoch().0;
        for epoch in entered.map(Epoch) {
            self.save_program(instance.rank, epoch);
            if self.members[instance.rank.index()]
                .images
                .contains_key(&ImageId::Checkpoint(epoch))
            {
                requests.push(WorkRequest::Entered(instance.rank, epoch));
            }
        }
    }

    /// Saves the program's part of an image that the node has just taken.
    fn save_program(&mut self, rank: Rank, epoch: Epoch) {
        let member = &mut self.members[rank.index()];
        if member.node.as_ref().is_some_and(|n| n.has_image(epoch)) {
            let program = member.program.clone();
            let id = ImageId::Checkpoint(epoch);
            member.images.entry(id).or_insert(program);
        }
    }

    fn poll_links(
        &mut self,
        instance: ProcessInstance,
        rng: &mut Rng,
        requests: &mut WorkRequests,
    ) -> Result<(), String> {
        let cut = rng.chance(self.cuts);
        let Some(node) = self.node(instance) else {
            return Ok(());
        };
        let before = node.engine.epoch();
        node.take_in_all()?;
        node.engine.flush_all_acks();
        node.engine.grant_if_starved(&FailedProbes::default());
        self.entered(instance, before, requests);
        requests.push(WorkRequest::After(MILLI, EngineEvent::PollLinks(instance)));
        if cut {
            let open = |c: &Connection| c.instances.contains(&instance) && c.open == [true; 2];
            let mut ids = self.connections.iter().filter(|(_, c)| open(c));
            if let Some(id) = ids.next_back().map(|(id, _)| *id) {
                self.broken += 1;
                self.cut(id, rng, requests);
            }
        }
        self.progress(instance, rng, requests)
    }

    /// Only the end of the connection still arrives.
    fn cut(&mut self, id: ConnectionId, rng: &mut Rng, requests: &mut WorkRequests) {
        let instances = self.connections.get(&id).map(|c| c.instances);
        for instance in instances.into_iter().flatten() {
            self.travel(instance, id, None, rng, requests);
        }
    }
}

impl Work for Engines {
    type Event = EngineEvent;

    fn begin(&mut self, instance: ProcessInstance) {
        self.set_process(instance, None);
    }

    fn restore(
        &mut self,
        instance: ProcessInstance,
        from: ImageId,
        _is_file: bool,
    ) -> Result<(), String> {
        let images = &self.members[instance.rank.index()].images;
        if !images.contains_key(&from) {
            return Err(format!("no program of {instance:?} in {from}"));
        }
        self.set_process(instance, Some(from));
        Ok(())
    }

    fn start(&mut self, instance: ProcessInstance, _rng: &mut Rng, requests: &mut WorkRequests) {
        let entry = |m: &Member| (m.incarnation, BusinessCard::default());
        let book = AddressBook::new(self.members.iter().map(entry).collect());
        let me = Identity {
            job: JobId(3),
            rank: instance.rank,
            generation: instance.generation,
            incarnation: instance.incarnation,
        };
        let member = &mut self.members[instance.rank.index()];
        let (node, program) = match member.from {
            None => (
                Some(Node::new(self.plan.config, me, book)),
                Some(Program::default()),
            ),
            Some(from) => {
                let node = member.node.as_ref();
                let node = node.and_then(|node| node.come_from(from, me, book));
                assert!(node.is_some(), "{instance:?}: its image is gone");
                (node, member.images.get(&from).cloned())
            }
        };
        member.started = true;
        let old = std::mem::replace(&mut member.node, node);
        if let Some(old) = &old {
            self.short_counts += old.short_counts;
            self.received.0 += old.restored;
            self.received.1 += old.unlogged;
        }
        if let Some(node) = &mut member.node {
            node.disabled_rule = self.disabled_rule;
            match member.from {
                // What is retained, and the matches, are of the image's group.
                Some(from) => {
                    if let ImageId::Checkpoint(epoch) = from {
                        node.commit(epoch);
                    }
                    node.engine
                        .replay_wild_matches(member.matches.iter().copied());
                    if let Some(memory) = old.as_ref().and_then(Node::received_memory) {
                        let restored = node.restore_received(memory, |_| false);
                        restored.expect("the log of the image");
                    }
                }
                None if !self.groups.is_empty() => {
                    node.engine.set_groups(&self.groups);
                    if self.log_words > 0 {
                        node.begin_receive_log(self.log_words, false);
                    }
                    member.matches.clear();
                }
                None => {}
            }
        }
        member.program = program.unwrap_or_default();
        let from = member.from;
        member.images.retain(|image, _| Some(*image) <= from);
        if let Some(dropped) = from.filter(|_| std::mem::take(&mut member.is_dropped)) {
            self.forget(instance.rank, dropped);
        }
        requests.push(WorkRequest::After(1_000, EngineEvent::Step(instance)));
        requests.push(WorkRequest::After(MILLI, EngineEvent::PollLinks(instance)));
        for (id, side) in std::mem::take(&mut self.closed) {
            requests.push(WorkRequest::After(MILLI, EngineEvent::Arrive(id, side)));
        }
    }

    fn event(
        &mut self,
        event: EngineEvent,
        rng: &mut Rng,
        requests: &mut WorkRequests,
    ) -> Result<(), String> {
        match event {
            EngineEvent::Arrive(id, side) => return self.arrive(id, side, rng, requests),
            EngineEvent::Step(instance) if self.node(instance).is_some() => {
                self.step(instance, rng, requests)?
            }
            EngineEvent::Dial(instance, peer) if self.node(instance).is_some() => {
                self.dial(instance, peer, rng, requests);
            }
            EngineEvent::PollLinks(instance) => self.poll_links(instance, rng, requests)?,
            EngineEvent::Step(_) | EngineEvent::Dial(..) => {}
        }
        Ok(())
    }

    fn rank_of(&self, event: &EngineEvent) -> Option<Rank> {
        match event {
            EngineEvent::Step(instance)
            | EngineEvent::Dial(instance, _)
            | EngineEvent::PollLinks(instance) => Some(instance.rank),
            EngineEvent::Arrive(id, side) => Some(self.connections.get(id)?.instances[*side].rank),
        }
    }

    fn enter(&mut self, rank: Rank, epoch: Epoch) {
        if let Some(node) = &mut self.members[rank.index()].node {
            node.enter(epoch);
        }
        self.save_program(rank, epoch);
    }

    fn save(&mut self, rank: Rank, number: MoveNumber) {
        let member = &mut self.members[rank.index()];
        if let Some(node) = &mut member.node {
            node.save(number);
        }
        let program = member.program.clone();
        member.images.insert(ImageId::Move(number), program);
    }

    fn group_committed(
        &mut self,
        rank: Rank,
        epoch: Epoch,
        _rng: &mut Rng,
        _requests: &mut WorkRequests,
    ) {
        if let Some(node) = &mut self.members[rank.index()].node {
            node.commit(epoch);
        }
    }

    fn update(
        &mut self,
        rank: Rank,
        other: Rank,
        incarnation: Incarnation,
        _rng: &mut Rng,
        _requests: &mut WorkRequests,
    ) {
        let member = &mut self.members[rank.index()];
        if let Some(node) = &mut member.node {
            // The engine finds nothing wrong with a rank of the job.
            let _ = node.update(other, incarnation);
        }
    }

    fn ended(&mut self, rank: Rank) {
        let Some(instance) = self.members[rank.index()].instance.take() else {
            return;
        };
        // Its ends close; bytes under way still arrive.
        let of_it = self
            .connections
            .iter_mut()
            .filter(|(_, c)| c.instances.contains(&instance));
        for (id, connection) in of_it {
            let side = usize::from(connection.instances[0] == instance);
            if connection.open[1 - side] {
                connection.open[1 - side] = false;
                connection.queues[side].push_back(None);
                self.closed.push((*id, side));
            }
        }
    }

    fn forget(&mut self, rank: Rank, image: ImageId) {
        let member = &mut self.members[rank.index()];
        if member.instance.is_some() && !member.started && member.from == Some(image) {
            member.is_dropped = true;
            return;
        }
        member.images.remove(&image);
        if let (Some(node), ImageId::Checkpoint(epoch)) = (&mut member.node, image) {
            node.keep_images(|kept| kept != epoch);
        }
    }

    fn committed(&self, _epoch: Epoch) -> Result<(), String> {
        if !self.groups.is_empty() {
            // Images of different groups fit together only through what is retained and repeated.
            return Ok(());
        }
        let nodes: Vec<&Node> = self
            .members
            .iter()
            .filter_map(|m| m.node.as_ref())
            .collect();
        for (at, node) in nodes.iter().enumerate() {
            for other in &nodes[at + 1..] {
                node.check_consistency(other)?;
            }
        }
        Ok(())
    }

    fn describe(&self) -> String {
        let all = self.members.iter();
        let pending = |list: &[Pending]| list.iter().map(|p| p.number).collect::<Vec<_>>();
        let each = all.map(|m| {
            let peers = (0..self.members.len() as u32).map(Rank);
            let states = m.node.as_ref().map(|node| {
                let state = |peer| (node.table().state(peer), node.engine.tx_waiting(peer));
                peers.map(state).collect::<Vec<_>>()
            });
            let program = &m.program;
            let open = (pending(&program.sends), pending(&program.receives));
            format!(
                "{:?} at {} {open:?} {states:?}",
                m.instance, program.position
            )
        });
        each.collect::<Vec<_>>().join("\n")
    }

    fn answer(&self, rank: Rank) -> Result<(), String> {
        let program = &self.members[rank.index()].program;
        for context in [1, 2, 3, TALK_CONTEXT] {
            let of = |n: &&usize| self.plan.receives[**n].pattern.context == context;
            let bound = program.bound.iter().filter(of);
            let outcomes: Vec<Outcome> = bound.map(|n| program.outcomes[n].clone()).collect();
            message_check::receives(&self.plan, rank.0, context, &outcomes)
                .map_err(|e| format!("rank {rank}, context {context}: {e}"))?;
        }
        Ok(())
    }
}
