//! One call of a collective: its messages, its temporary memory and its tuning of algorithms.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;

use super::locality::Locality;
use super::mem::{Blocks, Mem};
use super::p2p::{P2p, Pending};
use super::scratch::{Loan, Scratch};
use super::tuning::{FLAT_RANKS, Tuning};
use crate::error::{Error, ErrorClass, Result};

/// What one call of a collective works with. A nonblocking collective's future owns it.
#[derive(Debug)]
pub struct Ctx<P> {
    p2p: P,
    tag: i32,
    live: Cell<usize>,
    span: Span,
    /// Algorithms that the caller demands instead of the usual tuning.
    pub tuning: Tuning,
}

/// Where the ranks of a call are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Span {
    /// It is not known, or nothing follows from it.
    Unknown,
    /// All on one host, few, and messages within it cost little.
    OneHost,
    /// On several hosts, with more than one on some.
    Hosts,
}

impl Span {
    #[inline]
    fn of(size: usize, hosts: Option<&Locality>) -> Self {
        let Some(hosts) = hosts else {
            return Self::Unknown;
        };
        match hosts.count() {
            1 if size <= FLAT_RANKS && hosts.is_cheap_within() => Self::OneHost,
            count if 1 < count && count < size => Self::Hosts,
            _ => Self::Unknown,
        }
    }
}

impl<P: P2p> Ctx<P> {
    /// A call with its own `tag` on `p2p`: no other call in flight on this communicator may use the
    /// tag.
    #[inline]
    pub fn new(p2p: P, tag: i32) -> Self {
        Self {
            span: Span::of(p2p.size(), p2p.hosts()),
            p2p,
            tag,
            live: Cell::new(0),
            tuning: Tuning::default(),
        }
    }

    /// The same with some algorithms chosen by the caller (tests and benches).
    #[inline]
    pub fn with_tuning(mut self, tuning: Tuning) -> Self {
        self.tuning = tuning;
        self
    }

    /// How many messages have been posted and are not done.
    pub(super) fn in_flight(&self) -> usize {
        self.live.get()
    }

    /// The tag of its messages.
    pub(super) fn tag(&self) -> i32 {
        self.tag
    }

    /// The channel.
    #[inline]
    pub fn p2p(&self) -> &P {
        &self.p2p
    }

    /// The pool of temporary memory.
    #[inline]
    pub(crate) fn scratch(&self) -> &Scratch {
        self.p2p.scratch()
    }

    /// This process's rank.
    #[inline]
    pub fn rank(&self) -> usize {
        self.p2p.rank()
    }

    /// Number of ranks.
    #[inline]
    pub fn size(&self) -> usize {
        self.p2p.size()
    }

    /// Whether all ranks are few and share a host within which messages cost little.
    #[inline]
    pub(crate) fn on_one_host(&self) -> bool {
        self.span == Span::OneHost
    }

    /// Those of whom some share a host and some do not, unless the caller has demanded how data
    /// travels.
    #[inline]
    pub(crate) fn hosts(&self) -> Option<&Locality> {
        if self.span != Span::Hosts || self.tuning.exchange.is_some() {
            return None;
        }
        self.p2p.hosts()
    }

    /// Says that the ranks of this call share a host.
    pub(super) fn share_a_host(&mut self) {
        self.span = Span::OneHost;
    }

    /// A call among some of the ranks, as a part of this one.
    pub(super) fn part<Q: P2p>(&self, p2p: Q) -> Ctx<Q> {
        Ctx::new(p2p, self.tag).with_tuning(self.tuning)
    }

