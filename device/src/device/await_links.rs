//! Messages that were sent before their link was established, at the end of a blocking call.
//!
//! A link is dialed at the first message, and its handshake takes two answers of the peer. There is
//! no progress between MPI calls. Without this wait, a program may send once and then compute, and
//! its peer would get the message only at the next call. So a blocking call stays until the
//! handshake is over, as long as the peer can answer. A peer that gives no sign within a tenth of a
//! second computes, and gets the message at a later call.

use std::time::{Duration, Instant};

use rejoin_channel_table::ids::Rank;

use super::Device;
use crate::error::Result;

/// After a recovery, a rank that knows at most so many peers makes the links to all of them at
/// once. With more, it makes those that it has something to send over.
const MOST_AT_ONCE: usize = 32;

impl Device {
    /// Whether something was sent to a rank to which there was no link.
    #[inline]
    #[must_use]
    pub fn awaits_links(&self) -> bool {
        self.links.awaits_any()
    }

    /// How long a blocking call that has waited for links for `waited` is to wait on at its end,
    /// with [`Device::wait`]. `None`: the links over which the program has sent something are
    /// established, or their peers do not answer.
    #[cold]
    pub fn links_to_wait_for(&mut self, waited: Duration) -> Option<Duration> {
        self.links.left_to_wait(waited)
    }

    /// Waits until the links are established over which the program has sent something, for as long
    /// as their peers answer. For the end of a blocking call that has nothing else to wait for.
    ///
    /// # Errors
    /// As [`Device::progress`].
    #[cold]
    pub fn await_links(&mut self) -> Result<()> {
        let begun = Instant::now();
        while let Some(left) = self.links_to_wait_for(begun.elapsed()) {
            self.wait(None, Some(left))?;
        }
        Ok(())
    }

    /// After a recovery: makes the links anew over which this rank has talked, while all ranks are
    /// in the library. A rank whose image was taken while it computed continues to compute behind
    /// this.
    ///
    /// # Errors
    /// As [`Device::progress`].
    pub(super) fn restore_links(&mut self) -> Result<()> {
        if self.manager.is_leaving() {
            return Ok(());
        }
        let known: Vec<Rank> = self.engine.peers().collect();
        let all = known.len() <= MOST_AT_ONCE;
        for rank in known {
            if all || self.engine.tx_waiting(rank) {
                self.want_link(rank)?;
                self.links.await_link(rank);
            }
        }
        self.await_links()
    }

    /// Makes the end of a blocking call wait for the link to a rank, if there is none and a message
    /// waits for it.
    #[inline]
    pub(super) fn expect_link(&mut self, rank: Rank) {
        if self.links.token_of(rank).is_none() && self.engine.tx_waiting(rank) {
            self.links.await_link(rank);
        }
    }
}
