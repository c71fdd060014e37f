//! How a job is launched: on which hosts ([`machines`]), what each local manager must know
//! ([`plan`]), how it is reached ([`agent`], [`supervisor`], [`tree`]), and how it starts the
//! process of a rank ([`spawn`]). What mpirun and a local manager say to each other is in
//! [`local_messages`].

pub mod agent;
pub mod child_manager;
pub mod local_messages;
pub mod machines;
pub mod plan;
pub mod spawn;
pub mod supervisor;
pub mod tree;
