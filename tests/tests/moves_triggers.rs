//! What makes ranks move: the health command of a host, SIGTERM to a local manager, and the user.
//! The answer is that of an undisturbed job. Root is needed, as in `hosts`.

use rejoin_tests::Finished;
use rejoin_tests::hosts;
use rejoin_tests::hosts::Hosts;
use rejoin_tests::hosts::job::{Job, SOON, good, lines};
use rejoin_tests::processes::{all_gone, is_alive, kill, state, wait_for};

/// The job has ended with the same output, and never rolled back.
fn undisturbed(job: &Finished, alone: &Finished) {
    good(job);
    assert_eq!(lines(job), lines(alone), "{}", job.text());
    assert!(!job.stderr().contains("rolls back"), "{}", job.text());
}

/// A health command of all hosts, which runs the script of a host if it has one.
fn health(hosts: &Hosts) -> String {
    let folder = hosts.folder().display().to_string();
    format!("script={folder}/$(hostname).health; test -e $script || exit 0; . $script")
}

/// The health command of this host does that from now on.
fn set_health(hosts: &Hosts, number: usize, script: &str) {
    let path = hosts.folder().join(format!("h{number}.health"));
    let fresh = path.with_extension("fresh");
    std::fs::write(&fresh, script).expect("a script");
    std::fs::rename(fresh, path).expect("a script");
}

#[test]
fn ranks_leave_a_host_whose_health_command_says_so() {
    let hosts = hosts!(3);
    let alone = Job::undisturbed(&hosts, &[]);
    let command = health(&hosts);
    let options = ["--spare", "h3", "--health", &command];
    let mut job = Job::jacobi(
        &hosts,
        &[&options[..], &["--health-interval", "0.1"]].concat(),
    );
    job.until("committed", 1);
    let managers = hosts.processes(2, "rejoin-local");
    set_health(&hosts, 2, "echo a fan is broken; echo more; exit 2");
    job.until("host-drains", 1);
    job.until("moved", 2);
    assert!(!hosts.places().contains(&"h2".to_owned()));
    all_gone(&managers, SOON);
    job.until("host-state", 3);
    assert_eq!(hosts.states(), ["active", "inactive", "active"]);
    let done = job.end();
    assert!(
        done.stderr().contains("(a fan is broken)"),
        "{}",
        done.text()
    );
    undisturbed(&done, &alone);
}

#[test]
fn a_suspect_host_gets_no_ranks_while_another_has_room() {
    let hosts = hosts!(4);
    let alone = Job::undisturbed(&hosts, &[]);
    let command = health(&hosts);
    set_health(&hosts, 1, "sleep 60");
    let options = ["--spare", "h3,h4:2", "--health", &command];
    let times = ["--health-interval", "0.2", "--health-timeout", "0.2"];
    let mut job = Job::jacobi(&hosts, &[&options[..], &times].concat());
    job.until("committed", 1);
    // A host that gives no answer counts as before.
    job.until("no-health", 1);
    set_health(&hosts, 2, "echo it is hot; exit 1");
    job.until("host-state", 1);
    let status = hosts.status();
    assert_eq!(status["hosts"][1]["cause"], "it is hot", "{status}");
    assert_eq!(hosts.states(), ["active", "suspect", "spare", "spare"]);
    for rank in ["0", "1"] {
        let moved = hosts.rejoin(&["migrate", rank]);
        assert!(moved.status.success(), "{moved:?}");
    }
    assert_eq!(hosts.places(), ["h3", "h4", "h2", "h2"]);
    set_health(&hosts, 2, "exit 0");
    job.reaches("h2 is active again", || hosts.states()[1] == "active");
    assert_eq!(job.events("no-health"), 1);
    undisturbed(&job.end(), &alone);
}

#[test]
fn ranks_leave_a_host_whose_manager_gets_sigterm() {
    let hosts = hosts!(3);
    let alone = Job::undisturbed(&hosts, &[]);
    let mut job = Job::jacobi(&hosts, &["--spare", "h3"]);
    job.until("committed", 1);
    let managers = hosts.processes(2, "rejoin-local");
    kill(*managers.last().expect("a manager"), libc::SIGTERM);
    job.until("moved", 2);
    all_gone(&managers, SOON);
    assert!(!hosts.places().contains(&"h2".to_owned()));
    let done = job.end();
    assert!(done.stderr().contains("got SIGTERM"), "{}", done.text());
    undisturbed(&done, &alone);
}

#[test]
fn a_manager_that_gets_sigterm_twice_ends_at_once_as_a_lost_host() {
    let hosts = hosts!(3);
    let alone = Job::undisturbed(&hosts, &[]);
    let mut job = Job::jacobi(&hosts, &["--spare", "h3"]);
    job.until_in_files(1);
    let managers = hosts.processes(2, "rejoin-local");
    let manager = *managers.last().expect("a manager");
    kill(manager, libc::SIGTERM);
    kill(manager, libc::SIGTERM);
    // Signals that wait are one. The second comes when the first is taken.
    job.reaches("the end of the manager", || {
        kill(manager, libc::SIGTERM);
        !is_alive(manager)
    });
    let done = job.end();
    good(&done);
    assert_eq!(lines(&done), lines(&alone), "{}", done.text());
}

#[test]
fn a_job_whose_hosts_all_get_sigterm_ends_as_by_lost_hosts() {
    let hosts = hosts!(2);
    let mut job = Job::jacobi(&hosts, &[]);
    job.until("committed", 1);
    for number in 1..=2 {
        let managers = hosts.processes(number, "rejoin-local");
        kill(*managers.last().expect("a manager"), libc::SIGTERM);
    }
    // There is nowhere to go for the second one, which tells so after its first ranks have come.
    let mpirun = job.child.id();
    wait_for(SOON, "the end of the job", || state(mpirun) == 'Z');
    let done = job.end();
    assert!(!done.output.status.success(), "{}", done.text());
}
