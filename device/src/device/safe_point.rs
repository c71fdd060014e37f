//! The safe point: where this rank's image of an epoch is taken.
//!
//! A rank takes its image on request, or when a frame or resume shows that a peer has taken one. A
//! frame of a later epoch waits in its link until then. A resume of a later epoch ends its
//! handshake before it reaches the table. Both continue after the safe point: the device parses
//! held bytes and dials the link again. So no image has received a message that another image has
//! not sent. The image of the sender retains messages in flight between two images.

use std::os::fd::{AsRawFd, OwnedFd};

use rejoin_channel_table::{Epoch, Generation, Rank};
use rejoin_ckpt::threads::{self, Parked};
use rejoin_ckpt::twin::{Image, Restored, Taken};
use rejoin_ckpt::{Caveat, Refused, checkpoint_request, host_barrier};
use rejoin_wire::{READ_MESSAGES, ToManager};

use super::Device;
use crate::descriptors::OldDescriptors;
use crate::error::{Error, Result};
use crate::recovery::{NoImage, SafePointRequest};

pub use rejoin_ckpt::checkpoint_request::{Ask, is_pending};
pub use rejoin_ckpt::threads::try_park_others;

/// How often threads are parked again because one of them was waking this one.
const MOST_WAKES: u32 = 100;

impl Device {
    /// Lets the manager request checkpoints by signal, at any place in the program. The handler
    /// asks whether the image may be taken there. If not, [`is_pending`] is true until a safe
    /// point. Nothing happens where no images are taken.
    ///
    /// # Errors
    /// The system refuses the signal.
    pub fn accept_checkpoints(&self, ask: Ask) -> Result<()> {
        self.recovery.accept(ask)
    }

