//! The command lines of `mpirun` and `rejoin`.

mod advertised_site;
pub mod arguments;
mod duration;
mod folder_name;
mod host_list;
mod images_command;
mod job;
mod jobs;
mod log_line;
mod log_options;
mod manual;
mod move_command;
mod move_progress;
pub mod mpirun;
mod ports;
mod recordings;
pub mod rejoin_command;
mod replay_command;
mod report_command;
mod restart;
pub mod segments;
mod stop_options;
mod stop_time;
mod top_command;
mod top_frame;
mod variables;
mod verify_command;

use crate::standard_output;

/// Prints the parser's error, or the help or version that the user asked for. Returns the exit
/// code.
fn printed(program: &str, error: &clap::Error) -> i32 {
    let result = error.print();
    match error.use_stderr() {
        true => error.exit_code(),
        false => standard_output::exit_code(program, &result),
    }
}

/// Runs as a local or central manager when the hidden first argument says so.
#[must_use]
pub fn as_local_manager() -> Option<i32> {
    let hidden = std::env::args_os().nth(1)?;
    if hidden == crate::LOCAL_MANAGER {
        return Some(crate::local::run());
    }
    if hidden == crate::CENTRAL_MANAGER {
        return Some(crate::central::run());
    }
    (hidden == crate::REMOTE_MANAGER).then(crate::local::run_invited)
}
