//! Requests of one call in flight, in the order in which they were started.

use std::future::poll_fn;
use std::task::{Poll, ready};

use crate::coll::call::{Ctx, P2p, Pending, RegionReceive};
use crate::coll::memory::Mem;
use crate::error::Result;

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

    /// The oldest request.
    #[inline]
    fn oldest(&mut self) -> Option<&mut T> {
        let ring = self.0.as_mut().filter(|ring| ring.len > 0)?;
        Some(&mut ring.slots[ring.head])
    }

    /// Forgets the oldest request, of which there must be one.
    fn pop(&mut self) {
        if let Some(ring) = &mut self.0 {
            ring.head = (ring.head + 1) % WINDOW;
            ring.len -= 1;
        }
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
        ctx: &Ctx<'_, P>,
        pending: Pending,
    ) -> Result<()> {
        if pending == Pending::DONE {
            return Ok(());
        }
        poll_fn(|_| self.poll_room(ctx, 1)).await?;
        self.0.push(pending);
        Ok(())
    }

    /// Ready when there is room for so many more.
    #[inline(always)]
    pub(in crate::coll) fn poll_room<P: P2p>(
        &mut self,
        ctx: &Ctx<'_, P>,
        room: usize,
    ) -> Poll<Result<()>> {
        while self.0.len() + room > WINDOW
            && let Some(oldest) = self.0.oldest()
        {
            let done = ready!(ctx.poll_part(oldest));
            self.0.pop();
            done?;
        }
        Poll::Ready(Ok(()))
    }

    /// Ready when all are done.
    #[inline(always)]
    pub(in crate::coll) fn poll_finish<P: P2p>(&mut self, ctx: &Ctx<'_, P>) -> Poll<Result<()>> {
        self.poll_room(ctx, WINDOW)
    }

    #[inline]
    pub(crate) async fn finish<P: P2p>(&mut self, ctx: &Ctx<'_, P>) -> Result<()> {
        poll_fn(|_| self.poll_finish(ctx)).await
    }
}

/// Receives posted ahead, completed in the order of posting.
pub(crate) struct Receives(Queue<RegionReceive>);

impl Receives {
    #[inline]
    pub(crate) const fn new() -> Self {
        Self(Queue(None))
    }

    pub(crate) fn is_full(&self) -> bool {
        self.0.len() == WINDOW
    }

    /// Adds a receive; there must be room.
    pub(crate) fn push(&mut self, receive: RegionReceive) {
        self.0.push(receive);
    }

    /// Receives a message that is there, or starts to; there must be room.
    #[inline(always)]
    pub(crate) fn take_or_push<P: P2p>(
        &mut self,
        ctx: &Ctx<'_, P>,
        from: usize,
        into: Mem,
    ) -> Result<()> {
        if let Some(receive) = ctx.recv_or_post(from, into)? {
            self.0.push(receive);
        }
        Ok(())
    }

    /// Ready when there is room for one more.
    #[inline(always)]
    pub(in crate::coll) fn poll_room<P: P2p>(&mut self, ctx: &Ctx<'_, P>) -> Poll<Result<()>> {
        while self.is_full() {
            ready!(self.poll_oldest(ctx))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Waits for the oldest, if there is one.
    #[inline]
    pub(crate) async fn pop<P: P2p>(&mut self, ctx: &Ctx<'_, P>) -> Result<()> {
        poll_fn(|_| self.poll_oldest(ctx)).await
    }

    /// Ready when the oldest is done, or there is none.
    #[inline(always)]
    pub(in crate::coll) fn poll_oldest<P: P2p>(&mut self, ctx: &Ctx<'_, P>) -> Poll<Result<()>> {
        let Some(oldest) = self.0.oldest() else {
            return Poll::Ready(Ok(()));
        };
        let done = ready!(ctx.poll_received(oldest));
        self.0.pop();
        Poll::Ready(done)
    }

    #[inline]
    pub(crate) async fn push_or_wait<P: P2p>(
        &mut self,
        ctx: &Ctx<'_, P>,
        from: usize,
        into: Mem,
    ) -> Result<()> {
        if self.is_full() {
            self.pop(ctx).await?;
        }
        if let Some(receive) = ctx.recv_or_post(from, into)? {
            self.0.push(receive);
        }
        Ok(())
    }

    /// Ready when all are done.
    #[inline(always)]
    pub(in crate::coll) fn poll_finish<P: P2p>(&mut self, ctx: &Ctx<'_, P>) -> Poll<Result<()>> {
        while self.0.len() > 0 {
            ready!(self.poll_oldest(ctx))?;
        }
        Poll::Ready(Ok(()))
    }

    #[inline]
    pub(crate) async fn finish<P: P2p>(&mut self, ctx: &Ctx<'_, P>) -> Result<()> {
        poll_fn(|_| self.poll_finish(ctx)).await
    }
}
