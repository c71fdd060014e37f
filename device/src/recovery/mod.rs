//! A rank's recovery state: checkpoint requests, images, and the known checkpoints of the job.

mod imaging;

mod pending_checkpoint;
mod region_answers;

pub(crate) use pending_checkpoint::{MoveImage, PendingCheckpoint, SafePointRequest};

use std::ops::Range;
use std::time::{Duration, Instant};

use rejoin_channel_table::{Epoch, Generation, ImageId, MoveNumber};
use rejoin_ckpt::checkpoint_request::{self, Ask};
use rejoin_ckpt::threads::Parked;
use rejoin_ckpt::twin::{self, Image, Imager, Taken};
use rejoin_ckpt::{ImageNumber, Refused, host_barrier, watch};
use rejoin_wire::{ImageCost, Images, ToManager};

use crate::descriptors;
use crate::error::{Error, Result};
use imaging::Copied;
pub(crate) use imaging::managers_memory;
use region_answers::RegionAnswers;

/// Why there is no image of a process that a wrapper started: the wrapper would continue at the
/// process's end.
const WRAPPED: &str = "another program started the rank (a shell without exec, a debugger) and would continue without \
                       it after a failure; start the rank by exec, or directly";

/// Why a rank with a log has no image: a restored process could not open its log.
const OTHER_USER: &str = "the program has become another user, who may not open the memory in which the local \
                          manager keeps the rank's log";

/// The longest time for which a request waits for a child process of the program to end.
const LONGEST_CHILD_WAIT: Duration = Duration::from_secs(1);

/// Why no image was taken.
#[derive(Clone, Debug)]
pub(crate) struct NoImage {
    /// The reason, for the user.
    pub(crate) why: String,
    /// The program has state that a rollback does not take back.
    pub(crate) outlives: bool,
    /// Ranks that share memory missed each other: the next checkpoint may have an image.
    passes: bool,
}

impl From<String> for NoImage {
    fn from(why: String) -> Self {
        Self {
            why,
            outlives: false,
            passes: false,
        }
    }
}

impl From<Refused> for NoImage {
    fn from(refused: Refused) -> Self {
        Self {
            why: refused.to_string(),
            outlives: refused.outlives_rollback(),
            passes: matches!(
                refused,
                Refused::OtherRankFailed { .. } | Refused::OtherRankLate { .. }
            ),
        }
    }
}

/// The known checkpoints of the job.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// The last one that is committed: the job can roll back to it.
    committed: Epoch,
    /// The last epoch that can never commit.
    abandoned: Epoch,
    /// No rollback goes back behind this checkpoint.
    oldest: Epoch,
    /// What that checkpoint was before. A restart may go back to it if a file is damaged.
    oldest_before: Epoch,
}

/// The recovery of one rank.
pub(crate) struct RankRecovery {
    /// The request for a checkpoint that is met at the next safe point.
    checkpoint: PendingCheckpoint,
    known: Known,
    /// Takes images of this process, where the manager wants them.
    imager: Option<Imager>,
    /// The manager's answers to this rank, while it stores its registered memory.
    region_answers: RegionAnswers,
    /// The program waits for a checkpoint later than this one.
    on_request_after: Option<Epoch>,
    /// The rank continues here after its images up to this number.
    stays: Option<MoveNumber>,
    /// The process that is to be the parent of this one, for an image of it to be taken.
    manager: Option<u32>,
    /// The costs of the last image since it was taken.
    copied: Copied,
    /// The pending request waits since then for a child process of the program.
    waits_since: Option<Instant>,
    /// Another checkpoint was asked for because ranks that share memory missed each other, and no
    /// image was taken since.
    has_asked_again: bool,
}

impl RankRecovery {
    /// Of a process of which the manager wants such images, if any.
    pub(crate) fn new(images: Option<&Images>) -> Self {
        imaging::watch_exit(images);
        imaging::join_barrier(images);
        Self {
            checkpoint: PendingCheckpoint::default(),
            known: Known::default(),
            imager: images.map(imaging::imager),
            region_answers: RegionAnswers::default(),
            on_request_after: None,
            stays: None,
            manager: images.map(|images| images.manager),
            copied: Copied::default(),
            waits_since: None,
            has_asked_again: false,
        }
    }

