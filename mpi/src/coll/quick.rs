//! Short blocking collectives among few ranks of one host, without a future.
//!
//! They send the same messages as the flat algorithms: only the way to wait is shorter. Whatever is
//! not of this kind is refused before anything is sent, and goes the usual way.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::rc::Rc;

use super::call::{Call, Kind, next_tag};
use super::channel;
use super::locality::Locality;
use super::mem::Mem;
use super::order::Order;
use super::reducer::Reducer;
use super::tuning::{AllreduceAlgorithm, Exchange, Tuning};
use super::typed::{Operator, Typed};
use crate::adi::{Caller, Completion, Envelope, Pattern, ReqId};
use crate::comm::{Communicator, Traffic};
use crate::error::{Error, ErrorClass, Result};
use crate::p2p::Data;
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
    /// One of its messages took the slow path: now and then one does, and then the device is to
    /// look around.
    long: Cell<bool>,
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
    tuning: &Tuning,
) -> Option<Result<()>> {
    let usual = tuning.exchange.is_none() && tuning.flat(true);
    if !usual || !(2..=RANKS).contains(&comm.size()) {
        return None;
    }
    let hosts = comm.hosts(|| channel::hosts(mpi, comm));
    if hosts.count() != 1 || !hosts.is_cheap_within() {
        return None;
    }
    let short = Short::new(mpi, comm, tag);
    let result = attempt(&short, call, tuning)?;
    Some(short.end(result))
}

impl Mpi {
    /// A broadcast of few bytes among few ranks of one host; `None`: nothing was done, and
    /// [`Mpi::collective`] is to.
    ///
    /// # Safety
    /// The elements are writable, on the root readable.
    #[inline(always)]
    pub unsafe fn bcast_now(
        &self,
        data: &Data<'_>,
        root: i32,
        comm: &Communicator,
    ) -> Option<Result<()>> {
        let (addr, len) = data.plain()?;
        let right = (1..=BYTES).contains(&len) && (0..comm.size() as i32).contains(&root);
        if !right || !self.are_near(comm) {
            return None;
        }
        // SAFETY: the elements are there until the call ends.
        let data = unsafe { Mem::new(addr, len) };
        let short = Short::new(self, comm, next_tag(comm, Kind::Blocking));
        Some(short.end(bcast(&short, data, root as usize)))
    }

    /// The same for an allgather.
    ///
    /// # Safety
    /// The elements to send are readable, those for all ranks writable.
    #[inline(always)]
    pub unsafe fn allgather_now(
        &self,
        send: &Data<'_>,
        recv: &Data<'_>,
        comm: &Communicator,
    ) -> Option<Result<()>> {
        let (mine, all) = (blocks(send, 1)?, blocks(recv, comm.size())?);
        let each = mine.len();
        // A buffer that is sent and received is refused with the others.
        let own = all.ptr().wrapping_add(comm.rank() * each);
        let twice = mine.ptr() == all.ptr() || mine.ptr() == own;
        if each * comm.size() != all.len() || twice || !self.are_near(comm) {
            return None;
        }
        let into = |rank: usize| all.part(rank * each, each);
        let short = Short::new(self, comm, next_tag(comm, Kind::Blocking));
        let result = exchange(&short, |_| mine, into);
        Some(short.end(result.map(|()| into(comm.rank()).copy_from(mine))))
    }

    /// The same for an all-to-all.
    ///
    /// # Safety
    /// The elements for all ranks are readable, and those from them writable.
    #[inline(always)]
    pub unsafe fn alltoall_now(
        &self,
        send: &Data<'_>,
        recv: &Data<'_>,
        comm: &Communicator,
    ) -> Option<Result<()>> {
        let size = comm.size();
        let (mine, all) = (blocks(send, size)?, blocks(recv, size)?);
        if mine.len() != all.len() || mine.ptr() == all.ptr() || !self.are_near(comm) {
            return None;
        }
        let each = all.len() / size;
        let (out, into) = (
            |rank: usize| mine.part(rank * each, each),
            |rank: usize| all.part(rank * each, each),
        );
        let short = Short::new(self, comm, next_tag(comm, Kind::Blocking));
        let result = exchange(&short, out, into);
        let (own, here) = (into(comm.rank()), out(comm.rank()));
        Some(short.end(result.map(|()| own.copy_from(here))))
    }

    /// Whether these are few ranks, known to be of one host, that exchange without steps.
    #[inline(always)]
    fn are_near(&self, comm: &Communicator) -> bool {
        let usual = self.tuning.exchange.is_none() && self.tuning.flat(true);
        let few = (2..=RANKS).contains(&comm.size()) && !comm.is_inter();
        let near = |hosts: &Locality| hosts.count() == 1 && hosts.is_cheap_within();
        usual && few && comm.known_hosts().is_some_and(near)
    }
}

