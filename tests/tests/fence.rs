//! Hosts whose managers are stopped, not cut off: their ranks are suspended all the same before
//! others replace them. Root is needed, as in `hosts`.

use rejoin_tests::hosts::acts::{acts, assert_apart};
use rejoin_tests::hosts::job::{Job, good};
use rejoin_tests::hosts::{Cut, Hosts};
use rejoin_tests::limits::SOON;
use rejoin_tests::processes::{all_gone, kill, state, wait_for};
use rejoin_tests::{hosts, program};
use std::path::PathBuf;

/// All ways in which ranks return.
const MODES: [&str; 3] = ["coordinated", "sender-log", "receiver-log"];

/// `acts` on the hosts 1 and 2, with a file in which its ranks record when they act.
struct Acting {
    job: Job,
    file: PathBuf,
}

impl Acting {
    fn start(hosts: &Hosts, options: &[&str]) -> Acting {
        let file = hosts.folder().join("acts");
        let _ = std::fs::remove_file(&file);
        let gate = Job::gate(hosts);
        let job = Job::start(hosts, options, |run| {
            run.arg(program("acts")).arg(&file).arg(gate)
        });
        Acting { job, file }
    }

    /// A job whose ranks continue on the host 3 if the host 2 is lost.
    fn with_spare(hosts: &Hosts, mode: &str) -> Acting {
        let options = ["--recovery", mode, "--host-lease", "1", "--spare", "h3"];
        let mut acting = Acting::start(hosts, &options);
        acting.job.until_in_files(2);
        acting
    }

    /// Waits until the ranks of the host 2 have successors that act, and go on.
    fn until_replaced(&mut self) {
        self.job.until("host-replaced", 1);
        let file = self.file.clone();
        self.job.reaches("successors that act", || {
            acts(&file, 4, "h3").iter().flatten().count() == 2
        });
        self.job
            .until("committed", self.job.events("committed") + 2);
    }

    fn ends_well(self) {
        let done = self.job.end();
        good(&done);
        let text = done.stdout();
        assert!(text.contains("every sum was right"), "{}", done.text());
    }
}

/// The ranks of the host 2, and its manager.
fn ranks_and_manager(hosts: &Hosts) -> (Vec<u32>, u32) {
    let ranks = hosts.processes(2, "acts");
    assert_eq!(ranks.len(), 2, "{ranks:?}");
    let manager = hosts.processes(2, "rejoin-local");
    assert_eq!(manager.len(), 1, "{manager:?}");
    (ranks, manager[0])
}

fn are_suspended(ranks: &[u32]) -> bool {
    ranks.iter().all(|pid| state(*pid) == 'T')
}

#[test]
fn no_rank_of_a_host_whose_manager_is_stopped_acts_beside_its_successor() {
    for mode in MODES {
        let hosts = hosts!(3);
        let mut acting = Acting::with_spare(&hosts, mode);
        let (ranks, manager) = ranks_and_manager(&hosts);
        kill(manager, libc::SIGSTOP);
        acting.until_replaced();
        assert!(are_suspended(&ranks), "{mode}");
        assert_apart(&acting.file, 2..4, "h2", "h3");
        kill(manager, libc::SIGCONT);
        // It learns that its host is replaced.
        all_gone(&ranks, SOON);
        assert_apart(&acting.file, 2..4, "h2", "h3");
        acting.ends_well();
    }
}

#[test]
fn ranks_that_others_continue_are_suspended_again() {
    for mode in MODES {
        let hosts = hosts!(3);
        let mut acting = Acting::with_spare(&hosts, mode);
        let (ranks, manager) = ranks_and_manager(&hosts);
        let all = || [manager].into_iter().chain(ranks.clone());
        all().for_each(|pid| kill(pid, libc::SIGSTOP));
        acting.until_replaced();
        assert_apart(&acting.file, 2..4, "h2", "h3");
        ranks.iter().for_each(|pid| kill(*pid, libc::SIGCONT));
        wait_for(SOON, "suspended ranks", || are_suspended(&ranks));
        all().for_each(|pid| kill(pid, libc::SIGCONT));
        all_gone(&ranks, SOON);
        acting.ends_well();
    }
}

