//! One call of a collective: its messages, its temporary memory and its tuning of algorithms.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::{Poll, ready};

use crate::coll::call::{P2p, Pending};
use crate::coll::hosts::{Locality, Span};
use crate::coll::memory::{Blocks, Loan, Mem, Scratch};
use crate::coll::tuning::Tuning;
use crate::error::{Error, ErrorClass, Result, counted};

/// State that the collectives of a process share.
#[derive(Debug, Default)]
pub struct Resources {
    /// Temporary memory.
    pub(in crate::coll) scratch: Scratch,
    /// Which algorithms are used, the same on all ranks.
    pub(in crate::coll) tuning: Tuning,
}

impl Resources {
    /// No memory yet, and the algorithms of this tuning.
    #[must_use]
    pub fn new(tuning: Tuning) -> Self {
        Self {
            scratch: Scratch::new(),
            tuning,
        }
    }
}

/// The context of one call of a collective. All fields but `live` are read only. The context is
/// passed by value up to the first wait, so a call without a wait never has it in memory.
#[derive(Clone, Copy, Debug)]
pub struct Ctx<'a, P> {
    p2p: P,
    tag: i32,
    /// How many messages have been posted and are not done.
    live: &'a Cell<usize>,
    resources: &'a Resources,
    hosts: Option<&'a Locality>,
    span: Span,
}

impl<'a, P: P2p> Ctx<'a, P> {
    /// A call with its own `tag` on `p2p`: no other call in flight on this communicator may use the
    /// tag. `live` counts its messages in flight; `hosts` says which ranks share a host, if that is
    /// known: to all of them or to none.
    #[inline(always)]
    pub fn new(
        p2p: P,
        tag: i32,
        hosts: Option<&'a Locality>,
        resources: &'a Resources,
        live: &'a Cell<usize>,
    ) -> Self {
        Self {
            p2p,
            tag,
            live,
            resources,
            hosts,
            span: hosts.map_or(Span::Unknown, Locality::span),
        }
    }

