//! The bodies of the log that the file of an image has.
//!
//! All files of a checkpoint are there, or none counts. The managers let no receiver come back from
//! an earlier image while its sender stands that was made of such a file. So the file needs no body
//! that the receiver's image of the same epoch holds. A rank tells its peers of other groups what
//! its image holds, before it takes that ([`FrameKind::Image`]). Those whose turn comes later leave
//! the bodies out. Images in memory share the memory of the log, and have all bodies.

use std::ops::Range;

use rejoin_channel_table::ids::{Epoch, Ssn};
use rejoin_channel_table::resume::Resume;

use crate::channel_state::{Channel, SentBody};
use crate::control_frames::pointless;
use crate::core_state::Core;
use crate::engine::Engine;
use crate::error::ProtocolError;
use crate::frame::{FrameKind, Header};
use crate::tx::SendContext;

impl Engine {
    /// The addresses of all bodies in the log's memory, in order, with short gaps between them: a
    /// file of the image that is to be taken next has all of them.
    pub fn logged_bodies(&mut self) -> Vec<Range<usize>> {
        for channel in self.channels.iter_mut().flatten() {
            channel.tx.left_out = channel.tx.lacks_below;
        }
        self.core.pool.log_ref().in_use([])
    }

    /// The addresses of the bodies in the log's memory that a file of the image of the present
    /// epoch needs, in order, with short gaps between them. The image itself is to be taken next.
    /// [`Engine::made_of_file`] comes first in a process that is made of the file.
    pub fn bodies_of_image(&mut self) -> Vec<Range<usize>> {
        let epoch = self.epoch;
        for channel in self.channels.iter_mut().flatten().filter(|c| c.across) {
            let tx = &mut channel.tx;
            let (of, below) = tx.peer_image;
            tx.left_out = if of == epoch {
                below.max(tx.lacks_below)
            } else {
                tx.lacks_below
            };
        }
        let channels = self.channels.iter().flatten();
        let bodies = channels.flat_map(|channel| {
            let tx = &channel.tx;
            tx.retention.bodies_below(tx.left_out)
        });
        let left_out = bodies.filter_map(|body| match body {
            SentBody::Logged(buf) => buf.logged_at(),
            SentBody::User(..) | SentBody::Kept(_) => None,
        });
        self.core.pool.log_ref().in_use(left_out)
    }

    /// Whether bodies of retained messages are missing, because this process was made of a file.
    pub fn lacks_bodies(&self) -> bool {
        let mut channels = self.channels.iter().flatten();
        channels.any(|channel| channel.tx.lacks_below > channel.tx.retention.first())
    }

    /// The process was made of the file of its image.
    pub fn made_of_file(&mut self) {
        for channel in self.channels.iter_mut().flatten() {
            channel.tx.lacks_below = channel.tx.left_out;
        }
    }
}

impl Channel {
    /// The rank is about to take its image of an epoch, which holds all messages of the peer below
    /// one.
    pub(crate) fn notify_image(&mut self, core: &mut Core, epoch: Epoch, held: Ssn) {
        if !self.up || held <= self.rx.committed {
            return;
        }
        let mut header = self.header(FrameKind::Image, held);
        header.aux = u64::from(epoch.0);
        self.control(core, &header);
    }
}

