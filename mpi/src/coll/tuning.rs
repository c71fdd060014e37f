//! Decides which algorithm a collective uses. The decision depends only on data that all ranks know
//! alike: the number of ranks, the bytes, the operation and the hosts. It never depends on timing.
//! The order in which a reduction combines does not depend on the hosts either: [`Exchange`] says
//! how operands travel, not what is done to them.
//!
//! Limits are in bytes. They were set for TCP: below them a message costs its start, above them its
//! bytes.

use super::hosts::Locality;

/// From twice this on a message that is reduced on arrival is cut into pieces.
pub(super) const PIECE: usize = 64 << 10;
/// One step of a pipelined chain.
pub(super) const SEGMENT: usize = 64 << 10;

/// Longest broadcast that goes whole along a binomial tree.
pub const BCAST_BINOMIAL: usize = 128 << 10;
/// Broadcasts from here on are pipelined along a chain when there are few ranks.
pub const BCAST_CHAIN: usize = 512 << 10;
/// Most ranks in a chain.
pub const BCAST_CHAIN_RANKS: usize = 8;
/// Longest reduction that goes whole along a binomial tree.
pub const REDUCE_BINOMIAL: usize = 32 << 10;
/// Longest allreduce by recursive doubling.
pub const ALLREDUCE_DOUBLING: usize = 16 << 10;
/// Shortest share of one rank for the allreduce on a ring.
pub const ALLREDUCE_RING_SHARE: usize = 64 << 10;
/// Longest block that is gathered or scattered along a binomial tree.
pub const GATHER_BINOMIAL: usize = 4 << 10;
/// Longest result (all blocks) of an allgather in logarithmically many steps.
pub const ALLGATHER_LOGARITHMIC: usize = 64 << 10;
/// Longest block of an all-to-all by Bruck's algorithm.
pub const ALLTOALL_BRUCK: usize = 256;
/// Fewest ranks for it.
pub const ALLTOALL_BRUCK_RANKS: usize = 8;
/// Longest block of an all-to-all with many messages in flight; above it one partner after the
/// other.
pub const ALLTOALL_WINDOWED: usize = 32 << 10;
/// The most that the ranks of a host together send to one rank elsewhere in an all-to-all that
/// leaders carry.
pub const ALLTOALL_LEADERS: usize = 4 << 10;
/// The most bytes that a leader takes from the ranks of its host for that. With its sent and
/// received messages it needs three times as much.
pub const ALLTOALL_LEADERS_ROOM: usize = 1 << 20;
/// Longest vector (all blocks) of a reduce-scatter by recursive halving.
pub const REDUCE_SCATTER_HALVING: usize = 256 << 10;
/// Most ranks in a linear reduction.
pub(super) const LINEAR_REDUCTION_RANKS: usize = 16;
/// Most bytes of operands that one rank of several takes to combine all of them itself.
pub const MAX_WHOLE_OPERANDS: usize = 32 << 10;
/// Bytes that the operands of one piece of a long reduction between ranks of a host take together.
pub(super) const LINEAR_CACHE: usize = 512 << 10;
/// The least such piece of one rank.
pub(super) const LINEAR_PIECE: usize = 64 << 10;
/// Longest scan in logarithmically many steps.
pub const SCAN_DOUBLING: usize = 256 << 10;
/// Most ranks of a scan that goes along a chain whatever its length. A chain has the fewest
/// messages, and its lower ranks run ahead.
pub const SCAN_CHAIN_RANKS: usize = 4;

/// How data travels between ranks that all share a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// In the steps of the algorithm, as between hosts.
    Stepwise,
    /// From every rank that has something directly to every rank that needs it, and there it is
    /// combined.
    Linear,
    /// The exchange of [`Exchange::Linear`], but each rank combines a block; the results then go to
    /// the ranks that need them. Commutative only.
    LinearBlocks,
}

/// Barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarrierAlgorithm {
    /// Dissemination (Hensgen, Finkel, Manber 1988): log2 n rounds.
    Dissemination,
    /// Up and down a binomial tree: 2 (n - 1) messages in all, for ranks that share cores.
    Tree,
}

/// Broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BcastAlgorithm {
    /// Binomial tree.
    Binomial,
    /// Scatter along a binomial tree, then allgather by recursive doubling (a ring unless n is a
    /// power of two).
    ScatterDoubling,
    /// Scatter along a binomial tree, then allgather on a ring.
    ScatterRing,
    /// Pipelined chain.
    Chain,
}

/// Reduction to one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceAlgorithm {
    /// Binomial tree; in the order of ranks when the operation demands it.
    Binomial,
    /// Reduce-scatter by recursive halving, then gather (Rabenseifner 2004). Commutative only.
    Rabenseifner,
}

