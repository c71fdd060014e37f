//! The table: medians, ratios, and whether each goal is met.

use super::Args;
use super::cases::Goal;
use super::contestants::Medium;
use super::run::{CaseResult, Samples};
use anyhow::Result;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;

const PEERS: Range<usize> = 1..3;
const OPEN_MPI: Range<usize> = 2..3;

fn number(v: Option<f64>) -> String {
    match v {
        None => "failed".into(),
        Some(v) if v >= 100.0 => format!("{v:.0}"),
        Some(v) if v >= 10.0 => format!("{v:.1}"),
        Some(v) => format!("{v:.2}"),
    }
}

/// The column with the best median of these.
fn best<'a>(r: &'a CaseResult, columns: Range<usize>) -> Option<&'a Samples> {
    let columns = r
        .columns
        .get(columns.start..columns.end.min(r.columns.len()))?;
    let medians = columns.iter().filter_map(|c| Some((c, c.median()?)));
    let better = |a: (_, f64), b: (_, f64)| if (a.1 < b.1) == r.case.higher { b } else { a };
    medians.reduce(better).map(|(column, _)| column)
}

/// Rejoin over the best of these columns, round by round.
fn over(r: &CaseResult, columns: Range<usize>) -> Option<f64> {
    r.columns[0].over(best(r, columns)?)
}

/// Rejoin over the best peer, and over the better floor.
pub fn ratios(r: &CaseResult) -> (Option<f64>, Option<f64>) {
    (over(r, PEERS), over(r, PEERS.end..usize::MAX))
}

fn verdict(r: &CaseResult) -> String {
    let (peer, raw) = ratios(r);
    let words = r.case.goals.iter().map(|goal| {
        let (value, text, met) = match *goal {
            Goal::PeerAtMost(g) => (peer, format!("≤ {g} peer"), peer.is_some_and(|v| v <= g)),
            Goal::PeerAtLeast(g) => (peer, format!("≥ {g} peer"), peer.is_some_and(|v| v >= g)),
            Goal::OpenMpiAtMost(g) => {
                let ratio = over(r, OPEN_MPI);
                (
                    ratio,
                    format!("≤ {g} Open MPI"),
                    ratio.is_some_and(|v| v <= g),
                )
            }
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

fn cells(r: &CaseResult, medium: Medium) -> Vec<String> {
    let (peer, raw) = ratios(r);
    let ratio = |v: Option<f64>| v.map_or("–".to_string(), |v| format!("{v:.2}"));
    let mut row = vec![r.case.name(), r.case.unit.to_string()];
    for i in 0..PEERS.end + medium.floors().len() {
        row.push(r.columns.get(i).map_or("–".into(), |c| {
            let mark = if c.unsteady() { " ~" } else { "" };
            number(c.median()) + mark
        }));
    }
    row.extend([ratio(peer), ratio(raw), verdict(r)]);
    row
}

/// One line for the terminal while the bench runs.
pub fn line(r: &CaseResult, medium: Medium) -> String {
    let mut line = cells(r, medium).join(" | ");
    for c in &r.columns {
        if let Some(why) = &c.failure {
            let _ = write!(line, "\n    {} failed: {why}", c.name);
        }
    }
    line
}

/// What was done to whom.
fn setting(medium: Medium) -> &'static str {
    match medium {
        Medium::Tcp => {
            "every MPI forced to TCP over loopback.\n\
             Ratios are Rejoin over the best peer and over the better raw socket: raw TCP runs\n\
             with the system's default congestion control and with reno, which Rejoin also asks for within a host.\n"
        }
        Medium::Shm => {
            "every MPI with its own settings for ranks of one host, Rejoin in its default recovery mode.\n\
             Ratios are Rejoin over the best peer and over the floor: a message copied into shared\n\
             memory and out of it again, and for streams one memcpy at a time.\n"
        }
    }
}

/// Writes the table (`tcp.md` or `shm.md`) and every sample (`.tsv`).
pub fn write(out: &Path, results: &[CaseResult], args: &Args) -> Result<()> {
    let medium = args.medium;
    let mut md = format!("# Over {}, side by side\n\n", medium.title());
    writeln!(
        md,
        "Medians of {} interleaved rounds (`cargo xtask bench --medium {}{}`), {} cores, {}\
         A ratio is the median of what each round says; `~` marks samples of one column that differ by more than a factor of two.\n",
        args.rounds,
        medium.name(),
        if args.quick { " --quick" } else { "" },
        std::thread::available_parallelism()?,
        setting(medium)
    )?;
    let floors = medium.floors().iter().map(|floor| floor.0);
    let floors = floors.collect::<Vec<_>>();
    writeln!(
        md,
        "| case | unit | Rejoin | MPICH 5.0.2 | Open MPI 5.0.11 | {} | vs best peer | vs raw | goal |",
        floors.join(" | ")
    )?;
    writeln!(md, "|{}", "---|".repeat(8 + floors.len()))?;
    let mut tsv = String::from("case\tunit\tcontestant\tsamples\n");
    for r in results {
        writeln!(md, "| {} |", cells(r, medium).join(" | "))?;
        for c in &r.columns {
            let value = |v: &Option<f64>| v.map_or("failed".into(), |v| format!("{v:.4}"));
            let values: Vec<_> = c.values.iter().map(value).collect();
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
    let file = out.join(medium.name());
    std::fs::write(file.with_extension("md"), md)?;
    std::fs::write(file.with_extension("tsv"), tsv)?;
    Ok(())
}
