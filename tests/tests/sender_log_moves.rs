//! Ranks move to other hosts while senders log their messages: the others stand, and a
//! rank that has moved comes back alone as before. Root is needed, as in `hosts`.

use rejoin_tests::hosts;
use rejoin_tests::hosts::Hosts;
use rejoin_tests::hosts::job::{Job, good};
use rejoin_tests::hosts::logged_moves::{Logged, kill_rank, migrate, pids, same_lines};
use rejoin_tests::hosts::moves::rejoin;

fn senders() -> Logged {
    Logged::with("sender-log")
}

#[test]
fn a_rank_that_has_moved_is_killed_before_and_after_its_next_checkpoint() {
    senders().killed_before_and_after_its_next_checkpoint();
}

#[test]
fn the_next_host_is_lost_before_and_after_the_next_checkpoint() {
    senders().next_host_is_lost();
}

#[test]
fn the_former_host_is_lost_with_ranks_and_the_moved_rank_stands() {
    senders().former_host_is_lost();
}

/// Nothing of the rank's images is left in memory, so it comes back from the file.
#[test]
fn a_former_host_without_ranks_is_lost_and_then_the_moved_rank() {
    let mut hosts = hosts!(3);
    let options = ["--host", "h1:3,h2:1", "--spare", "h3:4"];
    let mut job = senders().orders(&hosts, &options);
    migrate(&hosts, 3, "h3");
    hosts.kill(2);
    job.until("empty-host-lost", 1);
    kill_rank(&hosts, "orders", 3);
    job.one_order(&hosts);
}

#[test]
fn a_drained_host_ends_and_its_ranks_come_back_elsewhere() {
    senders().drained();
}

#[test]
fn the_rank_that_moves_is_killed_at_each_point() {
    senders().at_each_point(|hosts, _| kill_rank(hosts, "jacobi", 1), 1);
}

#[test]
fn a_rank_that_stays_is_killed_at_each_point_and_the_move_follows() {
    senders().at_each_point(|hosts, _| kill_rank(hosts, "jacobi", 2), 1);
}

#[test]
fn the_central_manager_is_killed_at_each_point() {
    let kill_central = |_: &Hosts, job: &Job| {
        job.kill_central();
        Vec::new()
    };
    senders().at_each_point(kill_central, 0);
}

#[test]
fn the_loss_of_the_rank_is_noticed_before_its_arrival() {
    senders().lost_before_its_arrival();
}

#[test]
fn long_messages_that_are_retained_go_along() {
    senders().long_messages_go_along("150");
}

#[test]
fn a_group_whose_ranks_are_on_several_hosts_comes_back_together() {
    let hosts = hosts!(3);
    let alone = Job::undisturbed(&hosts, &[]);
    let options = ["--recovery", "sender-log", "--spare", "h3:4"];
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
    let mut job = Job::jacobi(
        &hosts,
        &senders().options(&["--spare", "h3:4", "--stable", "rank"]),
    );
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
