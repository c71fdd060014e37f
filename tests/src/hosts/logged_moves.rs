//! Ranks move to other hosts while messages are logged: the others stand, and a rank that has moved
//! comes back alone as before.

use super::Hosts;
use super::job::{Job, good, lines};
use super::moves::{Migration, POINTS, Points, done, rejoin};
use crate::limits::SOON;
use crate::processes::{all_reaped, kill, wait_for};
use crate::{Finished, Run, hosts, program};

/// Questions of each client of `orders`.
const QUESTIONS: u32 = 9000;

/// A host that is lost is missed soon. Without that, a busy machine must not make one silent.
const SHORT: &[&str] = &["--host-lease", "1"];

/// The jobs of a mode, in which each rank is a group.
#[derive(Clone, Copy)]
pub struct Logged {
    recovery: &'static str,
}

impl Logged {
    /// With this `--recovery`.
    #[must_use]
    pub fn with(recovery: &'static str) -> Logged {
        Logged { recovery }
    }

    /// Whether other ranks stand in any case. With receive logs, ranks return that depend on what
    /// is lost with a host, or what a moved rank has not stored when it returns to its former host.
    fn others_stand(&self) -> bool {
        self.recovery == "sender-log"
    }

    /// These ranks have these processes, apart from those that the job names as orphans. Central
    /// orders the return of an orphan before the event of its loss is in the file.
    fn stand(&self, hosts: &Hosts, job: &mut Job, ranks: &[usize], before: &[u32]) {
        for (rank, pid) in ranks.iter().zip(before) {
            let now = pids(hosts, "orders", &[*rank]);
            if now == [*pid] {
                continue;
            }
            assert!(
                !self.others_stand(),
                "rank {rank} was {pid}, is {now:?}; {:?}",
                job.lines_of("lost")
            );
            job.until_orphan(*rank as u64);
        }
    }

