//! Two and more engines over cut streams: nothing lost, doubled, reordered or changed.

use proptest::prelude::*;
use rejoin_channel_table::ids::{Rank, Ssn};
use rejoin_channel_table::resume::Resume;

use crate::harness::World;
use crate::{Completion, Config, MessageMode, Pattern, ProtocolError, ReqId, Segment};

/// Small bounds, so that small scripts meet them.
pub(crate) fn small() -> Config {
    Config {
        eager_copy: 100,
        eager_max: 1500,
        window: 16 << 10,
        chunk: 4 << 10,
        beyond: 1 << 20,
    }
}

pub(crate) fn content(number: usize, len: usize) -> Vec<u8> {
    let byte = |i: usize| (number * 31 + i * 7 + (i >> 8) * 3) as u8;
    let mut bytes: Vec<u8> = (0..len).map(byte).collect();
    if len >= 8 {
        bytes[..8].copy_from_slice(&(number as u64).to_le_bytes());
    }
    bytes
}

/// Ways of sending in all proportions.
fn config() -> impl Strategy<Value = Config> {
    let nearly_all_eager = Config {
        eager_max: 8000,
        ..small()
    };
    let all_copied = Config {
        eager_copy: 8000,
        ..nearly_all_eager
    };
    let all_rendezvous = Config {
        eager_max: 0,
        ..small()
    };
    prop_oneof![
        4 => Just(small()),
        1 => Just(nearly_all_eager),
        1 => Just(all_copied),
        1 => Just(all_rendezvous),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    Send(usize, usize, i32, usize, u8),
    Recv(usize, Option<usize>, Option<i32>, usize),
    Mrecv(usize, Option<usize>, Option<i32>),
    Write(usize, usize, usize),
    Read(usize, usize, usize),
    /// Everything that `0` has to write is read by `1`.
    Exchange(usize, usize),
    Cut(usize, usize),
    Shake(usize, usize),
    Link(usize, usize),
    Cancel(usize),
    CancelRecv(usize),
    Detach(usize),
    Flush(usize),
}

const RANKS: usize = 3;

fn pair() -> impl Strategy<Value = (usize, usize)> {
    (0..RANKS, 1..RANKS).prop_map(|(a, d)| (a, (a + d) % RANKS))
}

fn amount() -> impl Strategy<Value = usize> {
    prop_oneof![1usize..200, 1usize..9000]
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![Just(0usize), 8usize..100, 8usize..1500, 1500usize..20_000]
}

fn step() -> impl Strategy<Value = Step> {
    let source = || proptest::option::of(0..RANKS);
    let tag = || proptest::option::of(0..3);
    let any = || any::<prop::sample::Index>().prop_map(|i| i.index(1 << 20));
    prop_oneof![
        8 => (0..RANKS, 0..RANKS, 0..3, length(), 0u8..5).prop_map(|(a, b, t, l, m)| Step::Send(a, b, t, l, m)),
        6 => (0..RANKS, source(), tag(), length()).prop_map(|(a, s, t, l)| Step::Recv(a, s, t, l)),
        1 => (0..RANKS, source(), tag()).prop_map(|(a, s, t)| Step::Mrecv(a, s, t)),
        8 => (pair(), amount()).prop_map(|((a, b), n)| Step::Write(a, b, n)),
        8 => (pair(), amount()).prop_map(|((a, b), n)| Step::Read(a, b, n)),
        8 => pair().prop_map(|(a, b)| Step::Exchange(a, b)),
        3 => pair().prop_map(|(a, b)| Step::Cut(a, b)),
        4 => pair().prop_map(|(a, b)| Step::Shake(a, b)),
        6 => pair().prop_map(|(a, b)| Step::Link(a, b)),
        1 => any().prop_map(Step::Cancel),
        1 => any().prop_map(Step::CancelRecv),
        2 => any().prop_map(Step::Detach),
        1 => (0..RANKS).prop_map(Step::Flush),
    ]
}

struct Message {
    from: usize,
    to: usize,
    tag: i32,
    len: usize,
    request: Option<ReqId>,
    cancelled: bool,
}

struct Receive {
    at: usize,
    pattern: Pattern,
    id: ReqId,
    seg: Segment,
    done: Option<Completion>,
    /// Taken by a matched probe, so that its place in the order of receives is another.
    probed: bool,
}

/// A run of a script, and its results.
struct Run {
    world: World,
    messages: Vec<Message>,
    receives: Vec<Receive>,
    /// Handshakes under way, with resumes of an earlier moment.
    said: Vec<((usize, usize), (Resume, Resume))>,
}

impl Run {
    fn new(config: Config) -> Run {
        Run {
            world: World::linked(config, RANKS as u32),
            messages: Vec::new(),
            receives: Vec::new(),
            said: Vec::new(),
        }
    }

    fn recv(&mut self, at: usize, pattern: Pattern, len: usize) {
        let (id, seg) = self.world.recv(at, pattern, len);
        self.note(at, pattern, id, seg, false);
    }

    fn note(&mut self, at: usize, pattern: Pattern, id: ReqId, seg: Segment, probed: bool) {
        self.receives.push(Receive {
            at,
            pattern,
            id,
            seg,
            done: None,
            probed,
        });
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Send(from, to, tag, len, mode) => {
                let mode = [
                    MessageMode::Standard,
                    MessageMode::Blocking,
                    MessageMode::Synchronous,
                ][mode as usize / 2];
                let bytes = content(self.messages.len(), len);
                let request = self.world.send(from, to, tag, &bytes, mode);
                self.messages.push(Message {
                    from,
                    to,
                    tag,
                    len,
                    request,
                    cancelled: false,
                });
            }
            Step::Recv(at, source, tag, len) => self.recv(at, World::pattern(source, tag), len),
            Step::Mrecv(at, source, tag) => {
                let pattern = World::pattern(source, tag);
                let engine = &mut self.world.nodes[at].engine;
                if let Some((message, found)) = engine.mprobe(&pattern) {
                    let seg = self.world.segment(at, &vec![0xbb; found.len as usize]);
                    let id = self.world.nodes[at].engine.mrecv(message, seg).unwrap();
                    self.world.copies(at);
                    self.note(at, pattern, id, seg, true);
                }
            }
            Step::Write(from, to, n) => {
                self.world.write(from, to, n);
            }
            Step::Read(to, from, n) => {
                self.world.read(to, from, n);
            }
            Step::Exchange(a, b) => {
                while self.world.write(a, b, 100_000) + self.world.read(b, a, 100_000) > 0 {}
            }
            Step::Cut(a, b) => {
                self.world.cut(a, b);
                self.said
                    .retain(|(pair, _)| *pair != (a, b) && *pair != (b, a));
            }
            Step::Shake(a, b) => self.shake(a, b),
            Step::Link(a, b) => self.link(a, b),
            Step::Cancel(index) => self.cancel(index),
            Step::CancelRecv(index) => {
                if let Some(receive) = pick(&self.receives, index) {
                    self.world.nodes[receive.at].engine.cancel(receive.id);
                }
            }
            Step::Detach(index) => {
                if let Some(message) = pick(&self.messages, index)
                    && let Some(id) = message.request
                {
                    self.world.detach(message.from, id);
                }
            }
            Step::Flush(at) => self.world.nodes[at].engine.flush_all_acks(),
        }
    }

    fn shake(&mut self, a: usize, b: usize) {
        let up = self.world.nodes[a].engine.is_up(Rank(b as u32));
        let known = |(pair, _): &&(_, _)| *pair == (a, b) || *pair == (b, a);
        if !up && !self.said.iter().any(|entry| known(&entry)) {
            let said = self.world.shake(a, b);
            self.said.push(((a, b), said));
        }
    }

    fn link(&mut self, a: usize, b: usize) {
        if let Some(at) = self
            .said
            .iter()
            .position(|(pair, _)| *pair == (a, b) || *pair == (b, a))
        {
            let ((a, b), said) = self.said.swap_remove(at);
            self.world.link(a, b, &said);
        }
    }

    fn cancel(&mut self, index: usize) {
        if let Some(message) = pick(&self.messages, index)
            && let Some(id) = message.request
        {
            self.world.nodes[message.from].engine.cancel(id);
        }
    }

    /// Everything arrives, and whatever no receive waited for is received now.
    fn finish(&mut self) {
        for ((a, b), said) in std::mem::take(&mut self.said) {
            self.world.link(a, b, &said);
        }
        self.world.connect_all();
        loop {
            self.world.settle();
            let mut found = false;
            for at in 0..RANKS {
                let any = World::pattern(None, None);
                let mut sought = crate::FailedProbes::default();
                sought.add(&any);
                while let Some(probe) = self.world.nodes[at].engine.probe(&any) {
                    found = true;
                    self.recv(at, any, probe.len as usize);
                }
                found |= self.world.nodes[at].engine.grant_if_starved(&sought);
            }
            if !found {
                break;
            }
        }
        for receive in &mut self.receives {
            let engine = &mut self.world.nodes[receive.at].engine;
            if !engine.is_complete(receive.id) {
                engine.cancel(receive.id);
            }
            receive.done = engine.poll(receive.id);
        }
        self.world.finish();
        for message in &mut self.messages {
            let engine = &mut self.world.nodes[message.from].engine;
            if let Some(id) = message.request {
                message.cancelled = engine.poll(id).expect("a send never ends").cancelled;
            }
        }
        for node in &self.world.nodes {
            let core = &node.engine.core;
            assert_eq!(core.requests.iter().count(), 0, "requests leak");
            assert_eq!(core.messages.iter().count(), 0, "messages leak");
        }
    }

    /// Finds the message that each receive got: first by content, then, for those with too little
    /// of it, by envelope.
    fn check(&self) {
        let mut taken = vec![false; self.messages.len()];
        let mut got = vec![None; self.receives.len()];
        for with_content in [true, false] {
            for (receive, got) in self.receives.iter().zip(&mut got) {
                let done = receive.done.expect("a receive never ends");
                if !done.cancelled && (done.len >= 8) == with_content {
                    let number = self.message_of(receive, &done, &taken);
                    taken[number] = true;
                    *got = with_content.then_some(number);
                }
            }
        }
        for (message, taken) in self.messages.iter().zip(&taken) {
            assert!(*taken || message.cancelled, "a message is lost");
        }
        self.check_order(&got);
    }

    fn message_of(&self, receive: &Receive, done: &Completion, taken: &[bool]) -> usize {
        let len = done.truncated.unwrap_or(done.len) as usize;
        let bytes = &self.world.bytes(receive.at, receive.seg)[..done.len as usize];
        let fits = |(number, message): &(usize, &Message)| {
            !taken[*number]
                && !message.cancelled
                && (message.to, message.from) == (receive.at, done.source as usize)
                && (message.tag, message.len) == (done.tag, len)
                && content(*number, len)[..bytes.len()] == *bytes
        };
        let pattern = &receive.pattern;
        assert!(pattern.tag.is_none_or(|tag| tag == done.tag));
        assert!(pattern.source.is_none_or(|source| source == done.source));
        let number = self.messages.iter().enumerate().find(fits);
        number.expect("no message was sent like this one").0
    }

    /// MPI-5.0 §3.5: of two messages of one sender that both match a receive, the first is taken.
    fn check_order(&self, got: &[Option<usize>]) {
        for (earlier, first) in self.receives.iter().zip(got) {
            for (later, second) in self.receives.iter().zip(got).rev() {
                if std::ptr::eq(earlier, later) {
                    break;
                }
                let (Some(first), Some(second)) = (first, second) else {
                    continue;
                };
                let (a, b) = (&self.messages[*first], &self.messages[*second]);
                let both = earlier.at == later.at
                    && a.from == b.from
                    && !earlier.probed
                    && !later.probed
                    && earlier.pattern.tag.is_none_or(|tag| tag == b.tag);
                assert!(!both || first < second, "message {first} overtook {second}");
            }
        }
    }
}

