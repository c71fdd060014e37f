//! The standard streams of this host's ranks.

mod rank_input;
mod rank_output;

pub use rank_input::RankInput;
pub use rank_output::RankOutputs;
