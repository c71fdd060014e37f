//! Ranks move to other hosts while messages are logged: the others stand, and a rank that has moved
//! comes back alone as before. Root is needed, as in `hosts`.

use rejoin_tests::hosts::Hosts;
use rejoin_tests::hosts::job::{Job, SOON, good, lines};
use rejoin_tests::hosts::moves::{Migration, POINTS, Points, done, rejoin};
use rejoin_tests::processes::{kill, wait_for};
use rejoin_tests::{Finished, Run, hosts, program};

/// Each rank is a group.
const LOGS: [&str; 6] = [
    "--recovery",
    "sender-log",
    "--host-lease",
    "1",
    "--log-group",
    "rank",
];

/// The same, and there is a spare host.
fn with_spare() -> Vec<&'static str> {
    [&LOGS[..], &["--spare", "h3:4"]].concat()
}

/// A server that answers in the order of the questions, by wildcards, probes and tests, and checks
/// in the end that nobody has seen another order.
fn orders(hosts: &Hosts, options: &[&str]) -> Job {
    let mut job = start(hosts, options);
    job.until_in_files(1);
    job
}

fn start(hosts: &Hosts, options: &[&str]) -> Job {
    Job::orders(hosts, &[&LOGS[..], options].concat(), 9000)
}

fn same_lines(job: Job, alone: &Finished) -> Finished {
    let ended = job.end();
    good(&ended);
    assert_eq!(lines(&ended), lines(alone), "{}", ended.text());
    ended
}

fn migrate(hosts: &Hosts, rank: usize, to: &str) {
    let said = done(hosts, &["migrate", &rank.to_string(), "--to", to]);
    assert!(said.contains(&format!("rank {rank} has moved")), "{said}");
}

/// Kills the processes of a rank on all hosts.
fn kill_rank(hosts: &Hosts, name: &str, rank: usize) {
    let found = hosts
        .running()
        .flat_map(|n| hosts.processes_of(n, name, rank));
    let found: Vec<u32> = found.collect();
    assert!(!found.is_empty(), "no rank {rank}");
    found.into_iter().for_each(|pid| kill(pid, libc::SIGKILL));
}

/// The processes of these ranks.
fn pids(hosts: &Hosts, name: &str, ranks: &[usize]) -> Vec<u32> {
    let of = |rank: &usize| {
        let found = hosts
            .running()
            .flat_map(|n| hosts.processes_of(n, name, *rank));
        found.collect::<Vec<u32>>()
    };
    ranks.iter().flat_map(of).collect()
}

#[test]
fn a_rank_that_has_moved_is_killed_before_and_after_its_next_checkpoint() {
    let hosts = hosts!(3);
    for rank in [0, 1, 2] {
        let asked = ["--spare", "h3:4", "--checkpoint-interval", "asked"];
        let mut job = start(&hosts, &asked);
        wait_for(SOON, "a checkpoint", || {
            rejoin(&hosts, &["checkpoint"]).output.status.success()
        });
        job.until_in_files(1);
        let others: Vec<usize> = (0..4).filter(|other| *other != rank).collect();
        let stand = pids(&hosts, "orders", &others);
        let home = hosts.places()[rank].clone();
        migrate(&hosts, rank, "h3");
        // Its images are on the host that it has left.
        kill_rank(&hosts, "orders", rank);
        job.until("recovered", 1);
        hosts.settle(&mut job, "orders");
        assert_eq!(hosts.places()[rank], home);
        migrate(&hosts, rank, "h3");
        hosts.take_files(&mut job);
        kill_rank(&hosts, "orders", rank);
        job.until("recovered", 2);
        hosts.settle(&mut job, "orders");
        assert_eq!(hosts.places()[rank], "h3");
        migrate(&hosts, rank, &home);
        hosts.take_files(&mut job);
        kill_rank(&hosts, "orders", rank);
        job.until("recovered", 3);
        assert_eq!(pids(&hosts, "orders", &others), stand);
        job.one_order();
    }
}

#[test]
fn the_next_host_is_lost_before_and_after_the_next_checkpoint() {
    for waits in [false, true] {
        let mut hosts = hosts!(4);
        let mut job = orders(&hosts, &["--spare", "h3:4,h4:4"]);
        let stand = pids(&hosts, "orders", &[1, 2, 3]);
        migrate(&hosts, 0, "h3");
        if waits {
            hosts.take_files(&mut job);
        }
        hosts.kill(3);
        job.until("host-replaced", 1);
        job.until("recovered", 1);
        assert_eq!(pids(&hosts, "orders", &[1, 2, 3]), stand);
        job.one_order();
    }
}

#[test]
fn the_former_host_is_lost_with_ranks_and_the_moved_rank_stands() {
    for waits in [false, true] {
        let mut hosts = hosts!(3);
        let mut job = orders(&hosts, &["--spare", "h3:4"]);
        migrate(&hosts, 2, "h3");
        if waits {
            hosts.take_files(&mut job);
        }
        let stand = pids(&hosts, "orders", &[0, 1, 2]);
        hosts.kill(2);
        job.until("host-replaced", 1);
        job.until("recovered", 1);
        assert_eq!(pids(&hosts, "orders", &[0, 1, 2]), stand);
        hosts.take_files(&mut job);
        kill_rank(&hosts, "orders", 2);
        job.until("recovered", 2);
        job.one_order();
    }
}

