//! Link flapping: links that are established again and again without progress are an error instead
//! of an endless loop.
//!
//! A resume describes the messages that a rank has from its peer. When neither side's resume has
//! changed from one link to the next, the link in between made no progress. A rank that had nothing
//! to send does not count such a link: an idle link may be cut any number of times. Nor does a rank
//! count a link when the peer has all its messages and only has to report a matching receive. A
//! frame from the peer is all the progress that such a link can make.
//!
//! Many lost links alone are no error: a network that resets all connections for a second loses
//! hundreds. The streak must also last as long as a connection may take to be made.

use std::time::{Duration, Instant};

use rejoin_channel_table::Resume;

/// Largest total weight of successive links without progress, however long they take. It allows 20
/// links that moved next to nothing. A long body is sent again from its start, and may be cut many
/// times on a bad line.
const LIMIT: u32 = 200;
/// Weight of a link that moved less than `LITTLE`.
const HEAVY: u32 = 10;
/// A link that moved fewer bytes, in both directions, had no more than its handshake and small
/// frames.
const LITTLE: u64 = 64 << 10;

/// What both sides had of messages when a link was established.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Resumes {
    /// The peer's resume.
    pub(crate) theirs: Resume,
    /// The resume of this rank.
    pub(crate) ours: Resume,
}

/// The successive links without progress to one rank.
#[derive(Debug, Default)]
pub(crate) struct FlapStreak {
    /// Both sides' resumes when the latest link was established.
    resumes: Option<Box<Resumes>>,
    links: u32,
    weight: u32,
    /// When the first of them was lost.
    since: Option<Instant>,
}

impl FlapStreak {
    /// A link is established, and both sides have sent their resume.
    pub(crate) fn begin(&mut self, resumes: Resumes) {
        if self.resumes.as_deref() != Some(&resumes) {
            self.links = 0;
            self.weight = 0;
            self.since = None;
            self.resumes = Some(Box::new(resumes));
        }
    }

    /// The peer had requested the body of a message when the latest link was established.
    pub(crate) fn peer_requested_body(&self) -> bool {
        let resumes = self.resumes.as_ref();
        resumes.is_some_and(|resumes| !resumes.theirs.clear.is_empty())
    }

    /// Number of successive links without progress.
    pub(crate) fn links(&self) -> u32 {
        self.links
    }

    /// Whether there were too many in succession: the next dial is to wait.
    pub(crate) fn is_over_limit(&self) -> bool {
        self.weight > LIMIT
    }

    /// The link is lost after `moved` bytes. True when there were too many in succession, and the
    /// first of them was lost `patience` ago or earlier.
    pub(crate) fn end(&mut self, moved: u64, patience: Duration, now: Instant) -> bool {
        self.links = self.links.saturating_add(1);
        let weight = if moved < LITTLE { HEAVY } else { 1 };
        self.weight = self.weight.saturating_add(weight);
        let since = *self.since.get_or_insert(now);
        self.is_over_limit() && now.saturating_duration_since(since) >= patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_channel_table::Ssn;

    /// Less than any streak here takes.
    const PATIENCE: Duration = Duration::from_millis(20);

    fn had(next: u64) -> Resumes {
        let theirs = Resume {
            next_envelope: Ssn(next),
            ..Resume::default()
        };
        let ours = Resume::default();
        Resumes { theirs, ours }
    }

    fn links_until_error(
        flaps: &mut FlapStreak,
        moved: u64,
        next: impl Fn(u32) -> u64,
    ) -> Option<u32> {
        let start = Instant::now();
        (1..1000).find(|number| {
            flaps.begin(had(next(*number)));
            let now = start + Duration::from_millis(u64::from(*number));
            flaps.end(moved, PATIENCE, now)
        })
    }

    #[test]
    fn links_that_bring_nothing_are_counted() {
        let flaps = FlapStreak::default;
        assert_eq!(links_until_error(&mut flaps(), 900, |_| 5), Some(21));
        // The start of a long body, again and again.
        assert_eq!(links_until_error(&mut flaps(), 1 << 20, |_| 5), Some(201));
    }

    #[test]
    fn whatever_is_received_ends_the_streak() {
        let next = |number: u32| u64::from(number / 15);
        assert_eq!(
            links_until_error(&mut FlapStreak::default(), 900, next),
            None
        );
    }

    #[test]
    fn many_links_within_a_short_time_are_no_error() {
        let mut flaps = FlapStreak::default();
        let start = Instant::now();
        let mut lost_after = |ms| {
            flaps.begin(had(5));
            flaps.end(
                900,
                Duration::from_millis(500),
                start + Duration::from_millis(ms),
            )
        };
        assert!(!(1..=500).any(&mut lost_after));
        assert!(lost_after(501), "500 ms after the first loss");
    }
}
