//! Process images: ranks come back though their images in memory are killed together with them.

use rejoin_image_format::{ImageHeader, SavedTable};
use rejoin_tests::folder::Folder;
use rejoin_tests::job::{Job, by_rank, happened, times_back};
use rejoin_tests::limits::{LIMIT, SOON};
use rejoin_tests::processes::{is_alive, kill, rank_of, wait_for};
use rejoin_tests::small_disk::{fill_disk, with_small_disk};
use rejoin_tests::{Finished, Run, finish, prefix, program};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

const RANKS: usize = 3;
fn of(name: &str, options: &[&str], args: &[&str]) -> Run {
    with_arguments(Run::raw::<&str>([]), name, options, args)
}

fn with_arguments(run: Run, name: &str, options: &[&str], args: &[&str]) -> Run {
    let all = ["--tag-output", "-n", "3", "--max-restarts", "1000"];
    let run = all.iter().chain(options).fold(run, Run::arg);
    args.iter().fold(run.arg(program(name)), Run::arg)
}

/// `mpirun` where nothing is there that Linux 5.14 does not have.
fn on_old_kernel() -> Run {
    let mut command = Command::new(program("without"));
    command.arg("new_calls").arg(prefix().join("bin/mpirun"));
    Run::of(command)
}

/// The whole files of process images below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let within = |folder: &Path| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let all = within(folder);
    let all = all.iter().flat_map(|job| within(job));
    all.filter(|path| path.extension().is_some_and(|e| e == "image"))
        .collect()
}

/// `PROGRAM WAY GATE` with process images.
struct Work {
    /// The program, and its arguments but the gate.
    command: &'static [&'static str],
    child: Child,
    job: Job,
    folder: Folder,
}

impl Work {
    /// Its first checkpoint is committed in files.
    fn begin(name: &str, command: &'static [&'static str], options: &[&str]) -> Work {
        let work = Work::start(name, command, options);
        work.until_files();
        work
    }

    /// A checkpoint is committed in files.
    fn until_files(&self) {
        self.until("files", || self.counted("\"level\":\"file\"") > 0);
    }

    fn start(name: &str, command: &'static [&'static str], options: &[&str]) -> Work {
        Work::start_with(Run::raw::<&str>([]), name, command, options)
    }

    fn start_with(
        run: Run,
        name: &str,
        command: &'static [&'static str],
        options: &[&str],
    ) -> Work {
        let folder = Folder::new(name);
        let (images, events) = (folder.name("images"), folder.name("events"));
        let mut all = vec!["--images", &images, "--events", &events];
        all.extend(options);
        let gate = folder.name("gate");
        let arguments = [&command[1..], &[&gate]].concat();
        let child = with_arguments(run, command[0], &all, &arguments).start();
        let job = Job::of(child.id(), command[0]);
        Work {
            command,
            child,
            job,
            folder,
        }
    }

    fn until(&self, what: &str, is_there: impl Fn() -> bool) {
        wait_for(SOON, what, || is_there() || !is_alive(self.child.id()));
    }

    /// How often this is in the events.
    fn counted(&self, text: &str) -> usize {
        let events = std::fs::read_to_string(self.folder.join("events")).unwrap_or_default();
        events.matches(text).count()
    }

    /// Kills ranks with their images. Returns the new processes of all ranks, when the job runs
    /// again: another kill before that would be one loss with this one.
    fn lose_with_images(&self, victims: &[usize], seen: &mut Vec<u32>) -> Vec<u32> {
        let before = self.counted("\"recovered\"");
        self.job.kill_with_images(victims);
        let fresh = self.job.fresh_ranks(RANKS, seen);
        self.until("a recovery", || self.counted("\"recovered\"") > before);
        fresh
    }

    /// From here on it may end.
    fn end(self, what: &str) -> Finished {
        std::fs::write(self.folder.join("gate"), "").expect("the gate");
        finish(self.child, LIMIT, what)
    }

    /// It ends as an undisturbed run does, after so many ranks have come back, and leaves no file.
    fn ends_well(self, what: &str, least: u32) {
        let gate = self.folder.name("gate");
        let images = self.folder.join("images");
        std::fs::write(&gate, "").expect("the gate");
        let done = finish(self.child, LIMIT, what);
        assert!(done.output.status.success(), "{}", done.text());
        let arguments = [&self.command[1..], &[&gate]].concat();
        let want = of(self.command[0], &["--recovery", "none"], &arguments).ok();
        // Threads that all print do so in any order.
        let lines = |done: &Finished| by_rank(&done.stdout(), self.command[0] != "talkers");
        assert!(
            lines(&done) == lines(&want),
            "other lines:\n{}",
            done.text()
        );
        let came = times_back(&done.stderr());
        assert!(came >= least, "{came} came back: {}", done.text());
        let left = std::fs::read_dir(images).expect("the folder");
        assert_eq!(left.count(), 0, "files are left behind");
    }
}

