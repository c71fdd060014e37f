//! Waits that last: when they are reported (`REJOIN_STALL_REPORT`).

use std::io::Write as _;
use std::time::{Duration, Instant};

use rejoin_channel_table::ids::Rank;

/// After how long a wait in `MPI_Finalize` is reported unasked: a program that hangs there has
/// often left a message behind.
const IN_FINALIZE: Duration = Duration::from_secs(10);

/// Names that the layer above has for the device's numbers.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// The function that the program has called, such as `MPI_Recv`.
    pub operation: fn() -> &'static str,
    /// The communicator of messages with this context id: without a rank, messages that this rank
    /// receives; else messages that it sends to that rank.
    pub context: fn(u32, Option<Rank>) -> Option<String>,
}

/// The present wait, and how things are called in its report.
#[derive(Default)]
pub(crate) struct Stall {
    names: Option<Names>,
    finalizing: bool,
    wait: Option<LongWait>,
}

/// A wait that may last.
#[derive(Clone, Copy)]
struct LongWait {
    since: Instant,
    /// When it was last reported; at first its beginning.
    reported: Instant,
    /// When the manager was last asked about it; at first its beginning.
    asked: Instant,
}

impl LongWait {
    /// A wait that begins now.
    fn new() -> Self {
        let now = Instant::now();
        Self {
            since: now,
            reported: now,
            asked: now,
        }
    }

    /// Whether the manager is to be asked again, once per period.
    fn asks(&mut self, period: Duration) -> bool {
        let is_due = self.asked.elapsed() >= period;
        if is_due {
            self.asked = Instant::now();
        }
        is_due
    }

    /// How long it has lasted, once per period.
    fn due(&mut self, period: Duration) -> Option<Duration> {
        let now = Instant::now();
        if now.duration_since(self.reported) < period {
            return None;
        }
        self.reported = now;
        Some(now.duration_since(self.since))
    }
}

impl Stall {
    /// Says how to call things in reports.
    pub(crate) fn set_names(&mut self, names: Names) {
        self.names = Some(names);
    }

    /// The communicator of messages with a context id.
    pub(crate) fn context(&self, context: u32, to: Option<Rank>) -> Option<String> {
        self.names.and_then(|names| (names.context)(context, to))
    }

    /// The program has called `MPI_Finalize`.
    pub(crate) fn finalizing(&mut self) {
        self.finalizing = true;
    }

    /// Something has moved: the next wait is a new one.
    #[inline]
    pub(crate) fn moved(&mut self) {
        self.wait = None;
    }

    fn period(&self, wanted: Option<Duration>) -> Option<Duration> {
        wanted.or(self.finalizing.then_some(IN_FINALIZE))
    }

    /// The rank is about to block. The wait begins, unless it has begun. `wanted` is the period of
    /// the user.
    pub(crate) fn blocks(&mut self, wanted: Option<Duration>) {
        if self.period(wanted).is_some() {
            self.wait.get_or_insert_with(LongWait::new);
        }
    }

    /// The wait lasts: returns for how long, once per period.
    pub(crate) fn lasts(&mut self, wanted: Option<Duration>) -> Option<Duration> {
        let period = self.period(wanted)?;
        self.wait.get_or_insert_with(LongWait::new).due(period)
    }

    /// The wait lasts: whether the manager is to be asked about it, once per period.
    pub(crate) fn asks(&mut self, period: Duration) -> bool {
        self.wait.get_or_insert_with(LongWait::new).asks(period)
    }

    /// A wait of rank `me` for a peer that copies a part of a body.
    pub(crate) fn chunk_stall(&self, me: Rank, wanted: Option<Duration>) -> ChunkStall {
        ChunkStall {
            period: self.period(wanted),
            wait: None,
            me,
            operation: self.names.map(|names| names.operation),
        }
    }

    /// Reports to the user what rank `me` has been waiting for, and for how long.
    pub(crate) fn report(&self, me: Rank, lasted: Duration, what: &str) {
        report(me, self.names.map(|names| names.operation), lasted, what);
    }
}

fn report(me: Rank, operation: Option<fn() -> &'static str>, lasted: Duration, what: &str) {
    let operation = operation.map_or("a call", |operation| operation());
    let lasted = lasted.as_secs_f64();
    // A full or closed standard error must not end the rank.
    let _ = writeln!(
        std::io::stderr(),
        "rejoin: rank {me}: {operation} has been waiting for {lasted:.0} s: {what}"
    );
}

/// A wait for a peer in the middle of a body.
pub(crate) struct ChunkStall {
    period: Option<Duration>,
    wait: Option<LongWait>,
    me: Rank,
    operation: Option<fn() -> &'static str>,
}

impl ChunkStall {
    /// Reports the wait once per period.
    pub(crate) fn lasts(&mut self, peer: Rank, host: &str) {
        let wait = self.wait.get_or_insert_with(LongWait::new);
        let Some(lasted) = self.period.and_then(|period| wait.due(period)) else {
            return;
        };
        let what = format!(
            "rank {peer} on host {host} has not finished its copy of a part of the message"
        );
        report(self.me, self.operation, lasted, &what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_reported_with_its_length_once_per_period() {
        let mut stall = Stall::default();
        assert_eq!(stall.lasts(None), None);
        let period = Duration::from_millis(1);
        assert_eq!(stall.lasts(Some(period)), None, "it has just begun");
        std::thread::sleep(2 * period);
        let first = stall.lasts(Some(period)).expect("it has lasted");
        assert!(first >= 2 * period, "{first:?}");
        let long = Duration::from_secs(1000);
        assert_eq!(stall.lasts(Some(long)), None, "it was reported just now");
        std::thread::sleep(2 * period);
        let second = stall.lasts(Some(period)).expect("it still lasts");
        assert!(second >= first + 2 * period, "{second:?} after {first:?}");
        stall.moved();
        assert_eq!(stall.lasts(Some(period)), None, "this is another wait");
        stall.finalizing();
        assert_eq!(stall.period(None), Some(IN_FINALIZE));
        assert_eq!(stall.period(Some(long)), Some(long));
    }
}
