//! How far the determinants of each rank are *stable*: stored where they outlive the rank's host,
//! with all that they depend on.
//!
//! The keeper of the copies ([`super::CopiedLog`]) adds what it has stored. A rank asks about marks
//! of its log, and is told about each when that is stable. Whatever it has sent by then survives
//! any loss.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rejoin_channel_table::ids::{Incarnation, Rank};
use serde::{Deserialize, Serialize};

use super::determinant_record::DeterminantRecord;
use super::{Dependency, DeterminantKind, IncarnationEnds, LogPart};

/// A mark of a rank's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StableMark {
    /// The rank.
    pub rank: Rank,
    /// The incarnation that has asked.
    pub incarnation: Incarnation,
    /// The mark.
    pub mark: u64,
}

/// What is known of one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct StoredRank {
    incarnation: Incarnation,
    /// The mark that what is stored reaches.
    copied: u64,
    /// The mark up to which all is stable, asked about or not: an incarnation that has ended asks
    /// about nothing more, and others may depend on what it has recorded.
    stable: u64,
    /// Later marks that are stored, ascending.
    stored: VecDeque<u64>,
    /// Index of the record, the mark from which on the log has it, and what it says; in order.
    dependencies: VecDeque<(u64, u64, Dependency)>,
}

/// The marks of all ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct StableMarks {
    ranks: BTreeMap<Rank, StoredRank>,
    ends: IncarnationEnds,
    /// Ranks with marks that wait for others.
    waiting: BTreeSet<Rank>,
}

impl StableMarks {
    /// The incarnation before this one has ended, and its determinants up to `mark` are kept: this
    /// one continues from there.
    fn begun(&mut self, rank: Rank, incarnation: Incarnation, mark: u64) {
        let stored = self.ranks.entry(rank).or_default();
        if let Some(before) = incarnation.0.checked_sub(1)
            && stored.incarnation < incarnation
        {
            // It asks again about what it has.
            stored.incarnation = incarnation;
            stored.stored.clear();
            stored.stable = stored.stable.min(mark);
            self.ends.note(rank, Incarnation(before), mark);
        }
    }

    /// A part of a rank's log is stored. It replaces what was stored from there on.
    pub fn add(&mut self, rank: Rank, part: &LogPart) {
        let stored = self.ranks.entry(rank).or_default();
        stored.dependencies.retain(|(at, ..)| *at < part.from);
        // A rank that ends its log before something lost may have asked for more.
        stored.copied = part.mark();
        let copied = stored.copied;
        stored.stored.retain(|mark| *mark <= copied);
        for (index, words) in (part.from..).zip(&part.records) {
            let Some(record) = DeterminantRecord::decode(*words) else {
                continue;
            };
            if let Some(on) = Dependency::of(&record) {
                let own = Dependency::own_mark(&record, index);
                let stored = self.ranks.entry(rank).or_default();
                stored.dependencies.push_back((index, own, on));
            }
            if record.kind == DeterminantKind::Begin {
                let [incarnation, mark, _] = record.values;
                self.begun(rank, Incarnation(incarnation as u32), mark);
            }
        }
    }

    /// The log of an incarnation is stored up to a mark, which it has asked about.
    pub fn stored(&mut self, mark: StableMark) {
        let known = self.ranks.get(&mark.rank);
        if known.is_some_and(|known| known.incarnation < mark.incarnation) {
            // It has begun the log anew, or nobody depends on what is not stored.
            self.begun(mark.rank, mark.incarnation, 0);
        }
        let stored = self.ranks.entry(mark.rank).or_default();
        if stored.incarnation == mark.incarnation && mark.mark <= stored.copied {
            stored.stored.push_back(mark.mark);
            self.waiting.insert(mark.rank);
        }
    }

    /// The marks that have become stable since the last call.
    pub fn advance(&mut self) -> Vec<StableMark> {
        let mut news = Vec::new();
        loop {
            let mut advances = false;
            for rank in self.waiting.clone() {
                advances |= self.advance_rank(rank, &mut news);
            }
            if !advances {
                return news;
            }
        }
    }

