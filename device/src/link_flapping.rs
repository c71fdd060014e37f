//! Links that come and go without bringing anything on: an error instead of an endless loop.
//!
//! What a rank has of its peer's messages is what it says in its resume. When neither side's resume
//! has changed from one link to the next, the link in between has brought nothing that counts. A
//! rank that had nothing to say over it holds that against no link: one that stands idle may be cut
//! any number of times. Nor does one whose peer has all that it could bring, and is only to say
//! that a receive has come: a link that has brought a frame from there has done what it could.

use rejoin_channel_table::Resume;
use rejoin_channel_table::ids::Rank;

use crate::device::Device;
use crate::error::{Error, Result};

/// What rows of links without progress may weigh: 20 of those that moved next to nothing, since a
/// long body is sent again from its start and may be cut many times on a bad line.
const LIMIT: u32 = 200;
/// Weight of a link that moved less than `LITTLE`.
const HEAVY: u32 = 10;
/// A link that moved fewer bytes, in both directions, had no more than its handshake and small
/// frames.
const LITTLE: u64 = 64 << 10;

/// The present row of links without progress to one rank.
#[derive(Debug, Default)]
pub(crate) struct Row {
    /// What both sides had when the latest link came to stand: the peer, then this rank.
    had: Option<Box<(Resume, Resume)>>,
    links: u32,
    weight: u32,
}

impl Row {
    /// A link stands; both sides have said what they have.
    fn begin(&mut self, had: (Resume, Resume)) {
        if self.had.as_deref() != Some(&had) {
            self.links = 0;
            self.weight = 0;
            self.had = Some(Box::new(had));
        }
    }

    /// The peer had asked for the body of a message when the latest link came to stand.
    fn has_body_to_bring(&self) -> bool {
        self.had.as_ref().is_some_and(|had| !had.0.clear.is_empty())
    }

    /// The link is lost, having moved so many bytes; true when the row is too long.
    pub(crate) fn end(&mut self, moved: u64) -> bool {
        self.links = self.links.saturating_add(1);
        let weight = if moved < LITTLE { HEAVY } else { 1 };
        self.weight = self.weight.saturating_add(weight);
        self.weight > LIMIT
    }
}

impl Device {
    /// A link to `rank` is about to be used; `theirs` is what the peer has.
    pub(crate) fn begin_link(&mut self, rank: Rank, theirs: &Resume) {
        let ours = self.engine.resume(rank);
        self.dial_state(rank).row.begin((theirs.clone(), ours));
    }

    /// A link to `rank` is lost that had moved so many bytes, and whole frames from there or none.
    /// Returns whether it is one too many that has brought nothing on.
    pub(crate) fn count_link(&mut self, rank: Rank, moved: u64, heard: bool) -> bool {
        if self.leaving || self.engine.is_quiet(rank) {
            return false;
        }
        let waits = heard && self.engine.awaits(rank);
        let row = &mut self.dial_state(rank).row;
        if waits && !row.has_body_to_bring() {
            *row = Row::default();
            return false;
        }
        row.end(moved)
    }

    /// The same, of one that no other has taken the place of.
    ///
    /// # Errors
    /// [`Error::LinkFlapping`] when too many links in a row have brought nothing on.
    pub(crate) fn end_link(
        &mut self,
        rank: Rank,
        moved: u64,
        heard: bool,
        why: &str,
    ) -> Result<()> {
        if !self.count_link(rank, moved, heard) {
            return Ok(());
        }
        let row = &mut self.dial_state(rank).row;
        let links = row.links;
        // Whoever continues after the error gets as many links again.
        *row = Row::default();
        Err(Error::LinkFlapping {
            rank,
            host: self.host_of(rank).to_owned(),
            links,
            last: why.to_owned(),
        })
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

    fn links_until_error(row: &mut Row, moved: u64, next: impl Fn(u32) -> u64) -> Option<u32> {
        (1..1000).find(|number| {
            row.begin(had(next(*number)));
            row.end(moved)
        })
    }

    #[test]
    fn links_that_bring_nothing_are_counted() {
        let row = || Row::default();
        assert_eq!(links_until_error(&mut row(), 900, |_| 5), Some(21));
        // The start of a long body, again and again.
        assert_eq!(links_until_error(&mut row(), 1 << 20, |_| 5), Some(201));
    }

    #[test]
    fn whatever_is_received_begins_a_new_row() {
        let next = |number: u32| u64::from(number / 15);
        assert_eq!(links_until_error(&mut Row::default(), 900, next), None);
    }
}
