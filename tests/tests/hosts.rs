//! Jobs over several hosts, which are process trees in namespaces of their own; root is needed.

use rejoin_tests::hosts::job::{Job, good, lines};
use rejoin_tests::hosts::{Cut, Hosts};
use rejoin_tests::job::Numbers;
use rejoin_tests::limits::SOON;
use rejoin_tests::processes::{all_gone, children, kill, lives, state, wait_for};
use rejoin_tests::{finish, hosts, program};
use std::io::Write;
use std::time::Duration;

/// A job whose ranks can't continue on other hosts: it waits so many seconds for a silent one.
fn without_files(hosts: &Hosts, [lease, patience]: [&str; 2]) -> Job {
    let limits = ["--host-lease", lease, "--host-patience", patience];
    Job::jacobi(hosts, &[&["--images", "none"], &limits[..]].concat())
}

/// Waits until no process of a job of `jacobi` is left on a host.
fn nothing_of_a_job(hosts: &Hosts, host: usize) {
    for name in ["jacobi", "rejoin-twin", "rejoin-local"] {
        wait_for(SOON, &format!("the end of {name}"), || {
            hosts.processes(host, name).is_empty()
        });
    }
}

#[test]
fn ranks_are_placed_and_have_streams_and_codes() {
    let hosts = hosts!(2);
    let shell = |options: &[&str], script: &str| {
        let run = hosts.mpirun(options.iter().copied().chain(["--recovery", "none"]));
        run.arg("sh").arg("-c").arg(script)
    };
    let said = |options: &[&str], script: &str| {
        let done = shell(options, script).ok();
        let mut lines: Vec<_> = done.stdout().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let who = "echo $REJOIN_RANK $(hostname) $REJOIN_LOCAL_RANK";
    let by_slot = said(&["-n", "4", "--host", "h1:2,h2:2"], who);
    assert_eq!(by_slot, ["0 h1 0", "1 h1 1", "2 h2 0", "3 h2 1"]);
    let by_node = said(&["-n", "4", "--host", "h1:2,h2:2", "--map-by", "node"], who);
    assert_eq!(by_node, ["0 h1 0", "1 h2 0", "2 h1 1", "3 h2 1"]);
    let file = hosts.folder().join("list");
    std::fs::write(&file, "h2 slots=2 # two\nh1\n").expect("a host file");
    let named = ["-n", "3", "--hostfile", file.to_str().expect("UTF-8")];
    assert_eq!(said(&named, who), ["0 h2 0", "1 h2 1", "2 h1 0"]);
    // The directory is mpirun's, the environment what was asked for.
    let where_to = "pwd; echo $COLOUR";
    let there = said(&["-n", "1", "--host", "h1", "-x", "COLOUR=blue"], where_to);
    assert_eq!(there, [hosts.folder().to_str().expect("UTF-8"), "blue"]);
    // A rank's own exit code and signal come through.
    let done = shell(
        &["-n", "2", "--host", "h1,h2"],
        "[ $REJOIN_RANK = 0 ] || exit 7",
    )
    .output();
    assert_eq!(done.output.status.code(), Some(7), "{}", done.text());
    assert!(done.last_line().contains("rank 1"), "{}", done.text());
    assert!(done.last_line().contains("h2"), "{}", done.text());
}

#[test]
fn neighbours_in_a_grid_share_a_host_if_ranks_may_change() {
    let hosts = hosts!(2);
    let on = |options: &[&str]| {
        let run = hosts.mpirun(options.iter().copied().chain(["-n", "8"]));
        run.arg(program("grid")).ok().stdout()
    };
    let told = |kept: u32, moved: u32| {
        format!("{kept} pairs of neighbours apart, {moved} with other ranks\n")
    };
    let layout = ["--host", "h1:4,h2:4"];
    assert_eq!(on(&layout), told(4, 2));
    assert_eq!(
        on(&[&layout[..], &["--map-by", "node"]].concat()),
        told(6, 2)
    );
    // Unequal numbers of ranks stay as they are.
    assert_eq!(on(&["--host", "h1:5,h2:3"]), told(4, 4));
}

#[test]
fn collectives_are_right_and_have_the_same_bits_on_any_hosts() {
    let hosts = hosts!(2);
    let ordered = |options: &[&str], order: &str| {
        let options = options.iter().copied().chain(["-n", "5"]);
        let run = hosts.mpirun(options).env("REJOIN_REDUCE_ORDER", order);
        run.arg(program("coll")).arg("bits").ok().stdout()
    };
    let on = |options: &[&str]| ordered(options, "ranks");
    let alone = on(&["--host", "h1:5"]);
    assert!(
        alone.contains("bits") && alone.contains("right on 5"),
        "{alone}"
    );
    for layout in [
        ["--host", "h1:3,h2:2"].as_slice(),
        &["--host", "h1:3,h2:2", "--map-by", "node"],
        &["--host", "h1:5", "--transport", "tcp"],
        &["--host", "h1:5", "--transport", "shm"],
        &[
            "--host",
            "h1:2,h2:3",
            "--map-by",
            "node",
            "--transport",
            "shm",
        ],
    ] {
        assert_eq!(on(layout), alone, "{layout:?}");
    }
    // Where it is asked for, the hosts show.
    let by_hosts = ordered(&["--host", "h1:3,h2:2", "--map-by", "node"], "hosts");
    assert!(by_hosts.contains("right on 5") && by_hosts != alone);
}

#[test]
fn standard_input_goes_to_a_rank_on_another_host() {
    let hosts = hosts!(2);
    let options = [
        "--recovery",
        "none",
        "--stdin",
        "1",
        "-n",
        "2",
        "--host",
        "h1,h2",
    ];
    let run = hosts.mpirun(options).arg("sh").arg("-c");
    let mut child = run.arg("[ $REJOIN_RANK = 0 ] || cksum").start_with_input();
    let text = vec![b'x'; 3_000_000];
    child
        .stdin
        .take()
        .expect("its input")
        .write_all(&text)
        .expect("writing");
    let done = finish(child, SOON, "cksum on h2");
    good(&done);
    // POSIX cksum of three million x.
    let mut local = std::process::Command::new("cksum");
    let local = local
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped());
    let mut local = local.spawn().expect("cksum");
    local
        .stdin
        .take()
        .expect("its input")
        .write_all(&text)
        .expect("writing");
    let local = local.wait_with_output().expect("cksum");
    assert_eq!(done.output.stdout, local.stdout);
}

