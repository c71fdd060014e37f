//! The command line of `rejoin`, the operator's program.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::images_command::ImagesCommand;
use super::{
    arguments, images_command, jobs, manual, move_command, replay_command, report_command,
    top_command, verify_command,
};
use crate::{doctor, standard_output};
use clap::{CommandFactory as _, Parser, Subcommand};

/// Looks after Rejoin jobs and machines.
#[derive(Debug, Parser)]
#[command(name = "rejoin", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check this machine, or a program, and say what is missing and what that costs
    Doctor {
        /// Say for which MPI this program or library was made, and which of its functions are not
        /// there [default: check the machine]
        program: Option<OsString>,
        /// Print the findings as JSON
        #[arg(long)]
        json: bool,
        /// Measure how long messages between two ranks of this host take by each way that they can
        /// go
        #[arg(long, conflicts_with = "program")]
        transports: bool,
        /// Be one of the two ranks
        #[arg(long, hide = true)]
        transport_rank: bool,
    },
    /// Show your running jobs on this host: ranks, checkpoints, failures
    Status {
        /// Which job: the beginning of its name, or the process id of its mpirun [default: all]
        job: Option<String>,
        /// Print a list of jobs as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show your running jobs on this host again every second: ranks by state, checkpoints, stalls,
    /// failures; q ends. Without a terminal, print one table
    Top {
        /// Which job: the beginning of its name, or the process id of its mpirun [default: all]
        job: Option<String>,
    },
    /// Let a job take a checkpoint, and wait until it is committed or aborted
    Checkpoint {
        /// Which job: the beginning of its name, or the process id of its mpirun [default: the only
        /// one]
        job: Option<String>,
    },
    /// Move ranks of a running job to another host, and wait until they are there. Only these ranks
    /// pause, and nothing is done again
    Migrate {
        #[command(flatten)]
        what: move_command::MigratedRanks,
        /// The host that takes them in; it is one of the job's, or one of mpirun --spare [default:
        /// the hosts with the fewest ranks]
        #[arg(long, value_name = "HOST")]
        to: Option<String>,
        /// Which job: the beginning of its name, or the process id of its mpirun [default: the only
        /// one]
        #[arg(long)]
        job: Option<String>,
    },
    /// Move all ranks of a host to others, for good: the host's manager ends when the job does not
    /// need it any more
    Drain {
        /// The name of the host
        host: String,
        /// The host that takes the ranks in [default: the hosts with the fewest ranks]
        #[arg(long, value_name = "HOST")]
        to: Option<String>,
        /// Which job: the beginning of its name, or the process id of its mpirun [default: the only
        /// one]
        #[arg(long)]
        job: Option<String>,
    },
    /// Add hosts to a running job: ranks can move there, and come there when another host is lost
    AddHost {
        /// The hosts, each with its number of slots [default: 1]
        #[arg(value_name = "HOST[:SLOTS],...")]
        hosts: String,
        /// Which job: the beginning of its name, or the process id of its mpirun [default: the only
        /// one]
        #[arg(long)]
        job: Option<String>,
    },
    /// Write a page about a job: a timeline of its ranks, checkpoints, failures and recoveries, as
    /// one file of HTML that needs no network and no scripts
    Report {
        /// A file of mpirun --events, or a running job: the beginning of its name, or the process
        /// id of its mpirun. A file of this name comes first
        #[arg(value_name = "JOB|EVENTS")]
        source: PathBuf,
        /// Write the page to this file [default: standard output]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// List, check and remove what jobs have stored in a folder of mpirun --images
    Images {
        #[command(subcommand)]
        command: ImagesCommand,
    },
    /// Run one rank of a recorded job (mpirun --record) again, alone: it gets the messages and the
    /// answers that it got then
    Replay {
        /// The folder of the recordings
        folder: PathBuf,
        /// Rank in the recorded job
        #[arg(long, value_name = "RANK")]
        rank: u32,
        /// A program that runs the rank, such as gdb --args. It stops where the rank does something
        /// else than it did
        #[arg(last = true, value_name = "WRAPPER")]
        wrapper: Vec<OsString>,
    },
    /// Run a job with a recording, then each of its ranks again, alone, and name the first call of
    /// each that differs. Message logging needs programs in which none does
    VerifyDeterminism {
        /// Keep the recordings in this folder
        #[arg(long, value_name = "DIR")]
        record: Option<PathBuf>,
        /// Options of mpirun, and the program
        #[arg(
            trailing_var_arg = true,
            allow_hyphen_values = true,
            required = true,
            value_name = "MPIRUN ARGUMENTS"
        )]
        arguments: Vec<OsString>,
    },
    /// Print the version of Rejoin and of what its parts speak
    Version,
    /// Write the man pages and shell completions below a folder, for an installation
    #[command(hide = true)]
    Manual {
        /// The folder of the installation
        prefix: PathBuf,
    },
}

/// Runs `rejoin` with the arguments of this process. Returns the exit code.
#[must_use]
pub fn main() -> i32 {
    if let Some(code) = super::as_local_manager() {
        return code;
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return super::printed("rejoin", &error),
    };
    match arguments.command {
        Command::Doctor {
            transport_rank: true,
            ..
        } => doctor::transports::as_rank(),
        Command::Doctor {
            transports: true,
            json,
            ..
        } => doctor::transports::run(json),
        Command::Doctor { program, json, .. } => doctor::run(program.as_deref(), json),
        Command::Status { job, json } => jobs::status(job.as_deref(), json),
        Command::Top { job } => top_command::run(job.as_deref()),
        Command::Checkpoint { job } => jobs::checkpoint(job.as_deref()),
        Command::Migrate { what, to, job } => move_command::migrate(&what, to, job.as_deref()),
        Command::Drain { host, to, job } => move_command::drain(host, to, job.as_deref()),
        Command::AddHost { hosts, job } => move_command::add_hosts(&hosts, job.as_deref()),
        Command::Report { source, output } => report_command::run(&source, output.as_deref()),
        Command::Images { command } => images_command::run(&command),
        Command::Replay {
            folder,
            rank,
            wrapper,
        } => replay_command::run(&folder, rank, &wrapper),
        Command::VerifyDeterminism { record, arguments } => {
            verify_command::run(record.as_deref(), &arguments)
        }
        Command::Manual { prefix } => write_manual(&prefix),
        Command::Version => {
            let protocol = rejoin_wire::VERSION;
            let text = format!(
                "rejoin {}\nMPI standard 5.0, ABI 1.0\nmanagers' protocol {protocol}\n",
                env!("CARGO_PKG_VERSION")
            );
            standard_output::print("rejoin", &text)
        }
    }
}

fn write_manual(prefix: &Path) -> i32 {
    let mpirun = arguments::Arguments::command();
    let Err(error) = manual::write(prefix, &mpirun, &Arguments::command()) else {
        return 0;
    };
    let (prefix, error) = (
        prefix.display(),
        rejoin_managers_host::error::system_text(&error),
    );
    say_line!("rejoin: can't write the man pages and completions below {prefix}: {error}");
    1
}
