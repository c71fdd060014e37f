//! Jobs that have stored their state and continue without a host; root is needed, as in `hosts`.

use rejoin_tests::hosts::acts::{acts, assert_apart};
use rejoin_tests::hosts::job::{Job, good, lines};
use rejoin_tests::hosts::{Cut, Hosts};
use rejoin_tests::limits::SOON;
use rejoin_tests::processes::{all_gone, kill};
use rejoin_tests::{Run, hosts, program};
use std::io::Write;
use std::path::{Path, PathBuf};

/// No image of `beside` goes to files, so that a job without a host starts with registered memory.
const NO_FILES: &[&str] = &["quiet"];

/// What mpirun says then.
const STARTS_AGAIN: &str = "all ranks start again with registered memory of checkpoint";

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

    fn start(&self, hosts: &Hosts, more: &[&str]) -> Job {
        let images = self.images.to_str().expect("UTF-8");
        let options = ["--images", images, "--spare", "h3", "--host-lease", "1"];
        let gate = Job::gate(hosts);
        let run = |run: Run| {
            let run = run.arg(program("beside")).arg(&self.acts);
            let run = run.arg(Beside::STEPS).arg(gate);
            more.iter().fold(run, |run, word| run.arg(word))
        };
        Job::start(hosts, &options, run)
    }

    /// One that starts again if it loses a host. It talks, is given something to read, and
    /// shows only what stays.
    fn start_talking(&self, hosts: &Hosts, lease: &str) -> Job {
        let images = self.images.to_str().expect("UTF-8");
        let mut all = vec!["--images", images, "--spare", "h3", "--output", "commit"];
        all.extend(["--host-lease", lease]);
        let gate = Job::gate(hosts);
        let mut job = Job::start_as(hosts, &all, |run| {
            let run = run.arg(program("beside")).arg(&self.acts);
            let run = run.arg(Beside::STEPS).arg(gate).arg("talk");
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
        acts(&self.acts, 4, host)
    }
}

#[test]
fn a_job_that_stored_its_state_starts_again_without_a_host() {
    let mut hosts = hosts!(3);
    let calm = Beside::new(&hosts, "calm");
    let undisturbed = calm.start(&hosts, NO_FILES).end();
    good(&undisturbed);
    let beside = Beside::new(&hosts, "power");
    let mut job = beside.start(&hosts, NO_FILES);
    beside.stored(&mut job);
    hosts.kill(2);
    let done = job.end();
    good(&done);
    assert_eq!(lines(&done), lines(&undisturbed), "{}", done.text());
    let said = done.stderr();
    assert!(said.contains(STARTS_AGAIN), "{said}");
    let there = beside.acts("h3");
    assert!(there[0].is_none() && there[2].is_some() && there[3].is_some());
}

#[test]
fn what_was_shown_stays_when_a_job_starts_again() {
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
    assert!(done.stderr().contains(STARTS_AGAIN), "{}", done.text());
    assert_eq!(lines(&done), lines(&undisturbed), "{}", done.stderr());
}

#[test]
fn a_job_that_waits_for_the_lease_of_a_lost_host_can_be_ended() {
    let hosts = hosts!(3);
    ended_before_it_goes_on(&hosts, "waits", |job, _| {
        // The manager ends its ranks without its supervisor, but nobody reports that: the lease is
        // waited for.
        kill(hosts.processes(2, "rejoin-agent")[0], libc::SIGKILL);
        job.until("host-replaced", 1);
        kill(job.child.id(), libc::SIGTERM);
    });
}

#[test]
fn a_job_that_has_lost_a_host_can_be_ended_before_the_others_know() {
    let hosts = hosts!(3);
    ended_before_it_goes_on(&hosts, "ends", |job, lost| {
        // It does not get the order to start its ranks again.
        let other = hosts.processes(1, "rejoin-local")[0];
        kill(other, libc::SIGSTOP);
        kill(lost, libc::SIGKILL);
        job.until("host-replaced", 1);
        kill(job.child.id(), libc::SIGTERM);
        kill(other, libc::SIGCONT);
    });
}

/// A job that would start again without the manager `lost` is ended with SIGTERM.
fn ended_before_it_goes_on(hosts: &Hosts, name: &str, end: impl FnOnce(&mut Job, u32)) {
    let beside = Beside::new(hosts, name);
    // The lease of the lost host is waited for.
    let mut job = beside.start_talking(hosts, "20");
    beside.stored(&mut job);
    job.until("committed", 20);
    end(&mut job, hosts.processes(2, "rejoin-local")[0]);
    let done = job.end();
    // Without the signal it would have gone on, so that is what ended it.
    assert_eq!(done.output.status.code(), Some(143), "{}", done.text());
    // No rank writes it again, so it is shown.
    let text = done.stdout();
    let told = |rank: usize| text.matches(&format!(" of rank {rank}\n")).count();
    assert!((0..4).all(|rank| told(rank) >= 3), "{text}");
}

#[test]
fn no_rank_of_a_cut_off_host_acts_beside_its_successor() {
    let hosts = hosts!(3);
    let beside = Beside::new(&hosts, "cut");
    let mut job = beside.start(&hosts, &[]);
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
    all_gone(&left, SOON + SOON);
    let done = job.end();
    good(&done);
    assert_apart(&beside.acts, 2..4, "h2", "h3");
}