    /// The options of its jobs.
    #[must_use]
    pub fn options<'a>(&self, more: &[&'a str]) -> Vec<&'a str> {
        let usual = ["--recovery", self.recovery, "--log-group", "rank"];
        let options = usual.iter().chain(more);
        options.copied().collect()
    }

    /// A server that answers in the order of the questions, by wildcards, probes and tests, and
    /// checks in the end that nobody has seen another order. It has a checkpoint in files.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn orders(&self, hosts: &Hosts, options: &[&str]) -> Job {
        let mut job = self.start(hosts, options);
        job.until_in_files(1);
        job
    }

    fn start(&self, hosts: &Hosts, options: &[&str]) -> Job {
        Job::orders(hosts, &self.options(options), QUESTIONS)
    }

    /// A rank that has moved is killed before and after its next checkpoint.
    ///
    /// # Panics
    /// When it is not so.
    pub fn killed_before_and_after_its_next_checkpoint(&self) {
        let hosts = hosts!(3);
        for rank in [0, 1, 2] {
            let asked = ["--spare", "h3:4", "--checkpoint-interval", "asked"];
            let points = Points::of(&hosts);
            let mut job = Job::orders_with(&hosts, &self.options(&asked), QUESTIONS, |run| {
                points.prepare(run, &["update-sent"])
            });
            wait_for(SOON, "a checkpoint", || {
                rejoin(&hosts, &["checkpoint"]).output.status.success()
            });
            job.until_in_files(1);
            let others: Vec<usize> = (0..4).filter(|other| *other != rank).collect();
            let stand = pids(&hosts, "orders", &others);
            let home = hosts.places()[rank].clone();
            // Its images are on the host that it has left. The next checkpoint follows the move.
            points.want("update-sent");
            let moves = Migration::start(&hosts, rank, "h3").comes_to(&points, "update-sent");
            kill_rank(&hosts, "orders", rank);
            points.release("update-sent");
            good(&moves.end());
            job.until("recovered", 1);
            hosts.settle(&mut job, "orders");
            assert_eq!(hosts.places()[rank], home);
            migrate(&hosts, rank, "h3");
            hosts.take_files(&mut job);
            kill_rank(&hosts, "orders", rank);
            job.until("recovered", 2);
            hosts.settle(&mut job, "orders");
            assert_eq!(hosts.places()[rank], "h3");
            migrate(&hosts, rank, &home);
            hosts.take_files(&mut job);
            kill_rank(&hosts, "orders", rank);
            job.until("recovered", 3);
            self.stand(&hosts, &mut job, &others, &stand);
            job.one_order(&hosts);
        }
    }

    /// The next host is lost before and after the next checkpoint.
    ///
    /// # Panics
    /// When it is not so.
    pub fn next_host_is_lost(&self) {
        for waits in [false, true] {
            let mut hosts = hosts!(4);
            let mut job = self.orders(&hosts, &[&["--spare", "h3:4,h4:4"], SHORT].concat());
            let stand = pids(&hosts, "orders", &[1, 2, 3]);
            migrate(&hosts, 0, "h3");
            if waits {
                hosts.take_files(&mut job);
            }
            hosts.kill(3);
            job.until("host-replaced", 1);
            job.until("recovered", 1);
            self.stand(&hosts, &mut job, &[1, 2, 3], &stand);
            job.one_order(&hosts);
        }
    }

    /// The former host is lost with ranks, and the moved rank stands.
    ///
    /// # Panics
    /// When it is not so.
    pub fn former_host_is_lost(&self) {
        // Before its next checkpoint, the moved rank must not be one that returns.
        let ways: &[bool] = match self.others_stand() {
            true => &[false, true],
            false => &[true],
        };
        for &waits in ways {
            let mut hosts = hosts!(3);
            let mut job = self.orders(&hosts, &[&["--spare", "h3:4"], SHORT].concat());
            migrate(&hosts, 2, "h3");
            if waits {
                hosts.take_files(&mut job);
            }
            // The process that has moved away may still be ending.
            wait_for(SOON, "one process of each rank", || {
                pids(&hosts, "orders", &[0, 1, 2]).len() == 3
            });
            let stand = pids(&hosts, "orders", &[0, 1, 2]);
            hosts.kill(2);
            job.until("host-replaced", 1);
            job.until("recovered", 1);
            self.stand(&hosts, &mut job, &[0, 1, 2], &stand);
            hosts.take_files(&mut job);
            kill_rank(&hosts, "orders", 2);
            job.until("recovered", 2);
            job.one_order(&hosts);
        }
    }

    /// A drained host ends, and its ranks come back elsewhere.
    ///
    /// # Panics
    /// When it is not so.
    pub fn drained(&self) {
        let hosts = hosts!(3);
        let mut job = self.orders(&hosts, &["--spare", "h3:4"]);
        let before = job.events("recovered");
        done(&hosts, &["drain", "h2"]);
        wait_for(SOON, "the end of its manager", || {
            hosts.processes(2, "rejoin-local").is_empty()
        });
        assert_eq!(job.events("recovered"), before);
        kill_rank(&hosts, "orders", 3);
        kill_rank(&hosts, "orders", 0);
        job.until("recovered", before + 2);
        assert!(hosts.places().iter().all(|place| place != "h2"));
        job.one_order(&hosts);
    }

    /// Something happens when a move comes to each of the points. Then the job is right, and ranks
    /// move. `strike` returns the processes that it has killed. `recovers`: how many ranks return.
    ///
    /// # Panics
    /// When it is not so.
    pub fn at_each_point(&self, strike: impl Fn(&Hosts, &Job) -> Vec<u32>, recovers: usize) {
        let hosts = hosts!(3);
        let alone = Job::undisturbed(&hosts, &[]);
        let points = Points::of(&hosts);
        let mut job = Job::jacobi_with(&hosts, &self.options(&["--spare", "h3:4"]), |run| {
            points.prepare(run, &POINTS)
        });
        job.until_in_files(1);
        for point in POINTS {
            let recovered = job.events("recovered");
            let to = if hosts.places()[1] == "h1" {
                "h3"
            } else {
                "h1"
            };
            points.want(point);
            let moves = Migration::start(&hosts, 1, to).comes_to(&points, point);
            let killed = strike(&hosts, &job);
            if point == "stop-sent" {
                // The loss is noticed before the arrival.
                all_reaped(&killed, SOON);
            }
            points.release(point);
            let ended = moves.end();
            // At this point the new process may be there before the end of the old one is seen:
            // then nothing is lost.
            if point != "move-restore-sent" {
                job.until("recovered", recovered + recovers);
            }
            hosts.settle(&mut job, "jacobi");
            println!("{point}: to {to}: {:?}; {}", hosts.places(), ended.text());
            if !ended.output.status.success() {
                // It may be noticed first that the rank takes no image.
                if !ended.text().contains("does not run") {
                    job.has_not_reached(&format!("{point}: a move to {to}: {}", ended.text()));
                }
                migrate(&hosts, 1, to);
            }
            hosts.take_files(&mut job);
        }
        job.replays_are_over(&hosts, "jacobi");
        same_lines(job, &alone);
    }

    /// The loss of the rank that moves is noticed before its new process has registered, if the
    /// local manager was suspended in time. When that process comes, the rank is back, and moves
    /// again.
    ///
    /// # Panics
    /// When it is not so.
    pub fn lost_before_its_arrival(&self) {
        let [first, again] = ["move-restore-sent", "load-sent"];
        let hosts = hosts!(3);
        let alone = Job::undisturbed(&hosts, &[]);
        let points = Points::of(&hosts);
        let mut job = Job::jacobi_with(&hosts, &self.options(&["--spare", "h3:4"]), |run| {
            points.prepare(run, &[first, again])
        });
        job.until_in_files(1);
        let mut noticed = 0;
        for (from, to) in [(1, 3), (3, 1)].repeat(10) {
            if noticed == 2 {
                break;
            }
            let (lost, moved) = (job.events("lost"), job.events("moved"));
            points.want(first);
            let moves = Migration::start(&hosts, 1, &format!("h{to}")).comes_to(&points, first);
            let managers = hosts.processes(to, "rejoin-local");
            managers.iter().for_each(|pid| kill(*pid, libc::SIGSTOP));
            let killed = hosts.processes_of(from, "jacobi", 1);
            killed.iter().for_each(|pid| kill(*pid, libc::SIGKILL));
            points.want(again);
            points.release(first);
            // The rank is back, and moves again. If its new process had registered before the
            // manager was suspended, nothing is lost.
            wait_for(SOON, again, || {
                let is_lost = job.events("lost") > lost;
                (is_lost && points.is_reached(again)) || job.events("moved") > moved
            });
            noticed += usize::from(job.events("lost") > lost);
            managers.iter().for_each(|pid| kill(*pid, libc::SIGCONT));
            points.release(again);
            good(&moves.end());
            hosts.settle(&mut job, "jacobi");
            assert_eq!(hosts.places()[1], format!("h{to}"));
            hosts.take_files(&mut job);
        }
        assert_eq!(noticed, 2, "the other losses were noticed too late");
        job.replays_are_over(&hosts, "jacobi");
        same_lines(job, &alone);
    }

    /// Messages of megabytes, which the log has in memory of the host.
    ///
    /// # Panics
    /// When one is lost.
    pub fn long_messages_go_along(&self, rounds: &str) {
        let hosts = hosts!(3);
        let run = |run: Run| run.arg(program("giants")).arg("8").arg(rounds).arg("both");
        let two = ["-n", "2", "--host", "h1:1,h2:1"];
        let alone = Job::start(&hosts, &two, run).end();
        good(&alone);
        let options = [&two[..], &self.options(&["--spare", "h3:4"])].concat();
        let mut job = Job::start(&hosts, &options, run);
        job.until_in_files(1);
        migrate(&hosts, 0, "h3");
        kill_rank(&hosts, "giants", 1);
        job.until("recovered", 1);
        migrate(&hosts, 0, "h1");
        kill_rank(&hosts, "giants", 0);
        job.until("recovered", 2);
        same_lines(job, &alone);
    }
}

