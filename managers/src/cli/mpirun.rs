//! The command line of `mpirun`.

use super::{cores, segments};
use crate::launcher::{self, Launch};
use crate::logs;
use crate::plan::{Bind, Plan, Program};
use clap::{CommandFactory, FromArgMatches, Parser, ValueEnum};
use rejoin_channel_table::{JobId, JobKey, Rank};
use rejoin_managers_protocol::rank::RankOptions;
use serde_bytes::ByteBuf;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Runs MPI programs.
#[derive(Debug, Parser)]
#[command(
    name = "mpirun",
    version,
    override_usage = "mpirun [OPTIONS] PROGRAM [ARGS]... [: [-n N] [-x VAR[=VALUE]] [--wdir DIR] PROGRAM [ARGS]...]...",
    after_help = "\
Several programs are separated by ':'. Options for the whole job stand before the first program.
Every rank finds REJOIN_RANK, REJOIN_SIZE, REJOIN_LOCAL_RANK and REJOIN_LOCAL_SIZE in its environment.
Signals to mpirun are passed on to the ranks; a second SIGINT or SIGTERM kills them.
The exit code is that of the first rank that fails (128 + N for signal N), or 124 after --timeout.
REJOIN_LOG=info (or debug) shows what the managers do."
)]
pub struct Arguments {
    #[command(flatten)]
    job: JobArguments,
    #[command(flatten)]
    program: ProgramArguments,
}

/// Options of the whole job.
#[derive(Debug, clap::Args)]
struct JobArguments {
    /// Put [rank]<stdout> or [rank]<stderr> before each line of output
    #[arg(long)]
    tag_output: bool,
    /// End the job after so many seconds, with exit code 124
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<f64>,
    /// What ranks talk over
    #[arg(long, value_name = "NAME", default_value = "tcp")]
    transport: String,
    /// What happens when a rank is lost
    #[arg(long, value_name = "MODE", default_value = "none")]
    recovery: String,
    /// Bind each rank to a core, or none
    #[arg(
        long,
        visible_alias = "bind",
        value_name = "WHAT",
        default_value = "none"
    )]
    bind_to: BindTo,
    /// Allow more ranks than cores (always allowed)
    #[arg(long)]
    oversubscribe: bool,
    /// Interface or address that ranks listen on
    #[arg(long, alias = "iface", value_name = "NAME")]
    interface: Option<String>,
    /// TCP ports that ranks listen on
    #[arg(long, value_name = "FIRST-LAST", value_parser = port_range)]
    port_range: Option<(u16, u16)>,
    /// Microseconds that a rank spins before it blocks
    #[arg(long, value_name = "MICROSECONDS")]
    spin: Option<u32>,
    /// Largest message that is sent without asking, in bytes
    #[arg(long, value_name = "BYTES")]
    eager_max: Option<u32>,
    /// Show counters of each rank at the end
    #[arg(long)]
    stats: bool,
    /// Rank that reads standard input, or none
    #[arg(long, value_name = "RANK|none", default_value = "0", value_parser = stdin_rank)]
    stdin: Stdin,
    /// Read programs from a file, one per line, as they would stand between colons
    #[arg(long, value_name = "FILE")]
    app: Option<PathBuf>,
    /// Say what happens
    #[arg(short, long)]
    verbose: bool,
}

/// Options of one program.
#[derive(Debug, clap::Args)]
struct ProgramArguments {
    /// Number of ranks [default: 1]
    #[arg(short, long = "np", visible_short_alias = 'c', value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    n: Option<u32>,
    /// Pass a variable on, or set it
    #[arg(
        short = 'x',
        value_name = "VAR[=VALUE]",
        num_args = 1,
        allow_hyphen_values = true
    )]
    variables: Vec<OsString>,
    /// Working directory of the ranks
    #[arg(long, alias = "wd", value_name = "DIR")]
    wdir: Option<PathBuf>,
    /// Hosts to run on (this one only, so far)
    #[arg(short = 'H', long, alias = "hosts", value_name = "NAMES")]
    host: Option<String>,
    /// Program and its arguments
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    command: Vec<OsString>,
}

