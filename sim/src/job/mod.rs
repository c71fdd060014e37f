//! Jobs: the managers' cores, ranks' processes, and what befalls them.

pub mod process;
pub mod stored;
