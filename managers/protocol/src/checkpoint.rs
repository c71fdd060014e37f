//! When checkpoints are requested, and when one is committed: central's side of coordinated
//! checkpoints (ARCHITECTURE.md, the walk of a failure).
//!
//! A checkpoint is an epoch number. Central *requests* it once, every rank takes its image on its
//! own, and central *commits* the checkpoint when every rank has its image in memory. Central
//! requests the next one only when the last is committed or abandoned. Files of a checkpoint are
//! written after its commit; [`crate::levels`] says which checkpoints count then.
//!
//! No number is used twice, not even after a rollback: a rank that enters an epoch must never find
//! frames of an older use of the number.

use crate::committed_levels::{CommittedCheckpoint, CommittedLevels, LastCommits};
use crate::failure_rate::FailureRate;
pub use crate::interval::{CopyInterval, Interval};
use crate::levels::CommittedEpochs;
use crate::manager_messages::Time;
use rejoin_channel_table::{Epoch, Rank};
use rejoin_wire::ImageCost;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

mod file_levels;

/// Most numbers between two checkpoints before one is taken for their sake.
const MOST_NUMBERS: u32 = 1_000;

/// Bounds of [`Interval::Auto`], in milliseconds.
const AUTO: (u64, u64) = (2_000, 600_000);
/// One part in so many of the time may go into checkpoints under [`Interval::Auto`], as long as no
/// failure is seen.
const AUTO_SHARE: u64 = 200;
/// The time to the next request is at least so many times the last checkpoint's cost: checkpoints
/// take at most a fifth of the time.
const LEAST_PAUSE: u64 = 4;
/// Milliseconds after which a checkpoint is aborted if the image of some rank is missing. A rank
/// that computes takes its image by signal, so one that does not within this time can't.
pub const REQUEST_LIMIT: u64 = 60_000;
/// Milliseconds that ranks which are back have for themselves before the next request.
const SETTLE: u64 = 20;
/// Milliseconds at most for which moves put a checkpoint off. It would slow short copies down for
/// longer than the work is worth that it keeps.
const PUT_OFF: u64 = 10_000;
/// Milliseconds from the end of moves to the next request.
const AFTER_MOVES: u64 = 500;
/// Milliseconds to the next request after one was aborted.
const AFTER_ABORT: u64 = 10_000;
/// Milliseconds to the next request when the image that was to replace a lost one is lost, too. The
/// pause doubles with each further loss, up to the second value. An image that lasts so long ends
/// the series.
const RETAKE_PAUSES: (u64, u64) = (100, 6_400);

/// A request that is under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct OpenRequest {
    epoch: Epoch,
    since: Time,
    /// When ranks were asked last.
    asked: Time,
    missing: BTreeSet<Rank>,
    dearest: ImageCost,
    cost: CheckpointCost,
}

/// The cost of a checkpoint for the job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CheckpointCost {
    /// Microseconds of the longest stall of a rank.
    pub stall: u64,
    /// The rank with that stall; the first of several.
    pub slowest: Rank,
    /// Pages that all ranks have copied since their images before, at most.
    pub copied: u64,
}

/// The result of a rank's report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Progress {
    /// Others are missing, or the word was late.
    Waiting,
    /// Every rank's image is there: the caller stores that, then says [`Coordinator::commit`].
    Complete(Epoch),
    /// The checkpoint is aborted; the last committed one still counts.
    Aborted(Epoch),
}