/// So many short blocks, of which `data` is the first, where they lie one after the other.
#[inline(always)]
fn blocks(data: &Data<'_>, count: usize) -> Option<Mem> {
    if !(1..=BYTES as i64).contains(&data.count) {
        return None;
    }
    let all = Data {
        count: data.count * count as i64,
        ..*data
    };
    let (addr, len) = all.plain()?;
    // SAFETY: the elements are there until the call ends (the caller's promise).
    (1..=BYTES * count)
        .contains(&len)
        .then(|| unsafe { Mem::new(addr, len) })
}

fn attempt(ctx: &Short<'_>, call: &Call, tuning: &Tuning) -> Option<Result<()>> {
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
            let flat = tuning.operands(true, size, len, operator.symmetric()) == Exchange::Linear
                && tuning.allreduce(size, len, commutative) == AllreduceAlgorithm::Doubling;
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

impl<'a> Short<'a> {
    #[inline(always)]
    fn new(mpi: &'a Mpi, comm: &'a Communicator, tag: i32) -> Self {
        Short {
            mpi,
            comm,
            tag,
            live: Cell::new(0),
            long: Cell::new(false),
        }
    }

    /// The end of the call.
    #[inline(always)]
    fn end(&self, result: Result<()>) -> Result<()> {
        if result.is_ok() && !self.long.get() {
            return result;
        }
        let result = result.and_then(|()| self.mpi.dev.borrow_mut().attend());
        let result = result.and_then(|()| self.mpi.await_links());
        result.map_err(|error| self.given_up(error))
    }

    #[inline]
    fn rank(&self) -> usize {
        self.comm.rank()
    }

    #[inline]
    fn size(&self) -> usize {
        self.comm.size()
    }

    /// So many ranks on, around the end.
    #[inline(always)]
    fn next(&self, steps: usize) -> usize {
        let rank = self.rank() + steps;
        if rank < self.size() {
            rank
        } else {
            rank - self.size()
        }
    }

    /// Sends to a rank; what is to be waited for, if anything is.
    #[inline]
    fn send(&self, to: usize, data: Mem) -> Result<Option<ReqId>> {
        let env = Envelope {
            context: self.comm.context_at(to, Traffic::Collective),
            source: self.rank() as i32,
            tag: self.tag,
        };
        let world = self.comm.group().world_rank(to);
        let mut dev = self.mpi.dev.borrow_mut();
        // SAFETY: the region is valid until the collective ends (`Mem::new`), which waits for the
        // message, and nobody changes it before.
        unsafe {
            if dev.try_send(world, &env, data.ptr(), data.len(), Caller::Blocking) {
                return Ok(None);
            }
            self.long.set(true);
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
        // With several threads the slow path tells the others what it does.
        if !self.mpi.has_lock() {
            // SAFETY: as in `send`; nobody touches the region before the message is there.
            let done = unsafe { dev.try_recv(&pattern, room.ptr(), len) };
            if let Some(done) = done {
                return self.whole(from, len, &done).map(|()| None);
            }
        }
        self.long.set(true);
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
    for steps in 1..ctx.size() {
        let to = ctx.next(steps);
        sends[to] = ctx.send(to, out(to))?;
    }
    for steps in (1..ctx.size()).rev() {
        let from = ctx.next(steps);
        receives[from] = ctx.receive(from, into(from))?;
    }
    if ctx.live.get() == 0 {
        return Ok(());
    }
    for posted in receives.into_iter().take(ctx.size()) {
        ctx.received(posted)?;
    }
    let mut sends = sends.into_iter().take(ctx.size());
    sends.try_for_each(|send| ctx.sent(send))
}

#[inline(always)]
fn bcast(ctx: &Short<'_>, data: Mem, root: usize) -> Result<()> {
    if ctx.rank() != root {
        return ctx.received(ctx.receive(root, data)?);
    }
    let mut sends = [None; RANKS];
    for steps in 1..ctx.size() {
        let to = ctx.next(steps);
        sends[to] = ctx.send(to, data)?;
    }
    if ctx.live.get() == 0 {
        return Ok(());
    }
    sends.into_iter().try_for_each(|send| ctx.sent(send))
}

#[inline]
fn allreduce(ctx: &Short<'_>, op: &dyn Reducer, mine: Mem, recv: Mem) -> Result<()> {
    let room = recv.len().next_multiple_of(ALIGN);
    let total = ctx.size() * room;
    if total <= BYTES {
        let mut values = Values(MaybeUninit::uninit());
        // SAFETY: it is there until this function returns. Where a message is in flight then,
        // nothing moves any more (`given_up`).
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
