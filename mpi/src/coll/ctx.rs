//! One call of a collective: its messages, its temporary memory and its choice of algorithms.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use super::hosts::Hosts;
use super::mem::{Blocks, Mem};
use super::p2p::{P2p, Pending};
use super::scratch::{Loan, Scratch};
use super::select::{Choice, FLAT_RANKS};
use crate::error::{Error, ErrorClass, Result};

/// What one call of a collective works with. A nonblocking collective's future owns it.
#[derive(Debug)]
pub struct Ctx<P> {
    p2p: P,
    tag: i32,
    scratch: Rc<Scratch>,
    live: Cell<usize>,
    spread: Spread,
    /// Algorithms that the caller demands instead of the usual choice.
    pub choice: Choice,
}

/// Where the ranks of a call are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spread {
    /// It is not known, or nothing follows from it.
    Apart,
    /// All on one host, and few.
    Alone,
    /// On several hosts, with more than one on some.
    Hosts,
}

impl Spread {
    #[inline]
    fn of(size: usize, hosts: Option<&Hosts>) -> Self {
        match hosts.map(Hosts::count) {
            Some(1) if size <= FLAT_RANKS => Self::Alone,
            Some(count) if 1 < count && count < size => Self::Hosts,
            _ => Self::Apart,
        }
    }
}

impl<P: P2p> Ctx<P> {
    /// A call with its own `tag` on `p2p`: no other call in flight on this communicator may use the tag.
    pub fn new(p2p: P, tag: i32, scratch: Rc<Scratch>) -> Self {
        Self {
            spread: Spread::of(p2p.size(), p2p.hosts()),
            p2p,
            tag,
            scratch,
            live: Cell::new(0),
            choice: Choice::default(),
        }
    }

    /// The same with some algorithms chosen by the caller (tests and benches).
    pub fn with_choice(mut self, choice: Choice) -> Self {
        self.choice = choice;
        self
    }

    /// How many messages have been posted and are not done.
    pub(super) fn in_flight(&self) -> usize {
        self.live.get()
    }

    /// The channel.
    pub fn p2p(&self) -> &P {
        &self.p2p
    }

    /// The pool of temporary memory.
    pub(crate) fn scratch(&self) -> &Scratch {
        &self.scratch
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

    /// Whether all ranks are few and share a host.
    #[inline]
    pub(crate) fn alone(&self) -> bool {
        self.spread == Spread::Alone
    }

    /// Those of whom some share a host and some do not, unless the caller has demanded how data travels.
    #[inline]
    pub(crate) fn hosts(&self) -> Option<&Hosts> {
        if self.spread != Spread::Hosts || self.choice.near.is_some() {
            return None;
        }
        self.p2p.hosts()
    }

    /// Says that the ranks of this call share a host.
    pub(super) fn share_a_host(&mut self) {
        self.spread = Spread::Alone;
    }

    /// A call among some of the ranks, as a part of this one.
    pub(super) fn part<Q: P2p>(&self, p2p: Q) -> Ctx<Q> {
        Ctx::new(p2p, self.tag, self.scratch.clone()).with_choice(self.choice)
    }

    /// Temporary memory of `len` bytes, back in the pool at the end of the scope.
    pub(crate) fn temp(&self, len: usize) -> Result<Temp<'_>> {
        let loan = if len == 0 {
            None
        } else {
            Some(self.scratch.take(len)?)
        };
        Ok(Temp {
            loan,
            len,
            scratch: &self.scratch,
            live: &self.live,
        })
    }

