//! Reports to the user about a job: on standard error ([`user_log`], [`verbose_log`],
//! [`progress_line`]), in the file of `--events` ([`event_log`]), as metrics ([`metrics_server`]),
//! and as an answer to the `rejoin` command ([`query`], [`query_server`], [`status_summary`]). A
//! file of events is read ([`history`]), and shown as a page ([`page`]).

pub mod event_log;
pub mod history;
mod host_log;
pub mod job_metrics;
mod log_metrics;
pub mod metrics_server;
pub mod page;
pub mod progress_line;
pub mod query;
pub mod query_server;
pub mod recent_events;
pub mod status_summary;
pub mod user_log;
pub mod verbose_log;
