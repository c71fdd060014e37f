//! The cost of a checkpoint of 4 × 256 MB: the pause of the ranks, the time from request to commit,
//! and the pages copied after it.

use crate::bench::figures::Figure;
use crate::bench::job::{Setting, numbers};
use anyhow::{Context, Result};

const GIGABYTES: f64 = 0.25;

/// The reports of a job that takes checkpoints all the time.
struct Reported {
    /// Milliseconds from order to commit.
    took: Vec<f64>,
    /// Milliseconds that a rank paused, per gigabyte.
    stalls: Vec<f64>,
    /// Pages copied after one.
    copied: Vec<f64>,
    /// Microseconds for a write to a page that is to be copied.
    copy: Vec<f64>,
}

/// Runs the case.
pub fn run(setting: &Setting) -> Result<Vec<Figure>> {
    // With a core for each rank, the pause is the checkpoint alone. With two ranks on a core, they
    // also wait for each other.
    let alone = told(setting, 2)?;
    let shared = told(setting, 4)?;
    let stall = |ranks: &str, what: &str, part, told: &Reported| {
        let what = format!("stall per GB resident, {ranks} on 2 cores, {what}");
        Figure::quantile(what, "ms", part, &told.stalls)
    };
    let commit = |what: &str, part| {
        let what = format!("order to commit of 4 × 256 MB, {what}");
        Figure::quantile(what, "ms", part, &shared.took)
    };
    let pages = "pages that a rank copied after one, median";
    let copy = "a write to a page that is to be copied, median";
    Ok(vec![
        stall("2 ranks", "median", 0.5, &alone).at_most(30.0),
        stall("2 ranks", "99 %", 0.99, &alone),
        stall("4 ranks", "median", 0.5, &shared).at_most(30.0),
        stall("4 ranks", "99 %", 0.99, &shared),
        commit("median", 0.5).at_most(25.0),
        commit("99 %", 0.99),
        Figure::median(pages, "pages", &shared.copied),
        Figure::median(copy, "us", &shared.copy),
    ])
}

fn told(setting: &Setting, ranks: u32) -> Result<Reported> {
    let seconds = if setting.quick { "10" } else { "60" };
    let journal =
        crate::workspace::root().join(format!("target/bench/events-{}", std::process::id()));
    let name = journal.to_str().context("a path that is no text")?;
    let options = ["--checkpoint-interval", "2", "--verbose", "--events", name];
    let ran = setting.mpirun(&options, ranks, &["state", "faults", "256", seconds])?;
    let events = std::fs::read_to_string(&journal).context("reading the events")?;
    std::fs::remove_file(&journal)?;
    // The first is taken before there is any memory, and the last with the ranks at rest.
    let first = ranks as usize;
    let commits = events.lines().filter(|line| line.contains("\"committed\""));
    let took = commits.filter_map(|line| after(line, "\"took_ns\":"));
    let lines = || ran.err.lines();
    let stalls = lines().filter_map(|line| after(line, "paused for "));
    let copied = lines().filter_map(|line| after(line, " us, "));
    Ok(Reported {
        took: took.skip(1).map(|took| took / 1e6).collect(),
        stalls: stalls.skip(first).map(|us| us / 1e3 / GIGABYTES).collect(),
        copied: copied.skip(first).collect(),
        copy: numbers(&ran.out, "copy"),
    })
}

/// The number behind some words.
pub(super) fn after(line: &str, words: &str) -> Option<f64> {
    let (_, rest) = line.split_once(words)?;
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    rest[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_words() {
        let line = "rank 1: image of checkpoint 2 taken, paused for 7200 us, 31 pages copied";
        assert_eq!(after(line, "paused for "), Some(7200.0));
        assert_eq!(after(line, " us, "), Some(31.0));
        assert_eq!(
            after("{\"took_ns\":12,\"x\":1}", "\"took_ns\":"),
            Some(12.0)
        );
        assert_eq!(after(line, "waited for "), None);
    }
}
