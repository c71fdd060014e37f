//! Collectives in two levels: within each host, and between one rank of each, its leader.
//!
//! Between hosts goes what must, once for each host. Ranks of a host need not be neighbours.
//! Reductions go this way where their bits do not depend on it, or where the user has said that
//! they may.

use std::cell::Cell;
use std::task::Poll;

use crate::coll::algorithms::{
    allgather_steps, allreduce_steps, barrier_steps, bcast_steps, reduce_steps,
};
use crate::coll::call::{Ctx, P2p, Pending};
use crate::coll::hosts::{Locality, MAX_LINEAR_RANKS};
use crate::coll::linear;
use crate::coll::memory::{Blocks, Mem};
use crate::coll::reduction::Reducer;
use crate::error::Result;

/// Some of the ranks of a call.
#[derive(Clone, Copy)]
enum Members<'a> {
    /// The ranks of one host.
    Host(&'a [u32]),
    /// The leader of each host: its first rank, or this one.
    Leaders(&'a Locality, Option<usize>),
}

impl Members<'_> {
    fn size(&self) -> usize {
        match self {
            Members::Host(ranks) => ranks.len(),
            Members::Leaders(hosts, _) => hosts.count(),
        }
    }

    fn rank(&self, member: usize) -> usize {
        match *self {
            Members::Host(ranks) => ranks[member] as usize,
            Members::Leaders(hosts, chosen) => match chosen {
                Some(rank) if hosts.of(rank) == member => rank,
                _ => hosts.ranks(member)[0] as usize,
            },
        }
    }
}

/// The messages of a call among some of its ranks.
#[derive(Clone, Copy)]
pub(in crate::coll) struct GroupPart<'a, P> {
    whole: &'a Ctx<'a, P>,
    members: Members<'a>,
    me: usize,
}

impl<P: P2p> P2p for GroupPart<'_, P> {
    type OutOfLine = Self;

    fn out_of_line(self) -> Self {
        self
    }

    fn rank(self) -> usize {
        self.me
    }

    fn size(self) -> usize {
        self.members.size()
    }

    fn named(self, rank: Option<usize>) -> String {
        let rank = rank.map(|rank| self.members.rank(rank));
        self.whole.p2p().named(rank)
    }

    fn max_short(self) -> usize {
        self.whole.p2p().max_short()
    }

    #[inline(never)]
    unsafe fn try_recv(
        self,
        from: usize,
        tag: i32,
        buf: *mut u8,
        len: usize,
    ) -> Result<Option<usize>> {
        let from = self.members.rank(from);
        // SAFETY: the caller's promise.
        unsafe { self.whole.p2p().try_recv(from, tag, buf, len) }
    }

    #[inline(never)]
    unsafe fn isend(self, to: usize, tag: i32, buf: *const u8, len: usize) -> Result<Pending> {
        // SAFETY: the caller's promise.
        unsafe { self.whole.p2p().isend(self.members.rank(to), tag, buf, len) }
    }

    unsafe fn irecv(self, from: usize, tag: i32, buf: *mut u8, len: usize) -> Result<Pending> {
        // SAFETY: the caller's promise.
        unsafe {
            self.whole
                .p2p()
                .irecv(self.members.rank(from), tag, buf, len)
        }
    }

    fn poll(self, pending: &mut Pending) -> Poll<Result<usize>> {
        self.whole.p2p().poll(pending)
    }
}

/// This rank's host, as a part of a call; `chosen` leads its host.
pub(in crate::coll) struct TwoLevel<'a, P> {
    whole: &'a Ctx<'a, P>,
    hosts: &'a Locality,
    chosen: Option<usize>,
    pub(in crate::coll) intra: Ctx<'a, GroupPart<'a, P>>,
    /// The leader's number among the ranks of this host.
    pub(in crate::coll) leader: usize,
}

impl<'a, P: P2p> TwoLevel<'a, P> {
    pub(in crate::coll) fn new(
        whole: &'a Ctx<'a, P>,
        hosts: &'a Locality,
        chosen: Option<usize>,
    ) -> Self {
        let host = hosts.of(whole.rank());
        let ranks = hosts.ranks(host);
        let place = |rank: usize| ranks.partition_point(|&r| (r as usize) < rank);
        let leader = match chosen {
            Some(rank) if hosts.of(rank) == host => place(rank),
            _ => 0,
        };
        let mut intra = whole.part(GroupPart {
            whole,
            members: Members::Host(ranks),
            me: place(whole.rank()),
        });
        if ranks.len() <= MAX_LINEAR_RANKS && hosts.is_cheap_within() {
            intra.share_a_host();
        }
        Self {
            whole,
            hosts,
            chosen,
            intra,
            leader,
        }
    }

