//! Ranks that map memory together: a file of `/dev/shm` and one on disk. However ranks are lost,
//! the memory is put back with them.

use rejoin_tests::folder::Folder;
use rejoin_tests::job::{Job, times_back};
use rejoin_tests::processes::{is_alive, kill, wait_for};
use rejoin_tests::torment::{Case, program_survives};
use rejoin_tests::{Finished, Run, finish, program};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_secs(20);
const RANKS: usize = 3;

#[test]
fn memory_that_ranks_map_together_is_put_back_through_kills() {
    let case = Case {
        name: "together",
        args: &["40000"],
        ordered: true,
        files: true,
        least: 20,
    };
    program_survives(&case, 1..3);
}

/// `together until GATE`, or another way.
struct Together {
    folder: Folder,
    child: Child,
    job: Job,
}

impl Together {
    fn start(name: &str, options: &[&str]) -> Together {
        Self::start_as(name, "until", options)
    }

    fn start_as(name: &str, way: &str, options: &[&str]) -> Together {
        let folder = Folder::new(name);
        let events = folder.name("events");
        let all = ["--checkpoint-interval", "0.1", "--max-restarts", "1000"];
        let run = Run::raw([&all[..], &["-n", "3", "--events", &events], options].concat());
        let run = run.arg(program("together")).arg(way);
        let child = run.arg(folder.name("gate")).start();
        let job = Job::of(child.id(), "together");
        Together { folder, child, job }
    }

    fn counted(&self, text: &str) -> usize {
        let events = std::fs::read_to_string(self.folder.join("events")).unwrap_or_default();
        events.matches(text).count()
    }

    /// Waits until the events hold this so many more times.
    fn until_more(&self, count: usize, text: &str) {
        let before = self.counted(text);
        wait_for(SOON, text, || {
            self.counted(text) >= before + count || !is_alive(self.child.id())
        });
    }

    /// The file that the ranks map, in memory.
    fn memory(&self) -> PathBuf {
        let gate = self.folder.name("gate").replace('/', "_");
        PathBuf::from(format!("/dev/shm/rejoin-together{gate}"))
    }

    fn end(self) -> (Finished, Folder) {
        std::fs::write(self.folder.join("gate"), "").expect("the gate");
        let done = finish(self.child, LIMIT, "ranks that map memory together");
        (done, self.folder)
    }

    fn ends_well(self, least: u32) {
        let memory = self.memory();
        let (done, _folder) = self.end();
        assert!(done.output.status.success(), "{}", done.text());
        let right = done.stdout().matches("all sums were right").count();
        assert_eq!(right, RANKS, "{}", done.text());
        let back = times_back(&done.stderr());
        assert!(back >= least, "{back} came back: {}", done.text());
        assert!(!memory.exists(), "the program removes its file");
    }
}

#[test]
fn ranks_that_share_memory_come_back_from_files_when_their_images_are_killed_too() {
    let folder = Folder::new("together-images");
    let images = folder.name("images");
    let job = Together::start("together-files", &["--images", &images]);
    let mut seen = Vec::new();
    for rank in 0..RANKS {
        job.until_more(2, "\"level\":\"file\"");
        job.job.fresh_ranks(RANKS, &mut seen);
        job.job.kill_with_images(rank);
    }
    job.until_more(1, "\"recovered\"");
    job.ends_well(3);
}

#[test]
fn memory_of_ranks_that_was_removed_since_is_made_anew() {
    let job = Together::start("together-removed", &[]);
    let mut seen = Vec::new();
    for turn in 0..4 {
        job.until_more(3, "\"committed\"");
        let now = job.job.fresh_ranks(RANKS, &mut seen);
        // A rank that is stopped can't take part in a further checkpoint. Otherwise that would have
        // to do with a file which has no name.
        kill(now[turn % RANKS], libc::SIGSTOP);
        std::fs::remove_file(job.memory()).expect("the file of the ranks");
        kill(now[turn % RANKS], libc::SIGKILL);
        job.until_more(1, "\"recovered\"");
        wait_for(SOON, "the file", || job.memory().exists());
    }
    job.ends_well(4);
}

/// Maps the file of the ranks, as a process that is none of them.
fn map_as_foreigner(job: &Together) {
    let path = job.memory();
    let mut options = std::fs::OpenOptions::new();
    let file = options.read(true).write(true).mode(0o600).open(path);
    let file = file.expect("the file of the ranks");
    let mut byte = [0];
    file.read_at(&mut byte, 0).expect("a byte");
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, which is used nowhere.
    let at = unsafe {
        use std::os::fd::AsRawFd;
        let (none, kind, fd) = (std::ptr::null_mut(), libc::MAP_SHARED, file.as_raw_fd());
        libc::mmap(none, 4096, access, kind, fd, 0)
    };
    assert_ne!(at, libc::MAP_FAILED);
}

#[test]
fn memory_that_a_foreign_process_maps_too_ends_the_job_at_a_loss() {
    let job = Together::start("together-foreign", &[]);
    job.until_more(3, "\"committed\"");
    map_as_foreigner(&job);
    job.until_more(1, "shares writable memory");
    let memory = job.memory();
    kill(job.job.ranks()[1], libc::SIGKILL);
    let (done, _folder) = job.end();
    let _ = std::fs::remove_file(memory);
    assert!(!done.output.status.success(), "{}", done.text());
    let last = done.last_line();
    assert!(
        last.contains("a rollback could give a wrong answer"),
        "{last}"
    );
}

#[test]
fn a_rank_that_shares_memory_does_not_come_back_alone_after_the_end_of_mpi() {
    let job = Together::start_as("together-after", "after", &[]);
    // All ranks have left MPI, with an image in memory. Before the first one they have no barrier
    // either.
    wait_for(SOON, "the last checkpoint", || {
        let ranks = job.job.ranks();
        let are_out = ranks.iter().all(|pid| !has_barrier(*pid));
        ranks.len() == RANKS && are_out && job.counted("\"committed\"") > 0
    });
    let memory = job.memory();
    kill(job.job.ranks()[1], libc::SIGKILL);
    wait_for(SOON, "the end of the job", || !is_alive(job.child.id()));
    let (done, _folder) = job.end();
    let _ = std::fs::remove_file(memory);
    assert!(!done.output.status.success(), "{}", done.text());
    let last = done.last_line();
    assert!(last.contains("its memory is shared"), "{last}");
}

/// Whether a process takes part in checkpoints.
fn has_barrier(pid: u32) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"));
    maps.is_ok_and(|maps| maps.contains("rejoin-barrier"))
}
