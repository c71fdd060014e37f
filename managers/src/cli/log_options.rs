//! Options of message logging: the mode, the groups, the log's size and file, and where
//! determinants are stored.

use super::arguments::{JobArguments, LogGroup, Stable};
use super::folder_name;
use crate::launch::machines::Machines;
use rejoin_wire::{LogSpill, MessageLog, RecoveryMode};

/// The mode of recovery, with what ranks log. `has_files`: images outlive a host. `is_named`: the
/// job can be restarted.
///
/// # Errors
/// The mode has no jobs with names, the name needs more than the user allows, or the folder of the
/// file can't be named.
pub(super) fn mode(
    job: &JobArguments,
    machines: &Machines,
    has_files: bool,
    is_named: bool,
) -> Result<RecoveryMode, String> {
    let mut mode = job.mode();
    let is_optimistic = mode.is_optimistic();
    if is_optimistic && is_named {
        return Err(format!(
            "--recovery {}: a job that can be restarted is not there yet for it; take sender-log",
            mode.name()
        ));
    }
    if let Some(log) = mode.log_mut() {
        *log = MessageLog {
            groups: groups(job, machines),
            limit: job.log_limit.unwrap_or(0),
            spill: spill(job)?,
            stable_node: stable_node(job, machines, has_files, is_named)?,
        };
    }
    Ok(mode)
}

/// For each rank the number of its recovery group.
fn groups(job: &JobArguments, machines: &Machines) -> Vec<u32> {
    let placement = &machines.placement;
    let first = placement.first();
    let is_one_host = placement.iter().all(|host| Some(host) == first);
    let group = job.log_group.unwrap_or(match is_one_host {
        true => LogGroup::Rank,
        false => LogGroup::Host,
    });
    match group {
        LogGroup::Rank => (0u32..).take(placement.len()).collect(),
        LogGroup::Host => {
            // Numbers without gaps, in the order of the hosts' first ranks.
            let mut hosts: Vec<_> = Vec::new();
            let mut number = |host| {
                let known = hosts.iter().position(|other| *other == host);
                known.unwrap_or_else(|| {
                    hosts.push(host);
                    hosts.len() - 1
                }) as u32
            };
            placement.iter().map(|host| number(*host)).collect()
        }
    }
}

/// Where messages spill, and how much.
fn spill(job: &JobArguments) -> Result<Option<LogSpill>, String> {
    let Some(folder) = &job.log_spill else {
        return Ok(None);
    };
    let folder = folder_name::passed_on("--log-spill", folder)?;
    let bytes = job.log_spill_limit.unwrap_or(0);
    Ok(Some(LogSpill { folder, bytes }))
}

/// Whether determinants must outlive the host of their rank, or the whole job if that `is_named`.
/// `has_files`: images outlive it.
///
/// # Errors
/// The name needs more than the user allows.
fn stable_node(
    job: &JobArguments,
    machines: &Machines,
    has_files: bool,
    is_named: bool,
) -> Result<bool, String> {
    match job.stable {
        Some(Stable::Rank) if is_named => Err(
            "--stable rank: a job that can be restarted needs its nondeterministic answers in \
             files; leave it out"
                .into(),
        ),
        Some(Stable::Rank) => Ok(false),
        Some(Stable::Node) | None => Ok(has_files && (machines.is_networked() || is_named)),
    }
}

/// Checks that there is a log if options ask for one, and that they say enough of its file.
/// `recovery`: the mode, as the user gave it.
///
/// # Errors
/// What is missing.
pub(super) fn check(job: &JobArguments, recovery: &str) -> Result<(), String> {
    let named = [
        ("--log-group", job.log_group.is_some()),
        ("--log-limit", job.log_limit.is_some()),
        ("--log-spill", job.log_spill.is_some()),
        ("--log-spill-limit", job.log_spill_limit.is_some()),
        ("--stable", job.stable.is_some()),
    ];
    let has_log = job.mode().log().is_some();
    if let Some((option, _)) = named.iter().find(|(_, is_given)| *is_given && !has_log) {
        return Err(format!("{option}: {recovery} has no log"));
    }
    match (&job.log_spill, job.log_spill_limit) {
        // So all hosts have the same sizes.
        (Some(_), _) if job.log_limit.is_none() => Err(
            "--log-spill: give --log-limit, too; half of it stays in memory on each host".into(),
        ),
        (None, Some(_)) => Err("--log-spill-limit: name the file's folder by --log-spill".into()),
        _ => Ok(()),
    }
}
