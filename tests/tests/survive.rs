//! Ranks are killed, again and again, at seeded moments; the program ends as if nothing had happened:
//! the same exit code, the same lines, each once.
//!
//! `REJOIN_SURVIVE_ROUNDS` runs each program so many times with other seeds (1 by default).

use rejoin_tests::processes::{all_gone, children, descendants, is_alive, kill, wait_for};
use rejoin_tests::{Finished, Run, finish, program, root};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const RANKS: u32 = 4;

/// Numbers from a seed (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// What a process is called, and what it does.
fn comm_and_state(pid: u32) -> Option<(String, char)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (head, tail) = stat.rsplit_once(')')?;
    let name = head.split_once('(')?.1.to_owned();
    Some((name, tail.trim_start().chars().next()?))
}

/// The job's local manager, its ranks that run, and their frozen images.
struct Job {
    local: u32,
    name: String,
}

impl Job {
    fn of(mpirun: u32, name: &str) -> Job {
        let mut local = 0;
        wait_for(Duration::from_secs(20), "the local manager", || {
            local = children(mpirun).first().copied().unwrap_or(0);
            local != 0
        });
        Job {
            local,
            // As the kernel keeps it.
            name: name.chars().take(15).collect(),
        }
    }

    fn called(&self, name: &str) -> Vec<u32> {
        let is = |pid: &u32| {
            comm_and_state(*pid).is_some_and(|(n, state)| n == name && !"TZX".contains(state))
        };
        children(self.local).into_iter().filter(is).collect()
    }

    fn ranks(&self) -> Vec<u32> {
        self.called(&self.name)
    }

    fn images(&self) -> Vec<u32> {
        self.called("rejoin-twin")
    }
}

struct Case {
    name: &'static str,
    args: &'static [&'static str],
    /// The order in which lines come from one rank is the same in every run.
    ordered: bool,
}

/// The lines of each rank, in the order in which it wrote them.
fn by_rank(text: &str, ordered: bool) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let tag = |line: &String| line.split('>').next().unwrap_or("").to_owned();
    if ordered {
        lines.sort_by_key(tag);
    } else {
        lines.sort();
    }
    lines
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

/// Kills until the job has ended. Returns how many were killed.
fn torment(job: &Job, mpirun: u32, numbers: &mut Numbers) -> u32 {
    let mut killed = 0;
    // Nothing can be killed in vain before the first checkpoint is there.
    let begun = Instant::now();
    while job.images().len() < RANKS as usize {
        if !is_alive(mpirun) || begun.elapsed() > Duration::from_secs(20) {
            return 0;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    while is_alive(mpirun) {
        // The moment is what is looked for, so time is the way to it.
        let pause = match numbers.below(5) {
            0 => numbers.below(5_000),
            _ => 20_000 + numbers.below(200_000),
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
    let folder = root().join(format!(
        "target/survive-{}-{}-{seed}",
        std::process::id(),
        case.name
    ));
    let path = |name: &str| files.then(|| folder.join(name));
    if files {
        std::fs::create_dir_all(&folder).expect("a folder");
    }
    let plain = run(case, &["--recovery", "none"], path("plain").as_ref()).ok();
    let options = ["--checkpoint-interval", "0.1", "--max-restarts", "100000"];
    let child = run(case, &options, path("killed").as_ref()).start();
    let mpirun = child.id();
    let what = format!("{} with seed {seed}", case.name);
    let done: (Finished, u32, Vec<u32>) = std::thread::scope(|scope| {
        let killer = scope.spawn(|| {
            let job = Job::of(mpirun, case.name);
            let all = descendants(mpirun);
            (torment(&job, mpirun, &mut Numbers(seed)), all)
        });
        let done = finish(child, Duration::from_secs(100), &what);
        let (killed, all) = killer.join().expect("the killer");
        (done, killed, all)
    });
    let (done, killed, all) = done;
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
        std::fs::remove_dir_all(&folder).expect("the folder goes");
    }
    all_gone(&all, Duration::from_secs(2));
    killed
}

fn program_survives(case: &Case, seeds: std::ops::Range<u64>, files: bool) {
    let rounds: u64 = std::env::var("REJOIN_SURVIVE_ROUNDS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(1);
    let count = seeds.end - seeds.start;
    let mut killed = 0;
    for seed in seeds.start..seeds.start + count * rounds {
        killed += survives(case, seed, files);
    }
    println!("{}: {killed} ranks killed", case.name);
    assert!(killed >= 5, "{}: only {killed} killed", case.name);
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
