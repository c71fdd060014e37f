//! Reports of waits that last (`REJOIN_STALL_REPORT`).

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use rejoin_channel_table::ids::Rank;
use rejoin_engine::{Operation, ReqId, Waiting};

use crate::device::Device;

/// After how long a wait in `MPI_Finalize` is reported unasked: a program that hangs there has
/// often left a message behind.
const IN_FINALIZE: Duration = Duration::from_secs(10);
/// How many requests a report shows when any of them may end the wait.
const SHOWN: usize = 3;

/// What the layer above calls what the device sees as numbers.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// The function that the program has called, such as `MPI_Recv`.
    pub operation: fn() -> &'static str,
    /// What messages with this context id belong to: those that this rank receives, or those that
    /// it sends to the rank given.
    pub context: fn(u32, Option<Rank>) -> Option<String>,
}

fn report(me: Rank, operation: Option<fn() -> &'static str>, period: Duration, what: &str) {
    let operation = operation.map_or("a call", |operation| operation());
    let period = period.as_secs_f64();
    eprintln!("rejoin: rank {me}: {operation} has been waiting for {period:.0} s: {what}");
}

/// A wait for a peer in the middle of a body.
pub(crate) struct HeldUp {
    period: Option<Duration>,
    since: Option<Instant>,
    me: Rank,
    operation: Option<fn() -> &'static str>,
}

impl HeldUp {
    /// It lasts: says so once per period.
    pub(crate) fn lasts(&mut self, peer: Rank, host: &str) {
        let since = *self.since.get_or_insert_with(Instant::now);
        let Some(period) = self.period.filter(|period| since.elapsed() >= *period) else {
            return;
        };
        self.since = Some(Instant::now());
        let what =
            format!("rank {peer} on host {host} writes a part of its message and does not end");
        report(self.me, self.operation, period, &what);
    }
}

impl Device {
    /// Says how to call things in reports of long waits.
    pub fn set_names(&mut self, names: Names) {
        self.names = Some(names);
    }

    fn stall_period(&self) -> Option<Duration> {
        let in_finalize = self.finalizing.then_some(IN_FINALIZE);
        self.options.stall_report.or(in_finalize)
    }

    /// For a wait for a peer that carries a part of a body.
    pub(crate) fn held_up(&self) -> HeldUp {
        HeldUp {
            period: self.stall_period(),
            since: None,
            me: self.identity.rank,
            operation: self.names.map(|names| names.operation),
        }
    }

    /// Says once per period what a wait that lasts is for.
    pub(crate) fn report_stall(&mut self, hint: Option<ReqId>) {
        let Some(period) = self.stall_period() else {
            return;
        };
        let since = *self.io.waiting_since.get_or_insert_with(Instant::now);
        if since.elapsed() < period {
            return;
        }
        self.io.waiting_since = Some(Instant::now());
        let operation = self.names.map(|names| names.operation);
        report(self.identity.rank, operation, period, &self.awaited(hint));
    }

    /// What a wait on `hint` is for; without one, whatever is not complete.
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
        match (text.is_empty(), self.leaving) {
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
        let name = self.names.and_then(|n| (n.context)(waiting.context, to));
        let host = waiting.peer.map(|peer| self.host_of(peer));
        let unlinked = waiting.peer.filter(|_| waiting.linked == Some(false));
        let link = unlinked.and_then(|peer| self.link_in_words(peer));
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
