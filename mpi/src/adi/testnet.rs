//! A network of N ranks in one process, for tests. Each rank has a thread, and one of them runs at
//! a time. Control changes only where a rank waits, to a rank chosen by a seed.
//!
//! Sends of messages larger than [`LARGE`] complete only when matched, and the bodies are copied
//! then, as in a rendezvous. A network in which all ranks wait and nothing moves is a deadlock and
//! panics.

use super::device_interface::{Adi, SendAttempt};
use crate::error::{Error, ErrorClass, Result};
use crate::runtime::Mpi;
use rejoin_channel_table::{Generation, Identity, Incarnation, JobId, Rank};
use rejoin_device::{
    Completion, Determinants, Envelope, JobLocality, LocalCost, Mode, MsgId, Names, Pattern, Probe,
    ReqId,
};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Bytes above which a message behaves like rendezvous.
pub const LARGE: usize = 4096;

struct Msg {
    env: Envelope,
    from: usize,
    body: Vec<u8>,
    /// The sender's buffer when the body is still there.
    remote: Option<(usize, usize)>,
    /// The send to complete at the match.
    wants: Option<u64>,
}

impl Msg {
    fn len(&self) -> usize {
        self.remote.map_or(self.body.len(), |r| r.1)
    }
}

/// Destination, context, tag and a hash of the body of a message.
pub type SentMessage = (usize, u32, i32, u64);

struct Posted {
    id: u64,
    /// Number of a receive with a wildcard.
    wildcard: Option<u64>,
    pat: Pattern,
    addr: usize,
    cap: usize,
}

#[derive(Default)]
struct PortState {
    posted: Vec<Posted>,
    unexpected: Vec<Msg>,
    taken: HashMap<u64, Msg>,
    done: HashMap<u64, Completion>,
    /// Receives with a wildcard that were matched: number, source and tag.
    matched: Vec<(u64, i32, i32)>,
    /// Destination, context, tag and a hash of the body of each message that the rank has sent.
    sent: Vec<SentMessage>,
    /// Errors that the next calls that move messages give.
    faults: VecDeque<&'static str>,
    /// No body is taken out of this rank's memory any more.
    withdrawn: bool,
    /// Number of calls that may block.
    waits: usize,
}

struct State {
    seed: u64,
    turn: usize,
    over: Vec<bool>,
    failed: bool,
    idle: usize,
    moved: u64,
    next: u64,
    n: usize,
    per_host: usize,
    flight: Vec<VecDeque<Msg>>,
    ports: Vec<PortState>,
}

/// The network.
pub struct Net {
    state: Mutex<State>,
    turned: Condvar,
}

/// One rank's end.
pub struct Port {
    net: Arc<Net>,
    rank: usize,
    log: Option<Determinants>,
    /// Receives with a wildcard that were posted.
    wildcards: u64,
}

fn matches(pat: &Pattern, env: &Envelope) -> bool {
    pat.context == env.context
        && pat.source.is_none_or(|s| s == env.source)
        && pat.tag.is_none_or(|t| t == env.tag)
}

impl State {
    fn random(&mut self) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed >> 11
    }

    fn id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn deliver(&mut self, to: usize, msg: Msg, p: Posted) {
        if msg.remote.is_some() && self.ports[msg.from].withdrawn {
            // It is asked for, and never comes.
            return;
        }
        let src = msg.remote.map_or(msg.body.as_ptr() as usize, |r| r.0);
        let len = msg.len().min(p.cap);
        // SAFETY: both buffers are kept by their ranks until completion; ranks run one at a time.
        unsafe { std::ptr::copy_nonoverlapping(src as *const u8, p.addr as *mut u8, len) };
        let done = Completion {
            source: msg.env.source,
            tag: msg.env.tag,
            len: len as u64,
            truncated: (msg.len() > p.cap).then_some(msg.len() as u64),
            cancelled: false,
        };
        self.ports[to].done.insert(p.id, done);
        if let Some(number) = p.wildcard {
            let matched = (number, msg.env.source, msg.env.tag);
            self.ports[to].matched.push(matched);
        }
        self.matched(&msg);
    }

    fn matched(&mut self, msg: &Msg) {
        self.moved += 1;
        if let Some(id) = msg.wants {
            self.ports[msg.from].done.insert(id, sent(msg.len(), false));
        }
    }

    fn arrive(&mut self, to: usize, msg: Msg) {
        let port = &mut self.ports[to];
        match port.posted.iter().position(|p| matches(&p.pat, &msg.env)) {
            Some(i) => {
                let p = port.posted.remove(i);
                self.deliver(to, msg, p);
            }
            None => port.unexpected.push(msg),
        }
        self.moved += 1;
    }

    /// Lets some messages in flight to `to` arrive, in the order of each pair.
    fn pass(&mut self, to: usize) -> bool {
        let mut any = false;
        for from in 0..self.n {
            while !self.flight[from * self.n + to].is_empty() && !self.random().is_multiple_of(3) {
                let msg = self.flight[from * self.n + to]
                    .pop_front()
                    .expect("checked");
                self.arrive(to, msg);
                any = true;
            }
        }
        any
    }
}

