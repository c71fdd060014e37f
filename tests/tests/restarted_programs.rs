//! Every program of the survival tests is killed as a whole and restarted from its files, twice.

use rejoin_tests::named_job::NamedJob;
use rejoin_tests::{Run, program};

/// An undisturbed run takes at least so long: both kills come before its end.
const LENGTH: f64 = 3.0;

/// So many steps that the program takes that long on this machine. `arguments` has `N` for them.
fn sized(name: &str, arguments: &[&str]) -> Vec<String> {
    let with = |steps: u64| -> Vec<String> {
        let steps = steps.to_string();
        arguments
            .iter()
            .map(|one| one.replace('N', &steps))
            .collect()
    };
    let took = |steps: u64| {
        let run = Run::raw(["--recovery", "none", "-n", "3"]).arg(program(name));
        let run = with(steps)
            .iter()
            .fold(run, |run, argument| run.arg(argument));
        run.ok().took.as_secs_f64()
    };
    // A pause of the machine must not count as steps that last long.
    let begins = took(1).min(took(1));
    let mut steps = 64;
    loop {
        let lasts = took(steps) - begins;
        if lasts > 0.3 {
            let lasts = lasts.min(took(steps) - begins).max(0.03);
            return with((steps as f64 * LENGTH / lasts).ceil() as u64);
        }
        steps *= 4;
    }
}

/// Kills all processes of the job at once, restarts it over the other transport, and does so again.
/// `ordered`: the order of a rank's lines is the same in every run.
fn restarts(name: &str, arguments: &[&str], ordered: bool) {
    let arguments = sized(name, arguments);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut job = NamedJob::new(&format!("restarts-{name}"), name, &arguments);
    let files = ["--image-interval", "0.1"];
    let with = |over| [&files[..], &["--transport", over]].concat();
    let child = job.first(&with("shm")).start();
    job.killed(child);
    let child = job.again(&with("tcp")).start();
    job.killed(child);
    let packed = ["--image-compression", "lz4"];
    let child = job.again(&[&with("shm")[..], &packed].concat()).start();
    match ordered {
        true => {
            job.ends_well(child);
        }
        false => job.ends_in_any_order(child),
    }
}

#[test]
fn a_stencil_with_halo_exchange() {
    restarts("jacobi", &["512", "N"], true);
}

#[test]
fn conjugate_gradients_with_allreduce() {
    restarts("cg", &["256", "N"], true);
}

#[test]
fn an_all_to_all_sort() {
    restarts("sort", &["50000", "N"], true);
}

#[test]
fn a_master_and_workers_with_wildcards() {
    restarts("master", &["N", "200000"], true);
}

#[test]
fn derived_datatypes_and_communicators() {
    restarts("derived", &["128", "N"], true);
}

#[test]
fn persistent_requests() {
    restarts("persistent", &["20000", "N"], true);
}

#[test]
fn messages_of_all_sizes_and_modes() {
    restarts("storm", &["7", "N"], true);
}

#[test]
fn workers_with_mutexes_of_every_kind_and_condition_variables() {
    restarts("pool", &["N"], true);
}

#[test]
fn a_stencil_on_the_threads_of_openmp() {
    restarts("openmp", &["400", "N"], true);
}

#[test]
fn four_threads_of_each_rank_that_all_communicate() {
    restarts("talkers", &["N"], false);
}

#[test]
fn threads_that_come_and_go() {
    restarts("shortlived", &["N"], true);
}

#[test]
fn a_program_that_is_mostly_outside_mpi() {
    restarts("outside", &["N"], true);
}

#[test]
fn exceptions_of_cpp_in_flight() {
    restarts("exceptions", &["N"], true);
}

#[test]
fn panics_of_rust_that_are_caught() {
    restarts("panics", &["N"], true);
}