fn pick<T>(all: &[T], index: usize) -> Option<&T> {
    all.get(index.checked_rem(all.len())?)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn everything_arrives_once_and_in_order(
        config in config(), steps in proptest::collection::vec(step(), 1..200)
    ) {
        let mut run = Run::new(config);
        for step in steps {
            run.step(step);
        }
        run.finish();
        run.check();
    }
}

#[test]
fn a_resume_below_what_is_held_is_refused() {
    let mut world = World::linked(small(), 2);
    let (zero, one) = (Rank(0), Rank(1));
    for number in 0..3 {
        world.recv(1, World::pattern(Some(0), Some(1)), 50);
        world.send(0, 1, 1, &content(number, 50), MessageMode::Standard);
    }
    world.settle();
    world.nodes[1].engine.flush_all_acks();
    world.settle();
    let good = world.nodes[1].engine.resume(zero);
    assert_eq!(good.next_envelope, Ssn(3));
    world.cut(0, 1);
    let engine = &mut world.nodes[0].engine;
    for (next, lacking) in [(0, None), (2, None), (3, Some(0)), (3, Some(2)), (4, None)] {
        let mut said = good.clone();
        said.next_envelope = Ssn(next);
        said.incomplete_eager = lacking.map(Ssn).into_iter().collect();
        let refused = engine
            .link_up(one, &said)
            .expect_err("frames that are gone");
        assert!(matches!(refused, ProtocolError::FalseAck(_)), "{refused}");
        assert!(!engine.is_up(one));
    }
    engine.link_up(one, &good).expect("nothing is lacking");
}
