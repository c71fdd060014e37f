//! All-to-all over several hosts. A host's leader collects the blocks of its ranks, and each leader
//! sends one message to each other leader. Two more copies and two messages within the host save
//! the start-up costs of all other messages.

use crate::coll::algorithms::alltoall_steps;
use crate::coll::call::{Ctx, P2p, Sends};
use crate::coll::hosts::Locality;
use crate::coll::hosts::two_level::TwoLevel;
use crate::coll::linear;
use crate::coll::memory::{Blocks, Mem};
use crate::coll::tuning::AlltoallAlgorithm;
use crate::error::Result;

/// Block j of `send` on rank i, of `each` bytes, goes to block i of `recv` on rank j. `None`: what
/// is in `recv` is sent and replaced.
pub(in crate::coll) async fn by_leaders<P: P2p>(
    ctx: &Ctx<'_, P>,
    hosts: &Locality,
    send: Option<Mem>,
    (recv, each): (Mem, usize),
) -> Result<()> {
    let levels = TwoLevel::new(ctx, hosts, None);
    let (intra, leader) = (&levels.intra, levels.leader);
    let Some(inter) = levels.leaders() else {
        if let Some(send) = send {
            return intra.exchange(leader, send, leader, recv).await;
        }
        intra.send(leader, recv).await?;
        return intra.recv(leader, recv).await;
    };
    let temp = ctx.temp((intra.size() - 1) * recv.len())?;
    let rows = Rows {
        hosts,
        here: hosts.of(ctx.rank()),
        own: recv,
        others: temp.mem(),
        each,
    };
    if let Some(send) = send {
        recv.copy_from(send);
    }
    linear::gather(*intra, leader, Some(Mem::EMPTY), |member| {
        Some(rows.row(member))
    })
    .finish()
    .await?;
    rows.swap_within();
    rows.swap_between(&inter).await?;
    let mut sends = Sends::new();
    for member in 1..intra.size() {
        let pending = intra.isend(member, rows.row(member))?;
        sends.push_or_wait(intra, pending).await?;
    }
    sends.finish(intra).await
}

/// The buffers of all ranks of a host, at its leader. The received blocks of each rank replace its
/// sent blocks in place.
struct Rows<'a> {
    hosts: &'a Locality,
    here: usize,
    /// The leader's, which is the first.
    own: Mem,
    others: Mem,
    /// Bytes of a block.
    each: usize,
}

impl Rows<'_> {
    fn row(&self, member: usize) -> Mem {
        let len = self.own.len();
        match member {
            0 => self.own,
            other => self.others.part((other - 1) * len, len),
        }
    }

    fn block(&self, member: usize, rank: u32) -> Mem {
        self.row(member).part(rank as usize * self.each, self.each)
    }

    fn ranks(&self) -> &[u32] {
        self.hosts.ranks(self.here)
    }

    /// Exchanges the blocks among ranks of this host.
    fn swap_within(&self) {
        for (member, &rank) in self.ranks().iter().enumerate() {
            for (other, &lower) in self.ranks()[..member].iter().enumerate() {
                self.block(member, lower).swap(self.block(other, rank));
            }
        }
    }

    /// Exchanges the blocks with other hosts.
    async fn swap_between<P: P2p>(&self, inter: &Ctx<'_, P>) -> Result<()> {
        let (size, count) = (self.hosts.all().len(), self.hosts.count());
        let widest = self.hosts.max_ranks() * self.hosts.max_ranks() * self.each;
        // Short messages of many hosts go in fewer steps, and are equal for that.
        let bruck = inter.tuning().alltoall(count, widest, true) == AlltoallAlgorithm::Bruck;
        let here = self.ranks().len();
        let half = match bruck {
            true => count * widest,
            false => here * (size - here) * self.each,
        };
        let temp = inter.temp(2 * half)?;
        let (out, into) = (temp.mem().head(half), temp.mem().range(half, 2 * half));
        if bruck {
            out.clear();
            let uniform = |all| Blocks::Uniform { all, each: widest };
            self.pack(uniform(out));
            alltoall_steps::bruck(inter, out, into, widest).await?;
            self.unpack(uniform(into));
            return Ok(());
        }
        let part = |all: Mem, host: usize| {
            let ranks = self.hosts.ranks(host).len();
            let passed = if host > self.here { here } else { 0 };
            let start = (self.hosts.start(host) - passed) * here * self.each;
            match host == self.here {
                true => Mem::EMPTY,
                false => all.part(start, here * ranks * self.each),
            }
        };
        let out = inter.table(count, |host| part(out, host))?;
        let into = inter.table(count, |host| part(into, host))?;
        self.pack(out.blocks());
        alltoall_steps::windowed(inter, out.blocks(), into.blocks()).await?;
        self.unpack(into.blocks());
        Ok(())
    }

    /// A message has the blocks of all ranks of its source host for the first rank of the
    /// destination host, then those for the second.
    fn pack(&self, out: Blocks<'_>) {
        let here = self.ranks().len();
        self.each_pair(|host, other, member, rank| {
            let at = (other * here + member) * self.each;
            let to = out.get(host).part(at, self.each);
            to.copy_from(self.block(member, rank));
        });
    }

    fn unpack(&self, into: Blocks<'_>) {
        self.each_pair(|host, other, member, rank| {
            let at = (member * self.hosts.ranks(host).len() + other) * self.each;
            let from = into.get(host).part(at, self.each);
            self.block(member, rank).copy_from(from);
        });
    }

    /// Visits all pairs of a rank of another host and one of this host: the number of that host,
    /// the index of the rank there, the index here, and the rank there.
    fn each_pair(&self, visit: impl Fn(usize, usize, usize, u32)) {
        for host in (0..self.hosts.count()).filter(|&host| host != self.here) {
            for member in 0..self.ranks().len() {
                for (other, &rank) in self.hosts.ranks(host).iter().enumerate() {
                    visit(host, other, member, rank);
                }
            }
        }
    }
}