    /// The process belongs to another local manager.
    pub(crate) fn start_over(&mut self, images: Option<&Images>) {
        imaging::watch_exit(images);
        imaging::join_barrier(images);
        self.manager = images.map(|images| images.manager);
        if let (Some(imager), Some(images)) = (&mut self.imager, images) {
            // Images are its children, and what they make ahead of a recovery is, too.
            imager.belong_to(i32::try_from(images.manager).unwrap_or(0));
        }
    }

    /// All ranks have registered: this is the only request now, if there is one.
    pub(crate) fn begin_with(&mut self, first: Option<Epoch>) {
        self.checkpoint = PendingCheckpoint::new(first);
    }

    /// Whether an image is to be taken at the next safe point.
    #[inline(always)]
    pub(crate) fn is_pending(&self) -> bool {
        self.checkpoint.is_pending()
    }

    /// The pending request, for a caller that reads a frame of a later epoch.
    #[inline(always)]
    pub(crate) fn checkpoint(&mut self) -> &mut PendingCheckpoint {
        &mut self.checkpoint
    }

    /// A checkpoint of this epoch is requested of a rank that is in the epoch `present`.
    pub(crate) fn request(&mut self, epoch: Epoch, present: Epoch) {
        if epoch > present {
            self.checkpoint.request(epoch);
        }
    }

    /// Whether the program has a child process that may end soon, so that the pending request is
    /// better met later. A request waits for a second at most. Safe in a signal handler.
    pub(crate) fn waits_for_child(&mut self) -> bool {
        let has_child = self.imager.as_ref().is_some_and(Imager::has_young_child);
        if !has_child {
            self.waits_since = None;
            return false;
        }
        let since = *self.waits_since.get_or_insert_with(Instant::now);
        let waits = since.elapsed() < LONGEST_CHILD_WAIT;
        if !waits {
            self.waits_since = None;
        }
        waits
    }

    /// Whether the pending request waits for a child process of the program.
    pub(crate) fn holds_request(&self) -> bool {
        self.waits_since.is_some()
    }

    /// Whether images are taken of this process.
    pub(crate) fn takes_images(&self) -> bool {
        self.imager.is_some()
    }

    /// Has the handler of the manager's signal ask whether an image may be taken at once.
    ///
    /// # Errors
    /// The system refuses the signal.
    pub(crate) fn accept(&self, ask: Ask) -> Result<()> {
        if self.imager.is_none() {
            return Ok(());
        }
        checkpoint_request::install(checkpoint_request::usual_signal(), ask)
            .map_err(|error| Error::system("listen to requests for checkpoints", error))
    }

    /// No image is taken any more.
    pub(crate) fn refuse(&mut self) {
        watch::release();
        host_barrier::leave();
        if self.imager.take().is_some() {
            checkpoint_request::remove(checkpoint_request::usual_signal());
        }
    }

    /// Takes this image. Returns again in each process that is restored from it.
    /// `log_bodies`: where the memory of the log has bodies now; `None` for a rank without a log.
    ///
    /// # Errors
    /// The reason why there is no image, for the manager.
    pub(crate) fn take_image(
        &mut self,
        parked: &Parked,
        image: ImageId,
        log_bodies: Option<Vec<Range<usize>>>,
    ) -> std::result::Result<Taken, NoImage> {
        let imager = self
            .imager
            .as_mut()
            .ok_or("the job takes no images".to_owned())?;
        let parent = u32::try_from(nix::unistd::getppid().as_raw()).ok();
        if self.manager.is_some() && self.manager != parent {
            return Err(WRAPPED.to_owned().into());
        }
        if let Some(number) = descriptors::below_block() {
            let most = descriptors::most_open();
            return Err(format!(
                "descriptor {number} of the library lies among the program's, because the limit on open files ({most}) \
                 is too low for the rank's links; raise the hard limit (ulimit -Hn)"
            )
            .into());
        }
        checkpoint_request::drain();
        if log_bodies.is_some() && !self.manager.is_none_or(imaging::may_open_memory_of) {
            return Err(OTHER_USER.to_owned().into());
        }
        imager.set_log_bodies(log_bodies.unwrap_or_default());
        Ok(twin::take(imager, parked, number_of(image))?)
    }

