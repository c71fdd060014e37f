//! Jobs over several sites: what all hosts get crosses the link to a site once, and private
//! addresses work behind one address. Root is needed, as in `hosts`.

use rejoin_tests::hosts;
use rejoin_tests::hosts::Hosts;
use rejoin_tests::hosts::job::{Job, good, lines};
use rejoin_tests::processes::kill;
use rejoin_tests::program;

fn done(hosts: &Hosts, words: &[&str]) -> String {
    let output = hosts.rejoin(words);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {said}{wrong}");
    said
}

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
    // Central tells the first host of each site.
    let tells = log
        .lines()
        .filter(|line| line.contains("the table goes to a host"));
    let tells: Vec<&str> = tells.collect();
    assert!(tells.len() as u64 >= 2 * MOVES, "{}", tells.len());
    let wrong = |line: &&&str| !line.contains("host=0") && !line.contains("host=2");
    assert_eq!(tells.iter().find(wrong), None);
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
    job.until_in_files(1);
    hosts.kill(2);
    job.until("recovered", 1);
    hosts.connected(3, &[4, 5]);
    // All hear of a move from there.
    let said = done(&hosts, &["migrate", "0", "--to", "h5"]);
    assert!(said.contains("has moved"), "{said}");
    let finished = job.end();
    good(&finished);
    assert_eq!(lines(&finished), lines(&alone), "{}", finished.text());
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
    let finished = job.end();
    good(&finished);
    assert_eq!(lines(&finished), lines(&alone), "{}", finished.text());
}
