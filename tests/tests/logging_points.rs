//! Ranks of jobs that log messages are killed where a random moment seldom is: between what a rank
//! records and what it then sends, and while it replays. Root is needed for jobs over hosts.

use rejoin_tests::folder::Folder;
use rejoin_tests::hosts;
use rejoin_tests::hosts::Hosts;
use rejoin_tests::hosts::job::Job as HostJob;
use rejoin_tests::hosts::moves::Points;
use rejoin_tests::job::{Job, times_back};
use rejoin_tests::limits::LIMIT;
use rejoin_tests::processes::{cpu_time, kill, rank_of, wait_for};
use rejoin_tests::questions::asking;
use rejoin_tests::{Run, finish, program};
use std::time::Duration;

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
    let no_more = ["--checkpoint-interval", "asked", "--host-lease", "4"];
    let options = [&["--spare", "h3:4"][..], &no_more].concat();
    let mut job = orders(&hosts, &points, recovery, &options);
    hosts.take_files(&mut job);
    let [asked, _] = POINTS;
    // The other host's ranks have determinants, too.
    points.want_on(asked, 1);
    job.reaches(asked, || points.is_reached(asked));
    // Optimistic messages that depend on these determinants leave meanwhile, before the lease of
    // the host whose manager waits is over.
    std::thread::sleep(Duration::from_secs(2));
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

/// A job on this host whose ranks can be held before a question or an answer. It takes no
/// checkpoint but the first, before any question.
struct Held {
    child: std::process::Child,
    job: Job,
    folder: Folder,
    killed: u32,
}

/// Questions of each client.
const QUESTIONS: &str = "300";
/// A client is killed for the first time before its question with this number.
const FIRST: usize = 200;
/// A rank that replays is held before this question or answer, and killed.
const IN_REPLAY: usize = 30;

impl Held {
    fn begin(recovery: &str) -> Held {
        let folder = Folder::new("held");
        let usual = ["-n", "4", "--spin", "0", "--checkpoint-interval", "asked"];
        let run = Run::raw(usual).arg("--max-restarts").arg("100");
        let run = run.arg("--recovery").arg(recovery).arg(program("orders"));
        let run = run.arg(QUESTIONS).arg("1000").arg("1000");
        // Without a gate.
        let run = run.arg("").arg(&folder);
        (0..4).for_each(|rank| Self::hold(&folder, rank, 0));
        let child = run.start();
        let job = Job::of(child.id(), "orders");
        wait_for(LIMIT, "a checkpoint", || job.has_checkpoint(4));
        Held {
            child,
            job,
            folder,
            killed: 0,
        }
    }

    fn hold(folder: &Folder, rank: usize, number: usize) {
        std::fs::write(folder.join(format!("at-{rank}-{number}")), "").expect("a hold");
    }

    fn release(&self, rank: usize, number: usize) {
        let hold = self.folder.join(format!("at-{rank}-{number}"));
        std::fs::remove_file(hold).expect("the hold");
    }

    /// Waits until a rank is held there.
    fn until(&self, rank: usize, number: usize) {
        let here = self.folder.join(format!("here-{rank}-{number}"));
        wait_for(LIMIT, "a rank that is held", || here.exists());
        // Its successor makes it again.
        std::fs::remove_file(here).expect("the mark");
    }

    /// Waits for a process of each rank that was not killed yet; kills them at once.
    fn kill(&mut self, ranks: &[usize], gone: &mut Vec<u32>) {
        let mut found = Vec::new();
        wait_for(LIMIT, "ranks that are back", || {
            found = self.job.ranks();
            found.retain(|pid| rank_of(*pid).is_some_and(|rank| ranks.contains(&rank)));
            found.retain(|pid| !gone.contains(pid));
            found.len() == ranks.len()
        });
        found.iter().for_each(|pid| kill(*pid, libc::SIGKILL));
        self.killed += found.len() as u32;
        gone.extend(found);
    }

    /// It ends in one order, and this rank has come back after each of its kills.
    fn end(self, rank: usize) {
        let done = finish(self.child, LIMIT, "the job");
        assert!(done.output.status.success(), "{}", done.text());
        let said = done.stdout();
        assert!(said.contains("answered in one order"), "{}", done.text());
        let said = done.stderr();
        let back = times_back(&said);
        // A rank that is killed before it is back comes back once.
        assert!(back >= self.killed / 2, "{back}: {}", done.text());
        let lines = said.lines().filter(|line| line.contains(" back after "));
        let own = lines.filter(|line| line.contains(&format!("rank {rank} ")));
        assert_eq!(own.count(), 1 + TIMES, "{said}");
    }
}

/// Kills these ranks, and three times more while they replay. The first of them is held each time.
/// If it is the server, the others wait for its answers.
fn killed_in_replay(recovery: &str, ranks: &[usize]) {
    let mut held = Held::begin(recovery);
    let mut gone = Vec::new();
    let which = ranks[0];
    // The server has answered three clients.
    let first = if which == 0 { 3 * FIRST } else { FIRST };
    Held::hold(&held.folder, which, first);
    (0..4).for_each(|rank| held.release(rank, 0));
    held.until(which, first);
    Held::hold(&held.folder, which, IN_REPLAY);
    held.kill(ranks, &mut gone);
    held.release(which, first);
    for _ in 0..TIMES {
        held.until(which, IN_REPLAY);
        held.kill(ranks, &mut gone);
    }
    held.until(which, IN_REPLAY);
    held.release(which, IN_REPLAY);
    held.end(which);
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
        let some = Duration::from_millis(60);
        wait_for(LIMIT, "some answers", || cpu_time(answers[0]) >= some);
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
