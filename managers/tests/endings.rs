//! Any process may die; none is left behind.

mod common;

use common::{Scratch, finish, mpirun, mpirun_in, settled};
use rejoin_tests::job::living_children;
use rejoin_tests::processes::{all_gone, children, descendants, is_alive, kill, wait_for};
use std::time::Duration;

/// Limit of a wait whose length does not matter.
const SOON: Duration = Duration::from_secs(30);

/// Ranks with grandchildren: wrapper, its background child and its foreground child.
const TREE: &str = "sleep 1000 & sh -c 'sleep 1000; true'; true";

/// The file that a script waits for.
struct Gate(Scratch);

impl Gate {
    fn new(name: &str) -> Gate {
        Gate(Scratch::new(&format!("gate-{name}")))
    }

    /// The words of the shell that wait.
    fn wait(&self) -> String {
        let file = self.0.path("open");
        format!("until [ -e {file} ]; do sleep 0.02; done")
    }

    fn open(&self) {
        std::fs::write(self.0.path("open"), "").unwrap();
    }
}

/// A job of two ranks that a time limit ends while its output has no reader. Also returns the
/// processes that had reached the script by then.
fn timed_out(seconds: &str, script: &str) -> (common::Done, Vec<u32>) {
    let scratch = Scratch::new(&format!("limit-{seconds}"));
    let noted = format!("echo $$ >> {}; {script}", scratch.path("pids"));
    let mut child = mpirun(&["--timeout", seconds, "-n", "2", "sh", "-c", &noted])
        .spawn()
        .unwrap();
    // It stays open.
    let stdout = child.stdout.take();
    let done = finish(child);
    drop(stdout);
    assert_eq!(done.code, Some(124), "{}", done.err);
    let text = std::fs::read_to_string(scratch.path("pids")).unwrap_or_default();
    (done, text.lines().filter_map(|l| l.parse().ok()).collect())
}

fn tree(ranks: usize) -> (std::process::Child, Vec<u32>) {
    let child = mpirun(&["-n", &ranks.to_string(), "sh", "-c", TREE])
        .spawn()
        .unwrap();
    // Two managers, and per rank two shells and two sleeps.
    let pids = settled(child.id(), 2 + 4 * ranks);
    (child, pids)
}

/// The local manager of a job.
fn local_manager(mpirun: u32) -> u32 {
    living_children(mpirun, "rejoin-local")[0]
}

#[test]
fn killing_mpirun_ends_everything() {
    let (child, pids) = tree(2);
    kill(child.id(), libc::SIGKILL);
    all_gone(&pids, SOON);
    assert_eq!(finish(child).code, Some(-9));
}

#[test]
fn killing_the_local_manager_ends_everything() {
    let (child, pids) = tree(2);
    kill(local_manager(child.id()), libc::SIGKILL);
    all_gone(&pids, SOON);
    let done = finish(child);
    assert_eq!(done.code, Some(1));
    assert!(
        done.last_line().contains("its local manager ended"),
        "{}",
        done.err
    );
}

#[test]
fn a_suspended_local_manager_ends_everything() {
    let (child, pids) = tree(2);
    kill(local_manager(child.id()), libc::SIGSTOP);
    let done = finish(child);
    assert_eq!(done.code, Some(1));
    assert!(
        done.last_line()
            .contains("its local manager did not answer"),
        "{}",
        done.err
    );
    all_gone(&pids, SOON);
}

#[test]
fn killing_a_rank_ends_everything_and_says_so() {
    let (child, pids) = tree(3);
    let ranks = children(local_manager(child.id()));
    assert_eq!(ranks.len(), 3);
    kill(ranks[1], libc::SIGKILL);
    all_gone(&pids, SOON);
    let done = finish(child);
    assert_eq!(done.code, Some(137));
    let text = format!("(pid {}) was killed by signal 9 (SIGKILL)", ranks[1]);
    assert!(done.last_line().contains(&text), "{}", done.err);
}