#[test]
fn ranks_of_a_host_that_was_frozen_are_suspended_when_it_thaws() {
    for mode in MODES {
        let hosts = hosts!(3);
        let mut acting = Acting::with_spare(&hosts, mode);
        let (ranks, manager) = ranks_and_manager(&hosts);
        // Nothing but the supervisor can suspend them when the host thaws.
        kill(manager, libc::SIGSTOP);
        if !hosts.freeze(2) {
            return acting.ends_well();
        }
        acting.until_replaced();
        assert_apart(&acting.file, 2..4, "h2", "h3");
        hosts.thaw(2);
        wait_for(SOON, "suspended ranks", || are_suspended(&ranks));
        kill(manager, libc::SIGCONT);
        all_gone(&ranks, SOON);
        acting.ends_well();
    }
}

#[test]
fn a_manager_that_is_stopped_for_less_than_its_lease_costs_nothing() {
    let hosts = hosts!(2);
    let mut acting = Acting::start(&hosts, &["--host-lease", "20"]);
    acting.job.until("committed", 1);
    let (ranks, manager) = ranks_and_manager(&hosts);
    kill(manager, libc::SIGSTOP);
    let seen = || acts(&acting.file, 4, "h2")[2..].to_vec();
    let before = seen();
    wait_for(SOON, "ranks that go on", || {
        seen().iter().zip(&before).all(|(now, then)| now > then)
    });
    assert!(!are_suspended(&ranks));
    kill(manager, libc::SIGCONT);
    let committed = acting.job.events("committed");
    acting.job.until("committed", committed + 1);
    assert_eq!(hosts.processes(2, "acts"), ranks);
    let troubles = ["host-silent", "host-replaced", "recovered"];
    let troubles: Vec<_> = troubles.map(|kind| acting.job.events(kind)).to_vec();
    assert_eq!(troubles, [0, 0, 0]);
    acting.ends_well();
}

#[test]
fn ranks_without_another_place_go_on_when_their_manager_does() {
    let hosts = hosts!(2);
    let options = ["--images", "none", "--host-lease", "1"];
    let options = [&options[..], &["--host-patience", "60"]].concat();
    let mut acting = Acting::start(&hosts, &options);
    acting.job.until("committed", 1);
    let (ranks, manager) = ranks_and_manager(&hosts);
    for _ in 0..2 {
        let events = ["host-silent", "host-heard"];
        let [silent, heard] = events.map(|event| acting.job.events(event));
        kill(manager, libc::SIGSTOP);
        acting.job.until("host-silent", silent + 1);
        assert!(are_suspended(&ranks));
        kill(manager, libc::SIGCONT);
        acting.job.until("host-heard", heard + 1);
        let committed = acting.job.events("committed");
        acting.job.until("committed", committed + 1);
        assert_eq!(hosts.processes(2, "acts"), ranks);
    }
    acting.ends_well();
}

#[test]
fn a_rank_that_its_user_has_stopped_stays_so_when_its_host_has_a_lease_again() {
    let hosts = hosts!(2);
    let options = ["--images", "none", "--host-lease", "1"];
    let options = [&options[..], &["--host-patience", "60"]].concat();
    let mut acting = Acting::start(&hosts, &options);
    acting.job.until("committed", 1);
    let (ranks, _) = ranks_and_manager(&hosts);
    kill(ranks[0], libc::SIGSTOP);
    hosts.cut(2, Cut::Both);
    acting.job.until("host-silent", 1);
    assert!(are_suspended(&ranks));
    hosts.heal();
    acting.job.until("host-heard", 1);
    wait_for(SOON, "a rank that continues", || state(ranks[1]) != 'T');
    assert_eq!(state(ranks[0]), 'T');
    kill(ranks[0], libc::SIGCONT);
    acting.ends_well();
}

#[test]
fn nothing_runs_on_a_host_without_its_supervisor() {
    let hosts = hosts!(3);
    let mut acting = Acting::with_spare(&hosts, "sender-log");
    let (mut all, manager) = ranks_and_manager(&hosts);
    all.push(manager);
    kill(hosts.processes(2, "rejoin-agent")[0], libc::SIGKILL);
    all_gone(&all, SOON);
    acting.until_replaced();
    assert_apart(&acting.file, 2..4, "h2", "h3");
    acting.ends_well();
}
