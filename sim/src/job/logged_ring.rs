//! A ring of thousands of ranks in recovery groups. Each round of a rank takes in one message of
//! its left neighbour, so its value tells every message that it has had.
//!
//! Senders retain their messages until no image from which the receiver may come back lacks them.
//! A message that is gone too early is found: who comes back asks its neighbour for all messages
//! that its image lacks. What a rank sends again must be what it has sent before. With logs at the
//! receivers, messages are retained until they are in the log, and who comes back first has these.
//!
//! Two ranks have a link once each knows the other's incarnation, from the table or because its
//! manager has told it. Nothing reaches another incarnation than the one that was meant.

use super::logged_state::{RingLog, State, mix, values};
use super::work::{Work, WorkRequest};
use crate::rng::Rng;
use rejoin_channel_table::{Epoch, ImageId, Incarnation, MoveNumber, Rank};
use rejoin_managers_protocol::manager_messages::ProcessInstance;
use std::collections::BTreeMap;

/// Nanoseconds after which a process tries again to reach one that is not ready.
const AGAIN: u64 = 2_000_000;
/// A log has a message so many nanoseconds after its rank at most.
const LAG: u64 = 50_000_000;

#[derive(Debug, Clone, Default)]
struct Member {
    instance: Option<ProcessInstance>,
    started: bool,
    /// A round is under way.
    busy: bool,
    state: State,
    /// The incarnations of the neighbours that this process has been told.
    left: Option<Incarnation>,
    right: Option<Incarnation>,
    /// The incarnation of the right neighbour to which there is a link.
    linked: Option<Incarnation>,
    /// Messages that have overtaken others.
    early: BTreeMap<u64, u64>,
}

/// What one process tells its neighbour.
#[derive(Debug, Clone, Copy)]
pub enum RingMessage {
    /// The right neighbour lacks the messages from this one on.
    Want(u64),
    /// This message of the left neighbour, which has this content and was sent in this epoch.
    Deliver(u64, u64, Epoch),
    /// Up to this message, the right neighbour has all in each image from which it may come back.
    Release(u64),
}

/// An event of the ring.
#[derive(Debug, Clone, Copy)]
pub enum LoggedRingEvent {
    /// The round under way is done.
    Round(ProcessInstance),
    /// The log of this process's rank has all messages up to this one.
    Logged(ProcessInstance, u64),
    /// A message arrives.
    Tell {
        /// The rank that has sent it, and in which incarnation.
        from: (Rank, Incarnation),
        /// The rank that it is for. It reaches no other incarnation than this one.
        to: (Rank, Incarnation),
        /// What it says.
        message: RingMessage,
    },
}

type WorkRequests = Vec<WorkRequest<LoggedRingEvent>>;

/// The ring.
#[derive(Debug)]
pub struct LoggedRing {
    rounds: u64,
    /// Longest time of a round, in nanoseconds.
    round: u64,
    /// So many ranks that follow one another are a recovery group.
    group: u32,
    members: Vec<Member>,
    images: BTreeMap<(Rank, ImageId), State>,
    /// What the files of these images lack: messages to the right neighbour up to this one, which
    /// its image of the same epoch has.
    left_out: BTreeMap<(Rank, ImageId), u64>,
    /// For each rank, its log of what it receives; empty: there are none.
    logs: Vec<RingLog>,
    /// The values of each rank after each round, without any fault.
    values: Vec<Vec<u64>>,
    /// Rounds done more than once.
    pub repeated: u64,
    /// Messages that were sent again, because their receivers had come back.
    pub replayed: u64,
    /// Messages that came to a rank that had them, because their senders had come back.
    pub known: u64,
    /// Messages that are retained no more.
    pub released: u64,
    /// Messages that processes lacked which came from files.
    pub lacked: u64,
    /// Messages that processes had from their logs.
    pub from_logs: u64,
}

impl LoggedRing {
    /// So many ranks, two at least, in groups of so many; rounds, and nanoseconds for a round at
    /// most.
    #[must_use]
    pub fn new(ranks: u32, group: u32, rounds: u64, round: u64) -> LoggedRing {
        assert!(ranks > 1, "a rank that has itself as neighbour has no link");
        LoggedRing {
            rounds,
            round,
            group,
            members: vec![Member::default(); ranks as usize],
            images: BTreeMap::new(),
            left_out: BTreeMap::new(),
            logs: Vec::new(),
            values: values(ranks, rounds),
            repeated: 0,
            replayed: 0,
            known: 0,
            released: 0,
            lacked: 0,
            from_logs: 0,
        }
    }

    /// Each rank logs what it receives.
    #[must_use]
    pub fn with_receive_logs(self) -> LoggedRing {
        let logs = vec![RingLog::default(); self.members.len()];
        LoggedRing { logs, ..self }
    }

