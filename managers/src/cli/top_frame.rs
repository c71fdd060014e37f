//! What `rejoin top` shows at one moment: lines of text for a terminal of some size.

use super::log_line::{log_columns, log_lines, log_titles, mebibytes};
use rejoin_managers_report::query::{Checkpoint, JobStatus, RankStatus};
use std::collections::BTreeMap;

/// The last line.
const HELP: &str = "q ends";

/// The lines for these jobs: all about the only one, or a line for each of several.
pub fn frame(jobs: &[JobStatus], width: usize, height: usize) -> Vec<String> {
    let mut lines = match jobs {
        [] => vec!["no job of yours runs on this host".into()],
        [only] => job(only, height.saturating_sub(1)),
        several => list(several, height.saturating_sub(1)),
    };
    lines.truncate(height.saturating_sub(1));
    lines.push(HELP.into());
    lines.truncate(height);
    lines.iter().map(|line| fitted(line, width)).collect()
}

/// The text, without control characters, cut to a width.
fn fitted(text: &str, width: usize) -> String {
    let shown = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().take(width).map(shown).collect()
}

fn seconds(nanoseconds: u64) -> String {
    format!("{:.1} s", nanoseconds as f64 / 1e9)
}

fn millis(nanoseconds: u64) -> String {
    format!("{:.1} ms", nanoseconds as f64 / 1e6)
}

/// The figures of a job, then its ranks.
fn job(status: &JobStatus, height: usize) -> Vec<String> {
    let mut lines = vec![format!(
        "job {}  {}  {} for {}  mpirun {}",
        status.job,
        status.program,
        status.course,
        seconds(status.running_ns),
        status.mpirun
    )];
    let states = states(&status.ranks);
    let states: Vec<_> = states
        .iter()
        .map(|(state, n)| format!("{n} {state}"))
        .collect();
    lines.push(format!(
        "ranks        {}: {}",
        status.ranks.len(),
        states.join(", ")
    ));
    lines.extend(hosts(status));
    if status.recovery == "none" {
        lines.push("checkpoints  none (--recovery none)".into());
    } else {
        lines.extend(checkpoints(status));
        lines.push(format!(
            "failures     {}, {} recovered, generation {}",
            status.failures, status.recoveries, status.generation
        ));
        lines.extend(
            status
                .last_failure
                .iter()
                .map(|last| format!("  last       {last}")),
        );
        if let Some([retained, used]) = log_lines(status) {
            lines.push(format!("message log  {retained}"));
            lines.push(format!("  use        {used}"));
        }
    }
    lines.push(String::new());
    let room = height.saturating_sub(lines.len());
    lines.extend(ranks(&status.ranks, room));
    lines
}

/// How many hosts are in each state, and each that takes part in an unusual way.
fn hosts(status: &JobStatus) -> Vec<String> {
    const MOST: usize = 3;
    if status.hosts.len() < 2 {
        return Vec::new();
    }
    let mut states: BTreeMap<&str, usize> = BTreeMap::new();
    for host in &status.hosts {
        *states.entry(host.state.as_str()).or_default() += 1;
    }
    let counts: Vec<_> = states.iter().map(|(s, n)| format!("{n} {s}")).collect();
    let counts = counts.join(", ");
    let mut lines = vec![format!("hosts        {}: {counts}", status.hosts.len())];
    let told = status.hosts.iter().filter_map(|host| {
        let why = host.cause.as_ref()?;
        Some(format!("  {:10} {}: {why}", host.state, host.host))
    });
    lines.extend(told.take(MOST));
    lines
}

fn checkpoints(status: &JobStatus) -> Vec<String> {
    let pending = match status.pending {
        Some(epoch) => format!(", {epoch} under way"),
        None => String::new(),
    };
    let mut lines = vec![
        format!(
            "checkpoints  {} committed, {} aborted{pending}",
            status.committed, status.aborted
        ),
        format!("  in memory  {}", last(status.checkpoint.as_ref())),
    ];
    if status.in_files.is_some() {
        lines.push(format!("  in files   {}", last(status.in_files.as_ref())));
    }
    if status.on_partners.is_some() {
        let last = last(status.on_partners.as_ref());
        lines.push(format!("  on partner {last}"));
    }
    if let Some(epoch) = status.regions {
        lines.push(format!("  registered {epoch}"));
    }
    if let Some(cost) = &status.cost {
        lines.push(format!(
            "  last stall {} (rank {}), longest {}; {} copied",
            millis(cost.stall_ns),
            cost.rank,
            millis(status.longest_stall_ns),
            mebibytes(cost.copied_bytes)
        ));
    }
    lines
}

