//! Jobs with a name that lose all processes at once and are restarted.

use crate::folder::Folder;
use crate::limits::{LIMIT, SOON};
use crate::processes::{all_gone, descendants, is_alive, kill, wait_for};
use crate::{Finished, Run, finish, prefix, program};
use std::path::PathBuf;
use std::process::{Child, Command};

/// A job with a name, and its folder.
pub struct NamedJob {
    folder: Folder,
    command: Vec<String>,
    ranks: &'static str,
    /// Seconds between checkpoints.
    pub interval: &'static str,
    /// Complete lines of the runs that were killed.
    seen: Vec<String>,
}

impl NamedJob {
    /// `PROGRAM WAY GATE` with three ranks: it ends when the gate is there.
    pub fn gated(name: &str, [command, way]: [&str; 2]) -> NamedJob {
        let mut job = NamedJob::new(name, command, &[way]);
        job.command.push(job.gate().to_string_lossy().into_owned());
        job
    }

    /// A program with its arguments and three ranks.
    ///
    /// # Panics
    /// When there can be no folder.
    pub fn new(name: &str, command: &str, arguments: &[&str]) -> NamedJob {
        let folder = Folder::new(name);
        std::fs::create_dir(folder.join("images")).expect("a folder");
        let words = [command].into_iter().chain(arguments.iter().copied());
        NamedJob {
            folder,
            command: words.map(str::to_owned).collect(),
            ranks: "3",
            interval: "0.1",
            seen: Vec::new(),
        }
    }

    /// The folder of the test.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The file for which the program waits before it ends.
    pub fn gate(&self) -> PathBuf {
        self.folder.join("gate")
    }

    /// The job's own folder of images.
    pub fn own(&self) -> PathBuf {
        self.folder.join("images").join("night")
    }

    /// Lines of a run that was ended in another way than by [`NamedJob::killed`].
    pub fn has_seen(&mut self, text: &str) {
        self.seen.extend(text.lines().map(str::to_owned));
    }

    /// mpirun with the folder and these options.
    pub fn with_images(&self, options: &[&str]) -> Run {
        let interval = self.interval;
        let all = ["--tag-output", "--checkpoint-interval", interval];
        let run = Run::raw(all)
            .arg("--images")
            .arg(self.folder.join("images"));
        options.iter().fold(run, |run, option| run.arg(option))
    }

    fn with_program(&self, run: Run) -> Run {
        let run = run.arg("-n").arg(self.ranks);
        let (name, arguments) = self.command.split_first().expect("a program");
        let run = run.arg(program(name));
        arguments
            .iter()
            .fold(run, |run, argument| run.arg(argument))
    }

    /// The first run.
    pub fn first(&self, options: &[&str]) -> Run {
        let all = [options, &["--job-name", "night"]].concat();
        self.with_program(self.with_images(&all))
    }

    /// A later one.
    pub fn again(&self, options: &[&str]) -> Run {
        self.with_images(&[options, &["--restart=night"]].concat())
    }

    /// `rejoin images` with these arguments: its exit code, and what it says.
    pub fn asked(&self, what: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(prefix().join("bin/rejoin"));
        command.arg("images").args(what);
        let folder = self.folder.join("images");
        let done = Run::of(command).arg("--images").arg(folder).output();
        (done.output.status.code(), done.text())
    }

    /// The last committed checkpoint in the record of the job.
    pub fn committed(&self) -> u32 {
        let text = std::fs::read_to_string(self.own().join("job.json")).unwrap_or_default();
        let rest = text.split("\"checkpoint\":").nth(1).unwrap_or_default();
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(0)
    }

    /// Kills every process of a job at once, some checkpoints from now.
    ///
    /// # Panics
    /// When the job ends before.
    pub fn killed(&mut self, child: Child) {
        let over = self.killed_unless_over(child);
        assert!(over.is_none(), "it has ended: {}", over.expect("it").text());
    }

