//! The memory of the logs of this host's ranks, in logging modes: determinants, bodies, and
//! received messages.

use super::log_sizes::LogSizes;
use crate::launch::launch_plan::LaunchPlan;
use crate::launch::local_messages::MOST_RECEIVED_WORDS;
use rejoin_channel_table::{ImageId, Incarnation, Rank};
use rejoin_ckpt::anonymous;
use rejoin_ckpt::log_spill::SpillFile;
use rejoin_ckpt::rank_log_memory::{DETERMINANT_BYTES, MappedWords, RankLogMemory};
use rejoin_logging::determinants::{CopiedLog, LogMemory, LogPart, LogUsage};
use rejoin_logging::receive_log::ReceivedPart;
use rejoin_managers_host::error::{Context, Error, Result};
use rejoin_managers_protocol::manager_messages::ProcessInstance;
use rejoin_wire::LogSpill;
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
    /// The file into which it spills.
    spill: Option<SpillFile>,
    /// What the rank has received of other groups, if it logs that.
    received: Option<ReceiveMemory>,
    words: Words,
    /// The number of the first record that is not copied to mpirun's host.
    next: u64,
    /// The last incarnation of the rank that has written to it here, or a later one that is
    /// nowhere.
    user: Option<Incarnation>,
    /// The log was copied for this incarnation, which may stay where it was instead.
    copied_for: Option<Incarnation>,
}

/// The memory of a receive log.
struct ReceiveMemory {
    memory: RankLogMemory,
    words: Words,
    /// The number of the first word that is not copied to mpirun's host.
    next: u64,
}

impl ReceiveMemory {
    fn new(bytes: u64) -> Result<ReceiveMemory> {
        let memory = RankLogMemory::for_received(bytes).context("make memory for a log")?;
        let words = MappedWords::map_all(memory.as_fd()).context("map memory for a log")?;
        Ok(ReceiveMemory {
            memory,
            words: Words(words),
            next: 0,
        })
    }

    /// The memory of a receive log that has nothing yet, or lacks what an image has.
    fn empty(bytes: u64) -> Result<ReceiveMemory> {
        let mut received = ReceiveMemory::new(bytes)?;
        received.add(&ReceivedPart::default())?;
        Ok(received)
    }

    /// Adds the next part of a copy.
    fn add(&mut self, part: &ReceivedPart) -> Result<()> {
        let written = part.write(&mut self.words);
        written.map_err(|error| Error::Log(error.to_string()))
    }

    /// All parts have come.
    fn complete(&mut self) -> Result<()> {
        let end = ReceivedPart::end_at_message(&mut self.words);
        self.next = end.map_err(|error| Error::Log(error.to_string()))?;
        Ok(())
    }
}

impl RankLog {
    /// In memory that was made for it, and a file; and so many bytes of received messages; 0: the
    /// rank does not log them.
    fn new((memory, spill): (RankLogMemory, Option<SpillFile>), received: u64) -> Result<RankLog> {
        let received = (received > 0).then(|| ReceiveMemory::new(received));
        let received = received.transpose()?;
        let words = MappedWords::map(memory.as_fd()).context("map memory for a log")?;
        Ok(RankLog {
            memory,
            spill,
            received,
            words: Words(words),
            next: 0,
            user: None,
            copied_for: None,
        })
    }

    /// Whether all is in it that the rank has recorded before this incarnation: none was on another
    /// host meanwhile.
    fn precedes(&self, incarnation: Incarnation) -> bool {
        let follows = |user: Incarnation| user == incarnation || user.next() == incarnation;
        self.copied_for == Some(incarnation) || self.user.is_some_and(follows)
    }
}

/// A copy of determinants that a process needs.
struct AwaitedLog {
    instance: ProcessInstance,
    /// The number of the image of which the process is made.
    image: ImageId,
    /// What has come.
    copy: CopiedLog,
    /// What has come of the rank's receive log.
    received: Option<ReceiveMemory>,
    /// The copy is of no use, for this reason.
    failure: Option<String>,
}