    /// The bodies of the log that this restored process has in memory of its own.
    pub(crate) fn take_private_bodies(&mut self) -> Option<Vec<Range<usize>>> {
        self.imager.as_mut()?.take_private_bodies()
    }

    /// There is no image. Memory that this rank shares with others may be in no checkpoint yet.
    pub(crate) fn not_taken(&mut self, mut reason: NoImage) -> NoImage {
        let imager = self.imager.as_mut();
        reason.outlives |= imager.is_some_and(Imager::shares_unsaved_memory);
        reason
    }

    /// Whether another checkpoint is to be asked for because this reason may be gone by then. That
    /// is so once until the next image.
    pub(crate) fn requests_again(&mut self, reason: &NoImage) -> bool {
        reason.passes && !std::mem::replace(&mut self.has_asked_again, true)
    }

    /// The report to the manager of an image that was taken.
    pub(crate) fn report(
        &mut self,
        generation: Generation,
        id: ImageId,
        image: &Image,
    ) -> ToManager {
        self.has_asked_again = false;
        let (copied, copying) = self.copied.since_last();
        let caveats = image.summary.caveats.iter();
        ToManager::Imaged {
            generation,
            image: id,
            pid: u32::try_from(image.pid).unwrap_or(0),
            cost: ImageCost {
                stall: (image.timings.prepare + image.timings.clone) / 1000,
                copied,
                copying,
            },
            streams: [&image.stdout, &image.stderr].map(Option::is_some),
            caveats: caveats.map(ToString::to_string).collect(),
            holds: imaging::holds(&image.summary, generation),
        }
    }

    /// This process was restored from the image of an epoch, so that epoch is a checkpoint.
    pub(crate) fn restored(&mut self, epoch: Epoch) {
        self.copied = Copied::default();
        self.copied.since_last();
        if let Some(imager) = &mut self.imager {
            imager.memory_is_back(number_of(ImageId::Checkpoint(epoch)));
        }
        host_barrier::note_committed(epoch.0);
        self.known.committed = epoch;
    }

    /// This process has come from an image with which its rank has moved: that is no checkpoint.
    pub(crate) fn moved(&mut self, number: MoveNumber) {
        self.copied = Copied::default();
        self.copied.since_last();
        if let Some(imager) = &mut self.imager {
            imager.memory_is_back(number_of(ImageId::Move(number)));
        }
    }

    /// The program begins to wait for a checkpoint later than this one.
    pub(crate) fn asks(&mut self, after: Epoch) {
        self.on_request_after = Some(after);
    }

    /// What the program waits for, to be asked of another local manager.
    pub(crate) fn unanswered(&self) -> Vec<ToManager> {
        let asked = self.on_request_after;
        let asked = asked.filter(|after| self.checkpointed(*after).is_none());
        let asked = asked.map(|after| ToManager::Checkpoint { after });
        asked
            .into_iter()
            .chain(self.region_answers.unanswered())
            .collect()
    }

    /// The rank continues here after its images up to this number, or without one. A second order
    /// may have the number of an earlier image of the same move.
    pub(crate) fn stay(&mut self, number: MoveNumber) {
        self.checkpoint.withdraw_move(number);
        self.stays = self.stays.max(Some(number));
    }

    /// Whether the rank continues here after its image of this number.
    pub(crate) fn stays(&self, number: MoveNumber) -> bool {
        self.stays >= Some(number)
    }

    /// The manager's answers to this rank, while it stores its registered memory.
    pub(crate) fn region_answers(&mut self) -> &mut RegionAnswers {
        &mut self.region_answers
    }

