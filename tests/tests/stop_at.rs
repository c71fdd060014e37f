//! Jobs that stop with a last checkpoint, by `--stop-at` and by signals with `--grace`, and that
//! continue: both runs together print what an undisturbed one prints.

use rejoin_tests::folder::Folder;
use rejoin_tests::job::happened;
use rejoin_tests::limits::{LIMIT, SOON};
use rejoin_tests::processes::{kill, wait_for};
use rejoin_tests::{Finished, Run, finish, program};
use std::process::Child;
use std::time::{Duration, Instant};

/// The exit code after a stop.
const STOPPED: Option<i32> = Some(85);
/// Side of the grid, number of steps, and steps between lines.
const WORK: [&str; 3] = ["64", "1000", "1"];

/// A job with a name, and what it has printed.
struct Job {
    folder: Folder,
    printed: String,
}

impl Job {
    fn new(name: &str) -> Job {
        let (folder, printed) = (Folder::new(name), String::new());
        std::fs::create_dir(folder.join("images")).expect("a folder");
        Job { folder, printed }
    }

    fn with_images(&self, options: &[&str]) -> Run {
        let all = ["--checkpoint-interval", "asked", "--images"];
        let run = Run::raw(all).arg(self.folder.join("images"));
        options.iter().fold(run, |run, option| run.arg(option))
    }

    /// The job begins. It prints a line in each step, and needs at least two seconds. It ends only
    /// when it continues.
    fn first(&self, options: &[&str]) -> Run {
        let all = [options, &["--job-name", "night", "-n", "3"]].concat();
        let run = self.with_images(&all).arg(program("cg"));
        let run = WORK.iter().fold(run, |run, word| run.arg(word));
        run.arg("2000").arg(self.gate())
    }

    fn gate(&self) -> String {
        self.folder.name("gate")
    }

    /// Whether a checkpoint is committed in files.
    fn in_files(&self) -> bool {
        let record = self.folder.join("images").join("night").join("job.json");
        let text = std::fs::read_to_string(record).unwrap_or_default();
        text.contains("\"checkpoint\":") && !text.contains("\"checkpoint\":null")
    }

    /// Waits until the job computes.
    fn computes(&self) {
        wait_for(SOON, "a checkpoint in files", || self.in_files());
        std::thread::sleep(Duration::from_millis(100));
    }

    /// The run has stopped, and says how to continue.
    fn stopped(&mut self, done: &Finished) {
        assert_eq!(done.output.status.code(), STOPPED, "{}", done.text());
        let text = done.stderr();
        let images = self.folder.join("images");
        let way = format!("mpirun --images {} --restart=night", images.display());
        let before_last = text.lines().rev().nth(1).unwrap_or_default();
        assert!(before_last.ends_with(&way), "{text}");
        assert!(
            text.ends_with("the job has ended with exit code 85\n"),
            "{text}"
        );
        self.printed += &done.stdout();
    }

    /// The job continues to its end, and all lines were printed once.
    fn continues(mut self, options: &[&str]) {
        std::fs::write(self.gate(), "").expect("the gate");
        let all = [options, &["--restart=night"]].concat();
        let done = self.with_images(&all).ok();
        self.printed += &done.stdout();
        let want = Run::raw(["--recovery", "none", "-n", "3"]).arg(program("cg"));
        let want = WORK.iter().fold(want, |run, word| run.arg(word)).ok();
        let want = want.stdout();
        for rank in 0..3 {
            let of = |text: &str| -> Vec<String> {
                let tag = format!("rank {rank} ");
                let lines = text.lines().filter(|line| line.starts_with(&tag));
                lines.map(str::to_owned).collect()
            };
            let (want, printed) = (of(&want), of(&self.printed));
            let at = want.iter().zip(&printed).position(|(a, b)| a != b);
            let said = done.stderr();
            assert!(want == printed, "rank {rank}, line {at:?}: {said}");
        }
        assert_eq!(want.len(), self.printed.len());
        assert!(!self.folder.join("images").join("night").exists());
    }
}

fn ends(child: Child) -> Finished {
    finish(child, LIMIT, "a job that is to stop")
}

#[test]
fn a_job_that_stops_at_a_time_and_continues_prints_each_line_once() {
    for output in ["now", "commit"] {
        let mut job = Job::new(&format!("stop-at-{output}"));
        let begun = Instant::now();
        let done = job
            .first(&["--stop-at", "+2s", "--output", output])
            .output();
        assert!(begun.elapsed() >= Duration::from_secs(2));
        job.stopped(&done);
        let says = "the time of --stop-at has come";
        assert!(done.stderr().contains(says), "{}", done.text());
        job.continues(&["--output", output]);
    }
}

#[test]
fn a_signal_with_a_grace_time_stops_a_job() {
    for (name, signal) in [("TERM", libc::SIGTERM), ("usr1", libc::SIGUSR1)] {
        let mut job = Job::new(&format!("grace-{name}"));
        let child = job
            .first(&["--grace", "60s", "--stop-signal", name])
            .start();
        job.computes();
        kill(child.id(), signal);
        if signal == libc::SIGTERM {
            // As timeout(1) does.
            kill(child.id(), signal);
        }
        let done = ends(child);
        let says = format!("signal {signal} (SIG{})", name.to_uppercase());
        assert!(done.stderr().contains(&says), "{}", done.text());
        job.stopped(&done);
        job.continues(&[]);
    }
}

