//! Ranks move to other hosts while they log what they receive: the others stand, and a
//! rank that has moved comes back alone as before. Root is needed, as in `hosts`.

use rejoin_tests::hosts::logged_moves::{Logged, kill_rank};

fn receivers() -> Logged {
    Logged::with("receiver-log")
}

#[test]
fn a_rank_that_has_moved_is_killed_before_and_after_its_next_checkpoint() {
    receivers().killed_before_and_after_its_next_checkpoint();
}

#[test]
fn the_next_host_is_lost_before_and_after_the_next_checkpoint() {
    receivers().next_host_is_lost();
}

#[test]
fn the_former_host_is_lost_with_ranks_and_the_moved_rank_stands() {
    receivers().former_host_is_lost();
}

#[test]
fn a_drained_host_ends_and_its_ranks_come_back_elsewhere() {
    receivers().drained();
}

#[test]
fn the_rank_that_moves_is_killed_at_each_point() {
    receivers().at_each_point(|hosts, _| kill_rank(hosts, "jacobi", 1), 1);
}

#[test]
fn a_rank_that_stays_is_killed_at_each_point_and_the_move_follows() {
    receivers().at_each_point(|hosts, _| kill_rank(hosts, "jacobi", 2), 1);
}

#[test]
fn the_loss_of_the_rank_is_noticed_before_its_arrival() {
    receivers().lost_before_its_arrival();
}

#[test]
fn long_messages_that_are_logged_go_along() {
    receivers().long_messages_go_along("400");
}
