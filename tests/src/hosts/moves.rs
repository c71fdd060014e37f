//! Moves of ranks over such hosts. A test can have the central manager wait at a point of a move
//! (`managers/src/fault`), and do something to the job there.

use super::Hosts;
use super::job::{Job, good, lines};
use crate::limits::SOON;
use crate::processes::{all_gone, is_alive, rank_of, wait_for};
use crate::{Finished, Run, finish};
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

/// The name of a process that loads images of a rank ahead, as the kernel keeps it.
pub const LOADER: &str = "rejoin-restarte";

/// Points of a move at which central can wait, in the order in which a move comes to them. Before
/// each of them are: the order, the first image, its copy to the other host, the last image, a
/// process made of it, and the update.
pub const POINTS: [&str; 9] = [
    "move-persisted",
    "move-sent",
    "load-sent",
    "copy-loaded",
    "stop-sent",
    "move-restore-sent",
    "move-arrived",
    "moved-persisted",
    "update-sent",
];

/// What `rejoin` says, which did what it was told to.
///
/// # Panics
/// When it did not.
pub fn done(hosts: &Hosts, words: &[&str]) -> String {
    let ended = rejoin(hosts, words);
    assert!(ended.output.status.success(), "{words:?}: {}", ended.text());
    ended.stdout()
}

/// `rejoin` on the hub, to its end.
///
/// # Panics
/// When it does not end.
pub fn rejoin(hosts: &Hosts, words: &[&str]) -> Finished {
    finish(hosts.start_rejoin(words), SOON + SOON, &words.join(" "))
}

/// The job has ended with the same output, and never rolled back.
///
/// # Panics
/// Otherwise.
pub fn undisturbed(job: &Finished, alone: &Finished) {
    right(job, alone);
    assert!(!job.stderr().contains("rolls back"), "{}", job.text());
}

/// The job has ended with the same output.
///
/// # Panics
/// Otherwise.
pub fn right(job: &Finished, alone: &Finished) {
    good(job);
    assert_eq!(lines(job), lines(alone), "{}", job.text());
}

/// The points at which managers wait if the test wants that.
pub struct Points {
    file: PathBuf,
}

impl Points {
    /// Of a job over these hosts.
    #[must_use]
    pub fn of(hosts: &Hosts) -> Points {
        let file = hosts.folder().join("notes");
        Points { file }
    }

    /// The run's managers can wait at these points.
    #[must_use]
    pub fn prepare(&self, run: Run, points: &[&str]) -> Run {
        let all: Vec<String> = points.iter().map(|name| format!("{name}:*=wait")).collect();
        let run = run.env("REJOIN_FAULT", &all.join(","));
        run.env(
            "REJOIN_FAULT_FILE",
            self.file.to_str().expect("a path in UTF-8"),
        )
    }

    fn wanted(&self, point: &str) -> PathBuf {
        self.file.with_extension(point)
    }

    fn reached(&self, point: &str) -> PathBuf {
        self.file.with_extension(format!("{point}.reached"))
    }

    /// The next manager that comes to the point waits there.
    ///
    /// # Panics
    /// When the test's folder can't be written.
    pub fn want(&self, point: &str) {
        std::fs::write(self.wanted(point), "").expect("a wish");
    }

    /// The next manager of this host that comes to the point waits there.
    ///
    /// # Panics
    /// When the test's folder can't be written.
    pub fn want_on(&self, point: &str, number: usize) {
        let unseen = self.file.with_extension(format!("{point}.new"));
        std::fs::write(&unseen, format!("h{number}")).expect("a wish");
        std::fs::rename(unseen, self.wanted(point)).expect("a wish");
    }

    /// A manager waits there.
    #[must_use]
    pub fn is_reached(&self, point: &str) -> bool {
        self.reached(point).exists()
    }

