//! The table: medians, ratios, and whether each goal is met.

use super::cases::Goal;
use super::conditions::{self, Character, Conditions};
use super::contestants::{COLUMNS, Medium};
use super::options::Args;
use super::run::{CaseResult, Ratio, Samples};
use super::samples;
use anyhow::Result;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;

/// Characters of a line of prose, as `cargo xtask check` asks.
const WIDTH: usize = 100;
const PEERS: Range<usize> = 1..COLUMNS.len();
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

/// Rejoin over the best of these columns.
fn over(r: &CaseResult, columns: Range<usize>) -> Option<Ratio> {
    r.columns[0].over(best(r, columns)?)
}

/// Rejoin over the best peer, and over the better floor.
pub fn ratios(r: &CaseResult) -> (Option<Ratio>, Option<Ratio>) {
    (over(r, PEERS), over(r, PEERS.end..usize::MAX))
}

/// Each goal with its result over the rounds: met, missed, or undecided within their spread.
fn verdict(r: &CaseResult) -> String {
    let (peer, raw) = ratios(r);
    let words = r.case.goals.iter().map(|goal| {
        let most = |ratio: Option<Ratio>, g: f64| ratio.map(|v| v.verdict(|v| v <= g));
        let least = |ratio: Option<Ratio>, g: f64| ratio.map(|v| v.verdict(|v| v >= g));
        let (told, text) = match *goal {
            Goal::PeerAtMost(g) => (most(peer, g), format!("≤ {g} peer")),
            Goal::PeerAtLeast(g) => (least(peer, g), format!("≥ {g} peer")),
            Goal::OpenMpiAtMost(g) => (most(over(r, OPEN_MPI), g), format!("≤ {g} Open MPI")),
            Goal::RawAtMost(g) => (most(raw, g), format!("≤ {g} raw")),
            Goal::RawAtLeast(g) => (least(raw, g), format!("≥ {g} raw")),
            Goal::AbsoluteAtMost(g) => {
                let ours = r.columns[0].median();
                (ours.map(|v| Some(v <= g)), format!("≤ {g}"))
            }
        };
        match told {
            Some(_) if r.is_busy() => format!("? {text} (busy)"),
            Some(Some(true)) => format!("✓ {text}"),
            Some(Some(false)) => format!("✗ {text}"),
            Some(None) => format!("? {text}"),
            None => format!("✗ {text} (no value)"),
        }
    });
    words.collect::<Vec<_>>().join(", ")
}

/// The median with its interval.
fn ratio(v: Option<Ratio>) -> String {
    v.map_or("–".to_string(), |v| match v.interval {
        Some((low, high)) => format!("{:.2} ({low:.2}–{high:.2})", v.median),
        None => format!("{:.2}", v.median),
    })
}

/// The geometric mean of the ratios to the best peer of collectives of 2 and 4 ranks up to 256 KiB.
fn mean_of_collectives(results: &[&CaseResult]) -> Option<String> {
    let small = results.iter().filter(|r| r.case.is_small_collective());
    let (logs, mut ranks): (Vec<f64>, Vec<u32>) = small
        .filter_map(|r| Some((ratios(r).0?.median.ln(), r.case.ranks)))
        .unzip();
    ranks.sort_unstable();
    ranks.dedup();
    let ranks: Vec<_> = ranks.iter().map(u32::to_string).collect();
    let (count, mean) = (logs.len(), logs.iter().sum::<f64>() / logs.len() as f64);
    (count > 0).then(|| {
        format!(
            "Geometric mean of the ratios to the best peer of {count} collectives of {} ranks, up \
             to 256 KiB: {:.2}.",
            ranks.join(" and "),
            mean.exp()
        )
    })
}

