//! A level to which the images of a checkpoint are brought in the background, after their commit on
//! the level before: files, and files on partner hosts.

use crate::committed_checkpoint::CommittedCheckpoint;
use crate::failure_rate::FailureRate;
use crate::interval::Interval;
use crate::manager_messages::Time;
use rejoin_channel_table::{Epoch, Rank};
use std::collections::BTreeSet;

/// Milliseconds to the next attempt after one has failed. The pause doubles with each further
/// failure, up to the second value.
const PAUSES: (u64, u64) = (1_000, 600_000);

/// Milliseconds after which an attempt is given up if the image of some rank is missing.
const LIMIT: u64 = 3_600_000;

/// Under [`Interval::Auto`], images are being brought there for one part in so many of the time at
/// most, as long as no failure is seen …
const AUTO_SHARE: u64 = 20;
/// … and otherwise for one part in so many.
const MOST_SHARE: u64 = 4;

/// Images that are being brought there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Attempt {
    checkpoint: CommittedCheckpoint,
    since: Time,
    missing: BTreeSet<Rank>,
    /// The user has asked for them.
    asked: bool,
}

/// A level, and the attempt that is under way for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct BackgroundLevel {
    /// When images are brought there; `None`: never.
    interval: Option<Interval>,
    /// When the last attempt began that has not failed.
    begun: Option<Time>,
    /// The nanoseconds that the last one took; 0: not known.
    took: u64,
    /// The user wants a checkpoint from this number on there.
    wanted: Option<Epoch>,
    attempt: Option<Attempt>,
    committed: Option<CommittedCheckpoint>,
    /// After a failure: the next attempt comes no sooner, and the milliseconds of that pause.
    retry: Option<(Time, u64)>,
}

impl BackgroundLevel {
    /// Whether images are ever brought there.
    pub fn is_in_use(&self) -> bool {
        self.interval.is_some()
    }

    /// Whether these ranks' images of the checkpoint that is under way are there.
    pub fn has_arrived(&self, ranks: &[Rank], epoch: Epoch) -> bool {
        let attempt = self.attempt.as_ref();
        let attempt = attempt.filter(|attempt| attempt.checkpoint.epoch == epoch);
        attempt.is_some_and(|attempt| ranks.iter().all(|rank| !attempt.missing.contains(rank)))
    }

    /// Nothing is there.
    pub fn new(interval: Option<Interval>) -> BackgroundLevel {
        BackgroundLevel {
            interval,
            begun: None,
            took: 0,
            wanted: None,
            attempt: None,
            committed: None,
            retry: None,
        }
    }

    /// The same level of a job that continues with this checkpoint there.
    pub fn resumed(&self, committed: Option<CommittedCheckpoint>) -> BackgroundLevel {
        BackgroundLevel {
            committed,
            begun: committed.map(|checkpoint| checkpoint.at),
            ..BackgroundLevel::new(self.interval)
        }
    }

    /// The newest checkpoint of which every rank has its image there.
    pub fn committed(&self) -> Option<CommittedCheckpoint> {
        self.committed
    }

    /// The checkpoint whose images are being brought there.
    pub fn under_way(&self) -> Option<CommittedCheckpoint> {
        self.attempt.as_ref().map(|attempt| attempt.checkpoint)
    }

    /// The user asks for a checkpoint of this number or a higher one there.
    pub fn want(&mut self, from: Epoch) {
        self.wanted = self.interval.map(|_| from);
    }

    /// The user asks for a checkpoint there, and an earlier request stands: it is answered first.
    pub fn want_too(&mut self, from: Epoch) {
        let from = self.wanted.map_or(from, |earlier| earlier.min(from));
        self.want(from);
    }

    /// An earlier failure delays the next attempt no more.
    pub fn forget_failure(&mut self) {
        self.retry = None;
    }

    /// A checkpoint was asked for there, and none is under way.
    pub fn is_awaited(&self) -> bool {
        self.wanted.is_some() && self.attempt.is_none()
    }

    /// After a failure: no attempt comes before this time.
    pub fn retry_at(&self) -> Option<Time> {
        self.retry.map(|(at, _)| at)
    }

    /// Whether an attempt with this checkpoint is due. The first one is, so that there is something
    /// to go back to.
    pub fn is_due(&self, now: Time, epoch: Epoch, failures: &FailureRate) -> bool {
        let asked = self.wanted.is_some_and(|from| from <= epoch);
        let since = |millis: u64| {
            let is_over = |begun: Time| begun.plus_millis(millis) <= now;
            self.begun.is_none_or(is_over)
        };
        let due = match self.interval {
            None => return false,
            Some(Interval::Auto) => since(self.automatic(now, failures)),
            Some(Interval::Every(millis)) => since(millis),
            Some(Interval::Asked) => self.committed.is_none(),
        };
        let paused = self.retry.is_some_and(|(at, _)| now < at);
        let is_there = self.committed.is_some_and(|there| there.epoch >= epoch);
        (due || asked) && !paused && !is_there && self.attempt.is_none()
    }

