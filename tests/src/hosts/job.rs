//! Jobs of `mpirun` over such hosts. Tests wait for their events.

use super::Hosts;
use crate::job::happened;
use crate::limits::{LIMIT, SOON};
use crate::processes::{children, kill, state};
use crate::{Finished, Run, answers, finish, program};
use serde_json::Value;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

/// Every test begins with this: it boots hosts, or ends the test where there can be none.
#[macro_export]
macro_rules! hosts {
    ($count:expr) => {
        match $crate::hosts::Hosts::up($count) {
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
pub struct Job {
    /// `mpirun`.
    pub child: Child,
    events: PathBuf,
    gate: PathBuf,
}

impl Job {
    /// `jacobi` with two ranks on each of two hosts, for a second or more. It waits for the
    /// permission to end.
    pub fn jacobi(hosts: &Hosts, options: &[&str]) -> Job {
        Job::jacobi_with(hosts, options, |run| run)
    }

    /// The same, without a call of MPI whose answer depends on timing.
    pub fn jacobi_without_times(hosts: &Hosts, options: &[&str]) -> Job {
        let gate = Job::gate(hosts);
        Job::start(hosts, options, |run| {
            jacobi(run).arg("500").arg(gate).arg("own")
        })
    }

    /// `jacobi` whose run gets more before it is started.
    pub fn jacobi_with(hosts: &Hosts, options: &[&str], more: impl FnOnce(Run) -> Run) -> Job {
        let gate = Job::gate(hosts);
        Job::start(hosts, options, |run| jacobi(more(run)).arg("500").arg(gate))
    }

    /// `orders`: each rank asks a server so many questions, and knows in which order it answered.
    /// It waits for the permission to end.
    pub fn orders(hosts: &Hosts, options: &[&str], questions: u32) -> Job {
        Job::orders_with(hosts, options, questions, |run| run)
    }

    /// `orders` whose run gets more before it is started.
    pub fn orders_with(
        hosts: &Hosts,
        options: &[&str],
        questions: u32,
        more: impl FnOnce(Run) -> Run,
    ) -> Job {
        let gate = Job::gate(hosts);
        let questions = questions.to_string();
        Job::start(hosts, options, |run| {
            let run = more(run).arg(program("orders")).arg(questions);
            run.arg("100000").arg("0").arg(gate)
        })
    }

    /// The end of `orders`, in which all have seen one order; what the job said.
    ///
    /// # Panics
    /// When they have not.
    pub fn one_order(mut self, hosts: &Hosts) -> String {
        self.replays_are_over(hosts, "orders");
        self.ends_in_one_order()
    }

    /// The same without a gate.
    ///
    /// # Panics
    /// When they have not.
    pub fn ends_in_one_order(self) -> String {
        let done = self.end();
        good(&done);
        let said = done.stdout();
        let told = "questions were answered in one order";
        assert!(said.contains(told), "{}", done.text());
        done.stderr()
    }

    /// All ranks are back, their replays have ended, and they have images since: a replay would see
    /// the gate too early.
    ///
    /// # Panics
    /// When it does not come to that.
    pub fn replays_are_over(&mut self, hosts: &Hosts, name: &str) {
        hosts.settle(self, name);
        let image = |job: &mut Job| {
            // Another rank may return meanwhile, since it depends on what was lost.
            job.reaches("a checkpoint", || {
                hosts.rejoin(&["checkpoint"]).status.success()
            });
        };
        image(self);
        // An image may be taken in a replay. That lasts no longer than what it repeats.
        let events = std::fs::read_to_string(&self.events).unwrap_or_default();
        let events = events
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let repeated = events.filter_map(|event: Value| event["repeated_ns"].as_u64());
        let longest = Duration::from_nanos(repeated.max().unwrap_or(0));
        std::thread::sleep(longest.min(SOON));
        image(self);
    }

    /// The file that a job of these hosts waits for before it ends.
    pub fn gate(hosts: &Hosts) -> PathBuf {
        hosts.folder().join("gate")
    }

    /// The output of the same as fast as it goes.
    pub fn undisturbed(hosts: &Hosts, options: &[&str]) -> Finished {
        let what = format!("2000 steps, {options:?}");
        answers::undisturbed(&program("jacobi"), &what, || {
            Job::start(hosts, options, jacobi).end()
        })
    }

    /// One of a program with its arguments.
    pub fn start(hosts: &Hosts, options: &[&str], program: impl FnOnce(Run) -> Run) -> Job {
        Job::start_as(hosts, options, |run| program(run).start())
    }

    /// The same, started in a way of its own. Options may name other hosts.
    pub fn start_as(hosts: &Hosts, options: &[&str], start: impl FnOnce(Run) -> Child) -> Job {
        let events = hosts.folder().join("events");
        let gate = Job::gate(hosts);
        for left in [&events, &gate] {
            let _ = std::fs::remove_file(left);
        }
        let file = events.to_str().expect("a path in UTF-8");
        let mut all = vec!["--tag-output", "--events", file];
        if !options.contains(&"--host") {
            all.extend(["--host", "h1:2,h2:2"]);
        }
        if !options.contains(&"-n") {
            all.extend(["-n", "4"]);
        }
        if !options.contains(&"--checkpoint-interval") {
            all.extend(["--checkpoint-interval", "0.1"]);
        }
        all.extend(["--spin", "0"]);
        all.extend(options);
        let child = start(hosts.mpirun(all));
        Job {
            child,
            events,
            gate,
        }
    }

    /// How often something has happened.
    pub fn events(&self, kind: &str) -> usize {
        happened(&self.events, kind)
    }

    /// Waits until something has happened so many times.
    ///
    /// # Panics
    /// When that does not happen, with the output of the job.
    pub fn until(&mut self, kind: &str, count: usize) {
        let events = self.events.clone();
        self.reaches(&format!("{kind} {count} times"), || {
            happened(&events, kind) >= count
        });
    }

    /// Waits until so many checkpoints are in files that outlive a host: output before the last of
    /// them is shown.
    ///
    /// # Panics
    /// When that does not happen, with the output of the job.
    pub fn until_in_files(&mut self, count: usize) {
        let events = self.events.clone();
        self.reaches(&format!("{count} checkpoints in files"), || {
            let copied = committed(&events, "partner");
            let newest = [copied, committed(&events, "file")];
            newest
                .into_iter()
                .find(|all| !all.is_empty())
                .is_some_and(|all| all.len() >= count)
        });
    }

    /// Numbers of the checkpoints that were committed on this level.
    #[must_use]
    pub fn committed(&self, level: &str) -> Vec<u64> {
        committed(&self.events, level)
    }

    /// Waits until a checkpoint with this number or a higher one is committed on this level.
    ///
    /// # Panics
    /// When that does not happen, with the output of the job.
    pub fn until_committed(&mut self, level: &str, from: u64) {
        let events = self.events.clone();
        self.reaches(&format!("checkpoint {from} as {level}"), || {
            committed(&events, level).last() >= Some(&from)
        });
    }

    /// Numbers of the checkpoints that events of this kind name.
    #[must_use]
    pub fn epochs(&self, kind: &str) -> Vec<u64> {
        epochs(&self.events, |event| event["event"] == kind)
    }

    /// The events of this kind.
    #[must_use]
    pub fn lines_of(&self, kind: &str) -> Vec<Value> {
        lines_of(&self.events, kind)
    }

    /// Waits until the events name this rank as one that depends on lost messages.
    ///
    /// # Panics
    /// When that does not happen, with the output of the job.
    pub fn until_orphan(&mut self, rank: u64) {
        let events = self.events.clone();
        let is_orphan = |lost: &Value| {
            let cause = lost["cause"].as_str().unwrap_or_default();
            lost["rank"] == rank && cause.contains("that were lost with a host")
        };
        self.reaches(&format!("the loss of rank {rank} as an orphan"), || {
            lines_of(&events, "lost").iter().any(is_orphan)
        });
    }

    /// Waits until something holds.
    ///
    /// # Panics
    /// When that does not happen, with the output of the job.
    pub fn reaches(&mut self, what: &str, mut holds: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !holds() {
            let ended = state(self.child.id()) == 'Z';
            if (ended && !holds()) || begun.elapsed() > SOON {
                self.has_not_reached(what);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ends the job and the test, which waits for this in vain.
    ///
    /// # Panics
    /// Always, with the output of the job.
    pub fn has_not_reached(&mut self, what: &str) -> ! {
        let pid = self.child.id();
        let end = match state(pid) {
            'Z' => "the job ended before it",
            _ => "the job, which was ended for it, did not in time",
        };
        // It tells what it waits for, and takes its hosts with it.
        kill(pid, libc::SIGTERM);
        let events = std::fs::read_to_string(&self.events).unwrap_or_default();
        let begun = Instant::now();
        while state(pid) != 'Z' && begun.elapsed() < SOON {
            std::thread::sleep(Duration::from_millis(2));
        }
        kill(pid, libc::SIGKILL);
        let mut out = [String::new(), String::new()];
        if let (Some(stdout), Some(stderr)) = (&mut self.child.stdout, &mut self.child.stderr) {
            let _ = stdout.read_to_string(&mut out[0]);
            let _ = stderr.read_to_string(&mut out[1]);
        }
        let [stdout, stderr] = out;
        panic!("{end}: {what}\n--- events\n{events}--- stdout\n{stdout}--- stderr\n{stderr}");
    }

    /// Kills its central manager; another one takes over.
    ///
    /// # Panics
    /// When there is none.
    pub fn kill_central(&self) {
        let name = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/comm"));
        let is_central = |pid: &u32| name(*pid).is_ok_and(|n| n.trim_end() == "rejoin-central");
        let mut children = children(self.child.id()).into_iter();
        let central = children.find(is_central).expect("a central manager");
        kill(central, libc::SIGKILL);
    }

    /// From here on it may end.
    pub fn end(self) -> Finished {
        std::fs::write(&self.gate, "").expect("the gate");
        finish(self.child, LIMIT, "a job over hosts")
    }
}

/// The events of this kind in a file.
fn lines_of(events: &Path, kind: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(events).unwrap_or_default();
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    lines
        .filter(|event: &Value| event["event"] == kind)
        .collect()
}

/// The checkpoints of those events that are meant.
fn epochs(events: &Path, is_meant: impl Fn(&Value) -> bool) -> Vec<u64> {
    let text = std::fs::read_to_string(events).unwrap_or_default();
    let all = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let meant = all.filter(is_meant);
    meant
        .filter_map(|event: Value| event["epoch"].as_u64())
        .collect()
}

fn committed(events: &Path, level: &str) -> Vec<u64> {
    epochs(events, |event| {
        event["event"] == "committed" && event["level"] == level
    })
}

/// The lines of each rank in their order, without the host's name: a rank may ask for it again on
/// another host.
pub fn lines(done: &Finished) -> Vec<String> {
    let nameless = |line: &str| match line.split_once(" on h") {
        Some((rank, host)) => format!("{rank} on h{}", host.trim_start_matches(char::is_numeric)),
        None => line.to_owned(),
    };
    let mut lines: Vec<String> = done.stdout().lines().map(nameless).collect();
    lines.sort_by_key(|line| line.split('>').next().unwrap_or("").to_owned());
    lines
}

/// It ended as it should.
///
/// # Panics
/// With what it said otherwise.
pub fn good(done: &Finished) {
    assert!(done.output.status.success(), "{}", done.text());
}
