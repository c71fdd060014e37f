//! The safe point: where this rank's image of an epoch is taken.
//!
//! There are no images yet, so all that happens at it is that the engine enters the epoch. What is
//! there already is everything around it: a frame of a later epoch waits in its link, a resume of
//! a later epoch ends its handshake before the table has heard of it, and both go on behind the
//! safe point (held bytes are parsed, the link is dialed again). Who may order an epoch is not
//! checked here: it is the managers' business, with images.

use rejoin_channel_table::Epoch;

use crate::device::Device;
use crate::receive::note_due;

impl Device {
    /// The epoch that this rank is in: the number of its last image.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.engine.epoch()
    }

    /// Enters a later epoch now, at a safe point of the caller's (an order to checkpoint will). All
    /// that is sent from now on says so, and takes its receivers along. An earlier epoch, or the
    /// present one, changes nothing.
    pub fn enter_epoch(&mut self, epoch: Epoch) {
        note_due(&mut self.image_due, epoch);
        self.safe_point();
    }

    /// The end of a look at the links: nothing is half done but bodies, which links bring again.
    #[cold]
    pub(crate) fn safe_point(&mut self) {
        if let Some(epoch) = self.image_due.take() {
            // The image of this rank goes here.
            self.engine.set_epoch(epoch);
        }
    }
}
