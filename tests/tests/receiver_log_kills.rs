//! Message logging at the receivers, on one host: ranks are killed repeatedly, and only the group
//! of each comes back, to what it has logged. The program ends like an undisturbed run.
//!
//! `REJOIN_SURVIVE_ROUNDS` and `REJOIN_SURVIVE_SEED` as for `survive`.

use rejoin_tests::gated;
use rejoin_tests::torment::{Case, program_survives};
use rejoin_tests::{Run, program};

/// Ranks that come back in all runs of a program, at least: with eight programs, 200 and more.
const LEAST: u32 = 26;

fn receivers(name: &'static str, args: &'static [&'static str]) -> Case {
    Case {
        name,
        args,
        mode: EACH_RANK,
        ordered: true,
        files: false,
        with_images: false,
        shows: None,
        least: LEAST,
    }
}

fn survives(name: &'static str, args: &'static [&'static str]) {
    program_survives(&receivers(name, args), 1..3);
}

const EACH_RANK: &[&str] = &["--recovery", "receiver-log"];

#[test]
fn a_stencil_with_halo_exchange() {
    survives("jacobi", &["512", "2500"]);
}

#[test]
fn conjugate_gradients_with_allreduce() {
    survives("cg", &["256", "1500"]);
}

#[test]
fn an_all_to_all_sort() {
    survives("sort", &["50000", "60"]);
}

#[test]
fn derived_datatypes_and_communicators() {
    survives("derived", &["128", "400"]);
}

#[test]
fn intercommunicators() {
    survives("intercomms", &["150"]);
}

#[test]
fn neighbourhood_collectives() {
    survives("neighborhoods", &["400"]);
}

#[test]
fn partitioned_communication() {
    survives("partitioned", &["600"]);
}

#[test]
fn persistent_requests() {
    survives("persistent", &["20000", "600"]);
}

#[test]
fn messages_of_all_sizes_and_modes() {
    survives("storm", &["7", "200"]);
}

#[test]
fn a_master_and_workers_with_wildcards() {
    survives("master", &["2000", "200000"]);
}

#[test]
fn a_server_whose_answers_depend_on_the_order_of_questions() {
    survives("orders", &["2500", "100000"]);
}

/// A round of more than a megabyte has no room in a log of one, so senders retain messages again,
/// however often a slow machine takes checkpoints.
#[test]
fn a_log_without_room_leaves_messages_with_their_senders() {
    let case = Case {
        mode: &[
            "--recovery",
            "receiver-log",
            "--log-limit",
            "1MB",
            "--stats",
        ],
        shows: Some(("received_not_logged", 1)),
        ..receivers("sort", &["400000", "8"])
    };
    program_survives(&case, 1..3);
}

#[test]
fn senders_retain_less_than_if_they_log() {
    let most_retained = |mode: &str| {
        // No checkpoint releases what is retained.
        let asked = ["--checkpoint-interval", "asked"];
        let run = Run::raw([&asked[..], &["--recovery", mode, "--stats", "-n", "2"]].concat());
        let done = run.arg(program("sort")).arg("50000").arg("60").ok();
        let text = done.stderr();
        let counters = text.split_whitespace();
        let most = counters.filter_map(|word| word.strip_prefix("most_log_bytes="));
        let most = most.map(|number| number.parse::<u64>().expect("a number"));
        most.max().expect("a counter")
    };
    let (by_senders, by_receivers) = (most_retained("sender-log"), most_retained("receiver-log"));
    assert!(
        by_receivers < by_senders / 4,
        "{by_receivers} bytes, {by_senders} without logs at the receivers"
    );
}

#[test]
fn all_groups_but_one_are_killed_at_once() {
    gated::all_groups_but_one_are_killed("receiver-log");
}

#[test]
fn the_same_rank_is_killed_again_and_again_and_no_other_one_rolls_back() {
    gated::the_same_rank_is_killed_again_and_again("receiver-log");
}
