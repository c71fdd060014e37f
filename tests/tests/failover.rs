//! Jobs that have stored their state and continue without a host; root is needed, as in `hosts`.

use rejoin_tests::hosts::job::{Job, SOON, good, lines};
use rejoin_tests::hosts::{Cut, Hosts};
use rejoin_tests::processes::{all_gone, children, kill, wait_for};
use rejoin_tests::{Run, hosts, program};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// For how long a host looks for mpirun when nothing else is said (`--host-patience`).
const PATIENCE: Duration = Duration::from_secs(30);

/// Ranks look cards up, so that a lost host ends the launch.
const LOOK_UP: (&str, &str) = ("REJOIN_TABLE", "lazy");
/// They have the table.
const WHOLE: (&str, &str) = ("REJOIN_TABLE", "whole");

/// `beside` until it may end. It keeps its state in a folder, and records in a file which rank
/// acts.
struct Beside {
    images: PathBuf,
    acts: PathBuf,
}

impl Beside {
    const STEPS: &'static str = "80";

    fn new(hosts: &Hosts, name: &str) -> Beside {
        let images = hosts.folder().join(format!("images-{name}"));
        std::fs::create_dir_all(&images).expect("a folder");
        let acts = hosts.folder().join(format!("acts-{name}"));
        Beside { images, acts }
    }

    fn start(&self, hosts: &Hosts, (name, value): (&str, &str)) -> Job {
        let images = self.images.to_str().expect("UTF-8");
        let options = ["--images", images, "--spare", "h3", "--host-lease", "1"];
        let gate = Job::gate(hosts);
        let run = |run: Run| {
            run.arg(program("beside"))
                .arg(&self.acts)
                .arg(Beside::STEPS)
                .arg(gate)
                .env(name, value)
        };
        Job::start(hosts, &options, run)
    }

    /// One that is launched again if it loses a host. It talks, is given something to read, and
    /// shows only what stays.
    fn start_talking(&self, hosts: &Hosts, lease: &str) -> Job {
        let images = self.images.to_str().expect("UTF-8");
        let mut all = vec!["--images", images, "--spare", "h3", "--output", "commit"];
        all.extend(["--host-lease", lease]);
        let gate = Job::gate(hosts);
        let mut job = Job::start_as(hosts, &all, |run| {
            let run = run.arg(program("beside")).arg(&self.acts);
            let run = run.arg(Beside::STEPS).arg(gate).arg("talk");
            let run = run.env(LOOK_UP.0, LOOK_UP.1);
            run.start_with_input()
        });
        let mut input = job.child.stdin.take().expect("its input");
        input.write_all(&[b'x'; 100_000]).expect("writing");
        job
    }

    /// Waits until every rank has stored something.
    fn stored(&self, job: &mut Job) {
        let has =
            |rank: usize, path: &Path| path.to_string_lossy().contains(&format!("rank-{rank:06}"));
        job.reaches("stored state of all ranks", || {
            let entries = std::fs::read_dir(&self.images).expect("the folder");
            let all: Vec<_> = entries.map(|e| e.expect("an entry").path()).collect();
            (0..4).all(|rank| all.iter().filter(|path| has(rank, path)).count() > 1)
        });
    }

    /// When each rank acted on a host, from the first to the last time.
    fn acts(&self, host: &str) -> Vec<Option<(u64, u64)>> {
        let text = std::fs::read_to_string(&self.acts).unwrap_or_default();
        let mut found = vec![None; 4];
        // The last one may be seen in the middle of its writing.
        let lines = text.split_inclusive('\n');
        for line in lines.filter_map(|line| line.strip_suffix('\n')) {
            let words: Vec<_> = line.split(' ').collect();
            let [time, rank, at] = words[..] else {
                panic!("a torn line: {line}");
            };
            if at == host {
                let time: u64 = time.parse().expect("a time");
                let rank: usize = rank.parse().expect("a rank");
                let (first, last) = found[rank].unwrap_or((time, time));
                found[rank] = Some((first.min(time), last.max(time)));
            }
        }
        found
    }
}

