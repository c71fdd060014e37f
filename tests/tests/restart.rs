//! Whole jobs that are restarted: every process is killed, and `mpirun --restart=NAME` continues
//! from the files.

use rejoin_tests::job::{happened, times_back};
use rejoin_tests::limits::{LIMIT, SOON};
use rejoin_tests::named_job::NamedJob;
use rejoin_tests::processes::{descendants, kill, wait_for};
use rejoin_tests::{Run, finish, program};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[test]
fn a_job_whose_processes_are_all_killed_twice_continues_by_its_name() {
    let mut job = NamedJob::gated("all-killed", ["back", "work"]);
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
    let mut job = NamedJob::gated("compressed", ["back", "work"]);
    let child = job.first(&["--image-compression", "lz4"]).start();
    job.killed(child);
    // Files of earlier checkpoints may be there, too.
    let lengths = |job: &NamedJob| -> Vec<u64> {
        let image = |rank| format!("rank-{rank}.epoch-{}.image", job.committed());
        let length = |name: String| std::fs::metadata(job.own().join(name));
        let all = (0..3).map(|rank| length(image(rank)).expect("a file").len());
        all.collect()
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
    let mut job = NamedJob::gated("counters", ["counters", "small"]);
    let child = job.first(&[]).start();
    job.killed(child);
    let child = job.again(&[]).start();
    job.killed(child);
    let child = job.again(&[]).start();
    job.ends_well(child);
}

#[test]
fn memory_that_ranks_map_together_is_put_back_at_a_restart() {
    let mut job = NamedJob::gated("restart-together", ["together", "until"]);
    let mut child = job.first(&[]).start();
    for is_removed in [true, false] {
        job.killed(child);
        if is_removed {
            // As after the machine was off.
            let gate = job.folder().name("gate").replace('/', "_");
            let memory = format!("/dev/shm/rejoin-together{gate}");
            std::fs::remove_file(memory).expect("the file of the ranks");
        }
        child = job.again(&[]).start();
    }
    job.ends_well(child);
}

#[test]
fn ranks_of_a_restarted_job_come_back_when_they_are_killed() {
    let mut job = NamedJob::gated("killed-later", ["pool", "100"]);
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
    let mut job = NamedJob::gated("killed-at-once", ["pool", "600"]);
    let child = job.first(&[]).start();
    job.killed(child);
    job.interval = "3600";
    let events = job.folder().name("events");
    let child = job.again(&["--events", &events]).start();
    for recovered in 1..=2 {
        // A loss before that would be one with the one before.
        wait_for(SOON, "a job that is back", || {
            happened(&events, "recovered") >= recovered
        });
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
    let mut job = NamedJob::gated("refused", ["back", "work"]);
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
    let mut job = NamedJob::gated("signalled", ["back", "work"]);
    let child = job.first(&[]).start();
    wait_for(SOON, "a checkpoint", || job.committed() > 0);
    kill(child.id(), libc::SIGTERM);
    let done = finish(child, LIMIT, "a job that got SIGTERM");
    assert_eq!(done.output.status.code(), Some(143), "{}", done.text());
    job.has_seen(&done.stdout());
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
        job.folder().join("images").display()
    );
    let text = done.stderr();
    assert_eq!(text.lines().rev().nth(1), Some(&way[..]), "{text}");
    let text = done.stdout();
    job.has_seen(&text);
    let child = job.again(&[]).start();
    job.ends_well(child);
}

#[test]
fn a_job_that_fails_before_its_first_checkpoint_leaves_its_name_to_the_next() {
    let job = NamedJob::gated("fails", ["back", "work"]);
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
        let mut job = NamedJob::gated(kind, ["back", "work"]);
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
        let advice = "and no earlier one is kept";
        assert!(done.stderr().contains(advice), "{kind}: {}", done.text());
        assert!(!files(&job.own(), kind).is_empty());
    }
}

#[test]
fn rejoin_images_lists_checks_and_removes_what_a_killed_job_has_left() {
    let mut job = NamedJob::gated("looked-after", ["back", "work"]);
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

/// Damages the image of rank 1 at the newest checkpoint.
fn damage_newest(job: &NamedJob) {
    let name = format!("rank-1.epoch-{}.image", job.committed());
    let path = job.own().join(name);
    let mut bytes = std::fs::read(&path).expect("the image");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path, bytes).expect("a damaged image");
}

#[test]
fn a_job_continues_from_the_checkpoint_before_a_damaged_one() {
    let mut job = NamedJob::gated("damaged", ["back", "work"]);
    let mut child = job.first(&[]).start();
    for _ in 0..2 {
        job.killed_with_two(child);
        damage_newest(&job);
        child = job.again(&[]).start();
    }
    let done = job.ends_well(child);
    let said = done.stderr();
    let damaged = said.lines().find(|line| line.contains("can't be used"));
    let damaged = damaged.unwrap_or_else(|| panic!("{said}"));
    for word in ["rank 1: ", "damaged", "the one before it"] {
        assert!(damaged.contains(word), "{damaged}");
    }
}

/// The parent of a process.
fn parent(pid: u32) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

#[test]
fn images_of_a_restarted_job_are_children_of_its_manager() {
    let mut job = NamedJob::gated("own-images", ["pool", "100"]);
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
