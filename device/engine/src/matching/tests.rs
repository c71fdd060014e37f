use super::*;
use crate::requests::{HeldBody, Recv};
use crate::types::Segment;
use proptest::prelude::*;
use rejoin_channel_table::ids::{Rank, Ssn};

#[derive(Clone, Debug)]
enum Step {
    Arrive(Envelope),
    Post(Pattern),
    Unpost(usize),
    /// Removes an unexpected message out of its turn.
    Withdraw(usize),
}

fn envelope() -> impl Strategy<Value = Envelope> {
    (0u32..2, 0..3, 0..3).prop_map(|(context, source, tag)| Envelope {
        context,
        source,
        tag,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let wild = || proptest::option::weighted(0.7, 0..3);
    let post = (0u32..2, wild(), wild()).prop_map(|(context, source, tag)| {
        Step::Post(Pattern {
            context,
            source,
            tag,
            from: None,
        })
    });
    prop_oneof![
        6 => envelope().prop_map(Step::Arrive),
        6 => post,
        1 => (0usize..100).prop_map(Step::Unpost),
        1 => (0usize..100).prop_map(Step::Withdraw),
    ]
}

fn matches(pattern: &Pattern, env: &Envelope) -> bool {
    pattern.context == env.context
        && pattern.source.is_none_or(|source| source == env.source)
        && pattern.tag.is_none_or(|tag| tag == env.tag)
}

fn message(envelope: Envelope) -> UnexpectedMessage {
    UnexpectedMessage {
        peer: Rank(0),
        ssn: Ssn(0),
        envelope,
        len: 0,
        sync: false,
        granted: false,
        restored: false,
        body: HeldBody::Remote(0),
        bound: None,
        order: 0,
        links: [BinLink::NONE; CLASSES],
    }
}

#[derive(Default)]
struct Both {
    matching: Matching,
    requests: Slab<EngineRequest>,
    messages: Slab<UnexpectedMessage>,
    /// The reference: plain lists, searched from their beginning.
    posted: Vec<(Pattern, u32)>,
    unexpected: Vec<(Envelope, u32)>,
}

impl Both {
    fn step(&mut self, step: Step) {
        match step {
            Step::Arrive(env) => {
                let found = self.matching.take_posted(&mut self.requests, &env);
                let at = self.posted.iter().position(|(p, _)| matches(p, &env));
                assert_eq!(found, at.map(|at| self.posted.remove(at).1));
                if let Some(request) = found {
                    self.requests.remove(request);
                } else {
                    let at = self.messages.insert(message(env));
                    self.matching.add(&mut self.messages, at);
                    self.unexpected.push((env, at));
                }
            }
            Step::Post(pattern) => {
                let found = self.matching.find(&mut self.messages, &pattern);
                let at = self
                    .unexpected
                    .iter()
                    .position(|(e, _)| matches(&pattern, e));
                assert_eq!(found, at.map(|at| self.unexpected.remove(at).1));
                if let Some(at) = found {
                    self.matching.remove(&mut self.messages, at);
                    self.messages.remove(at);
                } else {
                    let recv = Recv::new(pattern, Segment::default());
                    let at = self.requests.insert(EngineRequest::Recv(recv));
                    self.matching.post(&mut self.requests, at);
                    self.posted.push((pattern, at));
                }
            }
            Step::Unpost(index) if !self.posted.is_empty() => {
                let (_, at) = self.posted.remove(index % self.posted.len());
                self.matching.unpost(&mut self.requests, at);
                self.requests.remove(at);
            }
            Step::Withdraw(index) if !self.unexpected.is_empty() => {
                let (_, at) = self.unexpected.remove(index % self.unexpected.len());
                self.matching.remove(&mut self.messages, at);
                self.messages.remove(at);
            }
            Step::Unpost(_) | Step::Withdraw(_) => (),
        }
        assert_eq!(self.matching.unexpected(), self.unexpected.len());
    }
}

proptest! {
    #[test]
    fn agrees_with_plain_lists(steps in proptest::collection::vec(step(), 1..300)) {
        let mut both = Both::default();
        for step in steps {
            both.step(step);
        }
    }
}
