//! The central manager's process is killed, or stopped, at any moment, together with ranks. The
//! job's output equals that of an undisturbed run.

use rejoin_tests::folder::Folder;
use rejoin_tests::job::{Job, Numbers, by_rank, times_back};
use rejoin_tests::limits::{LIMIT, SOON};
use rejoin_tests::processes::{all_gone, descendants, is_asleep, is_pending, kill, wait_for};
use rejoin_tests::{Finished, Run, finish, prefix, program};
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

fn back(options: &[&str]) -> Run {
    let all = ["--tag-output", "-n", "3"];
    let run = Run::raw(all.iter().chain(options)).arg(program("back"));
    run.arg("work")
}

fn undisturbed() -> &'static [String] {
    static LINES: OnceLock<Vec<String>> = OnceLock::new();
    LINES.get_or_init(|| by_rank(&back(&["--recovery", "none"]).ok().stdout(), true))
}

/// A job that does not end by itself before it may.
struct Disturbed {
    child: Child,
    job: Job,
    folder: Folder,
}

impl Disturbed {
    fn start(name: &str) -> Disturbed {
        let folder = Folder::new(name);
        let often = ["--checkpoint-interval", "0.05", "--max-restarts", "1000"];
        let run = back(&often).arg(folder.join("gate"));
        let child = run.start();
        let job = Job::of(child.id(), "back");
        Disturbed { child, job, folder }
    }

    fn with_images(name: &str) -> Disturbed {
        let disturbed = Self::start(name);
        let job = &disturbed.job;
        wait_for(SOON, "the first checkpoint", || job.has_checkpoint(3));
        disturbed
    }

    fn mpirun(&self) -> u32 {
        self.child.id()
    }

    /// From here on it may end.
    fn end(self, what: &str) -> Finished {
        std::fs::write(self.folder.join("gate"), "").expect("the gate");
        finish(self.child, LIMIT, what)
    }
}

fn same(done: &Finished) {
    assert!(done.output.status.success(), "{}", done.text());
    assert!(
        by_rank(&done.stdout(), true) == undisturbed(),
        "other lines:\n{}",
        done.text()
    );
}

fn times_again(done: &Finished) -> usize {
    let again = "mpirun: the central manager was killed by signal 9, started again after ";
    done.stderr().matches(again).count()
}

/// Runs `rejoin` with these words.
fn ask(words: &[&str]) -> Child {
    let mut command = Command::new(prefix().join("bin/rejoin"));
    command.args(words);
    Run::of(command).start()
}

/// Waits until the central manager answers that the job runs.
fn wait_until_all_runs(mpirun: u32) {
    wait_for(SOON, "a job that runs", || {
        let asked = ask(&["status", "--json", &mpirun.to_string()]);
        let said = finish(asked, LIMIT, "rejoin status");
        said.stdout().contains("\"course\": \"running\"")
    });
}

/// How many sockets a process has.
fn sockets(pid: u32) -> usize {
    let fds = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    let links = fds
        .flatten()
        .filter_map(|fd| std::fs::read_link(fd.path()).ok());
    links
        .filter(|link| link.to_string_lossy().starts_with("socket:"))
        .count()
}

/// Waits for a central manager other than this one.
fn another(job: &Job, than: u32) -> u32 {
    let mut now = 0;
    wait_for(SOON, "another central manager", || {
        now = job.central().unwrap_or(than);
        now != than
    });
    now
}

#[test]
fn killed_eight_times_at_any_moment() {
    for seed in [1, 2, 3] {
        println!("seed {seed}");
        let mut numbers = Numbers(seed);
        let central = Disturbed::start(&format!("central-{seed}"));
        let mut last = 0;
        for turn in 0..8 {
            last = another(&central.job, last);
            // A central manager that is killed before it has taken over is not reported separately.
            if turn % 2 == 0 {
                wait_until_all_runs(central.mpirun());
            }
            // The test looks for a moment in time, so it sleeps.
            std::thread::sleep(Duration::from_micros(numbers.below(60_000)));
            kill(last, libc::SIGKILL);
        }
        another(&central.job, last);
        let done = central.end("a job whose central manager is killed");
        same(&done);
        assert!((4..=8).contains(&times_again(&done)), "{}", done.text());
    }
}

