//! Which nodes read each other's memory, and counts of such reads.

use std::ops::AddAssign;

use rejoin_engine::Gets;

/// Which of two nodes can read the other's memory, as one of them sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MemoryAccess {
    /// This node reads the peer's memory.
    pub ours: bool,
    /// The peer reads these bodies in this node's memory.
    pub theirs: Option<Gets>,
}

/// How many bodies a node has read out of other nodes' memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct GetCounts {
    /// Read as a whole.
    pub whole: u64,
    /// Read in part, so that the sender must send them.
    pub failed: u64,
    /// Read as a whole over a link that was cut: the sender does not hear of it over this link.
    pub after_cut: u64,
}

impl AddAssign for GetCounts {
    fn add_assign(&mut self, other: GetCounts) {
        self.whole += other.whole;
        self.failed += other.failed;
        self.after_cut += other.after_cut;
    }
}
