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

use super::link_handler::LinkHandler;
use crate::error::Result;
use crate::events::{PollToken, Readiness};
use crate::links::LinkFault;
use crate::transport::{Endpoint, Lost};

impl LinkHandler<'_> {
    /// Drops links whose other ends do not answer, and reads and writes the others. Returns whether
    /// anything moved, and the events that have come meanwhile: the caller handles them.
    #[cold]
    pub(super) fn check_links(&mut self) -> Result<(bool, Vec<Readiness>)> {
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
        let any_dead = !dead.is_empty();
        for token in dead {
            let seconds = limit.as_secs_f64();
            let why = format!("nothing has been acknowledged for {seconds} s");
            self.drop_link(token, LinkFault::Lost(Lost(why)))?;
        }
        let (moved, events) = self.poll_behind_events(&good)?;
        Ok((any_dead | moved, events))
    }

    /// Reads every link, and writes full ones, as if an event had requested it. No link should
    /// move. If one moves without a pending event in epoll, an event was missed and is counted.
    /// This also continues a read or write that the system broke off because of the program's
    /// memory.
    fn poll_behind_events(
        &mut self,
        links: &[(PollToken, Rank)],
    ) -> Result<(bool, Vec<Readiness>)> {
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
            return Ok((false, Vec::new()));
        }
        let mut events = Vec::new();
        self.links
            .wait_for_events(Some(Duration::ZERO), &mut events)?;
        let announced = |token: &&PollToken| events.iter().any(|event| event.token == **token);
        self.meter.stats.late += (moved.len() - moved.iter().filter(announced).count()) as u64;
        Ok((true, events))
    }
}
