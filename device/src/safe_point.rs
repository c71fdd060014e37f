//! The safe point: where this rank's image of an epoch is taken.
//!
//! A rank takes its image when it is told to, or when it meets a peer that has. A frame of a later
//! epoch waits in its link until then, and a resume of a later epoch ends its handshake before the
//! table has heard of it; both continue behind the safe point (held bytes are parsed, the link is
//! dialed again). So no image has received what another image has not sent, and what is in flight
//! between two images is still kept in its sender's.

use rejoin_channel_table::Epoch;
use rejoin_ckpt::{checkpoint_request, watch};

use crate::device::Device;
use crate::error::{Error, Result};

pub use rejoin_ckpt::checkpoint_request::{Ask, is_pending};

impl Device {
    /// Lets the manager request checkpoints by signal, wherever the program is: the handler asks
    /// whether the image may be taken there. If not, [`is_pending`] is true until a safe point.
    /// Nothing happens where no images are taken.
    ///
    /// # Errors
    /// The system refuses the signal.
    pub fn accept_checkpoints(&self, ask: Ask) -> Result<()> {
        if self.imager.is_none() {
            return Ok(());
        }
        checkpoint_request::install(checkpoint_request::usual_signal(), ask)
            .map_err(|error| Error::system("listen to requests for checkpoints", error))
    }

    /// No image is taken any more.
    pub(crate) fn refuse_checkpoints(&mut self) {
        watch::release();
        if self.imager.take().is_some() {
            checkpoint_request::remove(checkpoint_request::usual_signal());
        }
    }

    /// The epoch that this rank is in: the number of its last image.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.engine.epoch()
    }

    /// Enters a later epoch now, at a safe point of the caller's. All that is sent from now on says
    /// so, and takes its receivers along. An earlier epoch, or the present one, changes nothing.
    /// Returns again in each process that is restored from the image that is taken here.
    ///
    /// # Errors
    /// A manager that cannot be spoken to.
    pub fn enter_epoch(&mut self, epoch: Epoch) -> Result<()> {
        // A program that computes for hours takes nothing else from its socket.
        self.hear_manager()?;
        self.request_checkpoint(epoch);
        self.safe_point()
    }

    /// A checkpoint of this epoch is requested; nothing to do if this rank is in it.
    pub(crate) fn request_checkpoint(&mut self, epoch: Epoch) {
        if epoch > self.engine.epoch() {
            self.checkpoint.request(epoch);
        }
    }

    /// Makes a request that came by signal, and could not be met there, the pending one.
    pub(crate) fn hear_signal(&mut self) {
        if checkpoint_request::is_pending()
            && let Some(epoch) = checkpoint_request::take_pending()
        {
            self.request_checkpoint(Epoch(epoch));
        }
    }

    /// A place where nothing is half done but bodies, which links bring again: the end of a look at
    /// the links, the end of `MPI_Init`, or the program's own code.
    ///
    /// # Errors
    /// A manager that cannot be spoken to.
    #[cold]
    pub fn safe_point(&mut self) -> Result<()> {
        self.hear_signal();
        let before = self.identity;
        // A process that comes back may have heard of the next one on its way.
        while let Some(epoch) = self.checkpoint.take() {
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
