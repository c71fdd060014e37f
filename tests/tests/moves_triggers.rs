//! What makes ranks move: the health command of a host, SIGTERM to a local manager, and the user.
//! The answer is that of an undisturbed job. Root is needed, as in `hosts`.

use rejoin_tests::hosts;
use rejoin_tests::hosts::Hosts;
use rejoin_tests::hosts::job::{Job, good, lines};
use rejoin_tests::hosts::moves::{done, undisturbed};
use rejoin_tests::job::Numbers;
use rejoin_tests::limits::SOON;
use rejoin_tests::processes::{all_gone, is_alive, kill, state, wait_for};

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
    let ended = job.end();
    assert!(
        ended.stderr().contains("(a fan is broken)"),
        "{}",
        ended.text()
    );
    undisturbed(&ended, &alone);
}

#[test]
fn a_suspect_host_gets_no_ranks_while_another_has_room() {
    let hosts = hosts!(4);
    let alone = Job::undisturbed(&hosts, &[]);
    let command = health(&hosts);
    set_health(&hosts, 1, "sleep 60");
    let options = ["--spare", "h3,h4:2", "--health", &command];
    let times = ["--health-interval", "0.2", "--health-timeout", "5"];
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
    let ended = job.end();
    assert!(ended.stderr().contains("got SIGTERM"), "{}", ended.text());
    undisturbed(&ended, &alone);
}

#[test]
fn a_manager_that_gets_sigterm_twice_ends_at_once_as_a_lost_host() {
    let hosts = hosts!(3);
    let alone = Job::undisturbed(&hosts, &[]);
    // The supervisor's report counts: nobody waits for the end of this lease.
    let mut job = Job::jacobi(&hosts, &["--spare", "h3", "--host-lease", "600"]);
    // What is in files of the host only is lost with it.
    job.until_committed("partner", 1);
    let managers = hosts.processes(2, "rejoin-local");
    let manager = *managers.last().expect("a manager");
    kill(manager, libc::SIGTERM);
    kill(manager, libc::SIGTERM);
    // Signals that wait are one. The second comes when the first is taken.
    job.reaches("the end of the manager", || {
        kill(manager, libc::SIGTERM);
        !is_alive(manager)
    });
    job.until("recovered", 1);
    let ended = job.end();
    good(&ended);
    assert_eq!(lines(&ended), lines(&alone), "{}", ended.text());
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
    let ended = job.end();
    assert!(!ended.output.status.success(), "{}", ended.text());
}

#[test]
fn ranks_spread_over_hosts_that_are_added() {
    let hosts = hosts!(4);
    let alone = Job::undisturbed(&hosts, &[]);
    let mut job = Job::jacobi(&hosts, &[]);
    job.until("committed", 1);
    assert!(done(&hosts, &["migrate", "--balance"]).contains("there already"));
    let said = done(&hosts, &["add-host", "h3:2,h4:2"]);
    assert!(said.contains("h3:2,h4:2"), "{said}");
    assert_eq!(hosts.states(), ["active", "active", "spare", "spare"]);
    let again = hosts.rejoin(&["add-host", "h4"]);
    let why = String::from_utf8_lossy(&again.stderr);
    assert!(
        !again.status.success() && why.contains("has a host h4, or has lost it"),
        "{why}"
    );
    // The next central manager knows them, too.
    job.kill_central();
    job.until("central-again", 1);
    assert!(done(&hosts, &["migrate", "--balance"]).contains("2 ranks have moved"));
    let mut places = hosts.places();
    places.sort();
    assert_eq!(places, ["h1", "h2", "h3", "h4"]);
    assert_eq!(hosts.states(), ["active"; 4]);
    assert_eq!((job.events("host-added"), job.events("moved")), (2, 2));
    undisturbed(&job.end(), &alone);
}