#[test]
fn killed_with_ranks_before_during_and_after_their_recovery() {
    for seed in [4, 5] {
        println!("seed {seed}");
        let mut numbers = Numbers(seed);
        let both = Disturbed::with_images(&format!("both-{seed}"));
        let job = &both.job;
        let mut seen = Vec::new();
        for turn in 0..8 {
            // Every second time both run when they are killed: each of these ends is reported.
            let mut ranks = Vec::new();
            if turn % 2 == 0 {
                wait_until_all_runs(both.mpirun());
                ranks = job.fresh_ranks(3, &mut seen);
            }
            if ranks.is_empty() {
                ranks = job.ranks();
            }
            let central = job.central();
            let rank = ranks.get(numbers.below(3) as usize).copied();
            let mut pair = [central, rank];
            pair.rotate_left(numbers.below(2) as usize);
            for pid in pair.into_iter().flatten() {
                kill(pid, libc::SIGKILL);
                std::thread::sleep(Duration::from_micros(numbers.below(3000)));
            }
            std::thread::sleep(Duration::from_millis(20 + numbers.below(40)));
        }
        let done = both.end("a job with kills");
        same(&done);
        assert!(times_again(&done) >= 4, "{}", done.text());
        assert!(times_back(&done.stderr()) >= 4, "{}", done.text());
    }
}

#[test]
fn a_rank_is_killed_while_central_is_stopped() {
    // Left alone, it is found not to answer.
    for ends in [libc::SIGCONT, libc::SIGKILL, 0] {
        let stopped = Disturbed::with_images(&format!("stopped-{ends}"));
        let job = &stopped.job;
        let central = job.central().expect("a central manager");
        kill(central, libc::SIGSTOP);
        let ranks = job.ranks();
        kill(ranks[0], libc::SIGKILL);
        wait_for(SOON, "a dead rank", || !job.ranks().contains(&ranks[0]));
        kill(central, ends);
        let done = stopped.end("a job whose central manager was stopped");
        same(&done);
        assert_eq!(times_back(&done.stderr()), 1, "{}", done.text());
        assert_eq!(
            times_again(&done),
            usize::from(ends == libc::SIGKILL),
            "{}",
            done.text()
        );
        let said = done.stderr();
        let unanswered = said.lines().filter(|line| {
            line.starts_with("mpirun: the central manager did not answer for ")
                && line.contains(" s and was killed, started again after ")
        });
        assert_eq!(unanswered.count(), usize::from(ends == 0), "{said}");
    }
}

/// Sockets of a process once it has closed those of processes that have ended: their number stays
/// for half a second.
fn settled_sockets(pid: u32) -> usize {
    let (mut count, mut since) = (sockets(pid), Instant::now());
    wait_for(SOON, "a number of sockets that stays", || {
        let now = sockets(pid);
        if now != count {
            (count, since) = (now, Instant::now());
        }
        since.elapsed() > Duration::from_millis(500)
    });
    count
}

#[test]
fn one_that_ends_again_and_again_is_the_end() {
    let disturbed = Disturbed::start("the-end");
    let (mpirun, job) = (disturbed.mpirun(), &disturbed.job);
    let all = descendants(mpirun);
    let mut last = 0;
    for _ in 0..20 {
        last = another(job, last);
        kill(last, libc::SIGKILL);
    }
    last = another(job, last);
    // A client waits for the answer of a central manager that has no successor.
    kill(last, libc::SIGSTOP);
    let before = settled_sockets(mpirun);
    let status = ask(&["status", "--json", &mpirun.to_string()]);
    // mpirun has taken the connection, and the client sleeps: it has asked.
    wait_for(SOON, "a question", || {
        sockets(mpirun) > before && is_asleep(status.id())
    });
    kill(last, libc::SIGKILL);
    let status = finish(status, LIMIT, "rejoin status");
    assert!(
        status.stdout().contains("\"course\": \"ending\""),
        "{}",
        status.text()
    );
    // It ends by itself.
    let done = finish(disturbed.child, LIMIT, "a job without a central manager");
    assert_eq!(done.output.status.code(), Some(1), "{}", done.text());
    let line = done.last_line();
    let why = "there is no central manager any more: it ended more than 20 times in 600 s";
    assert!(line.contains(why), "{line}");
    all_gone(&all, SOON);
}

#[test]
fn a_stopped_one_goes_with_mpirun() {
    let stopped = Disturbed::with_images("stopped");
    let central = stopped.job.central().expect("a central manager");
    let all = descendants(stopped.mpirun());
    assert!(all.contains(&central));
    kill(central, libc::SIGSTOP);
    kill(stopped.mpirun(), libc::SIGKILL);
    all_gone(&all, SOON);
    finish(stopped.child, LIMIT, "mpirun that was killed");
}

