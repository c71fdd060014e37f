//! A hardware thread and a cache, as the kernel shows them.

use super::cpus::Cpus;

/// One hardware thread with its core and larger units, each by the kernel's number or that of its
/// lowest CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Thread {
    pub(super) number: usize,
    pub(super) core: usize,
    pub(super) cache: usize,
    pub(super) node: Option<usize>,
    pub(super) package: Option<usize>,
}

/// The content of a cache: instructions, data or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CacheContent {
    /// Both.
    Unified,
    /// Data.
    Data,
    /// Instructions.
    Instructions,
}

/// A cache and the CPUs that share it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cache {
    /// 1 is next to the core.
    pub level: u32,
    /// Whether it holds data, instructions or both.
    pub holds: CacheContent,
    /// Size in bytes, where the kernel knows it.
    pub bytes: Option<u64>,
    /// The CPUs that share it.
    pub cpus: Cpus,
}
