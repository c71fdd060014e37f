//! Steps and results of the ranks' programs.

use rejoin_channel_table::{Epoch, Rank};
use rejoin_engine::{Envelope, MessageMode};

use super::{Event, Pending, World};
use crate::message_check::{self, Outcome};
use crate::message_plan::{
    CANCEL_CONTEXT, IDLE_CONTEXT, Receive, Step, TALK_CONTEXT, content, pattern,
};
use crate::node::Violation;

/// Polls of a program between two grants, as in the device.
const GRANT_EVERY: u32 = 4;

/// How often a receive polls for its message before it is posted.
const SPINS: u32 = 20;

impl World {
    pub(super) fn step_if_waiting(&mut self, rank: u32) -> Result<(), Violation> {
        if self.programs[rank as usize].waiting {
            self.step(rank)?;
        }
        Ok(())
    }

    pub(super) fn step(&mut self, rank: u32) -> Result<(), Violation> {
        let program = &mut self.programs[rank as usize];
        let Some(&step) = self.plan.scripts[rank as usize].get(program.position) else {
            return Ok(());
        };
        program.waiting = false;
        let mut pause = self.rng.below(30);
        match step {
            Step::Send(number) => self.send(rank, number),
            Step::Receive(number) if self.spins(rank, number) => {
                self.after(pause.min(10), Event::Step(rank));
                return Ok(());
            }
            Step::Receive(number) => {
                if !self.receive(rank, number)? {
                    self.programs[rank as usize].waiting = true;
                    self.idle(rank);
                    return Ok(());
                }
            }
            Step::Await(number) => {
                let program = &mut self.programs[rank as usize];
                if !program.outcomes.contains_key(&number) {
                    program.waiting = true;
                    self.idle(rank);
                    return Ok(());
                }
            }
            Step::Cancel(number) => {
                let pending = self.programs[rank as usize].sends.iter();
                if let Some(send) = pending.into_iter().find(|p| p.number == number) {
                    self.nodes[rank as usize].engine.cancel(send.id);
                }
            }
            Step::CancelReceive(number) => {
                let pending = self.programs[rank as usize].receives.iter();
                if let Some(receive) = pending.into_iter().find(|p| p.number == number) {
                    self.nodes[rank as usize].engine.cancel(receive.id);
                }
            }
            Step::Compute(time) => pause = time,
            Step::Checkpoint(epoch) => self.nodes[rank as usize].enter(Epoch(epoch)),
        }
        self.programs[rank as usize].position += 1;
        self.reap(rank)?;
        self.after(pause, Event::Step(rank));
        Ok(())
    }

    /// The steps of the device for a waiting program. Before the device blocks, it sends the acks
    /// and credits that it owes. While the program polls, it grants credit now and then. While the
    /// program computes, the device does nothing.
    pub(super) fn idle(&mut self, rank: u32) {
        let program = &mut self.programs[rank as usize];
        let over = program.position == self.plan.scripts[rank as usize].len();
        if !program.waiting && !over {
            return;
        }
        let engine = &mut self.nodes[rank as usize].engine;
        program.polled += 1;
        if over || !program.polls {
            engine.flush_all_acks();
        } else if !program.polled.is_multiple_of(GRANT_EVERY) {
            return;
        }
        engine.grant_if_starved(&std::mem::take(&mut program.probing));
    }

    pub(super) fn send(&mut self, rank: u32, number: usize) {
        let message = self.plan.messages[number];
        let envelope = Envelope {
            context: message.context,
            source: rank.cast_signed(),
            tag: message.tag,
        };
        let bytes = content(number, message.len);
        let plain = matches!(message.mode, MessageMode::Standard | MessageMode::Blocking);
        if plain && self.send_short(rank, message.to, envelope, &bytes) {
            self.not_cancelled(number);
            return;
        }
        let node = &mut self.nodes[rank as usize];
        match node.send(Rank(message.to), envelope, &bytes, message.mode) {
            Some((id, segment)) => self.programs[rank as usize].sends.push(Pending {
                id,
                segment,
                number,
                blocking: message.mode == MessageMode::Blocking,
            }),
            None => self.not_cancelled(number),
        }
    }

    /// A message was sent in spite of its cancellation, so it gets its receive.
    pub(super) fn not_cancelled(&mut self, number: usize) {
        let message = self.plan.messages[number];
        if message.context != CANCEL_CONTEXT {
            return;
        }
        let receive = self.plan.receives.len();
        let pattern = pattern(CANCEL_CONTEXT, Some(message.from), Some(message.tag));
        self.plan.receives.push(Receive {
            at: message.to,
            pattern,
            len: message.len,
            probed: false,
        });
        // Outside of the receiver's script.
        let _ = self.receive(message.to, receive);
        self.after(0, Event::Reap(message.to));
    }

