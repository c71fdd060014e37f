//! Linear exchanges: every rank sends all its messages, and then receives those of the others.
//!
//! Between ranks of one host a message costs little, and waiting much where ranks share cores: each
//! rank runs once.

use std::future::Future;
use std::task::{Poll, ready};

use crate::coll::call::{Ctx, Initiated, P2p, Receives, Sends, WINDOW, begin};
use crate::coll::memory::Mem;
use crate::error::Result;

/// So many ranks on, around the end.
#[inline(always)]
fn after(rank: usize, steps: usize, size: usize) -> usize {
    let rank = rank + steps;
    if rank < size { rank } else { rank - size }
}

/// Sends `out(i)` to each other rank i and receives `into(i)` from it; `None` on both sides is no
/// message.
#[inline(always)]
pub(in crate::coll) fn exchange_all<'a, P: P2p>(
    ctx: Ctx<'a, P>,
    out: impl Fn(usize) -> Option<Mem>,
    into: impl Fn(usize) -> Option<Mem>,
) -> Initiated<impl Future<Output = Result<()>>> {
    let exchange = Exchange { ctx, out, into };
    let mut progress = Progress {
        next: 1,
        sends: Sends::new(),
        receives: Receives::new(),
    };
    begin!(
        exchange.advance(&mut progress),
        exchange.resume(&mut progress)
    )
}

/// An exchange without steps, a window of ranks at a time.
struct Exchange<'a, P, O, I> {
    ctx: Ctx<'a, P>,
    out: O,
    into: I,
}

/// How far an exchange is.
struct Progress {
    /// The next window begins with the rank so many on.
    next: usize,
    sends: Sends,
    receives: Receives,
}

impl<P: P2p, O, I> Exchange<'_, P, O, I>
where
    O: Fn(usize) -> Option<Mem>,
    I: Fn(usize) -> Option<Mem>,
{
    #[inline(always)]
    fn advance(&self, progress: &mut Progress) -> Poll<Result<()>> {
        loop {
            ready!(progress.receives.poll_finish(&self.ctx))?;
            ready!(progress.sends.poll_finish(&self.ctx))?;
            if progress.next >= self.ctx.size() {
                return Poll::Ready(Ok(()));
            }
            self.post(progress)?;
        }
    }

    #[inline(never)]
    fn resume(&self, progress: &mut Progress) -> Poll<Result<()>> {
        let exchange = Exchange {
            ctx: self.ctx.out_of_line(),
            out: &self.out,
            into: &self.into,
        };
        exchange.advance(progress)
    }

    #[inline(always)]
    fn post(&self, progress: &mut Progress) -> Result<()> {
        let (ctx, rank, size) = (&self.ctx, self.ctx.rank(), self.ctx.size());
        let end = size.min(progress.next + WINDOW);
        for steps in progress.next..end {
            let to = after(rank, steps, size);
            if let Some(data) = (self.out)(to) {
                progress.sends.push(ctx.isend(to, data)?);
            }
        }
        for steps in progress.next..end {
            let from = after(rank, size - steps, size);
            if let Some(room) = (self.into)(from) {
                progress.receives.take_or_push(ctx, from, room)?;
            }
        }
        progress.next = end;
        Ok(())
    }
}

/// Sends `data` to all other ranks.
#[inline]
pub(in crate::coll) fn send_to_all<'a, P: P2p>(
    ctx: Ctx<'a, P>,
    data: Mem,
) -> Initiated<impl Future<Output = Result<()>>> {
    let mut all = SendToEach::new();
    let out = move |_| Some(data);
    begin!(all.advance(&ctx, &out), all.resume(&ctx, &out))
}

/// One send to each other rank.
struct SendToEach {
    /// The next goes to the rank so many on.
    next: usize,
    sends: Sends,
}

impl SendToEach {
    #[inline(always)]
    fn new() -> Self {
        Self {
            next: 1,
            sends: Sends::new(),
        }
    }

