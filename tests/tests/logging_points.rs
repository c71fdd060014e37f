//! Ranks of jobs that log messages are killed where a random moment seldom is: between what a rank
//! records and what it then sends, and while it replays. Root is needed for jobs over hosts.

use rejoin_tests::folder::Folder;
use rejoin_tests::hosts;
use rejoin_tests::hosts::Hosts;
use rejoin_tests::hosts::job::Job as HostJob;
use rejoin_tests::hosts::moves::Points;
use rejoin_tests::job::{Job, times_back};
use rejoin_tests::processes::{cpu_time, kill, rank_of, wait_for};
use rejoin_tests::questions::asking;
use rejoin_tests::{Run, finish, program};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// The way of determinants to memory of another host: a rank has asked for it, and they are there.
const POINTS: [&str; 2] = ["determinants-asked", "determinants-stored"];
/// In this time a local manager has done what it can.
const SETTLED: Duration = Duration::from_millis(300);
/// Kills at each of them.
const TIMES: usize = 3;

/// A job of `orders` whose local managers can wait at these points, on a host each, where each rank
/// is a group. Rank 0 is the server, and records nearly all determinants.
fn orders(hosts: &Hosts, points: &Points, recovery: &str, more: &[&str]) -> HostJob {
    let usual = ["--recovery", recovery, "--log-group", "rank"];
    let lasting = ["--max-restarts", "100"];
    let options = [&usual[..], &lasting, more].concat();
    let mut job = HostJob::orders_with(hosts, &options, 24_000, |run| points.prepare(run, &POINTS));
    job.until_in_files(1);
    job
}

/// While the server's local manager waits at each point, these ranks are killed.
fn killed_at_each_point(recovery: &str, ranks: &[usize]) {
    let hosts = hosts!(2);
    let points = Points::of(&hosts);
    let mut job = orders(&hosts, &points, recovery, &[]);
    for point in [POINTS; TIMES].concat() {
        let recovered = job.events("recovered");
        // That of the server, not of its clients elsewhere.
        points.want_on(point, 1);
        job.reaches(point, || points.is_reached(point));
        for rank in ranks {
            let of = |host| hosts.processes_of(host, "orders", *rank);
            let pids: Vec<u32> = [1, 2].into_iter().flat_map(of).collect();
            assert!(!pids.is_empty(), "no rank {rank}");
            pids.into_iter().for_each(|pid| kill(pid, libc::SIGKILL));
        }
        points.release(point);
        job.until("recovered", recovered + 1);
        hosts.settle(&mut job, "orders");
    }
    job.one_order(&hosts);
}

#[test]
fn the_server_is_killed_between_a_determinant_and_its_answer() {
    killed_at_each_point("sender-log", &[0]);
}

#[test]
fn the_server_and_its_clients_are_killed_there() {
    killed_at_each_point("sender-log", &[0, 1, 3]);
}

#[test]
fn the_server_is_killed_while_its_determinants_are_stored_in_the_background() {
    killed_at_each_point("receiver-log", &[0]);
}

/// The server's host is lost while its manager waits to have determinants stored. What mpirun says.
fn lost_with_determinants(mut hosts: Hosts, recovery: &str) -> String {
    let points = Points::of(&hosts);
    // A rank that is to take an image waits until its determinants are stored, and sends nothing.
    let no_more = ["--checkpoint-interval", "asked", "--host-lease", "1"];
    let options = [&["--spare", "h3:4"][..], &no_more].concat();
    let mut job = orders(&hosts, &points, recovery, &options);
    hosts.take_files(&mut job);
    let [asked, _] = POINTS;
    // The other host's ranks have determinants, too.
    points.want_on(asked, 1);
    job.reaches(asked, || points.is_reached(asked));
    // Optimistic messages that depend on these determinants leave meanwhile.
    std::thread::sleep(Duration::from_millis(100));
    hosts.kill(1);
    points.release(asked);
    job.until("recovered", 1);
    job.one_order(&hosts)
}

#[test]
fn what_depends_on_determinants_has_not_left_a_host_that_is_lost_with_them() {
    let said = lost_with_determinants(hosts!(3), "sender-log");
    assert!(!said.contains("lost with a host"), "{said}");
    for rank in [2, 3] {
        assert!(!said.contains(&format!("rank {rank} is back")), "{said}");
    }
}

#[test]
fn ranks_that_depend_on_determinants_return_with_the_host_that_is_lost_with_them() {
    let said = lost_with_determinants(hosts!(3), "receiver-log");
    assert!(said.contains("lost with a host"), "no orphans: {said}");
}

