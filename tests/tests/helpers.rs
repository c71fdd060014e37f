//! Ranks that start other programs: checkpoints wait until those have ended, and name one that does
//! not end.

use rejoin_tests::folder::Folder;
use rejoin_tests::job::{Job, by_rank, times_back};
use rejoin_tests::limits::LIMIT;
use rejoin_tests::processes::{is_alive, kill, wait_for};
use rejoin_tests::{Run, finish, program};

const RANKS: usize = 3;

fn of(way: &str, options: &[&str], gate: &str) -> Run {
    let all = ["--tag-output", "-n", "3"];
    let run = Run::raw(all.iter().chain(options)).arg(program("helpers"));
    run.arg(way).arg("60").arg(gate)
}

#[test]
fn checkpoints_wait_for_programs_that_end_soon() {
    let folder = Folder::new("helpers-short");
    let (gate, events) = (folder.name("gate"), folder.name("events"));
    let options = ["--checkpoint-interval", "0.1", "--events", &events];
    let child = of("short", &options, &gate).start();
    let job = Job::of(child.id(), "helpers");
    let counted = |what: &str| {
        let text = std::fs::read_to_string(&events).unwrap_or_default();
        text.matches(what).count()
    };
    let mut seen = job.ranks();
    for victim in [1, 0, 2] {
        let before = counted("\"committed\"");
        wait_for(LIMIT, "a checkpoint", || {
            counted("\"committed\"") >= before + 2 || !is_alive(child.id())
        });
        let now = job.ranks();
        let pid = now.get(victim).copied();
        pid.into_iter().for_each(|pid| kill(pid, libc::SIGKILL));
        job.fresh_ranks(RANKS, &mut seen);
    }
    std::fs::write(&gate, "").expect("the gate");
    let done = finish(child, LIMIT, "programs that end soon");
    assert!(done.output.status.success(), "{}", done.text());
    assert_eq!(times_back(&done.stderr()), 3, "{}", done.text());
    assert!(
        !done.stderr().contains("no checkpoint can be taken"),
        "{}",
        done.stderr()
    );
    let want = of("short", &["--recovery", "none"], &gate).ok();
    let (have, want) = (done.stdout(), want.stdout());
    assert!(
        by_rank(&have, true) == by_rank(&want, true),
        "{have}\ninstead of\n{want}"
    );
}

#[test]
fn a_program_that_does_not_end_is_named_and_the_checkpoint_comes_after_it() {
    let folder = Folder::new("helpers-long");
    let (gate, events) = (folder.name("gate"), folder.name("events"));
    let options = ["--checkpoint-interval", "0.1", "--events", &events];
    let child = of("long", &options, &gate).start();
    wait_for(LIMIT, "a refusal", || {
        let text = std::fs::read_to_string(&events).unwrap_or_default();
        text.contains("has a child process of its own (sleep, process ") || !is_alive(child.id())
    });
    std::fs::write(&gate, "").expect("the gate");
    let done = finish(child, LIMIT, "a program that does not end");
    assert!(done.output.status.success(), "{}", done.text());
    let told = done.stderr().matches("(sleep, process ").count();
    assert_eq!(told, 1, "{}", done.text());
}
