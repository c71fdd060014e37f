//! The table: medians, ratios, and whether each goal is met.

use super::Args;
use super::cases::Goal;
use super::run::{CaseResult, RAW};
use anyhow::Result;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;

const PEERS: Range<usize> = 1..3;
const RAWS: Range<usize> = PEERS.end..PEERS.end + RAW.len();

fn number(v: Option<f64>) -> String {
    match v {
        None => "failed".into(),
        Some(v) if v >= 100.0 => format!("{v:.0}"),
        Some(v) if v >= 10.0 => format!("{v:.1}"),
        Some(v) => format!("{v:.2}"),
    }
}

fn best(r: &CaseResult, columns: Range<usize>) -> Option<f64> {
    let medians = columns.filter_map(|i| r.columns.get(i).and_then(|c| c.median()));
    medians.reduce(|a, b| if (a < b) == r.case.higher { b } else { a })
}

/// Rejoin's median over the best peer's and over the better raw socket's.
pub fn ratios(r: &CaseResult) -> (Option<f64>, Option<f64>) {
    let ours = r.columns[0].median();
    let over = |other: Option<f64>| Some(ours? / other?);
    (over(best(r, PEERS)), over(best(r, RAWS)))
}

fn verdict(r: &CaseResult) -> String {
    let (peer, raw) = ratios(r);
    let words = r.case.goals.iter().map(|goal| {
        let (value, text, met) = match *goal {
            Goal::PeerAtMost(g) => (peer, format!("≤ {g} peer"), peer.is_some_and(|v| v <= g)),
            Goal::PeerAtLeast(g) => (peer, format!("≥ {g} peer"), peer.is_some_and(|v| v >= g)),
            Goal::RawAtMost(g) => (raw, format!("≤ {g} raw"), raw.is_some_and(|v| v <= g)),
            Goal::RawAtLeast(g) => (raw, format!("≥ {g} raw"), raw.is_some_and(|v| v >= g)),
            Goal::AbsoluteAtMost(g) => {
                let ours = r.columns[0].median();
                (ours, format!("≤ {g}"), ours.is_some_and(|v| v <= g))
            }
        };
        format!(
            "{} {text}{}",
            if met { "✓" } else { "✗" },
            if value.is_none() { " (no value)" } else { "" }
        )
    });
    words.collect::<Vec<_>>().join(", ")
}

fn cells(r: &CaseResult) -> Vec<String> {
    let (peer, raw) = ratios(r);
    let ratio = |v: Option<f64>| v.map_or("–".to_string(), |v| format!("{v:.2}"));
    let mut row = vec![r.case.name(), r.case.unit.to_string()];
    for i in 0..RAWS.end {
        row.push(r.columns.get(i).map_or("–".into(), |c| number(c.median())));
    }
    row.extend([ratio(peer), ratio(raw), verdict(r)]);
    row
}

/// One line for the terminal while the bench runs.
pub fn line(r: &CaseResult) -> String {
    let mut line = cells(r).join(" | ");
    for c in &r.columns {
        if let Some(why) = &c.failure {
            let _ = write!(line, "\n    {} failed: {why}", c.name);
        }
    }
    line
}

/// Writes `tcp.md` (the table) and `tcp.tsv` (every sample).
pub fn write(out: &Path, results: &[CaseResult], args: &Args) -> Result<()> {
    let mut md = String::from("# TCP over loopback, side by side\n\n");
    writeln!(
        md,
        "Medians of {} interleaved rounds (`cargo xtask bench`), {} cores, every MPI forced to TCP over loopback.\n\
         Ratios are Rejoin's median over the best peer's and over the better raw socket's: raw TCP runs\n\
         with the system's default congestion control and with reno, which Rejoin also asks for within a host.\n",
        args.rounds,
        std::thread::available_parallelism()?
    )?;
    md.push_str("| case | unit | Rejoin | MPICH 5.0.2 | Open MPI 5.0.11 | raw TCP | raw TCP, reno | vs best peer | vs raw | goal |\n");
    md.push_str("|---|---|---|---|---|---|---|---|---|---|\n");
    let mut tsv = String::from("case\tunit\tcontestant\tsamples\n");
    for r in results {
        writeln!(md, "| {} |", cells(r).join(" | "))?;
        for c in &r.columns {
            let values: Vec<_> = c.values.iter().map(|v| format!("{v:.4}")).collect();
            writeln!(
                tsv,
                "{}\t{}\t{}\t{}",
                r.case.name(),
                r.case.unit,
                c.name,
                values.join(" ")
            )?;
        }
    }
    std::fs::write(out.join("tcp.md"), md)?;
    std::fs::write(out.join("tcp.tsv"), tsv)?;
    Ok(())
}
