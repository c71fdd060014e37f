//! Checks every link once a second: for dead paths that no error has reported yet, and for bytes
//! that no event has announced.
//!
//! The kernel retransmits unacknowledged bytes for a quarter of an hour. Its own shorter limit
//! (`TCP_USER_TIMEOUT`) counts a closed window too, and would break the healthy link to a rank that
//! computes. So the device asks the kernel, after an idle second and now and then while it polls. A
//! link is lost when the kernel has retransmitted, or probed a closed window, for
//! `REJOIN_LINK_TIMEOUT` without one ack. A closed window whose probes are answered does not count.

use std::time::{Duration, Instant};

use rejoin_channel_table::ids::Rank;

use super::Device;
use crate::error::Result;
use crate::events::PollToken;
use crate::links::LinkFault;
use crate::transport::{Endpoint, Lost};

/// Polls of epoll between two readings of the clock, which are the cost for a polling program.
const POLLS_PER_CLOCK: u64 = 1024;

impl Device {
    /// While polling: checks the links when the last check is a second old. True if anything moved.
    #[inline]
    pub(super) fn check_links_now_and_then(&mut self) -> Result<bool> {
        let stats = &self.meter.stats;
        if !(stats.event_polls + stats.blocks).is_multiple_of(POLLS_PER_CLOCK) {
            return Ok(false);
        }
        self.check_links_if_due()
    }

    /// The same after a wait that nothing has ended.
    #[cold]
    pub(super) fn check_links_if_due(&mut self) -> Result<bool> {
        if self.progress.must_check() {
            self.check_links()
        } else {
            Ok(false)
        }
    }

    /// Drops links whose other ends do not answer, and reads and writes the others. True if
    /// anything moved.
    #[cold]
    fn check_links(&mut self) -> Result<bool> {
        let now = Instant::now();
        let limit = self.member.options().link_timeout;
        let (mut dead, mut good) = (Vec::new(), Vec::new());
        for (token, live) in self.links.all() {
            let Ok(path) = live.endpoint.path() else {
                continue;
            };
            if live.unanswered.lasts(&path, now, limit) {
                dead.push(token);
            } else {
                good.push((token, live.rank()));
            }
        }
        let moved = !dead.is_empty();
        for token in dead {
            let seconds = limit.as_secs_f64();
            let why = format!("nothing has been acknowledged for {seconds} s");
            self.drop_link(token, LinkFault::Lost(Lost(why)))?;
        }
        Ok(self.poll_behind_events(&good)? | moved)
    }

    /// Reads every link, and writes full ones, as if an event had requested it. No link should
    /// move. If one moves without a pending event in epoll, an event was missed and is counted.
    /// This also continues a read or write that the system broke off because of the program's
    /// memory.
    fn poll_behind_events(&mut self, links: &[(PollToken, Rank)]) -> Result<bool> {
        let mut moved = Vec::new();
        for (token, rank) in links {
            let watched = self
                .links
                .live(*token)
                .is_some_and(|live| live.is_watched());
            if self.poll_link(*rank, *token, true)? && watched {
                moved.push(*token);
            }
        }
        if moved.is_empty() {
            return Ok(false);
        }
        let mut events = Vec::new();
        self.links
            .wait_for_events(Some(Duration::ZERO), &mut events)?;
        let announced = |token: &&PollToken| events.iter().any(|event| event.token == **token);
        self.meter.stats.late += (moved.len() - moved.iter().filter(announced).count()) as u64;
        for event in events {
            self.event(event)?;
        }
        Ok(true)
    }
}
