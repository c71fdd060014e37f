//! From `kill -9` of one rank to a message completed by every rank: 4 ranks of 256 MB, killed one at a time.
//!
//! `REJOIN_PREFIX=… cargo run -p rejoin-tests --example recover [KILLS [MB]]`

use rejoin_tests::job::{Job, Numbers};
use rejoin_tests::processes::{is_alive, kill, wait_for};
use rejoin_tests::{Run, finish, program, root};
use std::time::Duration;

const RANKS: usize = 4;

fn now() -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Milliseconds from each kill to the last rank's first completed exchange.
fn measure(kills: &[i64], text: &str) -> Vec<f64> {
    let gap = |line: &str| {
        let numbers = line.strip_prefix("gap ")?.split(' ');
        let numbers: Vec<i64> = numbers.map_while(|n| n.parse().ok()).collect();
        <[i64; 3]>::try_from(numbers).ok()
    };
    let gaps: Vec<_> = text.lines().filter_map(gap).collect();
    let ends = kills.iter().enumerate().filter_map(|(i, &begun)| {
        let next = kills.get(i + 1).copied().unwrap_or(i64::MAX);
        let first = |rank| {
            let mine = gaps
                .iter()
                .filter(|g| g[0] == rank && begun < g[2] && g[2] < next);
            mine.map(|g| g[2]).min()
        };
        let all: Option<Vec<i64>> = (0..RANKS as i64).map(first).collect();
        Some((all?.into_iter().max()? - begun) as f64 / 1e6)
    });
    ends.collect()
}

fn main() {
    let mut args = std::env::args().skip(1);
    let count: usize = args.next().and_then(|n| n.parse().ok()).unwrap_or(50);
    let megabytes = args.next().unwrap_or_else(|| "256".into());
    let seconds = (count as f64 * 0.45 + 7.0).to_string();
    let options = [
        "-n",
        "4",
        "--checkpoint-interval",
        "2",
        "--max-restarts",
        "100000",
    ];
    let run = Run::raw(options).arg(program("recover"));
    let file = root().join(format!("target/recover-{}", std::process::id()));
    let child = run.arg(megabytes).arg(seconds).arg(&file).start();
    let mpirun = child.id();
    let killer = std::thread::spawn(move || {
        let (job, mut numbers, mut kills) = (Job::of(mpirun, "recover"), Numbers(7), Vec::new());
        wait_for(Duration::from_secs(20), "images", || {
            job.images().len() >= RANKS
        });
        // The first checkpoint is from before the memory was filled: the second is waited for.
        std::thread::sleep(Duration::from_secs(4));
        while is_alive(mpirun) && kills.len() < count {
            let ranks = job.ranks();
            if ranks.len() == RANKS {
                kills.push(now());
                kill(ranks[numbers.below(RANKS as u64) as usize], libc::SIGKILL);
            }
            std::thread::sleep(Duration::from_millis(300 + numbers.below(200)));
        }
        kills
    });
    let limit = Duration::from_secs(120 + count as u64);
    let done = finish(child, limit, "the measured job");
    let kills = killer.join().expect("the killer");
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let _ = std::fs::remove_file(&file);
    let mut times = measure(&kills, &text);
    times.sort_by(f64::total_cmp);
    assert!(!times.is_empty(), "nothing was measured: {}", done.text());
    let at = |part: f64| times[((times.len() as f64 * part) as usize).min(times.len() - 1)];
    println!(
        "{} kills, {} measured: median {:.1} ms, 90 % {:.1} ms, 99 % {:.1} ms",
        kills.len(),
        times.len(),
        at(0.5),
        at(0.9),
        at(0.99)
    );
}