/// A job on this host whose ranks compute for some milliseconds per question. It takes no
/// checkpoint but the first, so that a replay is long.
struct Long {
    child: std::process::Child,
    job: Job,
    killed: u32,
}

/// Processor time after which a rank is killed for the first time: half of what the server and each
/// client need in all.
const FIRST: Duration = Duration::from_millis(1800);
/// A rank that replays needs most of that again. It is killed after so much.
const IN_REPLAY: Duration = Duration::from_millis(60);

impl Long {
    fn begin(recovery: &str) -> Long {
        let usual = ["-n", "4", "--spin", "0", "--checkpoint-interval", "asked"];
        let run = Run::raw(usual).arg("--max-restarts").arg("100");
        let run = run.arg("--recovery").arg(recovery).arg(program("orders"));
        let run = run.arg("1000").arg("4000000").arg("1500000");
        let child = run.start();
        let job = Job::of(child.id(), "orders");
        wait_for(LIMIT, "a checkpoint", || job.has_checkpoint(4));
        Long {
            child,
            job,
            killed: 0,
        }
    }

    fn process(&self, rank: u32) -> Option<u32> {
        let all = self.job.ranks();
        all.into_iter()
            .find(|pid| rank_of(*pid) == Some(rank as usize))
    }

    /// Waits for a process of each rank that has computed for so long; kills them at once. Returns
    /// for how long each had computed.
    fn kill(&mut self, ranks: &[u32], after: Duration, gone: &mut Vec<u32>) -> Vec<Duration> {
        let mut found = Vec::new();
        wait_for(LIMIT, "ranks that compute", || {
            let all = ranks.iter().filter_map(|rank| self.process(*rank));
            found = all.filter(|pid| !gone.contains(pid)).collect();
            found.len() == ranks.len() && found.iter().all(|pid| cpu_time(*pid) >= after)
        });
        let times = found.iter().map(|pid| cpu_time(*pid)).collect();
        found.iter().for_each(|pid| kill(*pid, libc::SIGKILL));
        self.killed += found.len() as u32;
        gone.extend(found);
        times
    }

    fn end(self) {
        let done = finish(self.child, LIMIT, "the job");
        assert!(done.output.status.success(), "{}", done.text());
        let said = done.stdout();
        assert!(said.contains("answered in one order"), "{}", done.text());
        let back = times_back(&done.stderr());
        assert!(back >= self.killed / 2, "{back}: {}", done.text());
    }
}

/// Kills these ranks, and three times more while they replay.
fn killed_in_replay(recovery: &str, ranks: &[u32]) {
    let mut long = Long::begin(recovery);
    let mut gone = Vec::new();
    let first = long.kill(ranks, FIRST, &mut gone);
    println!("{recovery}: ranks {ranks:?} had computed for {first:?}");
    for _ in 0..TIMES {
        let times = long.kill(ranks, IN_REPLAY, &mut gone);
        println!("killed in their replay after {times:?}");
        // The server also waits in loops, which a replay need not.
        let replays = times.iter().all(|time| *time < FIRST / 3);
        assert!(replays, "{times:?}: too late for a replay");
    }
    long.end();
}

#[test]
fn ranks_are_killed_while_they_replay() {
    killed_in_replay("sender-log", &[2]);
    for recovery in ["sender-log", "receiver-log"] {
        killed_in_replay(recovery, &[0]);
        killed_in_replay(recovery, &[0, 1, 3]);
    }
}

/// The program reads a file that others write: its replay calls another function than is recorded.
#[test]
fn a_replay_that_differs_ends_the_job_and_says_where() {
    for recovery in ["sender-log", "receiver-log"] {
        let folder = Folder::new("differs");
        let file = folder.join("file");
        let run = Run::raw(["-n", "2", "--recovery", recovery]);
        let run = run.arg("--checkpoint-interval").arg("asked");
        let child = run.arg(program("changes")).arg(&file).start();
        let job = Job::of(child.id(), "changes");
        wait_for(LIMIT, "a checkpoint", || job.has_checkpoint(2));
        let all = job.ranks().into_iter();
        let answers: Vec<u32> = all.filter(|pid| rank_of(*pid) == Some(1)).collect();
        wait_for(LIMIT, "some answers", || cpu_time(answers[0]) >= IN_REPLAY);
        std::fs::write(&file, "").expect("the file");
        kill(answers[0], libc::SIGKILL);
        let done = finish(child, LIMIT, "a job whose replay differs");
        assert_eq!(done.output.status.code(), Some(17), "{}", done.text());
        let differs = done.stderr();
        let line = differs
            .lines()
            .find(|line| line.contains("rank 1: MPI_Test:"));
        let names_both = |line: &str| {
            line.contains("is asked for by MPI_Test") && line.contains("recorded for MPI_Iprobe")
        };
        assert!(line.is_some_and(names_both), "{}", done.text());
    }
}