fn cells(r: &CaseResult, medium: Medium) -> Vec<String> {
    let (peer, raw) = ratios(r);
    let mut row = vec![r.case.name(), r.case.unit.to_string()];
    for i in 0..PEERS.end + medium.floors().len() {
        row.push(r.columns.get(i).map_or("–".into(), |c| {
            let mark = if c.unsteady() { " ~" } else { "" };
            number(c.median()) + mark
        }));
    }
    let shown = |c: Conditions| {
        let Conditions { ring, read, others } = c;
        let (ring, read) = (ring / 1000.0, read / 1000.0);
        format!("{ring:.1} / {read:.1} / {:.0} %", others * 100.0)
    };
    let machine = r.conditions.map_or("–".into(), shown);
    row.extend([ratio(peer), ratio(raw), verdict(r), machine]);
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

/// The command that writes the page, all of it or with a filter some of its cases.
fn command(args: &Args) -> String {
    let mut words = format!("cargo xtask bench --medium {}", args.medium.name());
    if args.rounds != Args::ROUNDS {
        let _ = write!(words, " --rounds {}", args.rounds);
    }
    if args.quick {
        words += " --quick";
    }
    words
}

/// How many rounds the cases have.
fn rounds(results: &[CaseResult]) -> String {
    let of = |r: &CaseResult| r.columns[0].values.len();
    let least = results.iter().map(of).min().unwrap_or(0);
    let most = results.iter().map(of).max().unwrap_or(0);
    match most > least {
        true => format!("{least} to {most}"),
        false => least.to_string(),
    }
}

/// A paragraph in lines of at most [`WIDTH`] characters.
pub(super) fn filled(text: &str) -> String {
    let (mut filled, mut width) = (String::new(), 0);
    for word in text.split_whitespace() {
        let more = word.chars().count();
        if width > 0 && width + 1 + more > WIDTH {
            filled.push('\n');
            width = 0;
        } else if width > 0 {
            filled.push(' ');
            width += 1;
        }
        filled += word;
        width += more;
    }
    filled + "\n"
}

/// The setting of the contestants.
fn setting(medium: Medium) -> &'static str {
    match medium {
        Medium::Tcp => {
            "every MPI forced to TCP over loopback. The floor is a raw socket, with the system's \
             default congestion control and with reno, which Rejoin also asks for within a host."
        }
        Medium::Shm => {
            "every MPI with its own settings for ranks of one host, Rejoin in its default recovery \
             mode. The floor is a message copied into shared memory and out of it again, and for \
             streams one memcpy at a time."
        }
    }
}

/// One table.
fn table(md: &mut String, results: &[&CaseResult], medium: Medium) -> Result<()> {
    let floors = medium.floors().iter().map(|floor| floor.0);
    let floors = floors.collect::<Vec<_>>();
    writeln!(
        md,
        "| case | unit | {} | {} | vs best peer | vs raw | goal | ring / read / others |",
        COLUMNS.join(" | "),
        floors.join(" | ")
    )?;
    writeln!(md, "|{}", "---|".repeat(6 + COLUMNS.len() + floors.len()))?;
    for r in results {
        writeln!(md, "| {} |", cells(r, medium).join(" | "))?;
    }
    if let Some(text) = mean_of_collectives(results) {
        write!(md, "\n{}", filled(&text))?;
    }
    Ok(())
}

/// Writes the table (`tcp.md` or `shm.md`) and every sample (`.tsv`).
pub fn write(out: &Path, results: &[CaseResult], args: &Args) -> Result<()> {
    let medium = args.medium;
    let mut md = format!("# Over {}, side by side\n\n", medium.title());
    let head = format!(
        "Medians of {} interleaved rounds (`{}`; `--filter` measures some cases anew and keeps the \
         others), {} cores, {}",
        rounds(results),
        command(args),
        std::thread::available_parallelism()?,
        setting(medium)
    );
    let rule = "A ratio is Rejoin's value over that of the peer (or floor) with the best median, round \
        by round: the median of the rounds, and in brackets an interval that holds the true median \
        with a probability of 90 % at least (order statistics, as the sign test). A goal is met (✓) \
        or missed (✗) only where both ends of the interval say so; else the rounds do not tell (?). \
        `~` marks a column whose samples differ by more than a factor of two.";
    writeln!(md, "{}\n{}", filled(&head), filled(rule))?;
    write!(md, "{}", filled(&conditions::text(medium)))?;
    let mut kinds: Vec<_> = Character::ALL.map(Some).to_vec();
    kinds.push(None);
    for kind in kinds {
        // What two processes pay for each other's memory says nothing of TCP.
        let is_of = |r: &&CaseResult| match medium {
            Medium::Shm => r.character() == kind,
            Medium::Tcp => kind.is_none(),
        };
        let results: Vec<_> = results.iter().filter(is_of).collect();
        if !results.is_empty() {
            let title = kind.map_or("Measured without a look at the machine", Character::title);
            let title = match medium {
                Medium::Shm => format!("\n## {title}\n"),
                Medium::Tcp => String::new(),
            };
            writeln!(md, "{title}")?;
            table(&mut md, &results, medium)?;
        }
    }
    let file = out.join(medium.name());
    std::fs::write(file.with_extension("md"), md)?;
    samples::write(&file.with_extension("tsv"), results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_fills_lines_without_passing_their_width() {
        let text = "word ".repeat(60) + "µ×≤ end";
        let filled = filled(&text);
        let widths: Vec<_> = filled.lines().map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|&width| width <= WIDTH), "{widths:?}");
        assert!(widths[..widths.len() - 1].iter().all(|&w| w > WIDTH - 5));
        let words = |text: &str| {
            text.split_whitespace()
                .map(String::from)
                .collect::<Vec<_>>()
        };
        assert_eq!(words(&filled), words(&text));
    }
}
