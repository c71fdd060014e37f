//! What a move costs: 4 ranks on two hosts, the last of which moves to a third one and back. The
//! hosts are network namespaces of this machine; root is needed.
//!
//! `REJOIN_PREFIX=… cargo run -p rejoin-tests --example migrate [MOVES [MB [PERCENT]]]`
//!
//! Each rank has so many megabytes; PERCENT of them are rewritten per second (256 and 10 by
//! default). Prints lines with a column for each move:
//!
//! - `moved<TAB>MILLISECONDS…`: the pause of the rank that moves;
//! - `stayed<TAB>MILLISECONDS…`: the longest pause of each rank that stays, three for each move;
//! - `checkpoint<TAB>MILLISECONDS…`: the same in the checkpoint that follows, until its files are
//!   there;
//! - `took<TAB>MILLISECONDS…`: from the request to its end;
//! - `bytes<TAB>RATIO…`: what crossed the network to the third host, to the memory of the rank (the
//!   other host gets copies of the images of the first one, too);
//! - `dropped<TAB>MOVE<TAB>REASON` for each move that has no figure.

use rejoin_tests::gaps::{Gap, gaps, now};
use rejoin_tests::hosts::Hosts;
use rejoin_tests::processes::{is_alive, wait_for};
use rejoin_tests::{finish, program};
use std::path::PathBuf;
use std::time::Duration;

const RANKS: usize = 4;
/// The host that has no rank at first.
const SPARE: usize = 3;
/// A move is over long before this.
const SOON: Duration = Duration::from_secs(60);
/// After the files of a checkpoint.
const SETTLED: Duration = Duration::from_secs(1);
/// Seconds for which the job runs at most.
const LONG: &str = "600";

/// The figures of one move.
struct Figures {
    moved: f64,
    stayed: Vec<f64>,
    checkpoint: Vec<f64>,
    took: f64,
    bytes: Option<f64>,
}

fn millis(gap: &Gap) -> f64 {
    (gap.after - gap.before) as f64 / 1e6
}

/// Bytes that a host has received.
fn received(hosts: &Hosts, number: usize) -> f64 {
    let text = hosts.exec(number, &["cat", "/proc/net/dev"]);
    let devices = text.lines().filter_map(|line| line.split_once(':'));
    let others = devices.filter(|(name, _)| name.trim() != "lo");
    let bytes = others.filter_map(|(_, rest)| rest.split_whitespace().next()?.parse::<f64>().ok());
    bytes.sum()
}

/// The job that is measured.
struct Measured<'a> {
    hosts: &'a Hosts,
    mpirun: u32,
    /// Where the ranks note their pauses.
    file: PathBuf,
    events: PathBuf,
    megabytes: f64,
}

impl Measured<'_> {
    /// Checkpoints in files so far.
    fn stored(&self) -> usize {
        let text = std::fs::read_to_string(&self.events).unwrap_or_default();
        text.matches("\"level\":\"file\"").count()
    }

    fn until_stored(&self, count: usize) {
        wait_for(SOON, "a checkpoint in files", || {
            self.stored() >= count || !is_alive(self.mpirun)
        });
        std::thread::sleep(SETTLED);
    }

    /// The pauses that touch this time.
    fn pauses(&self, begin: i64, end: i64) -> Vec<Gap> {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        let mut all = gaps(&text);
        all.retain(|gap| gap.after > begin && gap.before < end);
        all
    }

    /// Moves the last rank to a host, and waits until it has made a step there and the checkpoint
    /// that follows is over.
    fn move_once(&self, to: usize) -> Result<Figures, String> {
        let hosts = self.hosts;
        let stored = self.stored();
        let (before, begun) = (received(hosts, to), now());
        let last = (RANKS - 1).to_string();
        let output = hosts.rejoin(&["migrate", &last, "--to", &format!("h{to}")]);
        let (bytes, ended) = (received(hosts, to) - before, now());
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).replace('\n', "; "));
        }
        self.until_stored(stored + 1);
        let (during, after) = (self.pauses(begun, ended), self.pauses(ended, now()));
        let mut of_mover = after.iter().chain(&during);
        let moved = of_mover.find(|gap| gap.rank == RANKS - 1 && gap.restored);
        let moved = moved.ok_or("the rank made no step after the move")?;
        Ok(Figures {
            moved: millis(moved),
            stayed: longest(&during),
            checkpoint: longest(&after),
            took: (ended - begun) as f64 / 1e6,
            bytes: (to == SPARE).then_some(bytes / (self.megabytes * 1048576.0)),
        })
    }
}

/// The longest pause of each rank that stays.
fn longest(pauses: &[Gap]) -> Vec<f64> {
    let longest = |rank: usize| {
        let of_rank = pauses.iter().filter(|gap| gap.rank == rank).map(millis);
        of_rank.fold(0.0, f64::max)
    };
    (0..RANKS - 1).map(longest).collect()
}

fn main() {
    let mut args = std::env::args().skip(1);
    let count: usize = args.next().and_then(|n| n.parse().ok()).unwrap_or(10);
    let megabytes = args.next().unwrap_or_else(|| "256".into());
    let percent = args.next().unwrap_or_else(|| "10".into());
    let hosts = Hosts::up(3).expect("there can be no hosts here");
    let [file, events] = ["gaps", "events"].map(|name| hosts.folder().join(name));
    let end = file.with_extension("end");
    // The hosts share the processors of this machine: a rank that spins keeps others from running.
    let options = "--host h1:2,h2:2 --spare h3 -n 4 --spin 0 --checkpoint-interval 20 --images /tmp/images --image-copy-interval asked";
    let mut run = hosts.mpirun(options.split(' '));
    run = run.arg("--events").arg(&events).arg(program("migrant"));
    let child = run
        .arg(&megabytes)
        .arg(percent)
        .arg(LONG)
        .arg(&file)
        .start();
    let job = Measured {
        hosts: &hosts,
        mpirun: child.id(),
        file,
        events,
        megabytes: megabytes.parse().expect("megabytes"),
    };
    job.until_stored(2);
    let mut all = Vec::new();
    for number in 1..=count {
        let to = if number % 2 == 1 { SPARE } else { 2 };
        match job.move_once(to) {
            Ok(figures) => all.push(figures),
            Err(why) => println!("dropped\tmove {number}\t{why}"),
        }
    }
    std::fs::write(&end, "").expect("the end of the job");
    let done = finish(child, SOON, "a job whose last rank moves");
    let line = |name: &str, of: &dyn Fn(&Figures) -> Vec<f64>| {
        let cells: Vec<String> = all.iter().flat_map(of).map(|n| format!("{n:.3}")).collect();
        println!("{name}\t{}", cells.join("\t"));
    };
    line("moved", &|f| vec![f.moved]);
    line("stayed", &|f| f.stayed.clone());
    line("checkpoint", &|f| f.checkpoint.clone());
    line("took", &|f| vec![f.took]);
    line("bytes", &|f| f.bytes.into_iter().collect());
    assert!(!all.is_empty(), "nothing was measured: {}", done.text());
}
