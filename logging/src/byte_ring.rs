//! A byte queue whose contents keep their positions. Bytes are written once and sent from there,
//! again if need be, until they are released.

use std::ops::Range;

/// Size that the first write allocates.
const FIRST: usize = 4 << 10;

/// Bytes between two positions that only grow. Memory grows on demand and is used in a circle. An
/// empty ring starts at its beginning again, so that a ping-pong stays in cache.
#[derive(Clone, Debug, Default)]
pub struct ByteRing {
    /// Length is zero or a power of two.
    buf: Vec<u8>,
    head: u64,
    tail: u64,
    /// The position that lies at index 0 of `buf`.
    origin: u64,
}

impl ByteRing {
    /// The first position still held.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// The position that the next byte gets.
    pub fn tail(&self) -> u64 {
        self.tail
    }

    /// Bytes held.
    pub fn len(&self) -> usize {
        (self.tail - self.head) as usize
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.tail == self.head
    }

    /// Bytes of memory in use.
    pub fn capacity(&self) -> usize {
        self.buf.len()
    }

    /// Appends both parts, one after the other, and returns where they lie. The first has a length
    /// known to the compiler, as headers do.
    #[inline]
    pub fn push<const N: usize>(&mut self, first: &[u8; N], second: &[u8]) -> Range<u64> {
        let total = N + second.len();
        if self.buf.len() - self.len() < total {
            self.grow(total);
        }
        let start = self.tail;
        let at = self.index(start);
        if let Some(room) = self.buf.get_mut(at..at + total)
            && let Some((head, rest)) = room.split_first_chunk_mut::<N>()
        {
            *head = *first;
            rest.copy_from_slice(second);
            self.tail += total as u64;
        } else {
            self.copy_in(first);
            self.copy_in(second);
        }
        start..self.tail
    }

    /// Appends both parts as `push` does, the first in words of little endian order: they go from
    /// registers to their place.
    #[inline(always)]
    pub fn push_words<const N: usize>(&mut self, first: &[u64; N], second: &[u8]) -> Range<u64> {
        let total = 8 * N + second.len();
        let start = self.tail;
        let at = self.index(start);
        if self.buf.len() - self.len() >= total
            && let Some(room) = self.buf.get_mut(at..at + total)
        {
            let (head, rest) = room.split_at_mut(8 * N);
            for (to, word) in head.as_chunks_mut::<8>().0.iter_mut().zip(first) {
                *to = word.to_le_bytes();
            }
            match (rest.as_mut_array::<8>(), second.as_array::<8>()) {
                (Some(to), Some(from)) => *to = *from,
                _ => rest.copy_from_slice(second),
            }
            self.tail += total as u64;
            return start..self.tail;
        }
        // A copy: the words stay in registers where they are not needed in memory.
        let words = *first;
        self.push_around(&words, second)
    }

    /// Appends both parts where the ring wraps around or must grow.
    #[cold]
    #[inline(never)]
    fn push_around(&mut self, first: &[u64], second: &[u8]) -> Range<u64> {
        let total = 8 * first.len() + second.len();
        if self.buf.len() - self.len() < total {
            self.grow(total);
        }
        let start = self.tail;
        for word in first {
            self.copy_in(&word.to_le_bytes());
        }
        self.copy_in(second);
        start..self.tail
    }

    fn copy_in(&mut self, bytes: &[u8]) {
        let at = self.index(self.tail);
        let fits = bytes.len().min(self.buf.len() - at);
        self.buf[at..at + fits].copy_from_slice(&bytes[..fits]);
        if fits < bytes.len() {
            self.buf[..bytes.len() - fits].copy_from_slice(&bytes[fits..]);
        }
        self.tail += bytes.len() as u64;
    }

