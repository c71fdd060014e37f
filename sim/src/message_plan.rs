//! A random program: the messages, and how they are received.
//!
//! Every program ends with a correct library. Ranks start all sends before they wait. Each message
//! has a receive that no other message can take. After that, pairs of ranks talk, in the same order
//! for all ranks. So a program that does not end, or that fails [`crate::message_check`], shows an
//! error of the code under test.

use rejoin_engine::{Config, MessageMode, Pattern};

use crate::rng::Rng;
use rejoin_channel_table::Rank;

/// Context of talks: the receiver waits for each such message separately.
pub const TALK_CONTEXT: u32 = 4;
/// Context of messages that are sent only to be cancelled.
pub const CANCEL_CONTEXT: u32 = 100;
/// Context of receives without a message.
pub const IDLE_CONTEXT: u32 = 101;

/// A message.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Sender.
    pub from: u32,
    /// Receiver.
    pub to: u32,
    /// Context.
    pub context: u32,
    /// Tag.
    pub tag: i32,
    /// Length in bytes.
    pub len: usize,
    /// Mode.
    pub mode: MessageMode,
}

/// A receive.
#[derive(Clone, Copy, Debug)]
pub struct Receive {
    /// The rank that receives.
    pub at: u32,
    /// Source, tag and context that a message must match.
    pub pattern: Pattern,
    /// Length of the buffer.
    pub len: usize,
    /// By a matched probe, then a matched receive.
    pub probed: bool,
}

/// The next step of a rank. Numbers are positions in the plan's lists.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Starts a send.
    Send(usize),
    /// Posts a receive, or probes until the message is there.
    Receive(usize),
    /// Waits for a receive.
    Await(usize),
    /// Cancels a send.
    Cancel(usize),
    /// Cancels a receive without a message.
    CancelReceive(usize),
    /// Computes for so many microseconds.
    Compute(u64),
    /// Takes its image of this epoch, unless a frame of another rank was faster.
    Checkpoint(u32),
}

/// The program of all ranks.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Sizes.
    pub config: Config,
    /// Messages, those of one sender in the order in which it sends them.
    pub messages: Vec<Message>,
    /// Receives.
    pub receives: Vec<Receive>,
    /// The steps of each rank.
    pub scripts: Vec<Vec<Step>>,
    /// Whether anything is cancelled.
    pub cancels: bool,
}

/// How the receives of one rank in one context match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Exact,
    Source,
    Any,
    Probed,
}

/// Small limits, so that small programs reach them.
fn config(rng: &mut Rng) -> Config {
    let small = Config {
        eager_copy: 100,
        eager_max: 1500,
        window: 16 << 10,
        chunk: 4 << 10,
        beyond: 1 << 20,
    };
    if rng.chance(80) {
        small
    } else {
        Config::for_size(512)
    }
}

fn length(rng: &mut Rng, config: &Config) -> usize {
    let (copy, eager) = (config.eager_copy as u64, config.eager_max as u64);
    let length = match rng.below(10) {
        0 | 1 => 0,
        2..=4 => rng.between(1, copy),
        5 | 6 => rng.between(copy, eager),
        7 => *rng.pick(&[7, 8, copy, copy + 1, eager, eager + 1]),
        _ => rng.between(eager, eager + 20_000),
    };
    length as usize
}

impl Plan {
    /// A random program of `ranks` ranks with about `count` messages.
    pub fn random(rng: &mut Rng, ranks: u32, count: usize) -> Plan {
        let config = config(rng).consistent();
        let mut messages = Vec::new();
        while messages.len() < count {
            let (from, to) = (
                rng.below(ranks.into()) as u32,
                rng.below(ranks.into()) as u32,
            );
            let burst = if rng.chance(3) {
                rng.between(50, 400)
            } else {
                rng.between(1, 4)
            };
            // Bursts that fill windows consist of messages with no body or a short one.
            let crowd = burst > 4 && rng.chance(70);
            let short = if rng.chance(50) { 0 } else { 200 };
            for _ in 0..burst {
                messages.push(Message {
                    from,
                    to,
                    context: 1 + rng.below(3) as u32,
                    tag: rng.below(3) as i32,
                    len: if crowd {
                        rng.below(short + 1) as usize
                    } else {
                        length(rng, &config)
                    },
                    mode: *rng.pick(&[
                        MessageMode::Standard,
                        MessageMode::Standard,
                        MessageMode::Blocking,
                        MessageMode::Synchronous,
                    ]),
                });
            }
        }
        let cancels = rng.chance(50);
        let mut plan = Plan {
            config,
            messages,
            receives: Vec::new(),
            scripts: Vec::new(),
            cancels,
        };
        let mut scripts: Vec<_> = (0..ranks)
            .map(|rank| plan.script(rng, rank, ranks))
            .collect();
        if rng.chance(60) {
            plan.talks(rng, count / 3, &mut scripts);
        }
        for mut script in scripts {
            // Each rank in its own time, in order; some only on a frame of another rank.
            let mut at = 0;
            for epoch in 1..=2 {
                at = rng.between(at as u64, script.len() as u64) as usize;
                if rng.chance(70) {
                    script.insert(at, Step::Checkpoint(epoch));
                }
            }
            plan.scripts.push(script);
        }
        plan
    }

