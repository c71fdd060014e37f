//! From the plan to the processes of ranks.

mod prepare;
mod process_starter;

pub use process_starter::{DescriptorPairs, ProcessStarter, watch_place};
