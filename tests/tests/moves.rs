//! Ranks move to other hosts while the job runs: nothing rolls back, and the answer is the same.
//! Root is needed, as in `hosts`.

use rejoin_tests::hosts::Hosts;
use rejoin_tests::hosts::job::{Job, good, lines};
use rejoin_tests::hosts::moves::{done, right, undisturbed};
use rejoin_tests::job::Numbers;
use rejoin_tests::limits::SOON;
use rejoin_tests::processes::{all_gone, kill, rank_of};
use rejoin_tests::{Finished, Run, hosts, program};
use std::io::Write as _;
use std::process::{Child, ChildStdin};

fn migrate(hosts: &Hosts, what: &str, to: &str) -> String {
    done(hosts, &["migrate", what, "--to", to])
}

#[test]
fn a_rank_moves_to_another_host_and_back() {
    let hosts = hosts!(2);
    let alone = Job::undisturbed(&hosts, &[]);
    let mut job = Job::jacobi(&hosts, &[]);
    job.until("committed", 2);
    assert!(migrate(&hosts, "1", "h2").contains("rank 1 has moved"));
    assert_eq!(hosts.places(), ["h1", "h2", "h2", "h2"]);
    assert!(migrate(&hosts, "1", "h2").contains("there already"));
    assert!(migrate(&hosts, "1", "h1").contains("rank 1 has moved"));
    assert_eq!(hosts.places(), ["h1", "h1", "h2", "h2"]);
    assert_eq!(job.events("moved"), 2);
    assert_eq!(job.events("recovered"), 0);
    undisturbed(&job.end(), &alone);
}

#[test]
fn a_new_communicator_of_a_host_has_the_ranks_that_are_there_now() {
    let hosts = hosts!(2);
    let gate = Job::gate(&hosts);
    let mut job = Job::start(&hosts, &["--verbose"], |run| {
        run.arg(program("neighbours")).arg(&gate)
    });
    job.until("committed", 1);
    assert!(migrate(&hosts, "1", "h2").contains("rank 1 has moved"));
    let done = job.end();
    good(&done);
    for (rank, with) in ["0", "1 2 3", "1 2 3", "1 2 3"].iter().enumerate() {
        let says = format!("rank {rank} shares memory with {with}");
        let told = lines(&done).iter().any(|line| line.ends_with(&says));
        assert!(told, "{says}: {}", done.text());
    }
}

/// Between two images of a move some mappings become one, and others two.
#[test]
fn mappings_that_become_one_while_their_rank_moves_keep_their_pages() {
    let hosts = hosts!(2);
    let gate = Job::gate(&hosts);
    let mut job = Job::start(&hosts, &[], |run| run.arg(program("merging")).arg(&gate));
    job.until("committed", 1);
    for to in ["h2", "h1", "h2", "h1", "h2", "h1"] {
        assert!(migrate(&hosts, "1", to).contains("rank 1 has moved"));
    }
    assert_eq!(job.events("recovered"), 0);
    let done = job.end();
    good(&done);
    let whole = done.stdout().matches("has all its pages").count();
    assert_eq!(whole, 4, "{}", done.text());
}

#[test]
fn an_update_goes_down_the_tree_to_ranks_with_and_without_the_table() {
    let hosts = hosts!(3);
    let options = ["--host", "h1:2,h2:1,h3:1", "--verbose"];
    let alone = Job::undisturbed(&hosts, &options);
    for table in ["whole", "lazy"] {
        let mut job = Job::jacobi_with(&hosts, &options, |run| {
            let run = run.env("REJOIN_TREE_FANOUT", "1");
            run.env("REJOIN_TABLE", table)
        });
        job.until("committed", 2);
        // Below central are h1, then h2, then h3.
        for (rank, host) in [("0", "h3"), ("3", "h2"), ("0", "h1")] {
            assert!(migrate(&hosts, rank, host).contains("has moved"), "{table}");
        }
        assert_eq!(hosts.places(), ["h1", "h1", "h2", "h2"]);
        let done = job.end();
        assert!(!done.stderr().contains("wrong way"), "{}", done.text());
        undisturbed(&done, &alone);
    }
}

#[test]
fn a_host_is_drained_and_its_manager_ends() {
    let hosts = hosts!(3);
    let alone = Job::undisturbed(&hosts, &[]);
    let mut job = Job::jacobi(&hosts, &["--spare", "h3"]);
    job.until("committed", 1);
    let managers = hosts.processes(2, "rejoin-local");
    let said = done(&hosts, &["drain", "h2"]);
    assert!(said.contains("2 ranks have moved"), "{said}");
    assert!(!hosts.places().contains(&"h2".to_owned()));
    assert_eq!(job.events("host-drains"), 1);
    let states = hosts.states();
    assert_eq!([&states[0], &states[2]], ["active", "active"]);
    assert!(states[1] == "draining" || states[1] == "inactive");
    // When images of a later checkpoint count.
    all_gone(&managers, SOON);
    // The host drains, the spare one has ranks, and the drained one has left.
    job.until("host-state", 3);
    assert_eq!(hosts.states(), ["active", "inactive", "active"]);
    let refused = hosts.rejoin(&["migrate", "0", "--to", "h2"]);
    let why = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && why.contains("or leaves the job"),
        "{why}"
    );
    // It comes back as another host of its name.
    done(&hosts, &["add-host", "h2:2"]);
    assert!(migrate(&hosts, "0", "h2").contains("rank 0 has moved"));
    assert!(hosts.places().contains(&"h2".to_owned()));
    undisturbed(&job.end(), &alone);
}