/// The newest checkpoint on a level.
fn last(checkpoint: Option<&Checkpoint>) -> String {
    let Some(last) = checkpoint else {
        return "none yet".into();
    };
    let (age, took) = (seconds(last.age_ns), millis(last.took_ns));
    format!("{} {age} ago, took {took}", last.epoch)
}

/// How many ranks are in each state.
fn states(ranks: &[RankStatus]) -> BTreeMap<&str, usize> {
    let mut states = BTreeMap::new();
    for rank in ranks {
        *states.entry(rank.state.as_str()).or_default() += 1;
    }
    states
}

/// A table of ranks. If there is no room for all, those in the rarest states come first, and a line
/// counts the others.
fn ranks(ranks: &[RankStatus], room: usize) -> Vec<String> {
    if room < 3 {
        return Vec::new();
    }
    let states = states(ranks);
    let mut order: Vec<&RankStatus> = ranks.iter().collect();
    let is_short = ranks.len() > room - 1;
    if is_short {
        order.sort_by_key(|rank| (states.get(rank.state.as_str()), rank.rank));
        order.truncate(room - 2);
        order.sort_by_key(|rank| rank.rank);
    }
    let host = order.iter().map(|rank| rank.host.chars().count()).max();
    let host = host.unwrap_or(0).clamp(4, 24);
    let mut lines = vec![format!(
        "{:>7} {:host$} {:>9} {:10} {:>11} {:>7}{}",
        "rank",
        "host",
        "pid",
        "state",
        "incarnation",
        "image",
        log_titles(ranks)
    )];
    for rank in &order {
        let image = rank.epoch.map_or_else(|| "-".into(), |e| e.to_string());
        let name = fitted(&rank.host, host);
        lines.push(format!(
            "{:>7} {name:host$} {:>9} {:10} {:>11} {image:>7}{}",
            rank.rank,
            rank.pid,
            rank.state,
            rank.incarnation,
            log_columns(rank)
        ));
    }
    if is_short {
        lines.push(format!(
            "        and {} further ranks",
            ranks.len() - order.len()
        ));
    }
    lines
}

