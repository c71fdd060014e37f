//! Ranks that map memory together: a file of `/dev/shm` and one on disk. However ranks are lost,
//! the memory is put back with them.

use rejoin_tests::folder::Folder;
use rejoin_tests::job::{Job, times_back};
use rejoin_tests::limits::{LIMIT, SOON};
use rejoin_tests::processes::{is_alive, kill, wait_for};
use rejoin_tests::torment::{Case, program_survives};
use rejoin_tests::{Finished, Run, finish, program};
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Child;

const RANKS: usize = 3;

#[test]
fn memory_that_ranks_map_together_is_put_back_through_kills() {
    let case = Case {
        name: "together",
        args: &["10000"],
        mode: &[],
        ordered: true,
        files: true,
        with_images: false,
        shows: None,
        least: 20,
    };
    program_survives(&case, 1..3);
}

const OFTEN: &[&str] = &["--checkpoint-interval", "0.1"];

/// `together until GATE`, or another program and way.
struct Together {
    folder: Folder,
    child: Child,
    job: Job,
}

impl Together {
    fn start(name: &str, options: &[&str]) -> Together {
        let options = [OFTEN, options].concat();
        let job = Self::start_in(Folder::new(name), ["together", "until"], &options);
        job.until_both_are_mapped();
        job
    }

    /// Waits until each rank maps both files. From there on their checkpoints hold the memory: a
    /// file that ranks only have open would be one with several writers, which is not put back.
    fn until_both_are_mapped(&self) {
        self.until_mapped(RANKS, &self.memory());
        self.until_mapped(RANKS, &self.folder.join("gate.common"));
    }

    /// Waits until the first ranks map a file.
    fn until_mapped(&self, ranks: usize, file: &Path) {
        let file = file.to_str().expect("a name of text");
        let is_mapped_by = |pid: &u32| maps(*pid).contains(file);
        wait_for(SOON, "the mapping of a file by all ranks", || {
            let all = self.job.ranks();
            let they_map = all.len() == RANKS && all.iter().take(ranks).all(is_mapped_by);
            they_map || !is_alive(self.child.id())
        });
    }

