//! Intervals: what a rank's messages depend on that may still be lost.
//!
//! A rank whose determinants are stored in the background sends before they are stable. Then an
//! interval frame goes ahead of what it sends, once per link and interval: the mark up to which the
//! rank's log must be stored, so that a replay sends the same. The receiver notes that before it
//! acts upon anything behind the frame. The link's handshake has the sender's incarnation.

use rejoin_channel_table::ids::{Incarnation, Rank, Ssn};

use crate::channel_state::Channel;
use crate::control_frames::pointless;
use crate::engine::Engine;
use crate::error::ProtocolError;
use crate::frame::{FrameKind, Header};
use crate::tx::SendContext;
use crate::types::UnrecordedMark;

impl Engine {
    /// What is written from now on depends on this rank's determinants up to this mark, which are
    /// not stable; 0: all are. While it is not 0, the device writes nothing by the fast path.
    #[inline]
    pub fn set_interval(&mut self, mark: u64) {
        self.core.interval = mark;
    }

    /// Whether [`Engine::next_dependency`] has something.
    #[inline(always)]
    #[must_use]
    pub fn any_dependency(&self) -> bool {
        !self.core.dependencies.is_empty()
    }

    /// A mark of a peer's log on which this rank depends from now on. The device records it before
    /// it records anything else.
    pub fn next_dependency(&mut self) -> Option<UnrecordedMark> {
        self.core.dependencies.pop_front()
    }

    /// The device has no room to record this dependency now.
    pub fn depends_later(&mut self, on: UnrecordedMark) {
        self.core.dependencies.push_front(on);
    }

    /// Names the incarnations of the peers. To be called before one of them may change.
    pub fn name_incarnations(&mut self, mut of: impl FnMut(Rank) -> Incarnation) {
        for on in &mut self.core.dependencies {
            on.incarnation.get_or_insert_with(|| of(on.peer));
        }
    }

    /// The dependencies that are not recorded.
    pub fn unrecorded(&self) -> impl Iterator<Item = &UnrecordedMark> {
        self.core.dependencies.iter()
    }
}

impl Channel {
    /// Plans an interval frame before all frames that are not begun.
    #[cold]
    pub(crate) fn notify_interval(&mut self, mark: u64) {
        self.tx.interval = mark;
        let mut header = self.header(FrameKind::Interval, Ssn(0));
        header.aux = mark;
        let (plan, retention) = (&mut self.tx.plan, &self.tx.retention);
        plan.insert_header(&header, |position| retention.boundary(position));
    }
}

