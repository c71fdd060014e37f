//! The next writes to each peer, for the device.

use rejoin_channel_table::ids::Rank;

use crate::channel_state::Channel;
use crate::engine::Engine;
use crate::types::WriteVector;

impl Engine {
    /// A peer that has something to write since it was named last; if it has no link, dial it.
    #[inline]
    pub fn next_ready(&mut self) -> Option<Rank> {
        while let Some(peer) = self.core.ready.pop_front() {
            if let Some(Some(channel)) = self.channels.get_mut(peer.index()) {
                channel.ready = false;
                if channel.pending() || channel.waiting() {
                    return Some(peer);
                }
            }
        }
        self.core.answers = false;
        None
    }

    /// Whether a peer waits for what there is to write: an answer to its message.
    #[inline(always)]
    #[must_use]
    pub fn any_answer(&self) -> bool {
        self.core.answers
    }

    /// Whether [`Engine::next_ready`] may name a peer.
    #[inline]
    #[must_use]
    pub fn any_ready(&self) -> bool {
        !self.core.ready.is_empty()
    }

    /// Whether there is something to write on the peer's link.
    #[inline]
    pub fn tx_pending(&self, peer: Rank) -> bool {
        self.peer(peer).is_some_and(Channel::pending)
    }

    /// Whether the peer has no link and there is something for it.
    pub fn tx_waiting(&self, peer: Rank) -> bool {
        self.peer(peer).is_some_and(Channel::waiting)
    }

    /// Nothing can be written to a peer now: [`Engine::next_ready`] names it again.
    pub fn tx_later(&mut self, peer: Rank) {
        if let Some(Some(channel)) = self.channels.get_mut(peer.index()) {
            channel.mark_ready(&mut self.core);
        }
    }

    /// The next pieces to write, in order; empty when nothing is pending.
    #[inline]
    pub fn tx_gather(&mut self, peer: Rank) -> WriteVector<'_> {
        let mut out = WriteVector::new();
        if let Some(Some(channel)) = self.channels.get_mut(peer.index())
            && channel.up
        {
            channel.prepare(&mut self.core, &self.config);
            let channel = &*channel;
            channel.gather(&self.core, &mut out);
        }
        out
    }

    /// So many bytes of the last gather were written.
    #[inline]
    pub fn tx_advance(&mut self, peer: Rank, bytes: usize) {
        if let Some(Some(channel)) = self.channels.get_mut(peer.index()) {
            channel.tx.plan.advance(bytes);
        }
    }

    pub(crate) fn peer(&self, peer: Rank) -> Option<&Channel> {
        self.channels.get(peer.index())?.as_deref()
    }
}
