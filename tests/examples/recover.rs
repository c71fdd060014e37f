//! From `kill -9` of one rank to a message completed by every rank: 4 ranks of 256 MB, killed one
//! at a time.
//!
//! `REJOIN_PREFIX=… cargo run -p rejoin-tests --example recover [KILLS [MB [TRANSPORT [HOW]]]]`
//!
//! Prints `progress<TAB>MILLISECONDS…`, a column for each kill in order, and
//! `dropped<TAB>KILL<TAB>REASON` for each that has no figure. The next kill comes after the
//! recovery from the last, so no two are mixed.
//!
//! HOW is one of these:
//!
//! - `phases`: the managers record the time of each phase in between, which costs a little time. A
//!   line `PHASE<TAB>MILLISECONDS…` shows each phase, a column per kill.
//! - `images`: each rank is killed together with its images in memory, and comes back from a file
//!   in `/dev/shm`.
//!
//! `cargo xtask bench survive` reads the lines.

use rejoin_tests::gaps::{gaps, now, recoveries};
use rejoin_tests::job::{Job, Numbers};
use rejoin_tests::processes::{is_alive, kill, wait_for};
use rejoin_tests::{Finished, Run, finish, program, root};
use std::path::Path;
use std::time::{Duration, Instant};

const RANKS: usize = 4;
/// A recovery is over long before this.
const SOON: Duration = Duration::from_secs(20);

/// The phases that the managers record, and whether the first or the last record of a recovery
/// counts.
const PHASES: [(&str, &str, bool); 5] = [
    ("noticed", "exit-detected", true),
    ("stopped", "retired", true),
    ("running", "restored", false),
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
        let mut missing = 0;
        for (i, &begun) in kills.iter().enumerate() {
            let next = kills.get(i + 1).copied().unwrap_or(i64::MAX);
            let mut mine = times.iter().filter(|t| begun < **t && **t < next);
            let time = if first { mine.next() } else { mine.next_back() };
            match time {
                Some(time) => print!("\t{:.3}", (time - begun) as f64 / 1e6),
                None => missing += 1,
            }
        }
        println!();
        if missing > 0 {
            println!("dropped\t{name}\t{missing} kills, after which no manager noted {point}");
        }
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let count: usize = args.next().and_then(|n| n.parse().ok()).unwrap_or(50);
    let megabytes = args.next().unwrap_or_else(|| "256".into());
    let transport = args.next().unwrap_or_else(|| "shm".into());
    let how = args.next();
    let (noted, with_images) = match how.as_deref() {
        None => (false, false),
        Some("phases") => (true, false),
        Some("images") => (false, true),
        Some(other) => panic!("{other} is neither phases nor images"),
    };
    let seconds = (count as f64 * 10.0 + 60.0).to_string();
    let options = "-n 4 --checkpoint-interval 2 --max-restarts 100000 --transport";
    let options = options.split(' ').chain([transport.as_str()]);
    let mut run = Run::raw(options);
    let images = format!("/dev/shm/rejoin-recover-{}", std::process::id());
    if with_images {
        run = run.arg("--images").arg(&images);
    }
    run = run.arg(program("recover"));
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
    let (end, pauses) = (file.with_extension("end"), file.clone());
    let killer = std::thread::spawn(move || {
        let kills = kill_again_and_again(mpirun, count, &pauses, with_images);
        std::fs::write(&end, "").expect("the end of the job");
        kills
    });
    let limit = Duration::from_secs(120 + 10 * count as u64);
    let done = finish(child, limit, "the measured job");
    let kills = killer.join().expect("the killer");
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let _ = std::fs::remove_file(&file);
    let noted = std::fs::read_to_string(&notes).unwrap_or_default();
    let _ = std::fs::remove_file(&notes);
    if !noted.is_empty() {
        phases(&kills, &noted);
    }
    let _ = std::fs::remove_file(file.with_extension("end"));
    let _ = std::fs::remove_dir_all(&images);
    show(count, recoveries(&kills, &gaps(&text), RANKS), &done);
}

/// Prints the figures of so many kills that were asked for.
fn show(count: usize, found: Vec<Result<f64, String>>, done: &Finished) {
    let sent = found.len();
    let (mut times, mut dropped) = (Vec::new(), Vec::new());
    for (number, found) in found.into_iter().enumerate() {
        match found {
            Ok(time) => times.push(time),
            Err(why) => dropped.push((number + 1, why)),
        }
    }
    let shown: Vec<_> = times.iter().map(|t| format!("{t:.3}")).collect();
    println!("progress\t{}", shown.join("\t"));
    for (number, why) in &dropped {
        println!("dropped\tkill {number}\t{why}");
    }
    times.sort_by(f64::total_cmp);
    assert!(!times.is_empty(), "nothing was measured: {}", done.text());
    let at = |part: f64| times[((times.len() as f64 * part) as usize).min(times.len() - 1)];
    println!(
        "{count} kills asked for, {} sent, {} measured: median {:.1} ms, 90 % {:.1} ms, 99 % {:.1} ms, slowest {:.1} ms",
        sent,
        times.len(),
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    );
}

/// Kills so many ranks, each after the recovery from the kill before. Returns the times of the
/// kills.
fn kill_again_and_again(mpirun: u32, count: usize, pauses: &Path, with_images: bool) -> Vec<i64> {
    let (job, mut numbers, mut kills) = (Job::of(mpirun, "recover"), Numbers(7), Vec::new());
    wait_for(SOON, "images", || job.images().len() >= RANKS);
    // The first checkpoint was taken before the memory was filled: wait for the second.
    std::thread::sleep(Duration::from_secs(4));
    while is_alive(mpirun) && kills.len() < count {
        let ranks = job.ranks();
        if ranks.len() == RANKS {
            let kill_time = now();
            kills.push(kill_time);
            let chosen = numbers.below(RANKS as u64) as usize;
            match with_images {
                true => job.kill_with_images(&[chosen]),
                false => kill(ranks[chosen], libc::SIGKILL),
            }
            // A recovery that takes longer is still measured, together with the next.
            let begun = Instant::now();
            let is_over = || {
                let text = std::fs::read_to_string(pauses).unwrap_or_default();
                recoveries(&[kill_time], &gaps(&text), RANKS)[0].is_ok()
            };
            while is_alive(mpirun) && begun.elapsed() < SOON && !is_over() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        std::thread::sleep(Duration::from_millis(300 + numbers.below(200)));
        if with_images {
            // There must be files again of the ranks that were made of files.
            std::thread::sleep(Duration::from_secs(5));
        }
    }
    kills
}
