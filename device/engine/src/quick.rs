//! The short way of a small message: one that is all its link has to write, and that meets its receive.
//!
//! Nothing happens here that the long way (`tx.rs`, `rx.rs`) would not do: it leaves out the plan of what is
//! written, the list of ready peers and the state of a body under way, which such a message enters and leaves
//! at once. Whatever is not of this kind is refused before anything is changed, and goes the long way.

use std::ops::Range;

use rejoin_channel_table::ids::{Epoch, Rank, Ssn};

use crate::channel::Channel;
use crate::engine::Engine;
use crate::frame::{FRAME_MAGIC, HEADER_LEN, Header, Kind};
use crate::tx::{Context, ENVELOPE_COST};
use crate::types::{Envelope, Segment};

/// A frame that was kept and is to be written now.
#[derive(Debug)]
pub struct Alone<'a> {
    /// The frame, in two parts where the retention wraps around.
    pub pieces: [&'a [u8]; 2],
    /// Where it is kept, for [`Engine::send_rest`].
    pub place: Range<u64>,
}

/// A small message that met its receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Met {
    /// Where its body goes: at most `len` bytes of it.
    pub into: Segment,
    /// Length of the body, right behind the header.
    pub len: usize,
}

/// The first eight bytes of an eager envelope without flags.
fn plain_eager(epoch: Epoch) -> u64 {
    let start = u32::from_le_bytes([FRAME_MAGIC[0], FRAME_MAGIC[1], Kind::Eager as u8, 0]);
    u64::from(epoch.0) << 32 | u64::from(start)
}

impl Engine {
    /// Sends a message that is copied, where the link has nothing else to write: the frame is kept, and the device
    /// writes it at once. What it does not write it gives back by [`Engine::send_rest`]. `None`: nothing was done.
    #[inline]
    pub fn send_alone(&mut self, to: Rank, env: &Envelope, bytes: &[u8]) -> Option<Alone<'_>> {
        let (channel, place, _) = self.keep_alone(to, env, bytes)?;
        let (a, b) = channel.tx.kept.slices(place.clone());
        Some(Alone {
            pieces: [a, b],
            place,
        })
    }

    /// Keeps the frame of a message that its link has alone: where it lies, and its header.
    #[inline(always)]
    pub(crate) fn keep_alone(
        &mut self,
        to: Rank,
        env: &Envelope,
        bytes: &[u8],
    ) -> Option<(&Channel, Range<u64>, Header)> {
        let epoch = self.epoch;
        let channel = self.channels.get_mut(to.index())?.as_deref_mut()?;
        let idle = channel.up && channel.tx.plan.is_empty() && channel.tx.bulk.is_empty();
        if !idle || bytes.len() > self.config.eager_copy {
            return None;
        }
        let mut tx = Context {
            channel,
            core: &mut self.core,
            config: &self.config,
            epoch,
        };
        let (place, header) = tx.keep_copied(env, bytes)?;
        Some((tx.channel, place, header))
    }

    /// Of a frame of [`Engine::send_alone`] only the first `written` bytes were written: the rest is planned.
    #[cold]
    pub fn send_rest(&mut self, to: Rank, place: &Range<u64>, written: usize) {
        if let Some(Some(channel)) = self.channels.get_mut(to.index()) {
            let rest = place.start + written as u64..place.end;
            if channel.up && rest.start < rest.end {
                channel.tx.plan_frames(rest);
                channel.mark_ready(&mut self.core);
            }
        }
    }

    /// Takes a frame that lies whole at the beginning of `bytes`: a plain eager message, the next of its peer, for which
    /// a receive waits. The device copies its body before it calls the engine again. `None`: nothing was taken but
    /// the ack; it goes the long way.
    #[inline]
    pub fn rx_met(&mut self, peer: Rank, bytes: &[u8]) -> Option<Met> {
        let (head, rest) = bytes.split_first_chunk::<HEADER_LEN>()?;
        let (words, _) = head.as_chunks::<8>();
        let long = |at: usize| u64::from_le_bytes(words[at]);
        let (context_source, tag_zero) = (long(1), long(2));
        let length = usize::try_from(long(3)).ok()?;
        if long(0) != plain_eager(self.epoch)
            || tag_zero >> 32 != 0
            || length > rest.len()
            || length > self.config.eager_max
        {
            return None;
        }
        let cost = ENVELOPE_COST + length as u64;
        let env = Envelope {
            context: context_source as u32,
            source: ((context_source >> 32) as u32).cast_signed(),
            tag: (tag_zero as u32).cast_signed(),
        };
        let channel = self.channels.get_mut(peer.index())?.as_deref_mut()?;
        let rx = &channel.rx;
        if rx.current.is_some() || long(4) != rx.order.next().0 || !rx.window.fits(cost) {
            return None;
        }
        let mut rx = Context {
            channel,
            core: &mut self.core,
            config: &self.config,
            epoch: self.epoch,
        };
        rx.acknowledged(Ssn(long(5))).ok()?;
        rx.credited(long(6)).ok()?;
        let into = rx.core.meet_posted(&env, length)?;
        rx.passed(length);
        Some(Met { into, len: length })
    }
}

#[cfg(test)]
#[path = "quick_tests.rs"]
mod tests;
