//! The standard streams of this host's ranks.

mod host_input;
mod rank_input;
mod rank_output;

pub use host_input::HostInput;
pub use rank_output::RankOutputs;
