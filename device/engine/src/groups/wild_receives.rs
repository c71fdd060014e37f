//! Receives with a wildcard, in a job of several recovery groups: they are numbered as they are
//! posted, and each match is reported when it is made. A rank that has come back from the past
//! posts them with the source and the tag that its former self was matched with.

use std::collections::BTreeMap;

use crate::types::{Envelope, Pattern};

/// The match of a receive with a wildcard. It is to be stored before anything leaves this rank
/// that may depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WildMatch {
    /// The receive: the number of such receives that were posted before.
    pub number: u64,
    /// Rank of the sender in the communicator; [`WildMatch::CANCELLED`]: none.
    pub source: i32,
    /// Tag of the message that it got.
    pub tag: i32,
}

impl WildMatch {
    /// The source of a receive that was cancelled: no message has it.
    pub const CANCELLED: i32 = i32::MIN;
}

/// Numbers and matches of receives with a wildcard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct WildReceives {
    next: u64,
    /// Matches that the device has not taken yet.
    matches: Vec<WildMatch>,
    /// Source and tag of receives of the past, by number.
    past: BTreeMap<u64, (i32, i32)>,
}

impl WildReceives {
    /// Whether the device has matches to take.
    pub(crate) fn has_matches(&self) -> bool {
        !self.matches.is_empty()
    }

    /// Passes the matches to `store`, in their order, as long as it says yes.
    pub(crate) fn store_matches(&mut self, mut store: impl FnMut(WildMatch) -> bool) {
        let refused = self.matches.iter().position(|one| !store(*one));
        let stored = refused.unwrap_or(self.matches.len());
        self.matches.drain(..stored);
    }

    /// `past` has the matches since the image that this rank has come back from.
    pub(crate) fn repeat(&mut self, past: impl IntoIterator<Item = WildMatch>) {
        self.matches.clear();
        let entry = |one: WildMatch| (one.number, (one.source, one.tag));
        self.past.extend(past.into_iter().map(entry));
    }

    /// A receive is posted: the pattern that it gets, and its number.
    pub(crate) fn number(&mut self, pattern: &Pattern) -> (Pattern, u64) {
        let number = self.next;
        self.next += 1;
        let pattern = self.narrowed(number, pattern).unwrap_or(*pattern);
        (pattern, number)
    }

    /// The pattern of a receive whose match is known.
    pub(crate) fn narrowed(&mut self, number: u64, pattern: &Pattern) -> Option<Pattern> {
        let (source, tag) = self.past.remove(&number)?;
        Some(Pattern {
            source: Some(source),
            tag: Some(tag),
            ..*pattern
        })
    }

    /// A receive with a wildcard was matched with a message.
    pub(crate) fn matched(&mut self, number: u64, env: &Envelope) {
        let (source, tag) = (env.source, env.tag);
        self.matches.push(WildMatch {
            number,
            source,
            tag,
        });
    }

    /// The receive with this number was cancelled.
    pub(crate) fn cancelled(&mut self, number: u64) {
        self.matches.push(WildMatch {
            number,
            source: WildMatch::CANCELLED,
            tag: 0,
        });
    }
}