    /// Temporary memory of `len` bytes, back in the pool at the end of the scope.
    pub(crate) fn temp(&self, len: usize) -> Result<Temp<'_>> {
        let loan = if len == 0 {
            None
        } else {
            Some(self.scratch().take(len)?)
        };
        Ok(Temp {
            loan,
            len,
            scratch: self.scratch(),
            live: &self.live,
        })
    }

    /// Gives back memory that no request uses, although other requests are in flight.
    pub(crate) fn give_back(&self, mut temp: Temp<'_>) {
        if let Some(loan) = temp.loan.take() {
            self.scratch().give_back(loan);
        }
    }

    /// A table of `n` regions in temporary memory.
    pub(crate) fn table(&self, n: usize, region: impl Fn(usize) -> Mem) -> Result<Table<'_>> {
        let temp = self.temp(n * size_of::<Mem>())?;
        let start = temp.mem().ptr().cast::<Mem>();
        for i in 0..n {
            // SAFETY: the buffer has room for `n` entries and is aligned for them.
            unsafe { start.add(i).write(region(i)) }
        }
        Ok(Table { temp, n })
    }

    #[inline]
    pub(crate) fn isend(&self, to: usize, data: Mem) -> Result<Pending> {
        // SAFETY: the region is valid until the collective ends (`Mem::new`), and the algorithms do
        // not change it before the request is done.
        let pending = unsafe { self.p2p.isend(to, self.tag, data.ptr(), data.len())? };
        if pending != Pending::DONE {
            self.live.set(self.live.get() + 1);
        }
        Ok(pending)
    }

    #[inline]
    pub(crate) fn irecv(&self, from: usize, data: Mem) -> Result<Receive> {
        // SAFETY: as for `isend`; the algorithms do not touch the region before the request is
        // done.
        let pending = unsafe { self.p2p.irecv(from, self.tag, data.ptr(), data.len())? };
        self.live.set(self.live.get() + 1);
        Ok(Receive {
            pending,
            len: data.len(),
            from,
        })
    }

    /// Receives a message that is there or comes at once; false: nothing was done.
    #[inline]
    pub(crate) fn try_recv(&self, from: usize, data: Mem) -> Result<bool> {
        if data.len() > self.p2p.max_short() {
            return Ok(false);
        }
        // SAFETY: the region is valid (`Mem::new`), and nobody touches it during the call.
        let came = unsafe { self.p2p.try_recv(from, self.tag, data.ptr(), data.len())? };
        match came {
            Some(len) => self.check_length(from, data.len(), len).map(|()| true),
            None => Ok(false),
        }
    }

    /// Polls a request of this call, for whoever waits for it in another way.
    #[inline]
    pub(super) fn poll_part(&self, pending: &mut Pending) -> Poll<Result<usize>> {
        let polled = self.p2p.poll(pending);
        if polled.is_ready() {
            self.live.set(self.live.get() - 1);
        }
        polled
    }

    pub(crate) async fn sent(&self, mut pending: Pending) -> Result<()> {
        if pending == Pending::DONE {
            return Ok(());
        }
        let result = poll_fn(|_| self.p2p.poll(&mut pending)).await;
        self.live.set(self.live.get() - 1);
        result.map(drop)
    }

    pub(crate) async fn received(&self, mut receive: Receive) -> Result<()> {
        let result = poll_fn(|_| self.p2p.poll(&mut receive.pending)).await;
        self.live.set(self.live.get() - 1);
        self.check_length(receive.from, receive.len, result?)
    }

    /// What the caller of the collective calls this rank.
    pub(super) fn named(&self, rank: usize) -> usize {
        self.p2p.named(rank)
    }

    /// Checks that as much has come as was expected.
    #[inline]
    fn check_length(&self, from: usize, expected: usize, len: usize) -> Result<()> {
        if len == expected {
            return Ok(());
        }
        Err(self.mismatch(from, expected, len))
    }

    #[cold]
    fn mismatch(&self, from: usize, expected: usize, len: usize) -> Error {
        let (from, me) = (self.named(from), self.named(self.rank()));
        let text = format!(
            "collective: rank {from} sent {len} bytes where rank {me} expected {expected}; \
             the ranks' counts or datatypes differ"
        );
        Error::new(ErrorClass::Truncate, text)
    }

    #[inline]
    pub(crate) async fn send(&self, to: usize, data: Mem) -> Result<()> {
        match self.isend(to, data)? {
            Pending::DONE => Ok(()),
            pending => self.sent(pending).await,
        }
    }

    #[inline]
    pub(crate) async fn recv(&self, from: usize, data: Mem) -> Result<()> {
        if self.try_recv(from, data)? {
            return Ok(());
        }
        let receive = self.irecv(from, data)?;
        self.received(receive).await
    }

    /// Sends and receives at the same time.
    #[inline]
    pub(crate) async fn exchange(&self, to: usize, out: Mem, from: usize, into: Mem) -> Result<()> {
        // A short message may be there already; the receive of a long one is posted ahead of it.
        let (send, receive) = if into.len() <= self.p2p.max_short() {
            let send = self.isend(to, out)?;
            let came = self.try_recv(from, into)?;
            let receive = (!came).then(|| self.irecv(from, into)).transpose()?;
            (send, receive)
        } else {
            let receive = self.irecv(from, into)?;
            (self.isend(to, out)?, Some(receive))
        };
        if let Some(receive) = receive {
            self.received(receive).await?;
        }
        self.sent(send).await
    }
}

/// A posted receive whose message must have exactly the region's length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receive {
    pub(super) pending: Pending,
    len: usize,
    from: usize,
}

/// Temporary memory. While requests of its call are in flight it is never given back: when a call
/// fails in the middle, or its future is dropped, its messages may still be written into it, so it
/// is leaked instead.
pub(crate) struct Temp<'a> {
    loan: Option<Loan>,
    len: usize,
    scratch: &'a Scratch,
    live: &'a Cell<usize>,
}

impl Temp<'_> {
    #[inline]
    pub(crate) fn mem(&self) -> Mem {
        self.loan
            .as_ref()
            .map_or(Mem::EMPTY, |loan| loan.mem(self.len))
    }
}