#[test]
fn a_second_interrupt_is_none_that_was_stored_before() {
    let script = "trap 'echo heard' INT; echo ready; while :; do sleep 0.02; done";
    let out = Folder::new("second-interrupt");
    let file = out.join("out");
    let mut command = Command::new("sh");
    let mpirun = prefix().join("bin/mpirun");
    // The shell makes way for it.
    command.args(["-c", "exec \"$0\" -n 1 sh -c \"$1\" > \"$2\""]);
    command.arg(mpirun).arg(script).arg(&file);
    let child = Run::of(command).start();
    let text = || std::fs::read_to_string(&file).unwrap_or_default();
    wait_for(SOON, "the rank", || text().contains("ready"));
    let job = Job::of(child.id(), "sh");
    kill(child.id(), libc::SIGINT);
    wait_for(SOON, "the first interrupt", || text().contains("heard"));
    let central = job.central().expect("a central manager");
    kill(central, libc::SIGSTOP);
    kill(child.id(), libc::SIGINT);
    wait_for(SOON, "mpirun to take it", || {
        !is_pending(child.id(), libc::SIGINT)
    });
    kill(central, libc::SIGKILL);
    let done = finish(child, LIMIT, "a job that was interrupted twice");
    assert_eq!(done.output.status.code(), Some(130), "{}", done.text());
}

#[test]
fn questions_are_answered_by_the_next_one() {
    let asked = Disturbed::with_images("asked");
    let job = &asked.job;
    let central = job.central().expect("a central manager");
    kill(central, libc::SIGSTOP);
    let name = asked.mpirun().to_string();
    let status = ask(&["status", "--json", &name]);
    kill(central, libc::SIGKILL);
    let status = finish(status, LIMIT, "rejoin status").stdout();
    let next = another(job, central);
    let has = |field: &str| assert!(status.contains(field), "{status}");
    has(&format!("\"central\": {next}"));
    has("\"central_restarts\": 1");
    let said = finish(ask(&["checkpoint", &name]), LIMIT, "rejoin checkpoint");
    assert!(said.stdout().contains("is committed"), "{}", said.text());
    same(&asked.end("a job that is asked"));
}

#[test]
fn a_limit_of_file_sizes_below_the_journal_ends_nothing() {
    let folder = Folder::new("file-limit");
    let mut command = Command::new("sh");
    let limited = "ulimit -f 0; exec \"$0\" -n 3 --tag-output --transport tcp \"$@\"";
    command.args(["-c", limited]);
    command.arg(prefix().join("bin/mpirun"));
    command.arg(program("back")).arg("work");
    let child = Run::of(command).arg(folder.join("gate")).start();
    let job = Job::of(child.id(), "back");
    let limited = Disturbed { child, job, folder };
    let job = &limited.job;
    wait_for(SOON, "the first checkpoint", || job.has_checkpoint(3));
    kill(job.ranks()[0], libc::SIGKILL);
    let done = limited.end("a job with small files");
    same(&done);
    assert_eq!(times_back(&done.stderr()), 1, "{}", done.text());
    let errors = done.stderr();
    let told = |line: &str| {
        line.starts_with("mpirun: the journal ")
            && line.contains("File too large")
            && line.contains("the job continues, and ends if its central manager is killed")
    };
    assert_eq!(errors.lines().filter(|l| told(l)).count(), 1, "{errors}");
}

/// From here on the central manager writes no file any further.
fn limit_files(pid: u32) {
    let limit = libc::rlimit {
        rlim_cur: 1,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: a process of this test; the limit is only read.
    let set = unsafe {
        let none = std::ptr::null_mut();
        libc::prlimit(pid.cast_signed(), libc::RLIMIT_FSIZE, &limit, none)
    };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn a_journal_that_can_be_written_no_more_ends_the_job_only_with_its_central_manager() {
    let continues = "the job continues, and ends if its central manager is killed";
    for killed in [false, true] {
        let unkept = Disturbed::with_images(&format!("unkept-{killed}"));
        let job = &unkept.job;
        let central = job.central().expect("a central manager");
        limit_files(central);
        let name = unkept.mpirun().to_string();
        let said = finish(ask(&["checkpoint", &name]), LIMIT, "rejoin checkpoint");
        assert!(said.stdout().contains("is committed"), "{}", said.text());
        let all = descendants(unkept.mpirun());
        let victim = if killed { central } else { job.ranks()[0] };
        kill(victim, libc::SIGKILL);
        if !killed {
            let done = unkept.end("a job without a journal");
            same(&done);
            assert!(done.stderr().contains(continues), "{}", done.text());
            assert_eq!(times_back(&done.stderr()), 1, "{}", done.text());
            assert_eq!(times_again(&done), 0, "{}", done.text());
            continue;
        }
        let done = finish(unkept.child, LIMIT, "a job without a central manager");
        assert_eq!(done.output.status.code(), Some(1), "{}", done.text());
        let line = done.last_line();
        let why = "it was killed by signal 9, after the journal ";
        assert!(line.contains(why), "{line}");
        all_gone(&all, SOON);
    }
}
