//! The committed checkpoints of a job, and the files of images that are being written.

use crate::failure_rate::FailureRate;
use crate::interval::Interval;
use crate::levels::CommittedEpochs;
use crate::manager_messages::Time;
use rejoin_channel_table::{Epoch, Rank};
use rejoin_wire::ImageCost;
use std::collections::BTreeSet;

/// Milliseconds to the next attempt to write files after one has failed. The pause doubles with
/// each further failure, up to the second value.
const REWRITE_PAUSES: (u64, u64) = (1_000, 600_000);

/// Milliseconds after which files are given up if the file of some rank is not whole.
const FILES_LIMIT: u64 = 3_600_000;

/// Under [`Interval::Auto`], files are being written for one part in so many of the time at most,
/// as long as no failure is seen …
const AUTO_SHARE: u64 = 20;
/// … and otherwise for one part in so many.
const MOST_SHARE: u64 = 4;

/// A committed checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CommittedCheckpoint {
    /// Number of the checkpoint.
    pub epoch: Epoch,
    /// When it was committed in memory.
    pub at: Time,
    /// The highest cost of it for a rank.
    pub cost: ImageCost,
}

/// Images that are being written to files.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct FilesUnderWay {
    checkpoint: CommittedCheckpoint,
    since: Time,
    missing: BTreeSet<Rank>,
    /// The user has asked for them.
    asked: bool,
}

/// The committed checkpoints of a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct CommittedLevels {
    ranks: u32,
    /// When images go to files; `None`: never.
    files: Option<Interval>,
    /// When files were last begun that have not failed.
    begun: Option<Time>,
    /// The nanoseconds that the last files took; 0: not known.
    took: u64,
    /// The user wants files of a checkpoint from this number on.
    wanted: Option<Epoch>,
    memory: Option<CommittedCheckpoint>,
    writing: Option<FilesUnderWay>,
    file: Option<CommittedCheckpoint>,
    /// Images that are gone from everywhere, of checkpoints that count.
    gone: BTreeSet<(Epoch, Rank)>,
    /// After a failure: the next attempt comes no sooner, and the milliseconds of that pause.
    rewrite: Option<(Time, u64)>,
}

impl CommittedLevels {
    /// Of a job of so many ranks without a checkpoint.
    pub fn new(ranks: u32, files: Option<Interval>) -> CommittedLevels {
        CommittedLevels {
            ranks,
            files,
            begun: None,
            took: 0,
            wanted: None,
            memory: None,
            writing: None,
            file: None,
            gone: BTreeSet::new(),
            rewrite: None,
        }
    }

    /// Continues from stored records. Files that were being written are begun again with
    /// [`CommittedLevels::begin_files`].
    pub fn resume(
        &mut self,
        memory: Option<CommittedCheckpoint>,
        file: Option<CommittedCheckpoint>,
    ) {
        let fresh = CommittedLevels::new(self.ranks, self.files);
        *self = CommittedLevels {
            memory,
            file,
            begun: file.map(|checkpoint| checkpoint.at),
            ..fresh
        };
    }

    /// The checkpoints whose images count.
    pub fn epochs(&self) -> CommittedEpochs {
        let writing = self.writing.as_ref();
        CommittedEpochs {
            memory: self.memory.map(|c| c.epoch),
            writing: writing.map(|files| files.checkpoint.epoch),
            file: self.file.map(|c| c.epoch),
        }
    }

    /// The newest checkpoint.
    pub fn newest(&self) -> Option<CommittedCheckpoint> {
        self.memory
    }

    fn find(&self, epoch: Epoch) -> Option<CommittedCheckpoint> {
        let writing = self.writing.as_ref().map(|files| files.checkpoint);
        let all = [self.memory, writing, self.file];
        all.into_iter().flatten().find(|c| c.epoch == epoch)
    }

    /// When this checkpoint was committed in memory.
    pub fn committed_at(&self, epoch: Epoch) -> Option<Time> {
        self.find(epoch).map(|checkpoint| checkpoint.at)
    }

    /// Whether every rank has an image of this checkpoint.
    fn is_whole(&self, epoch: Epoch) -> bool {
        let mut of_epoch = self.gone.range((epoch, Rank(0))..);
        of_epoch.next().is_none_or(|(other, _)| *other != epoch)
    }

