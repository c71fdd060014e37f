//! What the logs of a job hold, as text.

use rejoin_logging::determinants::LogFigures;
use rejoin_managers_report::query::{JobStatus, RankStatus};

/// A number of bytes.
pub fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// The retained messages of a job, and what its logs use; nothing without message logging, or
/// before the job knows.
pub fn log_lines(status: &JobStatus) -> Option<[String; 2]> {
    let LogFigures {
        retained_bytes,
        most_retained_bytes,
        memory_bytes,
        file_bytes,
        determinants,
        determinants_per_second,
        lag_ns,
    } = status.log?;
    let retained = format!(
        "{} retained, at most {} of a rank; lag {:.1} s",
        mebibytes(retained_bytes),
        mebibytes(most_retained_bytes),
        lag_ns as f64 / 1e9
    );
    let spilled = match file_bytes {
        0 => String::new(),
        bytes => format!(", {} in files", mebibytes(bytes)),
    };
    let used = format!(
        "{} of log memory{spilled}, {determinants} determinants ({determinants_per_second}/s)",
        mebibytes(memory_bytes)
    );
    Some([retained, used])
}

/// Titles of the last columns of a table of ranks: none if no rank has a log.
pub fn log_titles(ranks: &[RankStatus]) -> &'static str {
    match ranks.iter().any(|rank| rank.log.is_some()) {
        true => "     retained  determinants",
        false => "",
    }
}

/// The last columns of a rank.
pub fn log_columns(rank: &RankStatus) -> String {
    rank.log.map_or_else(String::new, |log| {
        let retained = mebibytes(log.retained_bytes);
        format!("  {retained:>11}  {:>12}", log.determinants)
    })
}
