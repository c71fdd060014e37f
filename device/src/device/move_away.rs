//! A rank moves to another host: it stops at a safe point with an image, and a process that is made
//! of the image continues there (MPICH-GF's rejoin without a failure). Before that, it takes images
//! without stopping, so that the other host has most of its memory.
//!
//! The image has a number of its own and begins no epoch: the rank stays in the one in which its
//! peers are. For them, its links are cut and resume, as after any cut.

use std::time::Duration;

use rejoin_channel_table::{ImageId, MoveNumber};
use rejoin_ckpt::twin::Taken;
use rejoin_wire::ToManager;

use super::manager_updates::STORE_LIMIT;
use super::safe_point::{ImageHandler, RestoredProcess};
use crate::error::Result;
use crate::recovery::{MoveImage, NoImage};

/// How long a wait for the manager's message lasts before it is looked for again.
const PAUSE: Duration = Duration::from_secs(1);

/// How a wait for the logs of a rank that moves has ended.
enum StoredLogs {
    /// All logs are stored.
    All,
    /// The rank stays where it is.
    Needless,
    /// Some are not stored after a minute. Why the rank does not move.
    Late(String),
}

impl ImageHandler<'_> {
    /// Takes an image. If the rank stops, waits until the manager says that the rank stays here, or
    /// ends this process. The other threads are parked meanwhile. Returns in the process that is
    /// made of the image.
    ///
    /// # Errors
    /// A manager that cannot be spoken to.
    pub(super) fn move_away(&mut self, image: MoveImage) -> Result<Option<RestoredProcess>> {
        let MoveImage { number, stops } = image;
        let id = ImageId::Move(number);
        let mut parked = self.park_others().map_err(NoImage::from);
        let mut bodies = Vec::new();
        if stops && parked.is_ok() {
            // Before that, the log writes over bodies while they are copied.
            bodies = self.orders.engine.logged_bodies();
            match self.await_stored_logs(number)? {
                StoredLogs::All => {}
                StoredLogs::Needless => return Ok(None),
                StoredLogs::Late(why) => parked = Err(NoImage::from(why)),
            }
        }
        let bodies = self.orders.logs.determinants.is_some().then_some(bodies);
        match self.take(parked, id, bodies) {
            Ok((Taken::Continued(image), _parked)) => {
                self.report_image(id, &image)?;
                drop(image);
                if stops {
                    self.await_stay(number)?;
                }
                Ok(None)
            }
            Ok((Taken::Restored(restored), parked)) => {
                Ok(Some(RestoredProcess { restored, parked }))
            }
            Err(NoImage { why, outlives, .. }) => {
                let generation = self.orders.member.identity().generation;
                let message = ToManager::NotImaged {
                    generation,
                    image: id,
                    why,
                    outlives,
                };
                self.orders.manager.send(&message).map(|()| None)
            }
        }
    }

    /// Waits until the logs are stored where they outlive the host: the next host gets them from
    /// there.
    fn await_stored_logs(&mut self, number: MoveNumber) -> Result<StoredLogs> {
        let mut logs = self.orders.logs();
        logs.log_received();
        if logs.engine.any_to_record() {
            logs.store_matches()?;
        }
        logs.logs.note_action();
        let mut waited = Duration::ZERO;
        loop {
            // Both are asked for at once.
            let mut logs = self.orders.logs();
            let received = logs.is_received_stored()?;
            if logs.are_determinants_stable()? && received {
                return Ok(StoredLogs::All);
            }
            if self.orders.recovery.stays(number) {
                return Ok(StoredLogs::Needless);
            }
            if waited > STORE_LIMIT {
                let seconds = STORE_LIMIT.as_secs();
                let why = format!("its logs were not stored for other hosts within {seconds} s");
                return Ok(StoredLogs::Late(why));
            }
            waited += self.orders.await_messages()?;
        }
    }

    /// Nothing but the manager is heard: what peers send stays unread, and their links send it to
    /// the successor.
    fn await_stay(&mut self, number: MoveNumber) -> Result<()> {
        loop {
            self.orders.read()?;
            if self.orders.recovery.stays(number) {
                return Ok(());
            }
            self.orders.manager.await_message(PAUSE);
        }
    }
}
