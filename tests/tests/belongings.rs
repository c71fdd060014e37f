//! What a rank has in the kernel beside its memory and its files is as it was, however the rank is
//! lost: from images in memory and from files, in each mode of recovery.

use rejoin_tests::folder::Folder;
use rejoin_tests::job::{Job, times_back};
use rejoin_tests::limits::{LIMIT, SOON};
use rejoin_tests::processes::{is_alive, kill, rank_of, wait_for};
use rejoin_tests::{Finished, Run, finish, prefix, program, root, skip};
use std::path::Path;
use std::process::Child;

const RANKS: usize = 3;

const MODES: [&[&str]; 3] = [
    &[],
    &["--recovery", "sender-log"],
    &["--recovery", "receiver-log"],
];

/// `PROGRAM ARGUMENTS GATE` with process images, until the gate is there.
struct Belongings {
    folder: Folder,
    child: Child,
    job: Job,
}

impl Belongings {
    /// The last of these words with a path is the program, and names its processes.
    fn start(name: &str, command: &[&str], options: &[&str]) -> Self {
        let folder = Folder::new(name);
        let (images, events) = (folder.name("images"), folder.name("events"));
        let often = ["--checkpoint-interval", "0.1", "--max-restarts", "1000"];
        let usual = ["-n", "3", "--images", &images, "--events", &events];
        let run = Run::raw([&often[..], &usual, options].concat());
        let library = prefix().join("lib").display().to_string();
        let run = run.env("LD_LIBRARY_PATH", &library);
        let run = command.iter().fold(run, Run::arg);
        let child = run.arg(folder.name("gate")).start();
        let path = command.iter().rfind(|word| word.starts_with('/'));
        let called = Path::new(path.expect("a program")).file_name();
        let called = called.and_then(|name| name.to_str()).expect("a name");
        let job = Job::of(child.id(), called);
        Self { folder, child, job }
    }

    /// `belongings KINDS GATE`.
    fn of(kinds: &str, options: &[&str]) -> Self {
        let program = program("belongings").display().to_string();
        Self::start("belongings", &[&program, kinds], options)
    }

    fn counted(&self, text: &str) -> usize {
        let events = std::fs::read_to_string(self.folder.join("events")).unwrap_or_default();
        events.matches(text).count()
    }

    /// Waits until the events hold this so many times.
    fn until(&self, count: usize, text: &str) {
        wait_for(SOON, text, || {
            self.counted(text) >= count || !is_alive(self.child.id())
        });
    }

    /// Waits for checkpoints that were not there before.
    fn until_checkpoint(&self, level: &str) {
        let text = format!("\"level\":\"{level}\"");
        self.until(self.counted(&text) + 2, &text);
    }

    fn recovers_from(&self, lose: impl FnOnce()) {
        let before = self.counted("\"recovered\"");
        lose();
        self.until(before + 1, "\"recovered\"");
    }

    /// Kills a rank, and then another one together with its images.
    fn loses_ranks(&self) {
        self.until_checkpoint("memory");
        self.recovers_from(|| {
            let mut ranks = self.job.ranks().into_iter();
            let one = ranks.find(|pid| rank_of(*pid) == Some(1));
            kill(one.expect("a rank"), libc::SIGKILL);
        });
        self.until_checkpoint("file");
        self.recovers_from(|| self.job.kill_with_images(&[2]));
        // What it has come back with is in a later image, too.
        self.until_checkpoint("memory");
        self.recovers_from(|| self.job.kill_with_images(&[1]));
    }

    fn end(self) -> Finished {
        std::fs::write(self.folder.join("gate"), "").expect("the gate");
        finish(self.child, LIMIT, "a program with belongings")
    }

    fn ends_well(self, least: u32) -> String {
        let done = self.end();
        assert!(done.output.status.success(), "{}", done.text());
        let through = done.stdout().matches("is through").count();
        assert_eq!(through, RANKS, "{}", done.text());
        let text = done.stderr();
        assert!(times_back(&text) >= least, "{text}");
        text
    }
}

/// Words of `mpirun` for what has no image, or does not come back.
const LOSSES: [&str; 4] = [
    "no checkpoint",
    "in memory only",
    "as it is now",
    "again (error",
];

/// Loses ranks in each mode, without a refusal and without a word about what is lost.
fn stay(kinds: &str) {
    for mode in MODES {
        let job = Belongings::of(kinds, mode);
        job.loses_ranks();
        let text = job.ends_well(3);
        for word in [
            "no checkpoint",
            "in memory only",
            "as it is now",
            "again (error",
        ] {
            assert!(!text.contains(word), "{kinds} {mode:?}: {text}");
        }
    }
}

#[test]
fn what_the_kernel_knows_of_a_rank_stays() {
    stay("semaphores,wiped,children,advice,settings,privileges");
}

/// The system lets root alone become another user.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|data| data.uid() == 0)
}

#[test]
fn a_rank_that_has_become_another_user_does_not_come_back_as_root() {
    if !is_root() {
        return skip::skipped("only root becomes another user");
    }
    for mode in MODES {
        let job = Belongings::of("user", mode);
        // A restored rank could not open its log, so the one before stands.
        match mode.is_empty() {
            true => job.until_checkpoint("memory"),
            false => job.until(1, "become another user"),
        }
        job.recovers_from(|| kill(job.job.ranks()[1], libc::SIGKILL));
        job.ends_well(1);
    }
}

#[test]
fn queues_and_semaphores_of_the_system_are_named_once() {
    for (kind, named) in [
        ("queue", "(message queue /rejoin-belongings"),
        ("system_v", "semaphore set"),
    ] {
        let job = Belongings::of(kind, &[]);
        job.until_checkpoint("memory");
        job.until_checkpoint("memory");
        let text = job.ends_well(0);
        for rank in 0..RANKS {
            let said = text
                .lines()
                .filter(|line| line.contains(&format!("rank {rank} has to")));
            assert_eq!(
                said.filter(|line| line.contains(named)).count(),
                1,
                "{text}"
            );
        }
    }
}

#[test]
fn a_program_with_the_address_sanitizer_comes_back_from_files() {
    let program = program("sanitized").display().to_string();
    let job = Belongings::start(
        "sanitized",
        &[&program],
        &["-x", "ASAN_OPTIONS=detect_leaks=0"],
    );
    job.loses_ranks();
    job.ends_well(3);
}

/// A Python program of these tests.
fn python(name: &str, ways: &[&str], options: &[&str]) -> Option<Belongings> {
    let there = std::process::Command::new("python3").arg("-V").output();
    if !there.is_ok_and(|done| done.status.success()) {
        skip::skipped("there is no python3");
        return None;
    }
    let source = root()
        .join("tests/programs")
        .join(name)
        .display()
        .to_string();
    let command = [&["python3", &source][..], ways].concat();
    Some(Belongings::start("python-locks", &command, options))
}

/// Loses ranks of `locks.py WAY GATE`.
fn python_stays(way: &str) {
    let Some(job) = python("locks.py", &[way], &[]) else {
        return;
    };
    job.loses_ranks();
    let text = job.ends_well(3);
    for word in LOSSES {
        assert!(!text.contains(word), "{way}: {text}");
    }
}

#[test]
fn locks_of_python_processes_stay() {
    python_stays("fork");
}

#[test]
fn a_resource_tracker_of_python_does_not_end_protection() {
    python_stays("spawn");
}
