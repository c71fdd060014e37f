//! Ranks that compute from files which they overwrite are killed: what they read afterwards is what
//! they had written before the checkpoint. If that can't be so, the job ends and says so.

use rejoin_tests::folder::Folder;
use rejoin_tests::job::{Job, by_rank, times_back};
use rejoin_tests::limits::LIMIT;
use rejoin_tests::processes::{is_alive, kill, wait_for};
use rejoin_tests::{Finished, Run, finish, program};
use std::process::Child;
use std::time::Duration;

const RANKS: usize = 3;
/// Bytes of the file of `counters large`.
const LARGE: u64 = 24 << 20;

/// Ranks with `counters WAY ROUNDS`, which have a checkpoint.
struct Work {
    way: &'static str,
    folder: Folder,
    child: Child,
    job: Job,
}

impl Work {
    fn run(way: &str, rounds: &str, options: &[&str]) -> Run {
        let all = ["--tag-output", "-n", "3"];
        let run = Run::raw(all.iter().chain(options)).arg(program("counters"));
        run.arg(way).arg(rounds)
    }

    /// `name` is that of the folder: no two tests have one.
    fn begin(name: &str, way: &'static str, rounds: &'static str, options: &[&str]) -> Work {
        let folder = Folder::new(name);
        let (gate, events) = (folder.name("gate"), folder.name("events"));
        let all = [&["--events", &events], options].concat();
        let child = Work::run(way, rounds, &all).arg(&gate).start();
        let job = Job::of(child.id(), "counters");
        Work {
            way,
            folder,
            child,
            job,
        }
    }

    /// Waits for so many further checkpoints, and then for some rounds of the program.
    fn after_checkpoints(&self, more: usize) {
        let counted = || {
            let text = std::fs::read_to_string(self.folder.join("events"));
            text.unwrap_or_default().matches("\"committed\"").count()
        };
        let before = counted();
        wait_for(LIMIT, "a checkpoint", || {
            counted() >= before + more || !is_alive(self.child.id())
        });
        // The test looks for a moment in time, so it sleeps.
        std::thread::sleep(Duration::from_millis(30));
    }

    /// From here on it may end.
    fn end(self) -> (Finished, Folder) {
        std::fs::write(self.folder.join("gate"), "").expect("the gate");
        (finish(self.child, LIMIT, self.way), self.folder)
    }
}

/// Kills ranks after checkpoints, and compares the answer with that of an undisturbed run.
fn comes_back(way: &'static str, rounds: &'static str) {
    let work = Work::begin(way, way, rounds, &["--checkpoint-interval", "0.1"]);
    let mut seen = work.job.ranks();
    for victim in [1, 0, 2, 1, 0] {
        work.after_checkpoints(2);
        let now = work.job.ranks();
        now.get(victim)
            .into_iter()
            .for_each(|pid| kill(*pid, libc::SIGKILL));
        work.job.fresh_ranks(RANKS, &mut seen);
    }
    let (done, folder) = work.end();
    assert!(done.output.status.success(), "{}", done.text());
    assert!(times_back(&done.stderr()) >= 5, "{}", done.text());
    let plain = Work::run(way, rounds, &["--recovery", "none"]);
    let want = plain.arg(folder.name("gate")).ok();
    let (have, want) = (done.stdout(), want.stdout());
    assert!(
        by_rank(&have, true) == by_rank(&want, true),
        "{have}\ninstead of\n{want}\n{}",
        done.stderr()
    );
}

#[test]
fn a_file_that_is_overwritten_in_place_is_put_back() {
    comes_back("small", "1000");
}

#[test]
fn a_large_file_that_grows_is_cut_back() {
    comes_back("growing", "1000");
}

#[test]
fn a_file_that_is_renamed_when_it_is_written_is_made_again() {
    comes_back("renamed", "300");
}

/// Kills a rank that overwrites a large file, some time after a checkpoint.
fn killed_with_a_large_file(name: &str, options: &[&str]) -> Finished {
    let often = ["--checkpoint-interval", "0.1"];
    let work = Work::begin(name, "large", "1", &[&often[..], options].concat());
    let file = work.folder.join("gate.1");
    let data = || std::fs::metadata(&file).ok();
    wait_for(LIMIT, "the file", || {
        data().is_some_and(|data| data.len() >= LARGE)
    });
    work.after_checkpoints(2);
    let changed = || data().and_then(|data| data.modified().ok());
    let then = changed();
    wait_for(LIMIT, "a write", || changed() > then);
    let mut seen = work.job.ranks();
    kill(seen[1], libc::SIGKILL);
    if !options.is_empty() {
        work.job.fresh_ranks(RANKS, &mut seen);
    }
    work.end().0
}

#[test]
fn a_large_file_that_was_overwritten_ends_the_job() {
    let done = killed_with_a_large_file("refused", &[]);
    assert!(!done.output.status.success(), "{}", done.text());
    let last = done.last_line();
    assert!(
        last.contains("was overwritten after the checkpoint"),
        "{last}"
    );
    assert!(last.contains("gate."), "{last}");
    assert!(last.contains("--accept-external-state"), "{last}");
}

#[test]
fn a_user_who_accepts_an_overwritten_file_gets_the_rollback() {
    let done = killed_with_a_large_file("accepted", &["--accept-external-state"]);
    assert!(done.output.status.success(), "{}", done.text());
    assert_eq!(times_back(&done.stderr()), 1, "{}", done.text());
}