/// A job ends well, with the lines of another one.
///
/// # Panics
/// When it does not.
pub fn same_lines(job: Job, alone: &Finished) -> Finished {
    let ended = job.end();
    good(&ended);
    assert_eq!(lines(&ended), lines(alone), "{}", ended.text());
    ended
}

/// A rank moves to a host.
///
/// # Panics
/// When it does not.
pub fn migrate(hosts: &Hosts, rank: usize, to: &str) {
    let said = done(hosts, &["migrate", &rank.to_string(), "--to", to]);
    assert!(said.contains(&format!("rank {rank} has moved")), "{said}");
}

/// Kills the processes of a rank on all hosts, and returns which.
///
/// # Panics
/// When there are none.
pub fn kill_rank(hosts: &Hosts, name: &str, rank: usize) -> Vec<u32> {
    let found = hosts
        .running()
        .flat_map(|n| hosts.processes_of(n, name, rank));
    let found: Vec<u32> = found.collect();
    assert!(!found.is_empty(), "no rank {rank}");
    found.iter().for_each(|pid| kill(*pid, libc::SIGKILL));
    found
}

/// The processes of these ranks.
#[must_use]
pub fn pids(hosts: &Hosts, name: &str, ranks: &[usize]) -> Vec<u32> {
    let of = |rank: &usize| {
        let found = hosts
            .running()
            .flat_map(|n| hosts.processes_of(n, name, *rank));
        found.collect::<Vec<u32>>()
    };
    ranks.iter().flat_map(of).collect()
}