/// What follows a colon.
#[derive(Debug, Parser)]
#[command(name = "mpirun", disable_help_flag = true)]
struct Further {
    #[command(flatten)]
    program: ProgramArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BindTo {
    /// Ranks run where the kernel puts them
    None,
    /// One core per rank, in the order of the ranks
    Core,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stdin {
    None,
    Rank(u32),
}

fn stdin_rank(text: &str) -> Result<Stdin, String> {
    if text == "none" {
        return Ok(Stdin::None);
    }
    text.parse()
        .map(Stdin::Rank)
        .map_err(|_| "a rank or none is needed".to_string())
}

fn port_range(text: &str) -> Result<(u16, u16), String> {
    let (first, last) = text.split_once(['-', ':']).ok_or("FIRST-LAST is needed")?;
    let port = |t: &str| t.trim().parse::<u16>().map_err(|e| format!("{t}: {e}"));
    let (first, last) = (port(first)?, port(last)?);
    if first == 0 || first > last {
        return Err("the first port must be above 0 and not above the last".into());
    }
    Ok((first, last))
}

/// Runs `mpirun` with the arguments of this process. Returns the exit code.
#[must_use]
pub fn main() -> i32 {
    if let Some(code) = super::as_local_manager() {
        return code;
    }
    run(std::env::args_os().skip(1).collect())
}

/// Runs `mpirun` with these arguments. Returns the exit code.
#[must_use]
pub fn run(arguments: Vec<OsString>) -> i32 {
    match parse(arguments) {
        Ok(launch) => launcher::run(launch),
        Err(Refused::Clap(error)) => {
            // Help goes to standard output and is no failure.
            let _ = error.print();
            error.exit_code()
        }
        Err(Refused::Text(text)) => {
            eprintln!("mpirun: {text}");
            2
        }
    }
}

enum Refused {
    Clap(Box<clap::Error>),
    Text(String),
}

impl From<clap::Error> for Refused {
    fn from(error: clap::Error) -> Self {
        Refused::Clap(Box::new(error))
    }
}

impl From<String> for Refused {
    fn from(text: String) -> Self {
        Refused::Text(text)
    }
}

impl From<&str> for Refused {
    fn from(text: &str) -> Self {
        Refused::Text(text.into())
    }
}

fn parse(arguments: Vec<OsString>) -> Result<Launch, Refused> {
    let mut parts = segments::split(arguments).into_iter();
    let mut command = Arguments::command();
    // Building gives aliases and help their final form.
    command.build();
    let first = segments::two_dashes(&command, parts.next().unwrap_or_default());
    let matches = command.try_get_matches_from(named(first))?;
    let arguments = Arguments::from_arg_matches(&matches)?;
    logs::init("mpirun", arguments.job.verbose);
    let mut programs = Vec::new();
    if arguments.job.app.is_none() || !arguments.program.command.is_empty() {
        programs.push(arguments.program);
    }
    for part in parts {
        programs.push(further(part)?);
    }
    if let Some(file) = &arguments.job.app {
        programs.extend(app_file(file)?);
    }
    if programs.is_empty() {
        return Err("the application file names no program".into());
    }
    build(&arguments.job, programs)
}

fn named(arguments: Vec<OsString>) -> impl Iterator<Item = OsString> {
    std::iter::once(OsString::from("mpirun")).chain(arguments)
}

fn further(part: Vec<OsString>) -> Result<ProgramArguments, Refused> {
    let mut command = Further::command();
    command.build();
    let part = segments::two_dashes(&command, part);
    let matches = command.try_get_matches_from(named(part))?;
    Ok(Further::from_arg_matches(&matches)?.program)
}

fn app_file(file: &PathBuf) -> Result<Vec<ProgramArguments>, Refused> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).map_err(|e| format!("can't read {shown}: {e}"))?;
    let mut programs = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let words = segments::words(line).map_err(|e| format!("{shown}, line {number}: {e}"))?;
        for part in segments::split(words) {
            if !part.is_empty() {
                programs.push(further(part)?);
            }
        }
    }
    Ok(programs)
}