    /// Which algorithms are used.
    #[inline(always)]
    pub(in crate::coll) fn tuning(&self) -> &'a Tuning {
        &self.resources.tuning
    }

    /// The channel.
    #[inline(always)]
    pub fn p2p(&self) -> P {
        self.p2p
    }

    /// The pool of temporary memory.
    #[inline]
    pub(crate) fn scratch(&self) -> &'a Scratch {
        &self.resources.scratch
    }

    /// This process's rank.
    #[inline(always)]
    pub fn rank(&self) -> usize {
        self.p2p.rank()
    }

    /// Number of ranks.
    #[inline(always)]
    pub fn size(&self) -> usize {
        self.p2p.size()
    }

    /// Whether all ranks are few and share a host within which messages cost little.
    #[inline(always)]
    pub(crate) fn on_one_host(&self) -> bool {
        self.span == Span::OneHost
    }

    /// Whether exchanges are linear: all ranks send all messages without steps.
    #[inline(always)]
    pub(in crate::coll) fn is_linear(&self) -> bool {
        self.tuning().is_linear(self.on_one_host())
    }

    /// The locality, if some ranks share a host and some do not, unless the caller has demanded how
    /// data travels.
    #[inline(always)]
    pub(crate) fn hosts(&self) -> Option<&'a Locality> {
        if self.span != Span::Hosts || self.tuning().exchange.is_some() {
            return None;
        }
        self.hosts
    }

    /// Says that the ranks of this call share a host.
    pub(in crate::coll) fn share_a_host(&mut self) {
        self.span = Span::OneHost;
    }

    /// The same call on [`P2p::out_of_line`].
    #[inline(always)]
    pub(crate) fn out_of_line(&self) -> Ctx<'a, P::OutOfLine> {
        Ctx {
            p2p: self.p2p.out_of_line(),
            tag: self.tag,
            live: self.live,
            resources: self.resources,
            hosts: self.hosts,
            span: self.span,
        }
    }

    /// A call among some of the ranks, as a part of this one.
    pub(in crate::coll) fn part<Q: P2p>(&self, p2p: Q) -> Ctx<'a, Q> {
        Ctx::new(p2p, self.tag, None, self.resources, self.live)
    }

    /// Temporary memory of `len` bytes, back in the pool at the end of the scope.
    #[inline(always)]
    pub(crate) fn temp(&self, len: usize) -> Result<Temp<'a>> {
        Temp::new(self.scratch(), self.live, len)
    }

    /// A table of `n` regions in temporary memory.
    pub(crate) fn table(&self, n: usize, region: impl Fn(usize) -> Mem) -> Result<RegionTable<'a>> {
        let temp = self.temp(n * size_of::<Mem>())?;
        let start = temp.mem().ptr().cast::<Mem>();
        for i in 0..n {
            // SAFETY: the buffer has room for `n` entries and is aligned for them.
            unsafe { start.add(i).write(region(i)) }
        }
        Ok(RegionTable { temp, n })
    }

    /// Starts a send.
    #[inline(always)]
    pub(crate) fn isend(&self, to: usize, data: Mem) -> Result<Pending> {
        // SAFETY: the region is valid until the collective ends (`Mem::new`), and the algorithms do
        // not change it before the request is done.
        let pending = unsafe { self.p2p.isend(to, self.tag, data.ptr(), data.len())? };
        if pending != Pending::DONE {
            self.live.set(self.live.get() + 1);
        }
        Ok(pending)
    }

    #[inline(always)]
    pub(crate) fn irecv(&self, from: usize, data: Mem) -> Result<RegionReceive> {
        // SAFETY: as for `isend`; the algorithms do not touch the region before the request is
        // done.
        let pending = unsafe { self.p2p.irecv(from, self.tag, data.ptr(), data.len())? };
        self.live.set(self.live.get() + 1);
        Ok(RegionReceive {
            pending,
            len: data.len(),
            from,
        })
    }

    /// Receives a message that is there or comes at once; false: nothing was done.
    #[inline(always)]
    pub(crate) fn try_recv(&self, from: usize, data: Mem) -> Result<bool> {
        if data.len() > self.p2p.max_short() {
            return Ok(false);
        }
        // SAFETY: the region is valid (`Mem::new`), and no other code touches it during the call.
        let came = unsafe { self.p2p.try_recv(from, self.tag, data.ptr(), data.len())? };
        match came {
            Some(len) => self.check_length(from, data.len(), len).map(|()| true),
            None => Ok(false),
        }
    }

    /// Polls a request of this call, for a caller that waits in another way.
    #[inline(always)]
    pub(in crate::coll) fn poll_part(&self, pending: &mut Pending) -> Poll<Result<usize>> {
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
        poll_fn(|_| self.poll_part(&mut pending)).await.map(drop)
    }

    /// Polls a receive; not again once it is ready.
    #[inline(always)]
    pub(in crate::coll) fn poll_received(&self, receive: &mut RegionReceive) -> Poll<Result<()>> {
        let len = ready!(self.poll_part(&mut receive.pending))?;
        Poll::Ready(self.check_length(receive.from, receive.len, len))
    }

    pub(crate) async fn received(&self, mut receive: RegionReceive) -> Result<()> {
        poll_fn(|_| self.poll_received(&mut receive)).await
    }

    /// A word for this rank that the caller of the collective knows.
    pub(crate) fn named(&self, rank: usize) -> String {
        self.p2p.named(Some(rank))
    }

    /// Checks that as much has come as was expected.
    #[inline(always)]
    fn check_length(&self, from: usize, expected: usize, len: usize) -> Result<()> {
        if len == expected {
            return Ok(());
        }
        Err(self.wrong_length(from, expected, len))
    }

    #[cold]
    fn wrong_length(&self, from: usize, expected: usize, len: usize) -> Error {
        let (from, me) = (self.named(from), self.p2p.named(None));
        mismatch((from, len as u64), (me, expected as u64))
    }

    #[inline]
    pub(crate) async fn send(&self, to: usize, data: Mem) -> Result<()> {
        match self.isend(to, data)? {
            Pending::DONE => Ok(()),
            pending => self.sent(pending).await,
        }
    }

    /// Receives a message that is there, or posts the receive.
    #[inline(always)]
    pub(in crate::coll) fn recv_or_post(
        &self,
        from: usize,
        into: Mem,
    ) -> Result<Option<RegionReceive>> {
        if self.try_recv(from, into)? {
            return Ok(None);
        }
        self.irecv(from, into).map(Some)
    }

    #[inline]
    pub(crate) async fn recv(&self, from: usize, data: Mem) -> Result<()> {
        match self.recv_or_post(from, data)? {
            None => Ok(()),
            Some(receive) => self.received(receive).await,
        }
    }

    /// Sends and receives at the same time.
    #[inline]
    pub(crate) async fn exchange(&self, to: usize, out: Mem, from: usize, into: Mem) -> Result<()> {
        // A short message may be there already; the receive of a long one is posted ahead of it.
        let (send, receive) = if into.len() <= self.p2p.max_short() {
            let send = self.isend(to, out)?;
            (send, self.recv_or_post(from, into)?)
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

/// The error for a message that has not the length that its receiver expects.
#[cold]
pub(in crate::coll) fn mismatch(
    (from, len): (String, u64),
    (me, expected): (String, u64),
) -> Error {
    let sent = counted(len, "byte");
    let text = format!(
        "collective: {from} sent {sent} where {me} expected {expected}; \
         the ranks' counts or datatypes differ"
    );
    Error::new(ErrorClass::Truncate, text)
}

/// A posted receive whose message must have exactly the region's length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegionReceive {
    pub(in crate::coll) pending: Pending,
    len: usize,
    from: usize,
}

/// Temporary memory. It is not freed while requests of its call are in flight. When a call fails in
/// the middle, or its future is dropped, messages may still be written into the memory, so it is
/// leaked.
pub(crate) struct Temp<'a> {
    loan: Option<Loan>,
    len: usize,
    scratch: &'a Scratch,
    live: &'a Cell<usize>,
}

impl<'a> Temp<'a> {
    #[inline(always)]
    fn new(scratch: &'a Scratch, live: &'a Cell<usize>, len: usize) -> Result<Self> {
        let loan = match len {
            0 => None,
            len => Some(scratch.take(len)?),
        };
        Ok(Self {
            loan,
            len,
            scratch,
            live,
        })
    }

    /// Gives back memory that no request uses, although other requests are in flight.
    pub(crate) fn give_back(&mut self) {
        if let Some(loan) = self.loan.take() {
            self.scratch.give_back(loan);
        }
    }

    #[inline]
    pub(crate) fn mem(&self) -> Mem {
        self.loan
            .as_ref()
            .map_or(Mem::EMPTY, |loan| loan.mem(self.len))
    }
}

impl Drop for Temp<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.loan.is_some() && self.live.get() == 0 {
            self.give_back();
        }
    }
}

/// A table of regions, see [`Ctx::table`].
pub(crate) struct RegionTable<'a> {
    temp: Temp<'a>,
    n: usize,
}

impl RegionTable<'_> {
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
