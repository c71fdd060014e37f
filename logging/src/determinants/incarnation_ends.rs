//! How far the determinants of each incarnation of a rank were kept when it had ended.

use std::collections::BTreeMap;

use rejoin_channel_table::ids::{Incarnation, Rank};

use super::Dependency;

/// The mark at which each incarnation ended: its successor continues from there. What it recorded
/// beyond is lost. Kept in the order of the incarnations; an earlier one with a mark that is not
/// lower says nothing more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct IncarnationEnds(BTreeMap<Rank, Vec<(Incarnation, u64)>>);

impl IncarnationEnds {
    /// An incarnation of a rank has ended, and its determinants up to this mark are kept.
    pub fn note(&mut self, rank: Rank, incarnation: Incarnation, mark: u64) {
        let ends = self.0.entry(rank).or_default();
        // The same may be told again, or late.
        let at = ends.partition_point(|end| end.0 < incarnation);
        let is_known = ends[at..].iter().any(|later| later.1 <= mark);
        if !is_known {
            ends.insert(at, (incarnation, mark));
            let mut number = 0;
            ends.retain(|end| {
                number += 1;
                number > at || end.1 < mark
            });
        }
    }

    /// Whether this is still there, or its rank has not ended since.
    #[must_use]
    pub fn has(&self, on: &Dependency) -> bool {
        let ends = self.0.get(&on.rank).into_iter().flatten();
        ends.filter(|end| end.0 >= on.incarnation)
            .all(|end| end.1 >= on.mark)
    }

    /// The ends of a rank's incarnations, at most so many: of two that are left out together, the
    /// lower mark counts for both.
    #[must_use]
    pub fn of_rank(&self, rank: Rank, most: usize) -> Vec<(Incarnation, u64)> {
        let mut ends = self.0.get(&rank).cloned().unwrap_or_default();
        let more = ends.len().saturating_sub(most.max(1));
        if let Some(lowest) = ends.first().map(|end| end.1) {
            ends.drain(..more);
            if let Some(first) = ends.first_mut().filter(|_| more > 0) {
                first.1 = lowest;
            }
        }
        ends
    }

    /// All that is known: rank, incarnation, and mark.
    pub fn iter(&self) -> impl Iterator<Item = (Rank, Incarnation, u64)> {
        let of_rank = |(&rank, ends)| {
            let ends: &Vec<(Incarnation, u64)> = ends;
            ends.iter().map(move |end| (rank, end.0, end.1))
        };
        self.0.iter().flat_map(of_rank)
    }
}

impl FromIterator<(Rank, Incarnation, u64)> for IncarnationEnds {
    fn from_iter<T: IntoIterator<Item = (Rank, Incarnation, u64)>>(all: T) -> Self {
        let mut ends = IncarnationEnds::default();
        for (rank, incarnation, mark) in all {
            ends.note(rank, incarnation, mark);
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What is left out says nothing more, in whatever order it is told.
        #[test]
        fn all_ends_of_later_incarnations_count(
            told in prop::collection::vec((0u32..5, 0u64..9), 0..12),
            incarnation in 0u32..5,
            mark in 0u64..9,
        ) {
            // An incarnation ends once.
            let once: BTreeMap<u32, u64> = told.iter().copied().collect();
            let mut ends = IncarnationEnds::default();
            for (number, end) in told.iter().filter(|told| once[&told.0] == told.1) {
                ends.note(Rank(1), Incarnation(*number), *end);
            }
            let on = Dependency { rank: Rank(1), incarnation: Incarnation(incarnation), mark };
            let expected = once.iter().filter(|end| *end.0 >= incarnation).all(|end| *end.1 >= mark);
            prop_assert_eq!(ends.has(&on), expected);
            let again: IncarnationEnds = ends.iter().collect();
            prop_assert_eq!(again, ends);
        }
    }

    #[test]
    fn the_lowest_mark_of_ends_that_are_left_out_counts_for_the_first_that_is_left() {
        let mut ends = IncarnationEnds::default();
        for (incarnation, mark) in [(0, 2), (1, 4), (2, 7), (3, 9)] {
            ends.note(Rank(1), Incarnation(incarnation), mark);
        }
        let end = |incarnation, mark| (Incarnation(incarnation), mark);
        let all = [end(0, 2), end(1, 4), end(2, 7), end(3, 9)];
        assert_eq!(ends.of_rank(Rank(1), 9), all);
        assert_eq!(ends.of_rank(Rank(1), 4), all);
        assert_eq!(ends.of_rank(Rank(1), 2), [end(2, 2), end(3, 9)]);
        assert_eq!(ends.of_rank(Rank(1), 0), [end(3, 2)]);
        assert_eq!(ends.of_rank(Rank(2), 4), []);
    }
}