    fn left_of(&self, rank: Rank) -> Rank {
        let size = self.members.len() as u32;
        Rank((rank.0 + size - 1) % size)
    }

    fn right_of(&self, rank: Rank) -> Rank {
        Rank((rank.0 + 1) % self.members.len() as u32)
    }

    fn set_process(&mut self, instance: ProcessInstance, state: State) {
        let member = &mut self.members[instance.rank.index()];
        *member = Member {
            instance: Some(instance),
            state,
            ..Member::default()
        };
    }

    /// This rank's process sends something to this one.
    fn tell(
        &self,
        rank: Rank,
        to: (Rank, Option<Incarnation>),
        message: RingMessage,
        rng: &mut Rng,
        requests: &mut WorkRequests,
    ) {
        let sender = self.members[rank.index()].instance;
        if let (Some(sender), (to, Some(incarnation))) = (sender, to) {
            let event = LoggedRingEvent::Tell {
                from: (rank, sender.incarnation),
                to: (to, incarnation),
                message,
            };
            requests.push(WorkRequest::After(rng.between(5_000, 200_000), event));
        }
    }

    /// Asks the left neighbour for what this rank lacks.
    fn want(&self, rank: Rank, rng: &mut Rng, requests: &mut WorkRequests) {
        let member = &self.members[rank.index()];
        let want = RingMessage::Want(member.state.heard + 1);
        let left = (self.left_of(rank), member.left);
        self.tell(rank, left, want, rng, requests);
    }

    /// A log has stored what its rank had received: the sender retains it no more.
    fn logged(
        &mut self,
        instance: ProcessInstance,
        heard: u64,
        rng: &mut Rng,
        requests: &mut WorkRequests,
    ) {
        let rank = instance.rank;
        let member = &self.members[rank.index()];
        // What was not stored before the process ended never is.
        if member.instance == Some(instance) {
            self.logs[rank.index()].store(heard);
            let left = (self.left_of(rank), member.left);
            self.tell(rank, left, RingMessage::Release(heard), rng, requests);
        }
    }

    /// A process that comes back has what is in its rank's log.
    fn read_log(&mut self, rank: Rank, state: &mut State) {
        let left = &self.values[self.left_of(rank).index()];
        let log = self.logs.get(rank.index()).copied().unwrap_or_default();
        for number in log.after(state.heard) {
            state.inbox.push_back(left[number as usize]);
            state.heard = number;
            self.from_logs += 1;
        }
    }

    fn proceed(&mut self, rank: Rank, rng: &mut Rng, requests: &mut WorkRequests) {
        let (rounds, round) = (self.rounds, self.round);
        let member = &mut self.members[rank.index()];
        let Some(instance) = member.instance.filter(|_| member.started && !member.busy) else {
            return;
        };
        let State { done, inbox, .. } = &member.state;
        if *done < rounds && (*done == 0 || !inbox.is_empty()) {
            member.busy = true;
            let took = rng.between(round / 4, round);
            requests.push(WorkRequest::After(took, LoggedRingEvent::Round(instance)));
        }
    }

    fn round_done(&mut self, rank: Rank, rng: &mut Rng, requests: &mut WorkRequests) {
        let (rounds, right) = (self.rounds, self.right_of(rank));
        let member = &mut self.members[rank.index()];
        member.busy = false;
        let (linked, state) = (member.linked, &mut member.state);
        let message = match state.done {
            0 => 0,
            _ => state.inbox.pop_front().unwrap_or_default(),
        };
        state.value = mix(state.value, message, rank.0, state.done);
        state.done += 1;
        let (done, value, epoch) = (state.done, state.value, state.epoch);
        if done == rounds {
            requests.push(WorkRequest::Finished(rank));
        } else {
            state.retained.push_back(value);
            let deliver = RingMessage::Deliver(done, value, epoch);
            self.tell(rank, (right, linked), deliver, rng, requests);
        }
        self.proceed(rank, rng, requests);
    }

    /// The right neighbour has a link to this rank, and lacks messages.
    fn wanted(
        &mut self,
        rank: Rank,
        (by, incarnation): (Rank, Incarnation),
        number: u64,
        rng: &mut Rng,
        requests: &mut WorkRequests,
    ) -> Result<(), String> {
        let member = &mut self.members[rank.index()];
        member.linked = Some(incarnation);
        let (epoch, done) = (member.state.epoch, member.state.done);
        let Some(messages) = member.state.since(number) else {
            let gone = member.state.released;
            return Err(format!(
                "rank {by} lacks message {number} of rank {rank}, which retains none up to {gone}"
            ));
        };
        let messages: Vec<(u64, u64)> = messages.collect();
        self.replayed += messages.len() as u64;
        let right = (by, Some(incarnation));
        for (number, value) in messages {
            let deliver = RingMessage::Deliver(number, value, epoch);
            self.tell(rank, right, deliver, rng, requests);
        }
        let is_of_past = number > done + 1;
        let is_apart = rank.0 / self.group != by.0 / self.group;
        if is_of_past && !is_apart {
            return Err(format!("rank {by} has what rank {rank} has yet to say"));
        }
        Ok(())
    }