#[test]
fn a_rank_that_is_killed_together_with_its_images_comes_back_again_and_again() {
    let work = Work::begin(
        "with-images",
        &["back", "work"],
        &["--checkpoint-interval", "0.1"],
    );
    let mut seen = work.job.ranks();
    for rank in [1, 0, 2, 1] {
        let fresh = work.lose_with_images(&[rank], &mut seen);
        let back = fresh.into_iter().find(|pid| rank_of(*pid) == Some(rank));
        let back = back.expect("the rank from the file");
        if is_root() {
            let executable = std::fs::read_link(format!("/proc/{back}/exe"));
            assert_eq!(executable.expect("its program"), program("back"));
        }
    }
    work.ends_well("four kills with images", 4);
}

#[test]
fn an_older_kernel_saves_and_restores_too() {
    let options = ["--checkpoint-interval", "0.1"];
    let work = Work::start_with(on_old_kernel(), "old-kernel", &["back", "work"], &options);
    work.until_files();
    let mut seen = work.job.ranks();
    for rank in [1, 0] {
        work.lose_with_images(&[rank], &mut seen);
    }
    work.ends_well("two kills on an old kernel", 2);
}

/// Whether a file of an image has compressed pages. It may be gone by now.
fn is_compressed(path: &Path) -> bool {
    let Ok(bytes) = std::fs::read(path) else {
        return false;
    };
    let page = bytes.first_chunk().expect("a page");
    let header = ImageHeader::decode(page, bytes.len() as u64).expect("a header");
    let (from, length) = (header.table.position as usize, header.table.length as usize);
    let table = SavedTable::new(&header, &bytes[from..from + length]).expect("a table");
    let mut extents = table.regions().flat_map(|region| table.extents_of(&region));
    extents.any(|extent| extent.file == 0 && extent.block.is_some())
}

#[test]
fn a_rank_comes_back_again_and_again_from_compressed_files() {
    let options = ["--checkpoint-interval", "0.1", "--image-compression", "lz4"];
    let work = Work::begin("compressed", &["back", "work"], &options);
    let mut seen = work.job.ranks();
    for rank in [2, 0] {
        work.lose_with_images(&[rank], &mut seen);
    }
    let images = work.folder.join("images");
    work.until("compressed files", || {
        files(&images).iter().any(|path| is_compressed(path))
    });
    work.ends_well("two kills with compressed images", 2);
}

/// The system lets root alone set what `/proc/PID/exe` shows.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|data| data.uid() == 0)
}

#[test]
fn files_of_a_job_that_was_killed_are_removed_by_the_next_one() {
    let work = Work::begin("left", &["back", "short"], &[]);
    let images = work.folder.name("images");
    kill(work.job.local(), libc::SIGKILL);
    let gate = work.folder.name("gate");
    let Work { child, folder, .. } = work;
    let done = finish(child, LIMIT, "a job without its manager");
    assert!(!done.output.status.success(), "{}", done.text());
    let jobs = || std::fs::read_dir(&images).expect("the folder").count();
    assert_eq!(jobs(), 1, "nobody was there to remove the files");
    std::fs::write(&gate, "").expect("the gate");
    of("back", &["--images", &images], &["short", &gate]).ok();
    assert_eq!(jobs(), 0, "{}", folder.display());
}

#[test]
fn all_ranks_and_all_images_killed_at_once_come_back() {
    let work = Work::begin(
        "everything",
        &["back", "work"],
        &["--checkpoint-interval", "asked"],
    );
    let mut seen = work.job.ranks();
    for _ in 0..3 {
        work.lose_with_images(&[0, 1, 2], &mut seen);
    }
    work.ends_well("everything killed three times", 3);
}

