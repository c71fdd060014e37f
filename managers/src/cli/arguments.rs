//! The options of `mpirun` and how their values are read.

use super::duration::milliseconds;
use super::stop_time::{stop_signal, stop_time};
use crate::launch::linked_mpi::ProgramAbi;
use crate::launch::named_job::check_name;
use crate::mpirun::StopTime;
use bytesize::ByteSize;
use clap::builder::ArgPredicate;
use clap::{Parser, ValueEnum};
use rejoin_managers_protocol::checkpoint::Interval;
use rejoin_managers_protocol::detector::Detector;
use rejoin_wire::{RecoveryMode, parse_port_range, parse_seconds};
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// How the user set this value of an option: on the command line, or by a variable.
pub(super) type Given<'a> = &'a dyn Fn(&str, &str) -> String;

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
The exit code is that of the first rank that fails (128 + N for signal N), 85 after a stop with a last
checkpoint (--stop-at, --grace), 124 after --timeout, 141 when
nobody reads the output any more, 1 when it can't be written, 2 when the command line is wrong.
REJOIN_LOG=info (or debug) shows what the managers do."
)]
pub struct Arguments {
    #[command(flatten)]
    pub(super) job: JobArguments,
    #[command(flatten)]
    pub(super) program: ProgramArguments,
}

