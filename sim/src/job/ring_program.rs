//! A program for thousands of ranks: a ring in which no rank may be more than one round ahead of
//! its left neighbour. A message holds the number of rounds that its sender has done, so it
//! replaces all earlier messages. Like every message it carries the sender's epoch. The receiver
//! does not read it before it has entered that epoch.

use super::work::{Work, WorkRequest};
use crate::rng::Rng;
use rejoin_channel_table::{Epoch, Generation, ImageId, Incarnation, MoveNumber, Rank};
use rejoin_managers_protocol::manager_messages::ProcessInstance;
use std::collections::BTreeMap;

/// A rank's state, which is also the content of its image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    done: u64,
    /// Rounds of the left neighbour that it knows of.
    heard: u64,
    value: u64,
    epoch: Epoch,
}

const BEGIN: State = State {
    done: 0,
    heard: 0,
    value: 0,
    epoch: Epoch(0),
};

#[derive(Debug, Clone, Copy)]
struct Member {
    instance: Option<ProcessInstance>,
    started: bool,
    /// A round is under way.
    busy: bool,
    state: State,
}

/// The ring.
#[derive(Debug)]
pub struct Ring {
    rounds: u64,
    /// Longest time of a round, in nanoseconds.
    round: u64,
    members: Vec<Member>,
    images: BTreeMap<(Rank, ImageId), State>,
    answers: Vec<u64>,
    /// Rounds done more than once.
    pub repeated: u64,
}

/// An event of a ring.
#[derive(Debug)]
pub enum RingEvent {
    /// The round under way is done.
    Round(ProcessInstance),
    /// The left neighbour has done so many rounds.
    Heard {
        /// The rank that receives it.
        at: Rank,
        /// The sender's generation.
        generation: Generation,
        /// The sender's epoch.
        epoch: Epoch,
        /// Rounds that the neighbour has done.
        done: u64,
    },
}

