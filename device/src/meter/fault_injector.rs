//! The test facility behind `REJOIN_TEST_CUT`: links that break at random moments.

/// Decides when a link is cut. The same seed gives the same decisions.
#[derive(Clone, Debug)]
pub(crate) struct FaultInjector {
    state: u64,
    interval: u64,
}

impl FaultInjector {
    /// Cuts once in `interval` reads and writes on average.
    pub(crate) fn new(seed: u64, rank: u32, interval: u64) -> Self {
        // Each rank has a sequence of its own; an odd offset keeps the state from being zero.
        let state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (u64::from(rank) << 32 | 0x5bd1);
        Self {
            state,
            interval: interval.max(1),
        }
    }

    /// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Whether the next operation on a link, of `len` bytes, ends in a cut; and after how many
    /// bytes of it.
    pub(crate) fn draw_cut(&mut self, len: usize) -> Option<usize> {
        if !self.next().is_multiple_of(self.interval) {
            return None;
        }
        let share = self.next() % (len as u64 + 1);
        Some(usize::try_from(share).unwrap_or(len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_are_as_frequent_as_asked_and_repeatable() {
        let cuts = |seed| {
            let mut injector = FaultInjector::new(seed, 3, 50);
            (0..50_000)
                .filter_map(|at| injector.draw_cut(100).map(|len| (at, len)))
                .collect::<Vec<_>>()
        };
        let first = cuts(11);
        assert_eq!(first, cuts(11));
        assert_ne!(first, cuts(12));
        assert!((800..1200).contains(&first.len()), "{} cuts", first.len());
        assert!(first.iter().all(|(_, len)| *len <= 100));
    }
}
