//! Kills ranks of a program repeatedly, at seeded moments, and compares its output with that of an
//! undisturbed run.

use crate::folder::Folder;
use crate::job::{Job, Numbers, by_rank, times_back};
use crate::limits::{LIMIT, SOON};
use crate::processes::{all_gone, descendants, is_alive, kill, rank_of, wait_for};
use crate::{Finished, Run, answers, finish, program};
use std::path::PathBuf;
use std::time::Duration;

const RANKS: u32 = 4;
/// Ranks killed in one run, at most.
const MOST: u32 = 40;
/// Runs of one program at most to come to that.
const MOST_RUNS: u64 = 20;

/// A program whose output is the same in every run.
pub struct Case {
    /// Its source in `tests/programs`.
    pub name: &'static str,
    /// What stands behind it on the command line.
    pub args: &'static [&'static str],
    /// Options of the job beside the usual ones: the mode of recovery.
    pub mode: &'static [&'static str],
    /// The order in which lines come from one rank is the same in every run.
    pub ordered: bool,
    /// Each rank writes a file, whose path's beginning is a further argument.
    pub files: bool,
    /// Ranks are killed together with their images, which are also in files.
    pub with_images: bool,
    /// A counter of `--stats` (then an option of `mode`), and what it shows of one rank in one of
    /// the runs, at least: what the case is about has happened.
    pub shows: Option<(&'static str, u64)>,
    /// Ranks that come back in all runs of the program, at least.
    pub least: u32,
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
fn torment(
    job: &Job,
    mpirun: u32,
    (events, with_images): (&str, bool),
    took: Duration,
    numbers: &mut Numbers,
) -> u32 {
    // Microseconds between two kills at most, beside ten milliseconds, however fast the machine is.
    let most = (took.as_micros() as u64 / 8).clamp(1_000, 90_000);
    let mut killed = 0;
    // Before it no more than one loss can be masked.
    wait_for(LIMIT, "the first checkpoint", || {
        let text = std::fs::read_to_string(events).unwrap_or_default();
        let level = if with_images { "file" } else { "memory" };
        text.contains(&format!("\"level\":\"{level}\"")) || !is_alive(mpirun)
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
            match rank_of(victim).filter(|_| with_images) {
                Some(rank) => job.kill_with_images(&[rank]),
                None => kill(victim, libc::SIGKILL),
            }
            killed += 1;
        }
    }
    killed
}

/// An undisturbed run, and the folder of its files.
struct Plain {
    folder: Folder,
    done: Finished,
}

impl Plain {
    fn of(case: &Case) -> Self {
        let folder = Folder::new(&format!("{}-plain", case.name));
        let path = case.files.then(|| folder.join("plain"));
        let plain = || run(case, &["--recovery", "none"], path.as_ref()).ok();
        let done = match case.files {
            true => plain(),
            false => {
                let what = format!("{RANKS} ranks, {:?}", case.args);
                answers::undisturbed(&program(case.name), &what, plain)
            }
        };
        Self { folder, done }
    }
}

/// Returns how many ranks came back, and what the case's counter showed.
fn survives(case: &Case, plain: &Plain, seed: u64) -> (u32, u64) {
    let folder = Folder::new(&format!("{}-{seed}", case.name));
    let path = |name: &str| case.files.then(|| folder.join(name));
    let over = ["shm", "tcp"][seed as usize % 2];
    let often = ["--checkpoint-interval", "0.1", "--max-restarts", "100000"];
    let events = folder.name("events");
    let usual = ["--transport", over, "--events", &events];
    let images = folder.name("images");
    let stored = ["--images", &images];
    let stored = if case.with_images { &stored[..] } else { &[] };
    let options = [&often[..], case.mode, &usual, stored].concat();
    let child = run(case, &options, path("killed").as_ref()).start();
    let mpirun = child.id();
    let what = format!("{} over {over} with seed {seed}", case.name);
    println!("{what}");
    let (done, (all, sent)): (Finished, (Vec<u32>, u32)) = std::thread::scope(|scope| {
        let killer = scope.spawn(|| {
            let Some(job) = Job::unless_over(mpirun, case.name) else {
                return (Vec::new(), 0);
            };
            let all = descendants(mpirun);
            let how = (&*events, case.with_images);
            let sent = torment(&job, mpirun, how, plain.done.took, &mut Numbers(seed));
            (all, sent)
        });
        let done = finish(child, LIMIT, &what);
        (done, killer.join().expect("the killer"))
    });
    let killed = times_back(&done.stderr());
    println!("{what}: {sent} kills sent, {killed} ranks came back");
    // A kill of a rank that is being restored already, or has ended, adds no recovery.
    let back = if case.mode.contains(&"host") {
        RANKS
    } else {
        1
    };
    assert!(
        killed <= sent * back,
        "{what}: {killed} came back from {sent} kills"
    );
    assert!(
        done.output.status.success(),
        "{what}, {killed} killed: {}\n{}",
        done.output.status,
        done.stderr()
    );
    let (want, have) = (plain.done.stdout(), done.stdout());
    let (want, have) = (by_rank(&want, case.ordered), by_rank(&have, case.ordered));
    let first = want.iter().zip(&have).find(|(a, b)| a != b);
    assert!(
        want == have,
        "{what}, {killed} killed: {} lines, not {}; first difference {first:?}\n{}",
        have.len(),
        want.len(),
        done.stderr()
    );
    if case.files {
        for rank in 0..RANKS {
            let read = |folder: &Folder, name: &str| {
                std::fs::read(folder.join(format!("{name}.{rank}"))).expect("a rank's file")
            };
            assert!(
                read(&plain.folder, "plain") == read(&folder, "killed"),
                "{what}: file of rank {rank}"
            );
        }
    }
    all_gone(&all, SOON);
    (killed, case.shows.map_or(0, |(name, _)| done.most(name)))
}

/// A number that a variable of the environment names.
///
/// # Panics
/// When it is none.
#[must_use]
pub fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{variable} is {text:?}")),
        Err(_) => default,
    }
}

/// Runs a program with each of these seeds, and with more of them until enough ranks came back.
///
/// # Panics
/// When the output differs, a run does not end well, or too few ranks came back.
pub fn program_survives(case: &Case, seeds: std::ops::Range<u64>) {
    let rounds = number("REJOIN_SURVIVE_ROUNDS", 1);
    let count = seeds.end - seeds.start;
    let first = number("REJOIN_SURVIVE_SEED", seeds.start);
    let seeds = first..first + count;
    // Its output is the same in every run, so one is enough.
    let plain = Plain::of(case);
    let (mut killed, mut shown, mut seed) = (0, 0, seeds.start);
    // A fast machine gets through a run with fewer kills, so it has more runs.
    while seed < seeds.start + count * rounds
        || (killed < case.least && seed < seeds.start + MOST_RUNS)
    {
        let (back, most) = survives(case, &plain, seed);
        (killed, shown) = (killed + back, shown.max(most));
        seed += 1;
    }
    println!(
        "{}: {killed} ranks came back, seeds {}..{seed}",
        case.name, seeds.start
    );
    assert!(
        killed >= case.least,
        "{}: only {killed} came back: the program is too short",
        case.name
    );
    if let Some((counter, least)) = case.shows {
        println!("{}: {counter} of a rank was {shown}", case.name);
        assert!(
            shown >= least,
            "{}: {counter} was {shown} at most",
            case.name
        );
    }
}