/// Options of the whole job.
#[derive(Debug, clap::Args)]
pub(super) struct JobArguments {
    /// Put [rank]<stdout> or [rank]<stderr> before each line of output
    #[arg(long)]
    pub(super) tag_output: bool,
    /// When output is shown: now (what is repeated after a failure is dropped), or commit (when the
    /// checkpoint after it is committed, so that nothing shown is ever taken back)
    #[arg(long, value_name = "WHEN", default_value = "now")]
    pub(super) output: OutputAt,
    /// End the job after this time (seconds, or with a unit: 250ms, 90s, 5m, 2h), with exit code
    /// 124
    #[arg(long, env = "MPIEXEC_TIMEOUT", value_name = "TIME", value_parser = milliseconds, allow_hyphen_values = true)]
    pub(super) timeout: Option<u64>,
    /// What ranks of one host talk over
    #[arg(long, env = "REJOIN_TRANSPORT", value_enum, default_value_t = Carrier::Auto)]
    pub(super) transport: Carrier,
    /// The binary interface of the programs: auto (what each is linked with), standard (of the MPI
    /// standard, libmpi_abi.so.1), openmpi (of Open MPI 4.1 and 5.0, libmpi.so.40) or mpich (of
    /// MPICH, Intel MPI and MVAPICH, libmpi.so.12); also for scripts that load such a library
    #[arg(long, env = "REJOIN_ABI", value_enum, default_value_t)]
    pub(super) abi: ProgramAbi,
    /// What happens when a rank is lost: coordinated (all ranks go back to the last checkpoint),
    /// sender-log (only the rank's recovery group goes back, and senders repeat what it had
    /// received), receiver-log (the same, but receivers log messages, and no message waits until
    /// nondeterministic answers are stored elsewhere; after the loss of a host, ranks that depend
    /// on lost ones go back, too) or none (the job ends). With --record the default is none
    #[arg(
        long,
        env = "REJOIN_RECOVERY",
        value_name = "MODE",
        default_value = "coordinated",
        default_value_if("record", ArgPredicate::IsPresent, "none")
    )]
    pub(super) recovery: String,
    /// The recovery groups of sender-log: each rank is one, or the ranks of each host are. The
    /// default is host in a job on several hosts, and rank on one
    #[arg(long, env = "REJOIN_LOG_GROUP", value_enum)]
    pub(super) log_group: Option<LogGroup>,
    /// Bytes of messages that a rank retains for other groups: a number, or one with a unit such as
    /// 200MB. At half of it the rank requests a checkpoint; at all of it, it sends nothing more to
    /// other groups until checkpoints make room. The default is a quarter of the host's memory,
    /// divided among the ranks of the host
    #[arg(long, env = "REJOIN_LOG_LIMIT", value_name = "BYTES", value_parser = log_limit, allow_hyphen_values = true)]
    pub(super) log_limit: Option<u64>,
    /// Folder on each host for files into which long messages spill that are retained for other
    /// groups: half of --log-limit stays in memory. So checkpoints may be further apart. It should
    /// be on a disk of the host
    #[arg(long, env = "REJOIN_LOG_SPILL", value_name = "DIR")]
    pub(super) log_spill: Option<PathBuf>,
    /// Bytes of this file for each rank, which are reserved when the rank begins. The default is
    /// twice --log-limit
    #[arg(long, env = "REJOIN_LOG_SPILL_LIMIT", value_name = "BYTES", value_parser = log_limit, allow_hyphen_values = true)]
    pub(super) log_spill_limit: Option<u64>,
    /// Where the nondeterministic answers of sender-log are before anything that depends on them
    /// leaves a rank: in memory of its local manager, which outlives the rank, or also on mpirun's
    /// host, which outlives the rank's. The default is node in a job on several hosts with files of
    /// images, and rank otherwise
    #[arg(long, env = "REJOIN_STABLE", value_enum)]
    pub(super) stable: Option<Stable>,
    /// Time between checkpoints: TIME (as --timeout), auto (from what they cost and how often ranks
    /// are lost), or asked (only when asked for)
    #[arg(long, env = "REJOIN_CHECKPOINT_INTERVAL", value_name = "TIME|auto|asked", default_value = "auto", value_parser = interval, allow_hyphen_values = true)]
    pub(super) checkpoint_interval: Interval,
    /// Take a checkpoint on this signal to mpirun, which is then not passed on: HUP, QUIT, USR1 or
    /// USR2
    #[arg(long, value_name = "SIGNAL", value_parser = checkpoint_signal)]
    pub(super) checkpoint_signal: Option<i32>,
    /// Recoveries that a job may have within ten minutes; a further failure ends it
    #[arg(long, value_name = "N", default_value = "20", value_parser = count, allow_hyphen_values = true)]
    pub(super) max_restarts: u32,
    /// Roll back even if ranks write to memory that they share with other processes, or have
    /// overwritten large files, which a rollback does not take back. Without this option such a
    /// failure ends the job
    #[arg(long)]
    pub(super) accept_external_state: bool,
    /// Append a line of JSON to a file for each checkpoint, failure and recovery
    #[arg(long, value_name = "FILE")]
    pub(super) events: Option<PathBuf>,
    /// Write a recording of each rank to this folder, from which rejoin replay runs the rank again,
    /// alone: all that it receives, and how its calls are answered. Each host writes those of its
    /// ranks
    #[arg(long, value_name = "DIR")]
    pub(super) record: Option<PathBuf>,
    /// Answer HTTP requests for metrics (Prometheus) at this address, /metrics: PORT (of this host
    /// only) or IP:PORT; port 0: any free one, which is said
    #[arg(long, value_name = "[IP:]PORT", value_parser = metrics_address)]
    pub(super) metrics: Option<SocketAddr>,
    /// Folder for images of the ranks' processes, by which ranks come back even if their images in
    /// memory, or a host, are lost. Hosts that do not share it copy each other's files. If all
    /// ranks see the folder, also for memory that the program registers (MPIX_Register_region). A
    /// job on several hosts has a folder of its own in TMPDIR without this option; none: no files
    #[arg(long, value_name = "DIR|none")]
    pub(super) images: Option<PathBuf>,
    /// Time between checkpoints whose images go to files: TIME (as --timeout), auto (from how
    /// long the last files took and how often ranks are lost), or asked (only when asked for)
    #[arg(long, value_name = "TIME|auto|asked", default_value = "auto", value_parser = interval, allow_hyphen_values = true)]
    pub(super) image_interval: Interval,
    /// Time between checkpoints whose files go to partner hosts, in a job on several hosts that do
    /// not share the folder: TIME (as --timeout), auto (from how long the last copies took and how
    /// often ranks are lost), or asked (only when asked for). Without this option each checkpoint
    /// in files does, and the next files are written when the copies are whole
    #[arg(long, value_name = "TIME|auto|asked", value_parser = interval, allow_hyphen_values = true)]
    pub(super) image_copy_interval: Option<Interval>,
    /// Instead of copies, another host keeps the parity (exclusive or) of the files of so many
    /// hosts: they take that much less room, and one host of each group can be lost. More hosts
    /// than that must have ranks
    #[arg(long, value_name = "HOSTS", value_parser = clap::value_parser!(u32).range(2..=8), allow_hyphen_values = true)]
    pub(super) image_parity: Option<u32>,
    /// Bytes a second at most that a host copies of other hosts' images, and that it gives to all
    /// others: a number, or one with a unit such as 200MB. A rank that waits for its image gets it
    /// without a limit
    #[arg(long, value_name = "BYTES", value_parser = copy_rate, allow_hyphen_values = true)]
    pub(super) image_copy_rate: Option<u64>,
    /// Name of the job. Its images stay in the folder of --images until it ends well, so that
    /// --restart=NAME can continue it after all of its processes have ended
    #[arg(long, value_name = "NAME", requires = "images", value_parser = check_name)]
    pub(super) job_name: Option<String>,
    /// How files of images are compressed: lz4 (smaller files, which take more processor time), or
    /// none. What does not get shorter stays as it is. A restart finds out by itself
    #[arg(
        long,
        value_name = "lz4|none",
        default_value = "none",
        hide_possible_values = true
    )]
    pub(super) image_compression: Compression,
    /// Continue the job of this name from its last checkpoint; the program comes from its images.
    /// Without a name: continue from what a job stored in the folder of --images, with MPI_Rejoin()
    /// filling the registered memory
    #[arg(long, value_name = "NAME", requires = "images")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "")]
    #[arg(conflicts_with = "job_name")]
    pub(super) restart: Option<String>,
    /// Stop the job at this time with a last checkpoint, and exit with code 85. The job then
    /// continues with --restart=NAME. TIME: 17:30, 2026-11-24T06:00, or from the start: +90s, +2h
    #[arg(long, value_name = "TIME", requires = "images", value_parser = stop_time, allow_hyphen_values = true)]
    pub(super) stop_at: Option<StopTime>,
    /// On SIGTERM to mpirun, stop the job as --stop-at does; if the checkpoint is not in files
    /// within this time, pass SIGTERM on to the ranks. A second SIGTERM kills them
    #[arg(long, value_name = "TIME", requires = "images", value_parser = milliseconds, allow_hyphen_values = true)]
    pub(super) grace: Option<u64>,
    /// Signals for --grace in place of TERM: HUP, QUIT, TERM, USR1 or USR2, with commas between
    /// them
    #[arg(long, value_name = "SIGNAL,...", requires = "grace", value_delimiter = ',', default_value = "TERM", value_parser = stop_signal)]
    pub(super) stop_signal: Vec<i32>,
    /// Read the hosts from a file: a line each, NAME[@SITE][:SLOTS] or NAME [slots=SLOTS]
    /// [site=SITE]
    #[arg(long, alias = "machinefile", value_name = "FILE")]
    pub(super) hostfile: Option<PathBuf>,
    /// A site whose hosts have private addresses: others reach them at this address, where a router
    /// passes the ports on. Each host of the site has an equal part of them, in the order of the
    /// hosts; ports stay the same. May be given for several sites
    #[arg(long, value_name = "NAME=ADDRESS:FIRST-LAST")]
    pub(super) site: Vec<String>,
    /// Hosts that are kept free for the ranks of a host that is lost
    #[arg(long, value_name = "NAME[@SITE],...")]
    pub(super) spare: Option<String>,
    /// How long a host may be silent before it counts as lost
    #[arg(long, value_name = "TIME", default_value = "30", value_parser = milliseconds, allow_hyphen_values = true)]
    pub(super) host_patience: u64,
    /// Ranks of a host that is cut off are suspended after this time, until it is reachable again
    #[arg(long, value_name = "TIME", default_value = "5", value_parser = lease, allow_hyphen_values = true)]
    pub(super) host_lease: u64,
    /// How silent hosts are noticed: star (by the central manager), ring (local managers probe each
    /// other, which also finds lost links between two hosts), sporadic (the same, but only while a
    /// rank waits for a rank of another host), none (not before --host-patience, which is then
    /// also the length of a lease)
    #[arg(
        long,
        value_name = "star|ring|sporadic|none",
        default_value = "star",
        hide_possible_values = true
    )]
    pub(super) detector: DetectorName,
    /// Time between two probes of a host by --detector ring; with sporadic, how long a call of a
    /// rank waits before the host of the other rank is probed, and between two such probes
    #[arg(long, value_name = "TIME", default_value = "1", value_parser = probe_time, allow_hyphen_values = true)]
    pub(super) probe_interval: u64,
    /// How long a host may take to answer a probe. One that takes longer is asked by the central
    /// manager, too
    #[arg(long, value_name = "TIME", default_value = "1", value_parser = probe_time, allow_hyphen_values = true)]
    pub(super) probe_timeout: u64,
    /// Command that each local manager runs again and again (by sh -c) to ask how its host is: exit
    /// code 0: fine, 1: suspect (the host gets no ranks while another one has room), 2: leave (its
    /// ranks move to other hosts, as by rejoin drain). The first line of output is the reason
    #[arg(long, value_name = "COMMAND")]
    pub(super) health: Option<String>,
    /// Time from one start of the command of --health to the next
    #[arg(long, requires = "health", value_name = "TIME", default_value = "30", value_parser = milliseconds, allow_hyphen_values = true)]
    pub(super) health_interval: u64,
    /// The command of --health is killed after this time, and counts as one that gave no answer
    #[arg(long, requires = "health", value_name = "TIME", default_value = "10", value_parser = milliseconds, allow_hyphen_values = true)]
    pub(super) health_timeout: u64,
    /// Time that the ranks of a host have to move to others after SIGTERM to its local manager; the
    /// manager ends shortly before. none: it ends at once, as after a second SIGTERM
    #[arg(long, value_name = "TIME|none", default_value = "60", value_parser = leave_deadline, allow_hyphen_values = true)]
    pub(super) leave_deadline: LeaveDeadline,
    /// In which order ranks get places: slot or core (fill a host, neighbouring cores first, then
    /// the next host), socket or numa (the same, each socket or NUMA node of a host in turn), node
    /// (each host in turn)
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "slot",
        hide_possible_values = true
    )]
    pub(super) map_by: MapBy,
    /// Command that runs a program on another host; the host and the program follow [default: ssh
    /// -x -T]
    #[arg(
        long,
        alias = "launcher",
        env = "REJOIN_LAUNCH_AGENT",
        value_name = "COMMAND"
    )]
    pub(super) launch_agent: Option<String>,
    /// Folder of this installation on other hosts [default: the same as here]
    #[arg(long, value_name = "DIR")]
    pub(super) prefix: Option<PathBuf>,
    /// Bind each rank to a core, a socket or a NUMA node of its host, or to none; "shared": to a
    /// core where ranks share cores and each core gets as many, else to none
    #[arg(
        long,
        visible_alias = "bind",
        value_name = "core|socket|numa|shared|none",
        default_value = "shared",
        hide_possible_values = true
    )]
    pub(super) bind_to: BindTo,
    /// Say on which CPUs each rank runs
    #[arg(long)]
    pub(super) report_bindings: bool,
    /// Allow more ranks than cores (always allowed)
    #[arg(long)]
    pub(super) oversubscribe: bool,
    /// Where mpirun, the managers and the ranks listen: an interface by its name (eth0), or the
    /// addresses of a network (10.0.0.0/8)
    #[arg(
        long,
        alias = "iface",
        env = "REJOIN_TCP_INTERFACE",
        value_name = "NAME|NETWORK"
    )]
    pub(super) interface: Option<String>,
    /// TCP ports that ranks listen on
    #[arg(long, env = "REJOIN_TCP_PORTS", value_name = "FIRST-LAST", value_parser = parse_port_range, allow_hyphen_values = true)]
    pub(super) port_range: Option<(u16, u16)>,
    /// Microseconds that a rank spins before it blocks
    #[arg(long, env = "REJOIN_SPIN_US", value_name = "MICROSECONDS", value_parser = count, allow_hyphen_values = true)]
    pub(super) spin: Option<u32>,
    /// Largest message that is sent without asking, in bytes
    #[arg(long, env = "REJOIN_EAGER_MAX", value_name = "BYTES", value_parser = count, allow_hyphen_values = true)]
    pub(super) eager_max: Option<u32>,
    /// Show counters of each rank at the end
    #[arg(long)]
    pub(super) stats: bool,
    /// Rank that reads standard input, or none
    #[arg(long, value_name = "RANK|none", default_value = "0", value_parser = stdin_rank, allow_hyphen_values = true)]
    pub(super) stdin: Stdin,
    /// Read programs from a file, one per line, as they would stand between colons
    #[arg(long, value_name = "FILE")]
    pub(super) app: Option<PathBuf>,
    /// Say where ranks run, where they listen, and when the job reaches what
    #[arg(short, long)]
    pub(super) verbose: bool,
}

