//! Message logging: ranks are killed repeatedly, and only the group of each comes back. The program
//! ends like an undisturbed run.
//!
//! `REJOIN_SURVIVE_ROUNDS` and `REJOIN_SURVIVE_SEED` as for `survive`.

use rejoin_tests::folder::Folder;
use rejoin_tests::gated::{self, Gated};
use rejoin_tests::job::Job;
use rejoin_tests::limits::LIMIT;
use rejoin_tests::processes::{is_alive, kill, wait_for};
use rejoin_tests::questions::{metrics, metrics_address, rejoin, status};
use rejoin_tests::torment::{Case, program_survives};
use rejoin_tests::{Run, finish, program};
use std::time::Duration;

/// Ranks that come back in all runs of a program, at least: with nine programs, 200 and more.
const LEAST: u32 = 26;

const EACH_RANK: &[&str] = &["--recovery", "sender-log"];

fn each_rank(name: &'static str, args: &'static [&'static str]) -> Case {
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

#[test]
fn a_stencil_with_halo_exchange() {
    program_survives(&each_rank("jacobi", &["512", "2500"]), 1..3);
}

#[test]
fn conjugate_gradients_with_allreduce() {
    program_survives(&each_rank("cg", &["256", "1500"]), 1..3);
}

#[test]
fn an_all_to_all_sort() {
    program_survives(&each_rank("sort", &["50000", "60"]), 1..3);
}

#[test]
fn derived_datatypes_and_communicators() {
    program_survives(&each_rank("derived", &["128", "400"]), 1..3);
}

#[test]
fn intercommunicators() {
    program_survives(&each_rank("intercomms", &["150"]), 1..3);
}

#[test]
fn neighbourhood_collectives() {
    program_survives(&each_rank("neighborhoods", &["400"]), 1..3);
}

#[test]
fn partitioned_communication() {
    program_survives(&each_rank("partitioned", &["600"]), 1..3);
}

#[test]
fn persistent_requests() {
    program_survives(&each_rank("persistent", &["20000", "600"]), 1..3);
}

#[test]
fn a_program_that_is_mostly_outside_mpi() {
    let case = Case {
        files: true,
        ..each_rank("outside", &["150"])
    };
    program_survives(&case, 1..3);
}

#[test]
fn messages_of_all_sizes_and_modes() {
    program_survives(&each_rank("storm", &["7", "200"]), 1..3);
}

#[test]
fn a_master_and_workers_with_wildcards() {
    program_survives(&each_rank("master", &["2000", "200000"]), 1..3);
}

/// Each client keeps what it was told, so a server that comes back and repeats another order than
/// the one that others have seen is found.
#[test]
fn a_server_whose_answers_depend_on_the_order_of_questions() {
    program_survives(&each_rank("orders", &["2500", "100000"]), 1..3);
}

#[test]
fn a_log_that_is_full_waits_for_checkpoints() {
    let case = Case {
        mode: &["--recovery", "sender-log", "--log-limit", "1MB", "--stats"],
        shows: Some(("log_full", 1)),
        // What a rank sends in a round has no room.
        ..each_rank("sort", &["400000", "12"])
    };
    program_survives(&case, 1..3);
}

#[test]
fn output_that_is_shown_once_it_stays() {
    let case = Case {
        mode: &["--recovery", "sender-log", "--output", "commit"],
        ..each_rank("derived", &["128", "400"])
    };
    program_survives(&case, 1..3);
}

#[test]
fn ranks_of_one_host_are_a_group_that_comes_back_together() {
    let case = Case {
        mode: &["--recovery", "sender-log", "--log-group", "host"],
        ..each_rank("derived", &["128", "400"])
    };
    program_survives(&case, 1..2);
}

#[test]
fn all_groups_but_one_are_killed_at_once() {
    gated::all_groups_but_one_are_killed("sender-log");
}

#[test]
fn the_same_rank_is_killed_again_and_again_and_no_other_one_rolls_back() {
    gated::the_same_rank_is_killed_again_and_again("sender-log");
}

#[test]
fn central_is_killed_while_a_rank_comes_back() {
    let gated = Gated::begin("sender-log");
    for at in 0..8_u64 {
        let before = gated.all_but(&[]);
        let victim = before[at as usize % 4];
        let central = gated.job().central().expect("a central manager");
        kill(victim, libc::SIGKILL);
        // The test looks for a moment in time, so it sleeps.
        std::thread::sleep(Duration::from_micros(300 * at));
        kill(central, libc::SIGKILL);
        let now = gated.all_but(&[victim]);
        let stood = before.iter().filter(|pid| now.contains(pid)).count();
        assert_eq!(stood, 3, "{before:?}, then {now:?}");
        wait_for(LIMIT, "the next central manager", || {
            let next = gated.job().central();
            next.is_some_and(|pid| pid != central && is_alive(pid))
        });
    }
    gated.end();
}

#[test]
fn counters_show_what_is_logged() {
    let run = Run::raw(EACH_RANK).arg("--stats").arg("-n").arg("4");
    let done = run.arg(program("orders")).arg("200").arg("1").ok();
    assert!(done.counted("determinants") > 0, "{}", done.text());
    assert!(done.counted("most_log_bytes") > 0, "{}", done.text());
    let none = Run::raw(["--stats", "-n", "2"]);
    let done = none.arg(program("cg")).arg("16").arg("5").ok();
    assert!(!done.stderr().contains("determinants="), "{}", done.text());
}

/// The value of a metric.
fn metric(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let value = line.unwrap_or_else(|| panic!("{name}: {text}"));
    value.trim().parse().expect("a number")
}

#[test]
fn a_running_job_shows_what_its_logs_hold_also_after_a_loss_of_central() {
    let folder = Folder::new("log-use");
    let usual = ["-n", "4", "--recovery", "sender-log", "--metrics", "0"];
    let options = ["--checkpoint-interval", "0.5"];
    let run = Run::raw(usual.iter().chain(&options)).arg(program("jacobi"));
    let run = ["1024", "200", "500"].iter().fold(run, Run::arg);
    let run = run.arg(folder.name("gate"));
    let mut child = run.env("XDG_RUNTIME_DIR", &folder.name("")).start();
    let mpirun = child.id();
    let address = metrics_address(child.stderr.take().expect("standard error"));
    let job = Job::of(mpirun, "jacobi");
    // Each rank asks for the time once a step, and at the beginning.
    let all = 4 * 201;
    let logs = |least: u64| {
        let status = status(&folder, mpirun)?;
        let log = &status["log"];
        let of = |field: &str| log[field].as_u64();
        let has_all = of("determinants")? >= least && of("retained_bytes")? > 0;
        has_all.then_some(status)
    };
    wait_for(LIMIT, "all determinants", || logs(all).is_some());
    let status = logs(0).expect("logs that hold messages");
    let of = |field: &str| status["log"][field].as_u64().expect(field);
    assert_eq!(of("determinants"), all, "{status}");
    assert!(of("retained_bytes") <= 4 * of("most_retained_bytes"));
    assert!(of("memory_bytes") % 4096 == 0, "{status}");
    assert!(of("lag_ns") < 30_000_000_000, "{status}");
    let ranks = status["ranks"].as_array().expect("ranks");
    let of_ranks = ranks.iter().map(|rank| &rank["log"]["determinants"]);
    assert_eq!(of_ranks.filter_map(|one| one.as_u64()).sum::<u64>(), all);
    let text = metrics(&address);
    assert_eq!(metric(&text, "rejoin_log_determinants_total "), all as f64);
    assert!(metric(&text, "rejoin_log_most_retained_bytes ") > 0.0);
    assert!(metric(&text, "rejoin_log_retained_bytes ") >= 0.0);
    assert!(metric(&text, "rejoin_log_memory_bytes ") >= 0.0);
    assert!(metric(&text, "rejoin_log_lag_seconds ") < 30.0);
    let shown = |what: &str, text: &str| {
        let out = rejoin(&folder, &[what, &mpirun.to_string()]).stdout;
        let out = String::from_utf8_lossy(&out).into_owned();
        assert!(out.contains(text), "{out}");
    };
    shown("status", "  message log: ");
    shown("top", "\nmessage log  ");
    shown("report", "Most messages retained");
    let central = job.central().expect("a central manager");
    kill(central, libc::SIGKILL);
    wait_for(LIMIT, "the logs at the next central manager", || {
        logs(all).is_some_and(|status| status["central"] != central)
    });
    assert_eq!(job.ranks().len(), 4);
    std::fs::write(folder.join("gate"), "").expect("the gate");
    let done = finish(child, LIMIT, "the job");
    assert!(done.output.status.success(), "{}", done.text());
}
