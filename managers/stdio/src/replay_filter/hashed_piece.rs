//! Output by length and hash.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};

/// Pieces of one kind, written or expected, that are remembered at most. Beyond that, neighbours
/// are joined: this costs exactness and no memory.
pub(super) const MOST_PIECES: usize = 1 << 16;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HashedPiece {
    len: u64,
    hash: u64,
    /// The piece ends at a line's end, and holds no other.
    is_line: bool,
}

impl HashedPiece {
    pub(super) fn of(bytes: &[u8]) -> HashedPiece {
        let hash = bytes
            .iter()
            .fold(0, |h, b| plus(times(h, BASE), u64::from(*b) + 1));
        let newline = bytes.iter().position(|byte| *byte == b'\n');
        HashedPiece {
            len: bytes.len() as u64,
            hash,
            is_line: newline.is_some_and(|at| at + 1 == bytes.len()),
        }
    }

    /// Length of the piece in bytes.
    pub(super) fn len(self) -> u64 {
        self.len
    }

    /// The piece ends at a line's end, and holds no other.
    pub(super) fn is_line(self) -> bool {
        self.is_line
    }

    /// Whether it has the same bytes, wherever lines end.
    pub(super) fn is_equal(self, other: HashedPiece) -> bool {
        (self.len, self.hash) == (other.len, other.hash)
    }

    /// This piece and the next one together.
    fn and(self, next: HashedPiece) -> HashedPiece {
        HashedPiece {
            len: self.len + next.len,
            hash: plus(times(self.hash, power(next.len)), next.hash),
            is_line: false,
        }
    }
}

/// Joins each two neighbours that begin at no kept place; false if there are none.
pub(super) fn join(pieces: &mut VecDeque<HashedPiece>, start: u64, kept: &BTreeSet<u64>) -> bool {
    let before = pieces.len();
    let mut joined: VecDeque<HashedPiece> = VecDeque::with_capacity(before);
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

    #[test]
    fn hashes_of_neighbours_join() {
        let whole = HashedPiece::of(b"hello, world");
        assert_eq!(
            HashedPiece::of(b"hello").and(HashedPiece::of(b", world")),
            whole
        );
        assert_ne!(HashedPiece::of(b"hello, worle"), whole);
        assert_ne!(HashedPiece::of(b"\0"), HashedPiece::of(b"\0\0"));
    }
}
