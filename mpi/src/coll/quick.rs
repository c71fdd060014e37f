//! Short blocking collectives among few ranks of one host, without a future.
//!
//! They send the same messages as the flat algorithms: only the way to wait is shorter. Whatever is not of
//! this kind is refused before anything is sent, and goes the usual way.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::rc::Rc;

use super::call::Call;
use super::channel;
use super::mem::Mem;
use super::order::Order;
use super::reducer::Reducer;
use super::select::{Allreduce, Choice, Near};
use super::typed::{Operator, Typed};
use crate::adi::{Completion, Envelope, Pattern, ReqId};
use crate::comm::{Communicator, Traffic};
use crate::error::{Error, ErrorClass, Result};
use crate::runtime::Mpi;

/// Most ranks.
const RANKS: usize = 8;
/// Longest contribution of a rank.
const BYTES: usize = 1 << 10;
/// Where a value begins among those of all ranks.
const ALIGN: usize = 64;

/// Values of all ranks that lie on the stack when they are few and short.
#[repr(align(64))]
struct Values(MaybeUninit<[u8; BYTES]>);

/// One call: messages between the ranks of a communicator with its tag.
struct Short<'a> {
    mpi: &'a Mpi,
    comm: &'a Communicator,
    tag: i32,
    /// Messages that were posted and are not done.
    live: Cell<usize>,
}

/// A receive that was posted.
#[derive(Clone, Copy)]
struct Posted {
    request: ReqId,
    from: usize,
    len: usize,
}

/// Runs a call to its end, if it is of this kind.
pub(super) fn run(
    mpi: &Mpi,
    comm: &Rc<Communicator>,
    tag: i32,
    call: &Call,
    choice: &Choice,
) -> Option<Result<()>> {
    let usual = choice.near.is_none() && choice.flat(true);
    if !usual || !(2..=RANKS).contains(&comm.size()) {
        return None;
    }
    if comm.hosts(|| channel::hosts(mpi, comm)).count() != 1 {
        return None;
    }
    let short = Short {
        mpi,
        comm,
        tag,
        live: Cell::new(0),
    };
    let result = attempt(&short, call, choice)?;
    let result = result.and_then(|()| mpi.dev.borrow_mut().attend());
    Some(result.map_err(|error| short.given_up(error)))
}

fn attempt(ctx: &Short<'_>, call: &Call, choice: &Choice) -> Option<Result<()>> {
    match call {
        Call::Barrier => Some(exchange(ctx, |_| Mem::EMPTY, |_| Mem::EMPTY)),
        Call::Bcast { data, root } => Some(bcast(ctx, short(data)?, *root)),
        Call::Allgather { send, recv } => {
            let all = equal(ctx, recv)?;
            let own = all(ctx.rank());
            let mine = match send {
                Some(send) => short(send)?,
                None => own,
            };
            let done = |()| own.copy_from(mine);
            (mine.len() == own.len()).then(|| exchange(ctx, |_| mine, all).map(done))
        }
        Call::Alltoall { send, recv } => {
            let (out, into) = (equal(ctx, send.as_ref()?)?, equal(ctx, recv)?);
            let (mine, own) = (out(ctx.rank()), into(ctx.rank()));
            let done = |()| own.copy_from(mine);
            (mine.len() == own.len()).then(|| exchange(ctx, out, into).map(done))
        }
        Call::Allreduce { op, send, recv } => {
            let into = short(recv)?;
            let mine = match send {
                Some(send) => short(send)?,
                None => into,
            };
            let operator = Operator::new(op, recv.datatype(), &ctx.mpi.scratch);
            let (size, len, commutative) = (ctx.size(), into.len(), operator.commutative());
            let flat = choice.operands(true, size, len, operator.symmetric()) == Near::Flat
                && choice.allreduce(size, len, commutative) == Allreduce::Doubling;
            let same = mine.len() == len && len > 0;
            (flat && same).then(|| allreduce(ctx, &operator, mine, into))
        }
        _ => None,
    }
}

/// A buffer that is short and not empty, where it lies.
fn short(data: &Typed) -> Option<Mem> {
    let mem = data.direct().ok().flatten()?;
    (1..=BYTES).contains(&mem.len()).then_some(mem)
}

/// Short blocks of all ranks, by rank, of which `block` is the first.
fn equal(ctx: &Short<'_>, block: &Typed) -> Option<impl Fn(usize) -> Mem + Copy> {
    let each = short(block)?.len();
    let all = block.times(ctx.size()).ok()?.direct().ok().flatten()?;
    Some(move |rank| all.part(rank * each, each))
}