    #[cold]
    fn grow(&mut self, more: usize) {
        let wanted = (self.len() + more).next_power_of_two().max(FIRST);
        let mut larger = vec![0; wanted];
        let (a, b) = self.slices(self.head..self.tail);
        larger[..a.len()].copy_from_slice(a);
        larger[a.len()..a.len() + b.len()].copy_from_slice(b);
        self.buf = larger;
        self.origin = self.head;
    }

    #[inline]
    fn index(&self, position: u64) -> usize {
        (position.wrapping_sub(self.origin) as usize) & self.buf.len().wrapping_sub(1)
    }

    /// The bytes of `range`, in two parts where the ring wraps around. Bytes of the range that are
    /// not held are left out.
    pub fn slices(&self, range: Range<u64>) -> (&[u8], &[u8]) {
        let start = range.start.max(self.head);
        let end = range.end.min(self.tail);
        if start >= end {
            return (&[], &[]);
        }
        let (at, len) = (self.index(start), (end - start) as usize);
        let fits = len.min(self.buf.len() - at);
        (&self.buf[at..at + fits], &self.buf[..len - fits])
    }

    /// Replaces bytes that are held, from `position` on. Bytes outside of the ring are left out.
    pub fn replace(&mut self, position: u64, bytes: &[u8]) {
        for (place, byte) in (position..self.tail).zip(bytes) {
            if place >= self.head {
                let at = self.index(place);
                self.buf[at] = *byte;
            }
        }
    }

    /// Drops all bytes before `position`.
    #[inline]
    pub fn release(&mut self, position: u64) {
        self.head = position.max(self.head).min(self.tail);
        if self.head == self.tail {
            self.origin = self.tail;
        }
    }
}

impl PartialEq for ByteRing {
    /// Equal when the same bytes are held at the same positions, wherever they lie in memory.
    fn eq(&self, other: &Self) -> bool {
        self.head == other.head
            && self.tail == other.tail
            && bytes(self.slices(self.head..self.tail))
                .eq(bytes(other.slices(self.head..self.tail)))
    }
}

impl Eq for ByteRing {}

impl std::hash::Hash for ByteRing {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.head.hash(state);
        self.tail.hash(state);
        for byte in bytes(self.slices(self.head..self.tail)) {
            state.write_u8(*byte);
        }
    }
}

fn bytes<'a>((a, b): (&'a [u8], &'a [u8])) -> impl Iterator<Item = &'a u8> {
    a.iter().chain(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        /// Pushes and releases of any size leave the same bytes as a plain queue.
        #[test]
        fn agrees_with_a_plain_queue(
            steps in proptest::collection::vec((0usize..3000, 0usize..3000, 0usize..8000), 1..60)
        ) {
            let (mut ring, mut plain) = (ByteRing::default(), VecDeque::new());
            let mut next = 0u8;
            for (a, b, release) in steps {
                let data: Vec<u8> = (0..a + b).map(|_| { next = next.wrapping_add(7); next }).collect();
                let range = if a > b {
                    ring.push(&[0; 64], &data)
                } else {
                    ring.push_words(&[0; 8], &data)
                };
                plain.extend([0; 64]);
                plain.extend(data.iter().copied());
                prop_assert_eq!(range.end - range.start, 64 + (a + b) as u64);
                prop_assert!(bytes(ring.slices(range)).eq([0; 64].iter().chain(&data)));
                let released = release.min(plain.len());
                plain.drain(..released);
                ring.release(ring.head() + released as u64);
                prop_assert_eq!(ring.len(), plain.len());
                prop_assert!(bytes(ring.slices(ring.head()..ring.tail())).eq(plain.iter()));
            }
        }
    }

    #[test]
    fn starts_at_its_beginning_when_it_ran_empty() {
        let mut ring = ByteRing::default();
        for _ in 0..10_000 {
            let range = ring.push(&[1; 64], &[2; 100]);
            let (a, b) = ring.slices(range.clone());
            assert_eq!((a.len(), b.len()), (164, 0));
            ring.release(range.end);
        }
        assert_eq!(ring.capacity(), FIRST);
    }
}
