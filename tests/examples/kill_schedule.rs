//! The same kills at the same moments of the same work, in each mode of recovery: 4 ranks on two
//! hosts, which are network namespaces of this machine; root is needed.
//!
//! `REJOIN_PREFIX=… cargo run -p rejoin-tests --example kill_schedule PROGRAM WORK STEPS [ROUNDS]`
//!
//! PROGRAM is `benches/c/state.c`, compiled; WORK is `stencil` or `pairs`, and takes so many steps.
//! Each round has a schedule of its own, by its number: which rank is killed when. Each mode has a
//! run with the kills and one without, in turns. Prints a line for each:
//!
//! `run<TAB>MODE<TAB>KILLS<TAB>SECONDS<TAB>CPU<TAB>REPEATED<TAB>VICTIM<TAB>OTHERS`
//!
//! CPU: processor seconds. REPEATED: seconds of work that ranks did again, of all ranks together.
//! VICTIM and OTHERS: seconds of the pair whose rank 0 or 1 was killed, and of the other one; zeros
//! for other work. A run without figures has a line `dropped<TAB>MODE<TAB>REASON`.

use rejoin_tests::Finished;
use rejoin_tests::hosts::Hosts;
use rejoin_tests::hosts::job::Job;
use rejoin_tests::job::Numbers;
use rejoin_tests::processes::{kill, rank_of};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Names and options.
const MODES: [(&str, &str); 4] = [
    ("coordinated", "--recovery coordinated"),
    ("sender-log host", "--recovery sender-log --log-group host"),
    ("sender-log rank", "--recovery sender-log --log-group rank"),
    (
        "receiver-log rank",
        "--recovery receiver-log --log-group rank",
    ),
];
/// Kills of a run.
const KILLS: usize = 3;

/// When ranks are killed, in thousandths of an undisturbed run, and which.
fn schedule(round: u64, work: &str) -> Vec<(u64, usize)> {
    let mut numbers = Numbers(round);
    let mut kills: Vec<_> = (0..KILLS)
        .map(|_| {
            let at = 150 + numbers.below(700);
            // The pair of rank 2 is not killed: it shows what that costs it.
            let ranks = if work == "pairs" { 2 } else { 4 };
            (at, numbers.below(ranks) as usize)
        })
        .collect();
    kills.sort_unstable();
    kills
}

/// The process of a rank, of which each host has two.
fn process_of(hosts: &Hosts, rank: usize) -> Option<u32> {
    let all = hosts.processes(rank / 2 + 1, "state");
    all.into_iter().find(|pid| rank_of(*pid) == Some(rank))
}

struct Measured {
    seconds: f64,
    cpu: f64,
    repeated: f64,
    victim: f64,
    others: f64,
}

/// Runs the work with these kills, which come in an undisturbed run of so many seconds.
fn run(
    hosts: &Hosts,
    words: &[String],
    options: &str,
    kills: &[(u64, usize)],
    undisturbed: f64,
) -> Result<Measured, String> {
    let common = "--images none --checkpoint-interval 0.5";
    let options: Vec<_> = common.split(' ').chain(options.split(' ')).collect();
    let before = hosts.processor_time();
    let begun = Instant::now();
    let mut job = Job::start(hosts, &options, |mut run| {
        for word in words {
            run = run.arg(word);
        }
        run
    });
    for (at, rank) in kills {
        let at = Duration::from_secs_f64(*at as f64 / 1000.0 * undisturbed);
        std::thread::sleep(at.saturating_sub(begun.elapsed()));
        let back = job.events("recovered");
        let pid = process_of(hosts, *rank).ok_or("a rank that is not there")?;
        kill(pid, libc::SIGKILL);
        job.until("recovered", back + 1);
    }
    let repeated = |job: &Job| -> f64 {
        // A rank that comes back alone has a line of its own.
        let of = |line: &Value| {
            let ranks = if line["rank"].is_number() { 1.0 } else { 4.0 };
            line["repeated_ns"]
                .as_f64()
                .map_or(0.0, |ns| ns / 1e9 * ranks)
        };
        job.lines_of("recovered").iter().map(of).sum()
    };
    let (done, repeated) = ended(job, repeated);
    let seconds = begun.elapsed().as_secs_f64();
    if !done.output.status.success() {
        return Err(done.text().replace('\n', "; "));
    }
    let cpu = (hosts.processor_time() - before).as_secs_f64();
    let took = took(&done);
    Ok(Measured {
        seconds,
        cpu,
        repeated,
        victim: took[0].max(took[1]),
        others: took[2].max(took[3]),
    })
}

/// Waits for the end of a job, and looks at its events.
fn ended<T>(mut job: Job, look: impl Fn(&Job) -> T) -> (Finished, T) {
    job.until("ended", 1);
    let seen = look(&job);
    (job.end(), seen)
}

/// The seconds that each rank has printed.
fn took(done: &Finished) -> [f64; 4] {
    let mut took = [0.0; 4];
    for line in done.stdout().lines() {
        let mut cells = line.split('\t').skip_while(|cell| !cell.ends_with("took"));
        let (rank, seconds) = (cells.nth(1), cells.next());
        let rank = rank.and_then(|rank| rank.parse::<usize>().ok());
        let seconds = seconds.and_then(|seconds| seconds.parse().ok());
        if let (Some(rank @ 0..4), Some(seconds)) = (rank, seconds) {
            took[rank] = seconds;
        }
    }
    took
}

fn main() {
    let mut args = std::env::args().skip(1);
    let program = args.next().expect("PROGRAM");
    let work = args.next().expect("WORK");
    let steps = args.next().expect("STEPS");
    let rounds: u64 = args.next().map_or(5, |n| n.parse().expect("ROUNDS"));
    let hosts = Hosts::up(2).expect("there can be no hosts here");
    let words = [program, work.clone(), "16".into(), "100".into(), steps];
    for round in 1..=rounds {
        let kills = schedule(round, &work);
        for turn in 0..MODES.len() {
            let (name, options) = MODES[(turn + round as usize) % MODES.len()];
            let undisturbed = run(&hosts, &words, options, &[], 0.0);
            let length = undisturbed.as_ref().map_or(0.0, |run| run.seconds);
            let killed = run(&hosts, &words, options, &kills, length);
            for (kills, measured) in [(0, undisturbed), (kills.len(), killed)] {
                match measured {
                    Ok(m) => println!(
                        "run\t{name}\t{kills}\t{:.4}\t{:.4}\t{:.4}\t{:.4}\t{:.4}",
                        m.seconds, m.cpu, m.repeated, m.victim, m.others
                    ),
                    Err(why) => println!("dropped\t{name}\t{}", why.trim()),
                }
            }
        }
    }
}
