//! The memory of the logs of this host's ranks, in logging modes: determinants, and bodies.

use crate::error::{Context, Error, Result};
use crate::launch::launch_plan::LaunchPlan;
use rejoin_channel_table::{Epoch, Incarnation, Rank};
use rejoin_ckpt::anonymous;
use rejoin_ckpt::rank_log_memory::{DETERMINANT_BYTES, MappedWords, RankLogMemory};
use rejoin_logging::determinants::{CopiedLog, LogMemory, LogPart, LogUsage};
use rejoin_managers_protocol::manager_messages::ProcessInstance;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd};

/// The determinants of a rank, as this manager reads them.
struct Words(MappedWords);

impl LogMemory for Words {
    fn load(&self, word: usize) -> u64 {
        self.0.load(word)
    }

    fn store(&mut self, word: usize, value: u64) {
        self.0.store(word, value);
    }

    fn words(&self) -> usize {
        self.0.count()
    }
}

/// The log of one rank.
struct RankLog {
    memory: RankLogMemory,
    words: Words,
    /// The number of the first record that is not copied to mpirun's host.
    next: u64,
}

impl RankLog {
    fn new(bodies: u64) -> Result<RankLog> {
        let memory = RankLogMemory::new(bodies).context("make memory for a log")?;
        let words = MappedWords::map(memory.as_fd()).context("map memory for a log")?;
        Ok(RankLog {
            memory,
            words: Words(words),
            next: 0,
        })
    }
}

/// The logs of this host's ranks.
#[derive(Default)]
pub struct RankLogs {
    logs: BTreeMap<Rank, RankLog>,
    /// Copies of determinants that are coming, of ranks that will be on this host.
    incoming: BTreeMap<Rank, CopiedLog>,
    /// Processes that begin when the copy is there, and the numbers of their images.
    awaited: BTreeMap<Rank, (ProcessInstance, Epoch)>,
    /// Ranks whose copies are of no use, and why.
    failed: BTreeMap<Rank, String>,
    /// Ranks have logs.
    is_used: bool,
    /// A process may cut its log before it ends.
    may_be_cut: bool,
}

impl RankLogs {
    /// Of a plan whose ranks retain so many bytes for other groups.
    ///
    /// # Errors
    /// There is no memory: a rank could not come back alone.
    pub fn open(plan: &LaunchPlan, limit: u64) -> Result<RankLogs> {
        if plan.options.log_groups.is_empty() {
            return Ok(RankLogs::default());
        }
        // A file beyond the limit would end this process by a signal.
        anonymous::allow(DETERMINANT_BYTES as u64).context("make memory for a log")?;
        // As many bytes may be held for the last image, and blocks are longer than their bodies.
        let bodies = limit.saturating_mul(2).saturating_add(limit / 4);
        let open = |(rank, _): &(Rank, u32)| Ok((*rank, RankLog::new(allowed(bodies))?));
        // Ranks that come from images continue with copies of their determinants.
        let new = plan.ranks.iter().filter(|_| plan.from.is_none());
        let logs: Result<BTreeMap<Rank, RankLog>> = new.map(open).collect();
        Ok(RankLogs {
            logs: logs?,
            is_used: true,
            may_be_cut: plan.options.optimistic,
            ..RankLogs::default()
        })
    }

    /// The descriptor of a rank's memory, as its process opens it.
    pub fn descriptor(&self, rank: Rank) -> Option<u32> {
        let log = self.logs.get(&rank)?;
        Some(log.memory.as_fd().as_raw_fd() as u32)
    }

    /// A process of the rank begins anew, with an empty log.
    pub fn begins(&mut self, rank: Rank) {
        if let Some(log) = self.logs.get_mut(&rank) {
            log.next = 0;
        }
    }

    /// What the log of each rank uses, and how many determinants it has recorded. In rank order.
    pub fn usage(&self) -> impl Iterator<Item = (Rank, LogUsage, u64)> {
        self.logs.iter().map(|(rank, log)| {
            let (usage, determinants) = LogUsage::read(&log.words);
            (*rank, usage, determinants)
        })
    }

    /// Ranks have logs.
    pub fn is_used(&self) -> bool {
        self.is_used
    }

    /// The determinants that a rank has recorded since the last call.
    ///
    /// # Errors
    /// The rank has no log, or what is in its memory is none.
    pub fn read_new(&mut self, rank: Rank) -> Result<LogPart> {
        let unusable = |why: String| Error::Log(format!("the log of rank {}: {why}", rank.0));
        let log = self.logs.get_mut(&rank);
        let log = log.ok_or_else(|| unusable("there is none".into()))?;
        let part = LogPart::read(&log.words, log.next).map_err(|e| unusable(e.to_string()))?;
        log.next = part.end();
        Ok(part)
    }

    /// The next part of the determinants of a rank that will be on this host. Returns the process
    /// that waits for the last one, if any does: it can be made, or [`RankLogs::failure`] says why
    /// not.
    pub fn take_part(
        &mut self,
        rank: Rank,
        part: &LogPart,
        last: bool,
    ) -> Option<(ProcessInstance, Epoch)> {
        if let Err(error) = self.add_part(rank, part, last) {
            self.failed.insert(rank, error.to_string());
        }
        let is_over = last || self.failed.contains_key(&rank);
        is_over.then(|| self.awaited.remove(&rank)).flatten()
    }

    /// Why a process of this rank can't be made.
    pub fn failure(&self, rank: Rank) -> Option<&str> {
        self.failed.get(&rank).map(String::as_str)
    }

    fn add_part(&mut self, rank: Rank, part: &LogPart, last: bool) -> Result<()> {
        let unusable = |why: &dyn std::fmt::Display| {
            Error::Log(format!("the copied log of rank {}: {why}", rank.0))
        };
        let copy = self.incoming.entry(rank).or_default();
        copy.add(part).map_err(|error| unusable(&error))?;
        if !last {
            return Ok(());
        }
        let whole = copy.whole();
        self.incoming.remove(&rank);
        // As much as the rank may have had on its former host.
        let mut log = RankLog::new(allowed(u64::MAX))?;
        let written = whole.write(&mut log.words);
        written.map_err(|error| unusable(&error))?;
        log.next = whole.end();
        self.logs.insert(rank, log);
        Ok(())
    }

    /// Another process continues the log of a rank, which the one before may have cut: all of it is
    /// new.
    pub fn continues(&mut self, rank: Rank) {
        if self.may_be_cut {
            self.begins(rank);
        }
    }

    /// Whether a process begins only after the copy of its determinants has come.
    pub fn awaits(&mut self, instance: ProcessInstance, epoch: Epoch) -> bool {
        let rank = instance.rank;
        let is_over = self.logs.contains_key(&rank) || self.failed.contains_key(&rank);
        let is_missing = self.is_used && !is_over;
        if is_missing {
            self.awaited.insert(rank, (instance, epoch));
        }
        is_missing
    }

    /// A process that waits for that is not wanted any more; `false` if it is none.
    pub fn forget(&mut self, rank: Rank, incarnation: Incarnation) -> bool {
        let waits = self.awaited.get(&rank);
        let is_it = waits.is_some_and(|(instance, _)| instance.incarnation == incarnation);
        is_it && self.awaited.remove(&rank).is_some()
    }
}

/// So many bytes of bodies, if this process may have them. Without this room, bodies lie in memory
/// of their rank.
fn allowed(bodies: u64) -> u64 {
    let allowed = anonymous::allow(bodies.saturating_add(DETERMINANT_BYTES as u64));
    allowed.map_or(0, |()| bodies)
}
