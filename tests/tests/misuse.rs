//! Messages to programs that violate the standard, and the end of their jobs.

use rejoin_tests::limits::{LIMIT, SOON};
use rejoin_tests::processes::{is_asleep, kill, wait_for};
use rejoin_tests::{Finished, Run, finish, program};
use std::io::{BufRead, BufReader};

fn misuse(way: &str) -> Finished {
    Run::new(2, program("misuse")).arg(way).output()
}

fn ends_with(way: &str, code: i32, says: &str) -> Finished {
    ended_with(misuse(way), code, says)
}

fn ended_with(done: Finished, code: i32, says: &str) -> Finished {
    assert_eq!(done.output.status.code(), Some(code), "{}", done.text());
    assert!(done.stderr().contains(says), "{}", done.text());
    done
}

#[test]
fn a_call_after_the_end_names_itself() {
    let says = "rank 1: MPI_Barrier: called after MPI_Finalize";
    let done = ends_with("after", 16, says);
    assert!(!done.last_line().contains("MPI_Abort"), "{}", done.text());
}

#[test]
fn an_abort_before_or_after_mpi_gives_its_code() {
    let says = "called MPI_Abort on MPI_COMM_WORLD with code 7 after MPI_Finalize";
    ends_with("abort-after", 7, says);
    let says = "called MPI_Abort with code 6 before MPI_Init";
    ends_with("abort-before", 6, says);
    let says = "called MPI_Abort on a communicator without a name with code 3";
    ends_with("abort-unnamed", 3, says);
}

#[test]
fn a_watchdog_thread_ends_a_job_that_waits_in_finalize() {
    let run = Run::new(2, program("misuse")).arg("watchdog");
    let done = run.limit(SOON).output();
    ended_with(done, 8, "called MPI_Abort on MPI_COMM_WORLD with code 8");
}

/// The parent prints one line before the fork, which the child must not print again, and one after
/// the child's end.
fn child(way: &str, code: i32) -> Finished {
    let done = misuse(way);
    assert!(done.output.status.success(), "{}", done.text());
    let want = format!("parent\nchild {code}\n");
    assert_eq!(done.stdout(), want, "{}", done.text());
    done
}

#[test]
fn a_forked_child_that_calls_mpi_is_told_and_harms_nobody() {
    let done = child("fork-send", 16);
    let text = done.stderr();
    assert!(
        text.contains("rank 1: MPI_Send: called in process ")
            && text.contains(
                "a child of rank 1 that fork() made: only the process that called MPI_Init may"
            ),
        "{text}"
    );
    // MPI_ERR_OTHER.
    child("fork-returns", 16);
    let done = child("fork-abort", 5);
    assert!(
        done.stderr().contains("that fork() made"),
        "{}",
        done.text()
    );
}

#[test]
fn a_forked_child_leaves_the_job_alone_when_it_exits() {
    let done = misuse("fork-exit");
    assert!(done.output.status.success(), "{}", done.text());
    // The parent's output before the fork was in both processes; exit() writes it, as without MPI.
    assert_eq!(
        done.stdout(),
        "parent\nparent\nchild 3\n",
        "{}",
        done.text()
    );
}

#[test]
fn an_abort_in_a_signal_handler_ends_the_job_with_its_code() {
    let mut child = Run::new(2, program("misuse")).arg("signal").start();
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    out.read_line(&mut line).expect("a line");
    let rank = line.trim().parse().expect("a pid");
    // There is nothing to wait for but in MPI.
    wait_for(SOON, "a rank that waits", || is_asleep(rank));
    kill(rank, libc::SIGALRM);
    let says = "called MPI_Abort with code 9 in a signal handler, inside another call of MPI";
    let done = finish(child, LIMIT, "a signal");
    ended_with(done, 9, says);
    let done = ends_with(
        "signal-malloc",
        9,
        "called MPI_Abort on MPI_COMM_WORLD with code 9",
    );
    assert!(done.last_line().contains("code 9"), "{}", done.text());
}

#[test]
fn sessions_follow_sessions_but_not_the_end_of_the_world_model() {
    let done = misuse("session-again");
    assert!(done.output.status.success(), "{}", done.text());
    for i in 0..3 {
        let says = format!("session {i} of 2 ranks");
        assert_eq!(done.stdout().matches(&says).count(), 2, "{}", done.text());
    }
    let says = "MPI_Session_init: called after this process has left the job";
    assert_eq!(done.stdout().matches(says).count(), 2, "{}", done.text());
}

#[test]
fn a_buffer_that_is_no_memory_is_named_over_tcp_and_ends_the_rank_over_shared_memory() {
    let over = |transport| {
        let run = Run::raw(["--recovery", "none", "--transport", transport, "-n", "2"]);
        run.arg(program("misuse")).arg("bad-buffer").output()
    };
    let done = ended_with(over("tcp"), 1, "rank 1: MPI_Send: send with rank 0");
    let says = "(MPI_ERR_BUFFER)";
    assert!(done.stderr().contains(says), "{}", done.text());
    let says = "was killed by signal 11 (SIGSEGV)";
    let done = ended_with(over("auto"), 128 + 11, says);
    assert!(done.last_line().contains("rank 1"), "{}", done.text());
}
