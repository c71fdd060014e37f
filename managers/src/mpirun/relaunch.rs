//! A job that loses a host goes on elsewhere, from what its program stored where all hosts see it.
//!
//! Everything of the job is ended, the lost host's last lease runs out, and all ranks are started anew
//! in a new generation: those of the lost host on one that stands by, or on the one with the fewest.
//! A manager that comes back from the lost host finds that nobody wants it.
//!
//! Where only output is shown that stays, the job goes on from the state that what was shown belongs to,
//! not from a newer one: what came after it was not shown, and is written again.

use super::launch_order::Launch;
use super::streams::Show;
use crate::error::{Error, Result};
use rejoin_managers_protocol::central::HostIndex;
use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where a job's registered memory is, if that is all that is needed to go on.
#[derive(Debug, Clone)]
pub(super) struct Relaunch {
    launch: Launch,
    folder: Option<PathBuf>,
    /// The newest state that the job can have gone on from.
    began_from: Option<u32>,
    /// The next launch, and when nothing of this one can act any more; `Some(None)`: there is none.
    next: Option<Option<(Box<Launch>, Instant)>>,
}

/// The newest state that every rank has stored. Whether it is whole, the ranks find out.
fn newest(folder: &Path, ranks: u32, limit: u32) -> Option<u32> {
    let epochs = |rank| -> BTreeSet<u32> {
        let stored = rejoin_ckpt::regions::stored(folder, rank);
        stored.into_iter().map(|(epoch, _)| epoch).collect()
    };
    let mut common = epochs(0);
    for rank in 1..ranks {
        if common.is_empty() {
            return None;
        }
        let own = epochs(rank);
        common.retain(|epoch| own.contains(epoch));
    }
    common.range(..=limit).next_back().copied()
}

impl Relaunch {
    /// What this job may go on from.
    pub fn of(launch: &Launch) -> Relaunch {
        let options = &launch.plan.options;
        let folder = options.folder.as_ref().map(PathBuf::from);
        let recovers = launch.recovery.is_some() && launch.machines.is_networked();
        let limit = launch.recovery.map_or(0, |r| r.limit.restarts);
        let folder = folder.filter(|_| recovers && launch.launch < limit);
        let began_from = folder.as_ref().filter(|_| options.restart);
        let at_most = options.newest.unwrap_or(u32::MAX);
        Relaunch {
            began_from: began_from.and_then(|folder| newest(folder, launch.plan.size, at_most)),
            launch: launch.clone(),
            folder,
            next: None,
        }
    }

    /// The job may have to go on elsewhere; whether it goes on from a stored state already.
    pub fn is_prepared(&self) -> Option<bool> {
        self.folder
            .as_ref()
            .map(|_| self.launch.plan.options.restart)
    }

    /// The state that the job would go on from, when all ranks have stored up to this one.
    pub fn state(&self, stored: Option<u32>) -> Option<u32> {
        let exact = self.launch.show == Show::Commit;
        let limit = if exact {
            stored.or(self.began_from)?
        } else {
            u32::MAX
        };
        newest(self.folder.as_ref()?, self.launch.plan.size, limit)
    }

    /// Whether it goes on is not decided.
    pub fn is_open(&self) -> bool {
        self.next.is_none()
    }

    /// The next launch, and when it may begin.
    pub fn next(&self) -> Option<&(Box<Launch>, Instant)> {
        self.next.as_ref()?.as_ref()
    }

    /// The next launch.
    pub fn take(&mut self) -> Option<Launch> {
        Some(*self.next.take()??.0)
    }

    /// The job does not go on elsewhere.
    pub fn stay(&mut self) {
        self.next = Some(None);
    }

    /// Decides: this is the next launch, and when it may begin; `None`: there is none.
    pub fn decide(&mut self, next: Option<(Box<Launch>, Instant)>) {
        self.next = Some(next);
    }

    /// The launch after this one, without a host of this name, if all ranks have stored up to this state, and the
    /// state that it goes on from.
    pub fn after_loss(&self, host: &str, stored: Option<u32>) -> Option<(Launch, u32)> {
        let hosts = &self.launch.machines.hosts;
        let host = hosts.iter().position(|h| h.name == host)?;
        let state = self.state(stored);
        let next = without(&self.launch, host)?;
        Some((next, state?))
    }

    /// The limit of the whole job in milliseconds, once its time is over.
    pub fn timed_out(&self) -> Option<u64> {
        let over = self.limit_at()? <= Instant::now();
        self.launch.limit.filter(|_| over)
    }

    /// When the time that the whole job has is over.
    fn limit_at(&self) -> Option<Instant> {
        let limit = Duration::from_millis(self.launch.limit?);
        Some(self.launch.begun + limit)
    }

    /// How long until the next launch may begin, or may not any more.
    pub fn wait_limit(&self) -> Option<Duration> {
        let (_, at) = self.next()?;
        let at = self.limit_at().map_or(*at, |limit| limit.min(*at));
        Some(at.saturating_duration_since(Instant::now()))
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

/// The next launch, without that host. `None`: there is no other.
fn without(launch: &Launch, host: HostIndex) -> Option<Launch> {
    let mut next = launch.clone();
    next.machines.lose(host)?;
    next.plan.options.restart = true;
    next.launch += 1;
    Some(next)
}
