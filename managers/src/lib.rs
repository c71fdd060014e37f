//! The managers' daemons and the command line.
//!
//! `mpirun` is the sink of the job's streams ([`mpirun`]). It starts the same program again as a
//! local manager, which starts and watches the ranks ([`local`]), and as the central manager
//! ([`central`]). Each of them has one thread, and mpirun another one while a manager starts
//! ([`launch::child_manager`]). The cores in `rejoin-managers-protocol` make all decisions.

/// For `say_line!`, which all modules use.
#[macro_use(say_line)]
extern crate rejoin_managers_stdio;

pub mod central;
pub mod cli;
pub mod doctor;
pub mod fault;
pub mod launch;
pub mod local;
pub mod logs;
pub mod mpirun;
pub mod replay;
pub mod saved_images;
pub mod standard_output;
pub mod stored_entries;

#[cfg(test)]
use rejoin_tests::processes::alone;

/// First argument of the hidden subcommand that turns this program into a local manager, whose
/// link to central is its standard input.
pub const LOCAL_MANAGER: &str = "__local-manager";

/// First argument of the hidden subcommand for a local manager on another host: an invitation on
/// standard input says how to call mpirun back.
pub const REMOTE_MANAGER: &str = "__remote-manager";

/// The argument that turns it into a central manager.
pub const CENTRAL_MANAGER: &str = "__central-manager";
