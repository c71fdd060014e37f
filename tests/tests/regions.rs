//! Registered memory as the state from which a restarted job continues: whole, of all ranks, or not
//! at all.

use rejoin_tests::folder::Folder;
use rejoin_tests::job::{Job, Numbers, times_back};
use rejoin_tests::limits::LIMIT;
use rejoin_tests::processes::{is_alive, kill, wait_for};
use rejoin_tests::{Finished, Run, finish, program};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

/// The files of a rank, oldest first.
fn files(folder: &Path, rank: u32) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder");
    let all = entries.map(|entry| entry.expect("an entry").path());
    let mut all: Vec<_> = all
        .filter(|path| path.to_string_lossy().contains(&format!("rank-{rank:06}")))
        .collect();
    all.sort();
    all
}

fn run(ranks: u32, options: &[&str], folder: &Path, args: &[&str]) -> Run {
    let ranks = ranks.to_string();
    let mut run = Run::raw(["-n", &ranks, "--images"]).arg(folder);
    for option in options {
        run = run.arg(option);
    }
    run = run.arg(program("regions"));
    for arg in args {
        run = run.arg(arg);
    }
    run
}

/// A job of three ranks that ends at once after its fifth step, in the folder.
fn lost(folder: &Path) {
    let options = ["--recovery", "none"];
    let done = run(3, &options, folder, &["8", "5"]).output();
    assert_eq!(done.output.status.code(), Some(5), "{}", done.text());
}

fn restarted(folder: &Path) -> Finished {
    let options = ["--recovery", "none", "--restart"];
    run(3, &options, folder, &["8"]).ok()
}

/// The output of an undisturbed job, after its first line.
fn undisturbed() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(run_undisturbed)
}

fn run_undisturbed() -> String {
    let folder = Folder::new("plain");
    let done = run(3, &["--recovery", "none"], &folder, &["8"]).ok();
    let text = done.stdout();
    let end = text.strip_prefix("from step 0\n").expect(&text);
    assert!(end.starts_with("8 steps: "), "{text}");
    end.to_owned()
}

#[test]
fn a_job_started_again_goes_on_from_its_last_checkpoint() {
    let folder = Folder::new("again");
    lost(&folder);
    for rank in 0..3 {
        assert_eq!(files(&folder, rank).len(), 2, "two checkpoints are kept");
    }
    let done = restarted(&folder);
    assert_eq!(done.stdout(), format!("from step 5\n{}", undisturbed()));
    assert_eq!(done.stderr(), "");
}

#[test]
fn a_torn_file_sends_all_ranks_to_the_one_before() {
    let folder = Folder::new("torn");
    lost(&folder);
    let newest = files(&folder, 1).pop().expect("a file");
    let bytes = std::fs::read(&newest).expect("the file");
    std::fs::write(&newest, &bytes[..bytes.len() - 1000]).expect("the file");
    let done = restarted(&folder);
    assert_eq!(done.stdout(), format!("from step 4\n{}", undisturbed()));
    let errors = done.stderr();
    assert!(errors.contains("rejoin: rank 1: not used: "), "{errors}");
    assert!(errors.contains("it was torn"), "{errors}");
}

#[test]
fn altered_files_are_refused_and_different_losses_meet_at_none() {
    let folder = Folder::new("altered");
    lost(&folder);
    let [newest, older] = [(0, 1), (2, 0)].map(|(rank, which)| files(&folder, rank).remove(which));
    for path in [newest, older] {
        let mut bytes = std::fs::read(&path).expect("the file");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes).expect("the file");
    }
    let done = restarted(&folder);
    assert_eq!(done.stdout(), format!("from step 0\n{}", undisturbed()));
    assert!(
        done.stderr().contains("altered or damaged"),
        "{}",
        done.stderr()
    );
}

#[test]
fn files_of_another_rank_are_refused() {
    let folder = Folder::new("foreign");
    lost(&folder);
    let theirs = files(&folder, 2).pop().expect("a file");
    let ours = files(&folder, 0).pop().expect("a file");
    std::fs::copy(theirs, ours).expect("the file");
    let done = restarted(&folder);
    assert!(
        done.stdout().starts_with("from step 4\n"),
        "{}",
        done.text()
    );
    assert!(
        done.stderr().contains("it is of another rank: 2"),
        "{}",
        done.stderr()
    );
}

