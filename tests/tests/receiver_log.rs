//! Optimistic logging over several hosts: no message waits until what it depends on is stored.
//! Root is needed, as in `hosts`.

use std::time::Duration;

use rejoin_tests::hosts;
use rejoin_tests::hosts::Hosts;
use rejoin_tests::hosts::job::{Job, good, lines};
use rejoin_tests::processes::kill;

const LOGS: [&str; 2] = ["--recovery", "receiver-log"];
/// A host that is lost is missed soon.
const SHORT: [&str; 2] = ["--host-lease", "1"];

fn orders(hosts: &Hosts, way: &[&str]) -> Job {
    Job::orders(hosts, &[&LOGS[..], way].concat(), 24_000)
}

#[test]
fn ranks_that_depend_on_what_a_lost_host_had_return_with_it() {
    let ways: [&[&str]; 3] = [
        // The host of the server is lost, or that of the server and of a client.
        &["--host", "h2:1,h1:3", "--spare", "h3"],
        &["--host", "h2:2,h1:2", "--log-group", "rank"],
        &["--host", "h2:2,h1:1,h3:1", "--log-group", "rank"],
    ];
    for way in ways {
        let mut hosts = hosts!(3);
        // An image would wait until what it depends on is stored.
        let once = ["--checkpoint-interval", "asked", "--max-restarts", "1"];
        // Ranks of a manager that is suspended act until the end of its lease.
        let once = [&once[..], &["--host-lease", "4"]].concat();
        let mut job = orders(&hosts, &[way, &once].concat());
        job.until_committed("partner", 1);
        // From now on nothing of this host is stored elsewhere, and its ranks continue.
        kill(hosts.processes(2, "rejoin-local")[0], libc::SIGSTOP);
        std::thread::sleep(Duration::from_secs(2));
        hosts.kill(2);
        job.until("host-replaced", 1);
        let said = job.one_order(&hosts);
        assert!(said.contains("that were lost with a host"), "{said}");
    }
}

#[test]
fn clients_of_a_lost_host_return_alone() {
    let mut hosts = hosts!(3);
    let mut job = orders(&hosts, &[&SHORT[..], &["--host", "h1:2,h2:2"]].concat());
    job.until_in_files(1);
    hosts.take_files(&mut job);
    hosts.kill(2);
    job.until("host-replaced", 1);
    job.until("recovered", 2);
    job.one_order(&hosts);
}

#[test]
fn a_lost_rank_loses_nothing_and_no_other_returns() {
    let hosts = hosts!(2);
    let mut job = orders(&hosts, &["--host", "h1:2,h2:2", "--log-group", "rank"]);
    job.until("committed", 2);
    for time in 1..=5 {
        kill(
            hosts.processes(1 + time % 2, "orders")[time % 2],
            libc::SIGKILL,
        );
        job.until("recovered", time);
    }
    let events = job.events("recovered");
    let said = job.one_order(&hosts);
    assert!(!said.contains("were lost with a host"), "{said}");
    assert_eq!(events, 5);
}

/// Only `mpirun` has what they have received since the first checkpoint: senders retain it no more.
#[test]
fn ranks_of_a_lost_host_take_what_they_had_received_from_the_copy() {
    let mut hosts = hosts!(3);
    let undisturbed = Job::undisturbed(&hosts, &[]);
    let once = ["--checkpoint-interval", "asked", "--stats"];
    let way = ["--spare", "h3", "--log-group", "rank"];
    let mut job = Job::jacobi_without_times(&hosts, &[&LOGS[..], &SHORT, &once, &way].concat());
    job.until_committed("partner", 1);
    std::thread::sleep(Duration::from_millis(500));
    hosts.kill(2);
    job.until("recovered", 2);
    let done = job.end();
    good(&done);
    assert_eq!(lines(&done), lines(&undisturbed), "{}", done.text());
    let text = done.stderr();
    let restored = |rank: usize| {
        let begin = format!("stats: rank {rank}:");
        let line = text.lines().find(|line| line.contains(&begin));
        let counters = line.expect("a line per rank").split_whitespace();
        let of_log = counters.filter_map(|word| word.strip_prefix("received_restored="));
        of_log
            .map(|number| number.parse::<u64>().expect("a number"))
            .sum()
    };
    let restored: [u64; 4] = std::array::from_fn(restored);
    assert!(
        restored[2..].iter().all(|count| *count > 10),
        "{restored:?}"
    );
    assert_eq!(restored[..2], [0, 0], "they stand: {text}");
}

#[test]
fn a_program_without_nondeterminism_has_no_orphans() {
    let mut hosts = hosts!(3);
    let undisturbed = Job::undisturbed(&hosts, &[]);
    let mut job =
        Job::jacobi_without_times(&hosts, &[&LOGS[..], &SHORT, &["--spare", "h3"]].concat());
    job.until_in_files(1);
    hosts.take_files(&mut job);
    hosts.kill(2);
    job.until("recovered", 2);
    let done = job.end();
    good(&done);
    assert_eq!(lines(&done), lines(&undisturbed), "{}", done.text());
    assert!(!done.stderr().contains("were lost with a host"));
}