fn sent(len: usize, cancelled: bool) -> Completion {
    Completion {
        source: 0,
        tag: 0,
        len: len as u64,
        truncated: None,
        cancelled,
    }
}

impl Net {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn deliver(&self, me: usize, over: bool) {
        let mut s = self.lock();
        s.over[me] |= over;
        s.failed |= std::thread::panicking();
        let open: Vec<usize> = (0..s.n).filter(|&r| !s.over[r]).collect();
        if let Some(n) = (!open.is_empty()).then_some(open.len() as u64) {
            let pick = s.random() % n;
            s.turn = open[pick as usize];
        }
        self.turned.notify_all();
        if !over {
            drop(self.own(s, me));
        }
    }

    fn own<'a>(&'a self, mut s: MutexGuard<'a, State>, me: usize) -> MutexGuard<'a, State> {
        while s.turn != me && !s.failed {
            s = self.turned.wait(s).unwrap_or_else(|e| e.into_inner());
        }
        if s.failed {
            drop(s);
            panic!("another rank failed");
        }
        s
    }
}

impl Port {
    fn s(&self) -> MutexGuard<'_, State> {
        self.net.lock()
    }

    /// The pattern of a receive with a wildcard, in a replay narrowed to the recorded message, and
    /// the number of the receive.
    fn narrow(&mut self, mut pat: Pattern) -> (Pattern, Option<u64>) {
        if pat.source.is_some() && pat.tag.is_some() {
            return (pat, None);
        }
        let number = self.wildcards;
        self.wildcards += 1;
        let recorded = self.log.as_ref().and_then(|log| log.match_of(number));
        if let Some((source, tag)) = recorded {
            (pat.source, pat.tag) = (Some(source), Some(tag));
        }
        (pat, Some(number))
    }

    /// Records the matches of receives with a wildcard.
    fn record_matches(&mut self) {
        let matched = std::mem::take(&mut self.s().ports[self.rank].matched);
        if let Some(log) = &mut self.log {
            for (number, source, tag) in matched {
                log.matched(number, source, tag).expect("as recorded");
            }
        }
    }

    fn fault(&self) -> Result<()> {
        match self.s().ports[self.rank].faults.pop_front() {
            Some(text) => Err(Error::new(ErrorClass::Other, text)),
            None => Ok(()),
        }
    }
}

impl Adi for Port {
    fn determinants(&mut self) -> Option<&mut Determinants> {
        self.log.as_mut()
    }

    fn set_determinants(&mut self, log: Determinants) {
        self.log = Some(log);
    }

    fn rank(&self) -> Rank {
        Rank(self.rank as u32)
    }

    fn size(&self) -> u32 {
        self.s().n as u32
    }

    fn locality(&self) -> JobLocality {
        let s = self.s();
        JobLocality::new((0..s.n).map(|rank| rank / s.per_host), LocalCost::Copy)
    }

    fn local_host(&self) -> String {
        let per_host = self.s().per_host;
        format!("host {}", self.rank / per_host)
    }

    fn identity(&self) -> Identity {
        Identity {
            job: JobId(std::process::id().into()),
            rank: Rank(self.rank as u32),
            generation: Generation(0),
            incarnation: Incarnation(0),
        }
    }

    fn host_of(&self, rank: Rank) -> String {
        format!("test{}", rank.0)
    }

    fn reduces_by_hosts(&self) -> bool {
        false
    }

    fn expects_threads(&self) -> bool {
        false
    }

    fn appnum(&self) -> Option<u32> {
        None
    }

    fn set_names(&mut self, _names: Names) {}

    fn begin_finalize(&mut self) -> Result<()> {
        Ok(())
    }

    fn abort(&mut self, code: i32) -> ! {
        panic!("MPI_Abort({code})")
    }

