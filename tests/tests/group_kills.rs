//! Ranks of jobs on two hosts are killed repeatedly, where the ranks of each host, or each rank,
//! are a recovery group: it returns, and the others continue. The program ends like an undisturbed
//! run. Root is needed, as in `hosts`.
//!
//! `REJOIN_SURVIVE_SEED` is the first seed.

use rejoin_tests::hosts;
use rejoin_tests::hosts::Hosts;
use rejoin_tests::hosts::job::{Job, good, lines};
use rejoin_tests::job::Numbers;
use rejoin_tests::processes::{kill, state};
use rejoin_tests::program;
use rejoin_tests::torment::number;
use std::time::Duration;

/// Ranks killed in the runs of a test: with two tests of each mode, 200 and more for each kind of
/// groups.
const KILLS: usize = 208;
/// Runs of one program at most to come to that.
const MOST_RUNS: u64 = 20;

/// What is a group, in turns; half of the kills are of jobs with each.
const GROUPS: [&str; 2] = ["host", "rank"];

/// The options of a job in its mode with these groups.
fn options<'a>(recovery: &'a str, groups: &'a str) -> [&'a str; 6] {
    let [limit, many] = ["--max-restarts", "100000"];
    ["--recovery", recovery, "--log-group", groups, limit, many]
}

/// Kills ranks until the job has computed all, or enough were killed; how many.
fn torment(hosts: &Hosts, job: &mut Job, program: &str, seed: u64, most: usize) -> usize {
    let mut numbers = Numbers(seed);
    let mut killed = 0;
    // Before that the job would begin anew.
    job.until("committed", 2);
    while killed < most && state(job.child.id()) != 'Z' {
        // The test looks for a moment in time, so it sleeps.
        std::thread::sleep(Duration::from_micros(5_000 + numbers.below(60_000)));
        let host = 1 + numbers.below(2) as usize;
        let victims = hosts.processes(host, program);
        let count = if numbers.below(4) == 0 { 2 } else { 1 };
        for victim in victims.into_iter().take(count) {
            kill(victim, libc::SIGKILL);
            killed += 1;
        }
    }
    killed
}

/// Runs with each kind of groups until enough ranks were killed. `run` kills at most so many ranks
/// of a job, checks how it ends, and returns how many.
fn enough(what: &str, mut run: impl FnMut(&str, u64, usize) -> usize) {
    let first = number("REJOIN_SURVIVE_SEED", 1);
    let wanted = KILLS / GROUPS.len();
    for groups in GROUPS {
        let mut killed = 0;
        for seed in first..first + MOST_RUNS {
            if killed >= wanted {
                break;
            }
            let more = run(groups, seed, wanted - killed);
            println!("{what}, groups of a {groups}, seed {seed}: {more} ranks killed");
            killed += more;
        }
        assert!(
            killed >= wanted,
            "{what}, {groups}: only {killed} ranks were killed"
        );
    }
}

/// A program whose output is the same in each run.
fn stencil(recovery: &str) {
    let hosts = hosts!(2);
    let undisturbed = Job::undisturbed(&hosts, &[]);
    enough(recovery, |groups, seed, most| {
        let mut job = Job::jacobi(&hosts, &options(recovery, groups));
        let killed = torment(&hosts, &mut job, "jacobi", seed, most);
        // The program looks for a file before it ends, which a replay would see too early: all
        // replays must have ended, also those that the first checkpoint met.
        hosts.settle(&mut job, "jacobi");
        // Ranks that are killed while they come back return once.
        let returned = job.events("recovered");
        assert!(
            returned * 10 >= killed,
            "{returned} returns, {killed} kills"
        );
        hosts.take_files(&mut job);
        hosts.take_files(&mut job);
        let done = job.end();
        good(&done);
        assert_eq!(lines(&done), lines(&undisturbed), "{}", done.text());
        killed
    });
}

/// A server that receives with wildcards, and clients that know the order of its answers.
fn server(recovery: &str) {
    let hosts = hosts!(2);
    enough(recovery, |groups, seed, most| {
        // Without a gate: kills come while questions are asked.
        let options = options(recovery, groups);
        let mut job = Job::start(&hosts, &options, |run| {
            run.arg(program("orders")).arg("8000").arg("100000")
        });
        let killed = torment(&hosts, &mut job, "orders", seed, most);
        job.ends_in_one_order();
        killed
    });
}

#[test]
fn a_stencil_whose_messages_senders_log() {
    stencil("sender-log");
}

#[test]
fn a_stencil_whose_messages_receivers_log() {
    stencil("receiver-log");
}

#[test]
fn a_server_whose_questions_senders_log() {
    server("sender-log");
}

#[test]
fn a_server_whose_questions_receivers_log() {
    server("receiver-log");
}