fn mix(value: u64, rank: Rank, round: u64) -> u64 {
    let word = (value ^ (u64::from(rank.0) << 32 | round)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word ^ (word >> 29)
}

impl Ring {
    /// So many ranks, rounds, and nanoseconds for a round at most.
    #[must_use]
    pub fn new(ranks: u32, rounds: u64, round: u64) -> Ring {
        let answer = |rank| (0..rounds).fold(0, |value, k| mix(value, Rank(rank), k));
        let member = Member {
            instance: None,
            started: false,
            busy: false,
            state: BEGIN,
        };
        Ring {
            rounds,
            round,
            members: vec![member; ranks as usize],
            images: BTreeMap::new(),
            answers: (0..ranks).map(answer).collect(),
            repeated: 0,
        }
    }

    fn tell(
        &self,
        rank: Rank,
        instance: ProcessInstance,
        rng: &mut Rng,
        requests: &mut Vec<WorkRequest<RingEvent>>,
    ) {
        let State { done, epoch, .. } = self.members[rank.index()].state;
        let at = Rank((rank.0 + 1) % self.members.len() as u32);
        let generation = instance.generation;
        let heard = RingEvent::Heard {
            at,
            generation,
            epoch,
            done,
        };
        requests.push(WorkRequest::After(rng.between(5_000, 200_000), heard));
    }

    fn proceed(&mut self, rank: Rank, rng: &mut Rng, requests: &mut Vec<WorkRequest<RingEvent>>) {
        let (rounds, round) = (self.rounds, self.round);
        let member = &mut self.members[rank.index()];
        let Some(instance) = member.instance.filter(|_| member.started && !member.busy) else {
            return;
        };
        let State { done, heard, .. } = member.state;
        if done < rounds && heard >= done {
            member.busy = true;
            requests.push(WorkRequest::After(
                rng.between(round / 4, round),
                RingEvent::Round(instance),
            ));
        }
    }
}

impl Work for Ring {
    type Event = RingEvent;

    fn begin(&mut self, instance: ProcessInstance) {
        self.members[instance.rank.index()] = Member {
            instance: Some(instance),
            started: false,
            busy: false,
            state: BEGIN,
        };
    }

    fn restore(
        &mut self,
        instance: ProcessInstance,
        from: ImageId,
        _is_file: bool,
    ) -> Result<(), String> {
        let image = self.images.get(&(instance.rank, from)).copied();
        let mut state = image.ok_or_else(|| format!("no state of {instance:?} in {from}"))?;
        // A rank that moves stays in its epoch.
        state.epoch = from.checkpoint().unwrap_or(state.epoch);
        let member = &mut self.members[instance.rank.index()];
        self.repeated += member.state.done.saturating_sub(state.done);
        *member = Member {
            instance: Some(instance),
            started: false,
            busy: false,
            state,
        };
        Ok(())
    }

    fn start(
        &mut self,
        instance: ProcessInstance,
        rng: &mut Rng,
        requests: &mut Vec<WorkRequest<RingEvent>>,
    ) {
        self.members[instance.rank.index()].started = true;
        self.tell(instance.rank, instance, rng, requests);
        self.proceed(instance.rank, rng, requests);
    }

    fn event(
        &mut self,
        event: RingEvent,
        rng: &mut Rng,
        requests: &mut Vec<WorkRequest<RingEvent>>,
    ) -> Result<(), String> {
        match event {
            RingEvent::Round(instance) => {
                let member = &mut self.members[instance.rank.index()];
                if member.instance != Some(instance) {
                    return Ok(());
                }
                member.busy = false;
                let state = &mut member.state;
                state.value = mix(state.value, instance.rank, state.done);
                state.done += 1;
                if state.done == self.rounds {
                    requests.push(WorkRequest::Finished(instance.rank));
                }
                self.tell(instance.rank, instance, rng, requests);
                self.proceed(instance.rank, rng, requests);
            }
            RingEvent::Heard {
                at,
                generation,
                epoch,
                done,
            } => {
                let member = self.members[at.index()];
                let there = member
                    .instance
                    .is_some_and(|instance| instance.generation == generation);
                if !there || !member.started {
                    return if there {
                        // The link is established when both have the table; until then the sender
                        // tries again.
                        let again = RingEvent::Heard {
                            at,
                            generation,
                            epoch,
                            done,
                        };
                        requests.push(WorkRequest::After(1_000_000, again));
                        Ok(())
                    } else {
                        Ok(())
                    };
                }
                if epoch > member.state.epoch {
                    self.enter(at, epoch);
                    requests.push(WorkRequest::Entered(at, epoch));
                }
                let state = &mut self.members[at.index()].state;
                state.heard = state.heard.max(done);
                self.proceed(at, rng, requests);
            }
        }
        Ok(())
    }

    fn rank_of(&self, event: &RingEvent) -> Option<Rank> {
        match event {
            RingEvent::Round(instance) => Some(instance.rank),
            RingEvent::Heard { at, .. } => Some(*at),
        }
    }

    fn enter(&mut self, rank: Rank, epoch: Epoch) {
        let state = &mut self.members[rank.index()].state;
        if epoch > state.epoch {
            self.images
                .insert((rank, ImageId::Checkpoint(epoch)), *state);
            state.epoch = epoch;
        }
    }

    fn save(&mut self, rank: Rank, number: MoveNumber) {
        let state = self.members[rank.index()].state;
        self.images.insert((rank, ImageId::Move(number)), state);
    }

    fn update(
        &mut self,
        _rank: Rank,
        _other: Rank,
        _incarnation: Incarnation,
        _rng: &mut Rng,
        _requests: &mut Vec<WorkRequest<RingEvent>>,
    ) {
    }

    fn ended(&mut self, rank: Rank) {
        self.members[rank.index()].instance = None;
    }

    fn forget(&mut self, rank: Rank, image: ImageId) {
        self.images.remove(&(rank, image));
    }

    fn committed(&self, epoch: Epoch) -> Result<(), String> {
        let size = self.members.len() as u32;
        for rank in 0..size {
            let left = Rank((rank + size - 1) % size);
            let id = ImageId::Checkpoint(epoch);
            let images = [Rank(rank), left].map(|r| self.images.get(&(r, id)));
            // One that was lost is reported later.
            if let [Some(mine), Some(theirs)] = images
                && mine.heard > theirs.done
            {
                return Err(format!(
                    "rank {rank} has heard in epoch {epoch} what rank {left} has not said"
                ));
            }
        }
        Ok(())
    }

    fn describe(&self) -> String {
        format!("{:?}", self.members)
    }

    fn answer(&self, rank: Rank) -> Result<(), String> {
        let state = &self.members[rank.index()].state;
        let right = state.done == self.rounds && state.value == self.answers[rank.index()];
        if right {
            Ok(())
        } else {
            Err(format!("rank {rank} ends with {state:?}"))
        }
    }
}
