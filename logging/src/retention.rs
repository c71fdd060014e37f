//! The retention of one channel: every envelope from the first that is not acknowledged.

use std::collections::VecDeque;
use std::ops::Range;

use rejoin_channel_table::ids::Ssn;

use crate::ring::ByteRing;

/// Frames in the order of their sequence numbers, each a range of one ring, so that neighbours
/// are written together. Some have a body elsewhere, of the caller's type `B`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Retention<B> {
    ring: ByteRing,
    /// Sequence number of the first frame held.
    first: Ssn,
    /// End of each frame in the ring; a frame begins where the one before ends.
    ends: VecDeque<u64>,
    /// Bodies outside of the ring, ascending.
    bodies: VecDeque<(Ssn, B)>,
}

impl<B> Default for Retention<B> {
    fn default() -> Self {
        Retention {
            ring: ByteRing::default(),
            first: Ssn(0),
            ends: VecDeque::new(),
            bodies: VecDeque::new(),
        }
    }
}

impl<B> Retention<B> {
    /// The first sequence number that is still held: all below are acknowledged.
    pub fn first(&self) -> Ssn {
        self.first
    }

    /// The number that the next frame gets.
    pub fn next(&self) -> Ssn {
        Ssn(self.first.0 + self.ends.len() as u64)
    }

    /// Whether everything is acknowledged.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Frames whose body lies outside of the ring.
    pub fn bodies(&self) -> usize {
        self.bodies.len()
    }

    /// Bytes in the ring.
    pub fn bytes(&self) -> usize {
        self.ring.len()
    }

    /// Keeps a frame: its header, what of its body is copied, and what body lies elsewhere.
    /// Returns where header and payload lie.
    #[inline]
    pub fn push<const N: usize>(
        &mut self,
        header: &[u8; N],
        payload: &[u8],
        body: Option<B>,
    ) -> Range<u64> {
        if let Some(body) = body {
            self.bodies.push_back((self.next(), body));
        }
        let range = self.ring.push(header, payload);
        self.ends.push_back(range.end);
        range
    }

    /// Where the frame lies in the ring.
    pub fn frame(&self, ssn: Ssn) -> Option<Range<u64>> {
        let at = usize::try_from(ssn.0.checked_sub(self.first.0)?).ok()?;
        let end = *self.ends.get(at)?;
        let start = match at.checked_sub(1) {
            Some(before) => self.ends[before],
            None => self.ring.head(),
        };
        Some(start..end)
    }

    /// Bytes of the ring, in two parts where it wraps around.
    pub fn slices(&self, range: Range<u64>) -> (&[u8], &[u8]) {
        self.ring.slices(range)
    }

    fn body_at(&self, ssn: Ssn) -> Option<usize> {
        self.bodies.binary_search_by_key(&ssn, |(s, _)| *s).ok()
    }

    /// The body outside of the ring.
    pub fn body(&self, ssn: Ssn) -> Option<&B> {
        self.body_at(ssn).map(|at| &self.bodies[at].1)
    }

    /// The body outside of the ring, to be replaced.
    pub fn body_mut(&mut self, ssn: Ssn) -> Option<&mut B> {
        self.body_at(ssn).map(|at| &mut self.bodies[at].1)
    }

    /// Lets go of all frames below `ack` (at most of all there are); their bodies outside of the
    /// ring go to `gone`, in order.
    pub fn release(&mut self, ack: Ssn, mut gone: impl FnMut(Ssn, B)) {
        let count = ack
            .0
            .saturating_sub(self.first.0)
            .min(self.ends.len() as u64);
        let Some(last) = (count as usize).checked_sub(1) else {
            return;
        };
        let position = self.ends[last];
        self.ends.drain(..=last);
        self.first.0 += count;
        self.ring.release(position);
        while let Some((ssn, _)) = self.bodies.front() {
            if *ssn >= self.first {
                break;
            }
            if let Some((ssn, body)) = self.bodies.pop_front() {
                gone(ssn, body);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_until_acknowledged() {
        let mut kept = Retention::default();
        kept.push(b"head0", b"abc", None);
        kept.push(b"head1", b"", Some("far"));
        kept.push(b"head2", b"x", Some("away"));
        assert_eq!(kept.next(), Ssn(3));
        let range = kept.frame(Ssn(0)).unwrap();
        assert_eq!(kept.slices(range).0, b"head0abc");
        let mut gone = Vec::new();
        kept.release(Ssn(2), |ssn, body| gone.push((ssn, body)));
        assert_eq!(gone, [(Ssn(1), "far")]);
        assert_eq!((kept.first(), kept.next()), (Ssn(2), Ssn(3)));
        assert_eq!(kept.frame(Ssn(1)), None);
        assert_eq!(kept.frame(Ssn(3)), None);
        assert_eq!(kept.body(Ssn(2)), Some(&"away"));
        let range = kept.frame(Ssn(2)).unwrap();
        assert_eq!(kept.slices(range).0, b"head2x");
        // An ack can be old, or say more than there is.
        kept.release(Ssn(1), |_, _| panic!("nothing to release"));
        kept.release(Ssn(9), |_, _| ());
        assert!(kept.is_empty());
        assert_eq!(kept.next(), Ssn(3));
    }
}