    /// Gives back memory that no request uses, although other requests are in flight.
    pub(crate) fn give_back(&self, mut temp: Temp<'_>) {
        if let Some(loan) = temp.loan.take() {
            self.scratch.give_back(loan);
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
        // SAFETY: the region is valid until the collective ends (`Mem::new`), and the algorithms do not
        // change it before the request is done.
        let pending = unsafe { self.p2p.isend(to, self.tag, data.ptr(), data.len())? };
        if pending != Pending::DONE {
            self.live.set(self.live.get() + 1);
        }
        Ok(pending)
    }

    #[inline]
    pub(crate) fn irecv(&self, from: usize, data: Mem) -> Result<Receive> {
        // SAFETY: as for `isend`; the algorithms do not touch the region before the request is done.
        let pending = unsafe { self.p2p.irecv(from, self.tag, data.ptr(), data.len())? };
        self.live.set(self.live.get() + 1);
        Ok(Receive {
            pending,
            len: data.len(),
            from,
        })
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
        self.whole(&receive, result?)
    }

    /// What the caller of the collective calls this rank.
    pub(super) fn named(&self, rank: usize) -> usize {
        self.p2p.named(rank)
    }

    /// Checks that as much has come as was expected.
    #[inline]
    pub(super) fn whole(&self, receive: &Receive, len: usize) -> Result<()> {
        if len == receive.len {
            return Ok(());
        }
        Err(Error::new(
            ErrorClass::Truncate,
            format!(
                "collective: rank {} sent {len} bytes where rank {} expected {}; the ranks' counts or datatypes differ",
                self.named(receive.from),
                self.named(self.rank()),
                receive.len
            ),
        ))
    }

    #[inline]
    pub(crate) async fn send(&self, to: usize, data: Mem) -> Result<()> {
        let pending = self.isend(to, data)?;
        self.sent(pending).await
    }

    #[inline]
    pub(crate) async fn recv(&self, from: usize, data: Mem) -> Result<()> {
        let receive = self.irecv(from, data)?;
        self.received(receive).await
    }

    /// Sends and receives at the same time.
    #[inline]
    pub(crate) async fn exchange(&self, to: usize, out: Mem, from: usize, into: Mem) -> Result<()> {
        let receive = self.irecv(from, into)?;
        let send = self.isend(to, out)?;
        self.received(receive).await?;
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

/// Temporary memory. While requests of its call are in flight it is never given back: when a call fails in the
/// middle, or its future is dropped, its messages may still be written into it, so it is leaked instead.
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

/// Sends whose buffers are not reused soon: waited for only when there are many, or at the end.
pub(crate) struct Sends {
    ring: [Pending; WINDOW],
    head: usize,
    len: usize,
}

impl Sends {
    pub(crate) const fn new() -> Self {
        Self {
            ring: [Pending::DONE; WINDOW],
            head: 0,
            len: 0,
        }
    }

    pub(crate) async fn push<P: P2p>(&mut self, ctx: &Ctx<P>, pending: Pending) -> Result<()> {
        if pending == Pending::DONE {
            return Ok(());
        }
        if self.len == WINDOW {
            self.pop(ctx).await?;
        }
        self.ring[(self.head + self.len) % WINDOW] = pending;
        self.len += 1;
        Ok(())
    }

    async fn pop<P: P2p>(&mut self, ctx: &Ctx<P>) -> Result<()> {
        let oldest = self.ring[self.head];
        self.head = (self.head + 1) % WINDOW;
        self.len -= 1;
        ctx.sent(oldest).await
    }

    pub(crate) async fn finish<P: P2p>(&mut self, ctx: &Ctx<P>) -> Result<()> {
        while self.len > 0 {
            self.pop(ctx).await?;
        }
        Ok(())
    }
}

/// Receives posted ahead, completed in the order of posting.
pub(crate) struct Receives {
    ring: [Option<Receive>; WINDOW],
    head: usize,
    len: usize,
}

impl Receives {
    pub(crate) const fn new() -> Self {
        Self {
            ring: [None; WINDOW],
            head: 0,
            len: 0,
        }
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.len == WINDOW
    }

    /// Adds a receive; there must be room.
    pub(crate) fn push(&mut self, receive: Receive) {
        assert!(!self.is_full(), "too many receives posted ahead");
        self.ring[(self.head + self.len) % WINDOW] = Some(receive);
        self.len += 1;
    }

    /// Waits for the oldest; `Ok(false)` when there is none.
    pub(crate) async fn pop<P: P2p>(&mut self, ctx: &Ctx<P>) -> Result<bool> {
        if self.len == 0 {
            return Ok(false);
        }
        let oldest = self.ring[self.head].take();
        self.head = (self.head + 1) % WINDOW;
        self.len -= 1;
        match oldest {
            Some(receive) => ctx.received(receive).await.map(|()| true),
            None => Ok(false),
        }
    }

    pub(crate) async fn push_or_wait<P: P2p>(
        &mut self,
        ctx: &Ctx<P>,
        from: usize,
        into: Mem,
    ) -> Result<()> {
        if self.is_full() {
            self.pop(ctx).await?;
        }
        self.push(ctx.irecv(from, into)?);
        Ok(())
    }

    pub(crate) async fn finish<P: P2p>(&mut self, ctx: &Ctx<P>) -> Result<()> {
        while self.pop(ctx).await? {}
        Ok(())
    }
}