    /// The same, when files of two checkpoints are kept.
    ///
    /// # Panics
    /// When the job ends before.
    pub fn killed_with_two(&mut self, child: Child) {
        let mut child = child;
        loop {
            wait_for(SOON, "files of two checkpoints", || self.keeps_two());
            self.killed(child);
            // A checkpoint that was given up meanwhile leaves one.
            if self.keeps_two() {
                return;
            }
            child = self.again(&[]).start();
        }
    }

    /// The record of the job names the checkpoint before the last one.
    fn keeps_two(&self) -> bool {
        let text = std::fs::read_to_string(self.own().join("job.json")).unwrap_or_default();
        let before = text.split("\"before\":").nth(1).unwrap_or_default();
        before.starts_with(|first: char| first.is_ascii_digit())
    }

    /// The same for one that may end before. That is its end, which is a good one.
    ///
    /// # Panics
    /// When it ends in another way.
    pub fn killed_unless_over(&mut self, child: Child) -> Option<Finished> {
        let from = self.committed();
        wait_for(SOON, "two more checkpoints", || {
            self.committed() > from + 1 || !is_alive(child.id())
        });
        let is_there = self.committed() > from + 1 && self.own().join("job.json").exists();
        let mut all = descendants(child.id());
        all.push(child.id());
        // The machine loses power: none of them sees another one end.
        for signal in [libc::SIGSTOP, libc::SIGKILL] {
            all.iter().for_each(|pid| kill(*pid, signal));
        }
        let done = finish(child, LIMIT, "a job that was killed");
        if !is_there || done.output.status.code().is_some() {
            assert!(done.output.status.success(), "{}", done.text());
            return Some(done);
        }
        all.retain(|pid| is_alive(*pid));
        all_gone(&all, SOON);
        let text = done.stdout();
        let whole = text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        self.seen
            .extend(whole.map(|line| line.trim_end().to_owned()));
        None
    }

    /// The restarted job ends, and all lines are there, in the order of each rank.
    ///
    /// # Panics
    /// When a line is missing, wrong or in another order.
    pub fn ends_well(&self, child: Child) -> Finished {
        std::fs::write(self.gate(), "").expect("the gate");
        let done = finish(child, LIMIT, "a restarted job");
        assert!(done.output.status.success(), "{}", done.text());
        let plain = self
            .with_program(Run::raw(["--tag-output", "--recovery", "none"]))
            .ok();
        let (want, last) = (plain.stdout(), done.stdout());
        for rank in 0..3 {
            let of = |text: &str| -> Vec<String> {
                let tag = format!("[{rank}]");
                let lines = text.lines().filter(|line| line.starts_with(&tag));
                lines.map(str::to_owned).collect()
            };
            let (want, last) = (of(&want), of(&last));
            assert!(want.ends_with(&last), "rank {rank}: {}", done.text());
            let before = of(&self.seen.join("\n"));
            let missing = &want[..want.len() - last.len()];
            for line in missing {
                assert!(
                    before.contains(line),
                    "rank {rank} lacks {line}: {before:?}"
                );
            }
            assert!(before.iter().all(|line| want.contains(line)), "{before:?}");
        }
        assert!(!self.own().exists(), "the job has left files");
        done
    }

    /// The same, where the order of the lines of a rank may differ from run to run.
    ///
    /// # Panics
    /// When a line is missing or wrong.
    pub fn ends_in_any_order(&self, child: Child) {
        let done = finish(child, LIMIT, "a restarted job");
        assert!(done.output.status.success(), "{}", done.text());
        let plain = self
            .with_program(Run::raw(["--tag-output", "--recovery", "none"]))
            .ok();
        let all = self.seen.join("\n") + "\n" + &done.stdout();
        let lines = |text: &str| -> std::collections::BTreeSet<String> {
            text.lines()
                .filter(|line| !line.is_empty())
                .map(str::to_owned)
                .collect()
        };
        assert_eq!(lines(&all), lines(&plain.stdout()), "{}", done.text());
        assert!(!self.own().exists(), "the job has left files");
    }
}