/// Reduction to all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllreduceAlgorithm {
    /// Recursive doubling; keeps the order of ranks.
    Doubling,
    /// Reduce-scatter by recursive halving, then allgather by recursive doubling. Commutative only.
    Rabenseifner,
    /// Reduce-scatter and allgather on a ring (Patarasuk, Yuan 2009). Commutative only.
    Ring,
}

/// Gather and scatter of equal blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatherAlgorithm {
    /// Binomial tree.
    Binomial,
    /// Between the root and each rank.
    Linear,
}

/// Allgather.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllgatherAlgorithm {
    /// Recursive doubling (powers of two and equal blocks; else Bruck).
    Doubling,
    /// Bruck and others 1997: ceil(log2 n) steps for any n.
    Bruck,
    /// Ring.
    Ring,
}

/// All-to-all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlltoallAlgorithm {
    /// Bruck and others 1997 (equal blocks; else windowed).
    Bruck,
    /// One partner after the other.
    Pairwise,
    /// Many messages in flight.
    Windowed,
}

/// Reduce-scatter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceScatterAlgorithm {
    /// Recursive halving. Commutative only.
    Halving,
    /// One partner after the other. Commutative only.
    Pairwise,
    /// All operands of a block are collected, then combined in the order of ranks.
    Ordered,
}

/// Scan and exscan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanAlgorithm {
    /// Recursive doubling.
    Doubling,
    /// Pipelined along the ranks.
    Chain,
}

/// Algorithms demanded instead of the usual tuning. If one does not apply (a non-commutative
/// operation, blocks of different lengths), another one still replaces it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// How data travels, whatever the hosts.
    pub exchange: Option<Exchange>,
    /// Whether the order in which a commutative operation combines may follow the hosts.
    pub by_hosts: bool,
    /// Barrier.
    pub barrier: Option<BarrierAlgorithm>,
    /// Broadcast.
    pub bcast: Option<BcastAlgorithm>,
    /// Reduction to one rank.
    pub reduce: Option<ReduceAlgorithm>,
    /// Reduction to all ranks.
    pub allreduce: Option<AllreduceAlgorithm>,
    /// Gather.
    pub gather: Option<GatherAlgorithm>,
    /// Scatter.
    pub scatter: Option<GatherAlgorithm>,
    /// Allgather.
    pub allgather: Option<AllgatherAlgorithm>,
    /// All-to-all.
    pub alltoall: Option<AlltoallAlgorithm>,
    /// Reduce-scatter.
    pub reduce_scatter: Option<ReduceScatterAlgorithm>,
    /// Scan and exscan.
    pub scan: Option<ScanAlgorithm>,
}

impl Tuning {
    /// Whether all ranks exchange without steps; `one_host` says that all of them share a
    /// host.
    #[inline(always)]
    pub(super) fn is_linear(&self, one_host: bool) -> bool {
        match self.exchange {
            None => one_host,
            Some(exchange) => exchange != Exchange::Stepwise,
        }
    }

    /// Whether a reduction is done on each host first.
    pub(super) fn host_by_host(&self, commutative: bool, exact: bool) -> bool {
        commutative && (exact || self.by_hosts)
    }

    /// How the operands of a reduction travel.
    pub(super) fn operands(
        &self,
        one_host: bool,
        ranks: usize,
        bytes: usize,
        symmetric: bool,
    ) -> Exchange {
        let usual = if !one_host {
            Exchange::Stepwise
        } else if bytes.saturating_mul(ranks - 1) <= MAX_WHOLE_OPERANDS {
            Exchange::Linear
        } else {
            Exchange::LinearBlocks
        };
        match self.exchange.unwrap_or(usual) {
            Exchange::LinearBlocks if !symmetric => Exchange::Stepwise,
            _ if ranks > LINEAR_REDUCTION_RANKS => Exchange::Stepwise,
            exchange => exchange,
        }
    }

    pub(super) fn barrier(&self) -> BarrierAlgorithm {
        self.barrier.unwrap_or(BarrierAlgorithm::Dissemination)
    }

    pub(super) fn bcast(&self, ranks: usize, bytes: usize) -> BcastAlgorithm {
        let usual = if bytes <= BCAST_BINOMIAL || ranks <= 2 {
            BcastAlgorithm::Binomial
        } else if bytes >= BCAST_CHAIN && ranks <= BCAST_CHAIN_RANKS {
            BcastAlgorithm::Chain
        } else if ranks.is_power_of_two() && bytes < BCAST_CHAIN {
            BcastAlgorithm::ScatterDoubling
        } else {
            BcastAlgorithm::ScatterRing
        };
        match self.bcast.unwrap_or(usual) {
            BcastAlgorithm::ScatterDoubling if !ranks.is_power_of_two() => {
                BcastAlgorithm::ScatterRing
            }
            tuning => tuning,
        }
    }