/// Requests checkpoints and counts images.
///
/// ```
/// use rejoin_channel_table::{Epoch, Rank};
/// use rejoin_managers_protocol::checkpoint::{Coordinator, Interval, Progress};
/// use rejoin_managers_protocol::manager_messages::Time;
/// use rejoin_wire::ImageCost;
///
/// let mut job = Coordinator::new(2, Interval::Asked, None);
/// let epoch = job.request(Time(0)).expect("no other one is under way");
/// let cost = ImageCost::default();
/// assert_eq!(job.imaged(Rank(0), epoch, cost), Progress::Waiting);
/// assert_eq!(job.imaged(Rank(1), epoch, cost), Progress::Complete(epoch));
/// // The central manager stores this before it says so.
/// job.commit(Time(1), epoch);
/// assert_eq!(job.committed(), Some(Epoch(1)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Coordinator {
    interval: Interval,
    ranks: u32,
    /// The number that the next request gets.
    next: Epoch,
    committed: CommittedLevels,
    pending: Option<OpenRequest>,
    due: Option<Time>,
    /// When the next request would have been due, if a failure came before it.
    overdue: Option<Time>,
    /// A further checkpoint was asked for, which follows the pending one.
    another: bool,
    /// The last checkpoint that lost an image, and the milliseconds before the request after it.
    lost: Option<(Epoch, u64)>,
    cost: Option<ImageCost>,
    failures: FailureRate,
    /// The last checkpoint that a rank could not take because it has state that a rollback does not
    /// take back: the rank, and what the state is.
    outliving: Option<(Epoch, Rank, String)>,
    /// The cost of the checkpoint before the last one.
    cost_before: ImageCost,
    /// Whether [`Coordinator::newly_stretched`] has said so.
    told_stretch: bool,
    /// Files that were asked for are tried again until they are there.
    pursues: bool,
}

/// An interval that is too short for the cost of checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// The interval that was asked for, in milliseconds.
    pub asked: u64,
    /// The interval instead of it, in milliseconds.
    pub interval: u64,
    /// The cost of a checkpoint for a rank, in microseconds.
    pub cost: u64,
}

impl CheckpointCost {
    fn add(&mut self, rank: Rank, cost: ImageCost) {
        if cost.stall > self.stall {
            self.stall = cost.stall;
            self.slowest = rank;
        }
        self.copied = self.copied.saturating_add(cost.copied);
    }
}

impl Coordinator {
    /// For a job of so many ranks that has taken no checkpoint. `files`: when
    /// images also go to files.
    #[must_use]
    pub fn new(ranks: u32, interval: Interval, files: Option<Interval>) -> Self {
        Coordinator {
            interval,
            ranks,
            next: Epoch(1),
            committed: CommittedLevels::new(ranks, files),
            pending: None,
            due: None,
            overdue: None,
            another: false,
            lost: None,
            cost: None,
            failures: FailureRate::default(),
            outliving: None,
            cost_before: ImageCost::default(),
            told_stretch: false,
            pursues: false,
        }
    }

    /// Files are copied to partner hosts.
    pub fn copy_files(&mut self, interval: CopyInterval) {
        self.committed.copy_files(interval);
    }

    /// Ranks have moved after this checkpoint: files of it and of those before are not begun any
    /// more.
    pub fn moved(&mut self, last: Epoch) {
        self.committed.moved(last);
    }

    /// No host with ranks is left that could copy files.
    pub fn stop_copies(&mut self) {
        self.committed.stop_copies();
    }

    /// The job's processes were first started at this time.
    pub fn begin(&mut self, at: Time) {
        self.failures.begin(at);
    }

    /// So many failures were masked in all.
    pub fn set_failures(&mut self, seen: u64) {
        self.failures.set_seen(seen);
    }

    /// The newest committed checkpoint.
    #[must_use]
    pub fn committed(&self) -> Option<Epoch> {
        self.committed.epochs().memory
    }

    /// A rank had state at this checkpoint that no rollback to an earlier one takes back. `what`
    /// says it for the user.
    pub fn set_outliving(&mut self, epoch: Epoch, rank: Rank, what: String) {
        self.outliving = Some((epoch, rank, what));
    }

    /// A rank with state that a rollback to this checkpoint does not take back, if there is one.
    #[must_use]
    pub fn outliving(&self, to: Epoch) -> Option<(Rank, &str)> {
        let (epoch, rank, what) = self.outliving.as_ref()?;
        (*epoch > to).then_some((*rank, what))
    }

    /// The checkpoints whose images count.
    #[must_use]
    pub fn epochs(&self) -> CommittedEpochs {
        self.committed.epochs()
    }

    /// The checkpoint that the job rolls back to after a failure.
    #[must_use]
    pub fn target(&self) -> Option<Epoch> {
        self.committed.target()
    }

    /// The newest checkpoint of which every rank has an image.
    #[must_use]
    pub fn newest_whole(&self) -> Option<Epoch> {
        self.committed.newest_whole()
    }

    /// A rank can't be restored from this checkpoint. Returns the next best one.
    pub fn not_restored(&mut self, rank: Rank, epoch: Epoch) -> Option<Epoch> {
        self.committed.lose(rank, epoch);
        self.committed.before(epoch)
    }