#[test]
fn killing_any_process_of_the_tree_leaves_nothing_in_the_end() {
    for victim in 0..6 {
        let (child, pids) = tree(1);
        kill(pids[victim], libc::SIGKILL);
        // The death of a background child is the wrapper's business; then we end the job.
        std::thread::sleep(Duration::from_millis(50));
        kill(child.id(), libc::SIGTERM);
        kill(child.id(), libc::SIGTERM);
        all_gone(&pids, SOON);
        let code = finish(child).code;
        assert!(code.is_some(), "victim {victim}");
    }
}

#[test]
fn background_children_end_with_their_job() {
    let child = mpirun(&["-n", "2", "sh", "-c", "sleep 1000 & echo $!"])
        .spawn()
        .unwrap();
    let done = finish(child);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let pids: Vec<u32> = done.out.lines().map(|l| l.parse().unwrap()).collect();
    assert_eq!(pids.len(), 2);
    all_gone(&pids, SOON);
}

#[test]
fn ranks_that_ignore_signals_end_all_the_same() {
    let gate = Gate::new("ignore");
    let wait = gate.wait();
    let script = format!(
        "trap '' TERM INT HUP; [ $REJOIN_RANK = 0 ] && {{ {wait}; exit 4; }}; \
         while :; do sleep 1000; done"
    );
    let child = mpirun(&["-n", "2", "sh", "-c", &script]).spawn().unwrap();
    let pids = settled(child.id(), 5);
    gate.open();
    let done = finish(child);
    assert_eq!(done.code, Some(4), "{}", done.err);
    all_gone(&pids, SOON);
}

#[test]
fn stopped_ranks_end_too() {
    let child = mpirun(&["-n", "2", "sh", "-c", "kill -STOP $$; sleep 100"])
        .spawn()
        .unwrap();
    let pids = settled(child.id(), 4);
    kill(child.id(), libc::SIGTERM);
    all_gone(&pids, SOON);
    assert_eq!(finish(child).code, Some(143));
}

#[test]
fn a_time_limit_ends_stopped_ranks() {
    let (done, pids) = timed_out("0.5", "kill -STOP $$; sleep 1000");
    assert!(done.last_line().contains("time limit"), "{}", done.err);
    all_gone(&pids, SOON);
}

#[test]
fn a_signal_while_ranks_are_started_ends_the_job() {
    for signals in [1, 2] {
        let child = mpirun(&["-n", "400", "sleep", "1000"]).spawn().unwrap();
        // The local manager has begun, and is far from the last rank.
        let pids = settled(child.id(), 3);
        (0..signals).for_each(|_| kill(child.id(), libc::SIGTERM));
        let done = finish(child);
        assert_eq!(done.code, Some(143), "{}", done.err);
        let text = "ended by signal 15 (SIGTERM), which was sent to mpirun";
        assert!(done.last_line().contains(text), "{}", done.err);
        all_gone(&pids, SOON);
    }
}

#[test]
fn signals_reach_every_rank() {
    let script = "trap 'echo usr1' USR1; trap 'echo term; exit 0' TERM; echo ready; \
                  while :; do sleep 0.02; done";
    let scratch = Scratch::new("signals");
    let out = std::fs::File::create(scratch.path("out")).unwrap();
    let child = mpirun(&["-n", "2", "sh", "-c", script])
        .stdout(out)
        .spawn()
        .unwrap();
    let text = || std::fs::read_to_string(scratch.path("out")).unwrap();
    let limit = Duration::from_secs(20);
    wait_for(limit, "the ranks", || text().matches("ready").count() == 2);
    kill(child.id(), libc::SIGUSR1);
    wait_for(limit, "SIGUSR1 in the ranks", || {
        text().matches("usr1").count() == 2
    });
    kill(child.id(), libc::SIGTERM);
    let done = finish(child);
    assert_eq!(text().matches("term").count(), 2);
    // They ended well by their own choice.
    assert_eq!(done.code, Some(0), "{}", done.err);
}

#[test]
fn an_interrupt_ends_the_job_and_is_named() {
    signal_is_named(libc::SIGINT, "ended by signal 2 (SIGINT), which was sent");
}