/// Whether a process waits for the copy of its determinants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogWait {
    /// The process does not wait: the determinants are here.
    Over,
    /// The process waits from now on: the determinants are to be asked for.
    Begins,
    /// The process waits since an earlier call, which had the determinants asked for.
    Lasts,
}

/// The logs of this host's ranks.
#[derive(Default)]
pub struct RankLogs {
    logs: BTreeMap<Rank, RankLog>,
    /// Processes that begin when copies of their determinants are here.
    awaited: BTreeMap<Rank, AwaitedLog>,
    /// Ranks have logs.
    is_used: bool,
    /// Determinants outlive their host: mpirun has a copy.
    are_copied: bool,
    /// A process may cut its log before it ends.
    may_be_cut: bool,
    sizes: LogSizes,
}

impl RankLogs {
    /// Of a plan whose ranks retain so many bytes for other groups.
    ///
    /// # Errors
    /// There is no memory: a rank could not come back alone.
    pub fn open(plan: &LaunchPlan, limit: u64) -> Result<RankLogs> {
        let recovery = &plan.options.recovery;
        let Some(log) = recovery.log() else {
            return Ok(RankLogs::default());
        };
        // A file beyond the limit would end this process by a signal.
        anonymous::allow(DETERMINANT_BYTES as u64).context("make memory for a log")?;
        let sizes = LogSizes::of(recovery, log, limit);
        let open = |(rank, _): &(Rank, u32)| {
            let log = RankLog::new(sizes.make()?, sizes.received)?;
            Ok((*rank, log))
        };
        // Ranks that come from images continue with copies of their determinants.
        let new = plan.ranks.iter().filter(|_| plan.from.is_none());
        let logs: Result<BTreeMap<Rank, RankLog>> = new.map(open).collect();
        Ok(RankLogs {
            logs: logs?,
            is_used: true,
            are_copied: log.stable_node,
            may_be_cut: recovery.is_optimistic(),
            sizes,
            ..RankLogs::default()
        })
    }

    /// The descriptor of a rank's memory, as its process opens it.
    pub fn descriptor(&self, rank: Rank) -> Option<u32> {
        let log = self.logs.get(&rank)?;
        Some(log.memory.as_fd().as_raw_fd() as u32)
    }

    /// The descriptor of the file into which a rank spills, if it does.
    pub fn spill_descriptor(&self, rank: Rank) -> Option<u32> {
        let spill = self.logs.get(&rank)?.spill.as_ref()?;
        Some(spill.as_fd().as_raw_fd() as u32)
    }

    /// Where ranks spill, and how much.
    pub fn spill(&self) -> Option<&LogSpill> {
        self.sizes.spill()
    }

    /// The descriptor of the memory in which a rank logs what it receives; `None`: it does not.
    pub fn receive_descriptor(&self, rank: Rank) -> Option<u32> {
        let received = self.logs.get(&rank)?.received.as_ref()?;
        Some(received.memory.as_fd().as_raw_fd() as u32)
    }

    /// A process of the rank begins anew, with an empty log.
    pub fn begins(&mut self, rank: Rank, incarnation: Incarnation) {
        if !self.logs.contains_key(&rank)
            && self.is_used
            && let Ok(made) = self.sizes.make_later()
            && let Ok(log) = RankLog::new(made, self.sizes.received)
        {
            // The rank was on another host meanwhile.
            self.logs.insert(rank, log);
        }
        if let Some(log) = self.logs.get_mut(&rank) {
            (log.next, log.user) = (0, Some(incarnation));
            if let Some(received) = &mut log.received {
                received.next = 0;
            }
        }
    }

    /// The rank has left this host: another process will have what its log has here.
    pub fn remove(&mut self, rank: Rank) {
        self.logs.remove(&rank);
        self.awaited.remove(&rank);
    }

    /// What the log of each rank uses at this time, by the clock of the ranks. In rank order.
    pub fn usage(&self, clock: u64) -> impl Iterator<Item = (Rank, LogUsage)> {
        let logs = self.logs.iter();
        logs.map(move |(rank, log)| (*rank, LogUsage::read(&log.words, clock)))
    }

