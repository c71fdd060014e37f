//! Files of images: their copies on other hosts, their commits, and what happens if they can't be
//! written or copied.

use super::event::Event;
use super::interface::{CentralEffect, HostIndex, Record};
use super::job_state::Central;
use super::phase::CentralPhase;
use crate::checkpoint::Coordinator;
use crate::committed_levels::CommittedCheckpoint;
use crate::levels::Level;
use crate::manager_messages::{Time, ToCentral, ToLocal};
use rejoin_channel_table::{Epoch, Rank};

impl Central {
    /// A local manager's report about the file of an image. An epoch has one image of a rank, also
    /// if the rank has rolled back since. So the report counts in every generation.
    pub(super) fn file_message(
        &mut self,
        now: Time,
        host: HostIndex,
        message: ToCentral,
        effects: &mut Vec<CentralEffect>,
    ) {
        let takes_part = matches!(
            self.phase,
            CentralPhase::Running | CentralPhase::Restoring(_) | CentralPhase::Finalizing
        );
        if !takes_part {
            return;
        }
        match message {
            ToCentral::ImageStored { rank, epoch } if self.ranks.is_on(rank, host) => {
                self.image_stored(now, rank, epoch, effects);
            }
            ToCentral::ImageNotStored { rank, epoch, why } if self.ranks.is_on(rank, host) => {
                self.not_stored(now, (rank, host), epoch, why, effects);
            }
            ToCentral::ImageCopied { rank, epoch } if self.keeps_copies_of(host, rank) => {
                self.image_copied(now, rank, epoch, effects);
            }
            ToCentral::ImageNotCopied { rank, epoch, why } if self.keeps_copies_of(host, rank) => {
                self.not_copied(now, (rank, host), epoch, why, effects);
            }
            _ => {}
        }
    }

    fn keeps_copies_of(&self, host: HostIndex, rank: Rank) -> bool {
        let stripe = self.copy_groups().named(rank);
        stripe.is_some_and(|stripe| stripe.holder == host)
    }

    /// A rank's image is in a file.
    fn image_stored(
        &mut self,
        now: Time,
        rank: Rank,
        epoch: Epoch,
        effects: &mut Vec<CentralEffect>,
    ) {
        let checkpoints = self.mode.checkpoints_mut();
        let complete = checkpoints.and_then(|c| c.stored(rank, epoch));
        self.group_is_stored(rank, epoch, effects);
        if let Some(complete) = complete {
            self.commit_level(now, Level::File, complete, effects);
        }
    }

    /// The files of the stripe that this rank names are on another host, or their parity is.
    fn image_copied(
        &mut self,
        now: Time,
        rank: Rank,
        epoch: Epoch,
        effects: &mut Vec<CentralEffect>,
    ) {
        let stripe = self.copy_groups().named(rank);
        let members = stripe.map_or_else(Vec::new, |stripe| stripe.members.clone());
        let Some(checkpoints) = self.mode.checkpoints_mut() else {
            return;
        };
        for (rank, _) in members {
            if let Some(complete) = checkpoints.copied(rank, epoch) {
                return self.commit_level(now, Level::Partner, complete, effects);
            }
        }
    }

    /// Every rank has its image of this checkpoint on this level.
    fn commit_level(
        &mut self,
        now: Time,
        level: Level,
        CommittedCheckpoint { epoch, at, cost }: CommittedCheckpoint,
        effects: &mut Vec<CentralEffect>,
    ) {
        effects.push(CentralEffect::Persist(Record::Committed {
            epoch,
            level,
            at,
            cost,
        }));
        let begins = self.begins_files();
        let Some(checkpoints) = self.mode.checkpoints_mut() else {
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
        self.tell_committed(epoch, effects);
        self.release_by_files(effects);
        effects.push(CentralEffect::Event(Event::Committed {
            epoch,
            level,
            took,
            cost: None,
            counted,
        }));
    }

    /// Has partner hosts copy files, if that was begun and they do not know it.
    pub(super) fn order_copies(&mut self, effects: &mut Vec<CentralEffect>) {
        let checkpoints = self.mode.checkpoints_mut();
        let Some(epoch) = checkpoints.and_then(Coordinator::take_unordered) else {
            return;
        };
        for stripe in self.copy_groups().stripes() {
            let members = stripe.members.clone();
            let copy = ToLocal::Copy { members, epoch };
            effects.push(CentralEffect::Send(stripe.holder, copy));
        }
    }

    /// Files of a checkpoint are given up.
    pub(super) fn not_stored(
        &mut self,
        now: Time,
        (rank, host): (Rank, HostIndex),
        epoch: Epoch,
        why: Option<String>,
        effects: &mut Vec<CentralEffect>,
    ) {
        let begins = self.begins_files();
        let Some(checkpoints) = self.mode.checkpoints_mut() else {
            return;
        };
        if !checkpoints.not_stored(now, epoch, why.is_some()) {
            return;
        }
        // If the same images are tried again, all groups have their turn again.
        self.file_turns.end();
        if begins {
            checkpoints.begin_files(now);
        }
        let file = checkpoints.epochs().file;
        self.tell_committed(epoch, effects);
        if let Some(why) = why {
            effects.push(CentralEffect::Event(Event::NotStored {
                epoch,
                rank,
                host: self.hosts.name(host),
                why,
                file,
            }));
        }
    }

    /// Copies of a checkpoint's files are given up. `host` was to copy the file of `rank`.
    pub(super) fn not_copied(
        &mut self,
        now: Time,
        (rank, host): (Rank, HostIndex),
        epoch: Epoch,
        why: String,
        effects: &mut Vec<CentralEffect>,
    ) {
        let begins = self.begins_files();
        let Some(checkpoints) = self.mode.checkpoints_mut() else {
            return;
        };
        if !checkpoints.not_copied(now, epoch) {
            return;
        }
        if begins {
            checkpoints.begin_files(now);
        }
        let partner = checkpoints.epochs().partner;
        self.tell_committed(epoch, effects);
        effects.push(CentralEffect::Event(Event::NotCopied {
            epoch,
            rank,
            host: self.hosts.name(host),
            why,
            partner,
        }));
    }

    /// Whether files can be begun: the job runs, no rank is about to leave the host on which its
    /// file would be written, and none has a deadline for that.
    pub(super) fn begins_files(&self) -> bool {
        let leaves = self.moves.is_any_leaving() || self.moves.is_any_urgent();
        self.phase == CentralPhase::Running && !leaves
    }

    /// All ranks are restored: files that the failure has kept from being written are begun.
    pub(super) fn write_files_again(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        let begins = self.begins_files();
        let Some(checkpoints) = self.mode.checkpoints_mut().filter(|_| begins) else {
            return;
        };
        let before = checkpoints.epochs();
        checkpoints.begin_files(now);
        let after = checkpoints.epochs();
        if let Some(newest) = after.memory.filter(|_| after != before) {
            self.tell_committed(newest, effects);
        }
    }
}