/// Survivors that do not call MPI give a returned rank what they retain for it.
#[test]
fn a_rank_comes_back_while_the_sender_of_its_messages_computes() {
    for (recovery, transport) in [
        ("sender-log", "shm"),
        ("sender-log", "tcp"),
        ("receiver-log", "shm"),
    ] {
        let folder = Folder::new("away");
        let (gate, received) = (folder.join("gate"), folder.join("received"));
        let run = Run::raw(["-n", "2", "--recovery", recovery, "--transport", transport]);
        let run = run.arg("--checkpoint-interval").arg("asked");
        let run = run.arg(program("away")).arg(&gate).arg(&received);
        let child = run.start();
        let job = Job::of(child.id(), "away");
        for _ in 0..=TIMES {
            wait_for(LIMIT, "all messages", || received.exists());
            std::fs::remove_file(&received).expect("the file");
            let all = job.ranks().into_iter();
            let last: Vec<u32> = all.filter(|pid| rank_of(*pid) == Some(1)).collect();
            kill(*last.last().expect("rank 1"), libc::SIGKILL);
        }
        let took = wait_for(LIMIT, "all messages, again", || received.exists());
        println!("{recovery} over {transport}: again after {took:?}");
        std::fs::write(&gate, "").expect("the gate");
        let done = finish(child, LIMIT, "the job");
        assert!(done.output.status.success(), "{}", done.text());
        assert_eq!(
            times_back(&done.stderr()),
            TIMES as u32 + 1,
            "{}",
            done.text()
        );
    }
}

/// A rank that comes back while it computes gives those what they lack that were back before it.
#[test]
fn a_restored_rank_that_computes_serves_a_rank_that_came_back_before_it() {
    for transport in ["shm", "tcp"] {
        let folder = Folder::new("away-both");
        let (gate, received) = (folder.join("gate"), folder.join("received"));
        let run = Run::raw(["-n", "2", "--recovery", "sender-log"]);
        let run = run.arg("--transport").arg(transport);
        let run = run.arg("--checkpoint-interval").arg("asked");
        let run = run.arg(program("away")).arg(&gate).arg(&received);
        let run = run.arg("more").env("XDG_RUNTIME_DIR", &folder.name(""));
        let child = run.start();
        let job = Job::of(child.id(), "away");
        wait_for(LIMIT, "all messages", || received.exists());
        std::fs::remove_file(&received).expect("the file");
        let of = |pids: Vec<u32>, rank| pids.into_iter().rfind(|pid| rank_of(*pid) == Some(rank));
        let [sender, receiver] = [0, 1].map(|rank| of(job.ranks(), rank).expect("a rank"));
        // Only rank 0 takes a later image, which has what it retains for the other one.
        let images = || -> Vec<u32> {
            let all = job.images().into_iter();
            all.filter(|pid| rank_of(*pid) == Some(0)).collect()
        };
        kill(receiver, libc::SIGSTOP);
        let before = images();
        let id = child.id().to_string();
        let mut asks = asking(&folder, &["checkpoint", &id]);
        wait_for(LIMIT, "an image of rank 0", || {
            images().iter().any(|pid| !before.contains(pid))
        });
        std::thread::sleep(SETTLED);
        // Rank 1 is back, and needs what rank 0 retains.
        kill(sender, libc::SIGSTOP);
        kill(receiver, libc::SIGKILL);
        wait_for(LIMIT, "rank 1", || {
            of(job.ranks(), 1).is_some_and(|pid| pid != receiver)
        });
        std::thread::sleep(SETTLED);
        assert!(!received.exists(), "rank 1 needs nothing of rank 0");
        kill(sender, libc::SIGKILL);
        let took = wait_for(LIMIT, "all messages, again", || received.exists());
        println!("over {transport}: again after {took:?}");
        std::fs::write(&gate, "").expect("the gate");
        let done = finish(child, LIMIT, "the job");
        assert!(done.output.status.success(), "{}", done.text());
        assert_eq!(times_back(&done.stderr()), 2, "{}", done.text());
        let _ = asks.wait();
    }
}