impl Short<'_> {
    #[inline]
    fn rank(&self) -> usize {
        self.comm.rank()
    }

    #[inline]
    fn size(&self) -> usize {
        self.comm.size()
    }

    /// The other ranks, from the next one on.
    fn others(&self) -> impl DoubleEndedIterator<Item = usize> + use<> {
        let (rank, size) = (self.rank(), self.size());
        (rank + 1..size).chain(0..rank)
    }

    /// Sends to a rank; what is to be waited for, if anything is.
    #[inline]
    fn send(&self, to: usize, data: Mem) -> Result<Option<ReqId>> {
        let env = Envelope {
            context: self.comm.context(Traffic::Collective),
            source: self.rank() as i32,
            tag: self.tag,
        };
        let world = self.comm.group().world_rank(to);
        let mut dev = self.mpi.dev.borrow_mut();
        // SAFETY: the region is valid until the collective ends (`Mem::new`), which waits for the message, and
        // nobody changes it before.
        unsafe {
            if dev.send_now(world, &env, data.ptr(), data.len()) {
                return Ok(None);
            }
            let sent = dev.send(world, env, data.ptr(), data.len())?;
            self.live.set(self.live.get() + usize::from(sent.is_some()));
            Ok(sent)
        }
    }

    /// Receives from a rank, or posts that.
    #[inline]
    fn receive(&self, from: usize, room: Mem) -> Result<Option<Posted>> {
        let pattern = Pattern {
            context: self.comm.context(Traffic::Collective),
            source: Some(from as i32),
            tag: Some(self.tag),
            from: Some(self.comm.group().world_rank(from)),
        };
        let len = room.len();
        let mut dev = self.mpi.dev.borrow_mut();
        // With several threads the long way tells the others what it does.
        if !self.mpi.has_lock() {
            // SAFETY: as in `send`; nobody touches the region before the message is there.
            let done = unsafe { dev.recv_now(&pattern, room.ptr(), len) };
            if let Some(done) = done {
                return self.whole(from, len, &done).map(|()| None);
            }
        }
        // SAFETY: as above.
        let request = unsafe { dev.irecv(pattern, room.ptr(), len) }?;
        self.live.set(self.live.get() + 1);
        Ok(Some(Posted { request, from, len }))
    }

    /// Waits for a message of this call.
    fn finish(&self, request: ReqId) -> Result<Completion> {
        let done = self.mpi.device_wait(request)?;
        self.live.set(self.live.get() - 1);
        Ok(done)
    }

    fn received(&self, posted: Option<Posted>) -> Result<()> {
        let Some(Posted { request, from, len }) = posted else {
            return Ok(());
        };
        self.whole(from, len, &self.finish(request)?)
    }

    fn sent(&self, request: Option<ReqId>) -> Result<()> {
        request.map_or(Ok(()), |request| self.finish(request).map(drop))
    }

    /// Checks that as much has come as was expected.
    #[inline]
    fn whole(&self, from: usize, len: usize, done: &Completion) -> Result<()> {
        let sent = done.truncated.unwrap_or(done.len);
        if sent == len as u64 {
            return Ok(());
        }
        Err(self.mismatch(from, len, sent))
    }

    #[cold]
    fn mismatch(&self, from: usize, len: usize, sent: u64) -> Error {
        let rank = self.rank();
        let text = format!(
            "collective: rank {from} sent {sent} bytes where rank {rank} expected {len}; the ranks' counts or datatypes differ"
        );
        Error::new(ErrorClass::Truncate, text)
    }

    /// As [`Ctx::given_up`](super::Ctx::given_up).
    #[cold]
    fn given_up(&self, error: Error) -> Error {
        if self.live.get() == 0 {
            return error;
        }
        self.mpi.dev.borrow_mut().fail(error)
    }
}

/// Sends `out(i)` to each other rank i and receives `into(i)` from it.
#[inline]
fn exchange(
    ctx: &Short<'_>,
    out: impl Fn(usize) -> Mem,
    into: impl Fn(usize) -> Mem,
) -> Result<()> {
    let mut sends = [None; RANKS];
    let mut receives = [None; RANKS];
    for to in ctx.others() {
        sends[to] = ctx.send(to, out(to))?;
    }
    for from in ctx.others().rev() {
        receives[from] = ctx.receive(from, into(from))?;
    }
    for posted in receives.into_iter().take(ctx.size()) {
        ctx.received(posted)?;
    }
    let mut sends = sends.into_iter().take(ctx.size());
    sends.try_for_each(|send| ctx.sent(send))
}

fn bcast(ctx: &Short<'_>, data: Mem, root: usize) -> Result<()> {
    if ctx.rank() != root {
        return ctx.received(ctx.receive(root, data)?);
    }
    let mut sends = [None; RANKS];
    for to in ctx.others() {
        sends[to] = ctx.send(to, data)?;
    }
    sends.into_iter().try_for_each(|send| ctx.sent(send))
}

#[inline]
fn allreduce(ctx: &Short<'_>, op: &dyn Reducer, mine: Mem, recv: Mem) -> Result<()> {
    let room = recv.len().next_multiple_of(ALIGN);
    let total = ctx.size() * room;
    if total <= BYTES {
        let mut values = Values(MaybeUninit::uninit());
        // SAFETY: it is there until this function returns. Where a message is in flight then, nothing moves any
        // more (`given_up`).
        let values = unsafe { Mem::new(values.0.as_mut_ptr().cast(), total) };
        return combine(ctx, op, mine, recv, values);
    }
    let loan = ctx.mpi.scratch.take(total)?;
    let result = combine(ctx, op, mine, recv, loan.mem(total));
    if ctx.live.get() == 0 {
        ctx.mpi.scratch.give_back(loan);
    }
    result
}

/// Reduces the values of all ranks in `values`, which has room for them.
#[inline]
fn combine(ctx: &Short<'_>, op: &dyn Reducer, mine: Mem, recv: Mem, values: Mem) -> Result<()> {
    let room = recv.len().next_multiple_of(ALIGN);
    let value = |rank: usize| values.part(rank * room, recv.len());
    exchange(ctx, |_| mine, value)?;
    value(ctx.rank()).copy_from(mine);
    recv.copy_from(Order::Doubling.combine(op, ctx.size(), value)?);
    Ok(())
}
