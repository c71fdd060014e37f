//! Ranks with several threads are killed repeatedly: all threads come back, and the program ends
//! like an undisturbed run. Settings are those of `survive.rs`.

use rejoin_tests::folder::Folder;
use rejoin_tests::job::{Job, Numbers, by_rank, times_back};
use rejoin_tests::limits::LIMIT;
use rejoin_tests::processes::{kill, wait_for};
use rejoin_tests::torment::{Case, program_survives};
use rejoin_tests::tracee::Tracee;
use rejoin_tests::{Run, finish, program};

/// Ranks that come back in all runs of a program, at least: with four programs, 200 and more.
const LEAST: u32 = 52;
fn survives(name: &'static str, args: &'static [&'static str], ordered: bool) {
    let case = Case {
        name,
        args,
        mode: &[],
        ordered,
        files: false,
        with_images: false,
        shows: None,
        least: LEAST,
    };
    program_survives(&case, 1..4);
}

#[test]
fn workers_with_mutexes_of_every_kind_and_condition_variables() {
    survives("pool", &["1500"], true);
}

#[test]
fn a_stencil_on_the_threads_of_openmp() {
    survives("openmp", &["400", "3000"], true);
}

#[test]
fn four_threads_of_each_rank_that_all_communicate() {
    survives("talkers", &["2500"], false);
}

#[test]
fn threads_that_come_and_go() {
    survives("shortlived", &["600"], true);
}

#[test]
fn exceptions_of_cpp_and_panics_of_rust_in_flight() {
    let programs: [(_, &[_]); 2] = [("exceptions", &["800"]), ("panics", &["1500"])];
    for (name, args) in programs {
        let case = Case {
            name,
            args,
            mode: &[],
            ordered: true,
            files: false,
            with_images: false,
            shows: None,
            least: 12,
        };
        program_survives(&case, 1..2);
    }
}

/// A job that runs, its events file, and the file for which it waits.
struct Running {
    job: Job,
    events: String,
    gate: String,
}

impl Running {
    fn text(&self) -> String {
        std::fs::read_to_string(&self.events).unwrap_or_default()
    }

    fn commits(&self) -> usize {
        self.text().matches("\"committed\"").count()
    }

    /// Waits for so many further commits; the next one may be under way already.
    fn wait_for_commits(&self, count: usize) {
        let before = self.commits();
        let has = || self.commits() >= before + count;
        wait_for(LIMIT, "further checkpoints", has);
    }

    /// Waits for a further checkpoint that is aborted for this reason.
    fn wait_for_abort(&self, why: &str) {
        let count = || self.text().matches(why).count();
        let before = count();
        wait_for(LIMIT, why, || count() > before);
    }
}

/// `PROGRAM WAY GATE` with four ranks, each of whose images is in memory. It runs until `act`
/// returns and the gate is there, and ends as an undisturbed run does. Its messages are returned.
fn job_until(name: &str, [command, way]: [&str; 2], act: impl FnOnce(&Running) + Send) -> String {
    let folder = Folder::new(name);
    let (gate, events) = (folder.name("gate"), folder.name("events"));
    let options = [
        "--tag-output",
        "--events",
        &events,
        "--checkpoint-interval",
        "0.05",
        "--max-restarts",
        "1000",
    ];
    let run = Run::raw([&options[..], &["-n", "4"]].concat());
    let child = run.arg(program(command)).arg(way).arg(&gate).start();
    let mpirun = child.id();
    let done = std::thread::scope(|scope| {
        let actor = scope.spawn(|| {
            let job = Job::of(mpirun, command);
            wait_for(LIMIT, "the first checkpoint", || job.has_checkpoint(4));
            act(&Running {
                job,
                events,
                gate: gate.clone(),
            });
            std::fs::write(&gate, "").expect("the gate");
        });
        let done = finish(child, LIMIT, name);
        assert!(done.output.status.success(), "{}", done.text());
        actor.join().expect("what was done to the job");
        done
    });
    let plain = Run::raw(["--tag-output", "--recovery", "none", "-n", "4"]);
    let plain = plain.arg(program(command)).arg(way).arg(&gate).ok();
    assert_eq!(
        by_rank(&done.stdout(), true),
        by_rank(&plain.stdout(), true),
        "{}",
        done.stderr()
    );
    done.stderr()
}

fn one_of(pids: &[u32], numbers: &mut Numbers) -> u32 {
    pids[numbers.below(pids.len() as u64) as usize]
}

#[test]
fn images_of_threads_that_are_killed_are_made_again() {
    const KILLS: usize = 8;
    let text = job_until("pool-images", ["pool", "100"], |run| {
        let (mut numbers, mut seen) = (Numbers(5), run.job.ranks());
        for _ in 0..KILLS {
            kill(one_of(&run.job.images(), &mut numbers), libc::SIGKILL);
            run.wait_for_commits(2);
            kill(one_of(&run.job.ranks(), &mut numbers), libc::SIGKILL);
            run.job.fresh_ranks(4, &mut seen);
            wait_for(LIMIT, "images of these ranks", || run.job.has_checkpoint(4));
        }
    });
    assert!(times_back(&text) as usize >= KILLS, "{text}");
}

/// Checkpoints are taken while the first threads block all signals and call nothing of MPI, and
/// ranks come back from them.
fn deaf_first_thread(way: &'static str) {
    let text = job_until(&format!("deaf-{way}"), ["deaf", way], |run| {
        let begun = format!("{}.begun", run.gate);
        let is_there = || std::path::Path::new(&begun).exists();
        wait_for(LIMIT, "the computation", is_there);
        let mut seen = run.job.ranks();
        for rank in 0..2 {
            run.wait_for_commits(3);
            kill(run.job.ranks()[rank], libc::SIGKILL);
            run.job.fresh_ranks(4, &mut seen);
        }
        run.wait_for_commits(2);
    });
    assert!(times_back(&text) >= 2, "{text}");
}

#[test]
fn checkpoints_reach_an_only_thread_that_blocks_all_signals() {
    deaf_first_thread("alone");
}

#[test]
fn checkpoints_reach_a_first_thread_that_blocks_all_signals_beside_others() {
    deaf_first_thread("beside");
}

#[test]
fn checkpoints_reach_threads_that_all_block_all_signals() {
    deaf_first_thread("all");
}

/// The thread of this name in a process.
fn thread_named(pid: u32, name: &str) -> Option<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let is_it = |task: &std::path::PathBuf| {
        let comm = std::fs::read_to_string(task.join("comm"));
        comm.is_ok_and(|comm| comm.trim_end() == name)
    };
    let task = tasks.flatten().map(|task| task.path()).find(is_it)?;
    task.file_name()?.to_str()?.parse().ok()
}

/// A thread that a debugger holds does not park. Its name is told, the job continues with the
/// checkpoint from before, and checkpoints succeed when the thread runs again.
#[test]
fn a_thread_that_does_not_stop_is_named_and_the_checkpoint_before_stands() {
    const WHY: &str = "(sleeper, state t) of the program could not be stopped within a second";
    let text = job_until("stopped", ["pool", "100"], |run| {
        let hold = |pid| Tracee::seize(thread_named(pid, "sleeper").expect("the thread"));
        let mut seen = run.job.ranks();
        run.wait_for_commits(2);
        let held = hold(seen[1]);
        run.wait_for_abort(WHY);
        drop(held);
        run.wait_for_commits(2);
        let held = hold(seen[2]);
        run.wait_for_abort(WHY);
        kill(seen[2], libc::SIGKILL);
        drop(held);
        run.job.fresh_ranks(4, &mut seen);
        run.wait_for_commits(2);
    });
    assert_eq!(text.matches(WHY).count(), 1, "{text}");
    assert!(times_back(&text) >= 1, "{text}");
}