/// Nothing of the rank's images is left in memory, so all ranks are launched again from the files.
#[test]
fn a_former_host_without_ranks_is_lost_and_then_the_moved_rank() {
    let mut hosts = hosts!(3);
    let options = ["--host", "h1:3,h2:1", "--spare", "h3:4"];
    let mut job = orders(&hosts, &options);
    migrate(&hosts, 3, "h3");
    hosts.kill(2);
    job.until("empty-host-lost", 1);
    kill_rank(&hosts, "orders", 3);
    job.one_order();
}

#[test]
fn a_drained_host_ends_and_its_ranks_come_back_elsewhere() {
    let hosts = hosts!(3);
    let mut job = orders(&hosts, &["--spare", "h3:4"]);
    let before = job.events("recovered");
    done(&hosts, &["drain", "h2"]);
    wait_for(SOON, "the end of its manager", || {
        hosts.processes(2, "rejoin-local").is_empty()
    });
    assert_eq!(job.events("recovered"), before);
    kill_rank(&hosts, "orders", 3);
    kill_rank(&hosts, "orders", 0);
    job.until("recovered", before + 2);
    assert!(hosts.places().iter().all(|place| place != "h2"));
    job.one_order();
}

/// Something happens when a move comes to each of the points. Then the job is right, and ranks
/// move.
fn at_each_point(strike: impl Fn(&Hosts, &Job), recovers: usize) {
    let hosts = hosts!(3);
    let alone = Job::undisturbed(&hosts, &[]);
    let points = Points::of(&hosts);
    let mut job = Job::jacobi_with(&hosts, &with_spare(), |run| points.prepare(run, &POINTS));
    job.until_in_files(1);
    for point in POINTS {
        let recovered = job.events("recovered");
        let to = if hosts.places()[1] == "h1" {
            "h3"
        } else {
            "h1"
        };
        points.want(point);
        let moves = Migration::start(&hosts, 1, to).comes_to(&points, point);
        strike(&hosts, &job);
        points.release(point);
        let ended = moves.end();
        // At this point the new process may be there before the end of the old one is seen: then
        // nothing is lost.
        if point != "move-restore-sent" {
            job.until("recovered", recovered + recovers);
        }
        hosts.settle(&mut job, "jacobi");
        println!("{point}: to {to}: {:?}; {}", hosts.places(), ended.text());
        if !ended.output.status.success() {
            // It may be noticed first that the rank takes no image.
            assert!(ended.text().contains("does not run"), "{}", ended.text());
            migrate(&hosts, 1, to);
        }
        hosts.take_files(&mut job);
    }
    same_lines(job, &alone);
}

#[test]
fn the_rank_that_moves_is_killed_at_each_point() {
    at_each_point(|hosts, _| kill_rank(hosts, "jacobi", 1), 1);
}

#[test]
fn a_rank_that_stays_is_killed_at_each_point_and_the_move_follows() {
    at_each_point(|hosts, _| kill_rank(hosts, "jacobi", 2), 1);
}

#[test]
fn the_central_manager_is_killed_at_each_point() {
    at_each_point(|_, job| job.kill_central(), 0);
}

/// Messages of megabytes, which the log has in memory of the host.
#[test]
fn long_messages_that_are_retained_go_along() {
    let hosts = hosts!(3);
    let run = |run: Run| run.arg(program("giants")).arg("8").arg("150").arg("both");
    let two = ["-n", "2", "--host", "h1:1,h2:1"];
    let alone = Job::start(&hosts, &two, run).end();
    good(&alone);
    let options = [&two[..], &with_spare()[..]].concat();
    let mut job = Job::start(&hosts, &options, run);
    job.until_in_files(1);
    migrate(&hosts, 0, "h3");
    kill_rank(&hosts, "giants", 1);
    job.until("recovered", 1);
    migrate(&hosts, 0, "h1");
    kill_rank(&hosts, "giants", 0);
    job.until("recovered", 2);
    same_lines(job, &alone);
}

#[test]
fn a_group_whose_ranks_are_on_several_hosts_comes_back_together() {
    let hosts = hosts!(3);
    let alone = Job::undisturbed(&hosts, &[]);
    let options = [&LOGS[..4], &["--spare", "h3:4"]].concat();
    let mut job = Job::jacobi(&hosts, &options);
    job.until_in_files(1);
    let stand = pids(&hosts, "jacobi", &[0, 1]);
    migrate(&hosts, 2, "h3");
    for victim in [2, 3, 2] {
        let before = job.events("recovered");
        kill_rank(&hosts, "jacobi", victim);
        // Both ranks of the group.
        job.until("recovered", before + 2);
        hosts.settle(&mut job, "jacobi");
        assert_eq!(pids(&hosts, "jacobi", &[0, 1]), stand);
        hosts.take_files(&mut job);
        if hosts.places()[2] != "h3" {
            migrate(&hosts, 2, "h3");
        }
    }
    same_lines(job, &alone);
}

#[test]
fn no_rank_moves_whose_determinants_stay_on_its_host() {
    let hosts = hosts!(3);
    let mut job = Job::jacobi(&hosts, &[&with_spare()[..], &["--stable", "rank"]].concat());
    job.until("committed", 2);
    let refused = rejoin(&hosts, &["migrate", "1", "--to", "h3"]);
    assert!(!refused.output.status.success());
    assert!(
        refused.stderr().contains("--stable node"),
        "{}",
        refused.text()
    );
    good(&job.end());
}
