//! The local manager's core: one host's ranks, from their start to their end.
//!
//! The driver starts processes, moves bytes and knows clocks; everything that is decided is decided
//! here. A rank is at its end when the process that the driver started has ended and so has the one
//! that called `MPI_Init`, which differ under a wrapper. Its images outlive it.
//!
//! The state is in parts with private fields, which `host_state` composes: `process_table`,
//! `kept_images`, `host_rollback`, `host_lease`, `host_lookups`. `process` owns the life of one
//! process instance, from its start until central has acknowledged its end. The other files handle
//! inputs; `local_step` says which input goes where.

mod exits;
mod host_lease;
mod host_lookups;
mod host_rollback;
mod host_state;
mod images;
mod inputs;
mod kept_images;
mod lease;
mod lifecycle;
mod local_step;
mod lookups;
mod process;
mod process_exit;
mod process_table;
mod rank_messages;
mod recovery_wait;
mod report;
mod restore;

pub use host_state::Local;
pub use inputs::{LocalEffect, LocalInput};
pub use lifecycle::GRACE;
pub use process::{CLOSED_GRACE, FORK_GRACE, WRAPPER_GRACE};
pub use recovery_wait::{FIRST_NOTE, RECOVERY_BOUND};