    /// The epoch that this rank is in: the number of its last image.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.engine.epoch()
    }

    /// Enters a later epoch now, at a safe point of the caller's. Later frames carry the epoch, so
    /// their receivers enter it, too. An earlier epoch, or the present one, changes nothing.
    /// Returns again in each process that is restored from the image that is taken here.
    /// [`READ_MESSAGES`] names no epoch.
    ///
    /// # Errors
    /// A manager that cannot be spoken to.
    pub fn enter_epoch(&mut self, epoch: Epoch) -> Result<()> {
        // A program that computes for hours takes nothing else from its socket.
        self.read_manager_messages()?;
        self.note_request(epoch);
        self.safe_point()?;
        self.serve_peers()
    }

    /// A rank of a group whose turn has not come may be in no epoch yet, while another one comes
    /// back: the number of [`READ_MESSAGES`] must not make it take an image.
    fn note_request(&mut self, epoch: Epoch) {
        if epoch != READ_MESSAGES {
            self.recovery.request(epoch, self.engine.epoch());
        }
    }

    /// Takes over a request that came by signal and was not met in its handler.
    ///
    /// # Errors
    /// A manager that cannot be understood.
    pub(super) fn take_signalled_request(&mut self) -> Result<()> {
        if checkpoint_request::is_pending()
            && let Some(epoch) = checkpoint_request::take_pending()
        {
            let epoch = Epoch(epoch);
            self.note_request(epoch);
            if epoch == READ_MESSAGES || epoch <= self.engine.epoch() {
                // It is about something else, which the socket says.
                self.read_manager_messages()?;
                self.serve_peers_later()?;
            }
        }
        Ok(())
    }

    /// A place where only bodies can be incomplete, which links send again. Such places are the end
    /// of a pass over the links, the end of `MPI_Init`, and the program's own code.
    ///
    /// While the program has a child process that may end soon, the request stays pending for a
    /// moment: no image holds a child.
    ///
    /// # Errors
    /// A manager that cannot be spoken to.
    #[cold]
    pub fn safe_point(&mut self) -> Result<()> {
        self.take_signalled_request()?;
        let before = self.member.identity();
        // A process that a checkpoint or a move has restored may have received the next request on
        // its way.
        while let Some(request) = self.recovery.checkpoint().take_next() {
            let is_late =
                matches!(request, SafePointRequest::Checkpoint(e) if e <= self.engine.epoch());
            if is_late {
                continue;
            }
            if self.recovery.waits_for_child() {
                self.recovery.checkpoint().put_back(request);
                break;
            }
            match request {
                SafePointRequest::Checkpoint(epoch) => {
                    self.await_stable_image()?;
                    self.engine.set_epoch(epoch);
                    self.tell_of_image()?;
                    self.note_determinants(epoch);
                    self.take_image(epoch)?;
                }
                SafePointRequest::Move(image) => self.move_away(image)?,
            }
        }
        if self.member.identity() == before {
            return Ok(());
        }
        self.restore_links()?;
        self.serve_known_peers()
    }

    /// Tells peers of other groups what the image holds that is taken next: they may take theirs as
    /// soon as this rank reports it, and leave that out of their files. What would be recorded
    /// first waits: the image has it.
    fn tell_of_image(&mut self) -> Result<()> {
        if self.engine.has_groups() && !self.engine.any_to_record() {
            self.flush_ready()?;
        }
        Ok(())
    }

    /// Takes the image of an epoch that this rank has just entered, and reports it. A process that
    /// is restored from it rejoins the job instead.
    fn take_image(&mut self, epoch: Epoch) -> Result<()> {
        if !self.recovery.takes_images() {
            return Ok(());
        }
        let generation = self.member.identity().generation;
        // The other threads of a restored process begin to run when it is back in the job.
        // In these jobs central ties returns together where files lack messages.
        let bodies = match self.member.settings().stable_node {
            true => self.engine.bodies_of_image(),
            false => self.engine.logged_bodies(),
        };
        let parked = self.park_others().map_err(NoImage::from);
        let taken = parked
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|parked| self.recovery.take_image(parked, epoch, bodies));
        match taken {
            Ok(Taken::Continued(image)) => self.report_image(epoch, &image),
            Ok(Taken::Restored(restored)) => self.rejoin_restored(restored),
            Err(reason) => self.report_no_image(generation, epoch, reason),
        }
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

    pub(super) fn report_image(&mut self, epoch: Epoch, image: &Image) -> Result<()> {
        let generation = self.member.identity().generation;
        let message = self.recovery.report(generation, epoch, image);
        if let (Some(rank_log), ToManager::Imaged { cost, .. }) = (&mut self.determinants, &message)
        {
            rank_log.image_taken(cost.total(), self.engine.log_memory_used());
        }
        let pipes = [&image.stdout, &image.stderr];
        let ends = std::iter::once(&image.wait).chain(pipes.into_iter().flatten());
        let ends: Vec<_> = ends.map(AsRawFd::as_raw_fd).collect();
        self.manager.send_with_descriptors(&message, &ends)
    }

    fn report_no_image(
        &mut self,
        generation: Generation,
        epoch: Epoch,
        reason: NoImage,
    ) -> Result<()> {
        let reason = self.recovery.not_taken(reason);
        let asks_again = self.recovery.asks_again(&reason);
        let NoImage { why, outlives, .. } = reason;
        self.manager.send(&ToManager::NotImaged {
            generation,
            epoch,
            why,
            outlives,
        })?;
        // The ranks that share memory with this one give the epoch up, too. This reason is first.
        host_barrier::fail(epoch.0);
        if asks_again {
            self.manager.send(&ToManager::Checkpoint { after: epoch })?;
        }
        Ok(())
    }

    fn rejoin_restored(&mut self, restored: Restored) -> Result<()> {
        self.return_to_job(restored)?;
        self.recovery.restored(self.engine.epoch());
        if self.engine.has_groups() && !self.engine.lacks_bodies() {
            self.manager.send(&ToManager::LogIsWhole)?;
        }
        Ok(())
    }

    /// The process of an image joins the job again.
    pub(super) fn return_to_job(&mut self, restored: Restored) -> Result<()> {
        let rank = self.member.rank();
        let mut fds = restored.fds.into_iter();
        let socket: OwnedFd = fds.next().ok_or_else(|| Error::Manager {
            rank,
            problem: "it restored this rank without a socket to the local manager".to_owned(),
        })?;
        tell(rank, &restored.caveats);
        restored.late.announce();
        // Its manager knows nothing of what the process of the image had asked for.
        self.served = Default::default();
        self.reopen(socket, OldDescriptors::Forget)?;
        // All ranks are back, and none of them has gone on.
        match restored.late.restore() {
            Ok(caveats) => tell(rank, &caveats),
            Err(not_shared) => self.abort_because(1, format!("rank {rank}: {not_shared}")),
        }
        Ok(())
    }
}

/// Reports state that could not be set again.
fn tell(rank: Rank, caveats: &[Caveat]) {
    for caveat in caveats {
        tracing::warn!("rank {rank}: {caveat}");
    }
}