    #[inline(always)]
    fn advance<P: P2p>(
        &mut self,
        ctx: &Ctx<'_, P>,
        out: &impl Fn(usize) -> Option<Mem>,
    ) -> Poll<Result<()>> {
        let size = ctx.size();
        while self.next < size {
            ready!(self.sends.poll_room(ctx, 1))?;
            let to = after(ctx.rank(), self.next, size);
            if let Some(data) = out(to) {
                self.sends.push(ctx.isend(to, data)?);
            }
            self.next += 1;
        }
        self.sends.poll_finish(ctx)
    }

    #[inline(never)]
    fn resume<P: P2p>(
        &mut self,
        ctx: &Ctx<'_, P>,
        out: &impl Fn(usize) -> Option<Mem>,
    ) -> Poll<Result<()>> {
        self.advance(&ctx.out_of_line(), out)
    }
}

/// `root` sends `out(i)` to each other rank i, which receives it in its `into`; `None` on both
/// sides is no message.
#[inline(always)]
pub(in crate::coll) fn scatter<'a, P: P2p>(
    ctx: Ctx<'a, P>,
    root: usize,
    out: impl Fn(usize) -> Option<Mem>,
    into: Option<Mem>,
) -> Initiated<impl Future<Output = Result<()>>> {
    let mut all = SendToEach::new();
    let mut receive = None;
    if ctx.rank() != root {
        let Some(into) = into else {
            return Initiated::Done;
        };
        match ctx.recv_or_post(root, into) {
            Ok(None) => return Initiated::Done,
            Ok(posted) => receive = posted,
            Err(error) => return Initiated::Failed(error),
        }
    }
    begin!(
        match &receive {
            Some(_) => Poll::Pending,
            None => all.advance(&ctx, &out),
        },
        match &mut receive {
            Some(receive) => ctx.poll_received(receive),
            None => all.resume(&ctx, &out),
        }
    )
}

/// `root` receives in `into(i)` what each other rank i sends, its `mine`; `None` on both sides is
/// no message.
#[inline(always)]
pub(in crate::coll) fn gather<'a, P: P2p>(
    ctx: Ctx<'a, P>,
    root: usize,
    mine: Option<Mem>,
    into: impl Fn(usize) -> Option<Mem>,
) -> Initiated<impl Future<Output = Result<()>>> {
    let is_root = ctx.rank() == root;
    let mut collection = Collection {
        next: if is_root { 1 } else { ctx.size() },
        sends: Sends::new(),
        receives: Receives::new(),
    };
    if let (false, Some(mine)) = (is_root, mine) {
        match ctx.isend(root, mine) {
            Ok(pending) => collection.sends.push(pending),
            Err(error) => return Initiated::Failed(error),
        }
    }
    begin!(
        collection.advance(&ctx, &into),
        collection.resume(&ctx, &into)
    )
}

/// A gather under way: one send to the root, or on the root a receive from each other rank.
struct Collection {
    /// The next receive is from the rank so many on.
    next: usize,
    sends: Sends,
    receives: Receives,
}

impl Collection {
    #[inline(always)]
    fn advance<P: P2p>(
        &mut self,
        ctx: &Ctx<'_, P>,
        into: &impl Fn(usize) -> Option<Mem>,
    ) -> Poll<Result<()>> {
        let size = ctx.size();
        while self.next < size {
            ready!(self.receives.poll_room(ctx))?;
            let from = after(ctx.rank(), self.next, size);
            if let Some(room) = into(from) {
                self.receives.take_or_push(ctx, from, room)?;
            }
            self.next += 1;
        }
        ready!(self.receives.poll_finish(ctx))?;
        self.sends.poll_finish(ctx)
    }

    #[inline(never)]
    fn resume<P: P2p>(
        &mut self,
        ctx: &Ctx<'_, P>,
        into: &impl Fn(usize) -> Option<Mem>,
    ) -> Poll<Result<()>> {
        self.advance(&ctx.out_of_line(), into)
    }
}