    /// When an attempt with this checkpoint is due at the latest.
    pub fn due_at(&self, epoch: Epoch) -> Option<Time> {
        let is_there = self.committed.is_some_and(|there| there.epoch >= epoch);
        if is_there || self.attempt.is_some() {
            return None;
        }
        let asked = self.wanted.is_some_and(|from| from <= epoch);
        let pause = match self.interval? {
            _ if asked => None,
            Interval::Auto => Some(self.times_taken(AUTO_SHARE)),
            Interval::Every(millis) => Some(millis),
            Interval::Asked => match self.committed {
                None => None,
                Some(_) => return None,
            },
        };
        let due = self.begun.zip(pause);
        let due = due.map(|(begun, pause)| begun.plus_millis(pause));
        Some(due.max(self.retry_at()).unwrap_or_default())
    }

    /// Milliseconds between the beginnings of attempts whose duration is known.
    fn automatic(&self, now: Time, failures: &FailureRate) -> u64 {
        let best = failures.best_interval(now, self.took / 1000);
        let longest = self.times_taken(AUTO_SHARE);
        best.map_or(longest, |best| {
            best.clamp(self.times_taken(MOST_SHARE), longest)
        })
    }

    /// So many times the milliseconds that the last attempt took.
    fn times_taken(&self, count: u64) -> u64 {
        self.took.saturating_mul(count) / 1_000_000
    }

    /// The images of all these ranks are brought there from now on.
    pub fn begin(&mut self, now: Time, checkpoint: CommittedCheckpoint, ranks: u32) {
        self.begun = Some(now);
        let asked = self.wanted.take_if(|from| *from <= checkpoint.epoch);
        self.attempt = Some(Attempt {
            checkpoint,
            since: now,
            asked: asked.is_some(),
            missing: (0..ranks).map(Rank).collect(),
        });
    }

    /// A rank's image of this checkpoint is there. Returns the checkpoint once all are: the caller
    /// stores that, then says [`BackgroundLevel::commit`].
    pub fn arrived(&mut self, rank: Rank, epoch: Epoch) -> Option<CommittedCheckpoint> {
        let attempt = self.attempt.as_mut();
        let attempt = attempt.filter(|attempt| attempt.checkpoint.epoch == epoch)?;
        attempt.missing.remove(&rank);
        attempt.missing.is_empty().then_some(attempt.checkpoint)
    }

    /// The commit of the checkpoint that was under way is stored. Returns the nanoseconds since the
    /// attempt began.
    pub fn commit(&mut self, now: Time) -> u64 {
        let Some(attempt) = self.attempt.take() else {
            return 0;
        };
        self.committed = Some(attempt.checkpoint);
        self.retry = None;
        self.took = now.0.saturating_sub(attempt.since.0);
        self.took
    }

    /// The last attempt has kept another one waiting for so many nanoseconds more.
    pub fn add_time(&mut self, nanos: u64) {
        self.took = self.took.saturating_add(nanos);
    }

    /// When the attempt under way is given up.
    pub fn deadline(&self) -> Option<Time> {
        let attempt = self.attempt.as_ref()?;
        Some(attempt.since.plus_millis(LIMIT))
    }

    /// The checkpoint that is under way, and how many of so many ranks have their image there.
    pub fn progress(&self, ranks: u32) -> Option<(Epoch, u32)> {
        let attempt = self.attempt.as_ref()?;
        let missing = u32::try_from(attempt.missing.len()).unwrap_or(u32::MAX);
        Some((attempt.checkpoint.epoch, ranks.saturating_sub(missing)))
    }

    /// An attempt that should have come to its end by now: its checkpoint, and a rank whose image
    /// is missing.
    pub fn late(&self, now: Time) -> Option<(Epoch, Rank)> {
        let attempt = self.attempt.as_ref()?;
        let rank = *attempt.missing.first()?;
        let is_late = attempt.since.plus_millis(LIMIT) <= now;
        is_late.then_some((attempt.checkpoint.epoch, rank))
    }

    /// An image of this checkpoint can't be brought there. `is_failure`: an attempt at once would
    /// fail, too. Returns whether it was under way.
    pub fn fail(&mut self, now: Time, epoch: Epoch, is_failure: bool) -> bool {
        if !self.give_up(epoch) {
            return false;
        }
        if is_failure {
            let (shortest, longest) = PAUSES;
            let before = self.retry.map_or(0, |(_, pause)| pause);
            let pause = (before * 2).clamp(shortest, longest);
            self.retry = Some((now.plus_millis(pause), pause));
        }
        true
    }

    /// The attempt with this checkpoint is void. What was asked for stays so. Returns whether it
    /// was under way.
    pub fn give_up(&mut self, epoch: Epoch) -> bool {
        let is_meant = |attempt: &mut Attempt| attempt.checkpoint.epoch == epoch;
        let Some(attempt) = self.attempt.take_if(is_meant) else {
            return false;
        };
        self.begun = None;
        let asked = attempt.asked.then_some(epoch);
        self.wanted = self.wanted.or(asked);
        true
    }

