//! Jobs over several sites: what all hosts get crosses the link to a site once, and private
//! addresses work behind one address. Root is needed, as in `hosts`.

use rejoin_tests::hosts;
use rejoin_tests::hosts::Hosts;
use rejoin_tests::hosts::job::{Job, good};
use rejoin_tests::hosts::moves::{done, right};
use rejoin_tests::processes::kill;
use rejoin_tests::program;

fn sites(hosts: &Hosts) -> Vec<String> {
    let status = hosts.status();
    let list = status["hosts"].as_array().cloned().unwrap_or_default();
    let site = |host: &serde_json::Value| host["site"].as_str().unwrap_or("-").to_owned();
    list.iter().map(site).collect()
}

#[test]
fn an_update_crosses_the_link_to_a_site_once() {
    const MOVES: u64 = 12;
    const FAR: u64 = 5;
    // Bytes of an update on its way, at least. A move has more traffic: the rank dials those that
    // it knows.
    const UPDATE: u64 = 150;
    let hosts = hosts!(2 + FAR as usize);
    hosts.split(3);
    let images = hosts.folder().join("images");
    std::fs::create_dir(&images).expect("a folder");
    // Bytes to the far hosts for each move of a rank between two near ones.
    let cost = |list: &str| {
        let options = [
            "--host",
            list,
            "-n",
            "7",
            "--host-lease",
            "60",
            "--checkpoint-interval",
            "asked",
            "--images",
            images.to_str().expect("UTF-8"),
        ];
        let gate = Job::gate(&hosts);
        let mut job = Job::start_as(&hosts, &options, |run| {
            let run = run.env("REJOIN_LOG", "rejoin_managers::central::tree_top=debug");
            run.arg(program("quiet")).arg(gate).start()
        });
        job.until("committed", 1);
        // The first moves make links.
        for to in ["h2", "h1"] {
            assert!(done(&hosts, &["migrate", "0", "--to", to]).contains("has moved"));
        }
        let before = hosts.crossed();
        for number in 0..MOVES {
            let to = ["h2", "h1"][number as usize % 2];
            assert!(done(&hosts, &["migrate", "0", "--to", to]).contains("has moved"));
        }
        let bytes = (hosts.crossed() - before) / MOVES;
        let shown = sites(&hosts);
        let finished = job.end();
        good(&finished);
        (bytes, shown, finished.stderr())
    };
    let (flat, none, _) = cost("h1,h2,h3,h4,h5,h6,h7");
    let (sited, two, log) = cost("h1,h2@near,h3,h4,h5,h6,h7@far");
    println!("bytes over the link for each move: {flat} to {FAR} hosts, {sited} to their site");
    assert_eq!(none, ["-"; 7]);
    assert_eq!(two[1..3], ["near", "far"]);
    assert!(sited + (FAR - 2) * UPDATE < flat, "{sited} {flat}");
    tells_first_hosts_only(&log, &[0, 2], MOVES as usize);
}

#[test]
fn the_next_host_of_a_site_speaks_for_it_when_the_first_is_lost() {
    let mut hosts = hosts!(5);
    hosts.split(2);
    let images = hosts.folder().join("images");
    std::fs::create_dir(&images).expect("a folder");
    let options = [
        "--host",
        "h1@near,h2,h3,h4,h5@far",
        "-n",
        "5",
        "--images",
        images.to_str().expect("UTF-8"),
        "--host-lease",
        "1",
    ];
    let alone = Job::undisturbed(&hosts, &options);
    let mut job = Job::jacobi(&hosts, &options);
    job.until("committed", 2);
    hosts.connected(2, &[3, 4, 5]);
    job.until_committed("partner", 1);
    hosts.kill(2);
    job.until("recovered", 1);
    hosts.connected(3, &[4, 5]);
    // All hear of a move from there.
    let said = done(&hosts, &["migrate", "0", "--to", "h5"]);
    assert!(said.contains("has moved"), "{said}");
    right(&job.end(), &alone);
}

#[test]
fn ranks_of_private_networks_meet_at_the_addresses_of_their_routers() {
    let hosts = hosts!(4);
    let alone = Job::undisturbed(&hosts, &[]);
    let north = hosts.behind_router("north", 1, &[1, 2]);
    let south = hosts.behind_router("south", 2, &[3, 4]);
    let options = [
        "--host",
        "h1,h2@north,h3,h4@south",
        "--site",
        &north.option,
        "--site",
        &south.option,
    ];
    let mut job = Job::jacobi(&hosts, &options);
    job.until("committed", 2);
    assert_eq!(sites(&hosts), ["north", "north", "south", "south"]);
    // A rank comes back.
    kill(hosts.processes(3, "jacobi")[0], libc::SIGKILL);
    job.until("recovered", 1);
    // A rank of one site moves to the other one, and back.
    for to in ["h4", "h1"] {
        let said = done(&hosts, &["migrate", "0", "--to", to]);
        assert!(said.contains("has moved"), "{said}");
        assert_eq!(hosts.places()[0], to);
    }
    let committed = job.events("committed");
    job.until("committed", committed + 2);
    right(&job.end(), &alone);
}

#[test]
fn the_tree_of_sites_stands_under_the_next_central_manager() {
    let hosts = hosts!(5);
    hosts.split(3);
    let options = ["--host", "h1,h2@near,h3,h4,h5@far", "-n", "5"];
    let alone = Job::undisturbed(&hosts, &options);
    let mut job = Job::jacobi_with(&hosts, &options, |run| {
        run.env("REJOIN_LOG", "rejoin_managers::central::tree_top=debug")
    });
    job.until("committed", 2);
    for round in 1..=3 {
        job.kill_central();
        job.until("central-again", round);
        assert_eq!(sites(&hosts), ["near", "near", "far", "far", "far"]);
        // All hear of moves to the other site and back. The last rollback may have taken one back.
        for _ in 0..2 {
            let to = ["h5", "h1"][usize::from(hosts.places()[0] == "h5")];
            assert!(done(&hosts, &["migrate", "0", "--to", to]).contains("has moved"));
            assert_eq!(hosts.places()[0], to);
        }
        // A rank comes back.
        let recovered = job.events("recovered");
        kill(hosts.processes(4, "jacobi")[0], libc::SIGKILL);
        job.until("recovered", recovered + 1);
        let committed = job.events("committed");
        job.until("committed", committed + 1);
        hosts.connected(3, &[4, 5]);
    }
    let finished = job.end();
    right(&finished, &alone);
    tells_first_hosts_only(&finished.stderr(), &[0, 2], 6);
}

/// Central has told these hosts, so many times each, and hardly any other: one whose answer is late
/// is passed over.
fn tells_first_hosts_only(log: &str, first: &[usize], times: usize) {
    let tells = log
        .lines()
        .filter(|line| line.contains("the table goes to a host"));
    let tells: Vec<&str> = tells.collect();
    let told = |host: &usize| format!("host={host}");
    for host in first.iter().map(told) {
        let times_told = tells.iter().filter(|line| line.contains(&host)).count();
        assert!(times_told >= times, "{host}: {times_told}");
    }
    let is_wrong = |line: &&&str| !first.iter().map(told).any(|host| line.contains(&host));
    let wrong = tells.iter().filter(is_wrong).count();
    assert!(
        wrong * 4 < tells.len(),
        "{wrong} of {}: {tells:?}",
        tells.len()
    );
}