    pub(super) fn reduce(&self, ranks: usize, bytes: usize, commutative: bool) -> ReduceAlgorithm {
        let usual = if bytes <= REDUCE_BINOMIAL || ranks <= 2 {
            ReduceAlgorithm::Binomial
        } else {
            ReduceAlgorithm::Rabenseifner
        };
        if commutative {
            self.reduce.unwrap_or(usual)
        } else {
            ReduceAlgorithm::Binomial
        }
    }

    pub(super) fn allreduce(
        &self,
        ranks: usize,
        bytes: usize,
        commutative: bool,
    ) -> AllreduceAlgorithm {
        let usual = if bytes <= ALLREDUCE_DOUBLING {
            AllreduceAlgorithm::Doubling
        } else if ranks > 2 && bytes / ranks >= ALLREDUCE_RING_SHARE {
            AllreduceAlgorithm::Ring
        } else {
            AllreduceAlgorithm::Rabenseifner
        };
        if commutative {
            self.allreduce.unwrap_or(usual)
        } else {
            AllreduceAlgorithm::Doubling
        }
    }

    pub(super) fn gather(&self, one_host: bool, block: usize) -> GatherAlgorithm {
        self.gather.unwrap_or(self.tree_or_linear(one_host, block))
    }

    pub(super) fn scatter(&self, one_host: bool, block: usize) -> GatherAlgorithm {
        self.scatter.unwrap_or(self.tree_or_linear(one_host, block))
    }

    /// In a tree each rank between waits for its turn on a core before it passes blocks on.
    fn tree_or_linear(&self, one_host: bool, block: usize) -> GatherAlgorithm {
        if self.is_linear(one_host) || block > GATHER_BINOMIAL {
            GatherAlgorithm::Linear
        } else {
            GatherAlgorithm::Binomial
        }
    }

    pub(super) fn allgather(&self, ranks: usize, total: usize, equal: bool) -> AllgatherAlgorithm {
        let usual = if total > ALLGATHER_LOGARITHMIC {
            AllgatherAlgorithm::Ring
        } else {
            AllgatherAlgorithm::Doubling
        };
        match self.allgather.unwrap_or(usual) {
            AllgatherAlgorithm::Doubling if !equal || !ranks.is_power_of_two() => {
                AllgatherAlgorithm::Bruck
            }
            tuning => tuning,
        }
    }

    pub(super) fn alltoall(&self, ranks: usize, block: usize, equal: bool) -> AlltoallAlgorithm {
        let usual = if !equal {
            AlltoallAlgorithm::Windowed
        } else if block <= ALLTOALL_BRUCK && ranks >= ALLTOALL_BRUCK_RANKS {
            AlltoallAlgorithm::Bruck
        } else if block <= ALLTOALL_WINDOWED {
            AlltoallAlgorithm::Windowed
        } else {
            AlltoallAlgorithm::Pairwise
        };
        match self.alltoall.unwrap_or(usual) {
            AlltoallAlgorithm::Bruck if !equal => AlltoallAlgorithm::Windowed,
            tuning => tuning,
        }
    }

    /// Whether the leaders of hosts carry an all-to-all of equal blocks. A leader's work for a rank
    /// of another host takes the time in which each rank of its host would begin a message there.
    pub(super) fn by_leaders(&self, hosts: &Locality, block: usize) -> bool {
        let together = hosts.max_ranks().saturating_mul(block);
        together <= ALLTOALL_LEADERS
            && together.saturating_mul(hosts.all().len()) <= ALLTOALL_LEADERS_ROOM
    }

    pub(super) fn reduce_scatter(&self, total: usize, commutative: bool) -> ReduceScatterAlgorithm {
        let usual = if total <= REDUCE_SCATTER_HALVING {
            ReduceScatterAlgorithm::Halving
        } else {
            ReduceScatterAlgorithm::Pairwise
        };
        if commutative {
            self.reduce_scatter.unwrap_or(usual)
        } else {
            ReduceScatterAlgorithm::Ordered
        }
    }

    pub(super) fn scan(&self, ranks: usize, bytes: usize) -> ScanAlgorithm {
        let usual = if ranks <= SCAN_CHAIN_RANKS || bytes > SCAN_DOUBLING {
            ScanAlgorithm::Chain
        } else {
            ScanAlgorithm::Doubling
        };
        self.scan.unwrap_or(usual)
    }
}
