//! Output of earlier runs that the present run may repeat.

use super::hashed_piece::{HashedPiece, MOST_PIECES, join};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};

/// Lines among which a repeated line is looked for, and lines in a row that are not repeated after
/// which nothing more is expected.
pub(super) const WINDOW: usize = 64;

/// Number of lines for which a line stays expected after a later one has come first. If each is
/// less than a window from its turn, one comes so many lines early and the other so many late.
const LATE: u64 = 2 * WINDOW as u64;

/// Expected pieces, and lines whose turn is over and that may still come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ExpectedOutput {
    /// In the order of the earlier run.
    next: VecDeque<HashedPiece>,
    /// Lines whose turn is over; at most [`WINDOW`].
    skipped: VecDeque<Skipped>,
    /// Lines that were looked for.
    lines: u64,
}

/// A line that had not come when a later one came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Skipped {
    line: HashedPiece,
    /// The last line, by number, that may repeat it.
    until: u64,
}

impl ExpectedOutput {
    /// Whether nothing can be repeated.
    pub(super) fn is_empty(&self) -> bool {
        self.next.is_empty() && self.skipped.is_empty()
    }

    /// The piece whose turn it is.
    pub(super) fn front(&self) -> Option<HashedPiece> {
        self.next.front().copied()
    }

    /// The piece whose turn it is has come, or will not come.
    pub(super) fn drop_front(&mut self) {
        self.next.pop_front();
    }

    /// Nothing more is expected.
    pub(super) fn clear(&mut self) {
        self.next.clear();
        self.skipped.clear();
    }

    /// Whether this line was expected; then it is no more. Of equal lines the earliest is taken: if
    /// each can be within the window of its turn, each is so then.
    pub(super) fn take(&mut self, line: HashedPiece) -> bool {
        self.lines += 1;
        let now = self.lines;
        self.skipped.retain(|skipped| now <= skipped.until);
        if let Some(at) = self.skipped.iter().position(|other| other.line == line) {
            self.skipped.remove(at);
            return true;
        }
        let mut window = self.next.iter().take(WINDOW);
        let Some(at) = window.position(|other| *other == line) else {
            return false;
        };
        let passed = self.next.drain(..=at).take(at);
        // Parts of lines, and pieces of several, are not looked for any more.
        let lines = passed.filter(|piece| piece.is_line());
        let until = now + LATE;
        self.skipped
            .extend(lines.map(|line| Skipped { line, until }));
        let excess = self.skipped.len().saturating_sub(WINDOW);
        self.skipped.drain(..excess);
        true
    }

    /// The rank is back where it was before it wrote these pieces, and may repeat them first.
    pub(super) fn rewind(&mut self, mut written: VecDeque<HashedPiece>) {
        let repeated = written.len() as u64;
        let until = self.lines + repeated + LATE;
        for skipped in &mut self.skipped {
            // After an earlier rollback, more may precede its turn than was written since.
            skipped.until = until.max(skipped.until + repeated);
        }
        written.append(&mut self.next);
        self.next = written;
        while self.next.len() > MOST_PIECES && join(&mut self.next, 0, &BTreeSet::new()) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: usize) -> HashedPiece {
        HashedPiece::of(format!("{number}\n").as_bytes())
    }

    #[test]
    fn a_line_that_is_late_stays_expected_however_often_the_rank_rolls_back() {
        const MANY: usize = 3 * WINDOW;
        let mut expected = ExpectedOutput::default();
        expected.rewind((0..=MANY + 1).map(line).collect());
        // The line MANY comes late, and the rank rolls back before.
        let early = (0..MANY).chain([MANY + 1]);
        let written: VecDeque<HashedPiece> = early.clone().map(line).collect();
        assert!(written.iter().all(|piece| expected.take(*piece)));
        expected.rewind(written.clone());
        let few: VecDeque<HashedPiece> = written.iter().take(WINDOW).copied().collect();
        for repeated in [VecDeque::new(), few, VecDeque::new()] {
            assert!(repeated.iter().all(|piece| expected.take(*piece)));
            expected.rewind(repeated);
        }
        assert!(early.clone().all(|number| expected.take(line(number))));
        assert!(expected.take(line(MANY)), "it is not new");
        assert!(expected.is_empty());
    }
}
