//! The retention of one channel: every envelope from the first that may have to be sent again.
//!
//! A frame is *acknowledged* when the receiver has it in memory. This completes its send and opens
//! the window. A frame is *released* when no failure can require it again, as the [`Horizon`] says.
//! If only links can fail, both happen together.

use std::collections::VecDeque;
use std::ops::Range;

use rejoin_channel_table::ids::Ssn;

use crate::byte_ring::ByteRing;
use crate::ends::Ends;

/// How long a frame is retained, and so which failures it outlives. Every frame is retained until
/// it is acknowledged, or longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Horizon {
    /// Until the receiver has it in memory: lost links are masked.
    #[default]
    Acknowledged,
    /// Until it is also below this number. The checkpoint of the receiver holds all frames below
    /// it; a receiver restored from that checkpoint gets the rest again.
    Committed(Ssn),
}

/// Frames in the order of their sequence numbers, each a range of one ring, so that neighbours
/// are written together. Some have a body elsewhere, of the caller's type `B`.
///
/// ```
/// use rejoin_channel_table::Ssn;
/// use rejoin_logging::{Horizon, Retention};
///
/// let mut retention = Retention::<()>::default();
/// let hello = retention.push(b"head", b"hello", None);
/// retention.push(b"head", b"world", None);
/// assert_eq!(retention.slices(hello).0, b"headhello");
///
/// // The peer has the first frame in memory: a lost link can't ask for it any more.
/// retention.acknowledge(Ssn(1), |_, ()| ());
/// retention.release(|_, ()| ());
/// assert_eq!((retention.first(), retention.next()), (Ssn(1), Ssn(2)));
///
/// // With checkpoints a frame outlives its ack until a checkpoint of the peer holds it.
/// retention.set_horizon(Horizon::Committed(Ssn(1)));
/// retention.acknowledge(Ssn(2), |_, ()| ());
/// retention.release(|_, ()| ());
/// assert!(retention.is_acknowledged() && retention.frame(Ssn(1)).is_some());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Retention<B> {
    ring: ByteRing,
    horizon: Horizon,
    /// The first that is not acknowledged, and where it begins in the ring.
    unacked: (Ssn, u64),
    /// End of each frame in the ring; a frame begins where the one before ends.
    ends: Ends,
    /// Bodies outside of the ring, ascending.
    bodies: VecDeque<(Ssn, B)>,
    /// How many of them are acknowledged.
    acked_bodies: usize,
}

impl<B> Default for Retention<B> {
    fn default() -> Self {
        Retention {
            ring: ByteRing::default(),
            horizon: Horizon::default(),
            unacked: (Ssn(0), 0),
            ends: Ends::default(),
            bodies: VecDeque::new(),
            acked_bodies: 0,
        }
    }
}

impl<B> Retention<B> {
    /// The first sequence number that is still held; nothing below can be sent again.
    pub fn first(&self) -> Ssn {
        self.ends.first()
    }

    /// The first sequence number that is not acknowledged.
    #[inline]
    pub fn unacked(&self) -> Ssn {
        self.unacked.0
    }

    /// The number that the next frame gets.
    #[inline]
    pub fn next(&self) -> Ssn {
        self.ends.next()
    }

    /// Whether all frames are acknowledged; some of them may still be held.
    pub fn is_acknowledged(&self) -> bool {
        self.unacked.0 == self.next()
    }

    /// Frames without an ack whose body lies outside of the ring.
    pub fn unacked_bodies(&self) -> usize {
        self.bodies.len() - self.acked_bodies
    }

    /// Bytes of the ring that are not acknowledged.
    #[inline]
    pub fn unacked_bytes(&self) -> usize {
        (self.ring.tail() - self.unacked.1) as usize
    }

    /// The bodies of frames below `ssn` that lie outside of the ring.
    pub fn bodies_below(&self, ssn: Ssn) -> impl Iterator<Item = &B> {
        let below = self.bodies.iter().take_while(move |(of, _)| *of < ssn);
        below.map(|(_, body)| body)
    }

