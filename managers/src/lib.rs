//! The managers' daemons and the command line.
//!
//! `mpirun` is the sink of the job's streams ([`mpirun`]). It starts the same program again as a
//! local manager, which starts and watches the ranks ([`local`]), and as the central manager
//! ([`central`]). Each of them has one thread, and mpirun another one while a manager starts
//! ([`launch::child_manager`]). The cores in `rejoin-managers-protocol` make all decisions.

/// Writes a line on standard error. A line without a reader or without room is lost: `eprintln!`
/// would end the process instead.
macro_rules! say_line {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        $crate::terminal_line::clear();
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

pub mod central;
pub mod cli;
pub mod doctor;
pub mod error;
pub mod fault;
pub mod host;
pub mod host_clocks;
pub mod launch;
pub mod local;
pub mod logs;
pub mod mpirun;
pub mod net;
pub mod replay;
pub mod report;
pub mod saved_images;
pub mod standard_output;
pub mod stdio;
pub mod stored_entries;
pub mod terminal_line;

/// A lock for tests that make processes, and for tests with locked files, which such a process
/// would have open until it runs its program. One such test runs at a time.
#[cfg(test)]
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ONE.lock().unwrap_or_else(|e| e.into_inner())
}

/// First argument of the hidden subcommand that turns this program into a local manager, whose
/// link to central is its standard input.
pub const LOCAL_MANAGER: &str = "__local-manager";

/// First argument of the hidden subcommand for a local manager on another host: an invitation on
/// standard input says how to call mpirun back.
pub const REMOTE_MANAGER: &str = "__remote-manager";

/// The argument that turns it into a central manager.
pub const CENTRAL_MANAGER: &str = "__central-manager";