    /// When a checkpoint that counts was committed in memory.
    #[must_use]
    pub fn committed_at(&self, epoch: Epoch) -> Option<Time> {
        self.committed.committed_at(epoch)
    }

    /// The request under way.
    #[must_use]
    pub fn pending(&self) -> Option<Epoch> {
        self.pending.as_ref().map(|request| request.epoch)
    }

    /// The epoch of a rank's last image that is there and may count.
    #[must_use]
    pub fn image_of(&self, rank: Rank) -> Option<Epoch> {
        let requested = self.pending.as_ref();
        let requested = requested.filter(|request| !request.missing.contains(&rank));
        let committed = self.committed.image_of(rank);
        requested.map(|request| request.epoch).or(committed)
    }

    /// When [`Coordinator::tick`], [`Coordinator::late_files`] or [`Coordinator::late_copies`] has
    /// something to do.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let of_request = match &self.pending {
            Some(request) => Some(request.asked.plus_millis(REQUEST_LIMIT)),
            None => self.due,
        };
        of_request
            .into_iter()
            .chain(self.committed.deadline())
            .min()
    }

    /// When copies of the newest files are due at the latest: [`Coordinator::begin_files`] begins
    /// them.
    #[must_use]
    pub fn copies_due_at(&self) -> Option<Time> {
        self.committed.copies_due_at()
    }

    /// The checkpoint whose files are being written, and how many ranks have theirs.
    #[must_use]
    pub fn files_under_way(&self) -> Option<(Epoch, u32)> {
        self.committed.files_under_way()
    }

    /// The checkpoint whose files are being copied, and of how many ranks they are.
    #[must_use]
    pub fn copies_under_way(&self) -> Option<(Epoch, u32)> {
        self.committed.copies_under_way()
    }

    /// Files that should be whole by now: their checkpoint, and a rank whose file is missing.
    #[must_use]
    pub fn late_files(&self, now: Time) -> Option<(Epoch, Rank)> {
        self.committed.late_files(now)
    }

    /// Copies that should be whole by now: their checkpoint, and a rank without one.
    #[must_use]
    pub fn late_copies(&self, now: Time) -> Option<(Epoch, Rank)> {
        self.committed.late_copies(now)
    }

    /// Continues a job from its stored records: the last commits, and the highest number ever
    /// requested. If that number is not a committed one, it is abandoned.
    pub fn resume(&mut self, last: LastCommits, requested: Epoch) {
        self.committed.resume(last);
        self.cost = last.memory.map(|checkpoint| checkpoint.cost);
        self.next = Epoch(requested.0.saturating_add(1));
        self.pending = None;
        self.due = None;
    }

    /// The number that the next request gets.
    #[must_use]
    pub fn next_number(&self) -> Epoch {
        self.next
    }

    /// The highest number that was ever requested; 0 when none was.
    #[must_use]
    pub fn last_number(&self) -> Epoch {
        Epoch(self.next.0.saturating_sub(1))
    }

    /// Channels tell 4,096 numbers apart, and registered memory takes some: it is time for a
    /// checkpoint that all ranks take.
    #[must_use]
    pub fn is_short_of_numbers(&self) -> bool {
        let committed = self.committed().unwrap_or_default();
        self.last_number().0.saturating_sub(committed.0) > MOST_NUMBERS
    }

    /// A checkpoint is due now, unless one is under way or is tried again soon.
    pub fn hurry(&mut self, now: Time) {
        let soon = now.plus_millis(AFTER_ABORT);
        if self.pending.is_none() && self.due.is_none_or(|due| due > soon) {
            self.due = Some(now);
        }
    }

    /// No image is about to be taken, written or copied.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let files = self.committed.files_under_way().is_some();
        let copies = self.committed.copies_under_way().is_some();
        self.pending.is_none() && !files && !copies
    }

    /// Until when moves that begin now put checkpoints off: for an interval at most.
    #[must_use]
    pub fn put_off_by_moves(&self, now: Time) -> Time {
        now.plus_millis(match self.interval {
            Interval::Every(asked) => asked.min(PUT_OFF),
            Interval::Auto | Interval::Asked => PUT_OFF,
        })
    }

    /// No checkpoint can be requested now. It is due at this time, or [`Coordinator::schedule`] or
    /// [`Coordinator::take_up`] requests it later.
    pub fn put_off(&mut self, until: Option<Time>) {
        self.due = until;
        self.another = true;
    }

    /// Moves are over, and `any`: with ranks on new hosts, whose images are to be there soon, in
    /// files. The others have just waited for them, so the checkpoint comes a little later, unless
    /// one was put off. `more`: other moves follow at once.
    pub fn after_moves(&mut self, now: Time, any: bool, more: bool) {
        let has_waited = self.another;
        if any {
            self.want_files();
            self.request_later();
        }
        if more {
            return;
        }
        self.schedule(now);
        if any && !has_waited && self.pending.is_none() {
            self.due = Some(now.plus_millis(AFTER_MOVES));
        }
    }

    /// Checkpoints can be requested again: one that was put off is due now.
    pub fn take_up(&mut self, now: Time) {
        if self.another && self.due.is_none() {
            self.schedule(now);
        }
    }

    /// A checkpoint of registered memory has this number, which was not given yet.
    pub fn number_is_taken(&mut self, epoch: Epoch) {
        self.next = Epoch(self.next.0.max(epoch.0.saturating_add(1)));
    }

    /// The highest cost for a rank of the images of the checkpoint under way.
    #[must_use]
    pub fn dearest(&self) -> ImageCost {
        self.pending.as_ref().map(|o| o.dearest).unwrap_or_default()
    }

    /// The cost of the checkpoint under way, so far.
    #[must_use]
    pub fn cost_so_far(&self) -> CheckpointCost {
        self.pending.as_ref().map(|o| o.cost).unwrap_or_default()
    }

    /// Requests a checkpoint now; `None` when one is under way (another then follows it). The
    /// caller stores the number before it tells anyone.
    pub fn request(&mut self, now: Time) -> Option<Epoch> {
        if self.pending.is_some() {
            self.another = true;
            return None;
        }
        let epoch = self.next;
        self.next = Epoch(epoch.0 + 1);
        self.another = false;
        self.due = None;
        self.pending = Some(OpenRequest {
            epoch,
            since: now,
            asked: now,
            missing: (0..self.ranks).map(Rank).collect(),
            dearest: ImageCost::default(),
            cost: CheckpointCost::default(),
        });
        Some(epoch)
    }

    /// A checkpoint is asked for while none can be requested: [`Coordinator::schedule`] requests it
    /// later.
    pub fn request_later(&mut self) {
        self.another = true;
    }

    /// All of these ranks have their images of the checkpoint under way.
    #[must_use]
    pub fn has_images_of(&self, ranks: &[Rank], epoch: Epoch) -> bool {
        let pending = self.pending.as_ref();
        let pending = pending.filter(|request| request.epoch == epoch);
        pending.is_some_and(|request| ranks.iter().all(|rank| !request.missing.contains(rank)))
    }

    /// These ranks are coming back, and the others stand. A request that waits for their images is
    /// void, and another one follows. Until [`Coordinator::run_again`], none is due.
    pub fn group_returns(&mut self, ranks: &[Rank]) {
        let due = self.due.take();
        let waits = |request: &mut OpenRequest| {
            let mut ranks = ranks.iter();
            ranks.any(|rank| request.missing.contains(rank))
        };
        let void = self.pending.take_if(waits);
        let since = void.as_ref().map(|request| request.since);
        self.overdue = since.or(due).or(self.overdue);
        self.another |= void.is_some();
    }

    /// A rank's image is there.
    pub fn imaged(&mut self, rank: Rank, epoch: Epoch, cost: ImageCost) -> Progress {
        let Some(request) = self
            .pending
            .as_mut()
            .filter(|request| request.epoch == epoch)
        else {
            return Progress::Waiting;
        };
        if request.missing.remove(&rank) {
            request.cost.add(rank, cost);
        }
        if cost.total() > request.dearest.total() {
            request.dearest = cost;
        }
        if request.missing.is_empty() {
            Progress::Complete(epoch)
        } else {
            Progress::Waiting
        }
    }

    /// A rank can't take its image of this epoch, or it was lost before the commit.
    pub fn failed(&mut self, now: Time, epoch: Epoch) -> Progress {
        if self.pending() != Some(epoch) {
            return Progress::Waiting;
        }
        self.pending = None;
        let is_needed = self.another || self.pursues || self.is_short_of_numbers();
        self.due =
            (self.interval != Interval::Asked || is_needed).then(|| now.plus_millis(AFTER_ABORT));
        Progress::Aborted(epoch)
    }

    /// The commit is stored. Returns the nanoseconds since the request; 0 without such a request.
    pub fn commit(&mut self, now: Time, epoch: Epoch) -> u64 {
        let Some(request) = self.pending.take_if(|request| request.epoch == epoch) else {
            return 0;
        };
        self.committed.commit_memory(CommittedCheckpoint {
            epoch,
            at: now,
            cost: request.dearest,
        });
        self.cost_before = self.cost.replace(request.dearest).unwrap_or_default();
        self.schedule(now);
        now.0.saturating_sub(request.since.0)
    }

    /// The interval that was asked for does not hold, because of the last two checkpoints' costs. A
    /// single dear one may be an outlier.
    fn stretch(&self) -> Option<Stretch> {
        let Interval::Every(asked) = self.interval else {
            return None;
        };
        let cost = self.cost?.taken().min(self.cost_before.taken());
        let interval = cost.saturating_mul(LEAST_PAUSE) / 1000;
        (interval > asked).then_some(Stretch {
            asked,
            interval,
            cost,
        })
    }

    /// The stretch of the interval that was asked for, the first time only.
    pub fn newly_stretched(&mut self) -> Option<Stretch> {
        let stretch = self.stretch().filter(|_| !self.told_stretch)?;
        self.told_stretch = true;
        Some(stretch)
    }

    /// A rank's image of the last commit, or of the request under way, is gone: another checkpoint
    /// at once. If the lost image is itself such a replacement, a pause precedes the next one.
    /// Unless `at_once`, the next one comes when it is due.
    pub fn image_lost(&mut self, now: Time, rank: Rank, epoch: Epoch, at_once: bool) -> Progress {
        let is_pending = self.pending() == Some(epoch);
        if !is_pending {
            self.committed.lose(rank, epoch);
        }
        if !is_pending && self.committed() != Some(epoch) {
            return Progress::Waiting;
        }
        if !at_once {
            return match is_pending {
                true => self.failed(now, epoch),
                false => Progress::Waiting,
            };
        }
        let at = now.plus_millis(self.retake_pause(now, epoch));
        if is_pending {
            let outcome = self.failed(now, epoch);
            self.due = Some(at);
            return outcome;
        }
        if self.pending.is_none() {
            self.due = Some(self.due.map_or(at, |due| due.min(at)));
        }
        Progress::Waiting
    }

    /// Whether another request comes sooner than after a checkpoint that a rank could not take.
    #[must_use]
    pub fn follows_soon(&self, now: Time) -> bool {
        let limit = now.plus_millis(AFTER_ABORT);
        self.due.is_some_and(|due| due < limit)
    }

    /// Milliseconds to the request that replaces an image of this epoch.
    fn retake_pause(&mut self, now: Time, epoch: Epoch) -> u64 {
        let (shortest, longest) = RETAKE_PAUSES;
        let newest = self.committed.newest().filter(|c| c.epoch == epoch);
        let lasted = newest.is_some_and(|c| c.at.plus_millis(longest) <= now);
        let pause = match self.lost {
            // Another image of the same checkpoint.
            Some((lost, pause)) if lost == epoch => pause,
            Some((lost, pause)) if lost.0 + 1 == epoch.0 && !lasted => {
                (pause * 2).clamp(shortest, longest)
            }
            _ => 0,
        };
        self.lost = Some((epoch, pause));
        pause
    }

    /// The job rolls back to this checkpoint; `None`: to its start. A request under way and later
    /// checkpoints are void. Returns the highest number that is abandoned.
    pub fn rolled_back(&mut self, to: Option<Epoch>) -> Option<Epoch> {
        let newest = self.committed();
        match to {
            Some(to) => self.committed.roll_back(to),
            None if newest.is_some() => {
                // Nothing is left of the present processes. Files that are awaited still are.
                let awaited = self.committed.awaits_files();
                self.committed.resume(LastCommits::default());
                self.outliving = None;
                if awaited {
                    self.committed.want_files_now(self.next);
                }
            }
            None => {}
        }
        let abandoned = newest.filter(|newest| Some(*newest) > to);
        let request = self.pending.take();
        let due = self.due.take();
        self.overdue = request
            .as_ref()
            .map(|request| request.since)
            .or(due)
            .or(self.overdue);
        request.map(|request| request.epoch).or(abandoned)
    }

    /// The user asks for a checkpoint: the next one that is requested also goes to files.
    pub fn want_files(&mut self) {
        self.committed.want_files(self.next);
    }

    /// Files of a checkpoint from this number on are wanted, and tried again until they are there.
    pub fn pursue_files(&mut self, from: Epoch) {
        self.pursues = true;
        self.committed.want_files_now(from);
    }

    /// Files that are not there are not tried again.
    pub fn end_pursuit(&mut self) {
        self.pursues = false;
    }

    /// If wanted files are to be tried again and none are under way: requests a checkpoint for them
    /// no later than this.
    fn pursue_at(&mut self, at: Time) {
        if self.pursues && self.pending.is_none() && self.committed.awaits_files() {
            self.due = Some(self.due.map_or(at, |due| due.min(at)));
        }
    }

    /// Takes up the pursuit of files where nothing is under way for them.
    pub fn continue_pursuit(&mut self, now: Time) {
        let at = now.plus_millis(SETTLE);
        self.pursue_at(
            self.committed
                .rewrite_at()
                .map_or(at, |rewrite| rewrite.max(at)),
        );
    }

    /// The job runs again: a checkpoint that was due before is still due, soon. Failures that come
    /// faster than checkpoints must not delay them forever, or the job would make no progress.
    pub fn run_again(&mut self, now: Time) {
        let overdue = self.overdue.take();
        self.schedule(now);
        if let Some(at) = overdue.filter(|_| self.pending.is_none()) {
            let soon = at.max(now.plus_millis(SETTLE));
            self.due = Some(self.due.map_or(soon, |due| due.min(soon)));
        }
        self.continue_pursuit(now);
    }

    /// The job runs (again): the time to the next request begins.
    pub fn schedule(&mut self, now: Time) {
        if self.pending.is_some() {
            return;
        }
        self.due = if self.another {
            Some(now)
        } else {
            match self.interval {
                Interval::Asked => None,
                Interval::Every(asked) => {
                    let millis = self.stretch().map_or(asked, |stretch| stretch.interval);
                    Some(now.plus_millis(millis))
                }
                Interval::Auto => Some(now.plus_millis(self.automatic(now))),
            }
        };
        // Until then nothing is written.
        if let Some(at) = self.committed.rewrite_at().filter(|at| *at > now) {
            self.pursue_at(at);
        }
    }

    /// No further requests: the ranks are about to leave.
    pub fn stop(&mut self) {
        self.due = None;
        self.another = false;
    }

    /// Whether a request is due, or one is aborted for good. Requests are the caller's to give.
    pub fn tick(&mut self, now: Time) -> Tick {
        if let Some(request) = &self.pending {
            let late = request.asked.plus_millis(REQUEST_LIMIT) <= now;
            let (epoch, rank) = (request.epoch, request.missing.first().copied());
            return match rank {
                Some(rank) if late => {
                    self.failed(now, epoch);
                    Tick::Late { epoch, rank }
                }
                _ => Tick::Nothing,
            };
        }
        if self.due.is_some_and(|due| due <= now) {
            Tick::Due
        } else {
            Tick::Nothing
        }
    }

    /// Milliseconds between checkpoints whose cost is known.
    fn automatic(&self, now: Time) -> u64 {
        let cost = self.cost.unwrap_or_default().total();
        let times = |count: u64| cost.saturating_mul(count) / 1000;
        let best = self.failures.best_interval(now, cost);
        let best = best.map(|best| best.max(times(LEAST_PAUSE)));
        let longest = times(AUTO_SHARE).clamp(AUTO.0, AUTO.1);
        best.map_or(longest, |best| best.clamp(AUTO.0, longest))
    }
}

/// A request of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tick {
    /// There is nothing to do.
    Nothing,
    /// [`Coordinator::request`] is due.
    Due,
    /// This rank has not followed the request within [`REQUEST_LIMIT`]: it is aborted.
    Late {
        /// The request.
        epoch: Epoch,
        /// A rank whose image is missing.
        rank: Rank,
    },
}

#[cfg(test)]
mod tests;
