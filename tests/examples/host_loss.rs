//! From the loss of a host to a message completed by every rank: 4 ranks on two hosts, which copy
//! each other's files of images. The hosts are network namespaces of this machine; root is needed.
//!
//! `REJOIN_PREFIX=… cargo run -p rejoin-tests --example host_loss [LOSSES [MB [cut]]]`
//!
//! Prints `progress<TAB>MILLISECONDS…`, a column for each loss, and `dropped<TAB>LOSS<TAB>REASON`
//! for each that has no figure. Each loss is one of a job of its own. A host is lost because all of
//! its processes are killed, or with `cut` because its network is cut. Then the milliseconds
//! include the lease, which is a second.

use rejoin_tests::gaps::{gaps, now, recoveries};
use rejoin_tests::hosts::{Cut, Hosts};
use rejoin_tests::processes::{is_alive, wait_for};
use rejoin_tests::{finish, program};
use std::path::Path;
use std::time::{Duration, Instant};

const RANKS: usize = 4;
/// Seconds between checkpoints.
const INTERVAL: &str = "1.5";
/// A recovery is over long before this.
const SOON: Duration = Duration::from_secs(60);

/// Milliseconds from one loss to the progress of all ranks.
fn lose_a_host(megabytes: &str, is_cut: bool) -> Result<f64, String> {
    let mut hosts = Hosts::up(2).ok_or("there can be no hosts here")?;
    let [file, events] = ["gaps", "events"].map(|name| hosts.folder().join(name));
    let end = file.with_extension("end");
    let options = "--host h1:2,h2:2 -n 4 --host-lease 1 --images /tmp/images";
    let mut run = hosts.mpirun(options.split(' '));
    run = run.arg("--checkpoint-interval").arg(INTERVAL);
    run = run.arg("--image-interval").arg(INTERVAL);
    run = run.arg("--events").arg(&events).arg(program("recover"));
    let child = run.arg(megabytes).arg("300").arg(&file).start();
    let mpirun = child.id();
    // The first checkpoint may come before the memory is filled.
    let in_files = || {
        let text = std::fs::read_to_string(&events).unwrap_or_default();
        text.matches("\"level\":\"file\"").count() >= 3
    };
    wait_for(SOON, "three checkpoints in files", || {
        in_files() || !is_alive(mpirun)
    });
    std::thread::sleep(Duration::from_millis(700));
    let lost = now();
    match is_cut {
        true => hosts.cut(2, Cut::Both),
        false => hosts.crash(2),
    }
    let recovery = |file: &Path| {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        recoveries(&[lost], &gaps(&text), RANKS).remove(0)
    };
    let begun = Instant::now();
    while is_alive(mpirun) && begun.elapsed() < SOON && recovery(&file).is_err() {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::fs::write(&end, "").expect("the end of the job");
    let done = finish(child, SOON, "a job that has lost a host");
    recovery(&file).map_err(|why| format!("{why}: {}", done.text().replace('\n', "; ")))
}

fn main() {
    let mut args = std::env::args().skip(1);
    let count: usize = args.next().and_then(|n| n.parse().ok()).unwrap_or(5);
    let megabytes = args.next().unwrap_or_else(|| "256".into());
    let is_cut = args.next().is_some_and(|way| way == "cut");
    let mut times = Vec::new();
    for number in 1..=count {
        match lose_a_host(&megabytes, is_cut) {
            Ok(time) => times.push(format!("{time:.3}")),
            Err(why) => println!("dropped\tloss {number}\t{why}"),
        }
    }
    println!("progress\t{}", times.join("\t"));
    assert!(!times.is_empty(), "nothing was measured");
}