    /// Whether a receive polls for its message once more before it is posted.
    fn spins(&mut self, rank: u32, number: usize) -> bool {
        let receive = &self.plan.receives[number];
        let program = &mut self.programs[rank as usize];
        let node = &mut self.nodes[rank as usize];
        let more = program.polls && program.spins < SPINS && !receive.probed;
        let again = more && node.may_poll(&receive.pattern);
        program.spins = if again { program.spins + 1 } else { 0 };
        again
    }

    /// Posts a receive; false if it probes and nothing is there yet.
    pub(super) fn receive(&mut self, rank: u32, number: usize) -> Result<bool, Violation> {
        let receive = self.plan.receives[number];
        let node = &mut self.nodes[rank as usize];
        if !receive.probed
            && let Some((completion, segment)) = node.receive_short(&receive.pattern, receive.len)
        {
            let outcome = Outcome {
                receive: number,
                completion,
                bytes: node.bytes(segment).to_vec(),
            };
            node.overwrite(segment);
            let program = &mut self.programs[rank as usize];
            program.bound.push(number);
            program.outcomes.insert(number, outcome);
            self.bounds(rank)?;
            return Ok(true);
        }
        let (id, segment) = if receive.probed {
            match node.engine.mprobe(&receive.pattern) {
                Some((message, _)) => node.receive_matched(message, receive.len)?,
                None => {
                    self.programs[rank as usize].probing.add(&receive.pattern);
                    return Ok(false);
                }
            }
        } else {
            node.receive(receive.pattern, receive.len)?
        };
        let program = &mut self.programs[rank as usize];
        program.bound.push(number);
        program.receives.push(Pending {
            id,
            segment,
            number,
            blocking: false,
        });
        Ok(true)
    }

    /// Takes completed requests.
    pub(super) fn reap(&mut self, rank: u32) -> Result<(), Violation> {
        let node = &mut self.nodes[rank as usize];
        let program = &mut self.programs[rank as usize];
        let mut incomplete = Vec::new();
        for pending in std::mem::take(&mut program.receives) {
            let Some(completion) = node.engine.poll(pending.id) else {
                incomplete.push(pending);
                continue;
            };
            let bytes = node.bytes(pending.segment).to_vec();
            node.overwrite(pending.segment);
            let outcome = Outcome {
                receive: pending.number,
                completion,
                bytes,
            };
            if program.outcomes.insert(pending.number, outcome).is_some() {
                return Err(format!("receive {} ended twice", pending.number));
            }
        }
        program.receives = incomplete;
        let mut sent = Vec::new();
        let mut incomplete = Vec::new();
        for pending in std::mem::take(&mut program.sends) {
            if pending.blocking && node.detach(pending.id, pending.segment) {
                node.engine
                    .poll(pending.id)
                    .ok_or("a detached send is not complete")?;
                continue;
            }
            match node.engine.poll(pending.id) {
                None => incomplete.push(pending),
                Some(completion) => {
                    node.overwrite(pending.segment);
                    if !completion.cancelled {
                        sent.push(pending.number);
                    } else if self.plan.messages[pending.number].context != CANCEL_CONTEXT {
                        return Err(format!("send {} was cancelled by itself", pending.number));
                    }
                }
            }
        }
        program.sends = incomplete;
        for number in sent {
            self.not_cancelled(number);
        }
        Ok(())
    }

    pub(super) fn is_over(&self) -> bool {
        self.programs.iter().enumerate().all(|(rank, program)| {
            program.position == self.plan.scripts[rank].len()
                && program.sends.is_empty()
                && program.receives.is_empty()
        }) && self.nodes.iter().all(|node| node.engine.quiescent())
    }

    pub(super) fn check(&self) -> Result<(), Violation> {
        for (at, node) in self.nodes.iter().enumerate() {
            // In a large world only neighbours are checked.
            let most = if self.nodes.len() > 8 { 1 } else { 8 };
            for other in self.nodes[at + 1..].iter().take(most) {
                node.check_consistency(other)?;
            }
        }
        for (rank, program) in self.programs.iter().enumerate() {
            let outcomes = |context| {
                let of = |n: &&usize| self.plan.receives[**n].pattern.context == context;
                let outcome = |n: &usize| program.outcomes[n].clone();
                program
                    .bound
                    .iter()
                    .filter(of)
                    .map(outcome)
                    .collect::<Vec<Outcome>>()
            };
            for context in [1, 2, 3, TALK_CONTEXT, CANCEL_CONTEXT] {
                message_check::receives(&self.plan, rank as u32, context, &outcomes(context))
                    .map_err(|e| format!("rank {rank}, context {context}: {e}"))?;
            }
            if outcomes(IDLE_CONTEXT)
                .iter()
                .any(|o| !o.completion.cancelled)
            {
                return Err(format!("rank {rank}: a cancelled receive got a message"));
            }
        }
        Ok(())
    }
}
