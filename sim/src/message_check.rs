//! Checks the guarantees of the standard, independently of the code under test. Each message
//! arrives once and with the right bytes. Messages that match one pattern arrive in the order in
//! which they were sent (MPI-5.0 §3.5).

use std::collections::BTreeMap;

use rejoin_engine::{Completion, Config, Flags, FrameKind, Header};

use crate::message_plan::{CANCEL_CONTEXT, Plan, Receive, content};

/// A receive that has ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Number of the receive in the plan.
    pub receive: usize,
    /// The engine's result.
    pub completion: Completion,
    /// The buffer.
    pub bytes: Vec<u8>,
}

/// Checks all receives of one rank in one context, in the order in which they were bound.
///
/// # Errors
/// The defect of the first wrong receive.
pub fn receives(plan: &Plan, at: u32, context: u32, outcomes: &[Outcome]) -> Result<(), String> {
    let mut waiting: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
    for (number, message) in plan.messages.iter().enumerate() {
        if message.to == at && message.context == context {
            waiting
                .entry(message.from.cast_signed())
                .or_default()
                .push(number);
        }
    }
    for outcome in outcomes {
        let receive = &plan.receives[outcome.receive];
        one(plan, receive, outcome, &mut waiting)
            .map_err(|e| format!("receive {} ({receive:?}): {e}", outcome.receive))?;
    }
    match waiting.values().flatten().next() {
        Some(number) if context != CANCEL_CONTEXT => Err(format!(
            "message {number} was lost: {:?}",
            plan.messages[*number]
        )),
        _ => Ok(()),
    }
}

fn one(
    plan: &Plan,
    receive: &Receive,
    outcome: &Outcome,
    waiting: &mut BTreeMap<i32, Vec<usize>>,
) -> Result<(), String> {
    let got = outcome.completion;
    if got.cancelled {
        return Err("cancelled, which nobody asked for".into());
    }
    if receive.pattern.source.is_some_and(|s| s != got.source) {
        return Err(format!("a message of rank {}", got.source));
    }
    let queue = waiting.entry(got.source).or_default();
    let matches = |n: &usize| {
        receive
            .pattern
            .tag
            .is_none_or(|t| plan.messages[*n].tag == t)
    };
    let position = queue
        .iter()
        .position(matches)
        .ok_or("a message that was not sent")?;
    let number = queue.remove(position);
    let message = &plan.messages[number];
    let wanted = Completion {
        source: message.from.cast_signed(),
        tag: message.tag,
        len: message.len.min(receive.len) as u64,
        truncated: (message.len > receive.len).then_some(message.len as u64),
        cancelled: false,
    };
    if got != wanted {
        return Err(format!("{got:?} instead of {wanted:?} (message {number})"));
    }
    let mut bytes = content(number, message.len);
    bytes.resize(receive.len, 0xaa);
    if message.len <= receive.len && outcome.bytes != bytes {
        return Err(format!("the bytes of message {number} are wrong"));
    }
    if message.len > receive.len && outcome.bytes != content(number, message.len)[..receive.len] {
        return Err(format!("the bytes of truncated message {number} are wrong"));
    }
    Ok(())
}

/// Longest body that may come with an envelope beyond the window.
const BEYOND: u64 = 192;

/// The memory that one rank lets another use.
#[derive(Clone, Debug, Default)]
pub struct Bound {
    next: u64,
    charged: u64,
}

impl Bound {
    /// Counts a frame that arrived; `credit` is the credit that the receiver has given back so far.
    ///
    /// # Errors
    /// The sender has more under way than the window, or skipped a message.
    pub fn note(&mut self, config: &Config, header: &Header, credit: u64) -> Result<(), String> {
        if !matches!(header.kind, FrameKind::Eager | FrameKind::Rts) || header.ssn.0 < self.next {
            return Ok(());
        }
        if header.ssn.0 > self.next {
            return Err(format!("envelope {} came before {}", header.ssn, self.next));
        }
        self.next += 1;
        if header.flags.has(Flags::GRANTED) {
            let body = header.body_len();
            if body > BEYOND {
                return Err(format!("{body} bytes came beyond the window"));
            }
            return Ok(());
        }
        self.charged += 64 + header.body_len();
        let held = self.charged.saturating_sub(credit);
        if held > config.window {
            return Err(format!(
                "{held} bytes held, the window is {}",
                config.window
            ));
        }
        Ok(())
    }
}
