//! Whole jobs that are restarted: every process is killed, and `mpirun --restart=NAME` continues
//! from the files.

use rejoin_tests::folder::Folder;
use rejoin_tests::job::times_back;
use rejoin_tests::processes::{all_gone, descendants, is_alive, kill, wait_for};
use rejoin_tests::{Finished, Run, finish, prefix, program};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_secs(30);

/// The programs of a job with a name, and its folder.
struct Named {
    folder: Folder,
    command: [&'static str; 2],
    /// Seconds between checkpoints.
    interval: &'static str,
    /// Complete lines of the runs that were killed.
    seen: Vec<String>,
}

impl Named {
    fn new(name: &str, command: [&'static str; 2]) -> Named {
        let folder = Folder::new(name);
        std::fs::create_dir(folder.join("images")).expect("a folder");
        Named {
            folder,
            command,
            interval: "0.1",
            seen: Vec::new(),
        }
    }

    fn own(&self) -> PathBuf {
        self.folder.join("images").join("night")
    }

    fn with_images(&self, options: &[&str]) -> Run {
        let interval = self.interval;
        let all = ["--tag-output", "--checkpoint-interval", interval];
        let run = Run::raw(all)
            .arg("--images")
            .arg(self.folder.join("images"));
        options.iter().fold(run, |run, option| run.arg(option))
    }

    fn first(&self, options: &[&str]) -> Run {
        let all = [options, &["--job-name", "night", "-n", "3"]].concat();
        let [name, way] = self.command;
        let run = self.with_images(&all).arg(program(name)).arg(way);
        run.arg(self.folder.join("gate"))
    }

    fn again(&self, options: &[&str]) -> Run {
        self.with_images(&[options, &["--restart=night"]].concat())
    }

    /// `rejoin images` with these arguments: its exit code, and what it says.
    fn asked(&self, what: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(prefix().join("bin/rejoin"));
        command.arg("images").args(what);
        let folder = self.folder.join("images");
        let done = Run::of(command).arg("--images").arg(folder).output();
        (done.output.status.code(), done.text())
    }

    /// The last committed checkpoint in the record of the job.
    fn committed(&self) -> u32 {
        let text = std::fs::read_to_string(self.own().join("job.json")).unwrap_or_default();
        let rest = text.split("\"checkpoint\":").nth(1).unwrap_or_default();
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(0)
    }

    /// Kills every process of a job at once, some checkpoints from now.
    fn killed(&mut self, child: Child) {
        let from = self.committed();
        wait_for(SOON, "two more checkpoints", || {
            self.committed() > from + 1 || !is_alive(child.id())
        });
        let mut all = descendants(child.id());
        all.push(child.id());
        // The machine loses power: none of them sees another one end.
        for signal in [libc::SIGSTOP, libc::SIGKILL] {
            all.iter().for_each(|pid| kill(*pid, signal));
        }
        let done = finish(child, LIMIT, "a job that was killed");
        all.retain(|pid| is_alive(*pid));
        all_gone(&all, SOON);
        let text = done.stdout();
        let whole = text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        self.seen
            .extend(whole.map(|line| line.trim_end().to_owned()));
    }

    /// The restarted job ends, and all lines are there, in the order of each rank.
    fn ends_well(&self, child: Child) -> Finished {
        std::fs::write(self.folder.join("gate"), "").expect("the gate");
        let done = finish(child, LIMIT, "a restarted job");
        assert!(done.output.status.success(), "{}", done.text());
        let [name, way] = self.command;
        let gate = self.folder.join("gate");
        let plain = Run::raw(["--tag-output", "--recovery", "none", "-n", "3"]);
        let want = plain.arg(program(name)).arg(way).arg(gate).ok();
        let last = done.stdout();
        for rank in 0..3 {
            let of = |text: &str| -> Vec<String> {
                let tag = format!("[{rank}]");
                let lines = text.lines().filter(|line| line.starts_with(&tag));
                lines.map(str::to_owned).collect()
            };
            let (want, last) = (of(&want.stdout()), of(&last));
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
}

#[test]
fn a_job_whose_processes_are_all_killed_twice_continues_by_its_name() {
    let mut job = Named::new("all-killed", ["back", "work"]);
    let child = job.first(&[]).start();
    job.killed(child);
    // The name may also be the last word.
    let child = job.with_images(&["--restart", "night"]).start();
    job.killed(child);
    // Messages go another way, too.
    let child = job.again(&["--transport", "tcp"]).start();
    job.ends_well(child);
}

#[test]
fn a_job_continues_from_compressed_files_and_then_from_plain_ones() {
    let mut job = Named::new("compressed", ["back", "work"]);
    let child = job.first(&["--image-compression", "lz4"]).start();
    job.killed(child);
    let lengths = |job: &Named| -> Vec<u64> {
        let all = files(&job.own(), "image").into_iter();
        all.map(|path| path.metadata().expect("a file").len())
            .collect()
    };
    let (code, text) = job.asked(&["verify"]);
    assert!(code == Some(0) && text.contains(", 0 problems"), "{text}");
    let compressed = lengths(&job);
    // A restart asks for nothing: the files say what they are.
    let child = job.again(&[]).start();
    job.killed(child);
    let plain = lengths(&job);
    assert!(
        compressed.iter().max() < plain.iter().min(),
        "{compressed:?} and {plain:?} bytes"
    );
    let child = job.again(&["--image-compression", "lz4"]).start();
    job.ends_well(child);
}

#[test]
fn a_file_that_is_overwritten_in_place_is_put_back_at_a_restart() {
    let mut job = Named::new("counters", ["counters", "small"]);
    let child = job.first(&[]).start();
    job.killed(child);
    let child = job.again(&[]).start();
    job.killed(child);
    let child = job.again(&[]).start();
    job.ends_well(child);
}

#[test]
fn memory_that_ranks_map_together_is_put_back_at_a_restart() {
    let mut job = Named::new("restart-together", ["together", "until"]);
    let mut child = job.first(&[]).start();
    for is_removed in [true, false] {
        job.killed(child);
        if is_removed {
            // As after the machine was off.
            let gate = job.folder.name("gate").replace('/', "_");
            let memory = format!("/dev/shm/rejoin-together{gate}");
            std::fs::remove_file(memory).expect("the file of the ranks");
        }
        child = job.again(&[]).start();
    }
    job.ends_well(child);
}

#[test]
fn ranks_of_a_restarted_job_come_back_when_they_are_killed() {
    let mut job = Named::new("killed-later", ["pool", "100"]);
    let child = job.first(&[]).start();
    job.killed(child);
    let child = job.again(&[]).start();
    let from = job.committed();
    wait_for(SOON, "a checkpoint", || job.committed() > from);
    let first = rank_1(child.id());
    kill(first.expect("rank 1"), libc::SIGKILL);
    job.ends_well(child);
}

fn rank_1(mpirun: u32) -> Option<u32> {
    let all = descendants(mpirun);
    all.into_iter().find(|pid| is_rank(*pid, 1))
}

/// Its second rollback is to the files from which it began.
#[test]
fn a_rank_that_is_lost_before_the_first_checkpoint_after_a_restart_prints_once() {
    let mut job = Named::new("killed-at-once", ["pool", "600"]);
    let child = job.first(&[]).start();
    job.killed(child);
    job.interval = "3600";
    let child = job.again(&[]).start();
    wait_for(SOON, "rank 1", || rank_1(child.id()).is_some());
    for _ in 0..2 {
        // Time for some lines.
        std::thread::sleep(Duration::from_millis(500));
        let lost = rank_1(child.id()).expect("rank 1");
        kill(lost, libc::SIGKILL);
        wait_for(SOON, "another rank 1", || {
            rank_1(child.id()).is_some_and(|pid| pid != lost)
        });
    }
    let done = job.ends_well(child);
    assert_eq!(times_back(&done.stderr()), 2, "{}", done.text());
}

/// Whether a process is this rank's, and not an image of it.
fn is_rank(pid: u32, rank: u32) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let variables = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let wanted = format!("REJOIN_RANK={rank}");
    let mut variables = variables.split(|byte| *byte == 0);
    name.trim() == "pool" && variables.any(|one| one == wanted.as_bytes())
}

fn refused(run: Run, why: &str) {
    let done = run.output();
    assert_eq!(done.output.status.code(), Some(2), "{}", done.text());
    assert!(done.stderr().contains(why), "{}", done.text());
}

#[test]
fn what_can_not_be_continued_is_refused() {
    let mut job = Named::new("refused", ["back", "work"]);
    refused(job.again(&[]), "holds no job of this name");
    refused(
        job.with_images(&["--job-name", "a/b", "true"]),
        "letters, digits",
    );
    let child = job.first(&[]).start();
    job.killed(child);
    refused(job.first(&[]), "holds a job of this name");
    refused(job.again(&["-n", "2"]), "the job has 3 ranks");
    refused(
        job.again(&[]).arg(program("back")),
        "the program comes from the images",
    );
    for file in files(&job.own(), "image").iter().skip(2) {
        std::fs::remove_file(file).expect("an image");
    }
    refused(job.again(&[]), "holds no checkpoint with an image");
}

#[test]
fn a_job_that_is_ended_by_a_signal_says_how_to_continue_it() {
    let mut job = Named::new("signalled", ["back", "work"]);
    let child = job.first(&[]).start();
    wait_for(SOON, "a checkpoint", || job.committed() > 0);
    kill(child.id(), libc::SIGTERM);
    let done = finish(child, LIMIT, "a job that got SIGTERM");
    assert_eq!(done.output.status.code(), Some(143), "{}", done.text());
    // The processes of the restarted job get signals, too.
    let child = job.again(&[]).start();
    let from = job.committed();
    wait_for(SOON, "another checkpoint", || job.committed() > from);
    kill(child.id(), libc::SIGTERM);
    let done = finish(child, LIMIT, "a restarted job that got SIGTERM");
    assert_eq!(done.output.status.code(), Some(143), "{}", done.text());
    let way = format!(
        "mpirun: to continue the job from checkpoint {}, type: mpirun --images {} --restart=night",
        job.committed(),
        job.folder.join("images").display()
    );
    let text = done.stderr();
    assert_eq!(text.lines().rev().nth(1), Some(&way[..]), "{text}");
    let text = done.stdout();
    job.seen.extend(text.lines().map(str::to_owned));
    let child = job.again(&[]).start();
    job.ends_well(child);
}

#[test]
fn a_job_that_fails_before_its_first_checkpoint_leaves_its_name_to_the_next() {
    let job = Named::new("fails", ["back", "work"]);
    for _ in 0..2 {
        let done = job
            .with_images(&["--job-name", "night", "-n", "2", "false"])
            .output();
        assert_eq!(done.output.status.code(), Some(1), "{}", done.text());
        let text = done.stderr();
        let why = "the job can't be continued: ";
        assert!(text.contains(why), "{}", done.text());
        assert!(!job.own().exists(), "the job has left files");
    }
}

fn files(folder: &Path, kind: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder").flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .filter(|path| path.extension().is_some_and(|e| e == kind))
        .collect()
}

#[test]
fn damaged_files_of_a_job_are_refused_and_stay() {
    for kind in ["image", "note"] {
        let mut job = Named::new(kind, ["back", "work"]);
        let child = job.first(&[]).start();
        job.killed(child);
        for path in files(&job.own(), kind) {
            let mut bytes = std::fs::read(&path).expect("a file");
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            std::fs::write(path, bytes).expect("a damaged file");
        }
        let done = job.again(&[]).output();
        assert!(!done.output.status.success(), "{}", done.text());
        let why = match kind {
            "image" => "the process image is damaged",
            _ => "torn or altered",
        };
        assert!(done.stderr().contains(why), "{kind}: {}", done.text());
        assert!(!files(&job.own(), kind).is_empty());
    }
}

#[test]
fn rejoin_images_lists_checks_and_removes_what_a_killed_job_has_left() {
    let mut job = Named::new("looked-after", ["back", "work"]);
    let child = job.first(&[]).start();
    wait_for(SOON, "a checkpoint", || job.committed() > 0);
    let (code, text) = job.asked(&["list", "night"]);
    assert!(
        code == Some(0) && text.contains("job night, 3 ranks, runs (host "),
        "{text}"
    );
    let (code, text) = job.asked(&["remove", "night"]);
    assert!(
        code == Some(1) && text.contains("nothing is removed"),
        "{text}"
    );
    job.killed(child);

    let (code, text) = job.asked(&["list"]);
    assert!(
        code == Some(0) && text.contains("job night, 3 ranks, does not run"),
        "{text}"
    );
    let committed = job.committed();
    let line = format!("checkpoint {committed}: process images of 3 of 3 ranks");
    assert!(
        text.contains(&line) && text.contains(", committed"),
        "{text}"
    );
    let (code, text) = job.asked(&["list", "--json"]);
    assert!(
        code == Some(0) && text.contains("\"committed\": true"),
        "{text}"
    );
    let (code, text) = job.asked(&["verify"]);
    assert!(code == Some(0) && text.contains(", 0 problems"), "{text}");

    let name = format!("rank-1.epoch-{committed}.image");
    let path = job.own().join(&name);
    let whole = std::fs::read(&path).expect("the image");
    let mut altered = whole.clone();
    altered[whole.len() / 2] ^= 1;
    std::fs::write(&path, altered).expect("a damaged image");
    let (code, text) = job.asked(&["verify", "night"]);
    let bad = text.lines().find(|line| line.contains(&name));
    let bad = bad.is_some_and(|line| line.contains("the process image is damaged"));
    assert!(
        code == Some(1) && bad && text.contains(", 1 problem"),
        "{text}"
    );
    std::fs::write(&path, whole).expect("the image");

    let (code, text) = job.asked(&["remove", "--keep", "1"]);
    let kept = format!("kept: checkpoint {committed}");
    assert!(code == Some(0) && text.contains(&kept), "{text}");
    // The job can still be continued.
    let child = job.again(&[]).start();
    job.killed(child);
    let (code, text) = job.asked(&["remove", "night"]);
    assert!(code == Some(0) && !job.own().exists(), "{text}");
    let (code, text) = job.asked(&["list"]);
    assert!(
        code == Some(0) && text.contains("holds nothing of a job"),
        "{text}"
    );
}

/// The parent of a process.
fn parent(pid: u32) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

#[test]
fn images_of_a_restarted_job_are_children_of_its_manager() {
    let mut job = Named::new("own-images", ["pool", "100"]);
    let child = job.first(&[]).start();
    job.killed(child);
    let child = job.again(&[]).start();
    let from = job.committed();
    wait_for(SOON, "two checkpoints", || job.committed() > from + 1);
    // As in a first run. So what an image makes ahead of a recovery is the manager's child, too.
    let processes = rejoin_tests::job::Job::of(child.id(), "pool");
    wait_for(SOON, "images that are children of the manager", || {
        let images = processes.images();
        let is_own = |pid: &u32| parent(*pid) == Some(processes.local());
        !images.is_empty() && images.iter().all(is_own)
    });
    job.ends_well(child);
}
