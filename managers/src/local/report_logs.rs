//! Says what the logs of this host's ranks hold, with message logging.

use super::LocalManager;
use crate::host_clocks;
use rejoin_managers_protocol::local::LocalInput;
use std::time::{Duration, Instant};

impl LocalManager {
    /// Whether ranks have logs, whose use is reported.
    fn has_logs(&self) -> bool {
        let starter = self.starter.as_ref();
        !self.over && starter.is_some_and(|starter| starter.rank_logs().is_used())
    }

    /// Time until [`LocalManager::report_logs`] is due.
    pub(super) fn log_reports_limit(&self) -> Option<Duration> {
        self.has_logs()
            .then(|| self.log_reports.wait_limit(Instant::now()))
    }

    /// Reports what the logs of this host's ranks hold, if that is due.
    pub(super) fn report_logs(&mut self) {
        let now = Instant::now();
        if !self.has_logs() || !self.log_reports.wait_limit(now).is_zero() {
            return;
        }
        let Some(starter) = &self.starter else {
            return;
        };
        let clock = host_clocks::monotonic();
        let logs = starter.rank_logs().usage(clock);
        let news = self.log_reports.news(logs, now, clock);
        if !news.is_empty() {
            self.queue.push_back(LocalInput::LogsUsed(news));
        }
    }

    /// Reports what they hold at this moment: a rank asks for a checkpoint, and the groups for
    /// which most is retained take their images first.
    pub(super) fn report_logs_at_once(&mut self) {
        let Some(starter) = self.starter.as_ref().filter(|_| self.has_logs()) else {
            return;
        };
        let logs = starter.rank_logs().usage(host_clocks::monotonic());
        let looks = self.log_reports.at_once(logs, Instant::now());
        if !looks.is_empty() {
            self.queue.push_back(LocalInput::LogsUsed(looks));
        }
    }
}
