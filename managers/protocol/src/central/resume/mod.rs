//! A restarted central manager: the state from its records, the questions to the hosts, and the
//! repeated orders.
//!
//! Messages that its predecessor sent after its last record may have reached some hosts, all, or
//! none. Messages of the hosts in the meantime are lost. So central assumes nothing. Each host
//! describes its whole state in one report, which includes all its earlier messages. An order that
//! central then repeats is either new to a host or has no effect there.

mod host_reports;
mod past;
mod questions;
mod recall;

pub use past::REPORT_BOUND;
pub(super) use past::{Past, Resuming};
pub(super) use questions::ResumeHandler;
pub(super) use recall::Recall;
