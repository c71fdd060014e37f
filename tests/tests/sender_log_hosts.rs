//! Message logging over several hosts: the ranks of a host are a recovery group. Root is needed, as
//! in `hosts`.

use rejoin_tests::hosts::job::{Job, SOON, good, lines};
use rejoin_tests::processes::kill;
use rejoin_tests::{finish, hosts};

const LOGS: [&str; 4] = ["--recovery", "sender-log", "--host-lease", "1"];

#[test]
fn only_the_ranks_of_the_host_come_back() {
    let hosts = hosts!(2);
    let undisturbed = Job::undisturbed(&hosts, &[]);
    let mut job = Job::jacobi(&hosts, &LOGS);
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
    let mut job = Job::jacobi(&hosts, &[&LOGS[..], &["--log-group", "rank"]].concat());
    job.until("committed", 2);
    for time in 1..=5 {
        let host = 1 + time % 2;
        kill(hosts.processes(host, "jacobi")[0], libc::SIGKILL);
        job.until("recovered", time);
    }
    let done = job.end();
    good(&done);
    assert_eq!(lines(&done), lines(&undisturbed), "{}", done.text());
}

#[test]
fn a_lost_host_ends_the_job_and_no_rank_moves() {
    let mut hosts = hosts!(2);
    let mut job = Job::jacobi(&hosts, &[&LOGS[..], &["--host-patience", "2"]].concat());
    job.until("committed", 2);
    let refused = hosts.rejoin(&["migrate", "0", "--to", "h2"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success(), "{said}");
    assert!(said.contains("--recovery sender-log"), "{said}");
    hosts.kill(2);
    let done = finish(job.child, SOON, "the job that has lost a host");
    let said = done.stderr();
    assert!(
        said.contains("host h2 is lost, and its ranks with it"),
        "{said}"
    );
    assert_eq!(done.output.status.code(), Some(1), "{said}");
}
