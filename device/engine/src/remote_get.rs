//! Bodies that the receiver reads out of the sender's memory, where the system lets it.
//!
//! The envelope says where the body is. The receiver reads it when it is matched, in one go, and
//! says that it has it: nothing else goes over the link. To the rest of the engine such a body is
//! one that is awaited until it is there. A link that is lost knows nothing of this: the resume
//! clears the sender to send what is missing, and a message that was read is in no list, as one
//! that was received.

use rejoin_channel_table::ids::{Rank, Ssn};

use crate::channel::{RemoteAccess, Target};
use crate::engine::Engine;
use crate::frame::Kind;
use crate::rx;
use crate::tx::Context;
use crate::types::RemoteGet;

/// Least length from which on it is better that the receiver reads a body than that it is sent:
/// below it a round trip and the system call cost more than to copy twice.
pub const MIN_GET: usize = 32 << 10;

impl Engine {
    /// Says over the peer's link which side can read the other's memory: this rank the peer's, and
    /// the peer this rank's, which it is to do from a length on. Neither, until it is said; a lost
    /// link takes it back.
    pub fn set_remote_access(&mut self, peer: Rank, ours: bool, theirs: Option<usize>) {
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
            let (config, epoch, peer) = (self.config, self.epoch, get.peer);
            let context = rx::context(&mut self.channels, &mut self.core, &config, epoch, peer);
            let Some(mut rx) = context else {
                continue;
            };
            debug_assert!(rx.channel.up, "a lost link takes its reads along");
            if rx.channel.partial_at(get.ssn).is_none() {
                continue;
            }
            if rx.channel.access.ours {
                return Some(get);
            }
            // One before it could not be read.
            rx.tell(Kind::Cts, get.ssn);
        }
        None
    }

    /// The body is there as a whole; or it cannot be read, so that it and all others must be sent.
    pub fn get_done(&mut self, get: &RemoteGet, whole: bool) {
        let (config, epoch, peer) = (self.config, self.epoch, get.peer);
        let context = rx::context(&mut self.channels, &mut self.core, &config, epoch, peer);
        let Some(mut rx) = context else {
            return;
        };
        let Some(at) = rx.channel.partial_at(get.ssn) else {
            return;
        };
        if !whole {
            rx.channel.access.ours = false;
            rx.tell(Kind::Cts, get.ssn);
            return;
        }
        if let Some(partial) = rx.channel.rx.partial.remove(at)
            && let Target::Request(request) = partial.target
        {
            rx.tell(Kind::Finish, get.ssn);
            rx.core.recv_done(request);
        }
    }
}

impl Context<'_> {
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
