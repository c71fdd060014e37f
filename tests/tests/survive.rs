//! Ranks are killed repeatedly, at seeded moments. The program ends like an undisturbed run: the
//! same exit code, the same lines, each once.
//!
//! `REJOIN_SURVIVE_ROUNDS` runs each program so many times with other seeds (1 by default), from
//! `REJOIN_SURVIVE_SEED` on.

use rejoin_tests::folder::Folder;
use rejoin_tests::job::{Job, Numbers, by_rank, times_back};
use rejoin_tests::processes::{all_gone, descendants, is_alive, kill, wait_for};
use rejoin_tests::{Finished, Run, finish, program};
use std::path::PathBuf;
use std::time::Duration;

const RANKS: u32 = 4;
/// Each run ends long before this.
const LIMIT: Duration = Duration::from_secs(100);
/// Ranks killed in one run, at most.
const MOST: u32 = 40;
/// Ranks that come back in all runs of a program, at least: with eight programs, 200 and more.
const LEAST: u32 = 26;

/// Runs of one program at most to come to that.
const MOST_RUNS: u64 = 20;

struct Case {
    name: &'static str,
    args: &'static [&'static str],
    /// The order in which lines come from one rank is the same in every run.
    ordered: bool,
}

fn run(case: &Case, options: &[&str], extra: Option<&PathBuf>) -> Run {
    let ranks = RANKS.to_string();
    let mut all = vec!["--tag-output"];
    all.extend(options);
    all.extend(["-n", &ranks]);
    let mut run = Run::raw(all).arg(program(case.name));
    for arg in case.args {
        run = run.arg(arg);
    }
    match extra {
        Some(path) => run.arg(path),
        None => run,
    }
}

/// Kills ranks several times until the job has ended, or enough were killed. `took` is the length
/// of an undisturbed run. Returns the number of kills.
fn torment(job: &Job, mpirun: u32, events: &str, took: Duration, numbers: &mut Numbers) -> u32 {
    // Microseconds between two kills at most, beside ten milliseconds, however fast the machine is.
    let most = (took.as_micros() as u64 / 8).clamp(1_000, 90_000);
    let mut killed = 0;
    // Before it no more than one loss can be masked.
    wait_for(LIMIT, "the first checkpoint", || {
        let text = std::fs::read_to_string(events).unwrap_or_default();
        text.contains("\"committed\"") || !is_alive(mpirun)
    });
    while is_alive(mpirun) && killed < MOST {
        // The test looks for a moment in time, so it sleeps.
        let pause = match numbers.below(5) {
            0 => numbers.below(5_000),
            _ => most.min(10_000) + numbers.below(most),
        };
        std::thread::sleep(Duration::from_micros(pause));
        let mut victims = job.ranks();
        let count = if numbers.below(4) == 0 { 3 } else { 1 };
        for _ in 0..count.min(victims.len()) {
            let victim = victims.swap_remove(numbers.below(victims.len() as u64) as usize);
            kill(victim, libc::SIGKILL);
            killed += 1;
        }
    }
    killed
}

fn survives(case: &Case, seed: u64, files: bool) -> u32 {
    let folder = Folder::new(&format!("{}-{seed}", case.name));
    let path = |name: &str| files.then(|| folder.join(name));
    let plain = run(case, &["--recovery", "none"], path("plain").as_ref()).ok();
    let over = ["shm", "tcp"][seed as usize % 2];
    let often = ["--checkpoint-interval", "0.1", "--max-restarts", "100000"];
    let events = folder.name("events");
    let options = [&often[..], &["--transport", over, "--events", &events]].concat();
    let child = run(case, &options, path("killed").as_ref()).start();
    let mpirun = child.id();
    let what = format!("{} over {over} with seed {seed}", case.name);
    println!("{what}");
    let (done, (all, sent)): (Finished, (Vec<u32>, u32)) = std::thread::scope(|scope| {
        let killer = scope.spawn(|| {
            let job = Job::of(mpirun, case.name);
            let all = descendants(mpirun);
            let sent = torment(&job, mpirun, &events, plain.took, &mut Numbers(seed));
            (all, sent)
        });
        let done = finish(child, LIMIT, &what);
        (done, killer.join().expect("the killer"))
    });
    let killed = times_back(&done.stderr());
    println!("{what}: {sent} kills sent, {killed} ranks came back");
    // A kill of a rank that is being restored already, or has ended, adds no recovery.
    assert!(
        killed <= sent,
        "{what}: {killed} came back from {sent} kills"
    );
    assert!(
        done.output.status.success(),
        "{what}, {killed} killed: {}\n{}",
        done.output.status,
        done.stderr()
    );
    let (want, have) = (plain.stdout(), done.stdout());
    let (want, have) = (by_rank(&want, case.ordered), by_rank(&have, case.ordered));
    let first = want.iter().zip(&have).find(|(a, b)| a != b);
    assert!(
        want == have,
        "{what}, {killed} killed: {} lines, not {}; first difference {first:?}\n{}",
        have.len(),
        want.len(),
        done.stderr()
    );
    if files {
        for rank in 0..RANKS {
            let read = |name: &str| {
                std::fs::read(folder.join(format!("{name}.{rank}"))).expect("a rank's file")
            };
            assert!(
                read("plain") == read("killed"),
                "{what}: file of rank {rank}"
            );
        }
    }
    all_gone(&all, Duration::from_secs(20));
    killed
}

fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{variable} is {text:?}")),
        Err(_) => default,
    }
}

fn program_survives(case: &Case, seeds: std::ops::Range<u64>, files: bool) {
    let rounds = number("REJOIN_SURVIVE_ROUNDS", 1);
    let count = seeds.end - seeds.start;
    let first = number("REJOIN_SURVIVE_SEED", seeds.start);
    let seeds = first..first + count;
    let (mut killed, mut seed) = (0, seeds.start);
    // A fast machine gets through a run with fewer kills, so it has more runs.
    while seed < seeds.start + count * rounds || (killed < LEAST && seed < seeds.start + MOST_RUNS)
    {
        killed += survives(case, seed, files);
        seed += 1;
    }
    println!(
        "{}: {killed} ranks came back, seeds {}..{seed}",
        case.name, seeds.start
    );
    assert!(
        killed >= LEAST,
        "{}: only {killed} came back: the program is too short",
        case.name
    );
}

fn ordered(name: &'static str, args: &'static [&'static str]) {
    let case = Case {
        name,
        args,
        ordered: true,
    };
    program_survives(&case, 1..3, false);
}

#[test]
fn a_stencil_with_halo_exchange() {
    ordered("jacobi", &["512", "2500"]);
}

#[test]
fn conjugate_gradients_with_allreduce() {
    ordered("cg", &["256", "1500"]);
}

#[test]
fn an_all_to_all_sort() {
    ordered("sort", &["50000", "60"]);
}

#[test]
fn a_master_and_workers_with_wildcards() {
    ordered("master", &["2000", "200000"]);
}

#[test]
fn derived_datatypes_and_communicators() {
    ordered("derived", &["128", "400"]);
}

#[test]
fn persistent_requests() {
    ordered("persistent", &["20000", "600"]);
}

#[test]
fn a_program_that_is_mostly_outside_mpi() {
    let case = Case {
        name: "outside",
        args: &["150"],
        ordered: true,
    };
    program_survives(&case, 1..3, true);
}

#[test]
fn messages_of_all_sizes_and_modes() {
    ordered("storm", &["7", "200"]);
}
