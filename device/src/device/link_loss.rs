//! Loss of links: by the system, after a malformed frame, or by link flapping.

use std::time::Duration;

use rejoin_channel_table::Resume;
use rejoin_channel_table::ids::Rank;

use super::Device;
use crate::error::{Error, Result};
use crate::events::PollToken;
use crate::links::{Broken, Closed, MOST_BREACHES, Row};
use crate::transport::Fault;

/// How long the smaller rank waits for the larger rank's redial of a lost link.
const COURTESY: Duration = Duration::from_millis(4);

impl Device {
    /// A link cannot be used on: its handle is nulled, and it is redialed.
    pub(super) fn drop_link(&mut self, token: PollToken, broken: Broken) -> Result<()> {
        let Some(closed) = self.links.close(token) else {
            return Ok(());
        };
        let rank = closed.rank;
        self.meter.stats.doorbells += closed.doorbells;
        self.meter.stats.links_lost += 1;
        if closed.was_current {
            self.engine.link_down(rank);
            self.redial_lost(rank);
            self.expect_link(rank);
        }
        match broken {
            Broken::Lost(lost) => {
                let (me, why) = (self.member.rank(), lost.0);
                tracing::debug!("rank {me}: link to {rank} lost: {why}");
                self.end_link(&closed, &why)
            }
            Broken::Breach(why) => self.breach(rank, &why),
            // Held before they come here.
            Broken::Memory(_) | Broken::Later(_) => Ok(()),
        }
    }

    #[cold]
    pub(super) fn write_failed(
        &mut self,
        rank: Rank,
        token: PollToken,
        fault: Fault,
    ) -> Result<bool> {
        match fault {
            Fault::Memory(error) => Err(self.bad_buffer(rank, "send", error)),
            Fault::Link(lost) => self.drop_link(token, Broken::Lost(lost)).map(|()| true),
        }
    }

    /// A link is good, but not the memory of the program that its bytes are in, or are to go to.
    #[cold]
    pub(super) fn bad_buffer(
        &self,
        rank: Rank,
        operation: &'static str,
        problem: std::io::Error,
    ) -> Error {
        Error::Buffer {
            rank,
            host: self.host_of(rank).to_owned(),
            operation,
            problem,
        }
    }

    /// After a live link was lost: the larger rank redials at once.
    fn redial_lost(&mut self, rank: Rank) {
        if self.manager.is_leaving() && !self.engine.tx_waiting(rank) {
            return;
        }
        let pause = if self.member.rank() > rank {
            Duration::ZERO
        } else {
            COURTESY
        };
        self.links.redial_after(rank, pause);
    }

    /// A link to `rank` is about to be used; `theirs` is the peer's resume.
    pub(super) fn begin_link(&mut self, rank: Rank, theirs: &Resume) {
        let ours = self.engine.resume(rank);
        self.links.dial(rank).row().begin((theirs.clone(), ours));
    }

    /// A link is lost. Returns whether it is one too many that has brought nothing on.
    pub(super) fn count_link(&mut self, closed: &Closed) -> bool {
        let rank = closed.rank;
        if self.manager.is_leaving() || self.engine.is_quiet(rank) {
            return false;
        }
        let waits = closed.heard && self.engine.awaits(rank);
        let row = self.links.dial(rank).row();
        if waits && !row.has_body_to_bring() {
            *row = Row::default();
            return false;
        }
        row.end(closed.moved)
    }

    /// The same, of one that no other has taken the place of.
    ///
    /// # Errors
    /// [`Error::LinkFlapping`] when too many links in a row have brought nothing on.
    fn end_link(&mut self, closed: &Closed, why: &str) -> Result<()> {
        if !self.count_link(closed) {
            return Ok(());
        }
        let rank = closed.rank;
        let links = self.links.dial(rank).row().links();
        Err(Error::LinkFlapping {
            rank,
            host: self.host_of(rank).to_owned(),
            links,
            last: why.to_owned(),
        })
    }

    /// Reports a protocol violation of the peer to the user. Repeated violations are a device
    /// error.
    fn breach(&mut self, rank: Rank, why: &str) -> Result<()> {
        let me = self.member.rank();
        eprintln!("rejoin: rank {me}: dropped the link to rank {rank}: {why}");
        if !self.links.count_breach() {
            return Ok(());
        }
        Err(Error::Refused {
            rank,
            host: self.host_of(rank).to_owned(),
            operation: "receive",
            problem: format!("{MOST_BREACHES} links were dropped for what came over them: {why}"),
        })
    }
}
