//! Parts of a file.

/// Ranges of bytes in order, none of which overlaps or touches another one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ByteRanges {
    ranges: Vec<(u64, u64)>,
}

impl ByteRanges {
    /// Adds the bytes from `from` up to, but without, `to`.
    pub fn add(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let (mut first, mut end) = (from, to);
        self.ranges.retain(|&(start, stop)| {
            let is_apart = stop < from || to < start;
            if !is_apart {
                first = first.min(start);
                end = end.max(stop);
            }
            is_apart
        });
        let at = self.ranges.partition_point(|&(start, _)| start < first);
        self.ranges.insert(at, (first, end));
    }

    /// Adds all of another set.
    pub fn add_all(&mut self, other: &Self) {
        other
            .ranges
            .iter()
            .for_each(|&(from, to)| self.add(from, to));
    }

    /// Takes these bytes out.
    pub fn remove(&mut self, from: u64, to: u64) {
        let left = |&(start, stop): &(u64, u64)| {
            let before = (start, stop.min(from));
            let behind = (start.max(to), stop);
            [before, behind].into_iter().filter(|(a, b)| a < b)
        };
        if from < to {
            self.ranges = self.ranges.iter().flat_map(left).collect();
        }
    }

    /// Takes all bytes of another set out.
    pub fn remove_all(&mut self, other: &Self) {
        let ranges = other.ranges.iter();
        ranges.for_each(|&(from, to)| self.remove(from, to));
    }

    /// The parts that lie between these positions.
    pub fn within(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let cut = move |&(start, stop): &(u64, u64)| (start.max(from), stop.min(to));
        self.ranges.iter().map(cut).filter(|(a, b)| a < b)
    }

    /// Whether both have a byte in common.
    pub fn meets(&self, other: &Self) -> bool {
        let mut ranges = self.ranges.iter();
        ranges.any(|&(from, to)| other.within(from, to).next().is_some())
    }

    /// Whether these are all bytes of a file of this length.
    pub fn covers(&self, length: u64) -> bool {
        let begin = self.ranges.first().copied();
        length == 0 || begin.is_some_and(|(from, to)| from == 0 && length <= to)
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(of: &[(u64, u64)]) -> ByteRanges {
        let mut all = ByteRanges::default();
        of.iter().for_each(|&(from, to)| all.add(from, to));
        all
    }

    #[test]
    fn ranges_are_joined_and_cut() {
        let mut all = ranges(&[(10, 20), (30, 40), (20, 25), (5, 5)]);
        assert_eq!(all.ranges, [(10, 25), (30, 40)]);
        all.add(12, 33);
        assert_eq!(all.ranges, [(10, 40)]);
        all.remove(15, 20);
        all.remove(0, 11);
        all.remove_all(&ranges(&[(39, 50)]));
        assert_eq!(all.ranges, [(11, 15), (20, 39)]);
        assert_eq!(all.within(14, 25).collect::<Vec<_>>(), [(14, 15), (20, 25)]);
        assert!(all.meets(&ranges(&[(0, 12)])) && !all.meets(&ranges(&[(15, 20)])));
        all.remove(0, 100);
        assert!(all.is_empty() && all.covers(0) && !all.covers(1));
        assert!(ranges(&[(0, 10)]).covers(10) && !ranges(&[(0, 10), (11, 20)]).covers(11));
    }
}