    /// The job rolls back to this checkpoint: later ones are void. If one of them was there,
    /// `earlier` is there by now.
    pub fn roll_back(&mut self, to: Epoch, earlier: Option<CommittedCheckpoint>) {
        let under_way = self.under_way().map(|checkpoint| checkpoint.epoch);
        if let Some(void) = under_way.filter(|epoch| *epoch > to) {
            self.give_up(void);
        }
        if self.committed.is_some_and(|there| there.epoch > to) {
            self.committed = earlier;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_wire::ImageCost;

    fn at(millis: u64) -> Time {
        Time(millis * 1_000_000)
    }

    fn checkpoint(epoch: u32, millis: u64) -> CommittedCheckpoint {
        CommittedCheckpoint {
            epoch: Epoch(epoch),
            at: at(millis),
            cost: ImageCost::default(),
        }
    }

    /// Whether it is due with this checkpoint.
    fn is_due(level: &BackgroundLevel, millis: u64, epoch: u32) -> bool {
        level.is_due(at(millis), Epoch(epoch), &FailureRate::default())
    }

    /// One rank's image comes there in this time.
    fn bring(level: &mut BackgroundLevel, epoch: u32, (from, to): (u64, u64)) {
        assert!(is_due(level, from, epoch), "{level:?}");
        level.begin(at(from), checkpoint(epoch, from), 1);
        assert_eq!(level.due_at(Epoch(epoch)), None);
        let complete = level.arrived(Rank(0), Epoch(epoch));
        assert_eq!(complete.map(|c| c.epoch), Some(Epoch(epoch)));
        assert_eq!(level.commit(at(to)), at(to).0 - at(from).0);
    }

    #[test]
    fn the_first_checkpoint_goes_there_and_then_those_that_are_asked_for() {
        let mut level = BackgroundLevel::new(Some(Interval::Asked));
        assert_eq!(level.due_at(Epoch(1)), Some(Time(0)));
        bring(&mut level, 1, (10, 20));
        assert!(!is_due(&level, 9_000_000, 2));
        assert_eq!(level.due_at(Epoch(2)), None);
        // The second request does not put the first one off.
        level.want_too(Epoch(3));
        level.want_too(Epoch(4));
        assert!(!is_due(&level, 30, 2) && level.is_awaited());
        bring(&mut level, 3, (30, 40));
        assert!(!level.is_awaited());
        level.want(Epoch(5));
        level.want(Epoch(6));
        assert!(!is_due(&level, 50, 5) && is_due(&level, 50, 6));
        assert_eq!(
            level.resumed(Some(checkpoint(3, 30))).due_at(Epoch(5)),
            None
        );
    }

    #[test]
    fn after_a_failure_the_pause_doubles_until_an_attempt_succeeds() {
        let mut level = BackgroundLevel::new(Some(Interval::Every(5000)));
        bring(&mut level, 1, (0, 10));
        assert!(!is_due(&level, 4999, 2) && is_due(&level, 5000, 2));
        assert_eq!(level.due_at(Epoch(2)), Some(at(5000)));
        let mut now = 5000;
        for pause in [1000, 2000, 4000] {
            level.begin(at(now), checkpoint(2, now), 1);
            assert!(!level.fail(at(now), Epoch(1), true), "another one");
            assert!(level.fail(at(now), Epoch(2), true));
            assert!(!is_due(&level, now + pause - 1, 2));
            assert_eq!(level.due_at(Epoch(2)), Some(at(now + pause)));
            now += pause;
        }
        bring(&mut level, 2, (now, now + 10));
        assert_eq!(level.retry_at(), None);
        assert_eq!(level.due_at(Epoch(2)), None, "it is there");
    }

    #[test]
    fn an_automatic_interval_leaves_most_of_the_time_free() {
        let mut level = BackgroundLevel::new(Some(Interval::Auto));
        bring(&mut level, 1, (0, 100));
        assert!(!is_due(&level, 1999, 2) && is_due(&level, 2000, 2));
        assert_eq!(level.due_at(Epoch(2)), Some(at(2000)));
        level.add_time(at(100).0);
        assert_eq!(level.due_at(Epoch(2)), Some(at(4000)));
    }

    #[test]
    fn a_rollback_voids_what_is_later() {
        let mut level = BackgroundLevel::new(Some(Interval::Every(0)));
        bring(&mut level, 4, (0, 1));
        level.begin(at(2), checkpoint(6, 2), 2);
        level.roll_back(Epoch(5), None);
        assert_eq!(level.under_way(), None);
        assert_eq!(level.committed().map(|c| c.epoch), Some(Epoch(4)));
        level.roll_back(Epoch(3), Some(checkpoint(3, 0)));
        assert_eq!(level.committed().map(|c| c.epoch), Some(Epoch(3)));
    }
}
