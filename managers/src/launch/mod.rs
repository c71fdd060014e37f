//! The launch of a job: its hosts ([`machines`]), the plan for each local manager
//! ([`launch_plan`]), the way to local managers ([`launch_agent`], [`supervisor`], [`fence_link`],
//! [`tree`]), and
//! the start of a rank's process ([`spawn`]). [`named_job`] is the record of a job that can be
//! restarted, [`determinants_file`] has its nondeterministic answers, and [`shown_output`] what it
//! had shown beyond its last checkpoint. [`linked_mpi`] knows which library a program names.
//! [`local_messages`] has the messages between mpirun and local managers.

pub mod child_manager;
pub mod determinants_file;
pub mod dynamic_file;
pub mod fence_link;
pub mod installation;
pub mod launch_agent;
pub mod launch_plan;
pub mod linked_mpi;
pub mod loaded_libraries;
pub mod local_messages;
pub mod machines;
pub mod named_job;
pub mod shown_output;
pub mod spawn;
pub mod supervisor;
pub mod tree;
