//! From options to a launch: checks the options, numbers programs and hosts, and makes the plan.

use super::arguments::{
    BindTo, Carrier, Compression, DetectorName, Given, JobArguments, MapBy, OutputAt,
    ProgramArguments, Stdin,
};
use super::log_options;
use super::{folder_name, host_list, ports, recordings, stop_options};
use crate::launch::launch_plan::{HealthPlan, ImagesPlace, LaunchPlan, Program};
use crate::launch::linked_mpi::ProgramAbi;
use crate::launch::machines::Machines;
use crate::launch::tree::by_lookups;
use crate::mpirun::{Launch, Show};
use clap::ValueEnum as _;
use clap::builder::PossibleValue;
use rejoin_channel_table::{Epoch, Generation, JobId, JobKey, Rank};
use rejoin_ckpt::image::ImageCompression;
use rejoin_managers_host::images_folder;
use rejoin_managers_host::network_interfaces;
use rejoin_managers_host::random::random;
use rejoin_managers_host::signal_reader;
use rejoin_managers_host::topology::places::{Bind, Binding, MappingPolicy};
use rejoin_managers_protocol::central::Recovery;
use rejoin_managers_protocol::checkpoint::CopyInterval;
use rejoin_managers_protocol::policy;
use rejoin_managers_stdio::sink;
use rejoin_managers_stdio::source::Consumed;
use rejoin_wire::{Images, NoSuchMode, RankOptions, RecoveryMode, Transport};
use serde_bytes::ByteBuf;
use std::io::IsTerminal;
use std::os::unix::ffi::OsStringExt;
use std::time::Instant;

