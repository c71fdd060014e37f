//! Drops output that a rank repeats after a rollback.
//!
//! The filter keeps length and hash of each line that was passed on since the last committed
//! checkpoint. It compares the output of a restored rank with these lines, and drops a repeated
//! line. A line that differs (it holds a time, or wildcards matched otherwise) is passed on. The
//! filter then looks for the next repeated line among the next [`WINDOW`] lines, so that it drops
//! again from where the runs agree again. After [`WINDOW`] lines in a row that are not repeated it
//! expects nothing more.

use rejoin_channel_table::Epoch;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Lines after a difference among which a repeated line is looked for.
const WINDOW: usize = 64;

/// Longest line, in bytes, that is held back until its end shows whether it is repeated.
const LONGEST_LINE: usize = 1 << 20;

/// Pieces remembered at most, of either kind. Beyond that, neighbours are joined: this costs
/// exactness and no memory.
const MOST_PIECES: usize = 1 << 16;

/// The prime 2^61 - 1, and the base of the polynomial: hashes of neighbours can be joined.
const PRIME: u64 = (1 << 61) - 1;
const BASE: u64 = 0x0d3b_07b5_1c9f_4e21;

fn times(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    let folded = (product & u128::from(PRIME)) as u64 + (product >> 61) as u64;
    if folded >= PRIME {
        folded - PRIME
    } else {
        folded
    }
}

fn plus(a: u64, b: u64) -> u64 {
    let sum = a + b;
    if sum >= PRIME { sum - PRIME } else { sum }
}

fn power(mut exponent: u64) -> u64 {
    let (mut base, mut result) = (BASE, 1);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = times(result, base);
        }
        base = times(base, base);
        exponent >>= 1;
    }
    result
}

/// A line, or bytes that were passed on together, by length and hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    len: u64,
    hash: u64,
    /// It ends at a line's end, and holds no other.
    is_line: bool,
}

impl Piece {
    fn of(bytes: &[u8]) -> Piece {
        let hash = bytes
            .iter()
            .fold(0, |h, b| plus(times(h, BASE), u64::from(*b) + 1));
        let newline = bytes.iter().position(|byte| *byte == b'\n');
        Piece {
            len: bytes.len() as u64,
            hash,
            is_line: newline.is_some_and(|at| at + 1 == bytes.len()),
        }
    }

    fn and(self, next: Piece) -> Piece {
        Piece {
            len: self.len + next.len,
            hash: plus(times(self.hash, power(next.len)), next.hash),
            is_line: false,
        }
    }
}

/// One stream of one rank.
#[derive(Debug, Default)]
pub struct ReplayFilter {
    /// Output of the present run since `start`. All of it was passed on, in this run or an earlier
    /// one.
    written: VecDeque<Piece>,
    /// Where the first piece begins, in bytes since the rank's first output.
    start: u64,
    /// Where the rank stood at its images.
    marks: BTreeMap<Epoch, Mark>,
    /// Output of earlier runs beyond `written`, which the present run may repeat.
    expected: VecDeque<Piece>,
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

/// A restored rank wrote something else than it did before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Diverged;

impl ReplayFilter {
    /// Where everything that the present run has written ends.
    fn end(&self) -> u64 {
        self.start + self.written.iter().map(|piece| piece.len).sum::<u64>()
    }

    /// Takes output of the rank and appends the new part to `out`. Says so at the first difference
    /// since a rollback.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Option<Diverged> {
        let before = self.differing;
        let mut rest = bytes;
        while let Some(piece) = self.expected.front().copied() {
            if !self.hold(piece, &mut rest) {
                break;
            }
            self.compare(piece, out);
        }
        if self.expected.is_empty() {
            let held = std::mem::take(&mut self.held);
            self.pass_on(&held, out);
            self.pass_on(rest, out);
        }
        (before.is_none() && self.differing.is_some()).then_some(Diverged)
    }