#[test]
fn a_restart_with_another_number_of_ranks_is_refused_and_overwrites_nothing() {
    let folder = Folder::new("another-size");
    lost(&folder);
    let before: Vec<_> = (0..3).map(|rank| files(&folder, rank)).collect();
    for ranks in [2, 4] {
        let options = ["--recovery", "none", "--restart"];
        let done = run(ranks, &options, &folder, &["1"]).output();
        assert_eq!(done.output.status.code(), Some(2), "{}", done.text());
        assert_eq!(done.stdout(), "", "{}", done.text());
        let sizes = format!("a job of size 3, and this job has size {ranks}.");
        assert!(done.last_line().contains(&sizes), "{}", done.text());
    }
    let after: Vec<_> = (0..3).map(|rank| files(&folder, rank)).collect();
    assert_eq!(before, after);
    let done = restarted(&folder);
    assert_eq!(done.stdout(), format!("from step 5\n{}", undisturbed()));
    // A job that does not continue may have any size.
    let done = run(2, &["--recovery", "none"], &folder, &["1"]).ok();
    assert!(done.stdout().starts_with("from step 0\n"));
}

#[test]
fn a_folder_that_cannot_be_written_is_told_at_the_start() {
    let folder = Folder::new("unwritable");
    let file = folder.join("file");
    std::fs::write(&file, "").expect("a file");
    // No folder; a folder that can't be made; a folder in which nothing can be made.
    for place in [&file, &file.join("below"), Path::new("/proc/self")] {
        let done = run(2, &["--recovery", "none"], place, &["3"]).output();
        assert_eq!(done.output.status.code(), Some(2), "{}", done.text());
        let named = format!("--images {}: ranks could not store", place.display());
        assert!(done.last_line().contains(&named), "{}", done.text());
    }
}

#[test]
fn a_folder_that_is_lost_later_is_an_error_of_the_call() {
    let folder = Folder::new("lost-later");
    let place = folder.join("states");
    let replace = r#"rm -rf "$1"; : > "$1"; exec "$0" 3"#;
    let run = Run::raw(["-n", "2", "--recovery", "none", "--images"]).arg(&place);
    let run = run.arg("sh").arg("-c").arg(replace);
    let done = run.arg(program("regions")).arg(&place).output();
    assert_eq!(done.output.status.code(), Some(4), "{}", done.text());
    assert!(done.stderr().contains("MPI_ERR_IO"), "{}", done.stderr());
    let named = format!("make the folder {}: ", place.display());
    assert!(done.stderr().contains(&named), "{}", done.stderr());
}

/// Adds a rank that may write files of 4 KiB only.
fn with_little_room(run: Run, steps: &str) -> Run {
    let little = r#"trap '' XFSZ; ulimit -f 8; exec "$0" "$1""#;
    let run = run.arg(":").arg("-n").arg("1").arg("sh").arg("-c");
    run.arg(little).arg(program("regions")).arg(steps)
}

#[test]
fn a_store_that_fails_on_one_rank_leaves_the_checkpoint_before_on_all() {
    let folder = Folder::new("later-fails");
    lost(&folder);
    let options = ["--recovery", "none", "--restart"];
    let run = with_little_room(run(1, &options, &folder, &["8"]), "8");
    let run = run.arg(":").arg("-n").arg("1");
    let done = run.arg(program("regions")).arg("8").output();
    assert_eq!(done.output.status.code(), Some(4), "{}", done.text());
    assert_eq!(done.stdout(), "from step 5\n", "{}", done.text());
    assert!(
        done.stderr().contains("rank 1: no checkpoint: "),
        "{}",
        done.text()
    );
    let done = restarted(&folder);
    assert_eq!(done.stdout(), format!("from step 5\n{}", undisturbed()));
}

#[test]
fn a_rank_that_can_not_store_is_named_to_the_others() {
    let folder = Folder::new("one-fails");
    let run = run(1, &["--recovery", "none"], &folder, &["3"]);
    let done = with_little_room(run, "3").output();
    assert_eq!(done.output.status.code(), Some(4), "{}", done.text());
    let errors = done.stderr();
    let at = folder.display();
    let line = |text: &str, of: &str| errors.lines().any(|l| l.contains(text) && l.contains(of));
    let other = format!("rank 1 could not store its registered memory in {at}");
    assert!(line("rank 0: no checkpoint: ", &other), "{errors}");
    let own = format!("write {at}/rank-000001-epoch-0000000001.");
    assert!(line("rank 1: no checkpoint: ", &own), "{errors}");
    assert!(files(&folder, 0).is_empty(), "what the others stored goes");
}

#[test]
fn checkpoints_that_a_program_asks_for_are_those_of_its_images_too() {
    let folder = Folder::new("images");
    let options = ["--checkpoint-interval", "asked", "--verbose"];
    let done = run(3, &options, &folder, &["8"]).ok();
    assert_eq!(done.stdout(), format!("from step 0\n{}", undisturbed()));
    // One at the beginning, one for each step (or two for one that was under way), one at the end.
    let errors = done.stderr();
    let taken = errors.matches("rank 2: image of checkpoint ").count();
    assert!((10..=18).contains(&taken), "{taken}\n{errors}");
    assert_eq!(files(&folder, 2).len(), 2);
}