/// Makes the launch of a job from its options and those of its programs. `overridden`: variables of
/// options that stand on the command line, which count more than this process's environment.
pub(super) fn launch(
    job: &JobArguments,
    programs: Vec<ProgramArguments>,
    given: Given<'_>,
    overridden: &[&'static str],
) -> Result<Launch, String> {
    check(job, given)?;
    let counts: Vec<u32> = programs.iter().map(|p| p.n.unwrap_or(1)).collect();
    let machines = host_list::machines(job, &programs, &counts, given)?;
    let list = program_list(programs, overridden, job.abi)?;
    let ranks = ranks(&counts);
    let size = ranks.len() as u32;
    let (id, key) = secrets()?;
    let images = images(job, &machines)?;
    let recovery = recovery(job, images.is_some());
    let range = job.port_range.map(|range| ports::shown(range, given));
    let remarks = ports::check(range, &list, &ranks, &machines, recovery.is_some())?;
    remarks.iter().for_each(|line| say_line!("mpirun: {line}"));
    let name = stop_options::name(job, &list, id);
    let stdin = reader(job.stdin, size)?;
    let plan = LaunchPlan {
        job: id,
        key,
        size,
        name: name.clone(),
        programs: list,
        program_runs: Vec::new(),
        claim: None,
        from: None,
        accepts_external_state: job.accept_external_state,
        copies: false,
        copy_group: job.image_parity.unwrap_or(1),
        copy_rate: job.image_copy_rate,
        ranks,
        images: images.filter(|_| recovery.is_some()),
        options: options(job, (recovery.is_some(), name.is_some()), &machines)?,
        binding: binding(job),
        compression: compression(job),
        stdin,
        interactive: std::io::stdin().is_terminal() && stdin.is_some(),
        read_at_once: read_at_once(job.output),
        file_limit_ignored: signal_reader::file_limit_is_ignored(),
        lease: None,
        central: None,
        tree: None,
        probes: None,
        lookups: by_lookups(size)?,
        health: health(job),
        leave_deadline: job.leave_deadline.0,
    };
    first_launch(job, given, (plan, machines, recovery))
}

/// The first launch of a job with this plan.
fn first_launch(
    job: &JobArguments,
    given: Given<'_>,
    (plan, machines, recovery): (LaunchPlan, Machines, Option<Recovery>),
) -> Result<Launch, String> {
    Ok(Launch {
        plan,
        machines,
        generation: Generation(0),
        launch: 0,
        requested: Epoch(0),
        limit: job.timeout,
        before: None,
        begun: Instant::now(),
        consumed: Consumed::default(),
        tag: job.tag_output,
        verbose: job.verbose,
        recovery,
        checkpoint_signal: job.checkpoint_signal,
        stop: stop_options::plan(job, given)?,
        events: job.events.clone(),
        metrics: job.metrics,
        show: shown(job.output),
    })
}

/// Checks options that mean nothing together, or on this host.
fn check(job: &JobArguments, given: Given<'_>) -> Result<(), String> {
    check_not_there_yet(job, given)?;
    check_places(job, given)
}

/// Whether unfinished lines of each stream are shown. What waits for a commit, nobody reads yet.
fn read_at_once(output: OutputAt) -> [bool; 2] {
    match output {
        OutputAt::Now => sink::are_read_at_once(),
        OutputAt::Commit => [false; 2],
    }
}

fn program_list(
    programs: Vec<ProgramArguments>,
    overridden: &[&'static str],
    abi: ProgramAbi,
) -> Result<Vec<Program>, String> {
    let programs = programs.into_iter();
    let programs = programs.map(|program| program_of(program, overridden));
    let mut programs = programs.collect::<Result<Vec<_>, _>>()?;
    let name = abi.to_possible_value();
    let name = ByteBuf::from(name.as_ref().map_or("auto", PossibleValue::get_name));
    for program in &mut programs {
        let variable = ByteBuf::from(ProgramAbi::VARIABLE);
        program.set.push((variable, name.clone()));
    }
    Ok(programs)
}

/// The ranks, each with the number of its program. `counts`: how many ranks each program has.
fn ranks(counts: &[u32]) -> Vec<(Rank, u32)> {
    let of_program = |(index, count): (u32, &u32)| std::iter::repeat_n(index, *count as usize);
    let indices = (0u32..).zip(counts).flat_map(of_program);
    (0u32..).map(Rank).zip(indices).collect()
}

/// The folder for recordings must have no others, and this host the interface on which everything
/// is to listen.
fn check_places(job: &JobArguments, given: Given<'_>) -> Result<(), String> {
    recordings::check(job, given)?;
    let Some(choice) = &job.interface else {
        return Ok(());
    };
    let checked = network_interfaces::check(choice);
    checked.map_err(|why| format!("{}: {why}", given("interface", choice)))
}

/// The rank that reads standard input, in a job of this size.
fn reader(stdin: Stdin, size: u32) -> Result<Option<Rank>, String> {
    match stdin {
        Stdin::Rank(rank) if rank >= size => Err(format!(
            "--stdin {rank}: there are {size} ranks only, from 0"
        )),
        Stdin::Rank(rank) => Ok(Some(Rank(rank))),
        Stdin::None => Ok(None),
    }
}

/// The command that says how each host is.
fn health(job: &JobArguments) -> Option<HealthPlan> {
    job.health.clone().map(|command| HealthPlan {
        command,
        interval: job.health_interval,
        limit: job.health_timeout,
    })
}

fn shown(output: OutputAt) -> Show {
    match output {
        OutputAt::Now => Show::Now,
        OutputAt::Commit => Show::Commit,
    }
}

/// How ranks are bound; each host looks at itself.
fn binding(job: &JobArguments) -> Binding {
    Binding {
        to: match job.bind_to {
            BindTo::Shared => Bind::Shared,
            BindTo::None => Bind::None,
            BindTo::Core => Bind::Core,
            BindTo::Socket => Bind::Socket,
            BindTo::Numa => Bind::Numa,
        },
        by: match job.map_by {
            MapBy::Slot | MapBy::Core | MapBy::Node => MappingPolicy::Packed,
            MapBy::Socket => MappingPolicy::Sockets,
            MapBy::Numa => MappingPolicy::Nodes,
        },
        told: job.report_bindings || job.verbose,
    }
}

fn compression(job: &JobArguments) -> ImageCompression {
    match job.image_compression {
        Compression::None => ImageCompression::None,
        Compression::Lz4 => ImageCompression::Lz4,
    }
}

/// The options of every rank.
fn options(
    job: &JobArguments,
    (takes_images, is_named): (bool, bool),
    machines: &Machines,
) -> Result<RankOptions, String> {
    let has_files = images(job, machines)?.is_some();
    Ok(RankOptions {
        interface: job.interface.clone(),
        port_range: job.port_range,
        spin: job.spin,
        eager_max: job.eager_max,
        probe_wait: (job.detector == DetectorName::Sporadic).then_some(job.probe_interval),
        stats: job.stats,
        images: takes_images.then(Images::default),
        folder: folder(job)?,
        restart: job.loads_regions(),
        transport: match job.transport {
            Carrier::Auto => Transport::Auto,
            Carrier::Shm => Transport::Shm,
            Carrier::Tcp | Carrier::Verbs => Transport::Tcp,
        },
        verbose: job.verbose,
        recovery: log_options::mode(job, machines, has_files, is_named)?,
        record: recordings::options(job)?,
        ..RankOptions::default()
    })
}

/// The folder for registered memory.
fn folder(job: &JobArguments) -> Result<Option<String>, String> {
    let Some(folder) = job.images_folder() else {
        return Ok(None);
    };
    let name = folder_name::passed_on("--images", folder)?;
    if job.restart.is_some() && !folder.is_dir() {
        let shown = folder.display();
        return Err(format!("--restart: there is no folder {shown}"));
    }
    Ok(Some(name))
}

/// Where files of process images are. A job over a network has them without being asked: else the
/// loss of a host would end it.
fn images(job: &JobArguments, machines: &Machines) -> Result<Option<ImagesPlace>, String> {
    let named = folder(job)?.map(|folder| ImagesPlace {
        folder,
        is_default: false,
    });
    let has_default = job.images.is_none() && machines.is_networked();
    Ok(named.or_else(|| {
        has_default.then(|| ImagesPlace {
            folder: images_folder::default_path(),
            is_default: true,
        })
    }))
}

fn recovery(job: &JobArguments, has_files: bool) -> Option<Recovery> {
    job.mode().masks_failures().then(|| Recovery {
        interval: job.checkpoint_interval,
        files: has_files.then_some(job.image_interval),
        copies: job
            .image_copy_interval
            .map_or(CopyInterval::EachTime, CopyInterval::Own),
        limit: policy::RecoveryLimit {
            restarts: job.max_restarts,
            ..policy::RecoveryLimit::default()
        },
        accepts_outliving: job.accept_external_state,
    })
}

/// Names what is planned but not built, rather than ignoring it.
fn check_not_there_yet(job: &JobArguments, given: Given<'_>) -> Result<(), String> {
    if job.transport == Carrier::Verbs {
        let shown = given("transport", "verbs");
        return Err(format!("{shown} is not there yet; tcp and shm are"));
    }
    let recovery = given("recovery", &job.recovery);
    let mode: Result<RecoveryMode, NoSuchMode> = job.recovery.parse();
    let mode = mode.map_err(|error| format!("{recovery}: {error}"))?;
    log_options::check(job, &recovery)?;
    let named = [("--job-name", &job.job_name), ("--restart", &job.restart)];
    let named = named
        .iter()
        .find(|(_, name)| name.as_ref().is_some_and(|name| !name.is_empty()));
    let named = named.map(|(option, _)| *option);
    let signal = job.checkpoint_signal.is_some();
    let commit = job.output == OutputAt::Commit;
    let signal = signal.then_some("--checkpoint-signal");
    let option = named.or(signal).or(commit.then_some("--output commit"));
    match option.filter(|_| !mode.masks_failures()) {
        Some(option) => Err(format!("{option}: {recovery} takes no checkpoints")),
        None => Ok(()),
    }
}

fn program_of(arguments: ProgramArguments, overridden: &[&'static str]) -> Result<Program, String> {
    if arguments.command.is_empty() {
        return Err("there is no program to run; see mpirun --help".into());
    }
    if arguments.command[0].is_empty() {
        return Err("the name of a program is empty".into());
    }
    // The parser takes what it does not know for the program.
    if arguments.command[0].as_encoded_bytes().starts_with(b"-") {
        let option = arguments.command[0].to_string_lossy();
        let place = "options of the job stand before the first program";
        return Err(format!(
            "unknown option {option} ({place}); see mpirun --help"
        ));
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
                    return Err(format!("-x {}: not set here", variable.to_string_lossy()));
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
        unset: overridden.iter().map(|name| ByteBuf::from(*name)).collect(),
        set,
        wdir: arguments
            .wdir
            .map(|dir| ByteBuf::from(dir.into_os_string().into_vec())),
    })
}

/// A fresh job id and key from the kernel's random generator.
fn secrets() -> Result<(JobId, JobKey), String> {
    let bytes = random::<40>().map_err(|error| format!("no key for the job: {error}"))?;
    let (id, key) = bytes.split_at(8);
    let id = u64::from_ne_bytes(id.try_into().unwrap_or_default());
    Ok((JobId(id), JobKey::new(key.try_into().unwrap_or_default())))
}