    /// Holds back as much as must be compared with a piece; false if that has not all come yet.
    fn hold(&mut self, piece: Piece, rest: &mut &[u8]) -> bool {
        if piece.is_line && self.held.contains(&b'\n') {
            return true;
        }
        let newline = rest.iter().position(|byte| *byte == b'\n');
        let wanted = match newline {
            _ if !piece.is_line => (piece.len as usize).saturating_sub(self.held.len()),
            Some(at) => at + 1,
            None => usize::MAX,
        };
        let (now, later) = rest.split_at(wanted.min(rest.len()));
        self.held.extend_from_slice(now);
        *rest = later;
        now.len() == wanted || self.held.len() > LONGEST_LINE
    }

    /// Compares the held-back bytes with the next expected piece, and takes some of them.
    fn compare(&mut self, piece: Piece, out: &mut Vec<u8>) {
        let newline = self.held.iter().position(|byte| *byte == b'\n');
        let line = newline.map_or(self.held.len(), |at| at + 1);
        if !piece.is_line && self.held.len() as u64 >= piece.len {
            let first = Piece::of(&self.held[..piece.len as usize]);
            if (first.len, first.hash) == (piece.len, piece.hash) {
                return self.repeated(0, piece.len as usize);
            }
        }
        if newline.is_none() && self.held.len() <= LONGEST_LINE {
            // The piece is no whole line, and differs: its line is awaited.
            self.expected.pop_front();
            self.differing.get_or_insert(0);
            return;
        }
        let first = Piece::of(&self.held[..line]);
        let found = self
            .expected
            .iter()
            .take(WINDOW)
            .position(|other| *other == first);
        match found {
            Some(at) => self.repeated(at, line),
            None => self.new_line(line, out),
        }
    }

    /// The first bytes that are held back repeat the expected piece at this place.
    fn repeated(&mut self, at: usize, len: usize) {
        if let Some(piece) = self.expected.drain(..=at).next_back() {
            self.written.push_back(piece);
        }
        self.held.drain(..len);
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
            self.written.push_back(Piece::of(line));
        }
        self.bound();
    }

    /// Joins neighbours where there are too many pieces, but never across the place of an image.
    fn bound(&mut self) {
        if self.written.len().max(self.expected.len()) <= MOST_PIECES {
            return;
        }
        let places: BTreeSet<u64> = self.marks.values().map(|mark| mark.start).collect();
        while self.written.len() > MOST_PIECES && join(&mut self.written, self.start, &places) {}
        while self.expected.len() > MOST_PIECES && join(&mut self.expected, 0, &BTreeSet::new()) {}
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

    /// The checkpoint is committed: nothing before it is written again.
    pub fn commit(&mut self, epoch: Epoch) {
        self.marks = self.marks.split_off(&epoch);
        let Some(begins) = self.marks.get(&epoch).map(|mark| mark.start) else {
            return;
        };
        while let Some(piece) = self.written.front()
            && self.start + piece.len <= begins
        {
            self.start += piece.len;
            self.written.pop_front();
        }
    }

    /// The rank rolled back to its image of an epoch, `None` for its very beginning. Of an image
    /// that is not known here nothing was written since.
    pub fn rewind(&mut self, epoch: Option<Epoch>) {
        let mark = match epoch {
            None => Mark::default(),
            Some(epoch) => {
                // Later images are of a history that is no more.
                self.marks.retain(|marked, _| *marked <= epoch);
                self.marks.get(&epoch).cloned().unwrap_or_else(|| Mark {
                    start: self.end(),
                    held: Vec::new(),
                })
            }
        };
        let (mut kept, mut end) = (0, self.start);
        while let Some(piece) = self.written.get(kept)
            && end < mark.start
        {
            end += piece.len;
            kept += 1;
        }
        debug_assert_eq!(
            end,
            mark.start.max(self.start),
            "a mark is where a piece begins"
        );
        let mut expected = self.written.split_off(kept);
        expected.append(&mut self.expected);
        self.expected = expected;
        self.held = mark.held;
        self.differing = None;
        self.bound();
    }
}