    /// The newest checkpoint of which every rank has an image.
    pub fn newest_whole(&self) -> Option<Epoch> {
        let mut all = self.epochs().newest_first();
        all.find(|epoch| self.is_whole(*epoch))
    }

    /// The checkpoint to roll back to: the newest of which every rank has an image. Without any,
    /// the newest: the attempt then says what is missing.
    pub fn target(&self) -> Option<Epoch> {
        self.newest_whole().or(self.memory.map(|c| c.epoch))
    }

    /// The next best checkpoint to roll back to, if this one can't be restored.
    pub fn before(&self, epoch: Epoch) -> Option<Epoch> {
        let mut all = self.epochs().newest_first();
        all.find(|other| *other < epoch && self.is_whole(*other))
    }

    /// The newest checkpoint of which this rank has an image.
    pub fn image_of(&self, rank: Rank) -> Option<Epoch> {
        let mut all = self.epochs().newest_first();
        all.find(|epoch| !self.gone.contains(&(*epoch, rank)))
    }

    /// A rank's image of this checkpoint is gone. Files of it that are being written can't become
    /// complete. Returns whether any were.
    pub fn lose(&mut self, rank: Rank, epoch: Epoch) -> bool {
        if !self.epochs().contains(epoch) {
            return false;
        }
        self.gone.insert((epoch, rank));
        let was_written = self.epochs().writing == Some(epoch);
        if was_written {
            self.give_up_files();
            self.forget_superseded();
        }
        was_written
    }

    /// A checkpoint is committed in memory.
    pub fn commit_memory(&mut self, checkpoint: CommittedCheckpoint) {
        self.memory = Some(checkpoint);
        self.forget_superseded();
    }

    /// The user asks for a checkpoint, which gets this number or a higher one, in files.
    pub fn want_files(&mut self, from: Epoch) {
        self.wanted = self.files.map(|_| from);
    }

    /// The same, and no earlier failure delays them.
    pub fn want_files_now(&mut self, from: Epoch) {
        self.want_files(from);
        self.rewrite = None;
    }

    /// Files were asked for, and are not being written.
    pub fn awaits_files(&self) -> bool {
        self.wanted.is_some() && self.writing.is_none()
    }

    /// After a failure: no files are written before this time.
    pub fn rewrite_at(&self) -> Option<Time> {
        self.rewrite.map(|(at, _)| at)
    }

    /// The newest checkpoint in files, if it has this number or a higher one, and an image of every
    /// rank.
    pub fn in_files_since(&self, from: Epoch) -> Option<Epoch> {
        let file = self.file.map(|checkpoint| checkpoint.epoch)?;
        (file >= from && self.is_whole(file)).then_some(file)
    }

    /// Whether files of this checkpoint are due. The first one with files is, so that there is
    /// something to go back to.
    fn are_files_due(&self, now: Time, epoch: Epoch, failures: &FailureRate) -> bool {
        let asked = self.wanted.is_some_and(|from| from <= epoch);
        let since = |millis: u64| {
            let is_over = |begun: Time| begun.plus_millis(millis) <= now;
            self.begun.is_none_or(is_over)
        };
        let due = match self.files {
            None => return false,
            Some(Interval::Auto) => since(self.automatic(now, failures)),
            Some(Interval::Every(millis)) => since(millis),
            Some(Interval::Asked) => self.file.is_none(),
        };
        let paused = self.rewrite.is_some_and(|(at, _)| now < at);
        (due || asked) && !paused
    }

    /// Milliseconds between the beginnings of files whose duration is known.
    fn automatic(&self, now: Time, failures: &FailureRate) -> u64 {
        let times = |count: u64| self.took.saturating_mul(count) / 1_000_000;
        let best = failures.best_interval(now, self.took / 1000);
        let longest = times(AUTO_SHARE);
        best.map_or(longest, |best| best.clamp(times(MOST_SHARE), longest))
    }

