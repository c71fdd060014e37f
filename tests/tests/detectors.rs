//! Detectors: hosts that fall silent, lost links between two hosts, and busy machines. Root is
//! needed, as in `hosts`.

use rejoin_tests::hosts;
use rejoin_tests::hosts::Hosts;
use rejoin_tests::hosts::job::{Job, good};
use rejoin_tests::hosts::moves::right;
use rejoin_tests::spinner::Spinner;
use std::time::Duration;

/// Probes that are frequent enough for a test, and patient with a manager that is late.
const OFTEN: [&str; 4] = ["--probe-interval", "200ms", "--probe-timeout", "1500ms"];

/// Events of which there is none as long as every host is well.
const ALARMS: [&str; 4] = [
    "host-silent",
    "host-suspected",
    "host-link-lost",
    "host-replaced",
];

fn with(detector: &'static str, more: &[&'static str]) -> Vec<&'static str> {
    [&["--detector", detector][..], &OFTEN, more].concat()
}

fn no_alarm(job: &Job) {
    for event in ALARMS {
        assert_eq!(job.events(event), 0, "{event}");
    }
}

/// A folder of images that all hosts see.
fn images(hosts: &Hosts) -> String {
    let images = hosts.folder().join("images");
    std::fs::create_dir_all(&images).expect("a folder");
    images.to_str().expect("UTF-8").to_string()
}

#[test]
fn a_silent_host_is_noticed_by_each_detector_and_the_answer_is_the_same() {
    for detector in ["star", "ring", "sporadic", "none"] {
        println!("{detector}");
        let mut hosts = hosts!(3);
        let undisturbed = Job::undisturbed(&hosts, &[]);
        // Without a detector, nothing but the patience ends the wait.
        let limits = ["--host-lease", "8", "--host-patience", "10"];
        let mut options = with(detector, &limits);
        options.extend(["--spare", "h3"]);
        let mut job = Job::jacobi(&hosts, &options);
        job.until_in_files(2);
        no_alarm(&job);
        hosts.kill(2);
        job.until("host-replaced", 1);
        job.until("recovered", 1);
        // Who probes knows before the lease has run out. Ranks wait for the lost ones.
        let suspicions = usize::from(["ring", "sporadic"].contains(&detector));
        assert_eq!(job.events("host-suspected"), suspicions, "{detector}");
        assert_eq!(job.events("host-link-lost"), 0, "{detector}");
        right(&job.end(), &undisturbed);
    }
}

#[test]
fn a_lost_link_between_two_hosts_is_reported_once_and_ends_no_host() {
    for detector in ["star", "ring", "sporadic"] {
        println!("{detector}");
        let hosts = hosts!(3);
        let layout = ["--host", "h1:2,h2:1,h3:1", "--host-lease", "3"];
        let undisturbed = Job::undisturbed(&hosts, &layout);
        let mut job = Job::jacobi(&hosts, &with(detector, &layout));
        job.until("committed", 1);
        hosts.cut_between(1, 2);
        // With a sporadic one, whoever waits across the link probes.
        let is_found = detector != "star";
        job.until("host-link-lost", usize::from(is_found));
        // Longer than a lease lasts.
        std::thread::sleep(Duration::from_secs(5));
        // A ring probes from another host since, which reaches the host. With a sporadic detector
        // both ends may have waited.
        let most = [0, 1, 2][usize::from(is_found) + usize::from(detector == "sporadic")];
        assert!(job.events("host-link-lost") <= most, "{detector}");
        for event in ["host-silent", "host-suspected", "host-replaced"] {
            assert_eq!(job.events(event), 0, "{detector}: {event}");
        }
        hosts.heal();
        right(&job.end(), &undisturbed);
    }
}

#[test]
fn busy_processors_raise_no_alarm() {
    for detector in ["star", "ring", "sporadic"] {
        let hosts = hosts!(3);
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let spinners: Vec<Spinner> = (0..2 * cores).map(|_| Spinner::start()).collect();
        let options = ["--host", "h1:2,h2:1,h3:1", "--host-lease", "5"];
        let mut job = Job::jacobi(&hosts, &with(detector, &options));
        job.until("committed", 5);
        no_alarm(&job);
        let done = job.end();
        spinners.into_iter().for_each(|spinner| _ = spinner.stop());
        good(&done);
    }
}

#[test]
fn the_ring_notices_two_neighbours_that_are_lost_at_once() {
    let mut hosts = hosts!(4);
    let layout = ["--host", "h1,h2,h3,h4"];
    let undisturbed = Job::undisturbed(&hosts, &layout);
    let images = images(&hosts);
    let mut options: Vec<&str> = with("ring", &["--host-lease", "8"]);
    options.extend(layout);
    options.extend(["--images", &images]);
    let mut job = Job::jacobi(&hosts, &options);
    job.until_in_files(2);
    hosts.kill(2);
    hosts.kill(3);
    job.until("host-suspected", 2);
    job.until("host-replaced", 2);
    job.until("recovered", 1);
    right(&job.end(), &undisturbed);
}

#[test]
fn a_host_that_takes_in_ranks_joins_the_ring() {
    let mut hosts = hosts!(3);
    let undisturbed = Job::undisturbed(&hosts, &[]);
    let options = with("ring", &["--host-lease", "8", "--spare", "h3"]);
    let mut job = Job::jacobi(&hosts, &options);
    job.until_in_files(2);
    hosts.kill(2);
    job.until("recovered", 1);
    let next = job.epochs("host-replaced")[0] + 1;
    job.until_committed("partner", next);
    hosts.kill(3);
    job.until("host-suspected", 2);
    job.until("recovered", 2);
    right(&job.end(), &undisturbed);
}

#[test]
fn a_job_whose_table_goes_down_a_tree_has_a_ring_too() {
    let hosts = hosts!(3);
    let options = with("ring", &["--host", "h1:2,h2:1,h3:1"]);
    let mut job = Job::jacobi_with(&hosts, &options, |run| run.env("REJOIN_TREE_FANOUT", "1"));
    job.until("committed", 1);
    hosts.cut_between(1, 2);
    job.until("host-link-lost", 1);
    hosts.heal();
    let done = job.end();
    good(&done);
    let said = done.stderr();
    assert!(said.contains("host h1 can't reach host h2"), "{said}");
}
