//! The managers' daemons and the command line.
//!
//! `mpirun` is the job's central manager and the sink of its streams ([`launcher`]). It starts a
//! local manager, the same program again, which starts and watches the ranks ([`local`]). Both are
//! one thread each around one epoll; what they decide is decided in `rejoin-managers-protocol`.

pub mod ask;
pub mod cli;
pub mod clock;
pub mod descendants;
pub mod doctor;
pub mod error;
pub mod fault;
pub mod journal;
pub mod launcher;
pub mod limits;
pub mod lines;
pub mod link;
pub mod local;
pub mod logs;
pub mod machines;
pub mod net;
pub mod plan;
pub mod reactor;
pub mod rundir;
pub mod signals;
pub mod spawn;

/// First argument of the hidden subcommand that turns this program into a local manager, whose
/// link to central is its standard input.
pub const LOCAL_MANAGER: &str = "__local-manager";

/// The same on another host: an invitation on standard input says how to call mpirun back.
pub const REMOTE_MANAGER: &str = "__remote-manager";