    /// The manager's answers about registered memory, to be read.
    pub(crate) fn answered(&self) -> &RegionAnswers {
        &self.region_answers
    }

    /// Notes the job's checkpoints: the last committed one, and the last epoch that can never
    /// commit.
    pub(crate) fn note_checkpoints(&mut self, committed: Option<Epoch>, abandoned: Epoch) {
        self.known.committed = self.known.committed.max(committed.unwrap_or_default());
        self.known.abandoned = self.known.abandoned.max(abandoned);
    }

    /// No rollback goes back behind this checkpoint of the job.
    pub(crate) fn note_oldest(&mut self, oldest: Epoch) {
        if oldest > self.known.oldest {
            self.known.oldest_before = self.known.oldest;
            self.known.oldest = oldest;
        }
    }

    /// The job returns to this checkpoint or to a later one, also if it is restarted.
    pub(crate) fn horizon(&self) -> Epoch {
        self.known.oldest_before
    }

    /// The number that a checkpoint must be later than to hold what a rank in the epoch `present`
    /// has done.
    pub(crate) fn latest(&self, present: Epoch) -> Epoch {
        present.max(self.known.abandoned)
    }

    /// Whether a checkpoint later than `after` is committed; `false` when it was aborted, `None`
    /// while it is under way.
    pub(crate) fn checkpointed(&self, after: Epoch) -> Option<bool> {
        let Known {
            committed,
            abandoned,
            ..
        } = self.known;
        (committed.max(abandoned) > after).then_some(committed > after)
    }
}

/// The number by which a file or a frozen process knows this image.
fn number_of(image: ImageId) -> ImageNumber {
    image.parts().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(step: u32) -> MoveNumber {
        let after = Epoch(1);
        MoveNumber { after, step }
    }

    #[test]
    fn the_later_report_of_a_checkpoint_counts() {
        let mut recovery = RankRecovery::new(None);
        assert_eq!(recovery.checkpointed(Epoch(2)), None);
        recovery.note_checkpoints(Some(Epoch(2)), Epoch(0));
        assert_eq!(recovery.checkpointed(Epoch(1)), Some(true));
        assert_eq!(recovery.checkpointed(Epoch(2)), None);
        recovery.note_checkpoints(None, Epoch(3));
        assert_eq!(recovery.checkpointed(Epoch(2)), Some(false));
        assert_eq!(recovery.latest(Epoch(2)), Epoch(3));
        recovery.note_checkpoints(Some(Epoch(4)), Epoch(1));
        assert_eq!(recovery.checkpointed(Epoch(2)), Some(true));
        assert_eq!(recovery.checkpointed(Epoch(4)), None);
    }

    #[test]
    fn a_request_for_a_past_epoch_is_none() {
        let mut recovery = RankRecovery::new(None);
        recovery.request(Epoch(2), Epoch(2));
        assert!(!recovery.is_pending());
        recovery.request(Epoch(4), Epoch(2));
        recovery.request(Epoch(3), Epoch(2));
        let next = recovery.checkpoint().take_next();
        assert_eq!(next, Some(SafePointRequest::Checkpoint(Epoch(4))));
        assert!(!recovery.is_pending());
    }

    #[test]
    fn a_rank_stays_after_a_late_order_with_an_earlier_number() {
        let mut recovery = RankRecovery::new(None);
        let image = |step| MoveImage {
            number: number(step),
            stops: true,
        };
        recovery.stay(number(3));
        recovery.stay(number(2));
        assert!(recovery.stays(number(3)) && !recovery.stays(number(4)));
        // The image that is pending belongs to a later move.
        recovery.checkpoint().request_move(image(5));
        recovery.stay(number(4));
        let next = recovery.checkpoint().take_next();
        assert_eq!(next, Some(SafePointRequest::Move(image(5))));
        recovery.checkpoint().request_move(image(6));
        recovery.stay(number(6));
        assert_eq!(recovery.checkpoint().take_next(), None);
    }
}
