//! Jobs of more ranks than have the whole table, over hosts of which one is lost, and between which
//! ranks move. The ranks sleep most of the time. Root is needed, as in `hosts`.
//! `REJOIN_MANY_RANKS=8x64` says how many hosts have ranks, and how many each.

use rejoin_tests::hosts::Hosts;
use rejoin_tests::hosts::job::{Job, good};
use rejoin_tests::{hosts, program};

/// Rounds of the program.
const ROUNDS: u64 = 12;

/// Hosts that have ranks at first, and ranks of each: more than 256 in all.
fn sizes() -> (usize, usize) {
    let Ok(text) = std::env::var("REJOIN_MANY_RANKS") else {
        return (4, 75);
    };
    let (hosts, each) = text.split_once('x').expect("HOSTSxRANKS");
    let number = |text: &str| text.parse().expect("a number");
    (number(hosts), number(each))
}

/// A job that waits for its gate, with a spare host, of which another host has copies. Central has
/// so many hosts below it in the tree.
fn start(hosts: &Hosts, options: &[&str], fanout: &str) -> Job {
    let (count, each) = sizes();
    let names: Vec<String> = (1..=count).map(|n| format!("h{n}:{each}")).collect();
    let (names, ranks) = (names.join(","), (count * each).to_string());
    let spare = format!("h{}", count + 1);
    let mut all = vec!["--host", &names, "-n", &ranks, "--spare", &spare, "--stats"];
    all.extend(["--checkpoint-interval", "1", "--host-lease", "5"]);
    all.extend(options);
    let gate = Job::gate(hosts);
    let mut job = Job::start(hosts, &all, |run| {
        let run = run.env("REJOIN_TREE_FANOUT", fanout).arg(program("crowd"));
        run.arg(ROUNDS.to_string()).arg(gate)
    });
    job.until("committed", 1);
    job
}

/// The job ends well, within its launch, and ranks have looked others up.
fn ends_well(job: Job) {
    let done = job.end();
    good(&done);
    let (count, each) = sizes();
    let ranks = (count * each) as u64;
    let says = format!("{ranks} ranks have exchanged {} numbers", ranks * ROUNDS);
    assert!(done.stdout().contains(&says), "{}", done.text());
    assert!(done.counted("lookups") > ranks, "{}", done.text());
    let said = done.stderr();
    assert!(!said.contains("all ranks start again"), "{}", done.text());
}

/// A host is lost. Its ranks continue on the spare one.
fn loses_a_host(options: &[&str], fanout: &str) {
    let mut hosts = hosts!(sizes().0 + 1);
    let mut job = start(&hosts, options, fanout);
    job.until_committed("partner", 1);
    hosts.kill(2);
    job.until("host-replaced", 1);
    job.until("recovered", 1);
    ends_well(job);
}

#[test]
fn hundreds_of_ranks_below_a_tree_continue_without_a_lost_host() {
    loses_a_host(&[], "2");
}

#[test]
fn hundreds_of_ranks_that_log_messages_continue_without_a_lost_host() {
    // Without a tree: each host gets the table.
    loses_a_host(&["--recovery", "sender-log"], "20");
}

#[test]
fn hundreds_of_ranks_whose_receivers_log_continue_without_a_lost_host() {
    loses_a_host(&["--recovery", "receiver-log"], "2");
}

#[test]
fn hundreds_of_ranks_move_to_hosts_that_had_none() {
    let (count, _) = sizes();
    let hosts = hosts!(count + 2);
    let job = start(&hosts, &[], "2");
    let added = format!("h{}", count + 2);
    let done = |words: &[&str]| {
        let out = hosts.rejoin(words);
        let said = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
        assert!(out.status.success(), "{words:?}: {said}");
        said
    };
    done(&["add-host", &format!("{added}:4")]);
    let spare = format!("h{}", count + 1);
    for (rank, to) in [("0", &spare), ("100", &added), ("7", &added)] {
        assert!(done(&["migrate", rank, "--to", to]).contains("has moved"));
    }
    assert_eq!(job.events("recovered"), 0);
    ends_well(job);
}