fn build(job: &JobArguments, programs: Vec<ProgramArguments>) -> Result<Launch, Refused> {
    check_not_there_yet(job, &programs)?;
    let limit = match job.timeout {
        Some(seconds) if seconds > 0.0 && seconds < 1e9 => Some((seconds * 1000.0).ceil() as u64),
        Some(_) => return Err("--timeout needs a number of seconds above 0".into()),
        None => None,
    };
    let mut ranks = Vec::new();
    let mut list = Vec::new();
    for (program, index) in programs.into_iter().zip(0u32..) {
        let count = program.n.unwrap_or(1);
        let start = ranks.len() as u32;
        ranks.extend((start..start + count).map(|rank| (Rank(rank), index)));
        list.push(program_of(program)?);
    }
    let size = ranks.len() as u32;
    let stdin = match job.stdin {
        Stdin::Rank(rank) if rank >= size => {
            return Err(format!("--stdin {rank}: there are {size} ranks only").into());
        }
        Stdin::Rank(rank) => Some(Rank(rank)),
        Stdin::None => None,
    };
    let usable = cores::usable().len();
    if job.bind_to == BindTo::Core && ranks.len() > usable {
        tracing::warn!("{size} ranks share {usable} cores");
    }
    let (id, key) = secrets()?;
    let options = RankOptions {
        interface: job.interface.clone(),
        port_range: job.port_range,
        spin: job.spin,
        eager_max: job.eager_max,
        stats: job.stats,
        ..RankOptions::default()
    };
    let bind = if job.bind_to == BindTo::Core {
        Bind::Core
    } else {
        Bind::None
    };
    let interactive = std::io::stdin().is_terminal() && stdin.is_some();
    let plan = Plan {
        job: id,
        key,
        size,
        programs: list,
        ranks,
        options,
        bind,
        stdin,
        interactive,
    };
    Ok(Launch {
        plan,
        limit,
        tag: job.tag_output,
    })
}

/// Names what is planned but not built, rather than ignoring it.
fn check_not_there_yet(job: &JobArguments, programs: &[ProgramArguments]) -> Result<(), Refused> {
    match job.transport.as_str() {
        "tcp" => {}
        "shm" | "verbs" => {
            return Err(format!("--transport {} is not there yet; tcp is", job.transport).into());
        }
        other => return Err(format!("--transport {other}: there is no such transport").into()),
    }
    match job.recovery.as_str() {
        "none" => {}
        mode @ ("coordinated" | "sender-log" | "receiver-log") => {
            return Err(format!("--recovery {mode} is not there yet; none is").into());
        }
        other => return Err(format!("--recovery {other}: there is no such mode").into()),
    }
    let own = nix::unistd::gethostname().unwrap_or_default();
    for name in programs
        .iter()
        .filter_map(|p| p.host.as_ref())
        .flat_map(|h| h.split(','))
    {
        let name = name.split_once(':').map_or(name, |(name, _)| name);
        if name != "localhost" && name != "127.0.0.1" && own != *name {
            return Err(
                format!("--host {name}: other hosts than this one are not there yet").into(),
            );
        }
    }
    Ok(())
}

fn program_of(arguments: ProgramArguments) -> Result<Program, Refused> {
    if arguments.command.is_empty() {
        return Err("there is no program to run; see mpirun --help".into());
    }
    // The parser takes what it does not know for the program.
    if arguments.command[0].as_encoded_bytes().starts_with(b"-") {
        let option = arguments.command[0].to_string_lossy();
        let place = "options of the job stand before the first program";
        return Err(format!("unknown option {option} ({place}); see mpirun --help").into());
    }
    let mut set = Vec::new();
    for variable in arguments.variables {
        let text = variable.clone().into_vec();
        let at = text.iter().position(|&b| b == b'=');
        let (name, value) = match at {
            Some(0) => return Err("-x needs the name of a variable".into()),
            Some(at) => (text[..at].to_vec(), text[at + 1..].to_vec()),
            None => match std::env::var_os(&variable) {
                Some(value) => (text, value.into_vec()),
                None => {
                    return Err(format!("-x {}: not set here", variable.to_string_lossy()).into());
                }
            },
        };
        set.push((ByteBuf::from(name), ByteBuf::from(value)));
    }
    Ok(Program {
        argv: arguments
            .command
            .into_iter()
            .map(|a| ByteBuf::from(a.into_vec()))
            .collect(),
        set,
        wdir: arguments
            .wdir
            .map(|dir| ByteBuf::from(dir.into_os_string().into_vec())),
    })
}

/// A fresh job id and key from the kernel's random generator.
fn secrets() -> Result<(JobId, JobKey), String> {
    let mut bytes = [0u8; 40];
    // SAFETY: the buffer is as long as we say. Up to 256 bytes come at once or not at all.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if got != bytes.len() as isize {
        return Err("the system gives no random numbers for the job's key".into());
    }
    let (id, key) = bytes.split_at(8);
    let id = u64::from_ne_bytes(id.try_into().unwrap_or_default());
    Ok((JobId(id), JobKey::new(key.try_into().unwrap_or_default())))
}
