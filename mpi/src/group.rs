//! Process groups (MPI-5.0 §7.3): ordered sets of world ranks.
//!
//! A group that is an arithmetic progression of world ranks (like the world and the result of most
//! splits) is stored as first, stride and length. Other groups are a list with an index that is
//! made when first needed.

use crate::error::{Error, ErrorClass, Result};
use crate::status::{PROC_NULL, UNDEFINED};
use rejoin_channel_table::Rank;
use rustc_hash::FxHashMap;
use std::cell::OnceCell;

pub use process_set::ProcessSet;

mod process_set;

#[derive(Clone, Debug)]
enum Members {
    Strided { first: u32, stride: i32, len: u32 },
    List(Box<[u32]>),
}

/// Outcome of comparing two groups or communicators (`MPI_IDENT` …).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The same object, or groups with the same members in the same order.
    Ident,
    /// Communicators whose groups are identical.
    Congruent,
    /// The same members in another order.
    Similar,
    /// Anything else.
    Unequal,
}

/// A triplet of `MPI_Group_range_incl`: first, last, stride, as the user gave them.
pub type RankRange = [i32; 3];

/// An ordered set of processes. Immutable.
///
/// ```
/// use rejoin_mpi::Group;
/// use rejoin_mpi::adi::Rank;
///
/// let world = Group::world(4, Rank(2));
/// let reversed = world.range_incl(&[[3, 0, -1]])?;
/// assert_eq!((reversed.size(), reversed.rank()), (4, Some(1)));
/// assert_eq!(world.translate(0, &reversed)?, 3);
/// # Ok::<(), rejoin_mpi::Error>(())
/// ```
#[derive(Debug)]
pub struct Group {
    members: Members,
    index: OnceCell<FxHashMap<u32, u32>>,
    /// This process's rank in the group.
    mine: Option<usize>,
}

/// Smallest list for which an index pays.
const INDEX_FROM: usize = 16;

fn strided(list: &[u32]) -> Option<Members> {
    let first = list.first().copied().unwrap_or(0);
    let stride = match list {
        [a, b, ..] => i64::from(*b) - i64::from(*a),
        _ => 1,
    };
    let regular = list
        .iter()
        .enumerate()
        .all(|(i, &w)| i64::from(w) == i64::from(first) + stride * i as i64);
    (regular && stride != 0).then_some(Members::Strided {
        first,
        stride: i32::try_from(stride).ok()?,
        len: list.len() as u32,
    })
}

impl Group {
    /// The group of these world ranks, which are distinct, seen from world rank `me`.
    pub fn new(list: Vec<u32>, me: Rank) -> Self {
        let members = strided(&list).unwrap_or_else(|| Members::List(list.into()));
        let mut group = Self {
            members,
            index: OnceCell::new(),
            mine: None,
        };
        group.mine = group.find(me.0);
        group
    }

    /// World ranks `0..n`.
    pub fn world(n: u32, me: Rank) -> Self {
        Self {
            members: Members::Strided {
                first: 0,
                stride: 1,
                len: n,
            },
            index: OnceCell::new(),
            mine: Some(me.0 as usize).filter(|&r| r < n as usize),
        }
    }

    /// `MPI_Group_size`.
    #[inline]
    pub fn size(&self) -> usize {
        match &self.members {
            Members::Strided { len, .. } => *len as usize,
            Members::List(l) => l.len(),
        }
    }

    /// `MPI_Group_rank`: `None` is `MPI_UNDEFINED`.
    pub fn rank(&self) -> Option<usize> {
        self.mine
    }

    /// World rank of member `i`, which is below the size.
    #[inline]
    pub fn world_rank(&self, i: usize) -> Rank {
        match &self.members {
            Members::Strided { first, stride, .. } => {
                Rank((i64::from(*first) + i64::from(*stride) * i as i64) as u32)
            }
            Members::List(l) => Rank(l[i]),
        }
    }

