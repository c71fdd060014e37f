//! Moves, checkpoints, failures and ends of jobs at once: nothing hangs, the exit code is right,
//! and no process is left. Root is needed, as in `hosts`. `REJOIN_MOVES_SEED` takes other moments
//! (1 by default).

use rejoin_tests::hosts::Hosts;
use rejoin_tests::hosts::job::{Job, good, lines};
use rejoin_tests::hosts::moves::{Migration, Points, done, rejoin, right};
use rejoin_tests::job::Numbers;
use rejoin_tests::limits::SOON;
use rejoin_tests::processes::{all_gone, descendants, kill};
use rejoin_tests::torment::number;
use rejoin_tests::{Finished, Run, finish, hosts, program};
use std::time::{Duration, Instant};

fn seed() -> u64 {
    let seed = number("REJOIN_MOVES_SEED", 1);
    println!("seed {seed}");
    seed
}

/// What was done to a job so often.
#[derive(Default)]
struct Disturbed {
    central: usize,
    ranks: usize,
}

/// What is done to a job while its ranks move.
fn disturb(hosts: &Hosts, job: &Job, numbers: &mut Numbers, done: &mut Disturbed) {
    match numbers.below(5) {
        0 => {
            job.kill_central();
            done.central += 1;
        }
        1 | 2 => {
            let ranks: Vec<u32> = (1..=3).flat_map(|h| hosts.processes(h, "jacobi")).collect();
            if !ranks.is_empty() {
                let victim = ranks[numbers.below(ranks.len() as u64) as usize];
                kill(victim, libc::SIGKILL);
                done.ranks += 1;
            }
        }
        // Committed or aborted; either is an answer.
        3 => drop(rejoin(hosts, &["checkpoint"])),
        _ => {}
    }
}

#[test]
fn ranks_move_while_others_move_checkpoints_are_taken_and_processes_are_killed() {
    let hosts = hosts!(3);
    let alone = Job::undisturbed(&hosts, &[]);
    let options = ["--spare", "h3", "--max-restarts", "1000"];
    let mut job = Job::jacobi(&hosts, &options);
    job.until_in_files(1);
    let mut numbers = Numbers(seed());
    let (mut moved, mut disturbed) = (0, Disturbed::default());
    for _ in 0..16 {
        let targets: Vec<String> = (0..3)
            .map(|_| format!("h{}", 1 + numbers.below(3)))
            .collect();
        let ranks = [numbers.below(4), numbers.below(4), numbers.below(4)];
        let requests: Vec<Migration> = targets
            .iter()
            .zip(ranks)
            .map(|(to, rank)| Migration::start(&hosts, rank as usize, to))
            .collect();
        // The test looks for a moment in time, so it sleeps.
        std::thread::sleep(Duration::from_micros(numbers.below(120_000)));
        disturb(&hosts, &job, &mut numbers, &mut disturbed);
        for request in requests {
            let ended = request.end();
            moved += usize::from(ended.stdout().contains("has moved"));
        }
        hosts.settle(&mut job, "jacobi");
        let before = job.events("committed");
        job.until("committed", before + 1);
    }
    let (central, recovered) = (job.events("central-again"), job.events("recovered"));
    println!("{moved} moves, {central} central managers, {recovered} recoveries");
    assert!(moved >= 8, "{moved} moves only");
    assert_eq!(central, disturbed.central);
    // A process that was killed may have been one that a rank had left, or that was yet to be one.
    let killed = disturbed.ranks;
    assert!(killed < 3 || recovered > 0, "{killed} killed, none is back");
    right(&job.end(), &alone);
    hosts.nothing_runs("jacobi");
}

/// The phases at which a job ends.
const PHASES: [&str; 5] = [
    "move-sent",
    "load-sent",
    "stop-sent",
    "move-restore-sent",
    "moved-persisted",
];

/// Ends a job while its second rank moves. Returns its output, and what is said of the move.
fn ends(
    hosts: &Hosts,
    point: &str,
    options: &[&str],
    program: impl FnOnce(Run) -> Run,
    end: impl FnOnce(&Hosts, &Job),
) -> (Finished, Finished) {
    let points = Points::of(hosts);
    let all = [&["--spare", "h3"], options].concat();
    let mut job = Job::start(hosts, &all, |run| program(points.prepare(run, &PHASES)));
    job.until("committed", 1);
    points.want(point);
    let moves = Migration::start(hosts, 1, "h3").comes_to(&points, point);
    let mpirun = job.child.id();
    let processes = descendants(mpirun);
    end(hosts, &job);
    points.release(point);
    let done = finish(job.child, SOON + SOON, point);
    // It has an answer, or says that there is none any more.
    let said = moves.end();
    println!("{point}: {}{}", said.stdout(), said.stderr());
    all_gone(&processes, SOON);
    hosts.nothing_runs("jacobi");
    (done, said)
}

fn open_gate(hosts: &Hosts, _: &Job) {
    std::fs::write(Job::gate(hosts), "").expect("the gate");
}

