//! Peers that have come back alone need what this rank retains for them, also while its program
//! computes. There is no progress between MPI calls. So the manager interrupts the program by the
//! signal of checkpoint requests: when a peer has come back, and again as long as this rank asks
//! for it.

use std::time::{Duration, Instant};

use rejoin_channel_table::ids::Rank;
use rejoin_wire::ToManager;

use super::Device;
use crate::error::Result;

/// The longest interruption of a program.
const MOST_AT_ONCE: Duration = Duration::from_millis(2);
/// An interruption ends after so long without any progress.
const QUIET: Duration = Duration::from_micros(100);

impl Device {
    /// A peer has come back from an image.
    pub(super) fn note_returned(&mut self, rank: Rank) -> Result<()> {
        if !self.engine.has_groups() || self.engine.has_all(rank) {
            return Ok(());
        }
        self.served.add(rank);
        self.ask_for_signal(true)
    }

    /// This process was restored, and its program may compute for long: a peer that came back
    /// before it, or at the same time, lacks what this rank retains.
    pub(super) fn serve_known_peers(&mut self) -> Result<()> {
        if !self.engine.has_groups() {
            return Ok(());
        }
        let known: Vec<Rank> = self.engine.peers().collect();
        for rank in known {
            if !self.engine.has_all(rank) {
                self.served.add(rank);
            }
        }
        match self.any_peer_lacks() {
            true => self.ask_for_signal(true),
            false => Ok(()),
        }
    }

    /// The manager has interrupted the program: peers get what they lack, as far as that goes at
    /// once.
    pub(super) fn serve_peers(&mut self) -> Result<()> {
        self.served.interrupted();
        let begun = Instant::now();
        let (mut moved_at, mut any) = (begun, false);
        while self.any_peer_lacks() {
            if begun.elapsed() > MOST_AT_ONCE || moved_at.elapsed() > QUIET {
                return self.ask_for_signal(any);
            }
            if self.progress(None)? {
                (moved_at, any) = (Instant::now(), true);
            } else {
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    /// A call of the program has met the request. It serves peers by its own progress, but may end
    /// before they have all.
    pub(super) fn serve_peers_later(&mut self) -> Result<()> {
        self.served.interrupted();
        match self.any_peer_lacks() {
            true => self.ask_for_signal(false),
            false => Ok(()),
        }
    }

    fn any_peer_lacks(&mut self) -> bool {
        let engine = &self.engine;
        self.served.any_lacks(|rank| !engine.has_all(rank))
    }

    fn ask_for_signal(&mut self, soon: bool) -> Result<()> {
        match self.served.next(soon) {
            Some(milliseconds) => self.manager.send(&ToManager::SignalLater { milliseconds }),
            None => Ok(()),
        }
    }
}