/// A program each of whose ranks is killed together with its images in turn.
fn come_back(name: &str, command: &'static [&'static str]) {
    let work = Work::begin(name, command, &["--checkpoint-interval", "0.1"]);
    let mut seen = work.job.ranks();
    for rank in [0, 2, 1] {
        work.lose_with_images(&[rank], &mut seen);
    }
    work.ends_well("three kills of ranks with their images", 3);
}

#[test]
fn a_file_that_is_overwritten_in_place_is_put_back_from_an_image_in_a_file() {
    come_back("counters", &["counters", "small"]);
}

#[test]
fn a_file_that_is_renamed_is_made_again_from_an_image_in_a_file() {
    come_back("counters-renamed", &["counters", "renamed", "300"]);
}

#[test]
fn pipes_and_epoll_sets_within_a_rank_come_back_from_files() {
    come_back("within", &["within", "300"]);
}

#[test]
fn threads_that_hold_locks_come_back_from_files() {
    come_back("pool", &["pool", "100"]);
}

#[test]
fn threads_of_openmp_come_back_from_files() {
    come_back("openmp", &["openmp", "200", "300"]);
}

#[test]
fn threads_that_all_communicate_come_back_from_files() {
    come_back("talkers", &["talkers", "100"]);
}

#[test]
fn threads_that_hold_mutexes_across_checkpoints_come_back_from_files() {
    come_back("held", &["held", "100"]);
}

#[test]
fn threads_with_timers_of_their_own_come_back_from_files() {
    come_back("ticking", &["ticking", "20"]);
}

#[test]
fn a_rank_that_dies_with_its_image_in_memory_goes_back_to_older_files() {
    let options = [
        "--checkpoint-interval",
        "asked",
        "--checkpoint-signal",
        "USR1",
    ];
    let work = Work::begin("older-files", &["back", "work"], &options);
    let images = work.folder.join("images");
    let job = files(&images)[0].parent().expect("a folder").to_path_buf();
    let aside = images.join("aside");
    // There is no folder for more files.
    std::fs::rename(&job, &aside).expect("a folder");
    std::fs::write(&job, "").expect("a file");
    kill(work.child.id(), libc::SIGUSR1);
    work.until("a checkpoint without files", || {
        work.counted("\"not-stored\"") > 0
    });
    assert_eq!(work.counted("\"level\":\"memory\""), 2);
    std::fs::remove_file(&job).expect("the file");
    std::fs::rename(&aside, &job).expect("a folder");
    let mut seen = work.job.ranks();
    work.lose_with_images(&[2], &mut seen);
    let events = std::fs::read_to_string(work.folder.join("events")).expect("events");
    let recovered = events.lines().find(|line| line.contains("\"recovered\""));
    let recovered = recovered.expect("a recovery");
    assert!(recovered.contains("\"epoch\":1,"), "{events}");
    // Checkpoints go on, in both places.
    std::thread::sleep(Duration::from_millis(1100));
    kill(work.child.id(), libc::SIGUSR1);
    work.until("files again", || work.counted("\"level\":\"file\"") > 1);
    work.lose_with_images(&[1], &mut seen);
    work.ends_well("a kill with an image that has no file", 2);
}

#[test]
fn output_is_committed_only_with_files() {
    let options = ["--checkpoint-interval", "0.1", "--output", "commit"];
    let work = Work::begin("committed-output", &["back", "work"], &options);
    let mut seen = work.job.ranks();
    for rank in [0, 2] {
        work.lose_with_images(&[rank], &mut seen);
    }
    work.ends_well("kills while output is held", 2);
}

#[test]
fn a_damaged_image_is_refused_by_name_and_the_job_ends() {
    let work = Work::begin(
        "damaged",
        &["back", "work"],
        &["--checkpoint-interval", "asked"],
    );
    let all = files(&work.folder.join("images"));
    assert_eq!(all.len(), RANKS, "{all:?}");
    for path in &all {
        let mut bytes = std::fs::read(path).expect("an image");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(path, bytes).expect("a damaged image");
    }
    work.job.kill_with_images(&[1]);
    let done = finish(work.child, LIMIT, "a damaged image");
    assert!(!done.output.status.success(), "{}", done.text());
    let text = done.stderr();
    assert!(
        text.contains("the process image is damaged where the memory"),
        "{text}"
    );
}

