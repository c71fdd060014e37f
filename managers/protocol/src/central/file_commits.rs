//! Files of images: their copies on other hosts, their commits, and what happens if they can't be
//! written or copied.

use super::checkpoint_handler::CheckpointHandler;
use super::event::Event;
use super::interface::{HostIndex, Record};
use crate::committed_levels::CommittedCheckpoint;
use crate::levels::Level;
use rejoin_channel_table::{Epoch, Rank};

impl CheckpointHandler<'_> {
    fn keeps_copies_of(&self, host: HostIndex, rank: Rank) -> bool {
        let stripe = self.cluster.copy_groups().named(rank);
        stripe.is_some_and(|stripe| stripe.holder == host)
    }

    /// A rank's image is in a file.
    pub(super) fn image_stored(&mut self, host: HostIndex, rank: Rank, epoch: Epoch) {
        if !self.cluster.ranks.is_on(rank, host) {
            return;
        }
        let checkpoints = self.commits.checkpoints_mut();
        let complete = checkpoints.and_then(|c| c.stored(rank, epoch));
        self.turns().group_is_stored(rank, epoch);
        if let Some(complete) = complete {
            self.commit_level(Level::File, complete);
        }
    }

    /// The files of the stripe that this rank names are on another host, or their parity is.
    pub(super) fn image_copied(&mut self, host: HostIndex, rank: Rank, epoch: Epoch) {
        if !self.keeps_copies_of(host, rank) {
            return;
        }
        let stripe = self.cluster.copy_groups().named(rank);
        let members = stripe.map_or_else(Vec::new, |stripe| stripe.members.clone());
        let Some(checkpoints) = self.commits.checkpoints_mut() else {
            return;
        };
        for (rank, _) in members {
            if let Some(complete) = checkpoints.copied(rank, epoch) {
                return self.commit_level(Level::Partner, complete);
            }
        }
    }

    /// The image of a rank can't be written to a file. `None`: it can be tried again at once.
    pub(super) fn image_not_stored(
        &mut self,
        host: HostIndex,
        rank: Rank,
        epoch: Epoch,
        why: Option<String>,
    ) {
        if self.cluster.ranks.is_on(rank, host) {
            self.not_stored((rank, host), epoch, why);
        }
    }

    /// A host can't copy the files of the stripe that this rank names.
    pub(super) fn image_not_copied(
        &mut self,
        host: HostIndex,
        rank: Rank,
        epoch: Epoch,
        why: String,
    ) {
        if self.keeps_copies_of(host, rank) {
            self.not_copied((rank, host), epoch, why);
        }
    }

    /// Every rank has its image of this checkpoint on this level.
    fn commit_level(
        &mut self,
        level: Level,
        CommittedCheckpoint { epoch, at, cost }: CommittedCheckpoint,
    ) {
        let now = self.out.now;
        self.out.persist(Record::Committed {
            epoch,
            level,
            at,
            cost,
        });
        let begins = self.begins_files();
        let Some(checkpoints) = self.commits.checkpoints_mut() else {
            return;
        };
        let took = match level {
            Level::Partner => checkpoints.commit_copies(now),
            _ => checkpoints.commit_files(now),
        };
        // Of a checkpoint that was committed in memory meanwhile.
        if begins {
            checkpoints.begin_files(now);
        }
        let counted = checkpoints.epochs();
        self.notify_committed(epoch);
        self.group_commits().release_by_files();
        self.out.event(Event::Committed {
            epoch,
            level,
            took,
            cost: None,
            counted,
        });
    }

    /// Files of a checkpoint are given up.
    pub(super) fn not_stored(
        &mut self,
        (rank, host): (Rank, HostIndex),
        epoch: Epoch,
        why: Option<String>,
    ) {
        let now = self.out.now;
        let begins = self.begins_files();
        let Some(checkpoints) = self.commits.mode.checkpoints_mut() else {
            return;
        };
        if !checkpoints.not_stored(now, epoch, why.is_some()) {
            return;
        }
        // If the same images are tried again, all groups have their turn again.
        self.commits.file_turns.end();
        if begins {
            checkpoints.begin_files(now);
        }
        let file = checkpoints.epochs().file;
        self.notify_committed(epoch);
        if let Some(why) = why {
            self.out.event(Event::NotStored {
                epoch,
                rank,
                host: self.cluster.hosts.name(host),
                why,
                file,
            });
        }
    }

    /// Copies of a checkpoint's files are given up. `host` was to copy the file of `rank`.
    pub(super) fn not_copied(
        &mut self,
        (rank, host): (Rank, HostIndex),
        epoch: Epoch,
        why: String,
    ) {
        let now = self.out.now;
        let begins = self.begins_files();
        let Some(checkpoints) = self.commits.checkpoints_mut() else {
            return;
        };
        if !checkpoints.not_copied(now, epoch) {
            return;
        }
        if begins {
            checkpoints.begin_files(now);
        }
        let partner = checkpoints.epochs().partner;
        self.notify_committed(epoch);
        self.out.event(Event::NotCopied {
            epoch,
            rank,
            host: self.cluster.hosts.name(host),
            why,
            partner,
        });
    }

    /// All ranks are restored: files that the failure has kept from being written are begun.
    pub(super) fn write_files_again(&mut self) {
        let now = self.out.now;
        let begins = self.begins_files();
        let Some(checkpoints) = self.commits.checkpoints_mut().filter(|_| begins) else {
            return;
        };
        let before = checkpoints.epochs();
        checkpoints.begin_files(now);
        let after = checkpoints.epochs();
        if let Some(newest) = after.memory.filter(|_| after != before) {
            self.notify_committed(newest);
        }
    }
}