    /// Bytes of the ring that are held.
    pub fn bytes(&self) -> usize {
        self.ring.len()
    }

    /// Keeps a frame: its header, the copied part of its body, and the body outside of the ring.
    /// Returns the range of header and payload.
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
        self.ends.push(range.end);
        range
    }

    /// Keeps a frame that is in the ring as a whole, with its header in little-endian words.
    #[inline(always)]
    pub fn push_words<const N: usize>(&mut self, header: &[u64; N], payload: &[u8]) -> Range<u64> {
        let range = self.ring.push_words(header, payload);
        self.ends.push(range.end);
        range
    }

    /// Where the frame lies in the ring.
    pub fn frame(&self, ssn: Ssn) -> Option<Range<u64>> {
        let end = self.ends.get(ssn)?;
        let before = ssn.0.checked_sub(1).and_then(|n| self.ends.get(Ssn(n)));
        Some(before.unwrap_or(self.ring.head())..end)
    }

    /// The end of the frame that has begun before this position of the ring and ends behind it; or
    /// the position itself, if a frame begins there.
    pub fn boundary(&self, position: u64) -> u64 {
        let (mut low, mut high) = (self.first().0, self.next().0);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.ends.get(Ssn(middle)) {
                Some(end) if end > position => high = middle,
                _ => low = middle + 1,
            }
        }
        match self.frame(Ssn(low)) {
            Some(frame) if frame.start < position => frame.end,
            _ => position,
        }
    }

    /// Bytes of the ring, in two parts where it wraps around.
    pub fn slices(&self, range: Range<u64>) -> (&[u8], &[u8]) {
        self.ring.slices(range)
    }

    /// The first bytes of a frame: its header.
    pub fn header<const N: usize>(&self, ssn: Ssn) -> Option<[u8; N]> {
        let frame = self.frame(ssn)?;
        let (a, b) = self.slices(frame.start..frame.start + N as u64);
        let mut header = [0; N];
        let (first, second) = header.split_at_mut_checked(a.len())?;
        first.copy_from_slice(a);
        second.copy_from_slice(b.get(..second.len())?);
        Some(header)
    }

    /// Replaces the header of a frame, which is sent again.
    pub fn replace_header<const N: usize>(&mut self, ssn: Ssn, header: &[u8; N]) {
        if let Some(frame) = self.frame(ssn) {
            self.ring.replace(frame.start, header);
        }
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

    /// Records that the receiver has all frames below `ack` in memory; an `ack` beyond the last
    /// frame counts as that frame. Calls `each`, in order, for the newly acknowledged bodies
    /// outside of the ring. These bodies are still held; `each` copies a body that must outlive its
    /// send. [`Retention::release`] comes next.
    #[inline]
    pub fn acknowledge(&mut self, ack: Ssn, mut each: impl FnMut(Ssn, &mut B)) {
        let ack = ack.min(self.next());
        if ack <= self.unacked.0 {
            return;
        }
        let Some(end) = self.ends.get(Ssn(ack.0 - 1)) else {
            return;
        };
        self.unacked = (ack, end);
        for (ssn, body) in self.bodies.iter_mut().skip(self.acked_bodies) {
            if *ssn >= ack {
                break;
            }
            self.acked_bodies += 1;
            each(*ssn, body);
        }
    }

    /// The receiver has come back from the past: it lacks the frames from `ssn` on, which are held,
    /// and will acknowledge them again.
    pub fn take_back_acks(&mut self, ssn: Ssn) {
        if ssn >= self.unacked.0 {
            return;
        }
        if let Some(frame) = self.frame(ssn) {
            self.unacked = (ssn, frame.start);
            self.acked_bodies = self.bodies.partition_point(|(of, _)| *of < ssn);
        }
    }

    /// [`Retention::acknowledge`] and [`Retention::release`] in one, if no body is outside of the
    /// ring and the ack is the horizon. Returns false if nothing was done. `ack` is at most the
    /// number of the next frame.
    #[inline(always)]
    pub fn release_acknowledged(&mut self, ack: Ssn) -> bool {
        let plain = self.bodies.is_empty() && self.horizon == Horizon::Acknowledged;
        if !plain || ack <= self.unacked.0 {
            return false;
        }
        let last = ack.0.checked_sub(1).map(Ssn);
        let Some(end) = last.and_then(|last| self.ends.get(last)) else {
            return false;
        };
        self.unacked = (ack, end);
        self.ends.cut(ack);
        self.ring.release(end);
        true
    }

    /// How long frames are retained.
    pub fn horizon(&self) -> Horizon {
        self.horizon
    }

    /// Moves the horizon. A frame that was released before stays so.
    pub fn set_horizon(&mut self, horizon: Horizon) {
        self.horizon = horizon;
    }

    /// Drops all frames that are acknowledged and beyond the horizon. Passes their bodies outside
    /// of the ring to `gone`, in order.
    #[inline]
    pub fn release(&mut self, mut gone: impl FnMut(Ssn, B)) {
        let limit = match self.horizon {
            Horizon::Acknowledged => self.unacked.0,
            Horizon::Committed(ssn) => ssn.min(self.unacked.0),
        };
        let last = limit.0.checked_sub(1).map(Ssn);
        let Some(position) = last.and_then(|last| self.ends.get(last)) else {
            return;
        };
        self.ends.cut(limit);
        self.ring.release(position);
        while let Some((ssn, _)) = self.bodies.front() {
            if *ssn >= limit {
                break;
            }
            if let Some((ssn, body)) = self.bodies.pop_front() {
                self.acked_bodies -= 1;
                gone(ssn, body);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_step_lets_go_as_two_do() {
        let mut retention = Retention::<()>::default();
        for word in 0..5_u64 {
            retention.push_words(&[word], b"body");
        }
        for ack in 0..6 {
            let (mut one, mut two) = (retention.clone(), retention.clone());
            assert_eq!(one.release_acknowledged(Ssn(ack)), ack > 0, "{ack}");
            two.acknowledge(Ssn(ack), |_, ()| ());
            two.release(|_, ()| ());
            assert_eq!(one, two, "{ack}");
            one.release_acknowledged(Ssn(2));
            two.acknowledge(Ssn(2), |_, ()| ());
            two.release(|_, ()| ());
            assert_eq!(one, two, "{ack}, then one that may be old");
        }
        let mut held = retention.clone();
        held.set_horizon(Horizon::Committed(Ssn(0)));
        retention.push(b"head", b"", Some(()));
        assert!(!retention.release_acknowledged(Ssn(1)) && !held.release_acknowledged(Ssn(1)));
        assert_eq!((retention.unacked(), held.unacked()), (Ssn(0), Ssn(0)));
    }

    fn three() -> Retention<&'static str> {
        let mut retention = Retention::default();
        retention.push(b"head0", b"abc", None);
        retention.push(b"head1", b"", Some("far"));
        retention.push(b"head2", b"x", Some("away"));
        retention
    }

    #[test]
    fn frames_are_found_until_acknowledged() {
        let mut retention = three();
        assert_eq!(retention.next(), Ssn(3));
        let range = retention.frame(Ssn(0)).unwrap();
        assert_eq!(retention.slices(range).0, b"head0abc");
        assert_eq!(
            (retention.unacked_bodies(), retention.unacked_bytes()),
            (2, 19)
        );
        let (mut ended, mut gone) = (Vec::new(), Vec::new());
        retention.acknowledge(Ssn(2), |ssn, body| ended.push((ssn, *body)));
        assert_eq!((retention.first(), retention.unacked()), (Ssn(0), Ssn(2)));
        retention.release(|ssn, body| gone.push((ssn, body)));
        assert_eq!((&ended[..], &gone), (&[(Ssn(1), "far")][..], &ended));
        assert_eq!((retention.first(), retention.next()), (Ssn(2), Ssn(3)));
        assert_eq!(
            (retention.unacked_bodies(), retention.unacked_bytes()),
            (1, 6)
        );
        assert_eq!(retention.frame(Ssn(1)), None);
        assert_eq!(retention.frame(Ssn(3)), None);
        assert_eq!(retention.body(Ssn(2)), Some(&"away"));
        let range = retention.frame(Ssn(2)).unwrap();
        assert_eq!(retention.slices(range).0, b"head2x");
        // An ack can be old, or larger than the last number.
        retention.acknowledge(Ssn(1), |_, _| panic!("nothing is new"));
        retention.release(|_, _| panic!("nothing to release"));
        retention.acknowledge(Ssn(9), |_, _| ());
        retention.release(|_, _| ());
        assert!(retention.is_acknowledged() && retention.bytes() == 0);
        assert_eq!((retention.first(), retention.next()), (Ssn(3), Ssn(3)));
    }

    #[test]
    fn a_receiver_of_the_past_acknowledges_again() {
        let mut retention = three();
        retention.set_horizon(Horizon::Committed(Ssn(1)));
        retention.acknowledge(Ssn(3), |_, _| ());
        retention.release(|_, _| panic!("the first frame has no body"));
        retention.take_back_acks(Ssn(2));
        assert_eq!((retention.first(), retention.unacked()), (Ssn(1), Ssn(2)));
        assert_eq!(
            (retention.unacked_bodies(), retention.unacked_bytes()),
            (1, 6)
        );
        let mut again = Vec::new();
        retention.acknowledge(Ssn(3), |ssn, _| again.push(ssn));
        assert_eq!(again, [Ssn(2)]);
        // What is not held any more can't be taken back.
        retention.take_back_acks(Ssn(0));
        assert!(retention.is_acknowledged());
        let header = retention.header(Ssn(2));
        assert_eq!(header, Some(*b"head2"));
        retention.replace_header(Ssn(2), b"other");
        let range = retention.frame(Ssn(2)).unwrap();
        assert_eq!(retention.slices(range).0, b"otherx");
        assert_eq!(retention.header::<5>(Ssn(0)), None);
    }

    #[test]
    fn a_later_horizon_holds_what_is_acknowledged() {
        let mut retention = three();
        retention.set_horizon(Horizon::Committed(Ssn(0)));
        let mut ended = Vec::new();
        retention.acknowledge(Ssn(2), |ssn, body| {
            ended.push(ssn);
            *body = "copied";
        });
        retention.release(|_, _| panic!("no checkpoint is committed"));
        retention.acknowledge(Ssn(3), |ssn, _| ended.push(ssn));
        assert_eq!(ended, [Ssn(1), Ssn(2)]);
        assert!(retention.is_acknowledged());
        assert_eq!((retention.unacked_bytes(), retention.bytes()), (0, 19));
        let range = retention.frame(Ssn(0)).unwrap();
        assert_eq!(retention.slices(range).0, b"head0abc");
        assert_eq!(retention.body(Ssn(1)), Some(&"copied"));
        // A frame behind them is not acknowledged, however far a checkpoint goes.
        retention.push(b"head3", b"", Some("new"));
        retention.set_horizon(Horizon::Committed(Ssn(2)));
        let mut gone = Vec::new();
        retention.release(|ssn, body| gone.push((ssn, body)));
        assert_eq!(gone, [(Ssn(1), "copied")]);
        assert_eq!((retention.first(), retention.unacked()), (Ssn(2), Ssn(3)));
        retention.set_horizon(Horizon::Committed(Ssn(9)));
        retention.release(|ssn, body| gone.push((ssn, body)));
        assert_eq!(gone[1..], [(Ssn(2), "away")]);
        assert_eq!(
            (retention.unacked_bodies(), retention.unacked_bytes()),
            (1, 5)
        );
        // The horizon moves back, and to the ack: released frames stay released.
        retention.set_horizon(Horizon::Committed(Ssn(0)));
        retention.release(|_, _| panic!("nothing to release"));
        retention.set_horizon(Horizon::Acknowledged);
        retention.acknowledge(Ssn(4), |_, _| ());
        retention.release(|ssn, body| gone.push((ssn, body)));
        assert_eq!(gone[2..], [(Ssn(3), "new")]);
    }
}