#[test]
fn ranks_and_the_central_manager_may_be_killed_while_a_job_stops() {
    // The checkpoint of the stop is the second one.
    let faults = [
        "request-sent=rank-1",
        "after-commit:3=rank-1",
        "commit-sent:3=central",
        "after-commit:4=central",
        "before-commit:4=central+rank-1",
    ];
    for (number, fault) in faults.iter().enumerate() {
        let mut job = Job::new(&format!("stop-fault-{number}"));
        let notes = job.folder.name("notes");
        let run = job.first(&["--grace", "60s"]).env("REJOIN_FAULT", fault);
        let child = run.env("REJOIN_FAULT_FILE", &notes).start();
        job.computes();
        kill(child.id(), libc::SIGTERM);
        let done = ends(child);
        let struck = std::fs::read_to_string(&notes).unwrap_or_default();
        assert!(struck.contains(fault), "{fault}: {}", done.text());
        job.stopped(&done);
        job.continues(&[]);
    }
}

/// A job whose ranks have a child, which no image can hold, after their first checkpoint.
fn with_child(job: &Job, grace: &str) -> Child {
    let events = job.folder.name("events");
    let options = ["--grace", grace, "--job-name", "night", "-n", "2"];
    let options = [&options[..], &["--events", &events]].concat();
    let run = job.with_images(&options).arg(program("back"));
    let child = run.arg("child").arg(job.folder.join("gate")).start();
    job.computes();
    kill(child.id(), libc::SIGTERM);
    child
}

#[test]
fn without_a_checkpoint_within_the_grace_time_the_job_ends_and_the_one_before_stays() {
    let job = Job::new("grace-over");
    // A checkpoint first waits for a child to end.
    let done = ends(with_child(&job, "4s"));
    assert_eq!(done.output.status.code(), Some(143), "{}", done.text());
    for says in [
        "no checkpoint can be taken now",
        "the job ends without, and checkpoint 1 stays the last one in files",
        "to continue the job from checkpoint 1, type: mpirun",
    ] {
        assert!(done.stderr().contains(says), "{says}: {}", done.text());
    }
}

#[test]
fn a_second_signal_ends_the_job_at_once() {
    let job = Job::new("grace-twice");
    let child = with_child(&job, "1h");
    let events = job.folder.join("events");
    wait_for(SOON, "the stop", || happened(&events, "stopping") > 0);
    std::thread::sleep(Duration::from_millis(500));
    kill(child.id(), libc::SIGTERM);
    let done = ends(child);
    assert_eq!(done.output.status.code(), Some(143), "{}", done.text());
}

#[test]
fn the_exit_code_of_a_job_that_ends_by_itself_counts() {
    let job = Job::new("ends-itself");
    let options = [
        "--stop-at",
        "+200ms",
        "-n",
        "2",
        "sh",
        "-c",
        "sleep 0.5; exit 3",
    ];
    let done = job.with_images(&options).output();
    assert_eq!(done.output.status.code(), Some(3), "{}", done.text());
}

#[test]
fn a_job_without_a_name_gets_one_if_it_stops() {
    let job = Job::new("nameless");
    let options = ["--stop-at", "+500ms", "-n", "1"];
    let run = job.with_images(&options).arg(program("cg"));
    let run = WORK.iter().fold(run, |run, word| run.arg(word));
    let done = run.arg("2000").arg(job.gate()).output();
    assert_eq!(done.output.status.code(), STOPPED, "{}", done.text());
    let text = done.stderr();
    let name = text.split("--restart=cg-").nth(1);
    let name = name.and_then(|rest| rest.lines().next());
    let name = format!("--restart=cg-{}", name.expect("the name"));
    std::fs::write(job.gate(), "").expect("the gate");
    job.with_images(&[&name]).ok();
}

#[test]
fn options_that_can_not_work_are_refused() {
    let folder = Folder::new("refused-stops");
    let images = ["--images", &folder.name("images")];
    for (options, why) in [
        (&["--stop-at", "+1s"][..], "--images"),
        (&["--grace", "1s"], "--images"),
        (&["--stop-signal", "USR1"], "--grace"),
        (&["--stop-at", "soon"], "2026-11-24T06:00"),
        (&["--stop-at", "2001-01-01T00:00"], "this time is over"),
        (&["--grace", "1s", "--stop-signal", "INT"], "TERM, USR1"),
    ] {
        // Only the first two lack the folder.
        let images = if why == "--images" { &[][..] } else { &images };
        let done = Run::raw(options.iter().chain(images)).arg("true").output();
        assert_eq!(done.output.status.code(), Some(2), "{}", done.text());
        assert!(done.stderr().contains(why), "{why}: {}", done.text());
    }
    let none = ["--recovery", "none", "--stop-at", "+1s", "true"];
    let done = Run::raw(images.iter().chain(&none)).output();
    assert!(
        done.stderr().contains("takes no checkpoints"),
        "{}",
        done.text()
    );
}
