//! The safe point: where this rank's image of an epoch is taken.
//!
//! A rank takes its image when it is told to, or when it meets a peer that has. A frame of a later
//! epoch waits in its link until then, and a resume of a later epoch ends its handshake before the
//! table has heard of it; both go on behind the safe point (held bytes are parsed, the link is dialed
//! again). So no image has received what another image has not sent, and what is in flight between two
//! images is still kept in its sender's.

use rejoin_channel_table::Epoch;
use rejoin_ckpt::order;

use crate::device::Device;
use crate::error::Result;
use crate::receive::note_due;

impl Device {
    /// The epoch that this rank is in: the number of its last image.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.engine.epoch()
    }

    /// Enters a later epoch now, at a safe point of the caller's. All that is sent from now on says so,
    /// and takes its receivers along. An earlier epoch, or the present one, changes nothing. Returns
    /// again in each process that is restored from the image that is taken here.
    ///
    /// # Errors
    /// A manager that cannot be spoken to.
    pub fn enter_epoch(&mut self, epoch: Epoch) -> Result<()> {
        // A program that computes for hours takes nothing else from its socket.
        self.hear_manager()?;
        self.note_order(epoch);
        self.safe_point()
    }

    /// An image of this epoch is wanted, unless this rank is in it.
    pub(crate) fn note_order(&mut self, epoch: Epoch) {
        if epoch > self.engine.epoch() {
            note_due(&mut self.image_due, epoch);
        }
    }

    /// Takes up an order that came by signal when it could not be obeyed.
    pub(crate) fn hear_orders(&mut self) {
        if order::is_wanted()
            && let Some(epoch) = order::wanted()
        {
            self.note_order(Epoch(epoch));
        }
    }

    /// A place where nothing is half done but bodies, which links bring again: the end of a look at the
    /// links, the end of `MPI_Init`, or the program's own code.
    ///
    /// # Errors
    /// A manager that cannot be spoken to.
    #[cold]
    pub fn safe_point(&mut self) -> Result<()> {
        self.hear_orders();
        let before = self.identity;
        // A process that comes back may have heard of the next one on its way.
        while let Some(epoch) = self.image_due.take() {
            if epoch > self.engine.epoch() {
                self.engine.set_epoch(epoch);
                self.take_image(epoch)?;
            }
        }
        if self.identity == before {
            return Ok(());
        }
        self.restore_links()
    }
}
