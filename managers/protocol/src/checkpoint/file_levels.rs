//! Files of images, and their copies on other hosts.

use super::Coordinator;
use crate::committed_levels::CommittedCheckpoint;
use crate::manager_messages::Time;
use rejoin_channel_table::{Epoch, Rank};

impl Coordinator {
    /// The newest checkpoint in files, if it has this number or a higher one, and an image of every
    /// rank.
    #[must_use]
    pub fn in_files_since(&self, from: Epoch) -> Option<Epoch> {
        self.committed.in_files_since(from)
    }

    /// The newest checkpoint that outlives the loss of a host, if there is an image of every rank.
    #[must_use]
    pub fn outlives_hosts(&self) -> Option<Epoch> {
        self.committed.outlives_hosts()
    }

    /// The newest checkpoint whose files were ever begun, as far as this central manager knows.
    #[must_use]
    pub fn newest_of_files(&self) -> Epoch {
        self.committed.newest_of_files()
    }

    /// The newest checkpoint in files before this one of which every rank has an image.
    #[must_use]
    pub fn files_before(&self, epoch: Epoch) -> Option<Epoch> {
        self.committed.files_before(epoch)
    }

    /// These ranks come back from this checkpoint: later images of theirs are void, and a request
    /// under way, too.
    pub fn fall_back(&mut self, ranks: &[Rank], to: Epoch) {
        self.void_request();
        self.committed.lose_later(ranks, to);
    }

    /// Central was started again: these images count no more.
    pub fn recall_void(&mut self, images: &[(Rank, Epoch)]) {
        for (rank, epoch) in images {
            self.committed.lose(*rank, *epoch);
        }
    }

    /// The request under way counts no more, and another one follows.
    fn void_request(&mut self) {
        if let Some(void) = self.pending.take() {
            self.overdue = Some(void.since);
            self.another = true;
        }
    }

    /// These ranks were on hosts that are lost: of their images, only those of the checkpoint
    /// `left` are there.
    pub fn lose_on_hosts(&mut self, ranks: &[Rank], left: Epoch) {
        // Their images of it may have been there.
        self.void_request();
        self.committed.lose_on_hosts(ranks, left);
    }

    /// Whether the files of these ranks' images of a checkpoint that is being written are there.
    #[must_use]
    pub fn has_files_of(&self, ranks: &[Rank], epoch: Epoch) -> bool {
        self.committed.has_files_of(ranks, epoch)
    }

    /// Further ranks are asked for their images of the checkpoint that is under way.
    pub fn goes_on(&mut self, now: Time) {
        if let Some(request) = &mut self.pending {
            request.asked = now;
        }
    }

    /// Files of a checkpoint of this number or a higher one are needed. Returns whether such a
    /// checkpoint is under way or being written already.
    pub fn want_files_from(&mut self, from: Epoch) -> bool {
        let counted = self.epochs();
        let under_way = [counted.writing, counted.copying];
        if under_way.into_iter().flatten().any(|epoch| epoch >= from) {
            return true;
        }
        let pending = self.pending().filter(|epoch| *epoch >= from);
        self.committed.want_files_too(pending.unwrap_or(self.next));
        pending.is_some()
    }

    /// Whether images get files.
    #[must_use]
    pub fn keeps_files(&self) -> bool {
        self.committed.keeps_files()
    }

    /// Writes the images of the newest checkpoint to files, and copies the newest files to partner
    /// hosts, if that is due and can be done now: `writing` and `copying` of
    /// [`CommittedEpochs`](crate::levels::CommittedEpochs) then name them.
    pub fn begin_files(&mut self, now: Time) {
        self.committed.begin_files(now, &self.failures);
    }

    /// A rank's image of this checkpoint is in a file. Returns the checkpoint once all are: the
    /// caller stores that, then says [`Coordinator::commit_files`].
    pub fn stored(&mut self, rank: Rank, epoch: Epoch) -> Option<CommittedCheckpoint> {
        self.committed.stored(rank, epoch)
    }

    /// The commit in files is stored. Returns the nanoseconds since they were begun.
    pub fn commit_files(&mut self, now: Time) -> u64 {
        self.committed.commit_files(now)
    }

    /// The checkpoint whose copies are to be ordered, once.
    pub fn take_unordered(&mut self) -> Option<Epoch> {
        self.committed.take_unordered()
    }

    /// The file of a rank's image of this checkpoint is on a partner host. Returns the checkpoint
    /// once all are: the caller stores that, then says [`Coordinator::commit_copies`].
    pub fn copied(&mut self, rank: Rank, epoch: Epoch) -> Option<CommittedCheckpoint> {
        self.committed.copied(rank, epoch)
    }

    /// The commit on partner hosts is stored. Returns the nanoseconds since copies were begun.
    pub fn commit_copies(&mut self, now: Time) -> u64 {
        self.committed.commit_copies(now)
    }

    /// A file of this checkpoint can't be copied: the next attempt comes after a pause. Returns
    /// whether its copies were under way.
    pub fn not_copied(&mut self, now: Time, epoch: Epoch) -> bool {
        self.committed.not_copied(now, epoch)
    }

    /// A rank's image of this checkpoint can't be written to a file. `is_failure`: the next attempt
    /// comes after a pause. Returns whether files of this checkpoint were under way.
    pub fn not_stored(&mut self, now: Time, epoch: Epoch, is_failure: bool) -> bool {
        let were_under_way = self.committed.not_stored(now, epoch, is_failure);
        if were_under_way && is_failure {
            self.continue_pursuit(now);
        }
        were_under_way
    }
}
