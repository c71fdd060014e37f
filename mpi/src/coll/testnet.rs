//! An in-memory network: all ranks in one thread, delivery in seeded random order and with random
//! delays.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use super::call::OutOfLine;
use super::{Ctx, Locality, Mem, P2p, Pending, Resources, Scratch, Tuning, poll_once};
use crate::adi::LocalCost;
use crate::error::{Error, ErrorClass, Result};

/// A small generator (splitmix64): the seed of a failing run is in its panic message.
pub(super) struct Rng(pub(super) u64);

impl Rng {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

thread_local! {
    static CROSSED: Cell<usize> = const { Cell::new(0) };
}

/// Messages sent so far in this thread between ranks on different hosts.
pub(super) fn crossed() -> usize {
    CROSSED.get()
}

enum Body {
    /// Taken at the send, which was complete at once.
    Copied(Vec<u8>),
    /// Read from the sender's buffer when it is received, as a large message is: then the send
    /// completes.
    Lazy(Mem, usize),
}

struct Message {
    from: usize,
    tag: i32,
    body: Body,
}

struct Posted {
    from: usize,
    tag: i32,
    into: Mem,
    request: usize,
}

struct Net {
    size: usize,
    rng: Rng,
    /// Sent and not arrived, for each pair (sender, receiver): messages of a pair stay in order.
    flying: Vec<VecDeque<Message>>,
    busy: Vec<usize>,
    arrived: Vec<VecDeque<Message>>,
    posted: Vec<VecDeque<Posted>>,
    requests: Vec<Option<Option<Result<usize>>>>,
    free: Vec<usize>,
    /// Grows whenever anything happens.
    events: u64,
    /// Operations that rank 0 may still start before they fail.
    fuse: Option<usize>,
}

impl Net {
    fn new(size: usize, seed: u64) -> Self {
        Self {
            size,
            rng: Rng(seed),
            flying: (0..size * size).map(|_| VecDeque::new()).collect(),
            busy: Vec::new(),
            arrived: (0..size).map(|_| VecDeque::new()).collect(),
            posted: (0..size).map(|_| VecDeque::new()).collect(),
            requests: Vec::new(),
            free: Vec::new(),
            events: 0,
            fuse: None,
        }
    }

    fn request(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.requests.push(None);
            self.requests.len() - 1
        })
    }

    fn start(&mut self, rank: usize) -> Result<()> {
        self.events += 1;
        if let (0, Some(left)) = (rank, self.fuse.as_mut()) {
            if *left == 0 {
                return Err(Error::new(ErrorClass::Other, "the test's fuse blew"));
            }
            *left -= 1;
        }
        Ok(())
    }

    fn send(&mut self, from: usize, to: usize, tag: i32, data: Mem) -> Pending {
        assert!(to < self.size && to != from, "rank {from} sends to {to}");
        let (body, pending) = if self.rng.below(2) == 0 {
            let mut copy = vec![0; data.len()];
            mem(&mut copy).copy_from(data);
            (Body::Copied(copy), Pending::DONE)
        } else {
            let request = self.request();
            self.requests[request] = Some(None);
            (Body::Lazy(data, request), Pending::new(request as u64))
        };
        let pair = from * self.size + to;
        if self.flying[pair].is_empty() {
            self.busy.push(pair);
        }
        self.flying[pair].push_back(Message { from, tag, body });
        pending
    }

    fn recv(&mut self, rank: usize, from: usize, tag: i32, into: Mem) -> Pending {
        assert!(from < self.size && from != rank);
        let request = self.request();
        self.requests[request] = Some(None);
        let posted = Posted {
            from,
            tag,
            into,
            request,
        };
        let meets = |m: &Message| m.from == from && m.tag == tag;
        match self.arrived[rank].iter().position(meets) {
            Some(i) => {
                let message = self.arrived[rank].remove(i).expect("just found");
                self.complete(&posted, message);
            }
            None => self.posted[rank].push_back(posted),
        }
        Pending::new(request as u64)
    }

    /// Takes a message that has arrived, unless a receive that was posted before comes first.
    fn try_recv(&mut self, rank: usize, from: usize, tag: i32, into: Mem) -> Result<Option<usize>> {
        let meets = |m: &Message| m.from == from && m.tag == tag;
        let first = |p: &Posted| p.from == from && p.tag == tag;
        if self.posted[rank].iter().any(first) || !self.arrived[rank].iter().any(meets) {
            return Ok(None);
        }
        self.start(rank)?;
        let pending = self.recv(rank, from, tag, into).raw() as usize;
        self.free.push(pending);
        let done = self.requests[pending].take().expect("just made");
        done.expect("the message is there").map(Some)
    }

    fn complete(&mut self, posted: &Posted, message: Message) {
        let len = match message.body {
            Body::Copied(mut data) => {
                let whole = mem(&mut data);
                posted
                    .into
                    .copy_from(whole.head(data.len().min(posted.into.len())));
                data.len()
            }
            Body::Lazy(data, request) => {
                posted
                    .into
                    .copy_from(data.head(data.len().min(posted.into.len())));
                self.requests[request] = Some(Some(Ok(data.len())));
                data.len()
            }
        };
        let result = if len > posted.into.len() {
            Err(Error::new(ErrorClass::Truncate, "message too long"))
        } else {
            Ok(len)
        };
        self.requests[posted.request] = Some(Some(result));
    }

    /// One message arrives, of a random pair; false when none is on its way.
    fn deliver(&mut self) -> bool {
        if self.busy.is_empty() {
            return false;
        }
        self.events += 1;
        let i = self.rng.below(self.busy.len());
        let pair = self.busy[i];
        let message = self.flying[pair].pop_front().expect("busy pair");
        if self.flying[pair].is_empty() {
            self.busy.swap_remove(i);
        }
        let to = pair % self.size;
        let meets = |p: &Posted| p.from == message.from && p.tag == message.tag;
        match self.posted[to].iter().position(meets) {
            Some(i) => {
                let posted = self.posted[to].remove(i).expect("just found");
                self.complete(&posted, message);
            }
            None => self.arrived[to].push_back(message),
        }
        true
    }
}