    fn start_in(folder: Folder, command: [&str; 2], options: &[&str]) -> Together {
        let events = folder.name("events");
        let all = ["--max-restarts", "1000", "-n", "3", "--events", &events];
        let run = Run::raw([&all[..], options].concat());
        let run = run.arg(program(command[0])).arg(command[1]);
        let child = run.arg(folder.name("gate")).start();
        let job = Job::of(child.id(), command[0]);
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

    /// Kills a rank, and waits until the job runs again.
    fn recovers_from(&self, pid: u32) {
        let before = self.counted("\"recovered\"");
        kill(pid, libc::SIGKILL);
        wait_for(SOON, "a recovery", || {
            self.counted("\"recovered\"") > before || !is_alive(self.child.id())
        });
        assert!(is_alive(self.child.id()), "{}", self.said());
    }

    /// Waits for ranks that are none of these, and counts them among these.
    fn fresh_ranks(&self, seen: &mut Vec<u32>) -> Vec<u32> {
        let now = self.job.fresh_ranks(RANKS, seen);
        assert!(is_alive(self.child.id()), "{}", self.said());
        now
    }

    /// What the job has said, when it has ended.
    fn said(&self) -> String {
        let errors = self.child.stderr.as_ref().expect("a pipe").as_fd();
        let mut errors = File::from(errors.try_clone_to_owned().expect("a descriptor"));
        let mut text = String::new();
        errors.read_to_string(&mut text).expect("text");
        text
    }

    /// The file that the ranks map, in memory.
    fn memory(&self) -> PathBuf {
        self.memory_as("rejoin-together")
    }

    fn memory_as(&self, name: &str) -> PathBuf {
        let gate = self.folder.name("gate").replace('/', "_");
        PathBuf::from(format!("/dev/shm/{name}{gate}"))
    }

    /// Removes both files that the ranks map.
    fn remove_files(&self) {
        std::fs::remove_file(self.memory()).expect("the file in memory");
        std::fs::remove_file(self.folder.join("gate.common")).expect("the file on disk");
    }

    /// From here on it may end.
    fn open_gate(&self) {
        std::fs::write(self.folder.join("gate"), "").expect("the gate");
    }

    fn end(self) -> (Finished, Folder) {
        self.open_gate();
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
        job.fresh_ranks(&mut seen);
        let before = job.counted("\"recovered\"");
        job.job.kill_with_images(&[rank]);
        wait_for(SOON, "a recovery", || {
            job.counted("\"recovered\"") > before || !is_alive(job.child.id())
        });
    }
    job.ends_well(3);
}

#[test]
fn memory_of_ranks_that_was_removed_since_is_made_anew() {
    let job = Together::start("together-removed", &[]);
    let mut seen = Vec::new();
    for turn in 0..4 {
        job.until_more(3, "\"committed\"");
        let now = job.fresh_ranks(&mut seen);
        // A rank that is stopped can't take part in a further checkpoint. Otherwise that would have
        // to do with a file which has no name.
        kill(now[turn % RANKS], libc::SIGSTOP);
        job.remove_files();
        job.recovers_from(now[turn % RANKS]);
        wait_for(SOON, "the file", || job.memory().exists());
    }
    job.ends_well(4);
}

#[test]
fn files_that_were_made_anew_are_known_at_a_second_loss_before_a_checkpoint() {
    let folder = Folder::new("together-twice");
    let asked = [
        "--checkpoint-interval",
        "asked",
        "--checkpoint-signal",
        "USR1",
    ];
    let job = Together::start_in(folder, ["together", "until"], &asked);
    // The first checkpoint is that of the start.
    wait_for(SOON, "a checkpoint", || job.counted("\"committed\"") > 0);
    job.until_both_are_mapped();
    kill(job.child.id(), libc::SIGUSR1);
    wait_for(SOON, "the second checkpoint", || {
        job.counted("\"committed\"") > 1
    });
    let committed = job.counted("\"committed\"");
    let mut seen = Vec::new();
    for turn in 0..RANKS {
        let now = job.fresh_ranks(&mut seen);
        if turn == 0 {
            job.remove_files();
        }
        job.recovers_from(now[turn]);
    }
    assert_eq!(job.counted("\"committed\""), committed);
    job.ends_well(3);
}

#[test]
fn a_file_whose_name_is_removed_once_all_map_it_is_mapped_by_all_again() {
    let folder = Folder::new("slices-unlink");
    let job = Together::start_in(folder, ["slices", "unlink"], OFTEN);
    let memory = job.memory_as("rejoin-unlinked");
    job.until_mapped(RANKS, &memory);
    job.until_more(4, "\"committed\"");
    // No checkpoint is taken from here on.
    let last = job.job.ranks()[2];
    kill(last, libc::SIGSTOP);
    job.open_gate();
    wait_for(SOON, "the removal", || !memory.exists());
    job.recovers_from(last);
    job.ends_well(1);
    assert!(!memory.exists());
}

#[test]
fn a_file_that_a_rank_only_has_open_is_not_made_anew_without_it() {
    let folder = Folder::new("slices-late");
    let job = Together::start_in(folder, ["slices", "late"], OFTEN);
    let memory = job.memory_as("rejoin-unlinked");
    job.until_mapped(RANKS - 1, &memory);
    wait_for(SOON, "a rank that has it open", || {
        has_open(job.job.ranks()[2], &memory) || !is_alive(job.child.id())
    });
    job.until_more(4, "\"committed\"");
    let last = job.job.ranks()[2];
    kill(last, libc::SIGSTOP);
    job.open_gate();
    wait_for(SOON, "the removal", || !memory.exists());
    kill(last, libc::SIGKILL);
    let (done, _folder) = job.end();
    let _ = std::fs::remove_file(memory);
    assert!(!done.output.status.success(), "{}", done.text());
    let says = "rank 2 has the earlier file open";
    assert!(done.last_line().contains(says), "{}", done.text());
}

#[test]
fn a_rank_that_is_killed_while_it_waits_for_the_images_of_others_comes_back() {
    let job = Together::start("together-waits", &[]);
    let mut seen = Vec::new();
    for turn in 0..2 {
        job.until_more(3, "\"committed\"");
        let now = job.fresh_ranks(&mut seen);
        kill(now[2], libc::SIGSTOP);
        let waiting = now[turn];
        wait_for(SOON, "a rank that waits", || waits_in_barrier(waiting));
        job.recovers_from(waiting);
    }
    job.ends_well(2);
}

/// The memory of a process, as `/proc` lists it, or nothing.
fn maps(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default()
}

/// Whether a process has a file open.
fn has_open(pid: u32, file: &Path) -> bool {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd"));
    let mut open = open.into_iter().flatten().flatten();
    open.any(|one| std::fs::read_link(one.path()).is_ok_and(|path| path == file))
}

/// Whether a thread of a process sleeps in the memory of the barrier.
fn waits_in_barrier(pid: u32) -> bool {
    let maps = maps(pid);
    let line = maps.lines().find(|line| line.contains("rejoin-barrier"));
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let range = line.and_then(|line| {
        let (from, to) = line.split_whitespace().next()?.split_once('-')?;
        Some(number(from)?..number(to)?)
    });
    let call = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    let place = call.split_whitespace().nth(1);
    let place = place.and_then(|text| number(text.strip_prefix("0x")?));
    let is_futex = call.starts_with(&format!("{} ", libc::SYS_futex));
    is_futex && range.zip(place).is_some_and(|(r, at)| r.contains(&at))
}

const PAGE: usize = 4096;

#[test]
fn bytes_that_no_rank_maps_stay_as_they_are() {
    let folder = Folder::new("slices-apart");
    let path = folder.join("gate.slices");
    std::fs::write(&path, vec![7; 6 * PAGE]).expect("the file");
    let images = folder.name("images");
    let with = [OFTEN, &["--images", &images]].concat();
    let job = Together::start_in(folder, ["slices", "apart"], &with);
    job.until_more(3, "\"level\":\"file\"");
    let file = std::fs::OpenOptions::new().write(true).open(&path);
    let file = file.expect("the file");
    for page in [0, 4] {
        let at = (page * PAGE) as u64;
        file.write_all_at(&[9; PAGE], at).expect("bytes");
    }
    job.recovers_from(job.job.ranks()[1]);
    job.until_more(3, "\"level\":\"file\"");
    let before = job.counted("\"recovered\"");
    job.job.kill_with_images(&[2]);
    wait_for(SOON, "a recovery", || {
        job.counted("\"recovered\"") > before || !is_alive(job.child.id())
    });
    let (done, _folder) = job.end();
    assert!(done.output.status.success(), "{}", done.text());
    let bytes = std::fs::read(&path).expect("the file");
    let pages: Vec<_> = bytes.chunks(PAGE).collect();
    assert_eq!(pages.len(), 6);
    for (page, value) in [(0, 9), (4, 9), (5, 7)] {
        assert!(pages[page].iter().all(|byte| *byte == value), "page {page}");
    }
    for rank in 0..RANKS {
        let sum = pages[1 + rank].first_chunk().copied();
        let line = format!(
            "rank {rank}: slice {}",
            u64::from_le_bytes(sum.expect("a sum"))
        );
        assert!(done.stdout().contains(&line), "{line}: {}", done.text());
    }
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
    let before = job.counted("has writable shared memory");
    map_as_foreigner(&job);
    wait_for(SOON, "a refusal", || {
        job.counted("has writable shared memory") > before || !is_alive(job.child.id())
    });
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
    let folder = Folder::new("together-after");
    let job = Together::start_in(folder, ["together", "after"], OFTEN);
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
    maps(pid).contains("rejoin-barrier")
}
