//! From `kill -9` of one rank to a message completed by every rank: 4 ranks of 256 MB, killed one at a time.
//!
//! `REJOIN_PREFIX=… cargo run -p rejoin-tests --example recover [KILLS [MB [phases]]]`
//!
//! With `phases` the managers note when they come to what lies between, which costs a little time; a line
//! `PHASE<TAB>MILLISECONDS…` tells of each, a column per kill. `cargo xtask bench recovery` reads them.

use rejoin_tests::gaps::{gaps, now};
use rejoin_tests::job::{Job, Numbers};
use rejoin_tests::processes::{is_alive, kill, wait_for};
use rejoin_tests::{Run, finish, program, root};
use std::time::Duration;

const RANKS: usize = 4;

/// Milliseconds from each kill to the last rank's first completed exchange.
fn measure(kills: &[i64], text: &str) -> Vec<f64> {
    let gaps = gaps(text);
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

/// What the managers note, and which of a recovery's notes counts: the first or the last.
const PHASES: [(&str, &str, bool); 5] = [
    ("noticed", "dying-noticed", true),
    ("stopped", "retired", true),
    ("running", "woken", false),
    ("registered", "all-registered", true),
    ("started", "all-started", true),
];

/// The phases' milliseconds after each kill.
fn phases(kills: &[i64], notes: &str) {
    for (name, point, first) in PHASES {
        let prefix = format!("{point}:*=nobody ");
        let times = notes.lines().filter_map(|line| line.strip_prefix(&prefix));
        let times: Vec<i64> = times.filter_map(|time| time.trim().parse().ok()).collect();
        print!("{name}");
        for (i, &begun) in kills.iter().enumerate() {
            let next = kills.get(i + 1).copied().unwrap_or(i64::MAX);
            let mut mine = times.iter().filter(|t| begun < **t && **t < next);
            let time = if first { mine.next() } else { mine.next_back() };
            if let Some(time) = time {
                print!("\t{:.3}", (time - begun) as f64 / 1e6);
            }
        }
        println!();
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let count: usize = args.next().and_then(|n| n.parse().ok()).unwrap_or(50);
    let megabytes = args.next().unwrap_or_else(|| "256".into());
    let noted = args.next().is_some();
    let seconds = (count as f64 * 0.45 + 7.0).to_string();
    let options = [
        "-n",
        "4",
        "--checkpoint-interval",
        "2",
        "--max-restarts",
        "100000",
    ];
    let mut run = Run::raw(options).arg(program("recover"));
    let file = root().join(format!("target/recover-{}", std::process::id()));
    let notes = file.with_extension("notes");
    std::fs::create_dir_all(root().join("target")).expect("a folder");
    if noted {
        let faults = PHASES.map(|(_, point, _)| format!("{point}:*=nobody"));
        run = run.env("REJOIN_FAULT", &faults.join(","));
        run = run.env("REJOIN_FAULT_FILE", notes.to_str().expect("a path"));
    }
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
    let noted = std::fs::read_to_string(&notes).unwrap_or_default();
    let _ = std::fs::remove_file(&notes);
    if !noted.is_empty() {
        phases(&kills, &noted);
    }
    let mut times = measure(&kills, &text);
    let shown: Vec<_> = times.iter().map(|t| format!("{t:.3}")).collect();
    println!("progress\t{}", shown.join("\t"));
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
