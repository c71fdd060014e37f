//! Drops output that a rank repeats after a rollback.
//!
//! The filter keeps length and hash of each line that was passed on since the last committed
//! checkpoint. It compares the output of a restored rank with these lines, and drops a repeated
//! line. A line that differs (it holds a time, or wildcards matched otherwise) is passed on. The
//! filter looks for each line among the next [`WINDOW`] expected ones, so that it drops again from
//! where the runs agree again. After [`WINDOW`] lines in a row that are not repeated it expects
//! nothing more.
//!
//! Threads may print in another order than before. So when a later line comes first, the skipped
//! ones stay expected for twice [`WINDOW`] lines, and [`WINDOW`] of them at most. No line is passed
//! on twice if each comes less than [`WINDOW`] lines before or after its turn. A line that comes
//! later counts as new: the program may have left out the first one, and print the same again. For
//! skipped lines alone, no unfinished line is held back.

mod expected_output;
mod hashed_piece;

use expected_output::{ExpectedOutput, WINDOW};
use hashed_piece::{HashedPiece, MOST_PIECES, join};
use rejoin_channel_table::Epoch;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Longest line, in bytes, that is held back until its end shows whether it is repeated.
const LONGEST_LINE: usize = 1 << 20;

/// One stream of one rank.
#[derive(Debug, Default)]
pub struct ReplayFilter {
    /// Output of the present run since `start`. All of it was passed on, in this run or an earlier
    /// one.
    written: VecDeque<HashedPiece>,
    /// Where the first piece begins, in bytes since the rank's first output.
    start: u64,
    /// Where the rank stood at its images.
    marks: BTreeMap<Epoch, Mark>,
    /// Output of earlier runs beyond `written`, which the present run may repeat.
    expected: ExpectedOutput,
    /// Bytes that are held back until it is clear whether they are repeated.
    held: Vec<u8>,
    /// Lines in a row that were not repeated; `None` before the first since the rollback.
    differing: Option<usize>,
}

/// A rank's place at an image: the beginning of a piece, and the held-back part of it.
#[derive(Debug, Clone, Default)]
struct Mark {
    start: u64,
    held: Vec<u8>,
}

/// What a stream that continues from an image may repeat, for another mpirun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownBeyond {
    expected: ExpectedOutput,
    held: Vec<u8>,
}

/// A restored rank wrote something else than it did before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Diverged;

impl ReplayFilter {
    /// Where everything that the present run has written ends.
    fn end(&self) -> u64 {
        self.start + self.written.iter().map(|piece| piece.len()).sum::<u64>()
    }