    /// Whether more of the rank's log is stable than before.
    fn advance_rank(&mut self, rank: Rank, news: &mut Vec<StableMark>) -> bool {
        let Some(stored) = self.ranks.get(&rank) else {
            return false;
        };
        let blocked = stored
            .dependencies
            .iter()
            .find(|(.., on)| !self.is_stable(on));
        let limit = blocked.map_or(u64::MAX, |(_, own, _)| own - 1);
        let Some(stored) = self.ranks.get_mut(&rank) else {
            return false;
        };
        let before = stored.stable;
        let stable = before.max(limit.min(stored.copied));
        stored.stable = stable;
        while let Some(mark) = stored.stored.pop_front_if(|mark| *mark <= stable) {
            news.push(StableMark {
                rank,
                incarnation: stored.incarnation,
                mark,
            });
        }
        while stored
            .dependencies
            .front()
            .is_some_and(|(_, own, _)| *own <= stable)
        {
            stored.dependencies.pop_front();
        }
        if stored.stored.is_empty() {
            self.waiting.remove(&rank);
        }
        stable > before
    }

    fn is_stable(&self, on: &Dependency) -> bool {
        let stored = self.ranks.get(&on.rank);
        self.ends.has(on) && stored.is_some_and(|stored| stored.stable >= on.mark)
    }
}

#[cfg(test)]
mod tests {
    use super::super::DeterminantLog;
    use super::*;

    type Log = DeterminantLog<Vec<u64>>;

    fn log() -> Log {
        DeterminantLog::new(vec![0; 16 + 4 * 8]).expect("a log")
    }

    fn answer(log: &mut Log) -> u64 {
        let values = Some([1, 0, 0]);
        log.answer(DeterminantKind::Test, values).expect("room");
        log.mark()
    }

    fn on(rank: u32, incarnation: u32, mark: u64) -> Dependency {
        Dependency {
            rank: Rank(rank),
            incarnation: Incarnation(incarnation),
            mark,
        }
    }

    fn mark(rank: u32, incarnation: u32, mark: u64) -> StableMark {
        StableMark {
            rank: Rank(rank),
            incarnation: Incarnation(incarnation),
            mark,
        }
    }

    fn store(marks: &mut StableMarks, log: &Log, from: u64, asked: StableMark) {
        let part = LogPart::read(log.memory(), from).expect("a part");
        marks.add(asked.rank, &part);
        marks.stored(asked);
    }

    /// Each depends on what the other one has recorded before that, and asks about it no more.
    #[test]
    fn what_an_ended_incarnation_has_recorded_is_stable_without_a_question() {
        let (mut marks, mut first, mut second) = (StableMarks::default(), log(), log());
        let told = answer(&mut first);
        second.depends(on(1, 0, told)).expect("room");
        let back = answer(&mut second);
        first.depends(on(2, 0, back)).expect("room");
        // Both are lost before anything of this is stored, except for these copies.
        for (number, log) in [(1, &mut first), (2, &mut second)] {
            log.begin(Incarnation(1)).expect("room");
            let asked = mark(number, 1, log.mark());
            store(&mut marks, log, 0, asked);
        }
        let asked = [mark(1, 1, first.mark()), mark(2, 1, second.mark())];
        let mut news = marks.advance();
        news.sort_by_key(|mark| mark.rank);
        assert_eq!(news, asked);
    }

    #[test]
    fn a_mark_waits_for_those_that_it_depends_on() {
        let (mut marks, mut first, mut second) = (StableMarks::default(), log(), log());
        let told = answer(&mut first);
        second.depends(on(1, 0, told)).expect("room");
        let asked = second.mark();
        store(&mut marks, &second, 0, mark(2, 0, asked));
        assert_eq!(marks.advance(), []);
        store(&mut marks, &first, 0, mark(1, 0, told));
        assert_eq!(marks.advance(), [mark(1, 0, told), mark(2, 0, asked)]);
        assert_eq!(marks.advance(), []);
    }

    #[test]
    fn what_a_part_has_beyond_a_mark_does_not_delay_it() {
        let (mut marks, mut first, mut second) = (StableMarks::default(), log(), log());
        let told = answer(&mut first);
        let early = answer(&mut second);
        // The first depends on that, and the second on the first: parts have both.
        first.depends(on(2, 0, early)).expect("room");
        second.depends(on(1, 0, told)).expect("room");
        let (last_of_first, last_of_second) = (first.mark(), second.mark());
        store(&mut marks, &first, 0, mark(1, 0, told));
        marks.stored(mark(1, 0, last_of_first));
        store(&mut marks, &second, 0, mark(2, 0, early));
        marks.stored(mark(2, 0, last_of_second));
        assert_eq!(marks.advance().len(), 4);
    }