    unsafe fn isend(
        &mut self,
        to: Rank,
        env: Envelope,
        (buf, len): (*const u8, usize),
        mode: Mode,
        _attempt: SendAttempt,
    ) -> Result<ReqId> {
        let mut s = self.s();
        let id = s.id();
        let large = len > LARGE;
        let body = if large || len == 0 {
            Vec::new()
        } else {
            // SAFETY: the caller's buffer is valid for `len` bytes.
            unsafe { std::slice::from_raw_parts(buf, len) }.to_vec()
        };
        let late = large || mode == Mode::Synchronous;
        if !late {
            s.ports[self.rank].done.insert(id, sent(len, false));
        }
        // SAFETY: as above.
        let bytes = (0..len).map(|at| unsafe { *buf.add(at) });
        let hash = bytes.fold(len as u64, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
        });
        let sent = (to.0 as usize, env.context, env.tag, hash);
        s.ports[self.rank].sent.push(sent);
        let msg = Msg {
            env,
            from: self.rank,
            body,
            remote: large.then_some((buf as usize, len)),
            wants: late.then_some(id),
        };
        let slot = self.rank * s.n + to.0 as usize;
        s.flight[slot].push_back(msg);
        s.idle = 0;
        s.moved += 1;
        Ok(ReqId(id))
    }

    unsafe fn send(
        &mut self,
        to: Rank,
        env: Envelope,
        body: (*const u8, usize),
        attempt: SendAttempt,
    ) -> Result<Option<ReqId>> {
        // SAFETY: the caller's promise.
        let r = unsafe { self.isend(to, env, body, Mode::Standard, attempt) }?;
        Ok(match self.poll(r) {
            Some(_) => None,
            None => Some(r),
        })
    }

    unsafe fn irecv(&mut self, pat: Pattern, buf: *mut u8, len: usize) -> Result<ReqId> {
        let (pat, wildcard) = self.narrow(pat);
        let mut s = self.s();
        let id = s.id();
        s.idle = 0;
        let p = Posted {
            id,
            wildcard,
            pat,
            addr: buf as usize,
            cap: len,
        };
        let found = s.ports[self.rank]
            .unexpected
            .iter()
            .position(|m| matches(&pat, &m.env));
        match found {
            Some(i) => {
                let msg = s.ports[self.rank].unexpected.remove(i);
                s.deliver(self.rank, msg, p);
            }
            None => s.ports[self.rank].posted.push(p),
        }
        drop(s);
        self.record_matches();
        Ok(ReqId(id))
    }

    fn poll(&mut self, r: ReqId) -> Option<Completion> {
        self.s().ports[self.rank].done.remove(&r.0)
    }

    fn is_complete(&self, r: ReqId) -> bool {
        self.s().ports[self.rank].done.contains_key(&r.0)
    }

    fn poll_whole(&mut self, r: ReqId) -> Option<Completion> {
        let done = *self.s().ports[self.rank].done.get(&r.0)?;
        (done.truncated.is_none() && !done.cancelled).then(|| self.poll(r))?
    }

    fn cancel(&mut self, r: ReqId) {
        let mut s = self.s();
        let me = self.rank;
        if let Some(i) = s.ports[me].posted.iter().position(|p| p.id == r.0) {
            s.ports[me].posted.remove(i);
            s.ports[me].done.insert(r.0, sent(0, true));
        }
        for to in 0..s.n {
            let slot = me * s.n + to;
            if let Some(i) = s.flight[slot].iter().position(|m| m.wants == Some(r.0)) {
                s.flight[slot].remove(i);
                s.ports[me].done.insert(r.0, sent(0, true));
            }
            let found = s.ports[to]
                .unexpected
                .iter()
                .position(|m| m.wants == Some(r.0));
            if let Some(i) = found {
                s.ports[to].unexpected.remove(i);
                s.ports[me].done.insert(r.0, sent(0, true));
            }
        }
        s.moved += 1;
    }

    fn probe(&mut self, pat: &Pattern) -> Option<Probe> {
        let s = self.s();
        let m = s.ports[self.rank]
            .unexpected
            .iter()
            .find(|m| matches(pat, &m.env))?;
        Some(Probe {
            source: m.env.source,
            tag: m.env.tag,
            len: m.len() as u64,
        })
    }

    fn mprobe(&mut self, pat: &Pattern) -> Option<(MsgId, Probe)> {
        let probe = self.probe(pat)?;
        let mut s = self.s();
        let id = s.id();
        let port = &mut s.ports[self.rank];
        let i = port.unexpected.iter().position(|m| matches(pat, &m.env))?;
        let msg = port.unexpected.remove(i);
        port.taken.insert(id, msg);
        Some((MsgId(id), probe))
    }

    unsafe fn imrecv(&mut self, msg: MsgId, buf: *mut u8, len: usize) -> Result<ReqId> {
        let mut s = self.s();
        let id = s.id();
        let Some(m) = s.ports[self.rank].taken.remove(&msg.0) else {
            return Err(Error::new(ErrorClass::Request, "no such message"));
        };
        let pat = Pattern {
            context: 0,
            source: None,
            tag: None,
            from: None,
        };
        let p = Posted {
            id,
            wildcard: None,
            pat,
            addr: buf as usize,
            cap: len,
        };
        s.deliver(self.rank, m, p);
        Ok(ReqId(id))
    }

    fn progress(&mut self, _hint: Option<ReqId>) -> Result<bool> {
        self.fault()?;
        let moved = self.s().pass(self.rank);
        self.record_matches();
        if !moved {
            // A program may poll forever: let the others run.
            self.net.deliver(self.rank, false);
        }
        Ok(moved)
    }

    fn wait(&mut self, _hint: Option<ReqId>, _deadline: Option<Duration>) -> Result<()> {
        self.fault()?;
        {
            let mut s = self.s();
            s.ports[self.rank].waits += 1;
            if s.pass(self.rank) {
                s.idle = 0;
                drop(s);
                self.record_matches();
                return Ok(());
            }
            s.idle += 1;
            let quiet = s.flight.iter().all(VecDeque::is_empty);
            assert!(
                !quiet || s.idle < 1000 * s.n,
                "deadlock: all ranks wait and nothing moves"
            );
        }
        self.net.deliver(self.rank, false);
        Ok(())
    }

    fn withdraw(&mut self) {
        let mut s = self.s();
        s.ports[self.rank].withdrawn = true;
    }

    fn moved(&self) -> u64 {
        self.s().moved
    }
}

