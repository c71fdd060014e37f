//! When checkpoints are requested, and when one is committed: central's side of coordinated
//! checkpoints (ARCHITECTURE.md, the walk of a failure).
//!
//! A checkpoint is an epoch number. Central *requests* it once, every rank takes its image on its
//! own, and central *commits* the checkpoint when every rank has its image. Central requests the
//! next one only when the last is committed or abandoned. No number is used twice, not even after a
//! rollback: a rank that enters an epoch must never find frames of an older use of the number.

use crate::manager_messages::Time;
use rejoin_channel_table::{Epoch, Rank};
use rejoin_wire::ImageCost;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// When checkpoints are requested without a user or program that asks for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Interval {
    /// So that they cost about half a percent of the time.
    #[default]
    Auto,
    /// So many milliseconds after the last was committed or aborted.
    Every(u64),
    /// Only on request.
    Asked,
}

/// Bounds of [`Interval::Auto`], in milliseconds.
const AUTO: (u64, u64) = (2_000, 600_000);
/// One part in so many of the time may go into checkpoints under [`Interval::Auto`].
const AUTO_SHARE: u64 = 200;
/// Under [`Interval::Every`], the time to the next request is at least so many times the last
/// checkpoint's cost: checkpoints take at most a fifth of the time.
const LEAST_PAUSE: u64 = 4;
/// Milliseconds after which a checkpoint is aborted if the image of some rank is missing. A rank
/// that computes takes its image by signal, so one that does not within this time can't.
pub const REQUEST_LIMIT: u64 = 60_000;
/// Milliseconds that ranks which are back have for themselves before the next request.
const SETTLE: u64 = 20;
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
/// let mut job = Coordinator::new(2, Interval::Asked);
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
    committed: Option<Epoch>,
    committed_at: Time,
    pending: Option<OpenRequest>,
    due: Option<Time>,
    /// When the next request would have been due, if a failure came before it.
    overdue: Option<Time>,
    /// A further checkpoint was asked for, which follows the pending one.
    another: bool,
    /// The last checkpoint that lost an image, and the milliseconds before the request after it.
    lost: Option<(Epoch, u64)>,
    /// The ranks whose images of the committed checkpoint are gone.
    without_image: BTreeSet<Rank>,
    cost: Option<ImageCost>,
    /// A rank with state that a rollback does not take back, and what it is. It was found since
    /// the last commit.
    outliving: Option<(Rank, String)>,
    /// The cost of the checkpoint before the last one.
    cost_before: ImageCost,
    /// Whether [`Coordinator::newly_stretched`] has said so.
    told_stretch: bool,
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
    /// For a job of so many ranks that has taken no checkpoint.
    #[must_use]
    pub fn new(ranks: u32, interval: Interval) -> Self {
        Coordinator {
            interval,
            ranks,
            next: Epoch(1),
            committed: None,
            committed_at: Time(0),
            pending: None,
            due: None,
            overdue: None,
            another: false,
            lost: None,
            without_image: BTreeSet::new(),
            cost: None,
            outliving: None,
            cost_before: ImageCost::default(),
            told_stretch: false,
        }
    }

    /// The checkpoint that the job rolls back to.
    #[must_use]
    pub fn committed(&self) -> Option<Epoch> {
        self.committed
    }

    /// A rank has state that a rollback to the committed checkpoint does not take back: `what` says
    /// it for the user.
    pub fn set_outliving(&mut self, rank: Rank, what: String) {
        self.outliving = Some((rank, what));
    }

    /// A rank with such state, if there is one since the last commit.
    #[must_use]
    pub fn outliving(&self) -> Option<&(Rank, String)> {
        self.outliving.as_ref()
    }

    /// When it was committed.
    #[must_use]
    pub fn committed_at(&self) -> Time {
        self.committed_at
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
        let committed = self
            .committed
            .filter(|_| !self.without_image.contains(&rank));
        requested.map(|request| request.epoch).or(committed)
    }

    /// When [`Coordinator::tick`] has something to do.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        match &self.pending {
            Some(request) => Some(request.since.plus_millis(REQUEST_LIMIT)),
            None => self.due,
        }
    }

    /// Continues a job from its stored records: the last commit with its time and cost, and the
    /// highest number ever requested. If that number is not the committed one, it is abandoned.
    pub fn resume(&mut self, committed: Option<(Epoch, Time, ImageCost)>, requested: Epoch) {
        self.committed = committed.map(|(epoch, ..)| epoch);
        self.committed_at = committed.map_or(Time(0), |(_, at, _)| at);
        self.without_image.clear();
        self.cost = committed.map(|(.., cost)| cost);
        self.next = Epoch(requested.0.saturating_add(1));
        self.pending = None;
        self.due = None;
    }

    /// The highest number that was ever requested; 0 when none was.
    #[must_use]
    pub fn last_number(&self) -> Epoch {
        Epoch(self.next.0.saturating_sub(1))
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
        self.due = (self.interval != Interval::Asked || self.another)
            .then(|| now.plus_millis(AFTER_ABORT));
        Progress::Aborted(epoch)
    }

    /// The commit is stored. Returns the nanoseconds since the request; 0 without such a request.
    pub fn commit(&mut self, now: Time, epoch: Epoch) -> u64 {
        let Some(request) = self.pending.take_if(|request| request.epoch == epoch) else {
            return 0;
        };
        self.committed = Some(epoch);
        self.committed_at = now;
        self.without_image.clear();
        self.outliving = None;
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

    /// The same, the first time only.
    pub fn newly_stretched(&mut self) -> Option<Stretch> {
        let stretch = self.stretch().filter(|_| !self.told_stretch)?;
        self.told_stretch = true;
        Some(stretch)
    }

    /// A rank's image of the last commit, or of the request under way, is gone: another checkpoint
    /// at once. If the lost image is itself such a replacement, a pause precedes the next one.
    pub fn image_lost(&mut self, now: Time, rank: Rank, epoch: Epoch) -> Progress {
        let is_pending = self.pending() == Some(epoch);
        if !is_pending && self.committed != Some(epoch) {
            return Progress::Waiting;
        }
        let at = now.plus_millis(self.retake_pause(now, epoch));
        if is_pending {
            let outcome = self.failed(now, epoch);
            self.due = Some(at);
            return outcome;
        }
        self.without_image.insert(rank);
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
        let lasted = self.committed == Some(epoch) && self.committed_at.plus_millis(longest) <= now;
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

    /// The job rolls back to the last commit: a request under way is void, and its number
    /// abandoned.
    pub fn rolled_back(&mut self) -> Option<Epoch> {
        let request = self.pending.take();
        let due = self.due.take();
        self.overdue = request
            .as_ref()
            .map(|request| request.since)
            .or(due)
            .or(self.overdue);
        request.map(|request| request.epoch)
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
                Interval::Auto => Some(now.plus_millis(self.automatic())),
            }
        };
    }

    /// No further requests: the ranks are about to leave.
    pub fn stop(&mut self) {
        self.due = None;
        self.another = false;
    }

    /// Whether a request is due, or one is aborted for good. Requests are the caller's to give.
    pub fn tick(&mut self, now: Time) -> Tick {
        if let Some(request) = &self.pending {
            let late = request.since.plus_millis(REQUEST_LIMIT) <= now;
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
    fn automatic(&self) -> u64 {
        let cost = self.cost.unwrap_or_default().total();
        (cost.saturating_mul(AUTO_SHARE) / 1000).clamp(AUTO.0, AUTO.1)
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
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time(0).plus_millis(millis)
    }

    fn two(interval: Interval) -> Coordinator {
        Coordinator::new(2, interval)
    }

    fn take(c: &mut Coordinator, now: Time, cost: ImageCost) -> Epoch {
        let epoch = c.request(now).expect("a request");
        assert_eq!(c.imaged(Rank(0), epoch, cost), Progress::Waiting);
        assert_eq!(
            c.imaged(Rank(1), epoch, ImageCost::default()),
            Progress::Complete(epoch)
        );
        c.commit(now, epoch);
        epoch
    }

    #[test]
    fn a_checkpoint_stands_when_every_image_is_there_and_the_one_before_it_until_then() {
        let mut c = two(Interval::Every(100));
        assert_eq!(take(&mut c, at(0), ImageCost::default()), Epoch(1));
        assert_eq!(c.deadline(), Some(at(100)));
        let epoch = c.request(at(100)).unwrap();
        assert_eq!(c.request(at(100)), None, "one at a time");
        assert_eq!(
            c.imaged(Rank(0), epoch, ImageCost::default()),
            Progress::Waiting
        );
        assert_eq!(
            c.imaged(Rank(0), epoch, ImageCost::default()),
            Progress::Waiting,
            "said twice"
        );
        assert_eq!(c.committed(), Some(Epoch(1)));
        assert_eq!(
            c.imaged(Rank(1), Epoch(1), ImageCost::default()),
            Progress::Waiting,
            "an old one"
        );
        assert_eq!(
            c.imaged(Rank(1), epoch, ImageCost::default()),
            Progress::Complete(epoch)
        );
        assert_eq!(c.committed(), Some(Epoch(1)), "not before it is stored");
        c.commit(at(101), epoch);
        assert_eq!(c.committed(), Some(Epoch(2)));
        // The checkpoint that was requested meanwhile comes next, at once.
        assert_eq!(c.tick(at(101)), Tick::Due);
    }

    #[test]
    fn the_cost_of_a_checkpoint_is_the_longest_stall_and_the_copies_of_all_ranks() {
        let mut c = two(Interval::Asked);
        let epoch = c.request(at(0)).unwrap();
        let cost = |stall, copied| ImageCost {
            stall,
            copied,
            copying: 0,
        };
        c.imaged(Rank(1), epoch, cost(700, 5));
        c.imaged(Rank(1), epoch, cost(700, 5));
        c.imaged(Rank(0), epoch, cost(300, 80));
        let wanted = CheckpointCost {
            stall: 700,
            slowest: Rank(1),
            copied: 85,
        };
        assert_eq!(c.cost_so_far(), wanted);
    }

    #[test]
    fn numbers_are_abandoned_by_failed_and_rolled_back_orders() {
        let mut c = two(Interval::Every(100));
        take(&mut c, at(0), ImageCost::default());
        let second = c.request(at(1)).unwrap();
        assert_eq!(c.failed(at(2), second), Progress::Aborted(second));
        assert_eq!(c.failed(at(2), second), Progress::Waiting);
        let third = c.request(at(3)).unwrap();
        c.imaged(Rank(0), third, ImageCost::default());
        assert_eq!(c.rolled_back(), Some(third));
        assert_eq!(
            c.imaged(Rank(1), third, ImageCost::default()),
            Progress::Waiting
        );
        assert_eq!(c.request(at(4)), Some(Epoch(4)));
        assert_eq!(c.committed(), Some(Epoch(1)));
        let mut again = two(Interval::Auto);
        let stored = c.committed().map(|e| (e, at(0), ImageCost::default()));
        again.resume(stored, Epoch(4));
        assert_eq!(again.request(at(1)), Some(Epoch(5)));
    }

    #[test]
    fn failures_do_not_put_checkpoints_off() {
        let mut c = two(Interval::Every(100));
        take(&mut c, at(0), ImageCost::default());
        for millis in [50, 90, 130] {
            c.rolled_back();
            c.run_again(at(millis));
        }
        assert_eq!(c.deadline(), Some(at(130 + SETTLE)));
        let request = c.request(at(150)).unwrap();
        assert_eq!(c.rolled_back(), Some(request));
        c.run_again(at(160));
        assert_eq!(
            c.deadline(),
            Some(at(160 + SETTLE)),
            "the one that was lost"
        );
        let mut asked = two(Interval::Asked);
        take(&mut asked, at(0), ImageCost::default());
        asked.rolled_back();
        asked.run_again(at(1));
        assert_eq!(asked.deadline(), None);
    }

    #[test]
    fn a_rank_that_does_not_follow_is_named_and_the_request_aborted() {
        let mut c = two(Interval::Asked);
        let epoch = c.request(at(0)).unwrap();
        c.imaged(Rank(0), epoch, ImageCost::default());
        assert_eq!(c.tick(at(REQUEST_LIMIT - 1)), Tick::Nothing);
        let late = Tick::Late {
            epoch,
            rank: Rank(1),
        };
        assert_eq!(c.tick(at(REQUEST_LIMIT)), late);
        assert_eq!(c.pending(), None);
        assert_eq!(c.deadline(), None);
    }

    #[test]
    fn a_checkpoint_that_is_wanted_during_a_rollback_comes_after_it() {
        let mut c = two(Interval::Asked);
        take(&mut c, at(0), ImageCost::default());
        c.rolled_back();
        c.request_later();
        assert_eq!(c.tick(at(5)), Tick::Nothing);
        c.schedule(at(9));
        assert_eq!(c.tick(at(9)), Tick::Due);
        assert_eq!(c.request(at(9)), Some(Epoch(2)));
        c.rolled_back();
        c.schedule(at(11));
        assert_eq!(c.tick(at(11)), Tick::Nothing, "requested once");
    }

    #[test]
    fn an_interval_that_is_too_short_for_two_checkpoints_is_stretched_and_told_once() {
        let mut c = two(Interval::Every(100));
        let dear = ImageCost {
            stall: 10_000,
            copied: 10_000,
            copying: 90_000,
        };
        take(&mut c, at(0), dear);
        assert_eq!((c.newly_stretched(), c.deadline()), (None, Some(at(100))));
        take(&mut c, at(100), dear);
        let stretch = Stretch {
            asked: 100,
            interval: 400,
            cost: 100_000,
        };
        assert_eq!(c.newly_stretched(), Some(stretch));
        assert_eq!((c.newly_stretched(), c.deadline()), (None, Some(at(500))));
        // It holds again when checkpoints are cheap.
        take(&mut c, at(500), ImageCost::default());
        assert_eq!(c.deadline(), Some(at(600)));
    }

    #[test]
    fn a_lost_image_calls_for_another_checkpoint_at_once() {
        let mut c = two(Interval::Asked);
        let first = take(&mut c, at(0), ImageCost::default());
        assert_eq!(c.deadline(), None);
        assert_eq!(c.image_lost(at(5), Rank(1), first), Progress::Waiting);
        assert_eq!(c.tick(at(5)), Tick::Due);
        let second = c.request(at(5)).unwrap();
        assert_eq!(
            c.image_lost(at(6), Rank(1), second),
            Progress::Aborted(second)
        );
        assert_eq!(c.deadline(), Some(at(6 + RETAKE_PAUSES.0)), "again");
        assert_eq!(c.image_lost(at(7), Rank(1), Epoch(77)), Progress::Waiting);
    }

    #[test]
    fn the_last_image_of_a_rank_is_one_that_is_there() {
        let cost = ImageCost::default();
        let mut c = two(Interval::Asked);
        assert_eq!(c.image_of(Rank(0)), None);
        let first = take(&mut c, at(0), cost);
        assert_eq!(c.image_of(Rank(0)), Some(first));
        let second = c.request(at(1)).unwrap();
        c.imaged(Rank(0), second, cost);
        let images = |c: &Coordinator| [0, 1].map(|rank| c.image_of(Rank(rank)));
        assert_eq!(images(&c), [Some(second), Some(first)]);
        // The committed image of a rank is gone, then the request is aborted.
        c.image_lost(at(2), Rank(0), first);
        assert_eq!(images(&c), [Some(second), Some(first)]);
        c.failed(at(3), second);
        assert_eq!(images(&c), [None, Some(first)]);
        let third = take(&mut c, at(4), cost);
        assert_eq!(images(&c), [Some(third); 2]);
    }

    #[test]
    fn images_that_are_killed_again_and_again_are_replaced_after_pauses_that_double() {
        let mut c = two(Interval::Asked);
        let (mut now, mut pauses) = (0, Vec::new());
        let mut epoch = take(&mut c, at(now), ImageCost::default());
        for _ in 0..10 {
            c.image_lost(at(now), Rank(1), epoch);
            // The images of both ranks are killed.
            c.image_lost(at(now), Rank(1), epoch);
            let due = c.deadline().expect("another checkpoint");
            pauses.push((due.0 - at(now).0) / 1_000_000);
            now += pauses.last().expect("one was pushed");
            assert_eq!(c.tick(at(now)), Tick::Due);
            epoch = take(&mut c, at(now), ImageCost::default());
        }
        let (shortest, longest) = RETAKE_PAUSES;
        assert_eq!(pauses[..3], [0, shortest, 2 * shortest]);
        assert_eq!(pauses[7..], [longest; 3]);
        // One that is lost before its commit belongs to the series, too.
        c.image_lost(at(now), Rank(1), epoch);
        now += longest;
        let next = c.request(at(now)).expect("a request");
        assert_eq!(
            c.image_lost(at(now), Rank(1), next),
            Progress::Aborted(next)
        );
        assert_eq!(c.deadline(), Some(at(now + longest)));
        // One that lasts ends it.
        epoch = take(&mut c, at(now), ImageCost::default());
        now += longest;
        c.image_lost(at(now), Rank(1), epoch);
        assert_eq!(c.tick(at(now)), Tick::Due);
    }

    #[test]
    fn a_pause_after_lost_images_delays_no_checkpoint_that_is_due_sooner() {
        let mut c = two(Interval::Every(30));
        let first = take(&mut c, at(0), ImageCost::default());
        c.image_lost(at(1), Rank(1), first);
        let second = take(&mut c, at(1), ImageCost::default());
        c.image_lost(at(2), Rank(1), second);
        assert_eq!(c.deadline(), Some(at(31)));
    }

    #[test]
    fn the_automatic_interval_follows_the_dearest_rank() {
        let mut c = two(Interval::Auto);
        let cost = ImageCost {
            stall: 10_000,
            copied: 45_000,
            copying: 0,
        };
        take(&mut c, at(0), cost);
        // 100 ms in all, half a percent of 20 s.
        assert_eq!(c.deadline(), Some(at(20_000)));
        // A rank that is suspended longest need not be the dearest.
        let mut c = two(Interval::Auto);
        let epoch = c.request(at(0)).unwrap();
        for (rank, stall, copied) in [(0, 1_000, 40_000), (1, 20_000, 0)] {
            c.imaged(
                Rank(rank),
                epoch,
                ImageCost {
                    stall,
                    copied,
                    copying: 0,
                },
            );
        }
        c.commit(at(0), epoch);
        assert_eq!(c.deadline(), Some(at(16_200)));
        let mut c = two(Interval::Auto);
        take(&mut c, at(0), ImageCost::default());
        assert_eq!(c.deadline(), Some(at(AUTO.0)));
    }
}
