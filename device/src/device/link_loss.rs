//! Loss of links: by the system, after a malformed frame, or by link flapping.

use std::io::Write as _;
use std::time::{Duration, Instant};

use rejoin_channel_table::Resume;
use rejoin_channel_table::ids::Rank;

use super::link_handler::LinkHandler;
use crate::error::{Error, Result};
use crate::events::PollToken;
use crate::links::{Closed, FlapStreak, LinkFault, MOST_BREACHES, Resumes};
use crate::transport::Fault;

/// How long the smaller rank waits for the larger rank to redial a lost link.
const REDIAL_DELAY: Duration = Duration::from_millis(4);
/// Pause before a rank is dialed again after too many links without progress.
const FLAP_PAUSE: Duration = Duration::from_millis(50);

impl LinkHandler<'_> {
    /// A link is broken: its handle is nulled, and the peer is dialed again.
    pub(super) fn drop_link(&mut self, token: PollToken, broken: LinkFault) -> Result<()> {
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
            LinkFault::Lost(lost) => {
                let (me, why) = (self.member.rank(), lost.0);
                tracing::debug!("rank {me}: link to {rank} lost: {why}");
                self.end_link(&closed, &why)
            }
            LinkFault::Breach(why) => self.breach(rank, &why),
            // The callers have dealt with these.
            LinkFault::Memory(_) | LinkFault::Later(_) => Ok(()),
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
            Fault::Link(lost) => self.drop_link(token, LinkFault::Lost(lost)).map(|()| true),
        }
    }

    /// The system cannot use the buffer of the program. The link is good.
    #[cold]
    pub(super) fn bad_buffer(
        &self,
        rank: Rank,
        operation: &'static str,
        problem: std::io::Error,
    ) -> Error {
        Error::Buffer {
            rank,
            host: self.host_of(rank),
            operation,
            problem,
        }
    }

    fn host_of(&self, rank: Rank) -> String {
        self.links.host_of(rank).to_owned()
    }

    /// After a live link was lost: the larger rank redials at once.
    fn redial_lost(&mut self, rank: Rank) {
        if self.manager.is_leaving() && !self.engine.tx_waiting(rank) {
            return;
        }
        let pause = if self.member.rank() > rank {
            Duration::ZERO
        } else {
            REDIAL_DELAY
        };
        let pause = if self.links.dial(rank).flaps().is_over_limit() {
            pause + FLAP_PAUSE
        } else {
            pause
        };
        self.links.redial_after(rank, pause);
    }

    /// A link to `rank` is established; `theirs` is the resume of the peer.
    pub(super) fn begin_link(&mut self, rank: Rank, theirs: &Resume) {
        let (theirs, ours) = (theirs.clone(), self.engine.resume(rank));
        self.links
            .dial(rank)
            .flaps()
            .begin(Resumes { theirs, ours });
    }

    /// A link is lost. Returns whether too many links in succession made no progress, for as long
    /// as a connection may take to be made.
    pub(super) fn count_link(&mut self, closed: &Closed) -> bool {
        let rank = closed.rank;
        if self.manager.is_leaving() || self.engine.is_quiet(rank) {
            return false;
        }
        let patience = self.member.options().connect_timeout;
        let waits = closed.received_frame && self.engine.awaits(rank);
        let flaps = self.links.dial(rank).flaps();
        if waits && !flaps.peer_requested_body() {
            *flaps = FlapStreak::default();
            return false;
        }
        flaps.end(closed.moved, patience, Instant::now())
    }

    /// Counts a lost link that no other link has replaced.
    ///
    /// # Errors
    /// [`Error::LinkFlapping`] when too many links in succession made no progress.
    fn end_link(&mut self, closed: &Closed, why: &str) -> Result<()> {
        if !self.count_link(closed) {
            return Ok(());
        }
        let rank = closed.rank;
        let links = self.links.dial(rank).flaps().links();
        Err(Error::LinkFlapping {
            rank,
            host: self.host_of(rank),
            links,
            last: why.to_owned(),
        })
    }

    /// Reports a protocol violation of the peer to the user. Repeated violations are a device
    /// error.
    fn breach(&mut self, rank: Rank, why: &str) -> Result<()> {
        let me = self.member.rank();
        // A full or closed standard error must not end the rank.
        let _ = writeln!(
            std::io::stderr(),
            "rejoin: rank {me}: dropped the link to rank {rank}: {why}"
        );
        if !self.links.count_breach() {
            return Ok(());
        }
        Err(Error::Refused {
            rank,
            host: self.host_of(rank),
            operation: "receive",
            problem: format!("{MOST_BREACHES} links were dropped for what came over them: {why}"),
        })
    }
}
