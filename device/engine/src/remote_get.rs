//! Bodies that the receiver reads from the sender's memory, where the system allows it.
//!
//! The envelope says where the body is. When the message is matched, the receiver reads the body in
//! one call and reports that it has the body. Nothing else goes over the link. For the rest of the
//! engine such a body is incomplete until it is read. The resume after a lost link needs no special
//! case: it clears the sender to send bodies that were not read. A message whose body was read
//! counts as received and is in no list.

use rejoin_channel_table::ids::{Rank, Ssn};

use crate::channel_state::RemoteAccess;
use crate::engine::Engine;
use crate::frame::FrameKind;
use crate::partial_bodies::Target;
use crate::rx;
use crate::tx::SendContext;
use crate::types::{Gets, RemoteGet};

impl Engine {
    /// Sets, for the peer's link, which side can read the other's memory. `ours`: this rank reads
    /// the peer's memory. `theirs`: the peer reads these bodies in this rank's memory.
    /// Without this call neither side reads; a lost link resets it.
    pub fn set_remote_access(&mut self, peer: Rank, ours: bool, theirs: Option<Gets>) {
        if let Some(Some(channel)) = self.channels.get_mut(peer.index())
            && channel.up
        {
            channel.access = RemoteAccess { ours, theirs };
        }
    }

    /// The next body to be read out of its sender's memory, now.
    #[inline]
    pub fn next_get(&mut self) -> Option<RemoteGet> {
        while let Some(get) = self.core.gets.pop_front() {
            let (config, peer) = (self.config, get.peer);
            let context = rx::context(&mut self.channels, &mut self.core, &config, peer);
            let Some(mut rx) = context else {
                continue;
            };
            debug_assert!(rx.channel.up, "a lost link takes its reads along");
            if rx.channel.rx.partial.get(get.ssn).is_none() {
                continue;
            }
            if rx.channel.access.ours {
                return Some(get);
            }
            // One before it could not be read.
            rx.send_control(FrameKind::Cts, get.ssn);
        }
        None
    }

    /// The body is there as a whole; or it cannot be read, so that it and all others must be sent.
    pub fn get_done(&mut self, get: &RemoteGet, whole: bool) {
        let (config, peer) = (self.config, get.peer);
        let context = rx::context(&mut self.channels, &mut self.core, &config, peer);
        let Some(mut rx) = context else {
            return;
        };
        if rx.channel.rx.partial.get(get.ssn).is_none() {
            return;
        }
        if !whole {
            rx.channel.access.ours = false;
            rx.send_control(FrameKind::Cts, get.ssn);
            return;
        }
        if let Some(partial) = rx.channel.rx.partial.remove(get.ssn)
            && let Target::Request(request) = partial.target
        {
            let len = partial.len as usize;
            let of = (len, partial.sync);
            rx.channel.finish(rx.core, get.ssn, request, of);
        }
    }
}

impl SendContext<'_> {
    /// Has the device read a body.
    pub(crate) fn plan_get(&mut self, ssn: Ssn, len: u64, request: u32, from: u64) {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let to = self.core.recv_segment(request).part(0, len);
        let peer = self.channel.peer;
        self.core.gets.push_back(RemoteGet {
            peer,
            ssn,
            from,
            to,
        });
    }
}
