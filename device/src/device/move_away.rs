//! A rank moves to another host: it stops at a safe point with an image, and a process that is made
//! of the image continues there (MPICH-GF's rejoin without a failure). Before that, it takes images
//! without stopping, so that the other host has most of its memory.
//!
//! The image has a number of its own and begins no epoch: the rank stays in the one in which its
//! peers are. For them, its links are cut and resume, as after any cut.

use std::time::Duration;

use rejoin_channel_table::Epoch;
use rejoin_ckpt::twin::Taken;
use rejoin_wire::ToManager;

use super::Device;
use super::determinants::STORE_LIMIT;
use crate::error::Result;
use crate::recovery::{MoveImage, NoImage};

/// How long a wait for the manager's message lasts before it is looked for again.
const PAUSE: Duration = Duration::from_secs(1);

/// How a wait for the logs of a rank that moves has ended.
enum StoredLogs {
    /// All are stored.
    All,
    /// The rank stays where it is.
    Needless,
    /// They are not, after a minute. Why the rank does not move.
    Late(String),
}

impl Device {
    /// Takes an image. If the rank stops, waits until the manager says that the rank stays here, or
    /// ends this process. The other threads are parked meanwhile. In the process that is made of
    /// the image, returns when it is back in the job.
    ///
    /// # Errors
    /// A manager that cannot be spoken to.
    pub(super) fn move_away(&mut self, image: MoveImage) -> Result<()> {
        let MoveImage { number, stops } = image;
        let generation = self.member.identity().generation;
        let mut parked = self.park_others().map_err(NoImage::from);
        let mut bodies = Vec::new();
        if stops && parked.is_ok() {
            // Before that, the log writes over bodies while they are copied.
            bodies = self.engine.logged_bodies();
            match self.await_stored_logs(number)? {
                StoredLogs::All => {}
                StoredLogs::Needless => return Ok(()),
                StoredLogs::Late(why) => parked = Err(NoImage::from(why)),
            }
        }
        let taken = parked
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|parked| self.recovery.take_image(parked, number, bodies));
        match taken {
            Ok(Taken::Continued(image)) => {
                self.report_image(number, &image)?;
                drop(image);
                match stops {
                    true => self.await_stay(number),
                    false => Ok(()),
                }
            }
            Ok(Taken::Restored(restored)) => {
                self.return_to_job(restored)?;
                self.recovery.moved(number);
                self.ask_again()
            }
            Err(NoImage { why, outlives, .. }) => self.manager.send(&ToManager::NotImaged {
                generation,
                epoch: number,
                why,
                outlives,
            }),
        }
    }

    /// Waits until the logs are stored where they outlive the host: the next host gets them from
    /// there.
    fn await_stored_logs(&mut self, number: Epoch) -> Result<StoredLogs> {
        self.log_received();
        if self.engine.any_to_record() {
            self.store_matches()?;
        }
        self.note_action();
        let mut waited = Duration::ZERO;
        loop {
            // Both are asked for at once.
            let received = self.is_received_stored()?;
            if self.are_determinants_stable()? && received {
                return Ok(StoredLogs::All);
            }
            if self.recovery.stays(number) {
                return Ok(StoredLogs::Needless);
            }
            if waited > STORE_LIMIT {
                let seconds = STORE_LIMIT.as_secs();
                let why = format!("its logs were not stored for other hosts within {seconds} s");
                return Ok(StoredLogs::Late(why));
            }
            waited += self.await_manager()?;
        }
    }

    /// Nothing but the manager is heard: what peers send stays unread, and their links send it to
    /// the successor.
    fn await_stay(&mut self, number: Epoch) -> Result<()> {
        loop {
            self.read_manager_messages()?;
            if self.recovery.stays(number) {
                return Ok(());
            }
            self.manager.await_message(PAUSE);
        }
    }

    /// This rank's local manager is another one, which does not know what the program waits for.
    fn ask_again(&mut self) -> Result<()> {
        let questions = self.recovery.unanswered();
        questions
            .iter()
            .try_for_each(|question| self.manager.send(question))
    }
}