    /// It continues, or nobody is to wait there.
    pub fn release(&self, point: &str) {
        for file in [self.wanted(point), self.reached(point)] {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// A `rejoin migrate` under way.
pub struct Migration {
    child: Child,
    words: String,
}

impl Migration {
    /// Of a rank to a host.
    #[must_use]
    pub fn start(hosts: &Hosts, rank: usize, to: &str) -> Migration {
        Migration::of((rank, to), |words| hosts.start_rejoin(words))
    }

    /// The same on a terminal.
    #[must_use]
    pub fn on_terminal(hosts: &Hosts, rank: usize, to: &str) -> Migration {
        Migration::of((rank, to), |words| hosts.start_rejoin_on_terminal(words))
    }

    fn of((rank, to): (usize, &str), start: impl FnOnce(&[&str]) -> Child) -> Migration {
        let words = ["migrate", &rank.to_string(), "--to", to];
        Migration {
            child: start(&words),
            words: words.join(" "),
        }
    }

    /// Waits until a manager waits at a point.
    ///
    /// # Panics
    /// When the command ends and no manager comes to it, with what the command said.
    #[must_use]
    pub fn comes_to(mut self, points: &Points, point: &str) -> Migration {
        let mut ended = None;
        wait_for(SOON, point, || {
            if points.is_reached(point) {
                return true;
            }
            if self.child.try_wait().expect("waiting for rejoin").is_some() {
                ended.get_or_insert_with(Instant::now);
            }
            // At the last points the command gets its answer just before the manager waits.
            ended.is_some_and(|ended| ended.elapsed() > SOON / 2)
        });
        if !points.is_reached(point) {
            let words = self.words.clone();
            panic!("{words}: not at {point}: {}", self.end().text());
        }
        self
    }

    /// Its end.
    ///
    /// # Panics
    /// When it does not end.
    #[must_use]
    pub fn end(self) -> Finished {
        finish(self.child, SOON + SOON, &self.words)
    }
}

impl Hosts {
    /// The processes of a rank on a host.
    #[must_use]
    pub fn processes_of(&self, number: usize, name: &str, rank: usize) -> Vec<u32> {
        let pids = self.processes(number, name).into_iter();
        pids.filter(|pid| rank_of(*pid) == Some(rank)).collect()
    }

    /// Has a checkpoint taken of all ranks where they are now, in files that outlive a host.
    ///
    /// # Panics
    /// When there is none.
    pub fn take_files(&self, job: &mut Job) {
        let newest = job.epochs("requested").last().copied().unwrap_or(0);
        // Of those that nobody asks for, few go to files if that takes long.
        done(self, &["checkpoint"]);
        job.until_committed("partner", newest + 1);
    }

    /// Waits until each rank has one process, on the host that `rejoin status` names, and no
    /// process of a move is left. What a lost rank left in the middle of its image is gone then: it
    /// is older than the rank's new process, and would be taken for the rank.
    ///
    /// # Panics
    /// When that does not happen, with the output of the job.
    pub fn settle(&self, job: &mut Job, name: &str) {
        let begun = Instant::now();
        loop {
            let places: Vec<(usize, String)> = self.places().into_iter().enumerate().collect();
            let (mut found, mut loaders) = (Vec::new(), Vec::new());
            for number in self.running() {
                let of_host = self.named(number, name).into_iter();
                found.extend(of_host.filter_map(|pid| Some((rank_of(pid)?, format!("h{number}")))));
                loaders.extend(self.named(number, LOADER));
            }
            found.sort();
            if found == places && loaders.is_empty() {
                return;
            }
            if begun.elapsed() > SOON || !is_alive(job.child.id()) {
                let what = format!("processes of ranks {found:?}, and loaders {loaders:?}");
                job.has_not_reached(&format!("{places:?} instead of {what}"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The numbers of the hosts that are on.
    pub fn running(&self) -> impl Iterator<Item = usize> {
        let hosts = self.hosts.iter().enumerate();
        hosts.filter_map(|(at, host)| host.as_ref().map(|_| at + 1))
    }

    /// The end of all processes of a job, whose program has this name.
    ///
    /// # Panics
    /// When one stays.
    pub fn nothing_runs(&self, name: &str) {
        for number in self.running() {
            for name in [name, LOADER, "rejoin-twin", "rejoin-local"] {
                all_gone(&self.processes(number, name), SOON);
            }
        }
    }

    /// The files below a folder of a host.
    #[must_use]
    pub fn files(&self, number: usize, folder: &str) -> Vec<String> {
        let list = format!("find {folder} -type f 2>/dev/null || true");
        let text = self.exec(number, &["sh", "-c", &list]);
        text.lines().map(str::to_owned).collect()
    }
}
