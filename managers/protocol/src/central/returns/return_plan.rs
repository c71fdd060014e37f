//! What a recovery mode decides about ranks that are to come back.

use crate::central::interface::{HostIndex, RankPlacement, ReturnScope};
use rejoin_channel_table::{Epoch, Rank};

/// The ranks that come back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::central) enum Returning {
    /// All ranks.
    All,
    /// All ranks of one recovery group or several, in their order.
    Groups(Vec<Rank>),
    /// One rank, after the release of all from `MPI_Finalize`.
    Finalized(Rank),
}

impl Returning {
    /// What the other ranks do.
    pub fn scope(&self) -> ReturnScope {
        match self {
            Returning::All => ReturnScope::All,
            Returning::Groups(_) => ReturnScope::Groups,
            Returning::Finalized(_) => ReturnScope::Finalized,
        }
    }

    /// The ranks, in a job of so many.
    pub fn ranks(&self, count: u32) -> Vec<Rank> {
        match self {
            Returning::All => (0..count).map(Rank).collect(),
            Returning::Groups(ranks) => ranks.clone(),
            Returning::Finalized(rank) => vec![*rank],
        }
    }
}

/// A host that is lost, and for which it is decided now how the job continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::central) struct ReplacedHost {
    /// The number of the host.
    pub host: HostIndex,
    /// Why it is lost.
    pub why: String,
    /// The host that takes in the first of its ranks.
    pub successor: HostIndex,
}

/// The places of ranks without the hosts that are lost now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::central) struct LostPlaces {
    /// The lost hosts.
    pub hosts: Vec<ReplacedHost>,
    /// Where all ranks are from now on.
    pub placement: RankPlacement,
}

impl LostPlaces {
    /// This host is lost now.
    pub fn has(&self, host: HostIndex) -> bool {
        self.hosts.iter().any(|lost| lost.host == host)
    }
}

/// Ranks are to come back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::central) struct ReturnPlan {
    /// The ranks.
    pub who: Returning,
    /// The checkpoint; `None`: the start, which may be registered memory.
    pub from: Option<Epoch>,
    /// Places of the ranks, if hosts are lost. Otherwise each comes back where its image is.
    pub lost: Option<LostPlaces>,
}
