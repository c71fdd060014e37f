//! Link flapping: links that are established again and again without progress are an error instead
//! of an endless loop.
//!
//! A resume describes the messages that a rank has from its peer. When neither side's resume has
//! changed from one link to the next, the link in between made no progress. A rank that had nothing
//! to send does not count such a link: an idle link may be cut any number of times. Nor does a rank
//! count a link when the peer has all its messages and only has to report a matching receive. A
//! frame from the peer is all the progress that such a link can make.

use rejoin_channel_table::Resume;

/// Largest total weight of successive links without progress. It allows 20 links that moved next to
/// nothing. A long body is sent again from its start, and may be cut many times on a bad line.
const LIMIT: u32 = 200;
/// Weight of a link that moved less than `LITTLE`.
const HEAVY: u32 = 10;
/// A link that moved fewer bytes, in both directions, had no more than its handshake and small
/// frames.
const LITTLE: u64 = 64 << 10;

/// The successive links without progress to one rank.
#[derive(Debug, Default)]
pub(crate) struct FlapStreak {
    /// Both sides' resumes when the latest link was established: the peer's, then this rank's.
    resumes: Option<Box<(Resume, Resume)>>,
    links: u32,
    weight: u32,
}

impl FlapStreak {
    /// A link is established, and both sides have sent their resume.
    pub(crate) fn begin(&mut self, resumes: (Resume, Resume)) {
        if self.resumes.as_deref() != Some(&resumes) {
            self.links = 0;
            self.weight = 0;
            self.resumes = Some(Box::new(resumes));
        }
    }

    /// The peer had requested the body of a message when the latest link was established.
    pub(crate) fn peer_requested_body(&self) -> bool {
        let resumes = self.resumes.as_ref();
        resumes.is_some_and(|resumes| !resumes.0.clear.is_empty())
    }

    /// Number of successive links without progress.
    pub(crate) fn links(&self) -> u32 {
        self.links
    }

    /// The link is lost after `moved` bytes; true when there were too many in succession.
    pub(crate) fn end(&mut self, moved: u64) -> bool {
        self.links = self.links.saturating_add(1);
        let weight = if moved < LITTLE { HEAVY } else { 1 };
        self.weight = self.weight.saturating_add(weight);
        self.weight > LIMIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_channel_table::Ssn;

    fn had(next: u64) -> (Resume, Resume) {
        let resume = Resume {
            next_envelope: Ssn(next),
            ..Resume::default()
        };
        (resume, Resume::default())
    }

    fn links_until_error(
        flaps: &mut FlapStreak,
        moved: u64,
        next: impl Fn(u32) -> u64,
    ) -> Option<u32> {
        (1..1000).find(|number| {
            flaps.begin(had(next(*number)));
            flaps.end(moved)
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
}