    #[test]
    fn what_depends_on_lost_determinants_is_never_stable() {
        let (mut marks, mut first, mut second) = (StableMarks::default(), log(), log());
        let kept = answer(&mut first);
        store(&mut marks, &first, 0, mark(1, 0, kept));
        assert_eq!(marks.advance().len(), 1);
        let lost = answer(&mut first);
        second.depends(on(1, 0, kept)).expect("room");
        let before = second.mark();
        second.depends(on(1, 0, lost)).expect("room");
        let orphaned = second.mark();
        store(&mut marks, &second, 0, mark(2, 0, before));
        marks.stored(mark(2, 0, orphaned));
        assert_eq!(marks.advance(), [mark(2, 0, before)]);
        // The next incarnation of the first records as much, and more.
        let mut memory = first.memory().clone();
        memory[1] = 1;
        memory[3] = 1;
        let mut first = log();
        first.replay_from(memory).expect("the log");
        assert_eq!(first.mark(), kept);
        first.begin(Incarnation(1)).expect("room");
        let part = LogPart::read(first.memory(), 0).expect("a part");
        marks.add(Rank(1), &part);
        marks.stored(mark(1, 0, lost));
        assert_eq!(marks.advance(), [], "nobody waits for that");
        marks.stored(mark(1, 1, lost));
        assert_eq!(marks.advance(), [], "so much is not stored");
        answer(&mut first);
        let more = answer(&mut first);
        store(&mut marks, &first, 0, mark(1, 1, more));
        assert_eq!(marks.advance(), [mark(1, 1, more)]);
        // The orphan comes back without the lost one, and depends on its repetition.
        let mut memory = second.memory().clone();
        let cut = Dependency::cut(&mut memory, 0, &marks.ends);
        assert_eq!(cut, Ok(Some(on(1, 0, lost))));
        let mut back = log();
        back.replay_from(memory).expect("the log");
        assert_eq!(back.mark(), before);
        back.begin(Incarnation(1)).expect("room");
        back.depends(on(1, 1, lost)).expect("room");
        let asked = back.mark();
        store(&mut marks, &back, 0, mark(2, 1, asked));
        assert_eq!(marks.advance(), [mark(2, 1, asked)]);
    }

    #[test]
    fn the_end_of_an_incarnation_makes_no_more_stable_than_was() {
        let (mut marks, mut first, mut second) = (StableMarks::default(), log(), log());
        first.depends(on(2, 0, 1)).expect("room");
        let kept = answer(&mut first);
        store(&mut marks, &first, 0, mark(1, 0, kept));
        assert_eq!(marks.advance(), []);
        first.begin(Incarnation(1)).expect("room");
        let begun = first.mark();
        store(&mut marks, &first, 0, mark(1, 1, begun));
        second.depends(on(1, 0, kept)).expect("room");
        let asked = second.mark();
        store(&mut marks, &second, 0, mark(3, 0, asked));
        assert_eq!(marks.advance(), [], "its dependency is not stored");
        let mut other = log();
        let told = answer(&mut other);
        store(&mut marks, &other, 0, mark(2, 0, told));
        let mut news = marks.advance();
        news.sort_by_key(|mark| mark.rank);
        assert_eq!(
            news,
            [mark(1, 1, begun), mark(2, 0, told), mark(3, 0, asked)]
        );
    }

    #[test]
    fn what_was_stable_of_a_log_says_nothing_of_one_that_is_begun_anew() {
        let (mut marks, mut first) = (StableMarks::default(), log());
        for _ in 0..3 {
            answer(&mut first);
        }
        let told = first.mark();
        store(&mut marks, &first, 0, mark(1, 0, told));
        assert_eq!(marks.advance(), [mark(1, 0, told)]);
        let mut anew = log();
        anew.depends(on(2, 0, 1)).expect("room");
        let asked = answer(&mut anew);
        assert!(asked < told);
        store(&mut marks, &anew, 0, mark(1, 1, asked));
        assert_eq!(marks.advance(), [], "its dependency is not stored");
    }
}
