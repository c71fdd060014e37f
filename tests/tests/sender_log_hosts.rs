//! Message logging over several hosts: the ranks of a host are a recovery group. Root is needed, as
//! in `hosts`.

use rejoin_tests::hosts::Hosts;
use rejoin_tests::hosts::job::{Job, good, lines};
use rejoin_tests::limits::SOON;
use rejoin_tests::processes::kill;
use rejoin_tests::{finish, hosts};

/// A host that is lost is missed soon.
const LOGS: [&str; 4] = ["--recovery", "sender-log", "--host-lease", "1"];
/// No host is lost, and a busy machine must not make one silent.
const SAFE: [&str; 2] = ["--recovery", "sender-log"];

#[test]
fn only_the_ranks_of_the_host_come_back() {
    let hosts = hosts!(2);
    let undisturbed = Job::undisturbed(&hosts, &[]);
    let mut job = Job::jacobi(&hosts, &SAFE);
    job.until("committed", 2);
    let others = hosts.processes(1, "jacobi");
    for time in 1..=5 {
        let victim = hosts.processes(2, "jacobi")[time % 2];
        kill(victim, libc::SIGKILL);
        // Both ranks of the host.
        job.until("recovered", 2 * time);
        job.until("committed", 2 + time);
    }
    let now = hosts.processes(1, "jacobi");
    assert!(
        others.iter().all(|pid| now.contains(pid)),
        "{others:?}, then {now:?}"
    );
    let done = job.end();
    good(&done);
    assert_eq!(lines(&done), lines(&undisturbed), "{}", done.text());
}

#[test]
fn each_rank_is_a_group_if_that_is_asked_for() {
    let hosts = hosts!(2);
    let undisturbed = Job::undisturbed(&hosts, &[]);
    let mut job = Job::jacobi(&hosts, &[&SAFE[..], &["--log-group", "rank"]].concat());
    job.until("committed", 2);
    for time in 1..=5 {
        let host = 1 + time % 2;
        kill(hosts.processes(host, "jacobi")[0], libc::SIGKILL);
        job.until("recovered", time);
    }
    job.replays_are_over(&hosts, "jacobi");
    let done = job.end();
    good(&done);
    assert_eq!(lines(&done), lines(&undisturbed), "{}", done.text());
}

/// The ranks that run on a host.
fn ranks_of(hosts: &Hosts, host: usize) -> Vec<u32> {
    hosts.processes(host, "jacobi")
}

#[test]
fn only_the_groups_of_a_lost_host_come_back_elsewhere() {
    let ways: [&[&str]; 4] = [
        &["--spare", "h3"],
        &["--output", "commit"],
        &["--log-group", "rank", "--spare", "h3"],
        &["--stable", "node", "--transport", "tcp"],
    ];
    for way in ways {
        let mut hosts = hosts!(3);
        let undisturbed = Job::undisturbed(&hosts, &[]);
        let mut job = Job::jacobi(&hosts, &[&LOGS[..], way].concat());
        job.until_in_files(2);
        let others = ranks_of(&hosts, 1);
        hosts.kill(2);
        job.until("host-replaced", 1);
        job.until("recovered", 2);
        let now = ranks_of(&hosts, 1);
        assert!(
            others.iter().all(|pid| now.contains(pid)),
            "{others:?}, then {now:?}"
        );
        let done = job.end();
        good(&done);
        assert_eq!(lines(&done), lines(&undisturbed), "{}", done.text());
        assert!(
            done.stderr().contains("its ranks continue on host"),
            "{}",
            done.text()
        );
    }
}

#[test]
fn groups_that_continued_elsewhere_are_killed_and_lose_a_host_again() {
    let mut hosts = hosts!(3);
    let undisturbed = Job::undisturbed(&hosts, &[]);
    let mut job = Job::jacobi(&hosts, &[&LOGS[..], &["--spare", "h3"]].concat());
    job.until_in_files(2);
    hosts.kill(2);
    job.until("recovered", 2);
    let newest = job.committed("memory").last().copied().unwrap_or(0);
    job.until_committed("partner", newest + 1);
    kill(ranks_of(&hosts, 3)[0], libc::SIGKILL);
    job.until("recovered", 4);
    let newest = job.committed("memory").last().copied().unwrap_or(0);
    job.until_committed("partner", newest + 1);
    hosts.kill(3);
    job.until("host-replaced", 2);
    job.until("recovered", 6);
    let done = job.end();
    good(&done);
    assert_eq!(lines(&done), lines(&undisturbed), "{}", done.text());
}

#[test]
fn central_is_killed_while_groups_of_a_lost_host_wait_for_its_lease() {
    for way in [&["--spare", "h3"][..], &["--log-group", "rank"]] {
        let hosts = hosts!(3);
        let undisturbed = Job::undisturbed(&hosts, &[]);
        let with = ["--recovery", "sender-log", "--host-lease", "10"];
        let mut job = Job::jacobi(&hosts, &[&with[..], way].concat());
        job.until_in_files(2);
        let others = ranks_of(&hosts, 1);
        // The manager ends its ranks without its supervisor, but nobody reports that.
        kill(hosts.processes(2, "rejoin-agent")[0], libc::SIGKILL);
        job.until("host-replaced", 1);
        job.kill_central();
        job.until("central-again", 1);
        assert_eq!(job.events("recovered"), 0);
        job.until("recovered", 2);
        let now = ranks_of(&hosts, 1);
        assert!(
            others.iter().all(|pid| now.contains(pid)),
            "{others:?}, then {now:?}"
        );
        let done = job.end();
        good(&done);
        assert_eq!(lines(&done), lines(&undisturbed), "{}", done.text());
    }
}

/// The server's host is lost, or that of clients, while questions are asked: the order that others
/// have seen comes back on another host.
#[test]
fn the_order_that_others_have_seen_outlives_the_host() {
    let ways: [&[&str]; 3] = [
        &["--host", "h2:1,h1:3", "--spare", "h3"],
        &["--host", "h1:2,h2:2"],
        &["--host", "h2:2,h1:2", "--log-group", "rank"],
    ];
    for way in ways {
        let mut hosts = hosts!(3);
        let options = [&LOGS[..], way].concat();
        let mut job = Job::orders(&hosts, &options, 9000);
        job.until_in_files(1);
        hosts.take_files(&mut job);
        hosts.kill(2);
        job.until("host-replaced", 1);
        job.until("recovered", 1);
        job.one_order(&hosts);
    }
}

#[test]
fn a_lost_host_ends_the_job_without_files_or_stable_determinants_and_no_rank_moves() {
    for way in [["--images", "none"], ["--stable", "rank"]] {
        let mut hosts = hosts!(2);
        let options = [&LOGS[..], &["--host-patience", "2"], &way].concat();
        let mut job = Job::jacobi(&hosts, &options);
        job.until("committed", 2);
        let refused = hosts.rejoin(&["migrate", "0", "--to", "h2"]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success(), "{said}");
        assert!(said.contains("determinants outlive hosts"), "{said}");
        hosts.kill(2);
        let done = finish(job.child, SOON, "the job that has lost a host");
        let said = done.stderr();
        assert!(
            said.contains("host h2 is lost, and its ranks with it"),
            "{said}"
        );
        assert_eq!(done.output.status.code(), Some(1), "{said}");
    }
}
