//! What the processes of images say, and their ends.

use super::images::{ImageEvent, ImageReport};
use super::local_rank::end_of;
use super::restore_process::RestoreHandler;
use crate::launch::local_messages::LocalToMpirun;
use rejoin_channel_table::{ImageId, Rank};
use rejoin_managers_host::error::Result;
use rejoin_managers_net::reactor::Token;
use rejoin_managers_protocol::local::LocalInput;
use rejoin_managers_protocol::manager_messages::End;
use rejoin_wire::ToManager;

impl RestoreHandler<'_> {
    /// Ends the process of an image, which is in a file, unless it is just making a rank's process.
    pub fn drop_from_memory(&mut self, rank: Rank, id: ImageId) {
        if let Some(slot) = self.ranks.slot(rank)
            && !self.restores.is_from(slot, id)
        {
            self.images.drop_process(slot, id, self.reactor);
        }
    }

    /// Reads the messages of an image.
    pub fn image_event(&mut self, token: Token) -> Result<()> {
        let slot = token.index as usize;
        loop {
            let Some((id, event)) = self.images.event(token, self.reactor) else {
                return Ok(());
            };
            let rank = self.ranks[slot].rank();
            match event {
                ImageEvent::Whole {
                    report,
                    shares_files,
                } => {
                    if let Some(report) = report {
                        self.on_image_report(slot, report);
                    }
                    if shares_files {
                        let line = "its images share open files with it that they can't open anew: \
                                    a lock of one stays when the rank closes it";
                        let lines = vec![line.to_string()];
                        self.mpirun
                            .notify(&LocalToMpirun::Caveats { rank, lines })?;
                    }
                }
                ImageEvent::Written => {}
                ImageEvent::NotStored { why } => {
                    let not_stored = LocalInput::ImageNotStored(rank, id, why);
                    self.inputs.push_back(not_stored);
                }
                ImageEvent::Incomplete { report, missing } => {
                    if let Some(report) = report {
                        let why = format!(
                            "{missing} bytes of its memory are marked to stay out of clones"
                        );
                        self.on_image_report(slot, refused(report, why));
                    }
                }
                ImageEvent::Running { pid } => self.arrived(slot, id, pid)?,
                // A later order for the rank is not concerned.
                ImageEvent::Failed { why } if self.restores.is_from(slot, id) => {
                    self.not_arrived(slot, why);
                }
                ImageEvent::Failed { .. } => {}
                ImageEvent::Lost { why } => self.image_lost(slot, id, &why),
            }
        }
    }

    fn on_image_report(&mut self, slot: usize, report: ImageReport) {
        let ImageReport {
            incarnation,
            pid,
            message,
        } = report;
        let rank = self.ranks[slot].rank();
        self.inputs
            .push_back(LocalInput::FromRank(rank, incarnation, pid, message));
    }

    /// Drops an image. The job may have rolled back to an earlier one while this one was making a
    /// process, whose answer can't come any more.
    pub fn drop_image(&mut self, rank: Rank, id: ImageId) {
        let Some(slot) = self.ranks.slot(rank) else {
            return;
        };
        let restoring = self.restores.is_from(slot, id);
        if self.images.drop_image(slot, id, self.reactor) && restoring {
            self.not_arrived(slot, "its image does not count any more".into());
        }
    }

    /// Drops everything that a recovery would need.
    pub fn drop_all_images(&mut self) {
        self.images.drop_all(self.reactor);
        self.ranks.iter().for_each(|rank| rank.discard(None));
    }

    /// An image is gone without our doing.
    pub fn image_lost(&mut self, slot: usize, id: ImageId, why: &str) {
        let rank = self.ranks[slot].rank();
        tracing::warn!(rank = rank.0, %id, why, "an image is lost");
        let restoring = self.restores.is_from(slot, id);
        if self.images.outlives_process(slot, id, self.reactor) {
            if restoring && let Err(error) = self.restore_from_file(slot) {
                self.not_arrived(slot, format!("its image: {error}"));
            }
            return;
        }
        if restoring {
            self.not_arrived(slot, format!("its image: {why}"));
        }
        // That of a move is of no use to another launch.
        let known = match id {
            ImageId::Move(_) => self.images.drop_image(slot, id, self.reactor),
            ImageId::Checkpoint(_) => self.images.lose_image(slot, id, self.reactor),
        };
        if known {
            self.inputs
                .push_back(LocalInput::ImageEnded(rank, id, None));
        }
    }

    /// A process has ended that is not one of the present ones: an image, a retired one, or one of
    /// which this manager is about to learn.
    pub fn forget(&mut self, pid: u32, status: Option<i32>) {
        if let Some((slot, id, token)) = self.images.of_process(pid) {
            // It may have said why.
            if let Err(error) = self.image_event(token) {
                tracing::error!(%error, "the end of an image is not reported");
            }
            // Its socket may still be held by a process that it is making.
            if self.images.of_process(pid).is_some() {
                self.image_lost(slot, id, "its process ended");
            }
            return;
        }
        for rank in self.ranks.iter_mut() {
            if let Some(incarnation) = rank.reaped(pid) {
                let end = status.map_or(End::Unknown, end_of);
                let ended = LocalInput::ChildEnded(rank.rank(), incarnation, end);
                return self.inputs.push_back(ended);
            }
        }
        if let Some(status) = status {
            self.restores.add_stray(pid, status);
        }
    }
}

/// The report of an image that can't be used, as one of an image that was not taken.
fn refused(report: ImageReport, why: String) -> ImageReport {
    let message = match report.message {
        ToManager::Imaged {
            generation, image, ..
        } => ToManager::NotImaged {
            generation,
            image,
            why,
            outlives: false,
        },
        other => other,
    };
    ImageReport { message, ..report }
}