/// Joins each two neighbours that begin at no kept place; false if there are none.
fn join(pieces: &mut VecDeque<Piece>, start: u64, kept: &BTreeSet<u64>) -> bool {
    let before = pieces.len();
    let mut joined: VecDeque<Piece> = VecDeque::with_capacity(before);
    let (mut begins, mut whole) = (start, true);
    for piece in pieces.drain(..) {
        match joined.back_mut() {
            Some(last) if !whole && !kept.contains(&begins) => {
                *last = last.and(piece);
                whole = true;
            }
            _ => {
                joined.push_back(piece);
                whole = false;
            }
        }
        begins += piece.len;
    }
    *pieces = joined;
    pieces.len() < before
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn push(repeat: &mut ReplayFilter, text: &str) -> (String, bool) {
        let mut out = Vec::new();
        let diverged = repeat.push(text.as_bytes(), &mut out).is_some();
        (String::from_utf8(out).unwrap(), diverged)
    }

    #[test]
    fn what_is_written_again_is_dropped_however_it_is_cut() {
        let mut r = ReplayFilter::default();
        assert_eq!(push(&mut r, "one\n"), ("one\n".into(), false));
        r.mark(Epoch(1));
        push(&mut r, "two\n");
        push(&mut r, "three\n");
        r.rewind(Some(Epoch(1)));
        assert_eq!(push(&mut r, "tw"), (String::new(), false));
        assert_eq!(push(&mut r, "o\nthree\nfo"), ("fo".into(), false));
        assert_eq!(push(&mut r, "ur\n"), ("ur\n".into(), false));
        r.rewind(None);
        assert_eq!(
            push(&mut r, "one\ntwo\nthree\nfour\nfive\n"),
            ("five\n".into(), false)
        );
    }

    #[test]
    fn a_line_that_differs_is_passed_on_and_those_around_it_are_dropped() {
        let mut r = ReplayFilter::default();
        r.mark(Epoch(1));
        push(&mut r, "same\n");
        push(&mut r, "took 3 s\n");
        push(&mut r, "end\n");
        r.rewind(Some(Epoch(1)));
        assert_eq!(
            push(&mut r, "same\ntook 4 s\n"),
            ("took 4 s\n".into(), true)
        );
        assert_eq!(push(&mut r, "end\nmore\n"), ("more\n".into(), false));
        // The latest output counts now.
        r.rewind(Some(Epoch(1)));
        assert_eq!(
            push(&mut r, "same\ntook 4 s\nend\nmore\n"),
            (String::new(), false)
        );
    }

    /// The lines that are shown of a second run after a first run.
    fn shown_after(first: &[&str], second: &[&str]) -> Vec<String> {
        let mut r = ReplayFilter::default();
        r.mark(Epoch(1));
        push(&mut r, &first.concat());
        r.rewind(Some(Epoch(1)));
        let (mut shown, _) = push(&mut r, &second.concat());
        let mut out = Vec::new();
        r.finish(&mut out);
        shown.push_str(&String::from_utf8(out).unwrap());
        shown.split_inclusive('\n').map(str::to_owned).collect()
    }

    #[test]
    fn lines_that_are_inserted_or_left_out_do_not_make_the_others_new() {
        let first = ["a\n", "b\n", "c\n", "d\n"];
        assert_eq!(
            shown_after(&first, &["a\n", "x\n", "b\n", "c\n", "d\n"]),
            ["x\n"]
        );
        assert!(shown_after(&first, &["a\n", "d\n"]).is_empty());
        assert_eq!(
            shown_after(&first, &["y\n", "b\n", "z\n", "d\n", "e\n"]),
            ["y\n", "z\n", "e\n"]
        );
        assert_eq!(
            shown_after(&["long line\n"], &["long", " text\n"]),
            ["long text\n"]
        );
    }

    #[test]
    fn a_run_that_stays_different_is_passed_on_as_it_is() {
        let first: Vec<String> = (0..200).map(|i| format!("{i}\n")).collect();
        let first: Vec<&str> = first.iter().map(String::as_str).collect();
        let mut second = vec!["other\n"; WINDOW + 1];
        second.extend(&first);
        assert_eq!(shown_after(&first, &second), second);
        second.drain(..2);
        assert_eq!(shown_after(&first, &second), vec!["other\n"; WINDOW - 1]);
    }

    #[test]
    fn a_line_that_no_newline_ends_is_not_held_back_for_ever() {
        let mut r = ReplayFilter::default();
        r.mark(Epoch(1));
        push(&mut r, "short\n");
        r.rewind(Some(Epoch(1)));
        let long = "x".repeat(LONGEST_LINE + 1);
        assert_eq!(push(&mut r, &long), (long, true));
    }

    #[test]
    fn an_image_in_the_middle_of_a_repeated_piece_holds_what_came_of_it() {
        let mut r = ReplayFilter::default();
        r.mark(Epoch(1));
        push(&mut r, "a long line\n");
        r.rewind(Some(Epoch(1)));
        push(&mut r, "a long");
        r.mark(Epoch(2));
        r.commit(Epoch(2));
        assert_eq!(push(&mut r, " line\nx\n"), ("x\n".into(), false));
        r.rewind(Some(Epoch(2)));
        assert_eq!(push(&mut r, " line\nx\ny\n"), ("y\n".into(), false));
    }

    #[test]
    fn a_rank_that_ends_in_the_middle_of_a_piece_wrote_something_new() {
        let mut r = ReplayFilter::default();
        r.mark(Epoch(1));
        push(&mut r, "a long line\n");
        r.rewind(Some(Epoch(1)));
        push(&mut r, "a lo");
        let mut out = Vec::new();
        assert_eq!(r.finish(&mut out), Some(Diverged));
        assert_eq!(out, b"a lo");
        assert_eq!(r.finish(&mut out), None);
    }

    #[test]
    fn hashes_of_neighbours_join() {
        let whole = Piece::of(b"hello, world");
        assert_eq!(Piece::of(b"hello").and(Piece::of(b", world")), whole);
        assert_ne!(Piece::of(b"hello, worle"), whole);
        assert_ne!(Piece::of(b"\0"), Piece::of(b"\0\0"));
    }

    #[test]
    fn memory_is_bounded_and_the_place_of_an_image_is_kept() {
        let mut r = ReplayFilter::default();
        let line = |i: usize| format!("{i}\n");
        let mut out = Vec::new();
        let many = 3 * MOST_PIECES;
        for i in 0..many {
            if i == many / 3 + 1 {
                r.mark(Epoch(1));
            }
            r.push(line(i).as_bytes(), &mut out);
            assert!(r.written.len() <= MOST_PIECES);
        }
        r.rewind(Some(Epoch(1)));
        out.clear();
        for i in many / 3 + 1..=many {
            assert_eq!(r.push(line(i).as_bytes(), &mut out), None);
        }
        assert_eq!(out, line(many).as_bytes());
    }

    #[derive(Debug, Clone)]
    enum Act {
        Write(usize),
        Image,
        Commit,
        Rollback,
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let act = prop_oneof![
            6 => (1usize..40).prop_map(Act::Write),
            2 => Just(Act::Image),
            2 => Just(Act::Commit),
            2 => Just(Act::Rollback),
        ];
        prop::collection::vec(act, 1..80)
    }

    proptest! {
        /// The output of a deterministic program is shown once, wherever it rolls back to.
        #[test]
        fn a_deterministic_program_is_heard_once(acts in acts(), lines in 11u8..252) {
            let text: Vec<u8> = (0..4000u32).map(|i| (i * i % 251) as u8 % lines).collect();
            let mut r = ReplayFilter::default();
            let mut out = Vec::new();
            let (mut at, mut most) = (0, 0);
            let mut images: Vec<(Epoch, usize)> = Vec::new();
            let (mut next, mut committed) = (1, None);
            for act in acts {
                match act {
                    Act::Write(n) => {
                        let end = (at + n).min(text.len());
                        prop_assert_eq!(r.push(&text[at..end], &mut out), None);
                        at = end;
                        most = most.max(at);
                    }
                    Act::Image => {
                        r.mark(Epoch(next));
                        images.push((Epoch(next), at));
                        next += 1;
                    }
                    Act::Commit => {
                        if let Some((epoch, place)) = images.last().copied() {
                            r.commit(epoch);
                            committed = Some((epoch, place));
                        }
                    }
                    Act::Rollback => {
                        r.rewind(committed.map(|c| c.0));
                        at = committed.map_or(0, |c| c.1);
                        images.retain(|image| Some(image.0) <= committed.map(|c| c.0));
                    }
                }
            }
            r.push(&text[at..], &mut out);
            prop_assert_eq!(out, text);
        }
    }
}