    /// Ranks have logs.
    pub fn is_used(&self) -> bool {
        self.is_used
    }

    /// The determinants that this incarnation of a rank has recorded since the last call.
    ///
    /// # Errors
    /// The rank has no log, or what is in its memory is none.
    pub fn read_new(&mut self, rank: Rank, incarnation: Incarnation) -> Result<LogPart> {
        let unusable = |why: String| Error::Log(format!("the log of rank {}: {why}", rank.0));
        let log = self.logs.get_mut(&rank);
        let log = log.ok_or_else(|| unusable("there is none".into()))?;
        let part = LogPart::read(&log.words, log.next).map_err(|e| unusable(e.to_string()))?;
        // A later number may be that of a process with which the rank did not move.
        (log.next, log.user) = (part.end(), log.user.max(Some(incarnation)));
        Ok(part)
    }

    /// A rank does not move, so the number of the process that another host was to make is on no
    /// other host.
    pub fn stays(&mut self, rank: Rank) {
        if let Some(log) = self.logs.get_mut(&rank) {
            log.user = log.user.map(Incarnation::next);
        }
    }

    /// This incarnation of a rank is to begin on this host. Another order may replace it before it
    /// does, and then its number is on no other host.
    pub fn is_to_continue(&mut self, rank: Rank, incarnation: Incarnation) {
        if let Some(log) = self.logs.get_mut(&rank)
            && log.user.is_some_and(|user| user.next() == incarnation)
        {
            log.user = Some(incarnation);
        }
    }

    /// This incarnation of a rank has cut its log here, and ends: the next one continues it, and
    /// not the copy, which is longer.
    pub fn was_cut(&mut self, rank: Rank, incarnation: Incarnation) {
        if let Some(log) = self.logs.get_mut(&rank) {
            log.user = Some(incarnation);
        }
    }

    /// What a rank has received since the last call, up to this position, or a part of it.
    ///
    /// # Errors
    /// The rank has no receive log, or what is in its memory is none.
    pub fn read_received(&mut self, rank: Rank, position: u64) -> Result<ReceivedPart> {
        let unusable =
            |why: String| Error::Log(format!("the receive log of rank {}: {why}", rank.0));
        let log = self.logs.get_mut(&rank);
        let received = log.and_then(|log| log.received.as_mut());
        let received = received.ok_or_else(|| unusable("there is none".into()))?;
        let part = ReceivedPart::read(
            &received.words,
            received.next,
            position,
            MOST_RECEIVED_WORDS,
        );
        let part = part.map_err(|error| unusable(error.to_string()))?;
        received.next = part.end();
        Ok(part)
    }

    /// The next part of the receive log of a rank that a process needs. It comes before the rank's
    /// determinants.
    pub fn take_received(&mut self, (rank, incarnation): (Rank, Incarnation), part: &ReceivedPart) {
        let room = self.sizes.received;
        let awaited = self.awaited.get_mut(&rank);
        let Some(awaited) = awaited.filter(|one| one.instance.incarnation == incarnation) else {
            return;
        };
        if room == 0 {
            // The rank must not miss what its senders do not retain.
            let why = "this host has no memory for received messages";
            awaited.failure.get_or_insert(why.into());
            return;
        }
        let received = match &mut awaited.received {
            Some(received) => Ok(received),
            none => ReceiveMemory::new(room).map(|received| none.insert(received)),
        };
        if let Err(error) = received.and_then(|received| received.add(part)) {
            let why = format!("its copied messages: {error}");
            awaited.failure.get_or_insert(why);
        }
    }

