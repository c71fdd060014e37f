//! Ranges of a file whose former bytes are recorded already.

use std::collections::BTreeMap;
use std::ops::Range;

/// Most ranges that are known; what is written to a further one is recorded each time.
const MOST: usize = 4096;

/// Ranges that neither overlap nor touch.
#[derive(Debug, Default)]
pub(super) struct CoveredRanges {
    /// Ends by beginnings.
    ends: BTreeMap<u64, u64>,
}

impl CoveredRanges {
    /// Whether all of the range is there.
    pub fn contains(&self, range: &Range<u64>) -> bool {
        let before = self.ends.range(..=range.start).next_back();
        before.is_some_and(|(_, end)| *end >= range.end)
    }

    /// The parts of a range that are not there.
    pub fn gaps(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let (mut gaps, mut at) = (Vec::new(), range.start);
        let before = self.ends.range(..=at).next_back();
        let inside = self.ends.range(at.saturating_add(1)..range.end.max(at + 1));
        for (&start, &end) in before.into_iter().chain(inside) {
            if start > at {
                gaps.push(at..start);
            }
            at = at.max(end);
        }
        if at < range.end {
            gaps.push(at..range.end);
        }
        gaps
    }

    /// Adds a range.
    pub fn insert(&mut self, range: Range<u64>) {
        let Range { mut start, mut end } = range;
        // From the last on: they are in order, and the first that lies before the range ends it.
        while let Some((&first, &last)) = self.ends.range(..=end).next_back() {
            if last < start {
                break;
            }
            self.ends.remove(&first);
            (start, end) = (start.min(first), end.max(last));
        }
        if self.ends.len() < MOST {
            self.ends.insert(start, end);
        }
    }

    /// Removes all from this byte on.
    pub fn cut(&mut self, at: u64) {
        self.ends.split_off(&at);
        if let Some((_, end)) = self.ends.iter_mut().next_back() {
            *end = at.min(*end);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_are_those_of_a_list_of_bytes(
            steps in proptest::collection::vec((0..40u64, 1..12u64, 0..5u8), 0..40)
        ) {
            let (mut covered, mut bytes) = (CoveredRanges::default(), [false; 64]);
            for (start, len, cuts) in steps {
                let range = start..start + len;
                let all = bytes[range.start as usize..range.end as usize].iter().all(|b| *b);
                prop_assert_eq!(covered.contains(&range), all);
                let gaps: Vec<u64> = covered.gaps(range.clone()).into_iter().flatten().collect();
                let absent = range.clone().filter(|at| !bytes[*at as usize]);
                prop_assert_eq!(gaps, absent.collect::<Vec<_>>());
                if cuts == 0 {
                    covered.cut(start);
                    bytes[start as usize..].fill(false);
                } else {
                    bytes[range.start as usize..range.end as usize].fill(true);
                    covered.insert(range);
                }
            }
        }
    }

    #[test]
    fn the_number_of_ranges_is_bounded() {
        let mut covered = CoveredRanges::default();
        for i in 0..2 * MOST as u64 {
            covered.insert(3 * i..3 * i + 1);
        }
        assert_eq!(covered.ends.len(), MOST);
        assert!(covered.contains(&(0..1)));
        let last = 3 * (2 * MOST as u64 - 1);
        assert!(!covered.contains(&(last..last + 1)));
    }
}