    /// The newest checkpoint goes to files if that is due, unless it has them, others are being
    /// written, or the last attempt has just failed.
    pub fn begin_files(&mut self, now: Time, failures: &FailureRate) {
        let due = |c: &CommittedCheckpoint| self.are_files_due(now, c.epoch, failures);
        let Some(checkpoint) = self.memory.filter(due) else {
            return;
        };
        let has_files = self.file.map(|c| c.epoch) == Some(checkpoint.epoch);
        if has_files || self.writing.is_some() || !self.is_whole(checkpoint.epoch) {
            return;
        }
        self.begun = Some(now);
        let asked = self.wanted.take_if(|from| *from <= checkpoint.epoch);
        self.writing = Some(FilesUnderWay {
            checkpoint,
            since: now,
            asked: asked.is_some(),
            missing: (0..self.ranks).map(Rank).collect(),
        });
    }

    /// A rank's image of this checkpoint is in a file. Returns the checkpoint once all are: the
    /// caller stores that, then says [`CommittedLevels::commit_files`].
    pub fn stored(&mut self, rank: Rank, epoch: Epoch) -> Option<CommittedCheckpoint> {
        let files = self.writing.as_mut();
        let files = files.filter(|files| files.checkpoint.epoch == epoch)?;
        files.missing.remove(&rank);
        files.missing.is_empty().then_some(files.checkpoint)
    }

    /// The checkpoint whose files were under way is committed there. Returns the nanoseconds since
    /// they were begun.
    pub fn commit_files(&mut self, now: Time) -> u64 {
        let Some(files) = self.writing.take() else {
            return 0;
        };
        self.file = Some(files.checkpoint);
        self.rewrite = None;
        self.forget_superseded();
        self.took = now.0.saturating_sub(files.since.0);
        self.took
    }

    /// When files that are being written are given up.
    pub fn deadline(&self) -> Option<Time> {
        let files = self.writing.as_ref()?;
        Some(files.since.plus_millis(FILES_LIMIT))
    }

    /// The checkpoint whose files are being written, and how many ranks have theirs.
    pub fn files_under_way(&self) -> Option<(Epoch, u32)> {
        let files = self.writing.as_ref()?;
        let missing = u32::try_from(files.missing.len()).unwrap_or(u32::MAX);
        Some((files.checkpoint.epoch, self.ranks.saturating_sub(missing)))
    }

    /// Files that should be whole by now: their checkpoint, and a rank whose file is missing.
    pub fn late_files(&self, now: Time) -> Option<(Epoch, Rank)> {
        let files = self.writing.as_ref()?;
        let rank = *files.missing.first()?;
        let is_late = files.since.plus_millis(FILES_LIMIT) <= now;
        is_late.then_some((files.checkpoint.epoch, rank))
    }

    /// An image of this checkpoint can't be written to a file. `is_failure`: an attempt at once
    /// would fail, too. Returns whether its files were under way.
    pub fn not_stored(&mut self, now: Time, epoch: Epoch, is_failure: bool) -> bool {
        if self.epochs().writing != Some(epoch) {
            return false;
        }
        self.give_up_files();
        if is_failure {
            let (shortest, longest) = REWRITE_PAUSES;
            let before = self.rewrite.map_or(0, |(_, pause)| pause);
            let pause = (before * 2).clamp(shortest, longest);
            self.rewrite = Some((now.plus_millis(pause), pause));
        }
        self.forget_superseded();
        true
    }

    /// The job rolls back to this checkpoint: later ones are void. Its images make processes, so
    /// that all of them are in memory again.
    pub fn roll_back(&mut self, to: Epoch) {
        self.memory = self.find(to).or(self.memory);
        let is_void = |files: &FilesUnderWay| files.checkpoint.epoch > to;
        if self.writing.as_ref().is_some_and(is_void) {
            self.give_up_files();
        }
        self.forget_superseded();
    }

    /// Files under way are void. What was asked for stays so.
    fn give_up_files(&mut self) {
        self.begun = None;
        let files = self.writing.take().filter(|files| files.asked);
        let asked = files.map(|files| files.checkpoint.epoch);
        self.wanted = self.wanted.or(asked);
    }

    fn forget_superseded(&mut self) {
        let epochs = self.epochs();
        self.gone.retain(|(epoch, _)| epochs.contains(*epoch));
    }
}
