//! The launch of a job: its hosts ([`machines`]), the plan for each local manager ([`plan`]), the
//! way to local managers ([`agent`], [`supervisor`], [`tree`]), and the start of a rank's process
//! ([`spawn`]). [`local_messages`] has the messages between mpirun and local managers.

pub mod agent;
pub mod child_manager;
pub mod local_messages;
pub mod machines;
pub mod plan;
pub mod spawn;
pub mod supervisor;
pub mod tree;