    /// World ranks in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.size()).map(|i| self.world_rank(i).0)
    }

    /// Position of world rank `w` in the group.
    pub fn find(&self, w: u32) -> Option<usize> {
        match &self.members {
            Members::Strided { first, stride, len } => {
                let off = i64::from(w) - i64::from(*first);
                let stride = i64::from(*stride);
                let at = off / stride;
                (off % stride == 0 && at >= 0 && at < i64::from(*len)).then_some(at as usize)
            }
            Members::List(l) if l.len() < INDEX_FROM => l.iter().position(|&m| m == w),
            Members::List(l) => {
                let index = self
                    .index
                    .get_or_init(|| l.iter().enumerate().map(|(i, &m)| (m, i as u32)).collect());
                index.get(&w).map(|&i| i as usize)
            }
        }
    }

    fn made(&self, list: Vec<u32>) -> Group {
        Group::new(list, self.me())
    }

    fn me(&self) -> Rank {
        self.mine.map_or(Rank(u32::MAX), |i| self.world_rank(i))
    }

    fn made_with(&self, other: &Group, list: Vec<u32>) -> Group {
        let me = if self.mine.is_some() {
            self.me()
        } else {
            other.me()
        };
        Group::new(list, me)
    }

    /// `MPI_Group_translate_ranks` for one rank: `MPI_PROC_NULL` stays, absent is `MPI_UNDEFINED`.
    pub fn translate(&self, rank: i32, to: &Group) -> Result<i32> {
        if rank == PROC_NULL {
            return Ok(PROC_NULL);
        }
        let i = self.check_rank(rank)?;
        Ok(to
            .find(self.world_rank(i).0)
            .map_or(UNDEFINED, |r| r as i32))
    }

    /// `MPI_Group_compare`.
    pub fn compare(&self, other: &Group) -> Comparison {
        if self.size() != other.size() {
            Comparison::Unequal
        } else if self.iter().eq(other.iter()) {
            Comparison::Ident
        } else if self.iter().all(|w| other.find(w).is_some()) {
            Comparison::Similar
        } else {
            Comparison::Unequal
        }
    }

    /// `MPI_Group_union`: all of `self`, then those of `other` not in it.
    pub fn union(&self, other: &Group) -> Group {
        let more = other.iter().filter(|&w| self.find(w).is_none());
        self.made_with(other, self.iter().chain(more).collect())
    }

    /// `MPI_Group_intersection`, in `self`'s order.
    pub fn intersection(&self, other: &Group) -> Group {
        self.made(self.iter().filter(|&w| other.find(w).is_some()).collect())
    }

    /// `MPI_Group_difference`, in `self`'s order.
    pub fn difference(&self, other: &Group) -> Group {
        self.made(self.iter().filter(|&w| other.find(w).is_none()).collect())
    }

    pub(crate) fn check_rank(&self, rank: i32) -> Result<usize> {
        usize::try_from(rank)
            .ok()
            .filter(|&r| r < self.size())
            .ok_or_else(|| {
                let last = self.size() as i64 - 1;
                let text = format!("rank {rank} is not in the group, whose last rank is {last}");
                Error::new(ErrorClass::Rank, text)
            })
    }

    fn distinct(&self, ranks: impl Iterator<Item = i32>) -> Result<Vec<usize>> {
        let mut seen = vec![false; self.size()];
        let mut list = Vec::new();
        for r in ranks {
            let i = self.check_rank(r)?;
            if std::mem::replace(&mut seen[i], true) {
                let text = format!("rank {r} is named twice");
                return Err(Error::new(ErrorClass::Rank, text));
            }
            list.push(i);
        }
        Ok(list)
    }

    fn keep(&self, list: Vec<usize>) -> Group {
        self.made(list.into_iter().map(|i| self.world_rank(i).0).collect())
    }

    fn without(&self, list: Vec<usize>) -> Group {
        let mut out = vec![false; self.size()];
        for i in list {
            out[i] = true;
        }
        let rest = self.iter().zip(out).filter(|(_, gone)| !gone);
        self.made(rest.map(|(w, _)| w).collect())
    }

    /// `MPI_Group_incl`.
    pub fn incl(&self, ranks: impl Iterator<Item = i32>) -> Result<Group> {
        Ok(self.keep(self.distinct(ranks)?))
    }

    /// `MPI_Group_excl`.
    pub fn excl(&self, ranks: impl Iterator<Item = i32>) -> Result<Group> {
        Ok(self.without(self.distinct(ranks)?))
    }

    fn expand(&self, ranges: &[RankRange]) -> Result<Vec<usize>> {
        let mut all = Vec::new();
        for &[first, last, stride] in ranges {
            if stride == 0 {
                return Err(Error::new(ErrorClass::Arg, "a range has stride 0"));
            }
            self.check_rank(first)?;
            let (mut at, last) = (i64::from(first), i64::from(last));
            while (stride > 0 && at <= last) || (stride < 0 && at >= last) {
                let r = i32::try_from(at).unwrap_or(i32::MAX);
                self.check_rank(r)?;
                all.push(r);
                at += i64::from(stride);
            }
        }
        self.distinct(all.into_iter())
    }

    /// `MPI_Group_range_incl`.
    pub fn range_incl(&self, ranges: &[RankRange]) -> Result<Group> {
        Ok(self.keep(self.expand(ranges)?))
    }

    /// `MPI_Group_range_excl`.
    pub fn range_excl(&self, ranges: &[RankRange]) -> Result<Group> {
        Ok(self.without(self.expand(ranges)?))
    }

    /// True when every member of `self` is in `other`.
    pub fn is_subset(&self, other: &Group) -> bool {
        self.iter().all(|w| other.find(w).is_some())
    }
}

#[cfg(test)]
mod tests;
