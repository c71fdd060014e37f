//! The committed checkpoints of a job, and the images that are being brought to files and to
//! partner hosts.

use crate::background_level::BackgroundLevel;
pub use crate::committed_checkpoint::CommittedCheckpoint;
use crate::failure_rate::FailureRate;
use crate::interval::{CopyInterval, Interval};
use crate::levels::CommittedEpochs;
use crate::manager_messages::Time;
use rejoin_channel_table::{Epoch, Rank};
use std::collections::BTreeSet;

/// The last commit of a job on each level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct LastCommits {
    /// In memory.
    pub memory: Option<CommittedCheckpoint>,
    /// In files.
    pub file: Option<CommittedCheckpoint>,
    /// On partner hosts.
    pub partner: Option<CommittedCheckpoint>,
}

impl LastCommits {
    /// The checkpoints that there are; one may come more than once.
    pub fn all(&self) -> impl Iterator<Item = CommittedCheckpoint> + Clone + use<> {
        let all = [self.memory, self.file, self.partner];
        all.into_iter().flatten()
    }

    /// No rollback goes back behind this checkpoint.
    pub fn oldest(&self) -> Option<Epoch> {
        self.all().map(|checkpoint| checkpoint.epoch).min()
    }
}

/// The committed checkpoints of a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct CommittedLevels {
    ranks: u32,
    memory: Option<CommittedCheckpoint>,
    files: BackgroundLevel,
    /// The newest checkpoint whose files were begun; after a resumption: may have been.
    begun: Epoch,
    /// When files are copied to partner hosts; `None`: never.
    copy_interval: Option<CopyInterval>,
    copies: BackgroundLevel,
    /// Ranks have moved after this checkpoint: files of it and of those before can't be written and
    /// copied as if all ranks had been where they are.
    moved: Epoch,
    /// The copies under way are not ordered yet.
    is_unordered: bool,
    /// Images that are gone from everywhere, of checkpoints that count.
    gone: BTreeSet<(Epoch, Rank)>,
}

impl CommittedLevels {
    /// Of a job of so many ranks without a checkpoint.
    pub fn new(ranks: u32, files: Option<Interval>) -> CommittedLevels {
        CommittedLevels {
            ranks,
            memory: None,
            files: BackgroundLevel::new(files),
            begun: Epoch(0),
            copy_interval: None,
            copies: BackgroundLevel::new(None),
            moved: Epoch(0),
            is_unordered: false,
            gone: BTreeSet::new(),
        }
    }

    /// Files are copied to partner hosts.
    pub fn copy_files(&mut self, interval: CopyInterval) {
        self.copy_interval = Some(interval);
        self.copies = BackgroundLevel::new(Some(match interval {
            CopyInterval::EachTime => Interval::Every(0),
            CopyInterval::Own(interval) => interval,
        }));
    }

    /// Ranks have moved after this checkpoint.
    pub fn moved(&mut self, last: Epoch) {
        self.moved = self.moved.max(last);
    }

    /// No host with ranks is left that could copy files.
    pub fn stop_copies(&mut self) {
        self.copy_interval = None;
        self.is_unordered = false;
    }

    /// Continues from stored records. What was under way is begun again with
    /// [`CommittedLevels::begin_files`].
    pub fn resume(&mut self, last: LastCommits) {
        self.memory = last.memory;
        self.begun = {
            let known = [last.memory, last.file].into_iter().flatten();
            known.map(|c| c.epoch).max().unwrap_or_default()
        };
        self.files = self.files.resumed(last.file);
        self.copies = self.copies.resumed(last.partner);
        if let Some(file) = last
            .file
            .filter(|file| last.partner.is_some_and(|p| p.epoch < file.epoch))
        {
            // They may have been asked for.
            self.copies.want(file.epoch);
        }
        self.is_unordered = false;
        self.gone.clear();
    }

    /// The checkpoints whose images count.
    pub fn epochs(&self) -> CommittedEpochs {
        let epoch = |checkpoint: Option<CommittedCheckpoint>| checkpoint.map(|c| c.epoch);
        CommittedEpochs {
            memory: epoch(self.memory),
            writing: epoch(self.files.under_way()),
            file: epoch(self.files.committed()),
            copying: epoch(self.copies.under_way()),
            partner: epoch(self.on_partners()),
        }
    }

    /// The newest checkpoint that outlives the loss of a host, as far as that is arranged.
    fn on_partners(&self) -> Option<CommittedCheckpoint> {
        match self.copy_interval {
            None => self.files.committed(),
            Some(_) => self.copies.committed(),
        }
    }

    /// The newest checkpoint.
    pub fn newest(&self) -> Option<CommittedCheckpoint> {
        self.memory
    }

