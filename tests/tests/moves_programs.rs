//! Ranks of all kinds of programs move at seeded moments, forth and back: nothing rolls back, and
//! the answer is the same. Root is needed, as in `hosts`. `REJOIN_MOVES_SEED` takes other moments
//! (1 by default), and `REJOIN_MOVES` more moves of each program.

use rejoin_tests::hosts::Hosts;
use rejoin_tests::hosts::job::{Job, good, lines};
use rejoin_tests::job::{Numbers, times_back};
use rejoin_tests::processes::is_alive;
use rejoin_tests::{Finished, Run, hosts, program, torment::number};

/// Moves of each program, at least: with 24 programs, more than 200.
const MOVES: u64 = 9;

/// A program whose ranks move.
struct Case {
    name: &'static str,
    args: &'static [&'static str],
    /// How many ranks it has.
    ranks: &'static str,
    /// It runs until there is a file, whose path is its last argument. Others are run until
    /// their ranks have moved often enough.
    is_gated: bool,
    /// The order of a rank's lines is the same in every run.
    ordered: bool,
}

const fn ending(name: &'static str, args: &'static [&'static str]) -> Case {
    Case {
        name,
        args,
        ranks: "4",
        is_gated: false,
        ordered: true,
    }
}

const fn gated(name: &'static str, args: &'static [&'static str]) -> Case {
    Case {
        is_gated: true,
        ..ending(name, args)
    }
}

/// Two ranks on two hosts.
const fn of_two(case: Case) -> Case {
    Case { ranks: "2", ..case }
}

/// The lines of threads come in any order.
const fn threaded(case: Case) -> Case {
    Case {
        ordered: false,
        ..case
    }
}

impl Case {
    fn start(&self, hosts: &Hosts, options: &[&str]) -> Job {
        let mut all = vec!["-n", self.ranks];
        if self.ranks == "2" {
            all.extend(["--host", "h1:1,h2:1"]);
        }
        all.extend(options);
        Job::start(hosts, &all, |run| {
            let run = self.args.iter().fold(run.arg(program(self.name)), Run::arg);
            match self.is_gated {
                true => run.arg(Job::gate(hosts)),
                false => run,
            }
        })
    }

    fn lines(&self, done: &Finished) -> Vec<String> {
        let mut lines = lines(done);
        if !self.ordered {
            lines.sort();
        }
        lines
    }
}

/// Runs a program until its ranks have moved so often.
fn moves(hosts: &Hosts, case: &Case, least: u64, seed: u64) {
    let alone = case.start(hosts, &[]).end();
    good(&alone);
    let mut numbers = Numbers(seed);
    let (mut moved, mut jobs) = (0, 0);
    println!("{} with seed {seed}", case.name);
    while moved < least {
        let mut job = case.start(hosts, &["--spare", "h3"]);
        // A job may end before anybody has looked.
        if case.is_gated {
            job.until("committed", 1);
        }
        let pid = job.child.id();
        while is_alive(pid) && moved < least {
            let rank = numbers.below(case.ranks.parse().expect("a number"));
            let rank = rank.to_string();
            let to = format!("h{}", 1 + numbers.below(3));
            // It fails when the job ends, or has not begun.
            let output = hosts.rejoin(&["migrate", &rank, "--to", &to]);
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let wrong = String::from_utf8_lossy(&output.stderr);
            if case.is_gated && !output.status.success() {
                job.has_not_reached(&format!("a move of {}: {said}{wrong}", case.name));
            }
            moved += u64::from(said.contains("has moved"));
        }
        let done = job.end();
        good(&done);
        assert_eq!(case.lines(&done), case.lines(&alone), "{}", done.text());
        assert_eq!(times_back(&done.stderr()), 0, "{}", done.text());
        jobs += 1;
    }
    println!("{}: {moved} moves in {jobs} jobs", case.name);
}

fn all_move(cases: &[Case]) {
    let hosts = hosts!(3);
    let first = number("REJOIN_MOVES_SEED", 1);
    let least = number("REJOIN_MOVES", MOVES);
    for (seed, case) in (first..).zip(cases) {
        moves(&hosts, case, least, seed);
    }
}

#[test]
fn ranks_move_that_exchange_messages() {
    all_move(&[
        ending("jacobi", &["512", "2500"]),
        ending("sort", &["50000", "60"]),
        ending("persistent", &["20000", "600"]),
        ending("storm", &["7", "200"]),
        gated("p2p", &[]),
        gated("rounds", &[]),
        of_two(ending("giants", &["8", "150", "both"])),
    ]);
}

#[test]
fn ranks_move_whose_messages_come_from_anywhere() {
    all_move(&[ending("master", &["2000", "200000"])]);
}

#[test]
fn ranks_move_in_collectives() {
    all_move(&[
        ending("cg", &["256", "1500"]),
        gated("coll", &["until"]),
        gated("transpose", &[]),
    ]);
}

#[test]
fn ranks_move_with_their_communicators_and_datatypes() {
    all_move(&[
        ending("derived", &["128", "400"]),
        gated("comms", &[]),
        gated("types", &[]),
    ]);
}

#[test]
fn ranks_move_whose_memory_comes_and_goes() {
    all_move(&[
        ending("remaps", &["4000"]),
        ending("rewrite", &["16", "12"]),
        gated("regions", &["60", "-1", "10000"]),
    ]);
}

#[test]
fn ranks_move_with_their_threads() {
    all_move(&[
        threaded(ending("pool", &["2000"])),
        threaded(ending("talkers", &["1500"])),
        threaded(ending("shortlived", &["400"])),
        gated("threads", &[]),
        gated("held", &["100"]),
        gated("ticking", &["100"]),
        threaded(gated("openmp", &["256", "200"])),
    ]);
}