#[test]
fn a_host_that_can_not_be_reached_is_named_with_the_command() {
    let hosts = hosts!(1);
    let done = hosts
        .mpirun(["-n", "2", "--host", "h1,h9", "true"])
        .output();
    assert_eq!(done.output.status.code(), Some(1), "{}", done.text());
    let line = done.last_line();
    assert!(
        line.contains("host h9") && line.contains("agent h9 "),
        "{line}"
    );
    assert!(line.contains("exit code 255"), "{line}");
    assert!(
        done.stderr().contains("there is no host h9"),
        "{}",
        done.text()
    );
    let done = hosts
        .mpirun(["--launch-agent", "/nowhere/x", "--host", "h1", "true"])
        .output();
    assert!(
        done.last_line().contains("can't run `/nowhere/x h1 "),
        "{}",
        done.text()
    );
    let done = hosts
        .mpirun(["--prefix", "/nowhere", "--host", "h1", "true"])
        .output();
    assert!(
        done.last_line().contains("/nowhere/bin/mpirun"),
        "{}",
        done.text()
    );
    assert!(hosts.processes(1, "rejoin-local").is_empty());
}

#[test]
fn ranks_killed_on_both_hosts_come_back_with_the_same_lines() {
    let hosts = hosts!(2);
    let undisturbed = Job::undisturbed(&hosts, &[]);
    assert_eq!(undisturbed.stdout().matches(" on h1").count(), 2);
    assert_eq!(undisturbed.stdout().matches(" on h2").count(), 2);
    let mut job = Job::jacobi(&hosts, &[]);
    job.until("committed", 2);
    let victims = [1, 2].map(|host| hosts.processes(host, "jacobi")[0]);
    victims.iter().for_each(|&pid| kill(pid, libc::SIGKILL));
    job.until("recovered", 1);
    kill(hosts.processes(2, "jacobi")[0], libc::SIGKILL);
    let done = job.end();
    good(&done);
    assert_eq!(lines(&done), lines(&undisturbed), "{}", done.text());
    assert!(done.stderr().contains("back after"), "{}", done.text());
}

#[test]
fn lines_are_shown_once_over_hosts_although_others_differ() {
    const STEPS: usize = 600;
    let hosts = hosts!(2);
    let gate = Job::gate(&hosts);
    let mut job = Job::start(&hosts, &[], |run| {
        let run = run.arg(program("divergent"));
        run.arg(STEPS.to_string()).arg(gate).arg("50")
    });
    for (killed, host) in [(1, 2), (2, 1)] {
        let before = job.events("committed");
        job.until("committed", before + 1);
        kill(hosts.processes(host, "divergent")[0], libc::SIGKILL);
        job.until("recovered", killed);
    }
    let done = job.end();
    good(&done);
    let text = done.stdout();
    for rank in 0..4 {
        for step in 0..STEPS {
            let line = format!(" {rank} step {step} ");
            let shown = text.lines().filter(|shown| shown.contains(&line)).count();
            // The clock tells another number in a repeated run.
            let most = if step % 50 == 0 { 3 } else { 1 };
            assert!((1..=most).contains(&shown), "{line}: {shown}\n{text}");
        }
    }
}

