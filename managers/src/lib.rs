//! The managers' daemons and the command line.
//!
//! `mpirun` is the sink of the job's streams and relays between its managers ([`mpirun`]). It
//! starts a local manager, the same program again, which starts and watches the ranks ([`local`]),
//! and, for a job that can go back, the central manager ([`central`]); of another job it is that
//! itself. All are one thread each; what they decide is decided in `rejoin-managers-protocol`.

pub mod central;
pub mod cli;
pub mod clock;
pub mod doctor;
pub mod error;
pub mod fault;
pub mod host;
pub mod launch;
pub mod local;
pub mod logs;
pub mod mpirun;
pub mod net;
pub mod report;
pub mod stdio;

/// For tests that make processes, and those whose locked files such a process would have open until
/// it runs its program: one at a time.
#[cfg(test)]
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ONE.lock().unwrap_or_else(|e| e.into_inner())
}

/// First argument of the hidden subcommand that turns this program into a local manager, whose
/// link to central is its standard input.
pub const LOCAL_MANAGER: &str = "__local-manager";

/// The same on another host: an invitation on standard input says how to call mpirun back.
pub const REMOTE_MANAGER: &str = "__remote-manager";

/// What turns it into a central manager.
pub const CENTRAL_MANAGER: &str = "__central-manager";
