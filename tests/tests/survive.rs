//! Ranks are killed repeatedly, at seeded moments. The program ends like an undisturbed run: the
//! same exit code, the same lines, each once.
//!
//! `REJOIN_SURVIVE_ROUNDS` runs each program so many times with other seeds (1 by default), from
//! `REJOIN_SURVIVE_SEED` on.

use rejoin_tests::torment::{Case, program_survives};

/// Ranks that come back in all runs of a program, at least: with eight programs, 200 and more.
const LEAST: u32 = 26;

fn ordered(name: &'static str, args: &'static [&'static str]) {
    let case = Case {
        name,
        args,
        mode: &[],
        ordered: true,
        files: false,
        with_images: false,
        shows: None,
        least: LEAST,
    };
    program_survives(&case, 1..3);
}

#[test]
fn a_stencil_with_halo_exchange() {
    ordered("jacobi", &["512", "2500"]);
}

#[test]
fn conjugate_gradients_with_allreduce() {
    ordered("cg", &["256", "1500"]);
}

#[test]
fn an_all_to_all_sort() {
    ordered("sort", &["50000", "60"]);
}

#[test]
fn a_master_and_workers_with_wildcards() {
    ordered("master", &["2000", "200000"]);
}

#[test]
fn derived_datatypes_and_communicators() {
    ordered("derived", &["128", "400"]);
}

#[test]
fn intercommunicators() {
    ordered("intercomms", &["150"]);
}

#[test]
fn neighbourhood_collectives() {
    ordered("neighborhoods", &["400"]);
}

#[test]
fn partitioned_communication() {
    ordered("partitioned", &["600"]);
}

#[test]
fn persistent_requests() {
    ordered("persistent", &["20000", "600"]);
}

#[test]
fn a_program_that_is_mostly_outside_mpi() {
    let case = Case {
        name: "outside",
        args: &["150"],
        mode: &[],
        ordered: true,
        files: true,
        with_images: false,
        shows: None,
        least: LEAST,
    };
    program_survives(&case, 1..3);
}

#[test]
fn messages_of_all_sizes_and_modes() {
    ordered("storm", &["7", "200"]);
}