#[test]
fn a_killed_rank_rolls_all_back_to_where_the_images_are() {
    let hosts = hosts!(3);
    let alone = Job::undisturbed(&hosts, &[]);
    let mut job = Job::jacobi(&hosts, &["--spare", "h3"]);
    job.until("committed", 1);
    let mut numbers = Numbers(5);
    for round in 1..=6 {
        let to = format!("h{}", 1 + numbers.below(3));
        let rank = numbers.below(4).to_string();
        migrate(&hosts, &rank, &to);
        // At once, or when the new hosts have images.
        if round % 2 == 0 {
            let before = job.events("committed");
            job.until("committed", before + 2);
        }
        // The end of the process before the move would be no loss.
        hosts.settle(&mut job, "jacobi");
        let ranks: Vec<u32> = (1..=3).flat_map(|h| hosts.processes(h, "jacobi")).collect();
        let victim = ranks[numbers.below(ranks.len() as u64) as usize];
        kill(victim, libc::SIGKILL);
        job.until("recovered", round);
        let before = job.events("committed");
        job.until("committed", before + 1);
    }
    let done = job.end();
    good(&done);
    assert_eq!(lines(&done), lines(&alone), "{}", done.text());
}

#[test]
fn a_central_manager_that_dies_leaves_ranks_where_they_are_or_go() {
    let hosts = hosts!(3);
    let alone = Job::undisturbed(&hosts, &[]);
    let mut job = Job::jacobi(&hosts, &["--spare", "h3"]);
    job.until("committed", 1);
    let mut numbers = Numbers(9);
    for round in 1..=6 {
        // Others than those that are there already.
        let to = format!("h{}", 1 + (round + 1) % 3);
        let moving = job.events("moving");
        std::thread::scope(|scope| {
            let moves = scope.spawn(|| hosts.rejoin(&["migrate", "0-3", "--to", &to]));
            job.until("moving", moving + 1);
            std::thread::sleep(std::time::Duration::from_micros(numbers.below(30_000)));
            job.kill_central();
            // It may have been told that the moves are over before.
            let _ = moves.join();
        });
        job.until("central-again", round);
        let before = job.events("committed");
        job.until("committed", before + 1);
    }
    assert_eq!(job.events("recovered"), 0);
    let moved = job.events("moved");
    println!("{moved} of {} moves", job.events("moving"));
    assert!(moved > 0, "no rank has moved");
    undisturbed(&job.end(), &alone);
}

/// A program that reads standard input, which is this, and its end if nothing happens.
fn read(hosts: &Hosts) -> (String, Finished) {
    let text: String = (0..40_000).map(|i| format!("line {i}\n")).collect();
    let mut plain = Job::start_as(hosts, &["--recovery", "none"], start_reader);
    let mut input = plain.child.stdin.take().expect("its input");
    input.write_all(text.as_bytes()).expect("a reader");
    drop(input);
    (text, plain.end())
}

/// A job of this program that has a checkpoint, and its standard input.
fn begin_reading(hosts: &Hosts) -> (Job, ChildStdin) {
    let mut job = Job::start_as(hosts, &[], start_reader);
    let input = job.child.stdin.take().expect("its input");
    job.until("committed", 1);
    (job, input)
}

fn start_reader(run: Run) -> Child {
    run.arg(program("back")).arg("input").start_with_input()
}

#[test]
fn what_a_moved_rank_has_read_comes_again_if_it_is_killed() {
    let hosts = hosts!(2);
    let (text, alone) = read(&hosts);
    let (mut job, mut input) = begin_reading(&hosts);
    for (round, part) in text.split_inclusive("000\n").enumerate() {
        input.write_all(part.as_bytes()).expect("a reader");
        if round % 10 != 0 {
            continue;
        }
        let (to, number) = if round % 20 == 0 {
            ("h2", 2)
        } else {
            ("h1", 1)
        };
        migrate(&hosts, "0", to);
        // Before the new host has an image of a checkpoint, and after that.
        if round % 40 < 20 {
            let before = job.events("committed");
            job.until("committed", before + 1);
        }
        let processes = hosts.processes(number, "back").into_iter();
        let reader = processes.filter(|pid| rank_of(*pid) == Some(0)).max();
        kill(reader.expect("the reader"), libc::SIGKILL);
        // It may have been an image.
        let before = job.events("committed");
        job.until("committed", before + 1);
    }
    drop(input);
    right(&job.end(), &alone);
}

#[test]
fn standard_input_follows_the_rank_that_reads_it() {
    let hosts = hosts!(2);
    let (text, alone) = read(&hosts);
    let (job, mut input) = begin_reading(&hosts);
    for (round, part) in text.split_inclusive("000\n").enumerate() {
        input.write_all(part.as_bytes()).expect("a reader");
        if round % 10 == 0 {
            let to = if round % 20 == 0 { "h2" } else { "h1" };
            migrate(&hosts, "0", to);
        }
    }
    drop(input);
    undisturbed(&job.end(), &alone);
}