impl JobArguments {
    /// The mode of recovery; of one with a log, the log is not described. There is a check that the
    /// user has named one.
    pub(super) fn mode(&self) -> RecoveryMode {
        self.recovery.parse().unwrap_or_default()
    }

    /// The name of the job to be continued.
    pub(super) fn continued(&self) -> Option<&str> {
        self.restart.as_deref().filter(|name| !name.is_empty())
    }

    /// The folder of images that the user names.
    pub(super) fn images_folder(&self) -> Option<&Path> {
        let folder = self.images.as_deref();
        folder.filter(|folder| *folder != Path::new("none"))
    }

    /// Whether the job continues from registered memory.
    pub(super) fn loads_regions(&self) -> bool {
        self.restart.as_deref() == Some("")
    }
}

/// Options of one program.
#[derive(Debug, Default, clap::Args)]
pub(super) struct ProgramArguments {
    /// Number of ranks [default: 1]
    #[arg(short, long = "np", visible_short_alias = 'c', value_name = "N")]
    #[arg(value_parser = ranks, allow_hyphen_values = true)]
    pub(super) n: Option<u32>,
    /// Pass a variable on, or set it
    #[arg(
        short = 'x',
        value_name = "VAR[=VALUE]",
        num_args = 1,
        allow_hyphen_values = true
    )]
    pub(super) variables: Vec<OsString>,
    /// Working directory of the ranks
    #[arg(long, alias = "wd", value_name = "DIR")]
    pub(super) wdir: Option<PathBuf>,
    /// Hosts to run on, each with the number of ranks that it takes before the next host has its
    /// turn [default: 1]. SITE names the local network of the host and of those before it: what all
    /// hosts get crosses a slow link to a site once
    #[arg(
        short = 'H',
        long,
        alias = "hosts",
        value_name = "NAME[@SITE][:SLOTS],..."
    )]
    pub(super) host: Option<String>,
    /// Program and its arguments
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    pub(super) command: Vec<OsString>,
}