    /// A message of the left neighbour arrives, for the first time or again.
    fn said(
        &mut self,
        rank: Rank,
        (number, value, epoch): (u64, u64, Epoch),
        rng: &mut Rng,
        requests: &mut WorkRequests,
    ) -> Result<(), String> {
        let left = self.left_of(rank);
        if self.values[left.index()][number as usize] != value {
            return Err(format!("message {number} of rank {left} is {value}"));
        }
        let is_together = left.0 / self.group == rank.0 / self.group;
        if is_together && epoch > self.members[rank.index()].state.epoch {
            self.enter(rank, epoch);
            requests.push(WorkRequest::Entered(rank, epoch));
        }
        let member = &mut self.members[rank.index()];
        if number <= member.state.heard {
            self.known += 1;
            return Ok(());
        }
        member.early.insert(number, value);
        while let Some(value) = member.early.remove(&(member.state.heard + 1)) {
            member.state.heard += 1;
            member.state.inbox.push_back(value);
        }
        if let Some(instance) = member.instance.filter(|_| !self.logs.is_empty()) {
            let logged = LoggedRingEvent::Logged(instance, member.state.heard);
            requests.push(WorkRequest::After(rng.between(AGAIN, LAG), logged));
        }
        self.proceed(rank, rng, requests);
        Ok(())
    }

    /// What one process has told another one arrives.
    fn told(
        &mut self,
        event: LoggedRingEvent,
        rng: &mut Rng,
        requests: &mut WorkRequests,
    ) -> Result<(), String> {
        let LoggedRingEvent::Tell { from, to, message } = event else {
            return Ok(());
        };
        let member = &self.members[to.0.index()];
        let is_of_right = !matches!(message, RingMessage::Deliver(..));
        let sender = if is_of_right {
            member.right
        } else {
            member.left
        };
        let here = member.instance.map(|instance| instance.incarnation);
        let is_ready = here == Some(to.1) && member.started && sender >= Some(from.1);
        if !is_ready && here.is_none_or(|here| here <= to.1) {
            // Whoever asks tries again until the other one is there and knows it.
            if let RingMessage::Want(_) = message {
                requests.push(WorkRequest::After(AGAIN, event));
            }
            return Ok(());
        }
        if here != Some(to.1) || sender != Some(from.1) {
            return Ok(());
        }
        match message {
            RingMessage::Want(number) => self.wanted(to.0, from, number, rng, requests),
            RingMessage::Deliver(number, value, epoch) => {
                self.said(to.0, (number, value, epoch), rng, requests)
            }
            RingMessage::Release(heard) => {
                let state = &mut self.members[to.0.index()].state;
                let before = state.released;
                state.release(heard);
                self.released += state.released - before;
                Ok(())
            }
        }
    }
}

impl Work for LoggedRing {
    type Event = LoggedRingEvent;

    fn begin(&mut self, instance: ProcessInstance) {
        if let Some(log) = self.logs.get_mut(instance.rank.index()) {
            *log = RingLog::default();
        }
        self.set_process(instance, State::default());
    }

    fn restore(
        &mut self,
        instance: ProcessInstance,
        from: ImageId,
        is_file: bool,
    ) -> Result<(), String> {
        let of_rank = (instance.rank, from);
        let image = self.images.get(&of_rank).cloned();
        let mut state = image.ok_or_else(|| format!("no state of {instance:?} in {from}"))?;
        // A rank that moves stays in its epoch.
        state.epoch = from.checkpoint().unwrap_or(state.epoch);
        if let Some(left_out) = self.left_out.get(&of_rank).filter(|_| is_file) {
            let before = state.released;
            state.leave_out(*left_out);
            self.lacked += state.released - before;
        }
        let done = self.members[instance.rank.index()].state.done;
        self.repeated += done.saturating_sub(state.done);
        self.read_log(instance.rank, &mut state);
        self.set_process(instance, state);
        Ok(())
    }

    fn lacks(&self, rank: Rank) -> bool {
        self.members[rank.index()].state.lacks > 0
    }

    fn start(&mut self, instance: ProcessInstance, rng: &mut Rng, requests: &mut WorkRequests) {
        self.members[instance.rank.index()].started = true;
        self.proceed(instance.rank, rng, requests);
    }

