//! Ends the remaining processes: background children of ranks, children of wrappers.

use rejoin_managers_host::descendants;
use std::time::{Duration, Instant};

/// From the polite signal to SIGKILL.
const GRACE: Duration = Duration::from_millis(100);
/// How often to look again once SIGKILL is due.
const PAUSE: Duration = Duration::from_millis(2);
/// A process that SIGKILL does not end (stuck in the kernel) is left behind after this time.
const LIMIT: Duration = Duration::from_millis(1500);

/// State of the sweep.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    begun: Option<Instant>,
    /// When every process was last asked to end.
    asked: Option<Instant>,
    /// SIGKILL is due at once.
    killing: bool,
    /// Processes that did not end, a line each.
    left: Vec<String>,
}

impl Sweep {
    /// Notes that every process was sent this signal.
    pub fn signalled(&mut self, signal: i32) {
        if signal == libc::SIGTERM {
            self.asked = Some(Instant::now());
        }
        self.killing |= signal == libc::SIGKILL;
    }

    /// Begins; `true` when nothing is left.
    pub fn begin(&mut self, tracked: &[u32]) -> bool {
        self.begun = Some(Instant::now());
        if reap_and_count(tracked) == 0 {
            self.begun = None;
            return true;
        }
        if self.asked.is_none() && !self.killing {
            descendants::signal_all(libc::SIGTERM);
            descendants::signal_all(libc::SIGCONT);
            self.asked = Some(Instant::now());
        }
        self.advance(tracked)
    }

    pub fn is_running(&self) -> bool {
        self.begun.is_some()
    }

    /// How long the driver may wait before the next step.
    pub fn wait_limit(&self) -> Option<Duration> {
        self.begun?;
        Some(self.until_kill().max(PAUSE))
    }

    /// Processes that did not end, a line each.
    pub fn take_left(&mut self) -> Vec<String> {
        std::mem::take(&mut self.left)
    }

    fn until_kill(&self) -> Duration {
        match self.asked {
            Some(asked) if !self.killing => GRACE.saturating_sub(asked.elapsed()),
            _ => Duration::ZERO,
        }
    }

    /// Continues; `true` when nothing is left, or nothing can be done.
    pub fn advance(&mut self, tracked: &[u32]) -> bool {
        let Some(begun) = self.begun else {
            return false;
        };
        let left = reap_and_count(tracked);
        if left == 0 {
            self.begun = None;
            return true;
        }
        if self.until_kill().is_zero() {
            descendants::signal_all(libc::SIGKILL);
        }
        if begun.elapsed() > LIMIT {
            self.left = descendants::described(&descendants::all());
            tracing::warn!(left = ?self.left, "processes do not end");
            self.begun = None;
            return true;
        }
        false
    }
}

fn reap_and_count(tracked: &[u32]) -> usize {
    while let Some(pid) = descendants::ended_child().filter(|pid| !tracked.contains(pid)) {
        descendants::reap(pid);
    }
    descendants::children(std::process::id()).len()
}
