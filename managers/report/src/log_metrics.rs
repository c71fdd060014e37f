//! The metrics of a job that logs messages.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use rejoin_logging::determinants::LogFigures;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the logs of all ranks hold together.
#[derive(Default)]
pub struct LogMetrics {
    retained: Gauge,
    most_retained: Gauge,
    memory: Gauge,
    file: Gauge,
    determinants: Counter,
    lag: Gauge<f64, AtomicU64>,
}

impl LogMetrics {
    /// Adds them to the metrics of a job.
    pub fn register(&self, all: &mut Registry) {
        let help = "Messages that ranks retain for other recovery groups";
        all.register_with_unit("log_retained", help, Unit::Bytes, self.retained.clone());
        let help = "The most that one rank retained at any time";
        let most = self.most_retained.clone();
        all.register_with_unit("log_most_retained", help, Unit::Bytes, most);
        let help = "Memory of the logs that is in use";
        all.register_with_unit("log_memory", help, Unit::Bytes, self.memory.clone());
        let help = "Files into which logs spill, as far as they are in use";
        all.register_with_unit("log_file", help, Unit::Bytes, self.file.clone());
        let help = "Determinants that ranks have recorded";
        all.register("log_determinants", help, self.determinants.clone());
        let help = "Longest time since a receiver released messages that are retained for it";
        all.register_with_unit("log_lag", help, Unit::Seconds, self.lag.clone());
    }

    /// The logs hold this.
    pub fn set(&self, log: &LogFigures) {
        let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        self.retained.set(signed(log.retained_bytes));
        self.most_retained.set(signed(log.most_retained_bytes));
        self.memory.set(signed(log.memory_bytes));
        self.file.set(signed(log.file_bytes));
        self.lag.set(log.lag_ns as f64 / 1e9);
        // A log that begins anew counts from zero, as a counter may.
        let determinants = self.determinants.inner();
        determinants.store(log.determinants, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text::encode;

    #[test]
    fn logs_have_gauges_and_a_counter_with_units_in_their_names() {
        let (metrics, mut registry) = (LogMetrics::default(), Registry::with_prefix("rejoin"));
        metrics.register(&mut registry);
        metrics.set(&LogFigures {
            retained_bytes: 5,
            most_retained_bytes: 6,
            memory_bytes: 4096,
            file_bytes: 512,
            determinants: 77,
            determinants_per_second: 7,
            lag_ns: 1_500_000_000,
        });
        let mut text = String::new();
        encode(&mut text, &registry).expect("text");
        for line in [
            "rejoin_log_retained_bytes 5",
            "rejoin_log_most_retained_bytes 6",
            "rejoin_log_memory_bytes 4096",
            "rejoin_log_file_bytes 512",
            "rejoin_log_determinants_total 77",
            "rejoin_log_lag_seconds 1.5",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}:\n{text}");
        }
    }
}
