//! Reports of waits that last (`REJOIN_STALL_REPORT`).

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use rejoin_engine::{ReqId, Waiting};

use crate::device::Device;

/// After how long a wait in `MPI_Finalize` is reported unasked: a program that hangs there has often
/// left a message behind.
const IN_FINALIZE: Duration = Duration::from_secs(10);
/// How many requests a report shows when any of them may end the wait.
const SHOWN: usize = 3;

/// What the layer above calls what the device sees as numbers.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// The function that the program has called, such as `MPI_Recv`.
    pub operation: fn() -> &'static str,
    /// What messages with this context id belong to.
    pub context: fn(u32) -> Option<String>,
}

impl Device {
    /// Says how to call things in reports of long waits.
    pub fn set_names(&mut self, names: Names) {
        self.names = Some(names);
    }

    /// Says once per period what a wait that lasts is for.
    pub(crate) fn report_stall(&mut self, hint: Option<ReqId>) {
        let in_finalize = self.finalizing.then_some(IN_FINALIZE);
        let Some(period) = self.options.stall_report.or(in_finalize) else {
            return;
        };
        let since = *self.io.waiting_since.get_or_insert_with(Instant::now);
        if since.elapsed() < period {
            return;
        }
        self.io.waiting_since = Some(Instant::now());
        let me = self.identity.rank;
        let operation = self.names.map_or("a call", |names| (names.operation)());
        eprintln!(
            "rejoin: rank {me}: {operation} has been waiting for {:.0} s: {}",
            period.as_secs_f64(),
            self.awaited(hint)
        );
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
        let name = self.names.and_then(|n| (n.context)(waiting.context));
        let host = waiting.peer.map(|peer| self.host_of(peer));
        let mut text = waiting.to_string();
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
