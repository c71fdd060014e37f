//! The safe point: where this rank's image of an epoch is taken.
//!
//! A rank takes its image on request, or when a frame or resume shows that a peer has taken one. A
//! frame of a later epoch waits in its link until then. A resume of a later epoch ends its
//! handshake before it reaches the table. Both continue after the safe point: the device parses
//! held bytes and dials the link again. So no image has received a message that another image has
//! not sent. The image of the sender retains messages in flight between two images.

use std::ops::Range;
use std::os::fd::AsRawFd;

use rejoin_channel_table::{Epoch, ImageId};
use rejoin_ckpt::threads::{self, Parked};
use rejoin_ckpt::twin::{Image, Restored, Taken};
use rejoin_ckpt::{ImageNumber, Refused, host_barrier};
use rejoin_wire::ToManager;

use super::manager_updates::ManagerHandler;
use crate::error::Result;
use crate::events::Waker;
use crate::recovery::NoImage;

pub use rejoin_ckpt::checkpoint_request::{Ask, is_pending};
pub use rejoin_ckpt::threads::try_park_others;

/// How often threads are parked again because one of them was waking this one.
const MOST_WAKES: u32 = 100;

/// Takes images of this process and reports them. Moves no frame: what must leave before an image
/// has left.
pub(super) struct ImageHandler<'a> {
    pub(super) orders: ManagerHandler<'a>,
    pub(super) waker: &'a Waker,
}

/// The process of an image, which is to return to its job.
pub(super) struct RestoredProcess {
    pub(super) restored: Restored,
    /// The other threads of the process begin to run when this is dropped: by then the process must
    /// be back in the job.
    pub(super) parked: Parked,
}

impl ImageHandler<'_> {
    /// Takes the image of an epoch that this rank has just entered, and reports it. Returns in the
    /// process that is restored from it.
    pub(super) fn take_image(&mut self, epoch: Epoch) -> Result<Option<RestoredProcess>> {
        let keys = &mut self.orders;
        if !keys.recovery.takes_images() {
            return Ok(None);
        }
        let id = ImageId::Checkpoint(epoch);
        // In these jobs central ties returns together where files lack messages.
        let bodies = if keys.member.settings().recovery.is_stable_on_nodes() {
            keys.engine.bodies_of_image()
        } else {
            keys.engine.logged_bodies()
        };
        let bodies = keys.logs.determinants.is_some().then_some(bodies);
        let parked = self.park_others().map_err(NoImage::from);
        match self.take(parked, id, bodies) {
            Ok((Taken::Continued(image), _parked)) => self.report_image(id, &image).map(|()| None),
            Ok((Taken::Restored(restored), parked)) => {
                Ok(Some(RestoredProcess { restored, parked }))
            }
            Err(reason) => self.report_no_image(epoch, reason).map(|()| None),
        }
    }

    /// Takes an image, if the other threads are parked. `log_bodies`: where the memory of the log
    /// has bodies; `None` for a rank without a log. Also returns the guard of the threads, which go
    /// on when it is dropped.
    pub(super) fn take(
        &mut self,
        parked: std::result::Result<Parked, NoImage>,
        id: ImageId,
        log_bodies: Option<Vec<Range<usize>>>,
    ) -> std::result::Result<(Taken, Parked), NoImage> {
        let parked = parked?;
        let taken = self.orders.recovery.take_image(&parked, id, log_bodies)?;
        Ok((taken, parked))
    }

    /// Parks all other threads, none of them on its way to wake this one: it would do so with a
    /// descriptor that a restored process does not have.
    pub(super) fn park_others(&self) -> std::result::Result<Parked, Refused> {
        for _ in 0..MOST_WAKES {
            let parked = threads::park_others()?;
            if !self.waker.is_in_use() {
                return Ok(parked);
            }
            drop(parked);
            std::thread::yield_now();
        }
        Err(Refused::Busy)
    }

    pub(super) fn report_image(&mut self, id: ImageId, image: &Image) -> Result<()> {
        let keys = &mut self.orders;
        let generation = keys.member.identity().generation;
        let message = keys.recovery.report(generation, id, image);
        if let (Some(rank_log), ToManager::Imaged { cost, .. }) =
            (&mut keys.logs.determinants, &message)
        {
            rank_log.image_taken(cost.total(), keys.engine.log_memory_used());
        }
        let pipes = [&image.stdout, &image.stderr];
        let ends = std::iter::once(&image.wait).chain(pipes.into_iter().flatten());
        let ends: Vec<_> = ends.map(AsRawFd::as_raw_fd).collect();
        keys.manager.send_with_descriptors(&message, &ends)
    }

    fn report_no_image(&mut self, epoch: Epoch, reason: NoImage) -> Result<()> {
        let generation = self.orders.member.identity().generation;
        let reason = self.orders.recovery.not_taken(reason);
        let requests_again = self.orders.recovery.requests_again(&reason);
        let NoImage { why, outlives, .. } = reason;
        self.orders.manager.send(&ToManager::NotImaged {
            generation,
            image: ImageId::Checkpoint(epoch),
            why,
            outlives,
        })?;
        // The ranks that share memory with this one give the epoch up, too. This reason is first.
        host_barrier::fail(ImageNumber::of_checkpoint(epoch.0));
        if requests_again {
            self.orders
                .manager
                .send(&ToManager::Checkpoint { after: epoch })?;
        }
        Ok(())
    }
}
