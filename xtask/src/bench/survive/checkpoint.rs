//! What a checkpoint of 4 × 256 MB costs: how long ranks stand still, from order to commit, and the pages that are
//! copied after it.

use super::figures::{Figure, median, part};
use super::job::{Setting, numbers};
use anyhow::{Context, Result};

const GIGABYTES: f64 = 0.25;

/// Runs the case.
pub fn run(setting: &Setting) -> Result<Vec<Figure>> {
    let seconds = if setting.quick { "15" } else { "120" };
    let journal = crate::root().join(format!("target/bench/events-{}", std::process::id()));
    let name = journal.to_str().context("a path that is no text")?;
    let options = ["--checkpoint-interval", "2", "--verbose", "--events", name];
    let ran = setting.mpirun(&options, 4, &["state", "faults", "256", seconds])?;
    let events = std::fs::read_to_string(&journal).context("reading the events")?;
    std::fs::remove_file(&journal)?;
    // The first is taken before there is any memory, and the last with the ranks at rest.
    let commits = events.lines().filter(|line| line.contains("\"committed\""));
    let mut took: Vec<f64> = commits
        .filter_map(|line| after(line, "\"took_ns\":"))
        .collect();
    took = took.iter().skip(1).map(|took| took / 1e6).collect();
    let stalls = ran
        .err
        .lines()
        .filter_map(|line| after(line, "stood still for "));
    let stalls: Vec<f64> = stalls.skip(4).map(|us| us / 1e3 / GIGABYTES).collect();
    let copied = ran.err.lines().filter_map(|line| after(line, " us, "));
    let copied: Vec<f64> = copied.skip(4).collect();
    let copy = numbers(&ran.out, "copy");
    Ok(vec![
        Figure::new(
            "stall per GB resident, median",
            "ms",
            median(&stalls),
            &stalls,
        )
        .at_most(30.0),
        Figure::new(
            "stall per GB resident, 99 %",
            "ms",
            part(&stalls, 0.99),
            &stalls,
        ),
        Figure::new(
            "order to commit of 4 × 256 MB, median",
            "ms",
            median(&took),
            &took,
        )
        .at_most(25.0),
        Figure::new(
            "order to commit of 4 × 256 MB, 99 %",
            "ms",
            part(&took, 0.99),
            &took,
        ),
        Figure::new(
            "pages that a rank copied after one, median",
            "pages",
            median(&copied),
            &copied,
        ),
        Figure::new(
            "a write to a page that is to be copied",
            "us",
            median(&copy),
            &copy,
        ),
    ])
}

/// The number behind some words.
fn after(line: &str, words: &str) -> Option<f64> {
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
        let line = "rank 1: image of checkpoint 2 taken, stood still for 7200 us, 31 pages copied";
        assert_eq!(after(line, "stood still for "), Some(7200.0));
        assert_eq!(after(line, " us, "), Some(31.0));
        assert_eq!(
            after("{\"took_ns\":12,\"x\":1}", "\"took_ns\":"),
            Some(12.0)
        );
        assert_eq!(after(line, "waited for "), None);
    }
}