    /// Takes output of the rank and appends the new part to `out`. Says so at the first difference
    /// since a rollback.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Option<Diverged> {
        let before = self.differing;
        let mut rest = bytes;
        while !self.expected.is_empty() && self.hold(&mut rest) {
            self.compare(out);
        }
        // For skipped lines alone no unfinished line is held back: a person may wait for it.
        if self.expected.front().is_none() {
            let held = std::mem::take(&mut self.held);
            self.pass_on(&held, out);
            self.pass_on(rest, out);
        }
        (before.is_none() && self.differing.is_some()).then_some(Diverged)
    }

    /// Holds back as much as must be compared; false if that has not all come yet.
    fn hold(&mut self, rest: &mut &[u8]) -> bool {
        let part = self.expected.front().filter(|piece| !piece.is_line());
        if part.is_none() && self.held.contains(&b'\n') {
            return true;
        }
        let newline = rest.iter().position(|byte| *byte == b'\n');
        let wanted = match (part, newline) {
            (Some(part), _) => (part.len() as usize).saturating_sub(self.held.len()),
            (None, Some(at)) => at + 1,
            (None, None) => usize::MAX,
        };
        let (now, later) = rest.split_at(wanted.min(rest.len()));
        self.held.extend_from_slice(now);
        *rest = later;
        now.len() == wanted || self.held.len() > LONGEST_LINE
    }

    /// Compares the held-back bytes with the expected pieces, and takes some of them.
    fn compare(&mut self, out: &mut Vec<u8>) {
        let newline = self.held.iter().position(|byte| *byte == b'\n');
        let line = newline.map_or(self.held.len(), |at| at + 1);
        if let Some(part) = self.expected.front().filter(|piece| !piece.is_line()) {
            let len = part.len() as usize;
            if self.held.len() >= len && HashedPiece::of(&self.held[..len]).is_equal(part) {
                self.expected.drop_front();
                return self.repeated(part);
            }
            if newline.is_none() && self.held.len() <= LONGEST_LINE {
                // The piece is no whole line, and differs: its line is awaited.
                self.expected.drop_front();
                self.differing.get_or_insert(0);
                return;
            }
        }
        let first = HashedPiece::of(&self.held[..line]);
        if self.expected.take(first) {
            self.repeated(first);
        } else {
            self.new_line(line, out);
        }
    }

    /// The first bytes that are held back repeat this piece, which was expected.
    fn repeated(&mut self, piece: HashedPiece) {
        self.written.push_back(piece);
        self.held.drain(..piece.len() as usize);
        self.differing = self.differing.map(|_| 0);
    }

    /// The first bytes that are held back are new.
    fn new_line(&mut self, len: usize, out: &mut Vec<u8>) {
        let line: Vec<u8> = self.held.drain(..len).collect();
        self.pass_on(&line, out);
        let differing = self.differing.unwrap_or(0) + 1;
        self.differing = Some(differing);
        if differing > WINDOW {
            self.expected.clear();
        }
    }

    fn pass_on(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(bytes);
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.written.push_back(HashedPiece::of(line));
        }
        self.bound();
    }

    /// Joins neighbours where there are too many pieces, but never across the place of an image.
    fn bound(&mut self) {
        if self.written.len() > MOST_PIECES {
            let places: BTreeSet<u64> = self.marks.values().map(|mark| mark.start).collect();
            while self.written.len() > MOST_PIECES && join(&mut self.written, self.start, &places) {
            }
        }
    }

    /// The rank has ended: a held-back unfinished line is new.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Option<Diverged> {
        self.expected.clear();
        let held = std::mem::take(&mut self.held);
        if held.is_empty() {
            return None;
        }
        self.pass_on(&held, out);
        self.differing.replace(1).is_none().then_some(Diverged)
    }

    /// The rank took its image of an epoch: all that it wrote before has been pushed.
    pub fn mark(&mut self, epoch: Epoch) {
        let mark = Mark {
            start: self.end(),
            held: self.held.clone(),
        };
        self.marks.insert(epoch, mark);
    }

    /// Output that was shown and that the rank repeats after its last image, if there is any: the
    /// rank rolled back, and had not come so far again when it took the image. Nothing was shown
    /// since.
    pub fn shown_beyond(&self) -> Option<ShownBeyond> {
        (!self.expected.is_empty()).then(|| ShownBeyond {
            expected: self.expected.clone(),
            held: self.held.clone(),
        })
    }

    /// The filter of a stream that continues from the rank's image of this epoch.
    pub fn continued(epoch: Epoch, shown: ShownBeyond) -> ReplayFilter {
        let ShownBeyond { expected, held } = shown;
        let mark = Mark {
            start: 0,
            held: held.clone(),
        };
        ReplayFilter {
            marks: BTreeMap::from([(epoch, mark)]),
            expected,
            held,
            ..ReplayFilter::default()
        }
    }

    /// Whether the filter has seen the rank's image of this epoch.
    pub fn knows(&self, epoch: Epoch) -> bool {
        self.marks.contains_key(&epoch)
    }

    /// The rank does not roll back to this image any more.
    pub fn forget(&mut self, epoch: Epoch) {
        self.marks.remove(&epoch);
    }

    /// No rank rolls back behind this checkpoint: nothing before it is written again.
    pub fn commit(&mut self, epoch: Epoch) {
        self.marks = self.marks.split_off(&epoch);
        let Some(begins) = self.marks.get(&epoch).map(|mark| mark.start) else {
            return;
        };
        while let Some(piece) = self.written.front()
            && self.start + piece.len() <= begins
        {
            self.start += piece.len();
            self.written.pop_front();
        }
    }

    /// The rank rolled back to its image of an epoch, `None` for its very beginning. After an image
    /// that is not known here, nothing was written yet: it is where the rank begins.
    pub fn rewind(&mut self, epoch: Option<Epoch>) {
        let mark = match epoch {
            None => Mark::default(),
            Some(epoch) => {
                // Later images are of a history that is no more.
                self.marks.retain(|marked, _| *marked <= epoch);
                let start = self.end();
                let beginning = || Mark {
                    start,
                    held: Vec::new(),
                };
                let mark = self.marks.entry(epoch).or_insert_with(beginning);
                mark.clone()
            }
        };
        let (mut kept, mut end) = (0, self.start);
        while let Some(piece) = self.written.get(kept)
            && end < mark.start
        {
            end += piece.len();
            kept += 1;
        }
        debug_assert_eq!(
            end,
            mark.start.max(self.start),
            "a mark is where a piece begins"
        );
        self.expected.rewind(self.written.split_off(kept));
        self.held = mark.held;
        self.differing = None;
    }
}

#[cfg(test)]
mod tests;