#[test]
fn a_program_with_a_socket_has_images_in_memory_and_is_told_why() {
    let options = ["--checkpoint-interval", "0.1"];
    let work = Work::start("socket", &["back", "socket"], &options);
    work.until("the first checkpoint", || work.job.has_checkpoint(RANKS));
    let mut seen = work.job.ranks();
    work.until("a refusal", || work.counted("\"not-stored\"") > 0);
    kill(seen[1], libc::SIGKILL);
    work.job.fresh_ranks(RANKS, &mut seen);
    let done = work.end("a program with a socket");
    assert!(done.output.status.success(), "{}", done.text());
    let text = done.stderr();
    assert!(
        text.contains("its images are in memory only, and in no file: descriptor"),
        "{text}"
    );
    assert!(times_back(&text) >= 1, "{text}");
}

/// The epoch in the name of each file, sorted.
fn epochs(files: &[PathBuf]) -> Vec<u32> {
    let epoch = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?;
        let (_, epoch) = name.strip_suffix(".image")?.rsplit_once("epoch-")?;
        epoch.parse().ok()
    };
    let mut all: Vec<u32> = files.iter().filter_map(epoch).collect();
    all.sort_unstable();
    all
}

/// The files when nothing is being removed or completed any more.
fn files_that_stay(stored: impl Fn() -> Vec<u32>) -> Vec<u32> {
    let mut before = Vec::new();
    wait_for(SOON, "files that stay", || {
        let now = stored();
        std::thread::sleep(Duration::from_millis(300));
        before = stored();
        now == before && before.len() >= RANKS
    });
    before
}

#[test]
fn on_a_full_disk_the_files_before_stand_and_ranks_come_back_from_them() {
    let folder = Folder::new("full-disk");
    let gates = Folder::new("full-disk-gate");
    let (images, gate) = (folder.name("images"), gates.name("gate"));
    let events = gates.name("events");
    let options = [
        "--events",
        &events,
        "--tag-output",
        "-n",
        "3",
        "--max-restarts",
        "1000",
        "--checkpoint-interval",
        "0.1",
        "--image-interval",
        "0.1",
        "--images",
        &images,
    ];
    let Some(run) = with_small_disk(&folder, 256, &options) else {
        return;
    };
    let run = run.arg(program("back")).arg("work").arg(&gate);
    let child = run.start();
    let job = Job::of(child.id(), "back");
    wait_for(SOON, "the first checkpoint", || {
        job.has_checkpoint(RANKS) || !is_alive(child.id())
    });
    let disk = PathBuf::from(format!("/proc/{}/root{}", child.id(), folder.display()));
    let stored = || epochs(&files(&disk.join("images")));
    wait_for(SOON, "the first files", || {
        stored().len() >= RANKS || !is_alive(child.id())
    });
    fill_disk(&disk.join("filler"));
    wait_for(SOON, "a failure", || happened(&events, "not-stored") > 0);
    // What failed has given its room back.
    fill_disk(&disk.join("rest"));
    let before = files_that_stay(stored);
    let mut seen = job.ranks();
    for rank in [1, 0] {
        let recovered = happened(&events, "recovered");
        job.kill_with_images(&[rank]);
        job.fresh_ranks(RANKS, &mut seen);
        wait_for(SOON, "a recovery", || {
            happened(&events, "recovered") > recovered
        });
    }
    // An attempt that fails may have named a file for a moment.
    wait_for(SOON, "the files before alone", || stored() == before);
    for filler in ["filler", "rest"] {
        std::fs::remove_file(disk.join(filler)).expect("room again");
    }
    wait_for(SOON, "newer files", || stored().last() > before.last());
    std::fs::write(&gate, "").expect("the gate");
    let done = finish(child, LIMIT, "a full disk");
    assert!(done.output.status.success(), "{}", done.text());
    let want = of("back", &["--recovery", "none"], &["work", &gate]).ok();
    assert!(
        by_rank(&done.stdout(), true) == by_rank(&want.stdout(), true),
        "other lines:\n{}",
        done.text()
    );
    let text = done.stderr();
    assert!(text.contains("No space left on device"), "{text}");
    assert!(times_back(&text) >= 2, "{text}");
}