    /// The leaders, if this rank is one.
    pub(in crate::coll) fn leaders(&self) -> Option<Ctx<'a, GroupPart<'a, P>>> {
        if self.intra.rank() != self.leader {
            return None;
        }
        Some(self.whole.part(GroupPart {
            whole: self.whole,
            members: Members::Leaders(self.hosts, self.chosen),
            me: self.hosts.of(self.whole.rank()),
        }))
    }
}

pub(in crate::coll) async fn barrier<P: P2p>(ctx: &Ctx<'_, P>, hosts: &Locality) -> Result<()> {
    let levels = TwoLevel::new(ctx, hosts, None);
    let intra = &levels.intra;
    let empty = |_| Some(Mem::EMPTY);
    linear::gather(*intra, levels.leader, empty(0), empty)
        .finish()
        .await?;
    let Some(inter) = levels.leaders() else {
        return intra.recv(levels.leader, Mem::EMPTY).await;
    };
    barrier_steps::stepwise(&inter).await?;
    linear::send_to_all(*intra, Mem::EMPTY).finish().await
}

pub(in crate::coll) async fn bcast<P: P2p>(
    ctx: &Ctx<'_, P>,
    hosts: &Locality,
    data: Mem,
    root: usize,
) -> Result<()> {
    let levels = TwoLevel::new(ctx, hosts, Some(root));
    if let Some(inter) = levels.leaders() {
        bcast_steps::among(&inter, data, hosts.of(root)).await?;
    }
    bcast_steps::among(&levels.intra, data, levels.leader).await
}

/// Blocks of all ranks, host by host, in temporary memory: one message takes those of a host.
pub(in crate::coll) async fn allgather<P: P2p>(
    ctx: &Ctx<'_, P>,
    hosts: &Locality,
    mine: Mem,
    recv: Blocks<'_>,
) -> Result<()> {
    let size = ctx.size();
    let levels = TwoLevel::new(ctx, hosts, None);
    let temp = ctx.temp(recv.total(0, size, size))?;
    let end = Cell::new(0);
    let next = |len: usize| {
        let start = end.get();
        end.set(start + len);
        temp.mem().part(start, len)
    };
    let order = hosts.all();
    let length = |rank: &u32| recv.get(*rank as usize).len();
    let ranks = ctx.table(size, |at| next(length(&order[at])))?;
    end.set(0);
    let whole = ctx.table(hosts.count(), |host| {
        next(hosts.ranks(host).iter().map(length).sum())
    })?;
    let first = hosts.start(hosts.of(ctx.rank()));
    let intra = &levels.intra;
    let place = |member: usize| ranks.blocks().get(first + member);
    place(intra.rank()).copy_from(mine);
    linear::gather(*intra, levels.leader, Some(mine), |rank| Some(place(rank)))
        .finish()
        .await?;
    if let Some(inter) = levels.leaders() {
        allgather_steps::among(&inter, whole.blocks()).await?;
    }
    bcast_steps::among(intra, temp.mem(), levels.leader).await?;
    for (at, &rank) in order.iter().enumerate() {
        recv.get(rank as usize).copy_from(ranks.blocks().get(at));
    }
    Ok(())
}

pub(in crate::coll) async fn reduce<P: P2p>(
    ctx: &Ctx<'_, P>,
    hosts: &Locality,
    op: &dyn Reducer,
    (mine, recv): (Mem, Mem),
    root: usize,
) -> Result<()> {
    let levels = TwoLevel::new(ctx, hosts, Some(root));
    let Some(inter) = levels.leaders() else {
        return reduce_steps::among(&levels.intra, op, mine, Mem::EMPTY, levels.leader).await;
    };
    let temp = ctx.temp(if ctx.rank() == root { 0 } else { mine.len() })?;
    let value = if ctx.rank() == root { recv } else { temp.mem() };
    reduce_steps::among(&levels.intra, op, mine, value, levels.leader).await?;
    reduce_steps::among(&inter, op, value, value, hosts.of(root)).await
}

pub(in crate::coll) async fn allreduce<P: P2p>(
    ctx: &Ctx<'_, P>,
    hosts: &Locality,
    op: &dyn Reducer,
    (mine, recv): (Mem, Mem),
) -> Result<()> {
    let levels = TwoLevel::new(ctx, hosts, None);
    reduce_steps::among(&levels.intra, op, mine, recv, levels.leader).await?;
    if let Some(inter) = levels.leaders() {
        allreduce_steps::stepwise(&inter, op, recv, recv).await?;
    }
    bcast_steps::among(&levels.intra, recv, levels.leader).await
}