    /// The next part of the determinants that a process of a rank needs. Returns the process with
    /// the last one: it can be made, or [`RankLogs::take_failure`] says why not.
    pub fn take_part(
        &mut self,
        (rank, incarnation): (Rank, Incarnation),
        part: &LogPart,
        last: bool,
    ) -> Option<(ProcessInstance, ImageId)> {
        let awaited = self.awaited.get_mut(&rank);
        // What was asked for a process that is not wanted any more may be less than all.
        let awaited = awaited.filter(|one| one.instance.incarnation == incarnation)?;
        let unusable = |why: &dyn std::fmt::Display| format!("its copied determinants: {why}");
        if let Err(error) = awaited.copy.add(part) {
            awaited.failure.get_or_insert(unusable(&error));
        }
        if !last {
            return None;
        }
        let process = (awaited.instance, awaited.image);
        match awaited.failure {
            Some(_) => return Some(process),
            None => match new_log(
                &awaited.copy.whole(),
                (awaited.received.take(), &self.sizes),
                incarnation,
            ) {
                Ok(log) => self.logs.insert(rank, log),
                Err(error) => {
                    awaited.failure = Some(unusable(&error));
                    return Some(process);
                }
            },
        };
        self.awaited.remove(&rank);
        Some(process)
    }

    /// Why this process can't be made, if it can't.
    pub fn take_failure(&mut self, instance: ProcessInstance) -> Option<String> {
        let awaited = self.awaited.get(&instance.rank);
        awaited
            .filter(|one| one.instance == instance)?
            .failure
            .as_ref()?;
        self.awaited.remove(&instance.rank)?.failure
    }

    /// Whether a process begins only after the copy of its determinants has come. Otherwise it
    /// continues the log that is here.
    pub fn awaits(&mut self, instance: ProcessInstance, image: ImageId) -> LogWait {
        let ProcessInstance {
            rank, incarnation, ..
        } = instance;
        if !self.is_used {
            return LogWait::Over;
        }
        let is_whole = |log: &&mut RankLog| !self.are_copied || log.precedes(incarnation);
        if let Some(log) = self.logs.get_mut(&rank).filter(is_whole) {
            if log.copied_for != Some(incarnation) {
                log.user = Some(incarnation);
            }
            if self.may_be_cut {
                // The process before may have cut it: all of it is new.
                log.next = 0;
            }
            return LogWait::Over;
        }
        let awaited = self.awaited.get(&rank);
        if awaited.is_some_and(|one| one.instance == instance) {
            return LogWait::Lasts;
        }
        let awaited = AwaitedLog {
            instance,
            image,
            copy: CopiedLog::default(),
            received: None,
            failure: None,
        };
        self.awaited.insert(rank, awaited);
        LogWait::Begins
    }

    /// A process that waits for that is not wanted any more; `false` if it is none.
    pub fn forget(&mut self, rank: Rank, incarnation: Incarnation) -> bool {
        let waits = self.awaited.get(&rank);
        let is_it = waits.is_some_and(|one| one.instance.incarnation == incarnation);
        is_it && self.awaited.remove(&rank).is_some()
    }
}