/// One rank's end of the network.
pub(super) struct Endpoint {
    net: Rc<RefCell<Net>>,
    rank: usize,
    polls: Rc<Cell<u64>>,
    hosts: Rc<Locality>,
    live: Cell<usize>,
}

impl Endpoint {
    fn call<'a>(&'a self, tag: i32, resources: &'a Resources) -> TestCtx<'a> {
        Ctx::new(self, tag, Some(&self.hosts), resources, &self.live)
    }
}

impl P2p for &Endpoint {
    type OutOfLine = OutOfLine<Self>;

    fn out_of_line(self) -> OutOfLine<Self> {
        OutOfLine(self)
    }

    fn rank(self) -> usize {
        self.rank
    }

    fn size(self) -> usize {
        self.net.borrow().size
    }

    unsafe fn isend(self, to: usize, tag: i32, buf: *const u8, len: usize) -> Result<Pending> {
        let mut net = self.net.borrow_mut();
        net.start(self.rank)?;
        if self.hosts.of(self.rank) != self.hosts.of(to) {
            CROSSED.set(CROSSED.get() + 1);
        }
        // SAFETY: the caller keeps the buffer until the request is done.
        let data = unsafe { Mem::new(buf.cast_mut(), len) };
        Ok(net.send(self.rank, to, tag, data))
    }

    fn max_short(self) -> usize {
        1 << 10
    }

    unsafe fn try_recv(
        self,
        from: usize,
        tag: i32,
        buf: *mut u8,
        len: usize,
    ) -> Result<Option<usize>> {
        let mut net = self.net.borrow_mut();
        if net.rng.below(2) == 0 {
            return Ok(None);
        }
        // SAFETY: the caller's promise.
        let into = unsafe { Mem::new(buf, len) };
        net.try_recv(self.rank, from, tag, into)
    }

    unsafe fn irecv(self, from: usize, tag: i32, buf: *mut u8, len: usize) -> Result<Pending> {
        let mut net = self.net.borrow_mut();
        net.start(self.rank)?;
        // SAFETY: the caller keeps the buffer until the request is done.
        let into = unsafe { Mem::new(buf, len) };
        Ok(net.recv(self.rank, from, tag, into))
    }

    fn poll(self, pending: &mut Pending) -> Poll<Result<usize>> {
        self.polls.set(self.polls.get() + 1);
        let mut net = self.net.borrow_mut();
        let i = pending.raw() as usize;
        match net.requests[i].take() {
            Some(Some(result)) => {
                net.free.push(i);
                net.events += 1;
                Poll::Ready(result)
            }
            Some(None) => {
                net.requests[i] = Some(None);
                Poll::Pending
            }
            None => panic!("polled a request that was done"),
        }
    }
}

/// A call of a collective on one rank.
pub(super) type TestCtx<'a> = Ctx<'a, &'a Endpoint>;

pub(super) type Fut<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// Which ranks of a run share a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// No two ranks share a host.
    Apart,
    /// All.
    One,
    /// So many in a row.
    Rows(usize),
    /// They are dealt to so many hosts.
    Dealt(usize),
    /// Any, with a seed, on at most so many hosts.
    Mixed(u64, usize),
}

