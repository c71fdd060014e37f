//! The matches of receives with a wildcard, for the device: it stores them, and gives them back
//! when the rank has come back from the past.

use crate::engine::Engine;
use crate::groups::wild_receives::{WildMatch, WildReceives};

impl Engine {
    /// Whether there are matches or dependencies that are not recorded.
    #[inline]
    pub fn any_to_record(&self) -> bool {
        self.any_wild_match() || self.any_dependency()
    }

    /// Whether there are matches that are not stored.
    #[inline]
    pub fn any_wild_match(&self) -> bool {
        let wild = self.core.matching.wild();
        wild.is_some_and(WildReceives::has_matches)
    }

    /// Passes the matches of receives with a wildcard that were made since the last call, in their
    /// order, as long as `store` says yes. Returns whether none is left.
    pub fn store_wild_matches(&mut self, store: impl FnMut(WildMatch) -> bool) -> bool {
        if let Some(wild) = self.core.matching.wild_mut() {
            wild.store_matches(store);
        }
        !self.any_wild_match()
    }

    /// This rank has come back from the past, and these were the matches of receives with a
    /// wildcard since then. Receives that are posted already, or again, are matched in the same
    /// way.
    pub fn replay_wild_matches(&mut self, past: impl IntoIterator<Item = WildMatch>) {
        if let Some(wild) = self.core.matching.wild_mut() {
            wild.repeat(past);
        }
        self.core.narrow_posted();
    }
}

#[cfg(test)]
mod tests {
    use rejoin_channel_table::ids::Rank;

    use super::*;
    use crate::{Config, Envelope, MessageMode, Pattern, Segment};

    fn any(context: u32) -> Pattern {
        Pattern {
            context,
            source: None,
            tag: None,
            from: None,
        }
    }

    fn engine() -> Engine {
        let mut engine = Engine::new(Config::default().consistent(), Rank(0), 2);
        engine.set_groups(&[0, 1]);
        engine
    }

    fn send(engine: &mut Engine, context: u32, tag: i32) {
        let envelope = Envelope {
            context,
            source: 0,
            tag,
        };
        let (seg, mode) = (Segment::default(), MessageMode::Standard);
        let sent = engine.send(Rank(0), envelope, seg, Some(&[]), mode);
        sent.expect("a message to this rank itself");
    }

    fn stored(engine: &mut Engine) -> Vec<(u64, i32)> {
        let mut all = Vec::new();
        assert!(engine.store_wild_matches(|one| {
            all.push((one.number, one.tag));
            true
        }));
        all
    }

    #[test]
    fn matches_are_reported_whether_the_message_or_the_receive_comes_first() {
        let mut engine = engine();
        let first = engine.recv(any(1), Segment::default()).expect("posted");
        send(&mut engine, 1, 7);
        send(&mut engine, 1, 8);
        engine.recv(any(1), Segment::default()).expect("posted");
        while engine.next_copy().is_some() {}
        assert_eq!(stored(&mut engine), [(0, 7), (1, 8)]);
        assert_eq!(engine.poll(first).map(|done| done.tag), Some(7));
        assert_eq!(stored(&mut engine), []);
    }

    #[test]
    fn a_match_without_room_stays_until_there_is_some() {
        let mut engine = engine();
        engine.recv(any(1), Segment::default()).expect("posted");
        send(&mut engine, 1, 7);
        assert!(!engine.store_wild_matches(|_| false) && engine.any_wild_match());
        assert_eq!(stored(&mut engine), [(0, 7)]);
    }

    #[test]
    fn receives_are_matched_as_before_also_if_they_are_posted_already() {
        let mut engine = engine();
        let posted = engine.recv(any(1), Segment::default()).expect("posted");
        let past = [(0, 8), (1, 7)].map(|(number, tag)| WildMatch {
            number,
            source: 0,
            tag,
        });
        engine.replay_wild_matches(past);
        let later = engine.recv(any(1), Segment::default()).expect("posted");
        send(&mut engine, 1, 7);
        send(&mut engine, 1, 8);
        while engine.next_copy().is_some() {}
        let tag = |engine: &mut Engine, id| engine.poll(id).map(|done| done.tag);
        assert_eq!(tag(&mut engine, posted), Some(8));
        assert_eq!(tag(&mut engine, later), Some(7));
        assert_eq!(stored(&mut engine), [], "they are stored already");
    }

    #[test]
    fn a_cancelled_receive_meets_nothing_again() {
        let mut first = engine();
        let request = first.recv(any(1), Segment::default()).expect("posted");
        let mut second = first.clone();
        first.cancel(request);
        let mut past = Vec::new();
        first.store_wild_matches(|one| {
            past.push(one);
            true
        });
        second.replay_wild_matches(past);
        send(&mut second, 1, 7);
        second.cancel(request);
        let done = second.poll(request).expect("it is over");
        assert!(done.cancelled, "the message is another receive's");
    }
}
