//! What people see of a job that survives: status, checkpoints on demand, the journal of events, and output that
//! is shown only when it stays.

use rejoin_tests::processes::{kill, wait_for};
use rejoin_tests::{Run, finish, prefix, program};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// A folder of one test, which goes away with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("rejoin-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn name(&self) -> &str {
        self.0.to_str().expect("a name in UTF-8")
    }

    fn rejoin(&self, arguments: &[&str]) -> Output {
        Command::new(prefix().join("bin/rejoin"))
            .args(arguments)
            .env("XDG_RUNTIME_DIR", &self.0)
            .output()
            .expect("starting rejoin")
    }

    fn status(&self, mpirun: u32) -> Option<Value> {
        let out = self.rejoin(&["status", "--json", &mpirun.to_string()]);
        let all: Value = serde_json::from_slice(&out.stdout).expect("JSON");
        all.as_array().expect("a list").first().cloned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn events(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect()
}

fn count(path: &Path, event: &str) -> usize {
    events(path).iter().filter(|e| e["event"] == event).count()
}

#[test]
fn checkpoints_come_when_asked_for_and_are_told_of() {
    let folder = Folder::new("asked");
    let journal = folder.0.join("events");
    let arguments = [
        "--checkpoint-interval",
        "asked",
        "--checkpoint-signal",
        "USR1",
        "--events",
        journal.to_str().expect("a name"),
        "-n",
        "2",
    ];
    let run = Run::raw(arguments).arg(program("divergent")).arg("3000");
    let child = run.env("XDG_RUNTIME_DIR", folder.name()).start();
    let mpirun = child.id();
    // The first one is taken at the end of MPI_Init, unasked.
    wait_for(LIMIT, "the first checkpoint", || {
        count(&journal, "committed") == 1
    });
    let out = folder.rejoin(&["checkpoint"]);
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(said.contains("checkpoint 2 is committed"), "{out:?}");
    kill(mpirun, libc::SIGUSR1);
    wait_for(LIMIT, "the third checkpoint", || {
        count(&journal, "committed") == 3
    });

    let seen = folder.status(mpirun).expect("the job");
    assert_eq!(seen["checkpoint"]["epoch"], 3, "{seen}");
    assert_eq!(seen["committed"], 3);
    assert_eq!(seen["failures"], 0);
    let victim = seen["ranks"][1]["pid"].as_u64().expect("a pid") as u32;
    kill(victim, libc::SIGKILL);
    wait_for(LIMIT, "the recovery", || count(&journal, "recovered") == 1);
    let seen = folder.status(mpirun).expect("the job");
    assert_eq!(
        (&seen["generation"], &seen["failures"]),
        (&1.into(), &1.into())
    );
    assert_eq!(seen["ranks"][1]["incarnation"], 1, "{seen}");
    assert_ne!(seen["ranks"][1]["pid"], victim);

    let done = finish(child, LIMIT, "divergent");
    assert!(done.output.status.success(), "{}", done.text());
    let all = events(&journal);
    let lost = all.iter().find(|e| e["event"] == "lost").expect("a loss");
    assert_eq!((&lost["rank"], &lost["pid"]), (&1.into(), &victim.into()));
    assert_eq!(lost["cause"], "was killed by signal 9 (SIGKILL)");
    let back = all.iter().find(|e| e["event"] == "recovered").expect("it");
    assert_eq!(
        (&back["generation"], &back["epoch"]),
        (&1.into(), &3.into())
    );
    assert!(back["took_ns"].as_u64() > Some(0) && back["repeated_ns"].is_u64());
    let last = all.last().expect("a last line");
    assert_eq!(
        (&last["event"], &last["code"]),
        (&"ended".into(), &0.into())
    );
    assert!(all.iter().all(|e| e["job"] == seen["job"]));
}

/// What the lines of one rank say that it wrote: the numbers, folded as the program folds them, and its own sum.
fn sums(text: &str, rank: &str) -> (u32, Option<u32>, usize) {
    let (mut folded, mut own, mut steps) = (0u32, None, 0);
    for line in text.lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            [r, "step", step, number] if r == rank => {
                assert_eq!(step, steps.to_string(), "rank {rank} is out of order");
                folded = folded
                    .wrapping_mul(31)
                    .wrapping_add(number.parse::<u32>().expect("a number"));
                steps += 1;
            }
            [r, "sum", number] if r == rank => own = number.parse().ok(),
            _ => {}
        }
    }
    (folded, own, steps)
}

#[test]
fn with_output_commit_only_what_stays_is_shown() {
    let folder = Folder::new("commit");
    let journal = folder.0.join("events");
    let arguments = [
        "--output",
        "commit",
        "--checkpoint-interval",
        "0.1",
        "--events",
        journal.to_str().expect("a name"),
        "-n",
        "3",
    ];
    let run = Run::raw(arguments).arg(program("divergent")).arg("1000");
    let child = run.env("XDG_RUNTIME_DIR", folder.name()).start();
    let mpirun = child.id();
    for killed in 1..=4 {
        let before = count(&journal, "committed");
        wait_for(LIMIT, "a commit", || count(&journal, "committed") > before);
        let Some(seen) = folder.status(mpirun) else {
            panic!("the job has ended after {} kills", killed - 1);
        };
        let pid = seen["ranks"][killed % 3]["pid"].as_u64().expect("a pid");
        kill(pid as u32, libc::SIGKILL);
        wait_for(LIMIT, "the recovery", || {
            count(&journal, "recovered") == killed
        });
    }
    let done = finish(child, LIMIT, "divergent");
    assert!(done.output.status.success(), "{}", done.text());
    let text = done.stdout();
    for rank in ["0", "1", "2"] {
        let (folded, own, steps) = sums(&text, rank);
        assert_eq!((Some(folded), steps), (own, 1000), "rank {rank}");
    }
    assert!(
        !done.stderr().contains("does not write again"),
        "{}",
        done.stderr()
    );
}

#[test]
fn without_checkpoints_nothing_of_them_can_be_asked_for() {
    for option in [
        &["--output", "commit"][..],
        &["--checkpoint-signal", "USR2"],
    ] {
        let mut all = vec!["--recovery", "none"];
        all.extend(option);
        let done = Run::raw(all).arg("true").output();
        assert_eq!(done.output.status.code(), Some(2), "{}", done.text());
        assert!(
            done.last_line()
                .contains("--recovery none takes no checkpoints")
        );
    }
}