/// The options after a colon.
#[derive(Debug, Parser)]
#[command(name = "mpirun", disable_help_flag = true)]
pub(super) struct Further {
    #[command(flatten)]
    pub(super) program: ProgramArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum BindTo {
    /// Each rank to a core where ranks share cores and each core gets as many, else to none
    Shared,
    /// Ranks run where the kernel puts them
    None,
    /// Each rank to a core, all hardware threads of it
    Core,
    /// Each rank to the socket that its core is of
    #[value(alias = "package")]
    Socket,
    /// Each rank to the NUMA node that its core is of
    Numa,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum LogGroup {
    /// Each rank is a group
    Rank,
    /// The ranks that a host has at first are a group
    Host,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Stable {
    /// They outlive the rank
    Rank,
    /// They outlive its host
    Node,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Carrier {
    /// Shared memory between ranks of one host where it is available, else TCP
    Auto,
    /// TCP, as between hosts
    Tcp,
    /// Shared memory between ranks of one host; where there is none the job does not start
    Shm,
    #[value(hide = true)]
    Verbs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Compression {
    /// Files have the pages as they are in memory
    None,
    /// Runs of pages in the LZ4 block format
    Lz4,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum DetectorName {
    /// The central manager hears from each local manager
    Star,
    /// Each local manager probes another one
    Ring,
    /// Local managers probe while their ranks wait
    Sporadic,
    /// Nobody probes
    None,
}

impl From<DetectorName> for Detector {
    fn from(name: DetectorName) -> Detector {
        match name {
            DetectorName::Star => Detector::Star,
            DetectorName::Ring => Detector::Ring,
            DetectorName::Sporadic => Detector::Sporadic,
            DetectorName::None => Detector::None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum MapBy {
    /// Fill the slots of a host, then those of the next
    Slot,
    /// The same: on a host, neighbours get neighbouring cores
    Core,
    /// The same, but the sockets of a host get ranks in turn
    #[value(alias = "package")]
    Socket,
    /// The same, but its NUMA nodes do
    Numa,
    /// One rank per host in turn
    #[value(alias = "host")]
    Node,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputAt {
    /// As it comes
    Now,
    /// When it can't be taken back any more
    Commit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stdin {
    None,
    Rank(u32),
}

/// Milliseconds from SIGTERM to a local manager to its end, if it does not end at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LeaveDeadline(pub(super) Option<u64>);

fn leave_deadline(text: &str) -> Result<LeaveDeadline, String> {
    match text {
        "none" => Ok(LeaveDeadline(None)),
        time => milliseconds(time).map(|millis| LeaveDeadline(Some(millis))),
    }
}

/// Most ranks of one program.
const MOST_RANKS: u32 = 1_000_000;

fn ranks(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|n| (1..=MOST_RANKS).contains(n));
    number.ok_or_else(|| format!("a whole number from 1 to {MOST_RANKS} is needed"))
}

fn count(text: &str) -> Result<u32, String> {
    let wanted = || format!("a whole number from 0 to {} is needed", u32::MAX);
    text.parse().map_err(|_| wanted())
}

fn lease(text: &str) -> Result<u64, String> {
    let term = milliseconds(text).unwrap_or(0);
    if (1000..=3_600_000).contains(&term) {
        Ok(term)
    } else {
        Err("a time from 1 s to 1 h is needed, such as 5s".into())
    }
}

fn probe_time(text: &str) -> Result<u64, String> {
    let time = milliseconds(text).unwrap_or(0);
    match (10..=3_600_000).contains(&time) {
        true => Ok(time),
        false => Err("a time from 10 ms to 1 h is needed, such as 500ms".into()),
    }
}

fn interval(text: &str) -> Result<Interval, String> {
    let time = match text {
        "auto" => return Ok(Interval::Auto),
        "asked" => return Ok(Interval::Asked),
        time => parse_seconds(time).filter(|t| (0.01..=1e6).contains(t)),
    };
    let wanted = "a time from 10 ms to 1000000 s (such as 5m), auto or asked is needed";
    let time = time.ok_or(wanted)?;
    Ok(Interval::Every((time * 1000.0) as u64))
}

/// A lower rate would look like a connection that makes no progress.
const LEAST_COPY_RATE: u64 = 1_000_000;
/// Least limit of a log, in bytes.
const LEAST_LOG: u64 = 1_000_000;
/// Greatest one: more memory or a larger file than any host has.
const MOST_LOG: u64 = 16 << 40;

fn copy_rate(text: &str) -> Result<u64, String> {
    let rate = text.parse::<ByteSize>().map(|size| size.as_u64());
    let rate = rate.ok().filter(|rate| *rate >= LEAST_COPY_RATE);
    let wanted = "at least 1 MB is needed: a number of bytes, or one with MB, GB, MiB or GiB";
    rate.ok_or_else(|| wanted.into())
}

fn log_limit(text: &str) -> Result<u64, String> {
    let limit = text.parse::<ByteSize>().map(|size| size.as_u64());
    let limit = limit
        .ok()
        .filter(|limit| (LEAST_LOG..=MOST_LOG).contains(limit));
    let wanted = "at least 1 MB and at most 16 TiB are needed: a number of bytes, or one with MB, \
                  GB, MiB or GiB";
    limit.ok_or_else(|| wanted.into())
}

fn checkpoint_signal(text: &str) -> Result<i32, String> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let known = [
        ("HUP", libc::SIGHUP),
        ("QUIT", libc::SIGQUIT),
        ("USR1", libc::SIGUSR1),
        ("USR2", libc::SIGUSR2),
    ];
    let is = |&&(known, number): &&(&str, i32)| name == known || name == number.to_string();
    let found = known.iter().find(is).map(|(_, number)| *number);
    found.ok_or_else(|| "HUP, QUIT, USR1 or USR2 is needed".into())
}

fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse::<u16>();
    let local = port.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let address = local.or_else(|_| text.parse());
    address
        .map_err(|_| "a port, or an IP address and a port, is needed (9464, 0.0.0.0:9464)".into())
}

fn stdin_rank(text: &str) -> Result<Stdin, String> {
    if text == "none" {
        return Ok(Stdin::None);
    }
    let rank = text.parse().map(Stdin::Rank);
    rank.map_err(|_| "the number of a rank, or none, is needed".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_for_this_host_unless_an_address_says_otherwise() {
        let read = |text: &str| metrics_address(text).map(|address| address.to_string());
        assert_eq!(read("9464"), Ok("127.0.0.1:9464".into()));
        assert_eq!(read("0.0.0.0:0"), Ok("0.0.0.0:0".into()));
        assert_eq!(read("[::1]:80"), Ok("[::1]:80".into()));
        for wrong in ["", "localhost", "1.2.3.4", "70000", ":80", "-1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn checkpoint_signals_go_by_name_and_number() {
        for text in ["USR1", "SIGUSR1", "sigusr1", "10"] {
            assert_eq!(checkpoint_signal(text), Ok(libc::SIGUSR1), "{text}");
        }
        for wrong in ["TERM", "KILL", "9", "", "SIG", "USR3"] {
            assert!(checkpoint_signal(wrong).is_err(), "{wrong}");
        }
    }
}
