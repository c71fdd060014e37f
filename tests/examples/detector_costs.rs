//! What detectors cost, how soon they notice a lost host, and whether load deceives them, over
//! several hosts of one machine.
//!
//! ```sh
//! REJOIN_PREFIX=… cargo run -p rejoin-tests --example detector_costs -- ROUNDS [HPCC]
//! ```
//!
//! `HPCC` is the program of HPC Challenge with its `hpccinf.txt` beside it. `cg`, `sort` and `HPCC`
//! run with as many ranks as the machine has cores and with one less, the first two also with 8
//! ranks; each rank has a host of its own. Prints a line per run:
//!
//! - `cost`, program, hosts, setting, seconds, processor seconds of all processes of the hosts;
//! - `notice`, setting, seconds from the loss of a host to the first event about it, and to the
//!   event that its ranks are replaced;
//! - `alarm`, setting, seconds under load, events about hosts that were all well.
//!
//! All settings run in turns, and each round begins with another one.

use rejoin_tests::hosts::Hosts;
use rejoin_tests::hosts::job::Job;
use rejoin_tests::spinner::Spinner;
use rejoin_tests::{finish, program};
use std::path::Path;
use std::time::{Duration, Instant};

/// Limit of a run.
const LIMIT: Duration = Duration::from_secs(120);

/// How long each setting runs under load.
const LOADED: Duration = Duration::from_secs(8);

/// A detector and its times.
#[derive(Clone, Copy)]
struct Setting {
    name: &'static str,
    options: &'static [&'static str],
}

const fn setting(name: &'static str, options: &'static [&'static str]) -> Setting {
    Setting { name, options }
}

/// The renewals of `star` are its probes: five per lease, which lasts for a second at least.
const COSTS: [Setting; 10] = [
    setting("star 0.2", &["--detector", "star", "--host-lease", "1"]),
    setting("star 1", &["--detector", "star", "--host-lease", "5"]),
    setting("star 10", &["--detector", "star", "--host-lease", "50"]),
    setting(
        "ring 0.1",
        &["--detector", "ring", "--probe-interval", "0.1"],
    ),
    setting("ring 1", &["--detector", "ring", "--probe-interval", "1"]),
    setting("ring 10", &["--detector", "ring", "--probe-interval", "10"]),
    setting(
        "sporadic 0.1",
        &["--detector", "sporadic", "--probe-interval", "0.1"],
    ),
    setting(
        "sporadic 1",
        &["--detector", "sporadic", "--probe-interval", "1"],
    ),
    setting(
        "sporadic 10",
        &["--detector", "sporadic", "--probe-interval", "10"],
    ),
    setting("none", &["--detector", "none"]),
];

/// Two settings that notice lost hosts, and may raise alarms.
const STARS: [Setting; 2] = [
    setting(
        "star, lease 1",
        &["--detector", "star", "--host-lease", "1"],
    ),
    setting(
        "star, lease 5",
        &["--detector", "star", "--host-lease", "5"],
    ),
];

const NOTICES: [Setting; 6] = [
    STARS[0],
    STARS[1],
    setting(
        "ring 0.1, timeout 0.3, lease 5",
        &[
            "--detector",
            "ring",
            "--probe-interval",
            "0.1",
            "--probe-timeout",
            "0.3",
        ],
    ),
    setting("ring 1, timeout 1, lease 5", &["--detector", "ring"]),
    setting(
        "sporadic 1, timeout 1, lease 5",
        &["--detector", "sporadic"],
    ),
    setting(
        "none, patience 10",
        &["--detector", "none", "--host-patience", "10"],
    ),
];

const LOADS: [Setting; 5] = [
    STARS[0],
    STARS[1],
    setting(
        "ring 0.1, timeout 0.1",
        &[
            "--detector",
            "ring",
            "--probe-interval",
            "0.1",
            "--probe-timeout",
            "0.1",
        ],
    ),
    setting(
        "ring 0.1, timeout 1",
        &["--detector", "ring", "--probe-interval", "0.1"],
    ),
    setting(
        "sporadic 0.1, timeout 1",
        &["--detector", "sporadic", "--probe-interval", "0.1"],
    ),
];

/// Events about hosts.
const EVENTS: [&str; 3] = ["host-suspected", "host-silent", "host-link-lost"];

/// The indices of so many settings, from another one in each round.
fn turns(count: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |at| (at + round) % count)
}

fn layout(hosts: usize) -> String {
    let names: Vec<String> = (1..=hosts).map(|host| format!("h{host}")).collect();
    names.join(",")
}