    fn script(&mut self, rng: &mut Rng, rank: u32, ranks: u32) -> Vec<Step> {
        let mut receives = Vec::new();
        for context in 1..=3 {
            let style = *rng.pick(&[Style::Exact, Style::Source, Style::Any, Style::Probed]);
            self.plan_receives(rng, rank, context, style, &mut receives);
        }
        rng.shuffle(&mut receives);
        let share = rng.below(100);
        let (early, late): (Vec<usize>, Vec<usize>) = receives
            .into_iter()
            .partition(|&r| !self.receives[r].probed && rng.chance(share));
        let own = (0..self.messages.len()).filter(|&m| self.messages[m].from == rank);
        let mut sends: Vec<Step> = own.map(Step::Send).collect();
        if self.cancels {
            self.plan_cancels(rng, rank, ranks, &mut sends);
        }
        let mut early = early.into_iter().map(Step::Receive).peekable();
        let mut sends = sends.into_iter().peekable();
        let mut script = Vec::new();
        while early.peek().is_some() || sends.peek().is_some() {
            script.extend(if rng.chance(50) {
                early.next()
            } else {
                sends.next()
            });
            if rng.chance(10) {
                script.push(Step::Compute(rng.below(2000)));
            }
        }
        let waits = rng.below(60);
        for receive in late {
            script.push(Step::Receive(receive));
            if rng.chance(waits) {
                script.push(Step::Await(receive));
            }
        }
        script
    }

    /// Ranks that have received all that was sent to them talk in pairs.
    fn talks(&mut self, rng: &mut Rng, count: usize, scripts: &mut [Vec<Step>]) {
        for script in &mut *scripts {
            let own = script.iter().filter_map(|step| match step {
                Step::Receive(n) if self.receives[*n].pattern.context != IDLE_CONTEXT => Some(*n),
                _ => None,
            });
            let waits: Vec<Step> = own.map(Step::Await).collect();
            script.extend(waits);
        }
        let ranks = scripts.len() as u64;
        let mut left = count;
        while left > 0 {
            let mut pair = [rng.below(ranks) as u32, rng.below(ranks) as u32];
            let rounds = left.min(rng.between(1, 12) as usize);
            left -= rounds;
            for _ in 0..rounds {
                let [from, to] = pair;
                let len = length(rng, &self.config);
                let tag = rng.below(3) as i32;
                scripts[from as usize].push(Step::Send(self.messages.len()));
                let receive = self.receives.len();
                scripts[to as usize].extend([Step::Receive(receive), Step::Await(receive)]);
                self.messages.push(Message {
                    from,
                    to,
                    context: TALK_CONTEXT,
                    tag,
                    len,
                    mode: *rng.pick(&[
                        MessageMode::Standard,
                        MessageMode::Blocking,
                        MessageMode::Synchronous,
                    ]),
                });
                self.receives.push(Receive {
                    at: to,
                    pattern: pattern(TALK_CONTEXT, Some(from), Some(tag)),
                    len,
                    probed: false,
                });
                if rng.chance(60) {
                    pair.swap(0, 1);
                }
            }
        }
    }

    fn plan_receives(
        &mut self,
        rng: &mut Rng,
        at: u32,
        context: u32,
        style: Style,
        receives: &mut Vec<usize>,
    ) {
        for index in 0..self.messages.len() {
            let message = self.messages[index];
            if message.to != at || message.context != context {
                continue;
            }
            let (source, tag) = match style {
                Style::Exact => (Some(message.from), Some(message.tag)),
                Style::Source => (Some(message.from), None),
                Style::Any | Style::Probed => (None, None),
            };
            let len = match rng.below(20) {
                0 => message.len / 2,
                1 => message.len + 10,
                _ => message
                    .len
                    .max(if style == Style::Exact { 0 } else { 2000 }),
            };
            let pattern = pattern(context, source, tag);
            receives.push(self.receives.len());
            self.receives.push(Receive {
                at,
                pattern,
                len,
                probed: style == Style::Probed,
            });
        }
    }

    fn plan_cancels(&mut self, rng: &mut Rng, rank: u32, ranks: u32, steps: &mut Vec<Step>) {
        for tag in 0..rng.below(4) as i32 {
            let message = Message {
                from: rank,
                to: rng.below(ranks.into()) as u32,
                context: CANCEL_CONTEXT,
                tag,
                len: length(rng, &self.config),
                mode: *rng.pick(&[MessageMode::Standard, MessageMode::Synchronous]),
            };
            let at = rng.below(steps.len() as u64 + 1) as usize;
            let later = rng.between(at as u64 + 1, steps.len() as u64 + 1) as usize;
            steps.insert(at, Step::Send(self.messages.len()));
            steps.insert(later, Step::Cancel(self.messages.len()));
            self.messages.push(message);
        }
        if rng.chance(50) {
            let at = rng.below(steps.len() as u64 + 1) as usize;
            let pattern = pattern(IDLE_CONTEXT, None, None);
            steps.insert(at, Step::Receive(self.receives.len()));
            steps.push(Step::CancelReceive(self.receives.len()));
            self.receives.push(Receive {
                at: rank,
                pattern,
                len: 10,
                probed: false,
            });
        }
    }
}

/// A pattern in which world ranks and ranks of the communicator are the same.
pub fn pattern(context: u32, source: Option<u32>, tag: Option<i32>) -> Pattern {
    Pattern {
        context,
        source: source.map(u32::cast_signed),
        tag,
        from: source.map(Rank),
    }
}

/// The bytes of a message: they encode its number where they are long enough, and differ elsewhere.
pub fn content(number: usize, len: usize) -> Vec<u8> {
    let byte = |i: usize| (number.wrapping_mul(31) + i * 7 + (i >> 8) * 3) as u8;
    let mut bytes: Vec<u8> = (0..len).map(byte).collect();
    if let Some(head) = bytes.first_chunk_mut::<8>() {
        *head = (number as u64).to_le_bytes();
    }
    bytes
}