#[test]
fn a_job_that_stored_its_state_is_launched_again_without_a_host() {
    let mut hosts = hosts!(3);
    let calm = Beside::new(&hosts, "calm");
    let undisturbed = calm.start(&hosts, LOOK_UP).end();
    good(&undisturbed);
    let beside = Beside::new(&hosts, "power");
    let mut job = beside.start(&hosts, LOOK_UP);
    beside.stored(&mut job);
    hosts.kill(2);
    let done = job.end();
    good(&done);
    assert_eq!(lines(&done), lines(&undisturbed), "{}", done.text());
    assert!(done.stderr().contains("host h2 is lost"), "{}", done.text());
    let there = beside.acts("h3");
    assert!(there[0].is_none() && there[2].is_some() && there[3].is_some());
}

#[test]
fn what_was_shown_stays_when_a_job_is_launched_again() {
    let mut hosts = hosts!(3);
    let calm = Beside::new(&hosts, "calm");
    let undisturbed = calm.start_talking(&hosts, "1").end();
    good(&undisturbed);
    let text = undisturbed.stdout();
    assert!(text.contains(", 100000 bytes read"), "{text}");
    let beside = Beside::new(&hosts, "talk");
    let mut job = beside.start_talking(&hosts, "1");
    beside.stored(&mut job);
    // In the middle of its work, wherever that is.
    job.until("committed", 20);
    hosts.kill(2);
    let done = job.end();
    good(&done);
    assert!(
        done.stderr().contains("is launched again on other hosts"),
        "{}",
        done.text()
    );
    assert_eq!(lines(&done), lines(&undisturbed), "{}", done.stderr());
}

#[test]
fn a_job_that_waits_for_its_next_launch_can_be_ended() {
    let hosts = hosts!(3);
    ended_before_it_goes_on(&hosts, "waits", |job, lost| {
        let all = hosts.processes(1, "rejoin-local");
        // It ends its ranks, but nobody has seen that: the lease is waited for.
        kill(lost, libc::SIGHUP);
        all_gone(&all, SOON);
        kill(job, libc::SIGTERM);
    });
}

#[test]
fn a_job_that_has_lost_a_host_can_be_ended_while_the_others_end() {
    let hosts = hosts!(3);
    ended_before_it_goes_on(&hosts, "ends", |job, lost| {
        // It does not get the order to end.
        let other = hosts.processes(1, "rejoin-local")[0];
        kill(other, libc::SIGSTOP);
        let before = children(job).len();
        kill(lost, libc::SIGKILL);
        wait_for(SOON, "the lost host's launch agent", || {
            children(job).len() < before
        });
        kill(job, libc::SIGTERM);
        kill(other, libc::SIGCONT);
    });
}

/// A job that would be launched again without the manager `lost` is ended with SIGTERM.
fn ended_before_it_goes_on(hosts: &Hosts, name: &str, end: impl FnOnce(u32, u32)) {
    let beside = Beside::new(hosts, name);
    // The lease of the lost host is waited for.
    let mut job = beside.start_talking(hosts, "20");
    beside.stored(&mut job);
    job.until("committed", 20);
    end(job.child.id(), hosts.processes(2, "rejoin-local")[0]);
    let done = job.end();
    // Without the signal it would have gone on, so that is what ended it.
    assert_eq!(done.output.status.code(), Some(143), "{}", done.text());
    assert!(
        !done.stderr().contains("is launched again on other hosts"),
        "{}",
        done.text()
    );
    // No rank writes it again, so it is shown.
    let text = done.stdout();
    let told = |rank: usize| text.matches(&format!(" of rank {rank}\n")).count();
    assert!((0..4).all(|rank| told(rank) >= 3), "{text}");
}

#[test]
fn no_rank_of_a_cut_off_host_acts_beside_its_successor() {
    let hosts = hosts!(3);
    let beside = Beside::new(&hosts, "cut");
    let mut job = beside.start(&hosts, WHOLE);
    beside.stored(&mut job);
    hosts.cut(2, Cut::Both);
    job.until("host-replaced", 1);
    job.reaches("successors that act", || {
        beside.acts("h3").iter().flatten().count() == 2
    });
    let left = hosts.processes(2, "beside");
    assert_eq!(left.len(), 2, "they are suspended, and were not killed");
    hosts.heal();
    // Hosts that come back learn that they are replaced, or find no job if it has ended by then.
    all_gone(&left, PATIENCE + SOON);
    let done = job.end();
    good(&done);
    let (before, after) = (beside.acts("h2"), beside.acts("h3"));
    for rank in [2, 3] {
        let (_, last) = before[rank].expect("acts on h2");
        let (first, _) = after[rank].expect("acts on h3");
        assert!(
            last < first,
            "rank {rank} acted on h2 until {last}, on h3 from {first}"
        );
    }
}
