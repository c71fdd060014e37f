//! What a rank writes again after it went back to a checkpoint, and what of it is new.
//!
//! Of what was passed on since the last committed checkpoint, the lengths and hashes are kept. What a
//! restored rank writes is held against them: the same again is dropped, so that each line comes
//! once; where it differs (times, wildcards) it is new, from the beginning of the piece in which it
//! differs, and that is said.

use rejoin_channel_table::Epoch;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Pieces remembered at most; beyond, neighbours are joined, which costs exactness and no memory.
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

/// Bytes that were passed on in one go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    len: u64,
    hash: u64,
}

impl Piece {
    fn of(bytes: &[u8]) -> Piece {
        let hash = bytes
            .iter()
            .fold(0, |h, b| plus(times(h, BASE), u64::from(*b) + 1));
        Piece {
            len: bytes.len() as u64,
            hash,
        }
    }

    fn and(self, next: Piece) -> Piece {
        Piece {
            len: self.len + next.len,
            hash: plus(times(self.hash, power(next.len)), next.hash),
        }
    }
}

/// One stream of one rank.
#[derive(Debug, Default)]
pub struct ReplayFilter {
    /// What was passed on from `start` on.
    pieces: VecDeque<Piece>,
    /// Where the first piece begins, in bytes since the rank's first output.
    start: u64,
    /// Where the rank stood at its images.
    marks: BTreeMap<Epoch, Mark>,
    /// Set while the rank writes again what was passed on.
    again: Option<Again>,
}

/// A rank's place at an image: at a piece's beginning, and what had come of that piece.
#[derive(Debug, Clone, Default)]
struct Mark {
    start: u64,
    held: Vec<u8>,
}

#[derive(Debug, Default)]
struct Again {
    /// The piece that is being compared.
    at: usize,
    /// Where that piece begins.
    start: u64,
    /// What has come of it.
    held: Vec<u8>,
}

/// A restored rank wrote something else than it did before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Diverged;

impl ReplayFilter {
    /// Where everything that was passed on ends.
    fn end(&self) -> u64 {
        self.start + self.pieces.iter().map(|piece| piece.len).sum::<u64>()
    }

    /// Takes what the rank wrote; what is new of it goes to `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Option<Diverged> {
        let mut rest = bytes;
        while let Some(again) = &mut self.again {
            let Some(piece) = self.pieces.get(again.at).copied() else {
                self.again = None;
                break;
            };
            let missing = (piece.len - again.held.len() as u64).min(rest.len() as u64) as usize;
            again.held.extend_from_slice(&rest[..missing]);
            rest = &rest[missing..];
            if (again.held.len() as u64) < piece.len {
                return None;
            }
            if Piece::of(&again.held) == piece {
                again.at += 1;
                again.start += piece.len;
                again.held.clear();
                continue;
            }
            self.pieces.truncate(again.at);
            let mut fresh = std::mem::take(&mut again.held);
            fresh.extend_from_slice(rest);
            self.again = None;
            self.pass_on(&fresh, out);
            return Some(Diverged);
        }
        self.pass_on(rest, out);
        None
    }

    fn pass_on(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        out.extend_from_slice(bytes);
        self.pieces.push_back(Piece::of(bytes));
        if self.pieces.len() > MOST_PIECES {
            self.join();
        }
    }

    /// Joins neighbours, but never across the place of an image.
    fn join(&mut self) {
        let places: BTreeSet<u64> = self.marks.values().map(|mark| mark.start).collect();
        let mut joined: VecDeque<Piece> = VecDeque::with_capacity(self.pieces.len());
        let (mut begins, mut whole) = (self.start, true);
        for piece in self.pieces.drain(..) {
            match joined.back_mut() {
                Some(last) if !whole && !places.contains(&begins) => {
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
        self.pieces = joined;
    }

    /// The rank has ended: what was held back for comparison and has no end is new.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Option<Diverged> {
        let again = self.again.take()?;
        if again.held.is_empty() {
            return None;
        }
        self.pieces.truncate(again.at);
        self.pass_on(&again.held, out);
        Some(Diverged)
    }

    /// The rank took its image of an epoch: all that it wrote before has been pushed.
    pub fn mark(&mut self, epoch: Epoch) {
        let mark = match &self.again {
            Some(again) => Mark {
                start: again.start,
                held: again.held.clone(),
            },
            None => Mark {
                start: self.end(),
                held: Vec::new(),
            },
        };
        self.marks.insert(epoch, mark);
    }

    /// The checkpoint is committed: nothing before it is written again.
    pub fn commit(&mut self, epoch: Epoch) {
        self.marks = self.marks.split_off(&epoch);
        let Some(begins) = self.marks.get(&epoch).map(|mark| mark.start) else {
            return;
        };
        while let Some(piece) = self.pieces.front()
            && self.start + piece.len <= begins
        {
            self.start += piece.len;
            self.pieces.pop_front();
            if let Some(again) = &mut self.again {
                // A rank that writes again stands at or behind its own mark.
                again.at -= 1;
            }
        }
    }

    /// The rank went back to its image of an epoch, `None` for its very beginning. Of an image that
    /// is not known here nothing was written since.
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
        let (mut at, mut start) = (0, self.start);
        while let Some(piece) = self.pieces.get(at)
            && start < mark.start
        {
            start += piece.len;
            at += 1;
        }
        debug_assert_eq!(
            start,
            mark.start.max(self.start),
            "a mark is where a piece begins"
        );
        self.again = (at < self.pieces.len()).then_some(Again {
            at,
            start,
            held: mark.held,
        });
    }
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
    fn what_differs_is_new_from_its_piece_on() {
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
        assert_eq!(push(&mut r, "end\n"), ("end\n".into(), false));
        // What was passed on last is what counts now.
        r.rewind(Some(Epoch(1)));
        assert_eq!(
            push(&mut r, "same\ntook 4 s\nend\n"),
            (String::new(), false)
        );
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
            assert!(r.pieces.len() <= MOST_PIECES + 1);
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
        /// A program that writes the same each time is heard once, wherever it is taken back to.
        #[test]
        fn a_deterministic_program_is_heard_once(acts in acts()) {
            let text: Vec<u8> = (0..4000u32).map(|i| (i * i % 251) as u8).collect();
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
