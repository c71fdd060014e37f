//! Processes are killed at each phase of a move: the rank that moves, one that stays, the process
//! that loads its images ahead, and managers. The answer is that of an undisturbed job, each rank
//! is on one host, later moves work, and nothing of the abandoned move is left. Root is needed, as
//! in `hosts`.

use rejoin_tests::hosts::Hosts;
use rejoin_tests::hosts::job::Job;
use rejoin_tests::hosts::moves::{LOADER, Migration, POINTS, Points, right};
use rejoin_tests::limits::SOON;
use rejoin_tests::processes::{all_reaped, is_alive, is_stopped, kill, wait_for};
use rejoin_tests::{Finished, hosts};
use std::time::Instant;

/// From here on the rank is on the other host.
const ARRIVED: usize = 6;

/// The program.
const NAME: &str = "jacobi";
/// The rank that moves.
const MOVER: usize = 1;
/// A rank that stays.
const NEIGHBOUR: usize = 2;

/// A folder that each of these hosts has for itself, and no other job uses.
fn own(hosts: &Hosts) -> String {
    let name = hosts.folder().file_name().and_then(|name| name.to_str());
    format!("/tmp/images-{}", name.expect("a folder with a name"))
}

/// A job whose moves are disturbed.
struct Disturbed {
    hosts: Hosts,
    points: Points,
    job: Job,
    /// The output of an undisturbed one.
    alone: Finished,
}

impl Disturbed {
    fn start(hosts: Hosts, spares: &str) -> Disturbed {
        let alone = Job::undisturbed(&hosts, &[]);
        let points = Points::of(&hosts);
        let own = own(&hosts);
        let options = ["--spare", spares, "--images", &own, "--host-lease", "10"];
        let mut job = Job::jacobi_with(&hosts, &options, |run| points.prepare(run, &POINTS));
        job.until_in_files(1);
        Disturbed {
            hosts,
            points,
            job,
            alone,
        }
    }

    /// The number of the host of the rank that moves.
    fn place(&self) -> usize {
        let name = &self.hosts.places()[MOVER];
        name[1..].parse().expect("a host's number")
    }

    /// Does something when a move comes to this point. Returns what `rejoin migrate` said, and
    /// whether the rank is on the other host.
    fn strike(
        &mut self,
        point: &str,
        to: usize,
        strike: impl FnOnce(&Hosts, &Job),
    ) -> (Finished, bool) {
        let from = self.place();
        self.points.want(point);
        let moves =
            Migration::start(&self.hosts, MOVER, &format!("h{to}")).comes_to(&self.points, point);
        strike(&self.hosts, &self.job);
        self.points.release(point);
        let ended = moves.end();
        self.hosts.settle(&mut self.job, NAME);
        let place = self.place();
        println!("{point}: h{from} to h{to}: h{place}; {}", said(&ended));
        (ended, place == to)
    }

    /// Waits until the job has images of the present ranks.
    fn until_imaged(&mut self) {
        self.hosts.take_files(&mut self.job);
    }

    /// The same, and that there are no files of the move, or of checkpoints before the newest of
    /// which there are copies.
    fn until_clean(&mut self) {
        self.until_imaged();
        let (own, begun) = (own(&self.hosts), Instant::now());
        loop {
            // Those before it have come to their ends.
            let latest = self.job.epochs("requested").last().copied();
            let managed = self.managed().into_iter();
            let mut left: Vec<String> = managed.flat_map(|n| self.hosts.files(n, &own)).collect();
            let committed = self.job.committed("memory");
            let copied = self.job.committed("partner").last().copied();
            left.retain(|file| {
                let is_void = |epoch| Some(epoch) < copied || !committed.contains(&epoch);
                let is_void = |(epoch, moves)| Some(epoch) < latest && (moves || is_void(epoch));
                name_of(file).is_some_and(is_void)
            });
            if left.is_empty() {
                return;
            }
            if begun.elapsed() > SOON {
                self.job
                    .has_not_reached(&format!("no files of moves, but {left:?}"));
            }
        }
    }