#[test]
fn a_lost_rank_comes_back_on_a_host_that_was_added() {
    let hosts = hosts!(3);
    let alone = Job::undisturbed(&hosts, &[]);
    let mut job = Job::jacobi(&hosts, &[]);
    job.until("committed", 1);
    done(&hosts, &["add-host", "h3:4"]);
    done(&hosts, &["drain", "h2"]);
    assert!(!hosts.places().contains(&"h2".to_owned()));
    let before = job.events("committed");
    job.until("committed", before + 2);
    let rank = hosts.processes(3, "jacobi")[0];
    kill(rank, libc::SIGKILL);
    job.until("recovered", 1);
    assert_eq!(
        hosts.places().iter().filter(|host| *host == "h3").count(),
        2
    );
    let ended = job.end();
    good(&ended);
    assert_eq!(lines(&ended), lines(&alone), "{}", ended.text());
}

#[test]
fn two_ranks_exchange_their_hosts_and_come_back() {
    let hosts = hosts!(2);
    let alone = Job::undisturbed(&hosts, &[]);
    let mut job = Job::jacobi(&hosts, &[]);
    job.until("committed", 1);
    for places in [["h1", "h2", "h1", "h2"], ["h1", "h1", "h2", "h2"]] {
        done(&hosts, &["migrate", "--exchange", "1,2"]);
        assert_eq!(hosts.places(), places);
    }
    assert_eq!(job.events("moved"), 4);
    undisturbed(&job.end(), &alone);
}

#[test]
fn an_exchange_is_made_once_however_often_the_central_manager_dies() {
    let hosts = hosts!(2);
    let alone = Job::undisturbed(&hosts, &[]);
    let mut job = Job::jacobi(&hosts, &[]);
    job.until("committed", 1);
    let mut numbers = Numbers(11);
    let places = [["h1", "h2", "h1", "h2"], ["h1", "h1", "h2", "h2"]];
    for (round, places) in places.iter().cycle().take(8).enumerate() {
        std::thread::scope(|scope| {
            let exchange = scope.spawn(|| done(&hosts, &["migrate", "--exchange", "1,2"]));
            std::thread::sleep(std::time::Duration::from_micros(numbers.below(400_000)));
            job.kill_central();
            exchange.join().expect("an exchange");
        });
        job.until("central-again", round + 1);
        assert_eq!(hosts.places(), *places, "in round {round}");
    }
    undisturbed(&job.end(), &alone);
}

#[test]
fn ranks_that_move_elsewhere_wait_for_those_of_a_host_that_is_about_to_end() {
    let hosts = hosts!(3);
    let alone = Job::undisturbed(&hosts, &[]);
    let mut job = Job::jacobi(&hosts, &["--spare", "h3"]);
    job.until("committed", 1);
    let mut manager = hosts.processes(2, "rejoin-local");
    std::thread::scope(|scope| {
        let moves = scope.spawn(|| done(&hosts, &["migrate", "0,1", "--to", "h3"]));
        kill(manager.pop().expect("a manager"), libc::SIGTERM);
        moves.join().expect("two moves");
    });
    job.until("moved", 4);
    assert!(!hosts.places().contains(&"h2".to_owned()));
    let places = hosts.places();
    assert_eq!(places[..2], ["h3", "h3"], "{places:?}");
    undisturbed(&job.end(), &alone);
}

#[test]
fn a_host_of_eight_ranks_is_drained() {
    let hosts = hosts!(3);
    let eight = ["--host", "h1:2,h2:8", "--spare", "h3:8", "-n", "10"];
    let alone = Job::undisturbed(&hosts, &eight);
    let mut job = Job::jacobi(&hosts, &eight);
    job.until("committed", 1);
    assert!(done(&hosts, &["drain", "h2"]).contains("8 ranks have moved"));
    assert_eq!(
        hosts.places().iter().filter(|host| *host == "h3").count(),
        8
    );
    undisturbed(&job.end(), &alone);
}
