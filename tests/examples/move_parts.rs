//! The parts of a move by process count, as in MPICH-GF's figure of the cost of a rejoin: jobs of 4
//! to 64 ranks on 2 to 8 hosts, whose last rank moves to the first host and back. The hosts are
//! network namespaces of this machine; root is needed, and an installation with fault injection,
//! whose points note the times.
//!
//! `REJOIN_PREFIX=… cargo run -p rejoin-tests --example move_parts [MOVES [MB]]`
//!
//! Prints a line for each move, `parts<TAB>RANKS<TAB>HOSTS` and these milliseconds:
//!
//! - the local part: from the order to stop until the new process has registered with its manager;
//! - the report: until central has heard of it and has stored the move;
//! - the broadcast: until the last local manager has the update;
//! - the propagation: until the last local manager has told its ranks;
//! - the reconnection: from there until every rank has completed an exchange among all.
//!
//! A move without figures has a line `dropped<TAB>MOVE<TAB>REASON`.

use rejoin_tests::gaps::{Gap, gaps};
use rejoin_tests::hosts::Hosts;
use rejoin_tests::processes::{is_alive, wait_for};
use rejoin_tests::{finish, program};
use std::path::Path;
use std::time::{Duration, Instant};

/// Hosts, and ranks of each.
const JOBS: [(usize, usize); 5] = [(2, 2), (2, 4), (4, 4), (4, 8), (8, 8)];
/// The ends of the parts but the last one.
const POINTS: [&str; 5] = [
    "stop-sent",
    "registered",
    "moved-persisted",
    "update-heard",
    "update-passed",
];
/// A move is over long before this.
const SOON: Duration = Duration::from_secs(120);
/// Seconds for which a job runs at most.
const LONG: &str = "1200";

/// The last time at which a point was noted, in nanoseconds.
fn last(notes: &str, point: &str) -> Result<i64, String> {
    let prefix = format!("{point}:*=nobody ");
    let times = notes.lines().filter_map(|line| line.strip_prefix(&prefix));
    let times = times.filter_map(|time| time.trim().parse::<i64>().ok());
    times
        .max()
        .ok_or_else(|| format!("no manager noted {point}"))
}

/// When the last rank completed the exchange that was under way at this time.
fn together(gaps: &[Gap], ranks: usize, at: i64) -> Option<i64> {
    let end = |rank: usize| {
        let over = |gap: &&Gap| gap.rank == rank && gap.before <= at && at < gap.after;
        gaps.iter().find(over).map(|gap| gap.after)
    };
    let ends: Option<Vec<i64>> = (0..ranks).map(end).collect();
    ends?.into_iter().max()
}

/// A job under measurement.
struct Measured<'a> {
    hosts: &'a Hosts,
    ranks: usize,
    gaps: &'a Path,
    notes: &'a Path,
}

impl Measured<'_> {
    /// Moves the last rank. Returns the milliseconds of each part.
    fn parts(&self, to: usize) -> Result<Vec<f64>, String> {
        let _ = std::fs::remove_file(self.notes);
        let last_rank = (self.ranks - 1).to_string();
        let to = format!("h{to}");
        let output = self.hosts.rejoin(&["migrate", &last_rank, "--to", &to]);
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).replace('\n', "; "));
        }
        let noted = || std::fs::read_to_string(self.notes).unwrap_or_default();
        // The old process had stopped then, and no exchange could end without the new one.
        let registered = last(&noted(), "registered")?;
        let all = || {
            let text = std::fs::read_to_string(self.gaps).unwrap_or_default();
            together(&gaps(&text), self.ranks, registered)
        };
        let begun = Instant::now();
        let mut end = all();
        while end.is_none() && begun.elapsed() < SOON {
            std::thread::sleep(Duration::from_millis(20));
            end = all();
        }
        let notes = noted();
        let times = POINTS.map(|point| last(&notes, point));
        let mut times = times.into_iter().collect::<Result<Vec<i64>, String>>()?;
        times.push(end.ok_or("not all ranks have completed an exchange")?);
        let parts = times.windows(2).map(|two| (two[1] - two[0]) as f64 / 1e6);
        Ok(parts.collect())
    }
}

fn job(count: usize, per_host: usize, moves: usize, megabytes: &str) {
    let hosts = Hosts::up(count).expect("there can be no hosts here");
    let ranks = count * per_host;
    let [file, events, notes] = ["gaps", "events", "notes"].map(|name| hosts.folder().join(name));
    let names: Vec<_> = (1..=count).map(|n| format!("h{n}:{per_host}")).collect();
    let (names, size) = (names.join(","), ranks.to_string());
    let options = "--checkpoint-interval 5 --images /tmp/images --image-copy-interval asked -n";
    let faults = POINTS.map(|point| format!("{point}:*=nobody")).join(",");
    let options = options.split(' ').chain([size.as_str(), "--host", &names]);
    let mut run = hosts.mpirun(options).env("REJOIN_FAULT", &faults);
    run = run.env("REJOIN_FAULT_FILE", notes.to_str().expect("UTF-8"));
    run = run.arg("--events").arg(&events).arg(program("recover"));
    let child = run.arg(megabytes).arg(LONG).arg(&file).start();
    let mpirun = child.id();
    wait_for(SOON, "two checkpoints in files", || {
        let text = std::fs::read_to_string(&events).unwrap_or_default();
        text.matches("\"level\":\"file\"").count() >= 2 || !is_alive(mpirun)
    });
    let measured = Measured {
        hosts: &hosts,
        ranks,
        gaps: &file,
        notes: &notes,
    };
    for number in 1..=moves {
        let to = if number % 2 == 1 { 1 } else { count };
        match measured.parts(to) {
            Ok(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| format!("{part:.3}")).collect();
                println!("parts\t{ranks}\t{count}\t{}", parts.join("\t"));
            }
            Err(why) => println!("dropped\tmove {number} of {ranks} ranks\t{why}"),
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    std::fs::write(file.with_extension("end"), "").expect("the end of the job");
    let done = finish(child, SOON, "a job whose last rank moves");
    assert!(done.output.status.success(), "{}", done.text());
}

fn main() {
    let mut args = std::env::args().skip(1);
    let moves: usize = args.next().and_then(|n| n.parse().ok()).unwrap_or(10);
    let megabytes = args.next().unwrap_or_else(|| "16".into());
    for (count, per_host) in JOBS {
        job(count, per_host, moves, &megabytes);
    }
}