/// A log that holds what was copied, also of the receive log.
fn new_log(
    copied: &LogPart,
    (received, sizes): (Option<ReceiveMemory>, &LogSizes),
    incarnation: Incarnation,
) -> Result<RankLog> {
    let mut log = RankLog::new(sizes.make_later()?, 0)?;
    log.received = match received {
        None if sizes.received > 0 => Some(ReceiveMemory::empty(sizes.received)?),
        received => received,
    };
    if let Some(received) = &mut log.received {
        received.complete()?;
    }
    let written = copied.write(&mut log.words);
    written.map_err(|error| Error::Log(error.to_string()))?;
    (log.next, log.copied_for) = (copied.end(), Some(incarnation));
    Ok(log)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_channel_table::Epoch;
    use rejoin_channel_table::Generation;

    const RANK: Rank = Rank(3);

    fn logs() -> RankLogs {
        RankLogs {
            is_used: true,
            are_copied: true,
            ..RankLogs::default()
        }
    }

    fn process(incarnation: u32) -> ProcessInstance {
        ProcessInstance {
            generation: Generation(0),
            rank: RANK,
            incarnation: Incarnation(incarnation),
        }
    }

    fn copied(logs: &mut RankLogs, incarnation: u32) {
        let of = (RANK, Incarnation(incarnation));
        let process_there = Some((process(incarnation), ImageId::Checkpoint(Epoch(1))));
        assert_eq!(logs.take_part(of, &LogPart::default(), true), process_there);
        let again = logs.awaits(process(incarnation), ImageId::Checkpoint(Epoch(1)));
        assert_eq!(again, LogWait::Over);
    }

    #[test]
    fn the_next_process_continues_the_log_that_is_here() {
        let mut logs = logs();
        logs.begins(RANK, Incarnation(0));
        assert_eq!(
            logs.awaits(process(1), ImageId::Checkpoint(Epoch(1))),
            LogWait::Over
        );
        assert_eq!(
            logs.awaits(process(1), ImageId::Checkpoint(Epoch(1))),
            LogWait::Over
        );
        assert_eq!(
            logs.awaits(process(2), ImageId::Checkpoint(Epoch(2))),
            LogWait::Over
        );
    }

    #[test]
    fn a_rank_that_was_on_another_host_meanwhile_needs_the_copy() {
        let mut logs = logs();
        logs.begins(RANK, Incarnation(0));
        assert_eq!(
            logs.awaits(process(2), ImageId::Checkpoint(Epoch(1))),
            LogWait::Begins
        );
        assert_eq!(
            logs.awaits(process(2), ImageId::Checkpoint(Epoch(1))),
            LogWait::Lasts
        );
        copied(&mut logs, 2);
    }

    #[test]
    fn what_was_copied_for_a_rank_that_stayed_counts_no_more() {
        let mut logs = logs();
        assert_eq!(
            logs.awaits(process(1), ImageId::Checkpoint(Epoch(1))),
            LogWait::Begins
        );
        copied(&mut logs, 1);
        assert_eq!(
            logs.awaits(process(2), ImageId::Checkpoint(Epoch(1))),
            LogWait::Begins
        );
        copied(&mut logs, 2);
        // This one came, and has written to it.
        logs.read_new(RANK, Incarnation(2)).expect("a log");
        assert_eq!(
            logs.awaits(process(3), ImageId::Checkpoint(Epoch(3))),
            LogWait::Over
        );
    }

    #[test]
    fn an_order_that_another_one_replaces_loses_no_determinants() {
        let mut logs = logs();
        logs.begins(RANK, Incarnation(0));
        logs.is_to_continue(RANK, Incarnation(1));
        logs.is_to_continue(RANK, Incarnation(2));
        assert_eq!(
            logs.awaits(process(2), ImageId::Checkpoint(Epoch(1))),
            LogWait::Over
        );
        // Another host had the fourth one.
        logs.is_to_continue(RANK, Incarnation(4));
        assert_eq!(
            logs.awaits(process(4), ImageId::Checkpoint(Epoch(1))),
            LogWait::Begins
        );
    }

    #[test]
    fn a_rank_that_did_not_move_continues_its_log() {
        let mut logs = logs();
        logs.begins(RANK, Incarnation(0));
        for spent in 1..3 {
            logs.stays(RANK);
            assert_eq!(logs.logs[&RANK].user, Some(Incarnation(spent)));
        }
        assert_eq!(
            logs.awaits(process(3), ImageId::Checkpoint(Epoch(1))),
            LogWait::Over
        );
        // It has moved with the fourth one.
        assert_eq!(
            logs.awaits(process(5), ImageId::Checkpoint(Epoch(1))),
            LogWait::Begins
        );
    }

    #[test]
    fn a_copied_log_that_was_cut_is_continued() {
        let mut logs = logs();
        assert_eq!(
            logs.awaits(process(1), ImageId::Checkpoint(Epoch(1))),
            LogWait::Begins
        );
        copied(&mut logs, 1);
        // It depends on something lost, and has stored nothing.
        logs.was_cut(RANK, Incarnation(1));
        assert_eq!(
            logs.awaits(process(2), ImageId::Checkpoint(Epoch(1))),
            LogWait::Over
        );
    }

    #[test]
    fn without_copies_the_log_that_is_here_is_all() {
        let mut logs = logs();
        logs.are_copied = false;
        logs.begins(RANK, Incarnation(0));
        assert_eq!(
            logs.awaits(process(2), ImageId::Checkpoint(Epoch(1))),
            LogWait::Over
        );
    }
}
