//! Time of a collective over several hosts of one machine, with one setting and another in turns.
//!
//! ```sh
//! REJOIN_PREFIX=… cargo run -p rejoin-tests --example between \
//!     HOSTS COLLECTIVE BYTES,… ROUNDS SETTING SETTING…
//! ```
//!
//! `HOSTS` is as for `mpirun --host` (`h1:2,h2:2`), a setting an environment variable for the
//! ranks, `A=B`: `LD_LIBRARY_PATH=…` takes the library of another installation (not below `/tmp`,
//! which each host has for itself). Prints a line for each length. It has the median microseconds
//! of a call for each setting, and the median ratio of the first setting to each other one in the
//! same round.

use rejoin_tests::hosts::Hosts;
use rejoin_tests::prefix;
use std::process::Command;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Microseconds of one call.
fn once(hosts: &Hosts, layout: &str, words: [&str; 2], setting: &str) -> f64 {
    let ranks = layout.split(',').map(|host| {
        let slots = host.split_once(':').map_or("1", |(_, slots)| slots);
        slots.parse::<usize>().expect("a number of slots")
    });
    let ranks = ranks.sum::<usize>().to_string();
    // All hosts are on the same cores: a wait that spins keeps others from running.
    let options = ["--spin", "0", "--host", layout, "-n", &ranks, "-x", setting];
    let run = hosts.mpirun(options).arg(hosts.folder().join("mpibench"));
    let done = words.into_iter().fold(run, |run, word| run.arg(word));
    let said = done.arg("100000").arg("300").ok().stdout();
    let value = said.split('\t').nth(2).and_then(|v| v.trim().parse().ok());
    value.expect("a line of mpibench")
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [layout, what, bytes, rounds, settings @ ..] = args.as_slice() else {
        panic!("see the head of tests/examples/between.rs");
    };
    let rounds: usize = rounds.parse().expect("a number of rounds");
    let hosts = Hosts::up(layout.split(',').count()).expect("hosts");
    let source = rejoin_tests::root().join("benches/c/mpibench.c");
    let compiled = Command::new(prefix().join("bin/mpicc"))
        .args(["-O2", "-o"])
        .args([&hosts.folder().join("mpibench"), &source])
        .status();
    assert!(compiled.is_ok_and(|s| s.success()), "mpibench compiles");
    for bytes in bytes.split(',') {
        let taken: Vec<Vec<f64>> = (0..rounds)
            .map(|_| {
                let each = settings.iter();
                each.map(|s| once(&hosts, layout, [what, bytes], s))
                    .collect()
            })
            .collect();
        print!("{layout} {what} {bytes}");
        for at in 0..settings.len() {
            let of = |value: fn(&[f64], usize) -> f64| {
                median(taken.iter().map(|round| value(round, at)).collect())
            };
            let (time, ratio) = (of(|r, i| r[i]), of(|r, i| r[0] / r[i]));
            print!("\t{time:.1} ({ratio:.2})");
        }
        println!();
    }
}
