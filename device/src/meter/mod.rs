//! State that all links of a rank share: counters, and the fault injector of tests.

mod fault_injector;
mod stats;

use fault_injector::FaultInjector;

pub use stats::Stats;

/// The counters of one rank. In a build with the feature `fault-injection` it also decides when a
/// link is cut.
pub(crate) struct Meter {
    pub(crate) stats: Stats,
    injector: Option<FaultInjector>,
}

impl Meter {
    /// Counts from nothing. `cut` is the seed and the interval of the fault injector, where a test
    /// asks for one.
    pub(crate) fn new(cut: Option<(u64, u64)>, rank: u32) -> Self {
        let injector = cut.map(|(seed, interval)| FaultInjector::new(seed, rank, interval));
        Self {
            stats: Stats::default(),
            injector,
        }
    }

    /// Whether links may be cut.
    #[inline(always)]
    pub(crate) fn injects_faults(&self) -> bool {
        cfg!(feature = "fault-injection") && self.injector.is_some()
    }

    /// After how many of the `len` bytes of the next operation the link is to be cut, if at all.
    #[inline]
    pub(crate) fn draw_cut(&mut self, len: usize) -> Option<usize> {
        if !cfg!(feature = "fault-injection") {
            return None;
        }
        self.injector.as_mut()?.draw_cut(len)
    }
}