/// Ends of links over shared memory in an undisturbed `jacobi`: two ranks on each of two hosts.
const RINGS: u64 = 4;

#[test]
fn shared_memory_goes_on_while_links_between_hosts_are_cut() {
    let hosts = hosts!(2);
    let undisturbed = Job::undisturbed(&hosts, &["--stats"]);
    assert_eq!(undisturbed.counted("rings_made"), RINGS);
    assert!(undisturbed.counted("links_made") > RINGS);
    let mut job = Job::jacobi(&hosts, &["--stats", "--host-lease", "20"]);
    for number in 1..=6 {
        job.until("committed", job.events("committed") + 1);
        hosts.reset(1 + number % 2);
    }
    let recovered = job.events("recovered");
    let done = job.end();
    good(&done);
    assert_eq!(lines(&done), lines(&undisturbed), "{}", done.text());
    assert_eq!(recovered, 0, "{}", done.text());
    let (lost, rings) = (done.counted("links_lost"), done.counted("rings_made"));
    assert!(lost > 2 && rings == RINGS, "{}", done.text());
}

#[test]
fn ranks_that_share_memory_and_talk_to_another_host_are_killed_again_and_again() {
    let hosts = hosts!(2);
    let undisturbed = Job::undisturbed(&hosts, &[]);
    for seed in 1..=2 {
        let mut numbers = Numbers(seed);
        let mut job = Job::jacobi(&hosts, &["--stats", "--max-restarts", "1000"]);
        job.until("committed", 1);
        for back in 1..=5 {
            // Between checkpoints, in them, and in what comes after a recovery.
            std::thread::sleep(Duration::from_micros(numbers.below(60_000)));
            let mut ranks = hosts.processes(1, "jacobi");
            ranks.extend(hosts.processes(2, "jacobi"));
            // Those that are suspended, or end, have been replaced.
            ranks.retain(|&pid| lives(pid));
            for _ in 0..=numbers.below(2) {
                let victim = numbers.below(ranks.len() as u64) as usize;
                kill(ranks.swap_remove(victim), libc::SIGKILL);
            }
            job.until("recovered", back);
        }
        let done = job.end();
        good(&done);
        let same = lines(&done) == lines(&undisturbed);
        assert!(same, "seed {seed}: {}", done.text());
        // Counters roll back with the ranks.
        let rings = done.counted("rings_made");
        assert!(rings >= RINGS, "seed {seed}: {}", done.text());
    }
}

#[test]
fn ranks_end_with_their_local_manager() {
    let hosts = hosts!(2);
    // With files, the ranks would come back on the other host.
    let mut job = Job::jacobi(&hosts, &["--images", "none"]);
    job.until("committed", 1);
    let manager = hosts.processes(2, "rejoin-local");
    assert_eq!(manager.len(), 1);
    let mut all = hosts.processes(2, "jacobi");
    all.extend(hosts.processes(2, "rejoin-twin"));
    assert!(all.len() >= 4, "{all:?}");
    kill(manager[0], libc::SIGKILL);
    all_gone(&all, SOON);
    let done = job.end();
    assert_eq!(done.output.status.code(), Some(1), "{}", done.text());
    let line = done.last_line();
    assert!(
        line.contains("host h2") && line.contains("its local manager ended"),
        "{line}"
    );
    nothing_of_a_job(&hosts, 1);
}

#[test]
fn ranks_of_a_host_that_is_cut_off_are_suspended_and_go_on() {
    let hosts = hosts!(2);
    let undisturbed = Job::undisturbed(&hosts, &[]);
    for how in [Cut::Both, Cut::Out, Cut::In] {
        let mut job = without_files(&hosts, ["1", "60"]);
        job.until("committed", 1);
        hosts.cut(2, how);
        job.until("host-silent", 1);
        let ranks = hosts.processes(2, "jacobi");
        assert_eq!(ranks.len(), 2, "{how:?}");
        // By then, not sometime.
        assert!(ranks.iter().all(|&pid| state(pid) == 'T'), "{how:?}");
        hosts.heal();
        job.until("host-heard", 1);
        let done = job.end();
        good(&done);
        assert_eq!(lines(&done), lines(&undisturbed), "{how:?} {}", done.text());
        let said = done.stderr();
        assert!(said.contains("host h2 is silent"), "{said}");
        assert!(said.contains("host h2 is reachable again"), "{said}");
    }
}