/// A line for each job.
fn list(jobs: &[JobStatus], height: usize) -> Vec<String> {
    let mut lines = vec![format!(
        "{:16} {:>7} {:>6} {:10} {:>10} {:>11} {:>8}  program",
        "job", "mpirun", "ranks", "state", "running", "checkpoints", "failures"
    )];
    let room = height.saturating_sub(2);
    for status in jobs.iter().take(room) {
        lines.push(format!(
            "{:16} {:>7} {:>6} {:10} {:>10} {:>11} {:>8}  {}",
            status.job,
            status.mpirun,
            status.ranks.len(),
            status.course,
            seconds(status.running_ns),
            status.committed,
            status.failures,
            status.program
        ));
    }
    if jobs.len() > room {
        lines.push(format!("and {} further jobs", jobs.len() - room));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_logging::determinants::LogFigures;
    use rejoin_managers_report::query::{HostStatus, LastCost};

    fn job_of(ranks: u32) -> JobStatus {
        let rank = |rank| RankStatus {
            rank,
            host: "a".into(),
            pid: 100 + rank,
            incarnation: 0,
            state: if rank == 77 { "started" } else { "running" }.into(),
            epoch: Some(7),
            log: None,
        };
        let host = |name: &str| HostStatus {
            host: name.into(),
            site: None,
            state: if name == "a" { "active" } else { "inactive" }.into(),
            cause: (name == "b").then(|| "it is lost".into()),
            ranks: 0,
        };
        JobStatus {
            moves: Vec::new(),
            job: "00000000000000ab".into(),
            mpirun: 99,
            central: 98,
            central_restarts: 0,
            program: "./app\u{1b}[2J".into(),
            running_ns: 12_340_000_000,
            recovery: "coordinated".into(),
            course: "running".into(),
            generation: 1,
            pending: Some(8),
            checkpoint: Some(Checkpoint {
                epoch: 7,
                age_ns: 2_100_000_000,
                took_ns: 12_300_000,
            }),
            in_files: Some(Checkpoint {
                epoch: 5,
                age_ns: 4_100_000_000,
                took_ns: 512_300_000,
            }),
            on_partners: None,
            regions: None,
            committed: 7,
            aborted: 1,
            failures: 1,
            recoveries: 1,
            last_failure: Some("rank 1 on host a was killed".into()),
            cost: Some(LastCost {
                stall_ns: 1_200_000,
                rank: 3,
                copied_bytes: 3 << 20,
            }),
            longest_stall_ns: 4_000_000,
            log: None,
            hosts: ["a", "b"].map(host).to_vec(),
            ranks: (0..ranks).map(rank).collect(),
        }
    }

    #[test]
    fn a_job_is_shown_with_its_figures_and_ranks() {
        let lines = frame(&[job_of(2)], 80, 24);
        let want = [
            "job 00000000000000ab  ./app\u{fffd}[2J  running for 12.3 s  mpirun 99",
            "ranks        2: 2 running",
            "hosts        2: 1 active, 1 inactive",
            "  inactive   b: it is lost",
            "checkpoints  7 committed, 1 aborted, 8 under way",
            "  in memory  7 2.1 s ago, took 12.3 ms",
            "  in files   5 4.1 s ago, took 512.3 ms",
            "  last stall 1.2 ms (rank 3), longest 4.0 ms; 3.0 MiB copied",
            "failures     1, 1 recovered, generation 1",
            "  last       rank 1 on host a was killed",
            "",
            "   rank host       pid state      incarnation   image",
            "      0 a          100 running              0       7",
            "      1 a          101 running              0       7",
            "q ends",
        ];
        assert_eq!(lines, want);
    }

    #[test]
    fn a_job_that_logs_messages_has_lines_and_columns_about_that() {
        let log = LogFigures {
            retained_bytes: 3 << 19,
            most_retained_bytes: 2 << 20,
            memory_bytes: 4 << 20,
            file_bytes: 0,
            determinants: 1234,
            determinants_per_second: 56,
            lag_ns: 250_000_000,
        };
        let mut job = JobStatus {
            log: Some(log),
            ..job_of(1)
        };
        job.ranks[0].log = Some(log);
        let lines = frame(&[job], 80, 24);
        for want in [
            "message log  1.5 MiB retained, at most 2.0 MiB of a rank; lag 0.2 s",
            "  use        4.0 MiB of log memory, 1234 determinants (56/s)",
            "   rank host       pid state      incarnation   image     retained  determinants",
            "      0 a          100 running              0       7      1.5 MiB          1234",
        ] {
            assert!(lines.iter().any(|line| line == want), "{lines:?}");
        }
    }

    #[test]
    fn every_frame_fits_its_terminal_and_shows_ranks_in_rare_states() {
        let jobs = [job_of(1), job_of(5), job_of(10_000)];
        for height in 0..30 {
            for width in [0, 1, 20, 80, 200] {
                for shown in [&jobs[..0], &jobs[..1], &jobs[2..], &jobs[..]] {
                    let lines = frame(shown, width, height);
                    assert!(lines.len() <= height, "{height}: {lines:?}");
                    assert!(lines.iter().all(|line| line.chars().count() <= width));
                }
            }
        }
        let lines = frame(&jobs[2..], 80, 24);
        assert!(
            lines
                .iter()
                .any(|line| line.contains("10000: 9999 running, 1 started"))
        );
        assert!(
            lines.iter().any(|line| line.starts_with("     77 a")),
            "{lines:?}"
        );
        assert_eq!(lines[22], "        and 9990 further ranks");
        let both = frame(&jobs[..2], 80, 24);
        assert!(
            both[2].starts_with("00000000000000ab      99      5 running"),
            "{both:?}"
        );
    }
}