#[test]
fn only_one_of_two_jobs_stores_registered_memory_in_a_folder() {
    let folder = Folder::new("claimed");
    let child = run(1, &[], &folder, &["100000"]).start();
    let mpirun = child.id();
    wait_for(LIMIT, "a stored state", || !files(&folder, 0).is_empty());
    let done = run(1, &[], &folder, &["1"]).output();
    assert_eq!(done.output.status.code(), Some(4), "{}", done.text());
    let says = "another job stores its registered memory in ";
    assert!(done.stderr().contains(says), "{}", done.text());
    let done = run(1, &["--restart"], &folder, &["1"]).output();
    assert_eq!(done.output.status.code(), Some(2), "{}", done.text());
    let says = "a job that runs stores its registered memory in ";
    assert!(done.last_line().contains(says), "{}", done.text());
    // Images of processes have folders of their own.
    let images = folder.name("");
    let options = [
        "--images",
        &images,
        "--checkpoint-interval",
        "0.1",
        "-n",
        "2",
    ];
    let other = options.iter().fold(Run::raw::<&str>([]), Run::arg);
    other.arg(program("world")).ok();
    kill(mpirun, libc::SIGKILL);
    finish(child, LIMIT, "a job whose mpirun was killed");
}

#[test]
fn files_of_two_jobs_are_not_mixed() {
    let (one, other) = (Folder::new("one"), Folder::new("other"));
    lost(&one);
    lost(&other);
    // As many files of as many ranks, each of them whole.
    for path in files(&other, 2) {
        let name = path.file_name().expect("a name").to_owned();
        std::fs::copy(&path, one.join(name)).expect("a copy");
    }
    let done = restarted(&one);
    assert_eq!(done.stdout(), format!("from step 0\n{}", undisturbed()));
}

#[test]
fn a_restart_needs_a_folder_that_is_there() {
    let done = Run::raw(["--restart", "-n", "1", "true"]).output();
    assert_eq!(done.output.status.code(), Some(2), "{}", done.text());
    let done = run(1, &["--restart"], Path::new("/nowhere"), &["1"]).output();
    assert_eq!(done.output.status.code(), Some(2), "{}", done.text());
    assert!(
        done.stderr().contains("there is no folder /nowhere"),
        "{}",
        done.text()
    );
}

#[test]
fn a_program_alone_keeps_nothing() {
    let done = std::process::Command::new(program("regions"))
        .arg("1")
        .output();
    let done = done.expect("the program");
    let errors = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(4), "{errors}");
    assert!(errors.contains("MPI_ERR_UNSUPPORTED_OPERATION"), "{errors}");
}

/// Eight steps for those who kill ranks: each lasts for five milliseconds or more.
const PACED: [&str; 3] = ["8", "-1", "5000"];

/// Lets a job run and kills a rank of it at some moment. With `held`, the job cannot have ended by
/// then.
fn struck(folder: &Path, options: &[&str], numbers: &mut Numbers, held: bool, what: &str) {
    let files = Folder::new("struck");
    let mut run = run(3, options, folder, &PACED);
    if held {
        run = run.arg(files.join("gate"));
    }
    let child = run.start();
    let mut ranks = Vec::new();
    if let Some(job) = Job::unless_over(child.id(), "regions") {
        wait_for(LIMIT, "the ranks", || {
            ranks = job.ranks();
            ranks.len() == 3 || !job.goes_on()
        });
        // The test looks for a moment in time, so it sleeps.
        std::thread::sleep(Duration::from_micros(numbers.below(60_000)));
        ranks = job.ranks();
    }
    if let Some(victim) = ranks.get(numbers.below(3) as usize) {
        kill(*victim, libc::SIGKILL);
    }
    let done = finish(child, LIMIT, what);
    let code = done.output.status.code();
    assert!(
        code == Some(137) || code == Some(0) && !held,
        "{what}: {}",
        done.text()
    );
}

#[test]
fn a_kill_at_any_moment_leaves_checkpoints_that_are_whole() {
    for seed in 1..=8 {
        let folder = Folder::new(&format!("struck-{seed}"));
        let what = format!("seed {seed}");
        let mut numbers = Numbers(seed);
        // Half of them may be over before.
        let held = seed % 2 == 1;
        struck(&folder, &["--recovery", "none"], &mut numbers, held, &what);
        // Started again it may be in MPI_Rejoin when it is lost once more.
        let again = ["--recovery", "none", "--restart"];
        struck(&folder, &again, &mut numbers, held, &what);
        let done = restarted(&folder);
        let text = done.stdout();
        assert!(text.ends_with(undisturbed()), "{what}: {}", done.text());
        assert!(text.starts_with("from step "), "{what}: {}", done.text());
        // A torn file has another name, and no other file is refused.
        assert_eq!(done.stderr(), "", "{what}");
    }
}