#[test]
fn so_does_any_other_signal_that_kills_the_ranks() {
    signal_is_named(
        libc::SIGUSR1,
        "ended by signal 10 (SIGUSR1), which was sent",
    );
}

fn signal_is_named(signal: i32, line: &str) {
    let child = mpirun(&["-n", "2", "sleep", "1000"]).spawn().unwrap();
    let pids = settled(child.id(), 4);
    kill(child.id(), signal);
    let done = finish(child);
    assert_eq!(done.code, Some(128 + signal));
    assert!(done.last_line().contains(line), "{}", done.err);
    all_gone(&pids, SOON);
}

#[test]
fn ignored_signals_stay_ignored() {
    let mut command = std::process::Command::new("sh");
    let mpirun = env!("CARGO_BIN_EXE_mpirun");
    let gate = Gate::new("ignored");
    let script = format!("trap '' HUP; exec {mpirun} -n 1 sh -c '{}'", gate.wait());
    command.args(["-c", &script]);
    let child = command.spawn().unwrap();
    settled(child.id(), 3);
    kill(child.id(), libc::SIGHUP);
    gate.open();
    assert_eq!(finish(child).code, Some(0));
}

#[test]
fn a_killed_central_manager_has_a_successor_also_without_recovery() {
    let gate = Gate::new("central");
    let script = format!("{}; echo $REJOIN_RANK; exit $REJOIN_RANK", gate.wait());
    let child = mpirun(&["-n", "2", "sh", "-c", &script]).spawn().unwrap();
    // Two managers and two ranks: it is killed before they have begun, and twice while they run.
    let central = || living_children(child.id(), "rejoin-central");
    let mut last = Vec::new();
    for processes in [1, 4, 4] {
        settled(child.id(), processes);
        wait_for(SOON, "another central manager", || {
            !central().is_empty() && central() != last
        });
        last = central();
        kill(last[0], libc::SIGKILL);
    }
    wait_for(SOON, "its successor", || {
        !central().is_empty() && central() != last
    });
    gate.open();
    let done = finish(child);
    // The end of a rank with an error is still the end of the job.
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(done.out.contains("1\n"), "{}", done.out);
    let again = "mpirun: the central manager was killed by signal 9, started again after ";
    assert!(done.err.contains(again), "{}", done.err);
}

/// The successor learns how a rank has ended whose end nobody has taken.
#[test]
fn a_failure_that_a_stopped_central_manager_has_not_taken_is_no_success() {
    let gate = Gate::new("central-stopped");
    let script = format!("{}; exit 3", gate.wait());
    let child = mpirun(&["-n", "1", "sh", "-c", &script]).spawn().unwrap();
    settled(child.id(), 3);
    // A manager has its name only once its program is loaded.
    let manager = |name: &str| living_children(child.id(), name).first().copied();
    let found = || (manager("rejoin-central"), manager("rejoin-local"));
    wait_for(
        SOON,
        "the managers",
        || matches!(found(), (Some(_), Some(local)) if !children(local).is_empty()),
    );
    let (Some(central), Some(local)) = found() else {
        panic!("a manager has gone");
    };
    let rank = children(local)[0];
    kill(central, libc::SIGSTOP);
    gate.open();
    wait_for(SOON, "the end of the rank", || !is_alive(rank));
    kill(central, libc::SIGKILL);
    let done = finish(child);
    assert_eq!(done.code, Some(3), "{}", done.err);
    let why = "rank 0 on host ";
    assert!(done.last_line().contains(why), "{}", done.err);
}

#[test]
fn a_job_without_a_journal_ends_with_its_central_manager_and_says_so() {
    let program = env!("CARGO_BIN_EXE_mpirun");
    let script = format!("ulimit -f 0; exec {program} -n 2 sh -c 'echo here; sleep 1000; true'");
    let child = mpirun_in("sh", &["-c", &script]).spawn().unwrap();
    // Two managers, and per rank a shell and its child.
    let pids = settled(child.id(), 2 + 2 * 2);
    kill(
        living_children(child.id(), "rejoin-central")[0],
        libc::SIGKILL,
    );
    let done = finish(child);
    assert_eq!(done.code, Some(1), "{}", done.err);
    let line = done.last_line();
    let why = "there is no central manager any more: it was killed by signal 9, after the journal ";
    assert!(line.contains(why), "{}", done.err);
    // The last process of central ends the ranks in order: what they have written comes.
    assert_eq!(done.out, "here\nhere\n");
    all_gone(&pids, SOON);
}