impl Layout {
    fn hosts(self, size: usize, cost: LocalCost) -> Locality {
        let mut rng = Rng(match self {
            Layout::Mixed(seed, _) => seed,
            _ => 0,
        });
        let number = |rank| match self {
            Layout::Apart => rank,
            Layout::One => 0,
            Layout::Rows(n) => rank / n,
            Layout::Dealt(n) => rank % n,
            Layout::Mixed(_, n) => rng.below(n),
        };
        Locality::new((0..size).map(number).map(|host| host as u32), cost)
    }
}

/// A run's conditions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) size: usize,
    pub(super) seed: u64,
    pub(super) tuning: Tuning,
    pub(super) layout: Layout,
    /// Cost of messages within a host.
    pub(super) cost: LocalCost,
    /// Number of operations after which rank 0's fail.
    pub(super) fuse: Option<usize>,
}

impl Run {
    pub(super) fn new(size: usize, seed: u64) -> Self {
        Self {
            size,
            seed,
            tuning: Tuning::default(),
            layout: Layout::Apart,
            cost: LocalCost::Copy,
            fuse: None,
        }
    }

    /// Runs `body` on every rank, with `calls` contexts of different tags each, and returns every
    /// rank's result.
    pub(super) fn go(
        self,
        calls: usize,
        body: impl for<'a> Fn(&'a [TestCtx<'a>]) -> Fut<'a>,
    ) -> Vec<Result<()>> {
        let net = Rc::new(RefCell::new(Net::new(self.size, self.seed)));
        net.borrow_mut().fuse = self.fuse;
        let polls = Rc::new(Cell::new(0));
        let resources = Resources::new(self.tuning);
        let hosts = Rc::new(self.layout.hosts(self.size, self.cost));
        let endpoint = |rank: usize| Endpoint {
            net: net.clone(),
            rank,
            polls: polls.clone(),
            hosts: hosts.clone(),
            live: Cell::new(0),
        };
        let endpoints: Vec<Vec<_>> = (0..self.size)
            .map(|rank| (0..calls).map(|_| endpoint(rank)).collect())
            .collect();
        let contexts: Vec<Vec<TestCtx<'_>>> = endpoints
            .iter()
            .map(|calls: &Vec<Endpoint>| {
                let ctx = |(tag, end)| Endpoint::call(end, tag as i32, &resources);
                calls.iter().enumerate().map(ctx).collect()
            })
            .collect();
        let mut results: Vec<Option<Result<()>>> = vec![None; self.size];
        let mut futures: Vec<Fut<'_>> = contexts.iter().map(|ctx| body(ctx)).collect();
        let mut rng = Rng(self.seed ^ 0xabcd);
        let mut poll = |rank: usize, results: &mut Vec<Option<Result<()>>>| {
            if results[rank].is_none()
                && let Poll::Ready(result) = poll_once(futures[rank].as_mut())
            {
                results[rank] = Some(result);
            }
        };
        while results.iter().any(Option::is_none) {
            if rng.below(3) > 0 && net.borrow_mut().deliver() {
                continue;
            }
            poll(rng.below(self.size), &mut results);
            if net.borrow().busy.is_empty() {
                let before = net.borrow().events;
                (0..self.size).for_each(|rank| poll(rank, &mut results));
                let stuck = net.borrow().events == before && net.borrow().busy.is_empty();
                if stuck && results.iter().any(Option::is_none) {
                    assert!(self.fuse.is_some(), "deadlock: {self:?}");
                    break;
                }
            }
        }
        if self.fuse.is_none() && results.iter().all(|r| matches!(r, Some(Ok(())))) {
            self.check_clean(&net.borrow(), &resources.scratch);
        }
        results
            .into_iter()
            .map(|r| r.unwrap_or_else(|| Err(Error::new(ErrorClass::Pending, "waits for ever"))))
            .collect()
    }

    /// Nothing of the run is left over: a later call could take it for its own.
    fn check_clean(&self, net: &Net, scratch: &Scratch) {
        assert!(net.busy.is_empty(), "messages on their way: {self:?}");
        assert!(
            net.arrived.iter().all(VecDeque::is_empty),
            "messages nobody received: {self:?}"
        );
        assert!(
            net.posted.iter().all(VecDeque::is_empty),
            "receives never met: {self:?}"
        );
        assert!(
            net.requests.iter().all(Option::is_none),
            "requests never completed: {self:?}"
        );
        assert_eq!(
            scratch.lent(),
            0,
            "temporary memory not given back: {self:?}"
        );
    }
}

/// Buffers of all ranks.
pub(super) type Buffers = Vec<Vec<u8>>;

/// The region of a test's buffer.
pub(super) fn mem(buffer: &mut Vec<u8>) -> Mem {
    // SAFETY: tests keep their buffers, which they do not look at meanwhile, until the run is over.
    unsafe { Mem::new(buffer.as_mut_ptr(), buffer.len()) }
}