    fn event(
        &mut self,
        event: LoggedRingEvent,
        rng: &mut Rng,
        requests: &mut WorkRequests,
    ) -> Result<(), String> {
        match event {
            LoggedRingEvent::Round(instance) => {
                if self.members[instance.rank.index()].instance == Some(instance) {
                    self.round_done(instance.rank, rng, requests);
                }
                Ok(())
            }
            LoggedRingEvent::Logged(instance, heard) => {
                self.logged(instance, heard, rng, requests);
                Ok(())
            }
            LoggedRingEvent::Tell { .. } => self.told(event, rng, requests),
        }
    }

    fn rank_of(&self, event: &LoggedRingEvent) -> Option<Rank> {
        match event {
            LoggedRingEvent::Round(instance) | LoggedRingEvent::Logged(instance, _) => {
                Some(instance.rank)
            }
            LoggedRingEvent::Tell { to, .. } => Some(to.0),
        }
    }

    fn enter(&mut self, rank: Rank, epoch: Epoch) {
        if epoch <= self.members[rank.index()].state.epoch {
            return;
        }
        let right = self.right_of(rank);
        let is_apart = right.0 / self.group != rank.0 / self.group;
        let id = ImageId::Checkpoint(epoch);
        let has_image = self.images.get(&(right, id)).filter(|_| is_apart);
        if let Some(theirs) = has_image {
            self.left_out.insert((rank, id), theirs.heard);
        }
        let state = &mut self.members[rank.index()].state;
        self.images.insert((rank, id), state.clone());
        state.epoch = epoch;
    }

    fn save(&mut self, rank: Rank, number: MoveNumber) {
        let state = self.members[rank.index()].state.clone();
        self.images.insert((rank, ImageId::Move(number)), state);
    }

    fn group_committed(
        &mut self,
        rank: Rank,
        epoch: Epoch,
        rng: &mut Rng,
        requests: &mut WorkRequests,
    ) {
        if let Some(image) = self.images.get(&(rank, ImageId::Checkpoint(epoch))) {
            let left = (self.left_of(rank), self.members[rank.index()].left);
            if let Some(log) = self.logs.get_mut(rank.index()) {
                log.forget(image.heard);
            }
            let release = RingMessage::Release(image.heard);
            self.tell(rank, left, release, rng, requests);
        }
    }

    fn peers(&self, rank: Rank, _size: u32) -> Vec<Rank> {
        let mut peers = vec![self.left_of(rank), self.right_of(rank)];
        peers.sort_unstable();
        peers
    }

    fn update(
        &mut self,
        rank: Rank,
        other: Rank,
        incarnation: Incarnation,
        rng: &mut Rng,
        requests: &mut WorkRequests,
    ) {
        let (left, right) = (self.left_of(rank), self.right_of(rank));
        let member = &mut self.members[rank.index()];
        if other == right && Some(incarnation) > member.right {
            (member.right, member.linked) = (Some(incarnation), None);
        }
        if other == left && Some(incarnation) > member.left {
            member.left = Some(incarnation);
            self.want(rank, rng, requests);
        }
    }

    fn ended(&mut self, rank: Rank) {
        self.members[rank.index()].instance = None;
    }

    fn forget(&mut self, rank: Rank, image: ImageId) {
        self.images.remove(&(rank, image));
        self.left_out.remove(&(rank, image));
    }

    fn committed(&self, epoch: Epoch) -> Result<(), String> {
        for rank in (0..self.members.len() as u32).map(Rank) {
            let left = self.left_of(rank);
            // One that was lost is reported later.
            let id = ImageId::Checkpoint(epoch);
            let images = [rank, left].map(|rank| self.images.get(&(rank, id)));
            let [Some(mine), Some(theirs)] = images else {
                continue;
            };
            let is_together = left.0 / self.group == rank.0 / self.group;
            let is_early = mine.heard > theirs.done;
            let logged = self.logs.get(rank.index()).map_or(0, RingLog::end);
            if (is_together && is_early) || mine.heard.max(logged) < theirs.released {
                return Err(format!(
                    "rank {rank} has heard {} in epoch {epoch}, and rank {left} has {theirs:?}",
                    mine.heard
                ));
            }
        }
        Ok(())
    }

    fn describe(&self) -> String {
        let late = (0u32..).zip(&self.members);
        let late = late.filter(|(_, member)| member.state.done < self.rounds);
        format!("{:?}", late.take(40).collect::<Vec<_>>())
    }

    fn answer(&self, rank: Rank) -> Result<(), String> {
        let state = &self.members[rank.index()].state;
        let right = self.values[rank.index()][self.rounds as usize];
        match state.done == self.rounds && state.value == right {
            true => Ok(()),
            false => Err(format!("rank {rank} ends with {state:?}")),
        }
    }
}