impl Drop for Temp<'_> {
    fn drop(&mut self) {
        if let Some(loan) = self.loan.take()
            && self.live.get() == 0
        {
            self.scratch.give_back(loan);
        }
    }
}

/// A table of regions, see [`Ctx::table`].
pub(crate) struct Table<'a> {
    temp: Temp<'a>,
    n: usize,
}

impl Table<'_> {
    pub(crate) fn blocks(&self) -> Blocks<'_> {
        if self.n == 0 {
            return Blocks::Table(&[]);
        }
        // SAFETY: `Ctx::table` wrote `n` entries, which stay as long as the buffer is borrowed.
        Blocks::Table(unsafe {
            std::slice::from_raw_parts(self.temp.mem().ptr().cast::<Mem>(), self.n)
        })
    }
}

/// How many requests of one kind an algorithm keeps in flight.
pub(crate) const WINDOW: usize = 16;

/// Requests in the order in which they were started, up to [`WINDOW`]. Without any it is not laid
/// out.
struct Queue<T>(Option<Ring<T>>);

struct Ring<T> {
    slots: [T; WINDOW],
    head: usize,
    len: usize,
}

impl<T: Copy> Queue<T> {
    #[inline]
    fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |ring| ring.len)
    }

    /// Adds a request; there must be room.
    fn push(&mut self, item: T) {
        let ring = self.0.get_or_insert(Ring {
            slots: [item; WINDOW],
            head: 0,
            len: 0,
        });
        assert!(ring.len < WINDOW, "too many requests in flight");
        ring.slots[(ring.head + ring.len) % WINDOW] = item;
        ring.len += 1;
    }

    /// Takes the oldest request.
    #[inline]
    fn pop(&mut self) -> Option<T> {
        let ring = self.0.as_mut().filter(|ring| ring.len > 0)?;
        let oldest = ring.slots[ring.head];
        ring.head = (ring.head + 1) % WINDOW;
        ring.len -= 1;
        Some(oldest)
    }
}

/// Sends whose buffers are not reused soon: waited for only when there are many, or at the end.
pub(crate) struct Sends(Queue<Pending>);

impl Sends {
    #[inline]
    pub(crate) const fn new() -> Self {
        Self(Queue(None))
    }

    /// Adds a send; there must be room.
    #[inline]
    pub(crate) fn push(&mut self, pending: Pending) {
        if pending != Pending::DONE {
            self.0.push(pending);
        }
    }

    /// Adds a send, and waits for the oldest where there is no room.
    #[inline]
    pub(crate) async fn push_or_wait<P: P2p>(
        &mut self,
        ctx: &Ctx<P>,
        pending: Pending,
    ) -> Result<()> {
        if pending == Pending::DONE {
            return Ok(());
        }
        if self.0.len() == WINDOW
            && let Some(oldest) = self.0.pop()
        {
            ctx.sent(oldest).await?;
        }
        self.0.push(pending);
        Ok(())
    }

    #[inline]
    pub(crate) async fn finish<P: P2p>(&mut self, ctx: &Ctx<P>) -> Result<()> {
        while let Some(oldest) = self.0.pop() {
            ctx.sent(oldest).await?;
        }
        Ok(())
    }
}

/// Receives posted ahead, completed in the order of posting.
pub(crate) struct Receives(Queue<Receive>);

impl Receives {
    #[inline]
    pub(crate) const fn new() -> Self {
        Self(Queue(None))
    }

    pub(crate) fn is_full(&self) -> bool {
        self.0.len() == WINDOW
    }

    /// Adds a receive; there must be room.
    pub(crate) fn push(&mut self, receive: Receive) {
        self.0.push(receive);
    }

    /// Receives a message that is there, or starts to; there must be room.
    #[inline]
    pub(crate) fn take_or_push<P: P2p>(
        &mut self,
        ctx: &Ctx<P>,
        from: usize,
        into: Mem,
    ) -> Result<()> {
        if !ctx.try_recv(from, into)? {
            self.0.push(ctx.irecv(from, into)?);
        }
        Ok(())
    }

    /// Waits for the oldest; `Ok(false)` when there is none.
    #[inline]
    pub(crate) async fn pop<P: P2p>(&mut self, ctx: &Ctx<P>) -> Result<bool> {
        match self.0.pop() {
            Some(receive) => ctx.received(receive).await.map(|()| true),
            None => Ok(false),
        }
    }

    #[inline]
    pub(crate) async fn push_or_wait<P: P2p>(
        &mut self,
        ctx: &Ctx<P>,
        from: usize,
        into: Mem,
    ) -> Result<()> {
        if self.is_full() {
            self.pop(ctx).await?;
        }
        self.take_or_push(ctx, from, into)
    }

    #[inline]
    pub(crate) async fn finish<P: P2p>(&mut self, ctx: &Ctx<P>) -> Result<()> {
        while self.pop(ctx).await? {}
        Ok(())
    }
}
