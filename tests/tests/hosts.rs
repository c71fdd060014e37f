//! Jobs over several hosts, which are process trees in namespaces of their own; root is needed.

use rejoin_tests::hosts::{Cut, Hosts};
use rejoin_tests::job::Numbers;
use rejoin_tests::processes::{all_gone, children, kill, lives, wait_for};
use rejoin_tests::{Finished, Run, finish, program};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

/// What is only waited for, never for how long.
const SOON: Duration = Duration::from_secs(30);

/// For how long a host looks for mpirun when nothing else is said (`--host-patience`).
const PATIENCE: Duration = Duration::from_secs(30);

/// What every test begins with: hosts, or the end where there can be none.
macro_rules! hosts {
    ($count:expr) => {
        match Hosts::up($count) {
            Some(hosts) => hosts,
            None => return,
        }
    };
}

/// 2000 steps, as fast as they go.
fn jacobi(run: Run) -> Run {
    run.arg(program("jacobi")).arg("512").arg("2000")
}

/// A job under way over hosts.
struct Job {
    child: Child,
    events: PathBuf,
    gate: PathBuf,
}

impl Job {
    /// `jacobi` with two ranks on each of two hosts, for a second or more, and not before it may end.
    fn jacobi(hosts: &Hosts, options: &[&str]) -> Job {
        let gate = Job::gate(hosts);
        Job::start(hosts, options, |run| jacobi(run).arg("500").arg(gate))
    }

    fn gate(hosts: &Hosts) -> PathBuf {
        hosts.folder().join("gate")
    }

    /// The same as fast as it goes, for its output.
    fn undisturbed(hosts: &Hosts, options: &[&str]) -> Finished {
        let done = Job::start(hosts, options, jacobi).end();
        good(&done);
        done
    }

    fn start(hosts: &Hosts, options: &[&str], program: impl FnOnce(Run) -> Run) -> Job {
        Job::start_as(hosts, options, |run| program(run).start())
    }

    fn start_as(hosts: &Hosts, options: &[&str], start: impl FnOnce(Run) -> Child) -> Job {
        let events = hosts.folder().join("events");
        let gate = Job::gate(hosts);
        for left in [&events, &gate] {
            let _ = std::fs::remove_file(left);
        }
        let file = events.to_str().expect("a path in UTF-8");
        let mut all = vec!["--tag-output", "--events", file, "--host", "h1:2,h2:2"];
        all.extend(["-n", "4", "--checkpoint-interval", "0.1", "--spin", "0"]);
        all.extend(options);
        let child = start(hosts.mpirun(all));
        Job {
            child,
            events,
            gate,
        }
    }

    fn events(&self, kind: &str) -> usize {
        let text = std::fs::read_to_string(&self.events).unwrap_or_default();
        let wanted = format!("\"event\":\"{kind}\"");
        text.lines()
            .filter(|l| l.replace(": ", ":").contains(&wanted))
            .count()
    }

    /// Waits until something has happened so many times.
    fn until(&self, kind: &str, count: usize) {
        let what = format!("{kind} {count} times");
        wait_for(SOON, &what, || {
            let ended = state(self.child.id()) == 'Z';
            let enough = self.events(kind) >= count;
            assert!(enough || !ended, "the job ended before it {what}");
            enough
        });
    }

    /// From here on it may end.
    fn end(self) -> Finished {
        std::fs::write(&self.gate, "").expect("the gate");
        finish(self.child, Duration::from_secs(60), "a job over hosts")
    }
}

/// The lines of each rank in their order, without the host's name.
fn lines(done: &Finished) -> Vec<String> {
    let mut lines: Vec<String> = done.stdout().lines().map(str::to_owned).collect();
    lines.sort_by_key(|line| line.split('>').next().unwrap_or("").to_owned());
    lines
}

