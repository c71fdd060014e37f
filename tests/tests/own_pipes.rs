//! Ranks that keep pipes, socket pairs, timers and epoll sets for themselves are killed repeatedly:
//! what was in them is there again, and nothing waits forever.

use rejoin_tests::folder::Folder;
use rejoin_tests::job::{Job, by_rank, times_back};
use rejoin_tests::limits::LIMIT;
use rejoin_tests::processes::{is_alive, kill, wait_for};
use rejoin_tests::torment::{Case, program_survives};
use rejoin_tests::{Finished, Run, finish, prefix, program, root, skip};
use std::time::Duration;

#[test]
fn what_waits_in_pipes_and_socket_pairs_is_there_again() {
    let case = Case {
        name: "within",
        args: &["600"],
        mode: &[],
        ordered: true,
        files: false,
        with_images: false,
        shows: None,
        least: 20,
    };
    program_survives(&case, 1..3);
}

fn python(options: &[&str], args: &[&str]) -> Run {
    let all = [&["--tag-output", "-n", "3"], options].concat();
    let library = prefix().join("lib").display().to_string();
    let run = Run::raw(all).env("LD_LIBRARY_PATH", &library);
    let program = root().join("tests/programs/event_loop.py");
    let run = run.arg("python3").arg(program);
    args.iter().fold(run, |run, arg| run.arg(arg))
}

#[test]
fn the_event_loop_of_python_goes_on_after_kills() {
    let there = std::process::Command::new("python3").arg("-V").output();
    if !there.is_ok_and(|done| done.status.success()) {
        return skip::skipped("there is no python3");
    }
    let folder = Folder::new("event-loop");
    let gate = folder.name("gate");
    let options = ["--checkpoint-interval", "0.1", "--max-restarts", "1000"];
    let child = python(&options, &["40", &gate]).start();
    let job = Job::of(child.id(), "python3");
    wait_for(LIMIT, "the first checkpoint", || {
        job.has_checkpoint(3) || !is_alive(child.id())
    });
    let mut seen = job.ranks();
    for turn in 0..6 {
        let now = job.ranks();
        // Another moment each time.
        std::thread::sleep(Duration::from_millis(60 + 37 * turn));
        now.get(turn as usize % 3)
            .into_iter()
            .for_each(|pid| kill(*pid, libc::SIGKILL));
        job.fresh_ranks(3, &mut seen);
    }
    std::fs::write(&gate, "").expect("the gate");
    let done = finish(child, LIMIT, "an event loop");
    assert!(done.output.status.success(), "{}", done.text());
    let plain = python(&["--recovery", "none"], &["40", &gate]).ok();
    assert_eq!(
        by_rank(&done.stdout(), true),
        by_rank(&plain.stdout(), true)
    );
    let back = times_back(&done.stderr());
    assert!(back >= 6, "{back} came back: {}", done.text());
}

/// Kills a rank that shares memory with others, once `mpirun` has said that it can take no
/// checkpoint.
fn killed_with_shared_memory(options: &[&str]) -> Finished {
    let folder = Folder::new("outliving");
    let (gate, events) = (folder.name("gate"), folder.name("events"));
    let all = [
        "--checkpoint-interval",
        "0.1",
        "-n",
        "3",
        "--events",
        &events,
    ];
    let run = Run::raw([&all[..], options].concat()).arg(program("back"));
    let child = run.arg("shared").arg(&gate).start();
    let job = Job::of(child.id(), "back");
    wait_for(LIMIT, "a checkpoint that is refused", || {
        let text = std::fs::read_to_string(&events).unwrap_or_default();
        text.contains("has writable shared memory")
    });
    // They may be back at once.
    let mut seen = job.ranks();
    kill(seen[1], libc::SIGKILL);
    if !options.is_empty() {
        job.fresh_ranks(3, &mut seen);
    }
    std::fs::write(&gate, "").expect("the gate");
    finish(child, LIMIT, "a rank with shared memory")
}

#[test]
fn memory_that_a_rollback_does_not_take_back_ends_the_job() {
    let done = killed_with_shared_memory(&[]);
    assert!(!done.output.status.success(), "{}", done.text());
    let last = done.last_line();
    assert!(
        last.contains("a rollback could give a wrong answer"),
        "{last}"
    );
    assert!(last.contains("--accept-external-state"), "{last}");
}

#[test]
fn a_user_who_accepts_such_memory_gets_the_rollback() {
    let done = killed_with_shared_memory(&["--accept-external-state"]);
    assert!(done.output.status.success(), "{}", done.text());
    assert_eq!(times_back(&done.stderr()), 1, "{}", done.text());
}
