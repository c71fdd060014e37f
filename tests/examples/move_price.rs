//! What a move costs a job in run time: the same work of 4 ranks on two hosts with moves and
//! without, in turns. The last rank moves to a third host and back. The hosts are network
//! namespaces of this machine; root is needed.
//!
//! `REJOIN_PREFIX=… cargo run -p rejoin-tests --example move_price PROGRAM STEPS [PAIRS [MOVES]]`
//!
//! PROGRAM is `benches/c/state.c`, compiled; it takes so many steps of a stencil that modifies 10 %
//! of 256 MB. Prints a line for each pair, `pair<TAB>WITH<TAB>WITHOUT<TAB>MOVES`: the seconds of
//! both runs, and how many moves there were. A pair without figures has a line
//! `dropped<TAB>PAIR<TAB>REASON`.

use rejoin_tests::finish;
use rejoin_tests::hosts::Hosts;
use rejoin_tests::processes::{is_alive, wait_for};
use std::time::{Duration, Instant};

/// A run is over long before this.
const LONG: Duration = Duration::from_secs(1200);
const SOON: Duration = Duration::from_secs(120);
/// Between the end of a move and the next one.
const PAUSE: Duration = Duration::from_secs(3);

/// Runs the work with so many moves. Returns its seconds, what it printed, and the moves that took
/// place.
fn work(hosts: &Hosts, words: &[String], moves: usize) -> Result<(f64, String, usize), String> {
    let events = hosts.folder().join("events");
    let _ = std::fs::remove_file(&events);
    let options = "--host h1:2,h2:2 --spare h3 -n 4 --checkpoint-interval 30 --images /tmp/images --image-copy-interval asked";
    let mut run = hosts.mpirun(options.split(' '));
    run = run.arg("--events").arg(&events);
    for word in words {
        run = run.arg(word);
    }
    let begun = Instant::now();
    let child = run.start();
    let mpirun = child.id();
    let mut moved = 0;
    if moves > 0 {
        wait_for(SOON, "a checkpoint", || {
            let text = std::fs::read_to_string(&events).unwrap_or_default();
            text.contains("\"committed\"") || !is_alive(mpirun)
        });
    }
    while moved < moves && is_alive(mpirun) {
        std::thread::sleep(PAUSE);
        let to = if moved % 2 == 0 { "h3" } else { "h2" };
        let output = hosts.rejoin(&["migrate", "3", "--to", to]);
        if !output.status.success() {
            break;
        }
        moved += 1;
    }
    let done = finish(child, LONG, "the work");
    let seconds = begun.elapsed().as_secs_f64();
    match done.output.status.success() {
        true => Ok((seconds, done.stdout(), moved)),
        false => Err(done.text().replace('\n', "; ")),
    }
}

fn pair(hosts: &Hosts, words: &[String], moves: usize, number: usize) -> Result<String, String> {
    // The first run has a warmer or colder machine, so the order alternates.
    let (with, without) = match number.is_multiple_of(2) {
        true => {
            let with = work(hosts, words, moves)?;
            (with, work(hosts, words, 0)?)
        }
        false => {
            let without = work(hosts, words, 0)?;
            (work(hosts, words, moves)?, without)
        }
    };
    if with.1 != without.1 {
        return Err(format!("other results: {} and {}", with.1, without.1));
    }
    match with.2 {
        0 => Err("no move took place".into()),
        moved => Ok(format!("{:.3}\t{:.3}\t{moved}", with.0, without.0)),
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let program = args.next().expect("PROGRAM");
    let steps = args.next().expect("STEPS");
    let mut number = |default| args.next().and_then(|n| n.parse().ok()).unwrap_or(default);
    let (pairs, moves) = (number(5), number(4));
    let hosts = Hosts::up(3).expect("there can be no hosts here");
    let words = [program, "stencil".into(), "256".into(), "10".into(), steps];
    for number in 1..=pairs {
        match pair(&hosts, &words, moves, number) {
            Ok(line) => println!("pair\t{line}"),
            Err(why) => println!("dropped\tpair {number}\t{}", why.trim()),
        }
    }
}
