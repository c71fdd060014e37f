//! Where the frames of a channel end, by their sequence numbers.

use std::hash::{Hash, Hasher};
use std::ops::Range;

use rejoin_channel_table::ids::Ssn;

/// Numbers that the first push makes room for.
const FIRST: usize = 16;

/// A position for each number of a range that grows at its end and is cut at its beginning. A
/// number's place is its low bits, so nothing is searched or moved.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ends {
    /// Length is zero or a power of two.
    places: Vec<u64>,
    first: u64,
    next: u64,
}

impl Ends {
    /// The first number held.
    #[inline]
    pub(crate) fn first(&self) -> Ssn {
        Ssn(self.first)
    }

    /// The number that the next push gets.
    #[inline]
    pub(crate) fn next(&self) -> Ssn {
        Ssn(self.next)
    }

    /// Gives the next number its position.
    #[inline(always)]
    pub(crate) fn push(&mut self, end: u64) {
        if self.next - self.first == self.places.len() as u64 {
            self.grow();
        }
        let at = self.place(self.next);
        if let Some(place) = self.places.get_mut(at) {
            *place = end;
            self.next += 1;
        }
    }

    /// The position of a number; `None` for one that is not held.
    #[inline]
    pub(crate) fn get(&self, ssn: Ssn) -> Option<u64> {
        if ssn.0 < self.first || ssn.0 >= self.next {
            return None;
        }
        self.places.get(self.place(ssn.0)).copied()
    }

    /// Drops all numbers below this one, at most all numbers held.
    #[inline]
    pub(crate) fn cut(&mut self, ssn: Ssn) {
        self.first = ssn.0.max(self.first).min(self.next);
    }

    #[inline]
    fn place(&self, number: u64) -> usize {
        number as usize & self.places.len().wrapping_sub(1)
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let mut larger = Ends {
            places: vec![0; (2 * self.places.len()).max(FIRST)],
            ..*self
        };
        for number in self.numbers() {
            let at = larger.place(number);
            larger.places[at] = self.places[self.place(number)];
        }
        *self = larger;
    }

    fn numbers(&self) -> Range<u64> {
        self.first..self.next
    }

    fn held(&self) -> impl Iterator<Item = u64> {
        self.numbers().map(|number| self.places[self.place(number)])
    }
}

impl PartialEq for Ends {
    /// Equal when the same positions are held for the same numbers, wherever they lie in memory.
    fn eq(&self, other: &Self) -> bool {
        self.numbers() == other.numbers() && self.held().eq(other.held())
    }
}

impl Eq for Ends {}

impl Hash for Ends {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.numbers().hash(state);
        for end in self.held() {
            end.hash(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[test]
    fn equal_is_what_holds_the_same_for_the_same_numbers() {
        let (mut a, mut b) = (Ends::default(), Ends::default());
        for end in 0..40 {
            a.push(end);
        }
        a.cut(Ssn(38));
        for end in 0..38 {
            b.push(end + 7);
            b.cut(Ssn(end + 1));
        }
        b.push(38);
        assert_ne!(a, b);
        b.push(39);
        assert_eq!(a, b);
        assert_ne!(a.places.len(), b.places.len());
    }

    proptest! {
        #[test]
        fn holds_what_a_queue_holds(steps in prop::collection::vec(0u64..9, 1..200)) {
            let (mut ends, mut queue, mut first, mut end) = (Ends::default(), VecDeque::new(), 0, 0);
            for step in steps {
                if step < 6 {
                    end += step;
                    ends.push(end);
                    queue.push_back(end);
                } else {
                    let count = (step * step % 11).min(queue.len() as u64);
                    queue.drain(..count as usize);
                    first += count;
                    ends.cut(Ssn(first));
                }
                let next = first + queue.len() as u64;
                prop_assert_eq!((ends.first(), ends.next()), (Ssn(first), Ssn(next)));
                for (at, end) in queue.iter().enumerate() {
                    prop_assert_eq!(ends.get(Ssn(first + at as u64)), Some(*end));
                }
                prop_assert_eq!(ends.get(Ssn(next)), None);
                prop_assert_eq!(first.checked_sub(1).and_then(|before| ends.get(Ssn(before))), None);
            }
        }
    }
}