/// Kills ranks of a job at random moments, most of them in calls that store.
fn torment(mpirun: u32, numbers: &mut Numbers) {
    let job = Job::of(mpirun, "regions");
    wait_for(LIMIT, "the first checkpoint", || {
        job.has_checkpoint(3) || !job.goes_on()
    });
    let mut killed = 0;
    while is_alive(mpirun) && killed < 5 {
        std::thread::sleep(Duration::from_micros(2_000 + numbers.below(40_000)));
        if let Some(victim) = job.ranks().get(numbers.below(3) as usize) {
            kill(*victim, libc::SIGKILL);
            killed += 1;
        }
    }
}

#[test]
fn ranks_are_killed_in_calls_that_store_and_fetch() {
    let whole = format!("from step 0\n{}", undisturbed());
    let (mut came, mut seed) = (0, 0);
    // Each run restores at least one rank. Ranks that end while all old processes are stopped are
    // not counted separately.
    while came < 20 {
        seed += 1;
        let folder = Folder::new(&format!("calls-{seed}"));
        let what = format!("seed {seed}");
        let gate = Folder::new(&format!("calls-gate-{seed}"));
        let options = ["--checkpoint-interval", "asked", "--max-restarts", "1000"];
        let run = run(3, &options, &folder, &PACED).arg(gate.join("gate"));
        let child = run.start();
        let mpirun = child.id();
        let done = std::thread::scope(|scope| {
            scope.spawn(|| {
                torment(mpirun, &mut Numbers(seed));
                std::fs::write(gate.join("gate"), "").expect("the gate");
            });
            finish(child, LIMIT, &what)
        });
        assert!(done.output.status.success(), "{what}: {}", done.text());
        assert_eq!(done.stdout(), whole, "{what}: {}", done.stderr());
        let back = times_back(&done.stderr());
        assert!(back > 0, "{what}: nobody came back");
        came += back;
        // The stored files are whole, too.
        let done = restarted(&folder);
        assert_eq!(
            done.stdout(),
            format!("from step 8\n{}", undisturbed()),
            "{what}"
        );
        assert_eq!(done.stderr(), "", "{what}");
    }
    println!("{came} ranks came back in {seed} runs");
}

#[test]
fn a_rank_is_killed_while_all_fetch_what_they_stored() {
    for (seed, fault) in [
        "after-commit=rank-1",
        "commit-sent=rank-0",
        "commit-heard=rank-2",
    ]
    .iter()
    .enumerate()
    {
        let folder = Folder::new(&format!("fetch-{seed}"));
        lost(&folder);
        let options = ["--checkpoint-interval", "asked", "--restart"];
        let run = run(3, &options, &folder, &["8"]);
        let done = run.env("REJOIN_FAULT", fault).ok();
        let (shown, text) = (done.stdout(), done.stderr());
        // Also after a rollback to before the fetch: what was stored since is void.
        assert_eq!(
            shown,
            format!("from step 5\n{}", undisturbed()),
            "{fault}: {text}"
        );
        assert_eq!(times_back(&text), 1, "{fault}: {text}");
    }
}

#[test]
fn managers_and_ranks_are_killed_between_the_number_and_the_commit() {
    let whole = format!("from step 0\n{}", undisturbed());
    for (seed, (fault, back)) in [
        ("regions-numbered=central", 0),
        ("regions-numbered:3=central+rank-0", 1),
        ("regions-numbered:4=rank-2", 1),
        ("regions-committed=central", 0),
        ("regions-committed:2=rank-1", 1),
        ("regions-committed:5=central+rank-0", 1),
    ]
    .iter()
    .enumerate()
    {
        let folder = Folder::new(&format!("stored-{seed}"));
        let options = ["--checkpoint-interval", "asked"];
        let run = run(3, &options, &folder, &["8"]);
        let notes = Folder::new(&format!("stored-notes-{seed}"));
        let run = run.env("REJOIN_FAULT_FILE", &notes.name("notes"));
        let done = run.env("REJOIN_FAULT", fault).ok();
        assert!(notes.join("notes").exists(), "{fault} did not occur");
        assert_eq!(done.stdout(), whole, "{fault}: {}", done.stderr());
        assert_eq!(
            times_back(&done.stderr()),
            *back,
            "{fault}: {}",
            done.stderr()
        );
        let done = restarted(&folder);
        let last = format!("from step 8\n{}", undisturbed());
        assert_eq!(done.stdout(), last, "{fault}: {}", done.stderr());
        assert_eq!(done.stderr(), "", "{fault}");
    }
}
