//! What a move costs: 4 ranks on two hosts, the last of which moves to a third one and back. The
//! hosts are network namespaces of this machine; root is needed.
//!
//! `REJOIN_PREFIX=… cargo run -p rejoin-tests --example migrate [MOVES [MB [PERCENT]]]`
//!
//! Each rank has so many megabytes; PERCENT of them are rewritten per second (256 and 10 by
//! default). Prints lines with a column for each move:
//!
//! - `moved<TAB>MILLISECONDS…`: the pause of the rank that moves;
//! - `stayed<TAB>MILLISECONDS…`: the longest pause of each rank that stays, three for each move. That
//!   of the checkpoint is among them which follows the move;
//! - `took<TAB>MILLISECONDS…`: from the request to its end;
//! - `bytes<TAB>RATIO…`: what crossed the network to the third host, to the memory of the rank (the
//!   other host gets copies of the images of the first one, too);
//! - `dropped<TAB>MOVE<TAB>REASON` for each move that has no figure.

use rejoin_tests::gaps::{Gap, gaps, now};
use rejoin_tests::hosts::Hosts;
use rejoin_tests::processes::{is_alive, wait_for};
use rejoin_tests::{finish, program};
use std::path::Path;
use std::time::{Duration, Instant};

const RANKS: usize = 4;
/// The host that has no rank at first.
const SPARE: usize = 3;
/// A move is over long before this.
const SOON: Duration = Duration::from_secs(60);
/// Seconds for which the job runs at most.
const LONG: &str = "600";

/// The figures of one move.
struct Figures {
    moved: f64,
    stayed: Vec<f64>,
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

/// Moves the last rank to a host, and waits until it has made a step there.
fn move_once(hosts: &Hosts, file: &Path, to: usize, megabytes: f64) -> Result<Figures, String> {
    let (before, begun) = (received(hosts, to), now());
    let last = (RANKS - 1).to_string();
    let output = hosts.rejoin(&["migrate", &last, "--to", &format!("h{to}")]);
    let (bytes, ended) = (received(hosts, to) - before, now());
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).replace('\n', "; "));
    }
    // With the checkpoint that follows.
    std::thread::sleep(Duration::from_millis(1500));
    let end = now();
    let during = || {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let mut all = gaps(&text);
        all.retain(|gap| gap.after > begun && gap.before < end);
        all
    };
    let has_moved = |gap: &Gap| gap.rank == RANKS - 1 && gap.restored;
    let since = Instant::now();
    while !during().iter().any(has_moved) && since.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(200));
    }
    let gaps = during();
    let moved = gaps.iter().find(|gap| has_moved(gap));
    let moved = moved.ok_or("the rank made no step after the move")?;
    let longest = |rank: usize| {
        let of_rank = gaps.iter().filter(|gap| gap.rank == rank).map(millis);
        of_rank.fold(0.0, f64::max)
    };
    Ok(Figures {
        moved: millis(moved),
        stayed: (0..RANKS - 1).map(longest).collect(),
        took: (ended - begun) as f64 / 1e6,
        bytes: (to == SPARE).then_some(bytes / (megabytes * 1048576.0)),
    })
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
    let options = "--host h1:2,h2:2 --spare h3 -n 4 --spin 0 --checkpoint-interval 5 --images /tmp/images --image-copy-interval asked";
    let mut run = hosts.mpirun(options.split(' '));
    run = run.arg("--events").arg(&events).arg(program("migrant"));
    let child = run
        .arg(&megabytes)
        .arg(percent)
        .arg(LONG)
        .arg(&file)
        .start();
    let mpirun = child.id();
    wait_for(SOON, "two checkpoints in files", || {
        let text = std::fs::read_to_string(&events).unwrap_or_default();
        text.matches("\"level\":\"file\"").count() >= 2 || !is_alive(mpirun)
    });
    let size: f64 = megabytes.parse().expect("megabytes");
    let mut all = Vec::new();
    for number in 1..=count {
        let to = if number % 2 == 1 { SPARE } else { 2 };
        match move_once(&hosts, &file, to, size) {
            Ok(figures) => all.push(figures),
            Err(why) => println!("dropped\tmove {number}\t{why}"),
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    std::fs::write(&end, "").expect("the end of the job");
    let done = finish(child, SOON, "a job whose last rank moves");
    let line = |name: &str, of: &dyn Fn(&Figures) -> Vec<f64>| {
        let cells: Vec<String> = all.iter().flat_map(of).map(|n| format!("{n:.3}")).collect();
        println!("{name}\t{}", cells.join("\t"));
    };
    line("moved", &|f| vec![f.moved]);
    line("stayed", &|f| f.stayed.clone());
    line("took", &|f| vec![f.took]);
    line("bytes", &|f| f.bytes.into_iter().collect());
    assert!(!all.is_empty(), "nothing was measured: {}", done.text());
}
