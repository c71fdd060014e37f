//! Files of images: their copies on other hosts, their commits, and what happens if they can't be
//! written or copied.

use super::event::Event;
use super::interface::{CentralEffect, HostIndex, Record};
use super::job_state::Central;
use super::phase::CentralPhase;
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
                self.image_stored(now, (rank, host), epoch, effects);
            }
            ToCentral::ImageNotStored { rank, epoch, why } if self.ranks.is_on(rank, host) => {
                self.not_stored(now, (rank, host), epoch, why, effects);
            }
            ToCentral::ImageCopied { rank, epoch } if self.keeps_copies_of(host, rank) => {
                self.is_safe(now, rank, epoch, effects);
            }
            ToCentral::ImageNotCopied { rank, epoch, why } if self.keeps_copies_of(host, rank) => {
                self.not_stored(now, (rank, host), epoch, Some(why), effects);
            }
            _ => {}
        }
    }

    fn keeps_copies_of(&self, host: HostIndex, rank: Rank) -> bool {
        self.partner(self.ranks.host_of(rank)) == Some(host)
    }

    /// An image is in a file. It counts at once, or when the partner of its host has a copy.
    fn image_stored(
        &mut self,
        now: Time,
        (rank, host): (Rank, HostIndex),
        epoch: Epoch,
        effects: &mut Vec<CentralEffect>,
    ) {
        let Some(partner) = self.partner(host) else {
            return self.is_safe(now, rank, epoch, effects);
        };
        let checkpoints = self.mode.checkpoints();
        if checkpoints.is_some_and(|c| c.epochs().writing == Some(epoch)) {
            let from = host;
            let copy = ToLocal::Copy { rank, epoch, from };
            effects.push(CentralEffect::Send(partner, copy));
        }
    }

    /// A rank's image is in as many files as it is to be.
    fn is_safe(&mut self, now: Time, rank: Rank, epoch: Epoch, effects: &mut Vec<CentralEffect>) {
        let checkpoints = self.mode.checkpoints_mut();
        let Some(complete) = checkpoints.and_then(|c| c.stored(rank, epoch)) else {
            return;
        };
        effects.push(CentralEffect::Persist(Record::Committed {
            epoch,
            level: Level::File,
            at: complete.at,
            cost: complete.cost,
        }));
        let Some(checkpoints) = self.mode.checkpoints_mut() else {
            return;
        };
        let took = checkpoints.commit_files(now);
        // Of a checkpoint that was committed in memory meanwhile.
        if self.phase == CentralPhase::Running {
            checkpoints.begin_files(now);
        }
        let counted = checkpoints.epochs();
        self.tell_committed(epoch, effects);
        effects.push(CentralEffect::Event(Event::Committed {
            epoch,
            level: Level::File,
            took,
            cost: None,
            counted,
        }));
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
        let Some(checkpoints) = self.mode.checkpoints_mut() else {
            return;
        };
        if !checkpoints.not_stored(now, epoch, why.is_some()) {
            return;
        }
        if self.phase == CentralPhase::Running {
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

    /// All ranks are restored: files that the failure has kept from being written are begun.
    pub(super) fn write_files_again(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        let Some(checkpoints) = self.mode.checkpoints_mut() else {
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
