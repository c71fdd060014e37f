//! Every program of the survival tests is killed as a whole and restarted from its files, twice.

use rejoin_tests::named_job::NamedJob;

/// Seconds between checkpoints, in memory and in files: two of them precede each kill.
const INTERVAL: &str = "0.05";

/// Kills all processes of the job at once, restarts it over the other transport, and does so again.
/// `arguments` has `N` for this many steps. A program that ends before its second kill has more of
/// them the next time, however fast the machine is. `ordered`: the order of a rank's lines is the
/// same in every run.
fn restarts(name: &str, arguments: &[&str], mut steps: u64, ordered: bool) {
    for _ in 0..8 {
        let number = steps.to_string();
        let arguments = arguments.iter().map(|one| one.replace('N', &number));
        let arguments: Vec<_> = arguments.collect();
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        if killed_twice(name, &arguments, ordered) {
            return;
        }
        println!("{name} ends too soon with {steps} steps");
        steps *= 2;
    }
    panic!("{name} ends before its second kill");
}

/// Returns whether both kills came before the end.
fn killed_twice(name: &str, arguments: &[&str], ordered: bool) -> bool {
    let mut job = NamedJob::new(&format!("restarts-{name}"), name, arguments);
    job.interval = INTERVAL;
    let files = ["--image-interval", INTERVAL];
    let with = |over| [&files[..], &["--transport", over]].concat();
    let child = job.first(&with("shm")).start();
    if job.killed_unless_over(child).is_some() {
        return false;
    }
    let child = job.again(&with("tcp")).start();
    if job.killed_unless_over(child).is_some() {
        return false;
    }
    let packed = ["--image-compression", "lz4"];
    let child = job.again(&[&with("shm")[..], &packed].concat()).start();
    match ordered {
        true => {
            job.ends_well(child);
        }
        false => job.ends_in_any_order(child),
    }
    true
}

#[test]
fn a_stencil_with_halo_exchange() {
    restarts("jacobi", &["512", "N"], 2500, true);
}

#[test]
fn conjugate_gradients_with_allreduce() {
    restarts("cg", &["256", "N"], 1500, true);
}

#[test]
fn an_all_to_all_sort() {
    restarts("sort", &["50000", "N"], 60, true);
}

#[test]
fn a_master_and_workers_with_wildcards() {
    restarts("master", &["N", "200000"], 2000, true);
}

#[test]
fn derived_datatypes_and_communicators() {
    restarts("derived", &["128", "N"], 400, true);
}

#[test]
fn persistent_requests() {
    restarts("persistent", &["20000", "N"], 600, true);
}

#[test]
fn messages_of_all_sizes_and_modes() {
    restarts("storm", &["7", "N"], 200, true);
}

#[test]
fn workers_with_mutexes_of_every_kind_and_condition_variables() {
    restarts("pool", &["N"], 2000, true);
}

#[test]
fn a_stencil_on_the_threads_of_openmp() {
    restarts("openmp", &["400", "N"], 400, true);
}

#[test]
fn four_threads_of_each_rank_that_all_communicate() {
    restarts("talkers", &["N"], 1500, false);
}

#[test]
fn threads_that_come_and_go() {
    restarts("shortlived", &["N"], 400, true);
}

#[test]
fn a_program_that_is_mostly_outside_mpi() {
    restarts("outside", &["N"], 150, true);
}

#[test]
fn exceptions_of_cpp_in_flight() {
    restarts("exceptions", &["N"], 400, true);
}

#[test]
fn panics_of_rust_that_are_caught() {
    restarts("panics", &["N"], 400, true);
}
