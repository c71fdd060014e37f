//! A job that loses a host goes on elsewhere, from what its program stored where all hosts see it.
//!
//! Everything of the job is ended, the lost host's last lease runs out, and all ranks are started anew
//! in a new generation: those of the lost host on one that stands by, or on the one with the fewest.
//! A manager that comes back from the lost host finds that nobody wants it.
//!
//! Where only output is shown that stays, the job goes on from the state that what was shown belongs to,
//! not from a newer one: what came after it was not shown, and is written again.

use super::{Launch, Launcher, Show};
use crate::error::{Error, Result};
use rejoin_managers_protocol::central::HostIndex;
use rejoin_managers_protocol::signals;
use rejoin_managers_protocol::verdict::Verdict;
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

impl Launcher {
    /// A job that has lost a host, and of which nothing acts here any more, may go on elsewhere: whether it does.
    /// What it may show of its output is shown then.
    pub(super) fn goes_on(&mut self, verdict: &Verdict) -> bool {
        if self.elsewhere.next.is_none() {
            self.elsewhere.next = Some(self.next_launch(verdict));
        }
        if self.elsewhere.next().is_none() {
            return false;
        }
        let limit = self.elsewhere.limit_at();
        if limit.is_some_and(|at| at <= Instant::now()) {
            let limit = self.elsewhere.launch.limit.unwrap_or_default();
            self.central.replace(Verdict::TimedOut { limit });
            self.stay();
        }
        self.elsewhere.next().is_some()
    }

    /// The job is over because of a host.
    pub(super) fn has_lost_a_host(&self) -> bool {
        matches!(self.central.over(), Some((Verdict::HostLost { .. }, _)))
    }

    /// The job does not go on elsewhere.
    pub(super) fn stay(&mut self) {
        self.elsewhere.next = Some(None);
    }

    fn next_launch(&mut self, verdict: &Verdict) -> Option<(Box<Launch>, Instant)> {
        let Verdict::HostLost { host, .. } = verdict else {
            return None;
        };
        let launch = &self.elsewhere.launch;
        let host = launch.machines.hosts.iter().position(|h| h.name == *host)?;
        let state = self.elsewhere.state(self.streams.newest_state());
        let mut next = without(launch, host)?;
        let state = state?;
        if let Some(signal) = self.unwanted {
            self.central.replace(Verdict::Interrupted { signal });
            return None;
        }
        if let Some(begun) = self.streams.begun(state) {
            next.plan.begun = begun;
        }
        let at = self.hosts.fenced_at(self.terms);
        next.plan.options.newest = (next.show == Show::Commit).then_some(state);
        Some((Box::new(next), at))
    }

    /// Tells that the job goes on elsewhere, and hands over what the next launch needs of this one.
    pub(super) fn relaunch(&mut self, verdict: &Verdict) -> Option<Launch> {
        let mut next = self.elsewhere.take()?;
        next.generation = self.central.last_generation().next();
        let mut text = format!("{verdict}; the job goes on elsewhere from what it has stored");
        next.consumed = self.streams.consumed();
        if next.consumed.is_lost() {
            text += ". What was read of standard input is too much to be given again: only the rest of it is";
        }
        super::say(&text);
        if let Some(journal) = &mut self.events {
            journal.verdict("relaunched", next.generation.0, verdict);
        }
        Some(next)
    }

    /// A signal came while a job waits to go on elsewhere.
    pub(super) fn signal_before_relaunch(&mut self, signal: i32) {
        if signals::ends(signal) {
            self.central.replace(Verdict::Interrupted { signal });
            self.stay();
        }
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