    fn find(&self, epoch: Epoch) -> Option<CommittedCheckpoint> {
        let files = [self.files.under_way(), self.files.committed()];
        let copies = [self.copies.under_way(), self.copies.committed()];
        let all = [self.memory].into_iter().chain(files).chain(copies);
        all.flatten().find(|c| c.epoch == epoch)
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

    /// The newest checkpoint in files before this one of which every rank has an image.
    pub fn files_before(&self, epoch: Epoch) -> Option<Epoch> {
        let counted = self.epochs();
        let mut all = counted.newest_first();
        all.find(|other| *other < epoch && counted.is_in_files(*other) && self.is_whole(*other))
    }

    /// The images of these ranks of checkpoints after this one are void.
    pub fn lose_later(&mut self, ranks: &[Rank], to: Epoch) {
        for epoch in self.epochs().newest_first().filter(|epoch| *epoch > to) {
            for rank in ranks {
                self.lose(*rank, epoch);
            }
        }
    }

    /// These ranks were on lost hosts: only their images of the checkpoint `left` are there.
    pub fn lose_on_hosts(&mut self, ranks: &[Rank], left: Epoch) {
        for epoch in self.epochs().newest_first().filter(|epoch| *epoch != left) {
            for rank in ranks {
                self.lose(*rank, epoch);
            }
        }
    }

    /// The newest checkpoint of which this rank has an image.
    pub fn image_of(&self, rank: Rank) -> Option<Epoch> {
        let mut all = self.epochs().newest_first();
        all.find(|epoch| !self.gone.contains(&(*epoch, rank)))
    }

    /// A rank's image of this checkpoint is gone. Files or copies of it that are under way can't
    /// become complete. Returns whether any were.
    pub fn lose(&mut self, rank: Rank, epoch: Epoch) -> bool {
        if !self.epochs().contains(epoch) {
            return false;
        }
        self.gone.insert((epoch, rank));
        let was_written = self.files.give_up(epoch);
        let was_copied = self.copies.give_up(epoch);
        if was_written || was_copied {
            self.forget_superseded();
        }
        was_written || was_copied
    }

    /// A checkpoint is committed in memory.
    pub fn commit_memory(&mut self, checkpoint: CommittedCheckpoint) {
        self.memory = Some(checkpoint);
        self.forget_superseded();
    }

    /// The user asks for a checkpoint, which gets this number or a higher one, in files.
    pub fn want_files(&mut self, from: Epoch) {
        self.files.want(from);
        self.copies.want_too(from);
    }

    /// The user asks for a checkpoint in files, and an earlier request stands.
    pub fn want_files_too(&mut self, from: Epoch) {
        self.files.want_too(from);
        self.copies.want_too(from);
    }

    /// The user asks for a checkpoint in files, and no earlier failure delays them.
    pub fn want_files_now(&mut self, from: Epoch) {
        self.want_files(from);
        self.files.forget_failure();
    }

    /// Files were asked for, and are not being written.
    pub fn awaits_files(&self) -> bool {
        self.files.is_awaited()
    }

    /// After a failure: no files are written before this time.
    pub fn rewrite_at(&self) -> Option<Time> {
        self.files.retry_at()
    }

    /// The newest checkpoint in files, if it has this number or a higher one, and an image of every
    /// rank.
    pub fn in_files_since(&self, from: Epoch) -> Option<Epoch> {
        let file = self.files.committed().map(|checkpoint| checkpoint.epoch)?;
        (file >= from && self.is_whole(file)).then_some(file)
    }

    /// The newest checkpoint that outlives the loss of a host, if there is an image of every rank.
    pub fn outlives_hosts(&self) -> Option<Epoch> {
        let epoch = self.on_partners()?.epoch;
        self.is_whole(epoch).then_some(epoch)
    }

    /// Whether images get files.
    pub fn keeps_files(&self) -> bool {
        self.files.is_in_use()
    }

    /// The newest checkpoint goes to files, and the newest in files to partner hosts, if that is
    /// due, nothing else is under way there, and the last attempt has not just failed.
    pub fn begin_files(&mut self, now: Time, failures: &FailureRate) {
        let due = |c: &CommittedCheckpoint| {
            let is_later = c.epoch > self.moved;
            is_later && self.is_whole(c.epoch) && self.copies.is_due(now, c.epoch, failures)
        };
        let in_files = self.files.committed();
        let in_files = in_files.filter(|_| self.copy_interval.is_some());
        if let Some(checkpoint) = in_files.filter(due) {
            self.copies.begin(now, checkpoint, self.ranks);
            self.is_unordered = true;
        }
        let waits = self.copy_interval == Some(CopyInterval::EachTime);
        if waits && self.copies.under_way().is_some() {
            return;
        }
        let due = |c: &CommittedCheckpoint| {
            let is_later = c.epoch > self.moved;
            is_later && self.is_whole(c.epoch) && self.files.is_due(now, c.epoch, failures)
        };
        if let Some(checkpoint) = self.memory.filter(due) {
            self.files.begin(now, checkpoint, self.ranks);
            self.begun = checkpoint.epoch;
        }
    }

    /// The newest checkpoint whose files were begun, or may have been.
    pub fn newest_of_files(&self) -> Epoch {
        self.begun
    }

    /// The checkpoint whose copies are to be ordered, once.
    pub fn take_unordered(&mut self) -> Option<Epoch> {
        let is_unordered = std::mem::take(&mut self.is_unordered);
        self.epochs().copying.filter(|_| is_unordered)
    }

    /// A rank's image of this checkpoint is in a file. Returns the checkpoint once all are: the
    /// caller stores that, then says [`CommittedLevels::commit_files`].
    pub fn stored(&mut self, rank: Rank, epoch: Epoch) -> Option<CommittedCheckpoint> {
        self.files.arrived(rank, epoch)
    }

    /// Whether these ranks' images of a checkpoint whose files are under way are there.
    pub fn has_files_of(&self, ranks: &[Rank], epoch: Epoch) -> bool {
        self.files.has_arrived(ranks, epoch)
    }

    /// The checkpoint whose files were under way is committed there. Returns the nanoseconds since
    /// they were begun.
    pub fn commit_files(&mut self, now: Time) -> u64 {
        let took = self.files.commit(now);
        self.forget_superseded();
        took
    }

    /// The file of a rank's image of this checkpoint is on a partner host. Returns the checkpoint
    /// once all are: the caller stores that, then says [`CommittedLevels::commit_copies`].
    pub fn copied(&mut self, rank: Rank, epoch: Epoch) -> Option<CommittedCheckpoint> {
        self.copies.arrived(rank, epoch)
    }

    /// The checkpoint whose copies were under way is committed there. Returns the nanoseconds since
    /// they were begun.
    pub fn commit_copies(&mut self, now: Time) -> u64 {
        let took = self.copies.commit(now);
        if self.copy_interval == Some(CopyInterval::EachTime) {
            self.files.add_time(took);
        }
        self.forget_superseded();
        took
    }

    /// When files or copies that are under way are given up.
    pub fn deadline(&self) -> Option<Time> {
        let deadlines = [self.files.deadline(), self.copies.deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// When copies of the newest files are due at the latest.
    pub fn copies_due_at(&self) -> Option<Time> {
        let in_files = self.files.committed().map(|checkpoint| checkpoint.epoch);
        let in_files =
            in_files.filter(|epoch| self.copy_interval.is_some() && self.is_whole(*epoch));
        let in_files = in_files.filter(|epoch| *epoch > self.moved);
        self.copies.due_at(in_files?)
    }

    /// The checkpoint whose files are being written, and how many ranks have theirs.
    pub fn files_under_way(&self) -> Option<(Epoch, u32)> {
        self.files.progress(self.ranks)
    }

    /// The checkpoint whose files are being copied, and of how many ranks they are.
    pub fn copies_under_way(&self) -> Option<(Epoch, u32)> {
        self.copies.progress(self.ranks)
    }

    /// Files that should be whole by now: their checkpoint, and a rank whose file is missing.
    pub fn late_files(&self, now: Time) -> Option<(Epoch, Rank)> {
        self.files.late(now)
    }

    /// Copies that should be whole by now: their checkpoint, and a rank without one.
    pub fn late_copies(&self, now: Time) -> Option<(Epoch, Rank)> {
        self.copies.late(now)
    }

    /// An image of this checkpoint can't be written to a file. `is_failure`: an attempt at once
    /// would fail, too. Returns whether its files were under way.
    pub fn not_stored(&mut self, now: Time, epoch: Epoch, is_failure: bool) -> bool {
        let were_under_way = self.files.fail(now, epoch, is_failure);
        self.forget_superseded();
        were_under_way
    }

    /// A file of this checkpoint can't be copied. Returns whether its copies were under way.
    pub fn not_copied(&mut self, now: Time, epoch: Epoch) -> bool {
        let were_under_way = self.copies.fail(now, epoch, true);
        self.forget_superseded();
        were_under_way
    }

    /// The job rolls back to this checkpoint: later ones are void. Its images make processes, so
    /// that all of them are in memory again.
    pub fn roll_back(&mut self, to: Epoch) {
        self.memory = self.find(to).or(self.memory);
        // An older one than the newest in files has its files because it is copied, or was.
        self.files.roll_back(to, self.find(to));
        self.copies.roll_back(to, None);
        self.forget_superseded();
    }

    fn forget_superseded(&mut self) {
        let epochs = self.epochs();
        self.gone.retain(|(epoch, _)| epochs.contains(*epoch));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_wire::ImageCost;

    const NOW: Time = Time(9);

    fn checkpoint(epoch: u32) -> CommittedCheckpoint {
        CommittedCheckpoint {
            epoch: Epoch(epoch),
            at: NOW,
            cost: ImageCost::default(),
        }
    }

    /// Of a job of two ranks whose images go to files, and these to partner hosts, each time.
    fn levels() -> CommittedLevels {
        let mut levels = CommittedLevels::new(2, Some(Interval::Every(0)));
        levels.copy_files(CopyInterval::Own(Interval::Every(0)));
        levels
    }

    fn begin_files(levels: &mut CommittedLevels) {
        levels.begin_files(NOW, &FailureRate::default());
    }

    /// A checkpoint is committed, and goes to files.
    fn into_files(levels: &mut CommittedLevels, epoch: u32) {
        levels.commit_memory(checkpoint(epoch));
        begin_files(levels);
        assert_eq!(levels.stored(Rank(0), Epoch(epoch)), None);
        let complete = levels.stored(Rank(1), Epoch(epoch));
        assert_eq!(complete, Some(checkpoint(epoch)));
        levels.commit_files(NOW);
    }

    /// The newest files go to partner hosts.
    fn to_partners(levels: &mut CommittedLevels, epoch: u32) {
        begin_files(levels);
        assert_eq!(levels.copied(Rank(0), Epoch(epoch)), None);
        let complete = levels.copied(Rank(1), Epoch(epoch));
        assert_eq!(complete, Some(checkpoint(epoch)));
        levels.commit_copies(NOW);
    }

    #[test]
    fn images_of_a_checkpoint_after_which_ranks_have_moved_go_nowhere() {
        let mut levels = levels();
        levels.commit_memory(checkpoint(2));
        levels.moved(Epoch(2));
        levels.moved(Epoch(1));
        begin_files(&mut levels);
        assert_eq!(levels.epochs().writing, None);
        into_files(&mut levels, 3);
        assert_eq!(levels.copies_due_at(), Some(Time(0)));
        levels.moved(Epoch(3));
        assert_eq!(levels.copies_due_at(), None);
        begin_files(&mut levels);
        assert_eq!(levels.epochs().copying, None);
        into_files(&mut levels, 4);
        to_partners(&mut levels, 4);
        assert_eq!(levels.epochs().partner, Some(Epoch(4)));
    }

    #[test]
    fn a_checkpoint_on_partner_hosts_counts_as_long_as_it_has_all_images() {
        let mut levels = levels();
        into_files(&mut levels, 1);
        to_partners(&mut levels, 1);
        assert_eq!(levels.outlives_hosts(), Some(Epoch(1)));
        assert_eq!(levels.in_files_since(Epoch(1)), Some(Epoch(1)));
        levels.lose(Rank(1), Epoch(1));
        assert_eq!(levels.outlives_hosts(), None);
        assert_eq!(levels.in_files_since(Epoch(1)), None);
    }

    #[test]
    fn a_rollback_ends_copies_of_later_files() {
        let mut levels = levels();
        into_files(&mut levels, 1);
        to_partners(&mut levels, 1);
        into_files(&mut levels, 2);
        begin_files(&mut levels);
        assert_eq!(levels.epochs().copying, Some(Epoch(2)));
        levels.roll_back(Epoch(2));
        assert_eq!(levels.epochs().copying, Some(Epoch(2)));
        levels.roll_back(Epoch(1));
        assert_eq!(levels.epochs().copying, None);
        assert_eq!(levels.copied(Rank(0), Epoch(2)), None);
        assert_eq!(levels.copied(Rank(1), Epoch(2)), None);
        let first = Some(Epoch(1));
        let epochs = levels.epochs();
        let left = [epochs.memory, epochs.file, epochs.partner];
        assert_eq!(left, [first; 3]);
    }

    #[test]
    fn what_lost_hosts_had_of_a_later_checkpoint_ends_its_files_and_copies() {
        let mut levels = levels();
        into_files(&mut levels, 1);
        to_partners(&mut levels, 1);
        into_files(&mut levels, 2);
        levels.commit_memory(checkpoint(3));
        begin_files(&mut levels);
        let under_way = levels.epochs();
        assert_eq!(under_way.copying, Some(Epoch(2)));
        assert_eq!(under_way.writing, Some(Epoch(3)));
        levels.lose_on_hosts(&[Rank(1)], Epoch(1));
        let left = levels.epochs();
        assert_eq!((left.writing, left.copying), (None, None));
        assert_eq!(levels.target(), Some(Epoch(1)));
        assert_eq!(levels.image_of(Rank(0)), Some(Epoch(3)));
        assert_eq!(levels.image_of(Rank(1)), Some(Epoch(1)));
    }
}