fn with_port<T>(mpi: &Mpi, act: impl FnOnce(&mut PortState) -> T) -> T {
    let dev = mpi.dev();
    let super::Inner::Test(port) = &dev.inner else {
        unreachable!("a test's device");
    };
    act(&mut port.s().ports[port.rank])
}

/// Lets the device of `mpi`'s rank fail with `text` the next time that it is to move messages.
pub fn fail_next(mpi: &Mpi, text: &'static str) {
    with_port(mpi, |port| port.faults.push_back(text));
}

/// The messages that `mpi`'s rank has sent, in order.
pub fn sent_messages(mpi: &Mpi) -> Vec<SentMessage> {
    with_port(mpi, |port| port.sent.clone())
}

/// How often the device of `mpi`'s rank may have blocked.
pub fn waits(mpi: &Mpi) -> usize {
    with_port(mpi, |port| port.waits)
}

/// Runs `body` on `n` ranks over a network that `seed` drives; four ranks to a host.
pub fn run(n: usize, seed: u64, body: impl Fn(Rc<Mpi>) + Send + Sync) {
    let net = Arc::new(Net {
        state: Mutex::new(State {
            seed: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            turn: 0,
            over: vec![false; n],
            failed: false,
            idle: 0,
            moved: 0,
            next: 0,
            n,
            per_host: 4,
            flight: (0..n * n).map(|_| VecDeque::new()).collect(),
            ports: (0..n).map(|_| PortState::default()).collect(),
        }),
        turned: Condvar::new(),
    });
    struct Leave(Arc<Net>, usize);
    impl Drop for Leave {
        fn drop(&mut self) {
            self.0.deliver(self.1, true);
        }
    }
    std::thread::scope(|scope| {
        for rank in 0..n {
            let (net, body) = (net.clone(), &body);
            scope.spawn(move || {
                let _leave = Leave(net.clone(), rank);
                drop(net.own(net.lock(), rank));
                let port = Port {
                    net,
                    rank,
                    log: None,
                    wildcards: 0,
                };
                body(Mpi::new(super::Dev::test(port)));
            });
        }
    });
}

/// [`run`] with several seeds.
pub fn run_seeds(n: usize, body: impl Fn(Rc<Mpi>) + Send + Sync) {
    for seed in 1..=8 {
        println!("ranks {n} seed {seed}");
        run(n, seed, &body);
    }
}
