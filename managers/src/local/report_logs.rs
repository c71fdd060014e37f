//! Says what the logs of this host's ranks hold, with message logging.

use super::manager_parts::{ManagerParts, handler, keys};
use super::start::ProcessStarter;
use rejoin_managers_host::host_clocks;
use rejoin_managers_protocol::local::LocalInput;
use std::time::{Duration, Instant};

handler! {
    /// Reports what logs hold.
    pub(super) LogReporter of ManagerParts {
        changes { log_reports, inputs }
        reads { starter, over }
    }
}

impl<'a> LogReporter<'a> {
    /// The plan, if ranks have logs, whose use is reported.
    fn starter(&self) -> Option<&'a ProcessStarter> {
        let starter = self.starter.as_ref().filter(|_| !*self.over);
        starter.filter(|starter| starter.rank_logs().is_used())
    }

    /// Time until [`LogReporter::report`] is due.
    pub fn wait_limit(&self) -> Option<Duration> {
        self.starter()
            .map(|_| self.log_reports.wait_limit(Instant::now()))
    }

    /// Reports what the logs of this host's ranks hold, if that is due.
    pub fn report(&mut self) {
        let now = Instant::now();
        let Some(starter) = self.starter() else {
            return;
        };
        if !self.log_reports.wait_limit(now).is_zero() {
            return;
        }
        let clock = host_clocks::monotonic();
        let logs = starter.rank_logs().usage(clock);
        let news = self.log_reports.news(logs, now, clock);
        if !news.is_empty() {
            self.inputs.push_back(LocalInput::LogsUsed(news));
        }
    }

    /// Reports what they hold at this moment: a rank asks for a checkpoint, and the groups for
    /// which most is retained take their images first.
    pub fn report_at_once(&mut self) {
        let Some(starter) = self.starter() else {
            return;
        };
        let logs = starter.rank_logs().usage(host_clocks::monotonic());
        let looks = self.log_reports.at_once(logs, Instant::now());
        if !looks.is_empty() {
            self.inputs.push_back(LocalInput::LogsUsed(looks));
        }
    }
}
