//! Reports of long waits, with their reason.

use std::fmt::Write as _;
use std::time::Duration;

use rejoin_engine::{Engine, Operation, ReqId, Waiting};
use rejoin_wire::{MOST_AWAITED, ToManager};

use crate::error::Result;
use crate::job_member::JobMember;
use crate::links::Links;
use crate::manager::ManagerChannel;
use crate::progress::Stall;

/// How many requests a report shows when any of them may end the wait.
const SHOWN: usize = 3;

/// Describes and reports waits. Changes no message and no link.
pub(super) struct StallHandler<'a> {
    pub(super) member: &'a JobMember,
    pub(super) engine: &'a Engine,
    pub(super) links: &'a Links,
    pub(super) manager: &'a mut ManagerChannel,
    /// The present wait, and when it was last reported.
    pub(super) stall: &'a mut Stall,
}

impl StallHandler<'_> {
    /// The rank is about to block. Returns for how long at most before the manager is asked about
    /// the wait; `None`: it is not.
    pub(super) fn begin(&mut self) -> Option<Duration> {
        let probe = self.member.settings().probe_wait;
        let probe = probe.map(Duration::from_millis);
        self.stall
            .blocks(self.member.options().stall_report.or(probe));
        probe
    }

    /// Nothing has ended the wait. Reports its reason to the user, and asks the manager about it,
    /// each once per period.
    pub(super) fn report(&mut self, hint: Option<ReqId>) -> Result<()> {
        let wanted = self.member.options().stall_report;
        if let Some(lasted) = self.stall.lasts(wanted) {
            let what = self.awaited(hint);
            self.stall.report(self.member.rank(), lasted, &what);
        }
        self.ask_about(hint)
    }

    /// Asks the manager whether the hosts are there that this rank waits for. Collective calls are
    /// waits for single messages, too.
    fn ask_about(&mut self, hint: Option<ReqId>) -> Result<()> {
        let Some(period) = self.member.settings().probe_wait else {
            return Ok(());
        };
        let period = Duration::from_millis(period);
        if !self.manager.is_there() || !self.stall.asks(period) {
            return Ok(());
        }
        let waiting = match hint.and_then(|request| self.engine.describe(request)) {
            Some(waiting) => vec![waiting],
            None => self.engine.waiting().take(MOST_AWAITED).collect(),
        };
        let mut ranks: Vec<_> = waiting.iter().filter_map(|waiting| waiting.peer).collect();
        ranks.extend(self.engine.unfinished());
        ranks.sort_unstable();
        ranks.dedup();
        ranks.truncate(MOST_AWAITED);
        let any = waiting.iter().any(|waiting| waiting.peer.is_none()) || ranks.is_empty();
        self.manager.send(&ToManager::Waits { ranks, any })
    }

    /// The description of a wait on `hint`; without one, of all incomplete requests.
    fn awaited(&self, hint: Option<ReqId>) -> String {
        if let Some(waiting) = hint.and_then(|request| self.engine.describe(request)) {
            return self.in_words(&waiting);
        }
        let mut all = self.engine.waiting();
        let shown: Vec<String> = all
            .by_ref()
            .take(SHOWN)
            .map(|waiting| self.in_words(&waiting))
            .collect();
        let mut text = shown.join("; ");
        let more = all.count();
        if more > 0 {
            // Writing to a string does not fail.
            let _ = write!(text, "; and {more} more");
        }
        let missing = self.engine.unfinished();
        match (text.is_empty(), self.manager.is_leaving()) {
            (false, _) => text,
            (true, true) => "all other ranks must come to it".to_owned(),
            (true, false) if !missing.is_empty() => {
                let named = missing.iter().take(SHOWN);
                let named: Vec<String> = named
                    .map(|rank| format!("rank {rank} on host {}", self.links.host_of(*rank)))
                    .collect();
                let more = match missing.len().saturating_sub(SHOWN) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                let named = named.join(", ");
                format!("what was sent is not acknowledged by {named}{more}")
            }
            (true, false) => "nothing that it asked for has come".to_owned(),
        }
    }

    fn in_words(&self, waiting: &Waiting) -> String {
        let to = waiting
            .peer
            .filter(|_| waiting.operation != Operation::Receive);
        let name = self.stall.context(waiting.context, to);
        let host = waiting.peer.map(|peer| self.links.host_of(peer));
        let unlinked = waiting.peer.filter(|_| waiting.linked == Some(false));
        let link = unlinked.and_then(|peer| self.links.in_words(peer));
        let mut text = waiting.in_words(link.as_deref()).to_string();
        let known = [
            name.map(|name| format!("a message of {name}")),
            host.map(|host| format!("its host is {host}")),
        ];
        let known: Vec<String> = known.into_iter().flatten().collect();
        if !known.is_empty() {
            // Writing to a string does not fail.
            let _ = write!(text, " ({})", known.join("; "));
        }
        text
    }
}