impl SendContext<'_> {
    /// What follows on this link depends on a mark of the peer's log.
    pub(crate) fn depends_on(&mut self, header: &Header) -> Result<(), ProtocolError> {
        // Only recovery groups have logs.
        if self.core.matching.wild().is_none() {
            return Err(pointless(header));
        }
        let (rx, mark) = (&mut self.channel.rx, header.aux);
        if mark > rx.interval {
            rx.interval = mark;
            self.core.dependencies.push_back(UnrecordedMark {
                peer: self.channel.peer,
                incarnation: None,
                mark,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rejoin_channel_table::ids::{Incarnation, Rank};

    use crate::groups::group_tests::{log, two_groups};
    use crate::harness::World;
    use crate::tests::content;
    use crate::{Config, FrameKind, HEADER_LEN, Header, MessageMode, ProtocolError};

    /// Lengths of copied, medium and long messages.
    const LENGTHS: [usize; 4] = [0, 90, 3_000, 20_000];

    #[derive(Clone, Debug)]
    enum Step {
        Send(usize),
        /// Posts a receive for the next message.
        Receive,
        /// So many more determinants are recorded; 0: all are stable.
        Record(u64),
        Write(usize, usize),
        Read(usize, usize),
        Cut,
        /// All that can move does.
        Settle,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..LENGTHS.len()).prop_map(Step::Send),
            Just(Step::Receive),
            (0u64..3).prop_map(Step::Record),
            (0..2usize, 1..9_000usize).prop_map(|(from, bytes)| Step::Write(from, bytes)),
            (0..2usize, 1..9_000usize).prop_map(|(to, bytes)| Step::Read(to, bytes)),
            (0..2usize, 1..9_000usize).prop_map(|(to, bytes)| Step::Read(to, bytes)),
            Just(Step::Cut),
        ]
    }

    #[test]
    fn a_job_of_one_group_has_no_intervals() {
        let mut world = World::linked(Config::default().consistent(), 2);
        world.nodes[0].engine.set_interval(7);
        world.send(0, 1, 0, b"x", MessageMode::Standard);
        world.write(0, 1, usize::MAX);
        let whole = world.whole(0, 1);
        let bytes: &[u8; HEADER_LEN] = whole.first_chunk().expect("a frame");
        let header = Header::decode(bytes).expect("a header");
        assert_eq!((header.kind, header.aux), (FrameKind::Interval, 7));
        let refused = world.nodes[1].engine.rx_header(Rank(0), &header);
        assert!(matches!(refused, Err(ProtocolError::Pointless { .. })));
    }

    /// A dependency for which there is no room stays one on the incarnation that it came from.
    #[test]
    fn a_dependency_that_waits_keeps_its_incarnation() {
        let mut world = two_groups();
        for mark in [7, 9] {
            world.nodes[0].engine.set_interval(mark);
            world.send(0, 1, 0, b"x", MessageMode::Standard);
            world.settle();
            let engine = &mut world.nodes[1].engine;
            engine.name_incarnations(|_| Incarnation(mark as u32));
            let first = engine.next_dependency().expect("a dependency");
            assert_eq!((first.mark, first.incarnation), (7, Some(Incarnation(7))));
            engine.depends_later(first);
        }
        let waits = world.nodes[1].engine.unrecorded();
        let waits: Vec<_> = waits.map(|on| (on.mark, on.incarnation)).collect();
        let named = |mark| (mark, Some(Incarnation(mark as u32)));
        assert_eq!(waits, [named(7), named(9)]);
    }

    proptest! {
        /// However frames are written, a message comes behind what it depended on when it was sent.
        #[test]
        fn a_message_comes_behind_what_it_depends_on(steps in prop::collection::vec(step(), 0..120)) {
            let mut world = two_groups();
            // What each message depends on, the requests for them, and what the receiver knows.
            let (mut sent, mut open, mut known) = (Vec::new(), Vec::new(), 0);
            let (mut recorded, mut stable, mut received) = (0, 0, 0);
            let rest = [Step::Receive, Step::Settle].iter().cycle().take(300).cloned();
            for step in steps.into_iter().chain(rest) {
                match step {
                    Step::Send(length) => {
                        let body = content(sent.len(), LENGTHS[length]);
                        world.send(0, 1, 0, &body, MessageMode::Standard);
                        sent.push((recorded, body));
                    }
                    Step::Receive if open.len() < sent.len() => {
                        let pattern = World::pattern(Some(0), Some(0));
                        open.push(world.recv(1, pattern, 20_000));
                    }
                    Step::Receive => {}
                    Step::Record(more) => {
                        recorded += more;
                        stable = if more == 0 { recorded } else { stable };
                        let unstable = if more == 0 { 0 } else { recorded };
                        world.nodes[0].engine.set_interval(unstable);
                    }
                    Step::Write(from, bytes) => {
                        world.write(from, 1 - from, bytes);
                    }
                    Step::Read(to, bytes) => {
                        world.read(to, 1 - to, bytes);
                    }
                    Step::Settle => world.settle(),
                    Step::Cut => {
                        world.cut(0, 1);
                        let resumes = world.shake(0, 1);
                        world.link(0, 1, &resumes);
                    }
                }
                log(&mut world);
                while let Some(on) = world.nodes[1].engine.next_dependency() {
                    prop_assert_eq!(on.peer, Rank(0));
                    prop_assert!(on.mark <= recorded);
                    known = known.max(on.mark);
                }
                while let Some((id, segment)) = open.get(received)
                    && world.nodes[1].engine.poll(*id).is_some()
                {
                    let (depends, body) = &sent[received];
                    prop_assert!(known.max(stable) >= *depends, "{} known of {}", known, depends);
                    prop_assert_eq!(&world.bytes(1, *segment)[..body.len()], &body[..]);
                    received += 1;
                }
            }
            prop_assert_eq!(received, sent.len());
        }
    }
}