#[test]
fn a_job_without_a_folder_for_its_journal_says_so_at_its_start() {
    let place = Scratch::new("no-folder");
    // Too long for the name of a socket, beside which the journal would be.
    let folder = place.0.join("x".repeat(100));
    std::fs::create_dir(&folder).unwrap();
    let mut command = mpirun(&["-n", "1", "true"]);
    let done = finish(command.env("XDG_RUNTIME_DIR", folder).spawn().unwrap());
    assert_eq!(done.code, Some(0), "{}", done.err);
    let why = "no folder for the journal was found; the job continues";
    assert_eq!(done.err.matches(why).count(), 1, "{}", done.err);
}

#[test]
fn stopping_and_continuing_goes_through() {
    let child = mpirun(&["-n", "1", "sleep", "1000"]).spawn().unwrap();
    let mut rank = None;
    wait_for(SOON, "the rank", || {
        let name = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm"));
        let mut below = descendants(child.id()).into_iter();
        rank = below.find(|pid| name(pid).is_ok_and(|name| name == "sleep\n"));
        rank.is_some()
    });
    let state = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')')
            .next()
            .unwrap_or("")
            .trim_start()
            .chars()
            .next()
    };
    let rank = rank.unwrap();
    kill(child.id(), libc::SIGTSTP);
    let limit = SOON;
    wait_for(limit, "mpirun and rank to stop", || {
        state(child.id()) == Some('T') && state(rank) == Some('T')
    });
    kill(child.id(), libc::SIGCONT);
    wait_for(limit, "both to continue", || {
        state(child.id()) == Some('S') && state(rank) == Some('S')
    });
    kill(child.id(), libc::SIGTERM);
    assert_eq!(finish(child).code, Some(143));
}

#[test]
fn orphans_of_a_finished_wrapper_are_found() {
    // The process leaves its session and its parent, as a daemon does.
    let gate = Gate::new("orphans");
    let script = format!(
        "setsid sh -c 'sleep 1000; true' & {}; echo done",
        gate.wait()
    );
    let child = mpirun(&["-n", "1", "sh", "-c", &script]).spawn().unwrap();
    let mut seen = Vec::new();
    wait_for(SOON, "the daemon", || {
        seen = descendants(child.id());
        let name = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/cmdline"));
        let is_daemon = |pid: &u32| name(pid).is_ok_and(|n| n.split('\0').any(|w| w == "1000"));
        seen.iter().any(is_daemon)
    });
    gate.open();
    let done = finish(child);
    assert_eq!(done.code, Some(0), "{}", done.err);
    all_gone(&seen, SOON);
}

#[test]
fn a_second_interrupt_kills_what_ignores_the_first() {
    let script = "trap 'echo heard' INT; echo ready; while :; do sleep 0.02; done";
    let scratch = Scratch::new("second");
    let out = std::fs::File::create(scratch.path("out")).unwrap();
    let child = mpirun(&["-n", "1", "sh", "-c", script])
        .stdout(out)
        .spawn()
        .unwrap();
    let text = || std::fs::read_to_string(scratch.path("out")).unwrap();
    let limit = Duration::from_secs(20);
    wait_for(limit, "the rank", || text().contains("ready"));
    kill(child.id(), libc::SIGINT);
    wait_for(limit, "the first interrupt", || text().contains("heard"));
    let pids = descendants(child.id());
    kill(child.id(), libc::SIGINT);
    let done = finish(child);
    assert_eq!(done.code, Some(130), "{}", done.err);
    all_gone(&pids, SOON);
}

#[test]
fn a_reader_that_stopped_does_not_keep_a_timed_out_job() {
    let (_, pids) = timed_out("0.3", "exec yes");
    all_gone(&pids, SOON);
}
