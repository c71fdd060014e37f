//! Starts the processes of the ranks that the plan names.

mod log_sizes;
mod prepare;
mod process_starter;
mod rank_logs;

pub use process_starter::{DescriptorPairs, ProcessStarter, watch_place};
pub use rank_logs::LogWait;
