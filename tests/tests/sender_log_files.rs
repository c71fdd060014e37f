//! Message logging with images in files: ranks are killed together with their images in memory, and
//! only the group of each comes back, from a file.

use rejoin_tests::torment::{Case, program_survives};

const IN_FILES: &[&str] = &["--recovery", "sender-log"];

fn with_images(name: &'static str, args: &'static [&'static str]) -> Case {
    Case {
        name,
        args,
        mode: IN_FILES,
        ordered: true,
        files: false,
        with_images: true,
        shows: None,
        least: 10,
    }
}

#[test]
fn a_stencil_comes_back_from_files() {
    program_survives(&with_images("jacobi", &["512", "2500"]), 1..3);
}

#[test]
fn long_logged_messages_come_back_from_files() {
    program_survives(&with_images("sort", &["50000", "60"]), 1..3);
}

#[test]
fn messages_of_all_sizes_and_modes_come_back_from_files() {
    program_survives(&with_images("storm", &["7", "200"]), 1..3);
}

#[test]
fn the_order_that_others_have_seen_comes_back_with_a_rank_from_a_file() {
    program_survives(&with_images("orders", &["2500", "100000"]), 1..3);
}

#[test]
fn a_group_of_a_host_comes_back_from_files() {
    let case = Case {
        mode: &["--recovery", "sender-log", "--log-group", "host"],
        ..with_images("derived", &["128", "400"])
    };
    program_survives(&case, 1..3);
}
