//! The managers' protocol end to end, with a program that plays a rank.

mod common;

use common::{fake_rank, run};

fn ranks(count: &str, arguments: &[&str]) -> common::Done {
    let fake = fake_rank();
    let mut all = vec!["-n", count, fake.as_str()];
    all.extend_from_slice(arguments);
    run(&all)
}

#[test]
fn ranks_start_and_finalize_together() {
    for count in ["1", "2", "40"] {
        let done = ranks(count, &["ok"]);
        assert_eq!(done.code, Some(0), "{}", done.err);
        assert_eq!(done.out.lines().count().to_string(), count);
        assert!(
            done.out
                .contains(&format!("0 of {count}, program Some(0)\n")),
            "{}",
            done.out
        );
    }
}

#[test]
fn programs_know_their_number() {
    let fake = fake_rank();
    let done = run(&["-n", "1", &fake, ":", "-n", "1", &fake]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(
        done.out.contains("1 of 2, program Some(1)\n"),
        "{}",
        done.out
    );
}

#[test]
fn each_failure_has_its_code_and_line() {
    let expected = [
        (
            "quit",
            1,
            "exited with code 0 after MPI_Init without MPI_Finalize",
        ),
        ("crash", 128 + 6, "was killed by signal 6 (SIGABRT)"),
        (
            "code",
            5,
            "exited with code 5 after MPI_Init without MPI_Finalize",
        ),
        ("abort", 42, "aborted the job with code 42: as told"),
        ("garbage", 1, "above this link's limit"),
        ("twice", 1, "a second process of this rank called MPI_Init"),
        ("close", 1, "closed its socket to the manager"),
    ];
    for (mode, code, text) in expected {
        let done = ranks("3", &[mode, "1"]);
        assert_eq!(done.code, Some(code), "{mode}: {}", done.err);
        assert!(done.last_line().contains(text), "{mode}: {}", done.err);
        assert!(
            done.last_line().contains("rank 1 on host "),
            "{mode}: {}",
            done.err
        );
    }
}

#[test]
fn a_rank_that_never_calls_init_is_named() {
    let done = ranks("3", &["skip", "2"]);
    assert_eq!(done.code, Some(1));
    let text = "rank 2 ended without calling MPI_Init while rank ";
    assert!(done.last_line().contains(text), "{}", done.err);
}

#[test]
fn a_failure_after_finalize_lets_the_others_finish() {
    let done = ranks("3", &["fail-late", "1"]);
    assert_eq!(done.code, Some(9), "{}", done.err);
    assert_eq!(done.out.lines().count(), 3, "{}", done.out);
}

#[test]
fn an_abort_after_finalize_ends_the_job_at_once() {
    let done = ranks("3", &["abort-late", "1"]);
    assert_eq!(done.code, Some(42), "{}", done.err);
    let text = "aborted the job with code 42: too late";
    assert!(done.last_line().contains(text), "{}", done.err);
    // The others would have slept and then written.
    assert_eq!(done.out, "");
}

#[test]
fn wrappers_may_stand_before_and_after() {
    let fake = fake_rank();
    let script = format!("{fake} ok; echo post $?");
    let done = run(&["-n", "2", "sh", "-c", &script]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(done.out.matches("post 0").count(), 2, "{}", done.out);

    // The wrapper would hide the failure; the rank's own process is what counts.
    let script = format!("{fake} crash 1; sleep 1000; true");
    let done = run(&["-n", "2", "sh", "-c", &script]);
    assert!(matches!(done.code, Some(1 | 134)), "{}", done.err);
    assert!(done.last_line().contains("rank 1 on host "), "{}", done.err);

    let script = format!("{fake} code 1; exit $?");
    let done = run(&["-n", "2", "sh", "-c", &script]);
    assert_eq!(done.code, Some(5), "{}", done.err);
}

#[test]
fn a_job_within_a_job_is_its_own() {
    let mpirun = env!("CARGO_BIN_EXE_mpirun");
    let done = run(&["-n", "1", mpirun, "-n", "2", &fake_rank(), "ok"]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.out.contains("1 of 2"), "{}", done.out);
}

#[test]
fn ranks_with_different_sizes_do_not_start() {
    let done = ranks("3", &["differ", "1"]);
    assert_eq!(done.code, Some(1), "{}", done.err);
    let line = done.last_line();
    assert!(
        line.contains("REJOIN_WINDOW is 3")
            && line.contains("31 on rank 1")
            && line.contains("all ranks need the same"),
        "{line}"
    );
    assert!(!done.out.contains("heard"), "{}", done.out);
}

#[test]
fn counters_are_shown_in_rank_order_when_asked_for() {
    let fake = fake_rank();
    let done = run(&["-n", "3", "--stats", &fake, "ok"]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let shown: Vec<_> = done.err.lines().collect();
    assert_eq!(
        shown,
        [
            "mpirun: stats: rank 0: one=1 rank=0",
            "mpirun: stats: rank 1: one=1 rank=1",
            "mpirun: stats: rank 2: one=1 rank=2",
        ]
    );
    // A rank that never comes to the end has nothing to show.
    let done = run(&["-n", "2", "--stats", &fake, "crash", "1"]);
    assert_eq!(
        done.err.matches("nothing reported").count(),
        2,
        "{}",
        done.err
    );
    assert!(done.last_line().contains("rank 1 on host"), "{}", done.err);
    let done = run(&["-n", "1", &fake, "ok"]);
    assert_eq!(done.err, "");
}