    /// The numbers of the hosts whose managers have not been killed: others leave files.
    fn managed(&self) -> Vec<usize> {
        let states = self.hosts.states().into_iter().enumerate();
        let managed = states.filter(|(_, state)| state != "inactive");
        managed.map(|(at, _)| at + 1).collect()
    }

    fn end(self) {
        let managed = self.managed();
        let hosts = self.hosts;
        right(&self.job.end(), &self.alone);
        // Managers of other hosts remove their files while mpirun ends.
        hosts.nothing_runs(NAME);
        for number in managed {
            assert_eq!(
                hosts.files(number, &own(&hosts)),
                [""; 0],
                "left on h{number}"
            );
        }
    }
}

/// The checkpoint in the name of an image's file, and whether it is of a move after that.
fn name_of(path: &str) -> Option<(u64, bool)> {
    let (_, rest) = path.rsplit_once("epoch-")?;
    let epoch = rest.split(['.', '+']).next()?.parse().ok()?;
    Some((epoch, rest.contains('+')))
}

/// Both streams in one line.
fn said(ended: &Finished) -> String {
    (ended.stdout() + &ended.stderr()).replace('\n', " ")
}

/// It says that the rank has moved, or why not.
fn agrees((ended, is_there): &(Finished, bool)) {
    let says_so = ended.stdout().contains(": rank 1 has moved");
    assert_eq!(says_so, *is_there, "{}", ended.text());
    assert_eq!(ended.output.status.success(), says_so, "{}", ended.text());
    assert!(says_so || !ended.stderr().is_empty(), "no reason is given");
}

/// All ranks return to the checkpoint before, so the rank that moves is on its former host.
fn ranks_are_killed(victim: usize) {
    let mut all = Disturbed::start(hosts!(3), "h3");
    for (at, point) in POINTS.into_iter().enumerate() {
        let to = if all.place() == 1 { 3 } else { 1 };
        let recovered = all.job.events("recovered");
        let (ended, is_there) = all.strike(point, to, |hosts, _| {
            let found = (1..=3).flat_map(|number| hosts.processes_of(number, NAME, victim));
            let found: Vec<u32> = found.collect();
            assert!(!found.is_empty(), "no rank {victim}");
            found.iter().for_each(|pid| kill(*pid, libc::SIGKILL));
            if at + 2 == ARRIVED {
                // The loss is noticed before the arrival.
                all_reaped(&found, SOON);
            }
        });
        let has_arrived = ended.stdout().contains(": rank 1 has moved");
        // At the point before, the new process may be there before the end of the old one is seen:
        // then nothing is lost.
        if at + 1 != ARRIVED {
            assert_eq!(has_arrived, at >= ARRIVED, "{point}: {}", said(&ended));
        }
        if at + 1 != ARRIVED || !has_arrived {
            all.job.until("recovered", recovered + 1);
        }
        assert!(!is_there || has_arrived, "{point}: {}", said(&ended));
        all.until_clean();
    }
    all.end();
}

#[test]
fn the_rank_that_moves_is_killed_at_each_point() {
    ranks_are_killed(MOVER);
}

#[test]
fn a_rank_that_stays_is_killed_at_each_point() {
    ranks_are_killed(NEIGHBOUR);
}

#[test]
fn the_central_manager_is_killed_at_each_point() {
    let mut all = Disturbed::start(hosts!(3), "h3");
    for point in POINTS {
        let to = if all.place() == 1 { 3 } else { 1 };
        let again = all.job.events("central-again");
        let (ended, is_there) = all.strike(point, to, |_, job| job.kill_central());
        all.job.until("central-again", again + 1);
        // The next one carries the request out.
        assert!(is_there, "{point}: {}", said(&ended));
        assert!(ended.output.status.success(), "{point}: {}", said(&ended));
        all.until_clean();
    }
    assert_eq!(all.job.events("recovered"), 0);
    all.end();
}

