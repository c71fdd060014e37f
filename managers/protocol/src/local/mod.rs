//! The local manager's core: one host's ranks, from their start to their end.
//!
//! The driver starts processes, moves bytes and knows clocks; everything that is decided is decided
//! here. A rank is at its end when the process that the driver started has ended and so has the one
//! that called `MPI_Init`, which differ under a wrapper. Its images outlive it.
//!
//! The state is in parts with private fields, which `host_state` composes: `process_table`,
//! `image_table`, `copy_table`, `host_rollback`, `host_lease`, `host_lookups`,
//! `host_probes`. `rank_process` owns
//! the life of one process instance, from its start until central has acknowledged its end, and
//! `instance_state` how far it has come. The other files handle inputs; `local_step` passes each
//! input to its handler.

mod checkpoint_messages;
mod copy_messages;
mod copy_table;
mod exits;
mod host_course;
mod host_lease;
mod host_lookups;
mod host_parts;
mod host_probes;
mod host_rollback;
mod host_state;
mod image_table;
mod inputs;
mod instance_state;
mod lease_steps;
mod leave_time;
mod leaving;
mod lifecycle;
mod local_out;
mod local_step;
mod lookups;
mod move_images;
mod move_orders;
mod overdue_processes;
mod probe_steps;
mod process_exit;
mod process_table;
mod rank_messages;
mod rank_process;
mod recovery_wait;
mod region_messages;
mod report;
mod restore;
mod starts;
mod user_signals;
mod vacated;

pub use host_state::Local;
pub use inputs::{LocalEffect, LocalInput};
pub use lifecycle::GRACE;
pub use rank_process::{CLOSED_GRACE, FORK_GRACE, WRAPPER_GRACE};
pub use recovery_wait::{FIRST_NOTE, RECOVERY_BOUND};
