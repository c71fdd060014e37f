//! A job that loses a host goes on elsewhere, from what its program stored where all hosts see it.
//!
//! Everything of the job is ended, the lost host's last lease runs out, and all ranks are started anew
//! in a new generation: those of the lost host on one that stands by, or on the one with the fewest.
//! A manager that comes back from the lost host finds that nobody wants it.

use super::Launch;
use crate::error::{Error, Result};
use rejoin_channel_table::Generation;
use rejoin_managers_protocol::central::HostIndex;
use rejoin_managers_protocol::verdict::Verdict;
use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::path::PathBuf;

/// Where a job's registered memory is, if that is all that is needed to go on.
#[derive(Debug, Clone)]
pub(super) struct Elsewhere {
    folder: Option<PathBuf>,
    ranks: u32,
}

impl Elsewhere {
    /// What this job may go on from.
    pub fn of(launch: &Launch) -> Elsewhere {
        let folder = launch.plan.options.folder.as_ref().map(PathBuf::from);
        let recovers = launch.recovery.is_some() && launch.machines.is_networked();
        let limit = launch.recovery.map_or(0, |r| r.limit.restarts);
        Elsewhere {
            folder: folder.filter(|_| recovers && launch.launch < limit),
            ranks: launch.plan.size,
        }
    }

    /// Every rank has stored the same checkpoint. Whether it is whole, the ranks find out.
    pub fn is_possible(&self) -> bool {
        let Some(folder) = &self.folder else {
            return false;
        };
        let epochs = |rank| -> BTreeSet<u32> {
            let stored = rejoin_ckpt::regions::stored(folder, rank);
            stored.into_iter().map(|(epoch, _)| epoch).collect()
        };
        let mut common = epochs(0);
        for rank in 1..self.ranks {
            if common.is_empty() {
                return false;
            }
            let own = epochs(rank);
            common.retain(|epoch| own.contains(epoch));
        }
        !common.is_empty()
    }
}

/// Claims the folder of a job's registered memory for as long as the value lives: another job would take this one's
/// files for its own. A file system that has no locks claims nothing.
///
/// # Errors
/// Another job has it.
pub(super) fn claim(launch: &Launch) -> Result<Option<File>> {
    let Some(folder) = launch.plan.options.folder.as_ref() else {
        return Ok(None);
    };
    // The ranks make it, too, and say why they can't.
    let _ = std::fs::create_dir_all(folder);
    let Ok(opened) = File::open(folder) else {
        return Ok(None);
    };
    match opened.try_lock() {
        Err(TryLockError::WouldBlock) => {
            let why = format!("--images {folder}: another job stores its state there");
            Err(Error::Usage(why))
        }
        _ => Ok(Some(opened)),
    }
}

/// The host that a verdict says is lost.
pub(super) fn lost(launch: &Launch, verdict: &Verdict) -> Option<HostIndex> {
    let Verdict::HostLost { host, .. } = verdict else {
        return None;
    };
    launch.machines.hosts.iter().position(|h| h.name == *host)
}

/// The next launch, without that host. `None`: there is no other.
pub(super) fn without(launch: &Launch, host: HostIndex, before: Generation) -> Option<Launch> {
    let mut next = launch.clone();
    next.machines.lose(host)?;
    next.plan.options.restart = true;
    next.generation = before.next();
    next.launch += 1;
    Some(next)
}