impl SendContext<'_> {
    /// The peer has taken an image.
    pub(crate) fn peer_has_image(&mut self, header: &Header) -> Result<(), ProtocolError> {
        let Channel { across, tx, .. } = &mut *self.channel;
        let epoch = u32::try_from(header.aux).ok().filter(|_| *across);
        let (Some(epoch), true) = (epoch, header.ssn <= header.ack) else {
            return Err(pointless(header));
        };
        tx.peer_image = (Epoch(epoch), header.ssn);
        Ok(())
    }

    /// Whether all that a peer lacks below `ack`, and from there on, is here.
    ///
    /// # Errors
    /// The file of this process's image has no bodies of these.
    pub(crate) fn has_bodies_for(&self, resume: &Resume, ack: Ssn) -> Result<(), ProtocolError> {
        let listed = resume.clear.iter().chain(&resume.pending_rts);
        let first = listed.fold(ack, |first, ssn| first.min(*ssn));
        if first < self.channel.tx.lacks_below {
            Err(ProtocolError::LeftOut(first))
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use rejoin_channel_table::ids::{Epoch, Rank, Ssn};

    use crate::groups::group_tests::{log, two_groups};
    use crate::harness::World;
    use crate::tests::content;
    use crate::{Header, MessageMode, ProtocolError};

    const SENDER: usize = 0;
    const RECEIVER: usize = 1;
    const LONG: usize = 20_000;

    /// The sender's log has this memory for bodies.
    fn with_log() -> World {
        let mut world = two_groups();
        let memory = Box::leak(vec![0; 1 << 20].into_boxed_slice());
        let length = memory.len();
        world.nodes[SENDER].engine.set_log_memory(memory, length);
        world
    }

    /// The receiver gets a message; `tag` says which.
    fn exchange(world: &mut World, tag: i32) {
        let body = content(tag as usize, LONG);
        world.send(SENDER, RECEIVER, tag, &body, MessageMode::Standard);
        let pattern = World::pattern(Some(SENDER), Some(tag));
        let (id, segment) = world.recv(RECEIVER, pattern, LONG);
        world.settle();
        log(world);
        world.settle();
        assert!(world.nodes[RECEIVER].engine.poll(id).is_some());
        assert_eq!(world.bytes(RECEIVER, segment), body);
    }

    fn bytes(ranges: &[std::ops::Range<usize>]) -> usize {
        ranges.iter().map(std::ops::Range::len).sum()
    }

    #[test]
    fn a_file_has_no_body_that_the_receivers_image_of_the_same_epoch_holds() {
        let mut world = with_log();
        exchange(&mut world, 0);
        world.nodes[RECEIVER].engine.set_epoch(Epoch(1));
        world.settle();
        exchange(&mut world, 1);
        // The sender's own turn.
        let engine = &mut world.nodes[SENDER].engine;
        engine.set_epoch(Epoch(1));
        let all = bytes(&engine.logged_bodies());
        assert!(all >= 2 * LONG, "{all}");
        assert_eq!(bytes(&engine.bodies_of_image()), all / 2, "the later one");
        // Another image needs what the same does not.
        engine.set_epoch(Epoch(2));
        assert_eq!(bytes(&engine.bodies_of_image()), all);
    }

    #[test]
    fn what_is_not_known_of_this_link_is_not_left_out() {
        let mut world = with_log();
        exchange(&mut world, 0);
        world.nodes[RECEIVER].engine.set_epoch(Epoch(1));
        world.settle();
        world.cut(SENDER, RECEIVER);
        let engine = &mut world.nodes[SENDER].engine;
        engine.set_epoch(Epoch(1));
        assert!(bytes(&engine.bodies_of_image()) >= LONG);
    }

    #[test]
    fn a_process_made_of_a_file_says_what_it_lacks() {
        let mut world = with_log();
        let before = world.nodes[RECEIVER].clone();
        exchange(&mut world, 0);
        world.nodes[RECEIVER].engine.set_epoch(Epoch(1));
        let same = world.nodes[RECEIVER].clone();
        world.settle();
        let engine = &mut world.nodes[SENDER].engine;
        engine.set_epoch(Epoch(1));
        assert!(engine.bodies_of_image().is_empty());
        let mut restored = engine.clone();
        restored.made_of_file();
        restored.returned();
        // The next file lacks them, too.
        restored.set_epoch(Epoch(2));
        let _ = restored.bodies_of_image();
        let (receiver, sender) = (Rank(RECEIVER as u32), Rank(SENDER as u32));
        let resume = same.engine.resume(sender);
        assert_eq!(restored.link_up(receiver, &resume), Ok(()));
        let resume = before.engine.resume(sender);
        let refused = restored.link_up(receiver, &resume);
        assert_eq!(refused, Err(ProtocolError::LeftOut(Ssn(0))));
        // One that was made of the image in memory has all.
        let mut clone = world.nodes[SENDER].engine.clone();
        clone.returned();
        assert_eq!(clone.link_up(receiver, &resume), Ok(()));
    }

    #[test]
    fn an_image_that_holds_more_than_is_acknowledged_is_refused() {
        let mut world = with_log();
        exchange(&mut world, 0);
        let header = Header {
            kind: crate::FrameKind::Image,
            ssn: Ssn(2),
            ack: Ssn(1),
            aux: 1,
            ..Header::decode(&blank()).expect("a header")
        };
        let engine = &mut world.nodes[SENDER].engine;
        let refused = engine.rx_header(Rank(RECEIVER as u32), &header);
        assert!(matches!(refused, Err(ProtocolError::Pointless { .. })));
        let wide = Header {
            ssn: Ssn(1),
            aux: 1 << 40,
            ..header
        };
        let refused = engine.rx_header(Rank(RECEIVER as u32), &wide);
        assert!(matches!(refused, Err(ProtocolError::Pointless { .. })));
    }

    /// An ack that says nothing.
    fn blank() -> [u8; crate::HEADER_LEN] {
        let mut bytes = [0; crate::HEADER_LEN];
        bytes[..2].copy_from_slice(&crate::FRAME_MAGIC);
        bytes[2] = crate::FrameKind::Ack as u8;
        bytes
    }
}