#[test]
fn a_job_ends_while_a_rank_moves() {
    let hosts = hosts!(3);
    let alone = Job::undisturbed(&hosts, &[]);
    for point in PHASES {
        let gate = Job::gate(&hosts);
        let start = |run: Run| {
            let run = run.arg(program("jacobi")).arg("512").arg("2000");
            run.arg("0").arg(gate)
        };
        let (ended, _) = ends(&hosts, point, &[], start, open_gate);
        good(&ended);
        assert_eq!(lines(&ended), lines(&alone), "{point}: {}", ended.text());
    }
}

#[test]
fn a_job_aborts_while_a_rank_moves() {
    let hosts = hosts!(3);
    for point in PHASES {
        let gate = Job::gate(&hosts);
        let start = |run: Run| run.arg(program("abort_at")).arg(gate).arg("7");
        let (ended, _) = ends(&hosts, point, &[], start, open_gate);
        let code = ended.output.status.code();
        assert_eq!(code, Some(7), "{point}: {}", ended.text());
        hosts.nothing_runs("abort_at");
    }
}

#[test]
fn a_job_is_ended_by_a_signal_while_a_rank_moves() {
    let hosts = hosts!(3);
    for point in PHASES {
        let gate = Job::gate(&hosts);
        let start = |run: Run| {
            run.arg(program("jacobi"))
                .arg("512")
                .arg("2000")
                .arg("0")
                .arg(gate)
        };
        let stop = |_: &Hosts, job: &Job| kill(job.child.id(), libc::SIGTERM);
        let (ended, _) = ends(&hosts, point, &[], start, stop);
        let code = ended.output.status.code();
        assert_eq!(code, Some(143), "{point}: {}", ended.text());
    }
}

#[test]
fn a_job_stops_with_a_last_checkpoint_while_a_rank_moves() {
    let hosts = hosts!(3);
    let alone = Job::undisturbed(&hosts, &[]);
    for point in PHASES {
        let stop = |_: &Hosts, job: &Job| kill(job.child.id(), libc::SIGTERM);
        stops(&hosts, &alone, point, ["--grace", "60s"], stop);
    }
}

/// The job stops while its second rank moves, and continues. Returns what is said of the move.
fn stops(
    hosts: &Hosts,
    alone: &Finished,
    point: &str,
    option: [&str; 2],
    stop: impl FnOnce(&Hosts, &Job),
) -> Finished {
    let images = hosts.folder().join(format!("images-{point}{}", option[0]));
    std::fs::create_dir_all(&images).expect("a folder");
    let images = images.to_str().expect("a path in UTF-8");
    let gate = Job::gate(hosts);
    let work = |run: Run| run.arg(program("jacobi")).arg("512").arg("2000").arg("0");
    let named = [&["--images", images, "--job-name", "night"], &option[..]].concat();
    let start = |run: Run| work(run).arg(&gate);
    let (first, said) = ends(hosts, point, &named, start, stop);
    let code = first.output.status.code();
    assert_eq!(code, Some(85), "{point}: {}", first.text());
    let again = ["--images", images, "--restart=night"];
    let second = Job::start(hosts, &again, |run| run).end();
    good(&second);
    let mut both = [lines(&first), lines(&second)].concat();
    both.sort();
    let mut whole = lines(alone);
    whole.sort();
    assert_eq!(both, whole, "{point}: {}{}", first.text(), second.text());
    said
}

#[test]
fn a_rank_stays_if_the_time_comes_at_which_the_job_stops() {
    const SECONDS: u64 = 25;
    let hosts = hosts!(3);
    let alone = Job::undisturbed(&hosts, &[]);
    for point in ["move-sent", "load-sent"] {
        let time = format!("+{SECONDS}s");
        let begun = Instant::now();
        let at_time = |_: &Hosts, _: &Job| {
            // Nothing happens before that could be waited for: central waits at the point.
            let left = Duration::from_secs(SECONDS + 1).saturating_sub(begun.elapsed());
            std::thread::sleep(left);
        };
        let said = stops(&hosts, &alone, point, ["--stop-at", &time], at_time);
        assert!(!said.output.status.success(), "{}", said.text());
        let reason = "the job is to stop";
        assert!(said.stderr().contains(reason), "{}", said.text());
    }
}

#[test]
fn ranks_exchange_hosts_while_a_host_of_eight_ranks_is_drained() {
    let hosts = hosts!(3);
    let eight = ["--host", "h1:2,h2:8", "--spare", "h3:8", "-n", "10"];
    let alone = Job::undisturbed(&hosts, &eight);
    let mut job = Job::jacobi(&hosts, &eight);
    job.until("committed", 1);
    std::thread::scope(|scope| {
        let drain = scope.spawn(|| done(&hosts, &["drain", "h2"]));
        let other = scope.spawn(|| rejoin(&hosts, &["migrate", "0,1", "--to", "h3"]));
        let drained = drain.join().expect("a drain");
        assert!(drained.contains("8 ranks have moved"), "{drained}");
        let other = other.join().expect("a move");
        assert!(
            other.stdout().contains("2 ranks have moved"),
            "{}",
            other.text()
        );
    });
    let on_h2 = hosts.places().iter().filter(|host| *host == "h2").count();
    assert_eq!(on_h2, 0);
    hosts.settle(&mut job, "jacobi");
    right(&job.end(), &alone);
}