#[test]
fn the_loader_is_killed_at_each_point() {
    let mut all = Disturbed::start(hosts!(3), "h3");
    for point in ["load-sent", "copy-loaded", "stop-sent", "move-restore-sent"] {
        let to = if all.place() == 1 { 3 } else { 1 };
        let ended = all.strike(point, to, |hosts, _| {
            let points = Points::of(hosts);
            if point == "load-sent" {
                // The host asks central where the file is, and the loader stays until central
                // learns that it has loaded it.
                points.want("copy-loaded");
                points.release(point);
            }
            let mut loaders = Vec::new();
            wait_for(SOON, "a loader", || {
                loaders = hosts.processes(to, LOADER);
                // By the last point it may be the rank already.
                !loaders.is_empty() || point == "move-restore-sent"
            });
            for loader in loaders {
                // Nor is it killed if it becomes the rank just now.
                kill(loader, libc::SIGSTOP);
                wait_for(SOON, "a loader that is suspended", || {
                    is_stopped(loader) || !is_alive(loader)
                });
                let name = std::fs::read_to_string(format!("/proc/{loader}/comm"));
                let is_loader = name.is_ok_and(|name| name.trim() == LOADER);
                let signal = match is_loader {
                    true => libc::SIGKILL,
                    false => libc::SIGCONT,
                };
                kill(loader, signal);
            }
            if point == "load-sent" {
                points.release("copy-loaded");
            }
        });
        agrees(&ended);
        // Another loader has the files. By the last point, the rank itself may have been killed.
        let moves = ended.0.output.status.success() || point == "move-restore-sent";
        assert!(moves, "{point}: {}", said(&ended.0));
        all.until_clean();
    }
    assert_eq!(all.job.events("recovered"), 0);
    all.end();
}

/// The host that loses its local manager.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Former,
    Next,
}

fn managers_are_killed(side: Side, points: &[&str]) {
    let spares = "h3:2,h4:2,h5:2,h6:2,h7:2,h8:2";
    let mut all = Disturbed::start(hosts!(8), spares);
    for point in points {
        let from = all.place();
        let states = all.hosts.states();
        let is_spare = |number: &usize| states[number - 1] == "spare";
        let to = (3..=8).find(is_spare).expect("a spare host");
        let lost = if side == Side::Former { from } else { to };
        let (ended, is_there) = all.strike(point, to, |hosts, _| {
            let mut managers = Vec::new();
            wait_for(SOON, "a manager", || {
                managers = hosts.processes(lost, "rejoin-local");
                !managers.is_empty()
            });
            kill(*managers.last().expect("a manager"), libc::SIGKILL);
        });
        let place = all.place();
        let inactive = || all.hosts.states()[lost - 1] == "inactive";
        wait_for(SOON, "the loss of the host", inactive);
        assert_ne!(place, lost, "{point}: {}", said(&ended));
        // At the point before, the new process may be there already.
        let arrives = POINTS.iter().position(|one| one == point) >= Some(ARRIVED - 1);
        if side == Side::Next && !arrives {
            assert!(!is_there && place == from, "{point}: {}", said(&ended));
            assert!(!ended.output.status.success(), "{point}: {}", said(&ended));
        }
        all.until_clean();
    }
    all.end();
}

#[test]
fn the_manager_of_the_former_host_is_killed_at_each_point() {
    managers_are_killed(Side::Former, &POINTS[..5]);
    managers_are_killed(Side::Former, &POINTS[5..]);
}

#[test]
fn the_manager_of_the_next_host_is_killed_at_each_point() {
    // At the first point there is none yet.
    managers_are_killed(Side::Next, &POINTS[1..5]);
    managers_are_killed(Side::Next, &POINTS[5..]);
}
