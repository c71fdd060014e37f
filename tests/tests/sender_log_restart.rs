//! Message logging in jobs with a name: every process is killed, or the job stops, and
//! `mpirun --restart=NAME` continues from the files. All ranks come back from images that were
//! taken at different moments, and repeat what others have seen.

use rejoin_tests::finish;
use rejoin_tests::job::happened;
use rejoin_tests::limits::LIMIT;
use rejoin_tests::named_job::NamedJob;
use rejoin_tests::processes::{descendants, eldest_of_each_rank, kill, rank_of, wait_for};

const LOGS: [&str; 2] = ["--recovery", "sender-log"];

#[test]
fn a_job_whose_processes_are_all_killed_twice_continues() {
    let mut job = NamedJob::gated("logs-all-killed", ["back", "work"]);
    let child = job.first(&LOGS).start();
    job.killed(child);
    let child = job.again(&LOGS).start();
    job.killed(child);
    let child = job
        .again(&[&LOGS[..], &["--transport", "tcp"]].concat())
        .start();
    end_replays(&job);
    job.ends_well(child);
}

/// Rank 0 looks whether the gate is there, and tells the others. A replay does not repeat what it
/// has seen of that file, so the gate must not come before all replays have ended.
fn end_replays(job: &NamedJob) {
    let from = job.committed();
    wait_for(LIMIT, "two checkpoints", || job.committed() > from + 1);
}

/// The clients keep what they were told, so a server that repeats another order is found.
#[test]
fn the_order_that_others_have_seen_outlives_all_processes() {
    for groups in ["rank", "host"] {
        let name = format!("logs-orders-{groups}");
        let mut job = NamedJob::new(&name, "orders", &["8000", "100000"]);
        job.interval = "0.05";
        let files = ["--image-interval", "0.1"];
        let options = [&LOGS[..], &["--log-group", groups], &files].concat();
        let child = job.first(&options).start();
        job.killed(child);
        let child = job.again(&options).start();
        job.killed(child);
        let child = job.again(&options).start();
        job.ends_well(child);
    }
}

#[test]
fn a_rank_of_a_restarted_job_comes_back_alone() {
    let mut job = NamedJob::gated("logs-killed-later", ["back", "work"]);
    let child = job.first(&LOGS).start();
    job.killed(child);
    let events = job.folder().name("events");
    let child = job
        .again(&[&LOGS[..], &["--events", &events]].concat())
        .start();
    let recovered = || happened(&events, "recovered");
    let of_rank = |rank| {
        let all = descendants(child.id()).into_iter();
        let is_it = |pid: &u32| rank_of(*pid) == Some(rank) && is_program(*pid);
        eldest_of_each_rank(all.filter(is_it).collect())
    };
    // Before all ranks are back, a loss makes all of them come back again.
    end_replays(&job);
    let others = of_rank(0);
    let before = recovered();
    kill(of_rank(1)[0], libc::SIGKILL);
    wait_for(LIMIT, "rank 1", || recovered() > before);
    let from = job.committed();
    wait_for(LIMIT, "a checkpoint", || job.committed() > from);
    kill(of_rank(1)[0], libc::SIGKILL);
    assert_eq!(of_rank(0), others, "rank 0 stands");
    let done = job.ends_well(child);
    let said = done.stderr();
    assert_eq!(said.matches("rank 1 is back").count(), 2, "{said}");
    assert!(!said.contains("rank 0 is back"), "{said}");
}

/// Whether this process runs the program, and is no image.
fn is_program(pid: u32) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim() == "back"
}

#[test]
fn a_job_that_stops_continues() {
    let mut job = NamedJob::gated("logs-stop", ["back", "work"]);
    let options = [&LOGS[..], &["--stop-at", "+1s"]].concat();
    let done = finish(job.first(&options).start(), LIMIT, "a job that stops");
    assert_eq!(done.output.status.code(), Some(85), "{}", done.text());
    job.has_seen(&done.stdout());
    let done = finish(job.again(&options).start(), LIMIT, "a job that stops again");
    assert_eq!(done.output.status.code(), Some(85), "{}", done.text());
    job.has_seen(&done.stdout());
    let child = job.again(&LOGS).start();
    end_replays(&job);
    job.ends_well(child);
}

#[test]
fn a_restart_in_another_mode_or_without_answers_is_refused() {
    let mut job = NamedJob::gated("logs-refused", ["back", "work"]);
    let child = job.first(&LOGS).start();
    job.killed(child);
    let refused = |options: &[&str]| {
        let done = finish(job.again(options).start(), LIMIT, "a refused restart");
        assert!(!done.output.status.success(), "{}", done.text());
        done.stderr()
    };
    let said = refused(&[]);
    assert!(said.contains("give --recovery sender-log again"), "{said}");
    let said = refused(&["--recovery", "sender-log", "--stable", "rank"]);
    assert!(said.contains("--stable rank"), "{said}");
    let file = job.own().join("determinants");
    let kept = std::fs::read(&file).expect("the answers");
    std::fs::remove_file(&file).expect("the answers");
    let said = refused(&LOGS);
    assert!(
        said.contains("the nondeterministic answers are not there"),
        "{said}"
    );
    let mut altered = kept.clone();
    altered[15] ^= 1;
    std::fs::write(&file, altered).expect("a disk");
    let said = refused(&LOGS);
    assert!(said.contains("torn or altered"), "{said}");
    std::fs::write(&file, kept).expect("a disk");
    let child = job.again(&LOGS).start();
    end_replays(&job);
    job.ends_well(child);
}
