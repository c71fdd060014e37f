//! Reports of long waits, with their reason.

use std::fmt::Write as _;
use std::time::Duration;

use rejoin_engine::{Operation, ReqId, Waiting};

use rejoin_wire::{MOST_AWAITED, ToManager};

use super::Device;
use crate::error::Result;
use crate::progress::Names;

/// How many requests a report shows when any of them may end the wait.
const SHOWN: usize = 3;

impl Device {
    /// Says how to call things in reports of long waits.
    pub fn set_names(&mut self, names: Names) {
        self.progress.stall.set_names(names);
    }

    /// Reports once per period the reason of a long wait.
    pub(super) fn report_stall(&mut self, hint: Option<ReqId>) {
        let wanted = self.member.options().stall_report;
        if let Some(lasted) = self.progress.stall.lasts(wanted) {
            let what = self.awaited(hint);
            let me = self.member.rank();
            self.progress.stall.report(me, lasted, &what);
        }
    }

    /// How long a call is blocked before the manager is asked about it; `None`: it is not.
    pub(super) fn probe_wait(&self) -> Option<Duration> {
        self.member.settings().probe_wait.map(Duration::from_millis)
    }

    /// Once per period of a long wait, asks the manager whether the hosts are there that this rank
    /// waits for. Collective calls are waits for single messages, too.
    pub(super) fn ask_about_wait(&mut self, hint: Option<ReqId>) -> Result<()> {
        let Some(period) = self.probe_wait() else {
            return Ok(());
        };
        if !self.manager.is_there() || !self.progress.stall.asks(period) {
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
                    .map(|rank| format!("rank {rank} on host {}", self.host_of(*rank)))
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
        let name = self.progress.stall.context(waiting.context, to);
        let host = waiting.peer.map(|peer| self.host_of(peer));
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
