//! From `kill -9` of one rank to a message completed by every rank. Jobs in which each rank gets
//! the whole table alternate with jobs in which ranks look cards up. Root is needed (hosts in
//! namespaces).
//!
//! `REJOIN_PREFIX=… cargo run -p rejoin-tests --example table [HOSTS [PER_HOST [ROUNDS [KILLS]]]]`

use rejoin_tests::gaps::{self, now, recoveries};
use rejoin_tests::hosts::Hosts;
use rejoin_tests::job::Numbers;
use rejoin_tests::processes::{is_alive, kill, wait_for};
use rejoin_tests::{finish, program};
use std::time::Duration;

const WAYS: [&str; 2] = ["whole", "lazy"];

/// A job of `kills` kills. Returns, for each, the milliseconds to the last rank's first exchange
/// after it.
fn job(hosts: &Hosts, count: usize, per_host: usize, table: &str, kills: usize) -> Vec<f64> {
    let size = count * per_host;
    let names: Vec<_> = (1..=count).map(|n| format!("h{n}:{per_host}")).collect();
    let (names, ranks) = (names.join(","), size.to_string());
    let (events, gaps) = (hosts.folder().join("events"), hosts.folder().join("gaps"));
    for file in [&events, &gaps] {
        let _ = std::fs::remove_file(file);
    }
    let file = events.to_str().expect("UTF-8");
    let mut options = vec!["--host", &names, "-n", &ranks, "--events", file];
    options.extend(["--checkpoint-interval", "2", "--max-restarts", "1000"]);
    let seconds = (kills as f64 * 2.5 + 6.0).to_string();
    let run = hosts.mpirun(options).env("REJOIN_TABLE", table);
    let run = run.env("REJOIN_TREE_FANOUT", "2");
    let run = run.arg(program("recover")).arg("1").arg(seconds).arg(&gaps);
    let child = run.start();
    let mpirun = child.id();
    let happened = |kind: &str, times: usize| {
        let wanted = format!("\"event\":\"{kind}\"");
        wait_for(Duration::from_secs(60), kind, || {
            let text = std::fs::read_to_string(&events).unwrap_or_default();
            !is_alive(mpirun) || text.replace(": ", ":").matches(&wanted).count() >= times
        });
    };
    // The first checkpoint was taken before the program read its clock: a rank restored from it
    // notes no pause.
    happened("committed", 2);
    let mut numbers = Numbers(7);
    let mut killed = Vec::new();
    while killed.len() < kills && is_alive(mpirun) {
        std::thread::sleep(Duration::from_millis(800 + numbers.below(400)));
        let host = 1 + numbers.below(count as u64) as usize;
        let there = hosts.processes(host, "recover");
        if there.len() == per_host {
            killed.push(now());
            kill(
                there[numbers.below(per_host as u64) as usize],
                libc::SIGKILL,
            );
            happened("recovered", killed.len());
        }
    }
    let done = finish(child, Duration::from_secs(300), "the measured job");
    assert!(done.output.status.success(), "{}", done.text());
    let text = std::fs::read_to_string(&gaps).unwrap_or_default();
    let (gaps, mut times) = (gaps::gaps(&text), Vec::new());
    for (kill, found) in recoveries(&killed, &gaps, size).iter().enumerate() {
        match found {
            Ok(time) => times.push(*time),
            Err(why) => println!("kill {kill} has no figure: {why}"),
        }
    }
    times
}

fn main() {
    let mut args = std::env::args().skip(1);
    let mut number = |default| args.next().and_then(|n| n.parse().ok()).unwrap_or(default);
    let (count, per_host) = (number(4), number(16));
    let (rounds, kills) = (number(3), number(6));
    let Some(hosts) = Hosts::up(count) else {
        return;
    };
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        for (way, times) in WAYS.iter().zip(&mut times) {
            let measured = job(&hosts, count, per_host, way, kills);
            println!("{round} {way}: {measured:.1?} ms");
            times.extend(measured);
        }
    }
    for (way, times) in WAYS.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        let median = times.get(times.len() / 2).copied().unwrap_or(f64::NAN);
        let (size, n) = (count * per_host, times.len());
        println!("{way}: {n} kills of {size} ranks on {count} hosts, median {median:.1} ms");
    }
}
