//! Peers that have come back alone need what this rank retains for them, also while its program
//! computes. There is no progress between MPI calls. So the manager interrupts the program by the
//! signal of checkpoint requests: when a peer has come back, and again as long as this rank asks
//! for it.

use rejoin_channel_table::ids::Rank;
use rejoin_engine::Engine;
use rejoin_wire::ToManager;

use crate::error::Result;
use crate::manager::ManagerChannel;
use crate::served_peers::ServedPeers;

/// Notes which peers lack messages, and asks the manager for interruptions. Sends nothing to peers.
pub(super) struct ReturnedPeersHandler<'a> {
    pub(super) engine: &'a Engine,
    pub(super) manager: &'a mut ManagerChannel,
    pub(super) served: &'a mut ServedPeers,
}

impl ReturnedPeersHandler<'_> {
    /// A peer has come back from an image.
    pub(super) fn note_returned(&mut self, rank: Rank) -> Result<()> {
        if !self.engine.has_groups() || self.engine.has_all(rank) {
            return Ok(());
        }
        self.served.add(rank);
        self.request_signal(true)
    }

    /// This process was restored, and its program may compute for long: a peer that came back
    /// before it, or at the same time, lacks what this rank retains.
    pub(super) fn note_known(&mut self) -> Result<()> {
        if !self.engine.has_groups() {
            return Ok(());
        }
        for rank in self.engine.peers() {
            if !self.engine.has_all(rank) {
                self.served.add(rank);
            }
        }
        self.request_what_any_lacks(true)
    }

    /// A call of the program has met the interruption. It serves peers by its own progress, but may
    /// end before they have all.
    pub(super) fn serve_later(&mut self) -> Result<()> {
        self.served.interrupted();
        self.request_what_any_lacks(false)
    }

    fn request_what_any_lacks(&mut self, soon: bool) -> Result<()> {
        if self.any_lacks() {
            self.request_signal(soon)
        } else {
            Ok(())
        }
    }

    /// Whether any of these peers lacks messages.
    pub(super) fn any_lacks(&mut self) -> bool {
        let engine = self.engine;
        self.served.any_lacks(|rank| !engine.has_all(rank))
    }

    /// Asks for the next interruption: `soon` if messages move.
    pub(super) fn request_signal(&mut self, soon: bool) -> Result<()> {
        match self.served.next(soon) {
            Some(milliseconds) => self.manager.send(&ToManager::SignalLater { milliseconds }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_engine::{Config, Envelope, MessageMode, Segment};

    /// A rank in a group of its own, which has sent `bytes` bytes to rank 1 in another.
    fn engine_that_has_sent(bytes: usize) -> Engine {
        let mut engine = Engine::new(Config::default(), Rank(0), 2);
        engine.set_groups(&[0, 1]);
        let envelope = Envelope {
            context: 0,
            source: 0,
            tag: 0,
        };
        let body = vec![1; bytes];
        let segment = Segment {
            addr: 0,
            len: bytes,
        };
        if bytes > 0 {
            let mode = MessageMode::Standard;
            let sent = engine.send(Rank(1), envelope, segment, Some(&body), mode);
            sent.expect("retained");
        }
        engine
    }

    #[test]
    fn only_a_peer_that_lacks_messages_is_served() {
        for (bytes, asks) in [(0, false), (8, true)] {
            let engine = engine_that_has_sent(bytes);
            let mut manager = ManagerChannel::none();
            let mut served = ServedPeers::default();
            let mut handler = ReturnedPeersHandler {
                engine: &engine,
                manager: &mut manager,
                served: &mut served,
            };
            handler.note_returned(Rank(1)).expect("no manager");
            assert_eq!(handler.any_lacks(), asks);
            handler.serve_later().expect("no manager");
            // The next interruption was asked for by then, if one is needed.
            assert_eq!(served.next(false).is_none(), asks);
        }
    }
}
