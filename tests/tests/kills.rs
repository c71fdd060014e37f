//! Any process is killed at any time: the job ends soon, names the process, and leaves nothing.

use rejoin_tests::folder::Folder;
use rejoin_tests::job::{Numbers, living_children};
use rejoin_tests::limits::{LIMIT, SOON};
use rejoin_tests::processes::{all_gone, children, descendants, kill, wait_for};
use rejoin_tests::{Finished, Run, finish, program};
use std::io::{BufRead, BufReader};
use std::process::Child;
use std::time::Duration;

const RANKS: u32 = 4;
/// The transports within a host.
const TRANSPORTS: [&str; 2] = ["tcp", "shm"];

/// A run whose temporary files lie in the folder, which must be empty in the end.
fn tidy(folder: &Folder, run: Run) -> Run {
    // These tests check how the job ends. In tests/survive.rs it continues.
    run.env("TMPDIR", &folder.name(""))
        .env("REJOIN_RECOVERY", "none")
}

fn empty_at_the_end(folder: Folder) {
    let left: Vec<_> = std::fs::read_dir(&*folder).expect("the folder").collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// Files in shared memory that are ours, and of no program of another test: those name themselves
/// after what they are for.
fn shared() -> Vec<String> {
    let entries = std::fs::read_dir("/dev/shm")
        .into_iter()
        .flatten()
        .flatten();
    entries
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .filter(|name| name.contains("rejoin"))
        .filter(|name| {
            let of_programs = ["rejoin-together", "rejoin-unlinked", "rejoin-within"];
            !of_programs.iter().any(|begin| name.starts_with(begin))
        })
        .collect()
}

/// Starts `moments PHASE` and reads the pids of its ranks.
fn started(folder: &Folder, phase: &str) -> (Child, Vec<u32>) {
    started_over("auto", folder, phase)
}

/// The same over a transport.
fn started_over(transport: &str, folder: &Folder, phase: &str) -> (Child, Vec<u32>) {
    let run = Run::new(RANKS, program("moments")).arg(phase);
    let run = run.env("REJOIN_TRANSPORT", transport);
    let mut child = tidy(folder, run).start();
    let mut lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
    let mut pids = vec![0; RANKS as usize];
    for _ in 0..RANKS {
        let line = lines.next().expect("a line per rank").expect("text");
        let words: Vec<_> = line.split_whitespace().collect();
        pids[words[1].parse::<usize>().expect("rank")] = words[3].parse().expect("pid");
    }
    (child, pids)
}

fn ended(child: Child, what: &str) -> Finished {
    finish(child, SOON, what)
}

fn rank_killed(phase: &str) {
    let before = shared();
    for seed in 1..=6 {
        let mut numbers = Numbers(seed);
        let folder = Folder::new(&format!("{phase}-{seed}"));
        let over = TRANSPORTS[seed as usize % 2];
        let (child, pids) = started_over(over, &folder, phase);
        let all = descendants(child.id());
        // The test looks for a moment in time, so it sleeps.
        std::thread::sleep(Duration::from_micros(numbers.below(40_000)));
        let victim = numbers.below(u64::from(RANKS)) as usize;
        let what = format!("{phase} over {over}, seed {seed}, rank {victim}");
        kill(pids[victim], libc::SIGKILL);
        let done = ended(child, &what);
        let code = done.output.status.code();
        assert_eq!(code, Some(128 + libc::SIGKILL), "{what}: {}", done.text());
        let line = done.last_line();
        let text = format!("(pid {}) was killed by signal 9 (SIGKILL)", pids[victim]);
        assert!(
            line.starts_with(&format!("mpirun: rank {victim} on host ")),
            "{what}: {line}"
        );
        assert!(line.contains(&text), "{what}: {line}");
        all_gone(&all, SOON);
        empty_at_the_end(folder);
    }
    assert_eq!(shared(), before);
}

#[test]
fn a_rank_killed_around_init_ends_the_job() {
    rank_killed("init");
}

#[test]
fn a_rank_killed_in_collectives_ends_the_job() {
    rank_killed("collective");
}

#[test]
fn a_rank_killed_in_large_messages_ends_the_job() {
    rank_killed("rendezvous");
}

#[test]
fn a_rank_killed_in_small_messages_ends_the_job() {
    rank_killed("small");
}

#[test]
fn a_rank_killed_around_finalize_ends_the_job() {
    rank_killed("finalize");
}

#[test]
fn several_ranks_killed_at_once_end_the_job() {
    for seed in 1..=4 {
        let folder = Folder::new(&format!("several-{seed}"));
        let (child, pids) = started(&folder, "collective");
        std::thread::sleep(Duration::from_micros(Numbers(seed).below(40_000)));
        pids[1..].iter().for_each(|&pid| kill(pid, libc::SIGKILL));
        let done = ended(child, &format!("seed {seed}"));
        let line = done.last_line();
        assert_eq!(done.output.status.code(), Some(137), "{}", done.text());
        assert!(line.contains("was killed by signal 9"), "{line}");
        all_gone(&pids, SOON);
        empty_at_the_end(folder);
    }
}

#[test]
fn a_killed_manager_ends_the_job() {
    for phase in ["init", "collective", "rendezvous", "finalize"] {
        let folder = Folder::new(&format!("local-{phase}"));
        let (child, _) = started(&folder, phase);
        let all = descendants(child.id());
        let local = living_children(child.id(), "rejoin-local");
        assert_eq!(local.len(), 1, "{phase}");
        kill(local[0], libc::SIGKILL);
        let done = ended(child, phase);
        assert_eq!(done.output.status.code(), Some(1), "{}", done.text());
        let line = done.last_line();
        assert!(
            line.starts_with("mpirun: host ") && line.contains("its local manager ended"),
            "{phase}: {line}"
        );
        all_gone(&all, SOON);
        empty_at_the_end(folder);

        let folder = Folder::new(&format!("mpirun-{phase}"));
        let (child, _) = started(&folder, phase);
        let all = descendants(child.id());
        kill(child.id(), libc::SIGKILL);
        all_gone(&all, SOON);
        ended(child, phase);
        empty_at_the_end(folder);
    }
}

#[test]
fn any_process_killed_at_any_moment_of_a_whole_run_leaves_nothing() {
    let (mut hits, mut seed) = (0, 0);
    // A run that is over before its kill does not count.
    while hits < 16 {
        seed += 1;
        assert!(seed <= 80, "only {hits} kills came in time");
        let mut numbers = Numbers(seed);
        let folder = Folder::new(&format!("any-{seed}"));
        let run = Run::new(3, program("storm")).arg("1").arg("20");
        let run = run.env("REJOIN_TRANSPORT", TRANSPORTS[seed as usize % 2]);
        let child = tidy(&folder, run).start();
        std::thread::sleep(Duration::from_micros(numbers.below(150_000)));
        let all = descendants(child.id());
        let victim = numbers.below(all.len() as u64 + 1) as usize;
        let victim = all.get(victim).copied().unwrap_or(child.id());
        kill(victim, libc::SIGKILL);
        let is_mpirun = victim == child.id();
        let what = format!("seed {seed}, pid {victim} of {all:?}");
        let done = finish(child, SOON * 2, &what);
        hits += u32::from(!done.output.status.success());
        match done.output.status.code() {
            // It was over before.
            Some(0) => {}
            Some(_) => assert!(
                done.last_line().starts_with("mpirun: "),
                "{what}: {}",
                done.text()
            ),
            None => assert!(is_mpirun, "{what}: {}", done.text()),
        }
        // Processes that were started later end in the same way.
        all_gone(&all, SOON);
        empty_at_the_end(folder);
    }
}

#[test]
fn a_stopped_rank_does_not_outlast_the_time_limit() {
    let folder = Folder::new("stopped");
    let run = Run::raw(["--timeout", "20", "-n", "4"]).arg(program("moments"));
    let child = tidy(&folder, run.arg("collective")).start();
    let mut ranks = Vec::new();
    wait_for(SOON, "the ranks", || {
        let local = living_children(child.id(), "rejoin-local");
        ranks = local.into_iter().flat_map(children).collect();
        ranks.len() == 4
    });
    let all = descendants(child.id());
    kill(ranks[1], libc::SIGSTOP);
    let done = finish(child, LIMIT, "a stopped rank");
    assert_eq!(done.output.status.code(), Some(124), "{}", done.text());
    assert!(
        done.last_line().contains("time limit of 20 s"),
        "{}",
        done.text()
    );
    all_gone(&all, SOON);
    empty_at_the_end(folder);
}