#[test]
fn a_short_cut_and_reset_connections_are_not_noticed() {
    let hosts = hosts!(2);
    let undisturbed = Job::undisturbed(&hosts, &[]);
    let mut job = Job::jacobi(&hosts, &["--host-lease", "20"]);
    job.until("committed", 1);
    hosts.reset(2);
    job.until("committed", job.events("committed") + 1);
    hosts.cut(1, Cut::Both);
    // How long it is cut is what is tried.
    std::thread::sleep(Duration::from_millis(700));
    hosts.heal();
    hosts.reset(1);
    let silent = job.events("host-silent") + job.events("recovered");
    let done = job.end();
    good(&done);
    assert_eq!(
        (silent, lines(&done)),
        (0, lines(&undisturbed)),
        "{}",
        done.text()
    );
}

#[test]
fn a_firewall_that_refuses_connections_ends_no_host() {
    let hosts = hosts!(2);
    let undisturbed = Job::undisturbed(&hosts, &[]);
    let mut job = Job::jacobi(&hosts, &["--host-lease", "20"]);
    job.until("committed", 1);
    hosts.refuse(2);
    // For how long is what is tried.
    std::thread::sleep(Duration::from_secs(4));
    hosts.admit(2);
    let done = job.end();
    good(&done);
    assert_eq!(lines(&done), lines(&undisturbed), "{}", done.text());
}

#[test]
fn a_hang_up_of_the_agents_terminal_ends_no_host() {
    let hosts = hosts!(2);
    let undisturbed = Job::undisturbed(&hosts, &[]);
    let mut job = Job::jacobi(&hosts, &[]);
    job.until("committed", 1);
    let agents = hosts.processes(2, "rejoin-agent");
    assert_eq!(agents.len(), 1);
    kill(agents[0], libc::SIGHUP);
    let done = job.end();
    good(&done);
    assert_eq!(lines(&done), lines(&undisturbed), "{}", done.text());
}

#[test]
fn what_runs_elsewhere_ends_when_mpirun_does() {
    let hosts = hosts!(2);
    let options = ["--host-lease", "1", "--host-patience", "2"];
    let mut job = Job::jacobi(&hosts, &options);
    job.until("committed", 1);
    let mut all = Vec::new();
    for host in [1, 2] {
        for name in ["jacobi", "rejoin-twin", "rejoin-local", "rejoin-agent"] {
            let found = hosts.processes(host, name);
            assert!(!found.is_empty(), "{name}");
            all.extend(found);
        }
    }
    kill(job.child.id(), libc::SIGKILL);
    all_gone(&all, SOON);
    job.child.wait().expect("its end");
}

#[test]
fn hosts_are_not_blamed_for_a_standstill_of_mpirun() {
    let hosts = hosts!(2);
    let undisturbed = Job::undisturbed(&hosts, &[]);
    // A manager that is late for a moment is not silent.
    let mut job = without_files(&hosts, ["5", "5"]);
    job.until("committed", 1);
    let mpirun = job.child.id();
    let central = children(mpirun).into_iter().find(|pid| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| name.trim_end() == "rejoin-central")
    });
    let central = central.expect("a central manager");
    [central, mpirun]
        .iter()
        .for_each(|&pid| kill(pid, libc::SIGSTOP));
    // For how long is what is tried: longer than lease and patience together.
    std::thread::sleep(Duration::from_secs(12));
    kill(central, libc::SIGCONT);
    // It reads its clock before it can receive a message.
    wait_for(SOON, "a central manager that sleeps", || {
        state(central) == 'S'
    });
    kill(mpirun, libc::SIGCONT);
    let done = job.end();
    good(&done);
    assert_eq!(lines(&done), lines(&undisturbed), "{}", done.text());
    let said = done.stderr();
    assert!(!said.contains("is silent"), "{said}");
}

#[test]
fn a_frozen_host_is_found_silent_and_goes_on_when_it_thaws() {
    let hosts = hosts!(2);
    let undisturbed = Job::undisturbed(&hosts, &[]);
    let mut job = without_files(&hosts, ["1", "60"]);
    job.until("committed", 1);
    if !hosts.freeze(2) {
        let _ = job.end();
        return;
    }
    job.until("host-silent", 1);
    hosts.thaw(2);
    job.until("host-heard", 1);
    let done = job.end();
    good(&done);
    assert_eq!(lines(&done), lines(&undisturbed), "{}", done.text());
}

#[test]
fn a_host_without_power_ends_the_job_and_is_named() {
    let mut hosts = hosts!(2);
    let mut job = without_files(&hosts, ["1", "2"]);
    job.until("committed", 1);
    hosts.kill(2);
    let done = job.end();
    assert_eq!(done.output.status.code(), Some(1), "{}", done.text());
    let line = done.last_line();
    assert!(
        line.contains("host h2 is lost") && line.contains("silent"),
        "{line}"
    );
    nothing_of_a_job(&hosts, 1);
}