fn good(done: &Finished) {
    assert!(done.output.status.success(), "{}", done.text());
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
    let job = Job::jacobi(&hosts, &[]);
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

/// Ends of links over shared memory that `jacobi` has where nobody is lost: two ranks on each of two hosts.
const RINGS: u64 = 4;

#[test]
fn shared_memory_goes_on_while_links_between_hosts_are_cut() {
    let hosts = hosts!(2);
    let undisturbed = Job::undisturbed(&hosts, &["--stats"]);
    assert_eq!(undisturbed.counted("rings_made"), RINGS);
    assert!(undisturbed.counted("links_made") > RINGS);
    let job = Job::jacobi(&hosts, &["--stats", "--host-lease", "20"]);
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
        let job = Job::jacobi(&hosts, &["--stats", "--max-restarts", "1000"]);
        job.until("committed", 1);
        for back in 1..=5 {
            // Between checkpoints, in them, and in what comes after a recovery.
            std::thread::sleep(Duration::from_micros(numbers.below(60_000)));
            let mut ranks = hosts.processes(1, "jacobi");
            ranks.extend(hosts.processes(2, "jacobi"));
            // Those that stand still, or end, have been replaced.
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
        // What is counted goes back with the ranks.
        let rings = done.counted("rings_made");
        assert!(rings >= RINGS, "seed {seed}: {}", done.text());
    }
}

#[test]
fn ranks_end_with_their_local_manager() {
    let hosts = hosts!(2);
    let job = Job::jacobi(&hosts, &[]);
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

/// The state of a process, as in proc_pid_stat(5).
fn state(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    after.chars().next().unwrap_or('X')
}

#[test]
fn ranks_of_a_host_that_is_cut_off_stand_still_and_go_on() {
    let hosts = hosts!(2);
    let undisturbed = Job::undisturbed(&hosts, &[]);
    for how in [Cut::Both, Cut::Out, Cut::In] {
        let job = Job::jacobi(&hosts, &["--host-lease", "1", "--host-patience", "60"]);
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
        assert!(said.contains("host h2 is there again"), "{said}");
    }
}

#[test]
fn a_short_cut_and_reset_connections_are_not_noticed() {
    let hosts = hosts!(2);
    let undisturbed = Job::undisturbed(&hosts, &[]);
    let job = Job::jacobi(&hosts, &["--host-lease", "20"]);
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
    let job = Job::jacobi(&hosts, &["--host-lease", "20"]);
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
    let job = Job::jacobi(&hosts, &[]);
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
    let job = Job::jacobi(&hosts, &["--host-lease", "1", "--host-patience", "2"]);
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
    // For how long is what is tried.
    std::thread::sleep(Duration::from_secs(4));
    kill(central, libc::SIGCONT);
    // It looks at its clock before it can hear of anybody.
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
    let job = Job::jacobi(&hosts, &["--host-lease", "1", "--host-patience", "60"]);
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
    let job = Job::jacobi(&hosts, &["--host-lease", "1", "--host-patience", "2"]);
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

/// `beside` until it may end, which keeps its state in a folder and writes down who acts in a file.
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

    fn start(&self, hosts: &Hosts) -> Job {
        let images = self.images.to_str().expect("UTF-8");
        let options = ["--images", images, "--spare", "h3", "--host-lease", "1"];
        let gate = Job::gate(hosts);
        let run = |run: Run| {
            run.arg(program("beside"))
                .arg(&self.acts)
                .arg(Beside::STEPS)
                .arg(gate)
        };
        Job::start(hosts, &options, run)
    }

    /// One that talks, is given something to read, and shows only what stays.
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
    fn stored(&self) {
        let has =
            |rank: usize, path: &Path| path.to_string_lossy().contains(&format!("rank-{rank:06}"));
        wait_for(SOON, "stored state of all ranks", || {
            let entries = std::fs::read_dir(&self.images).expect("the folder");
            let all: Vec<_> = entries.map(|e| e.expect("an entry").path()).collect();
            (0..4).all(|rank| all.iter().filter(|path| has(rank, path)).count() > 1)
        });
    }

    /// When each rank acted on a host, from the first to the last time.
    fn acts(&self, host: &str) -> Vec<Option<(u64, u64)>> {
        let text = std::fs::read_to_string(&self.acts).unwrap_or_default();
        let mut found = vec![None; 4];
        // The last one may be seen in the middle of its writing.
        let lines = text.split_inclusive('\n');
        for line in lines.filter_map(|line| line.strip_suffix('\n')) {
            let words: Vec<_> = line.split(' ').collect();
            let [time, rank, at] = words[..] else {
                panic!("a torn line: {line}");
            };
            if at == host {
                let time: u64 = time.parse().expect("a time");
                let rank: usize = rank.parse().expect("a rank");
                let (first, last) = found[rank].unwrap_or((time, time));
                found[rank] = Some((first.min(time), last.max(time)));
            }
        }
        found
    }
}

#[test]
fn a_job_that_stored_its_state_goes_on_elsewhere_without_a_host() {
    let mut hosts = hosts!(3);
    let calm = Beside::new(&hosts, "calm");
    let undisturbed = calm.start(&hosts).end();
    good(&undisturbed);
    let beside = Beside::new(&hosts, "power");
    let job = beside.start(&hosts);
    beside.stored();
    hosts.kill(2);
    let done = job.end();
    good(&done);
    assert_eq!(lines(&done), lines(&undisturbed), "{}", done.text());
    assert!(done.stderr().contains("host h2 is lost"), "{}", done.text());
    let there = beside.acts("h3");
    assert!(there[0].is_none() && there[2].is_some() && there[3].is_some());
}

#[test]
fn what_was_shown_stays_when_a_job_goes_on_elsewhere() {
    let mut hosts = hosts!(3);
    let calm = Beside::new(&hosts, "calm");
    let undisturbed = calm.start_talking(&hosts, "1").end();
    good(&undisturbed);
    let text = undisturbed.stdout();
    assert!(text.contains(", 100000 bytes read"), "{text}");
    let beside = Beside::new(&hosts, "talk");
    let job = beside.start_talking(&hosts, "1");
    beside.stored();
    // In the middle of its work, wherever that is.
    job.until("committed", 20);
    hosts.kill(2);
    let done = job.end();
    good(&done);
    assert!(
        done.stderr().contains("goes on elsewhere"),
        "{}",
        done.text()
    );
    assert_eq!(lines(&done), lines(&undisturbed), "{}", done.stderr());
}

#[test]
fn a_job_that_waits_to_go_on_elsewhere_can_be_ended() {
    let hosts = hosts!(3);
    ended_before_it_goes_on(&hosts, "waits", |job, lost| {
        let all = hosts.processes(1, "rejoin-local");
        kill(lost, libc::SIGKILL);
        all_gone(&all, SOON);
        kill(job, libc::SIGTERM);
    });
}

#[test]
fn a_job_that_has_lost_a_host_can_be_ended_while_the_others_end() {
    let hosts = hosts!(3);
    ended_before_it_goes_on(&hosts, "ends", |job, lost| {
        // It does not hear that it is to end.
        let other = hosts.processes(1, "rejoin-local")[0];
        kill(other, libc::SIGSTOP);
        let before = children(job).len();
        kill(lost, libc::SIGKILL);
        wait_for(SOON, "the lost host's launch agent", || {
            children(job).len() < before
        });
        kill(job, libc::SIGTERM);
        kill(other, libc::SIGCONT);
    });
}

/// A job that would go on elsewhere without the manager `lost` is ended with SIGTERM.
fn ended_before_it_goes_on(hosts: &Hosts, name: &str, end: impl FnOnce(u32, u32)) {
    let beside = Beside::new(hosts, name);
    // The lease of the lost host is waited for.
    let job = beside.start_talking(hosts, "20");
    beside.stored();
    job.until("committed", 20);
    end(job.child.id(), hosts.processes(2, "rejoin-local")[0]);
    let done = job.end();
    // Without the signal it would have gone on, so that is what ended it.
    assert_eq!(done.output.status.code(), Some(143), "{}", done.text());
    assert!(
        !done.stderr().contains("goes on elsewhere"),
        "{}",
        done.text()
    );
    // Nobody writes it again, so it is shown.
    let text = done.stdout();
    let told = |rank: usize| text.matches(&format!(" of rank {rank}\n")).count();
    assert!((0..4).all(|rank| told(rank) >= 3), "{text}");
}

#[test]
fn no_rank_of_a_cut_off_host_acts_beside_its_successor() {
    let hosts = hosts!(3);
    let beside = Beside::new(&hosts, "cut");
    let job = beside.start(&hosts);
    beside.stored();
    hosts.cut(2, Cut::Both);
    job.until("relaunched", 1);
    wait_for(SOON, "successors that act", || {
        beside.acts("h3").iter().flatten().count() == 2
    });
    let left = hosts.processes(2, "beside");
    assert_eq!(left.len(), 2, "they stand still, and were not killed");
    hosts.heal();
    // Those who come back find that nobody wants them, or, when the job has ended by then, nobody at all.
    all_gone(&left, PATIENCE + SOON);
    let done = job.end();
    good(&done);
    let (before, after) = (beside.acts("h2"), beside.acts("h3"));
    for rank in [2, 3] {
        let (_, last) = before[rank].expect("acts on h2");
        let (first, _) = after[rank].expect("acts on h3");
        assert!(
            last < first,
            "rank {rank} acted on h2 until {last}, on h3 from {first}"
        );
    }
}