fn cost(hosts: &Hosts, used: usize, words: &[&str], setting: &Setting) {
    let (layout, ranks) = (layout(used), used.to_string());
    let options = [
        "--recovery",
        "none",
        "--spin",
        "0",
        "--host",
        &layout,
        "-n",
        &ranks,
    ];
    let (cpu, begun) = (hosts.processor_time(), Instant::now());
    let run = hosts.mpirun(options.iter().chain(setting.options));
    let done = words
        .iter()
        .fold(run, |run, word| run.arg(word))
        .limit(LIMIT);
    done.ok();
    let wall = begun.elapsed().as_secs_f64();
    let cpu = (hosts.processor_time() - cpu).as_secs_f64();
    let name = Path::new(words[0]).file_name().expect("a program");
    println!(
        "cost\t{}\t{used}\t{}\t{wall:.4}\t{cpu:.4}",
        name.display(),
        setting.name
    );
}

/// The input of HPC Challenge for so many ranks, in one row.
fn hpcc_input(text: &str, ranks: usize) -> String {
    let line = |(number, line): (usize, &str)| match number {
        11 => "1            Ps\n".to_owned(),
        12 => format!("{ranks}            Qs\n"),
        _ => format!("{line}\n"),
    };
    (1..).zip(text.lines()).map(line).collect()
}

fn costs(rounds: usize, hpcc: Option<&str>) {
    /// More than most machines have cores.
    const MANY: usize = 8;
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let hosts = Hosts::up(MANY.max(cores)).expect("hosts");
    let (cg, sort) = (program("cg"), program("sort"));
    let (cg, sort) = (cg.to_str().expect("UTF-8"), sort.to_str().expect("UTF-8"));
    // As many ranks as cores, and one less.
    let few = [cores.saturating_sub(1).max(1), cores];
    let mut cases: Vec<(usize, Vec<&str>)> = Vec::new();
    cases.extend(few.map(|used| (used, vec![cg, "400", "1500"])));
    cases.push((MANY, vec![cg, "400", "600"]));
    cases.extend(few.map(|used| (used, vec![sort, "40000", "60"])));
    cases.push((MANY, vec![sort, "10000", "40"]));
    let input = hpcc.map(|hpcc| {
        cases.extend(few.map(|used| (used, vec![hpcc])));
        let input = Path::new(hpcc).with_file_name("hpccinf.txt");
        std::fs::read_to_string(input).expect("hpccinf.txt")
    });
    for round in 0..rounds {
        for (used, words) in &cases {
            if let Some(input) = &input {
                let file = hosts.folder().join("hpccinf.txt");
                std::fs::write(file, hpcc_input(input, *used)).expect("hpccinf.txt");
            }
            turns(COSTS.len(), round).for_each(|at| cost(&hosts, *used, words, &COSTS[at]));
        }
    }
}

/// Loses a host of three, of which one has no ranks at first.
fn notice(setting: &Setting) {
    let mut hosts = Hosts::up(3).expect("hosts");
    let options = [setting.options, &["--spare", "h3"]].concat();
    let mut job = Job::jacobi(&hosts, &options);
    job.until_in_files(2);
    let begun = Instant::now();
    hosts.kill(2);
    let mut first = None;
    while job.events("host-replaced") == 0 {
        if first.is_none() && EVENTS.iter().any(|event| job.events(event) > 0) {
            first = Some(begun.elapsed());
        }
        assert!(
            begun.elapsed() < LIMIT,
            "{}: nothing is noticed",
            setting.name
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    let replaced = begun.elapsed();
    let first = first.unwrap_or(replaced);
    job.end();
    let (first, replaced) = (first.as_secs_f64(), replaced.as_secs_f64());
    println!("notice\t{}\t{first:.3}\t{replaced:.3}", setting.name);
}

/// Runs with twice as many other processes as cores that all compute.
fn alarm(setting: &Setting) {
    let hosts = Hosts::up(4).expect("hosts");
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let spinners: Vec<Spinner> = (0..2 * cores).map(|_| Spinner::start()).collect();
    let options = [setting.options, &["--host", "h1,h2,h3,h4"]].concat();
    let mut job = Job::jacobi(&hosts, &options);
    job.until("committed", 1);
    std::thread::sleep(LOADED);
    let alarms: usize = EVENTS.iter().map(|event| job.events(event)).sum();
    std::fs::write(Job::gate(&hosts), "").expect("the gate");
    spinners.into_iter().for_each(|spinner| _ = spinner.stop());
    finish(job.child, LIMIT, "a job under load");
    println!("alarm\t{}\t{}\t{alarms}", setting.name, LOADED.as_secs());
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let rounds = args.first().and_then(|rounds| rounds.parse().ok());
    let rounds: usize = rounds.expect("see the head of tests/examples/detector_costs.rs");
    costs(rounds, args.get(1).map(String::as_str));
    for round in 0..rounds {
        turns(NOTICES.len(), round).for_each(|at| notice(&NOTICES[at]));
    }
    for round in 0..rounds {
        turns(LOADS.len(), round).for_each(|at| alarm(&LOADS[at]));
    }
}
