//! The processes of a rank are real ones here, which sleep.

use super::*;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use rejoin_wire::codec::MANAGER_LIMIT;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SLOT: usize = 3;

/// A process that sleeps until it is killed.
struct Sleeper(Child);

impl Sleeper {
    fn new(input: Stdio) -> Sleeper {
        let mut command = Command::new("sleep");
        Sleeper(command.arg("100").stdin(input).spawn().unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn kill(&self) {
        descendants::send(self.pid(), libc::SIGKILL);
        let pid = self.pid();
        until("the process ends", || descendants::has_ended(pid));
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until this holds.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A rank whose first process is this one.
fn rank_of(sleeper: &Sleeper, reactor: &Reactor) -> LocalRank {
    let mut rank = LocalRank::new(Rank(7));
    begin(&mut rank, 0, sleeper, reactor);
    rank
}

fn begin(rank: &mut LocalRank, incarnation: u32, sleeper: &Sleeper, reactor: &Reactor) {
    let (ours, _) = socketpair(
        AddressFamily::Unix,
        SockType::Stream,
        None,
        SockFlag::SOCK_CLOEXEC,
    )
    .unwrap();
    let socket = LocalLink::new(ours, MANAGER_LIMIT, MANAGER_LIMIT);
    let child = (sleeper.pid(), descendants::watch(sleeper.pid()).unwrap());
    let incarnation = Incarnation(incarnation);
    rank.begin(SLOT, incarnation, Some(child), socket, reactor)
        .unwrap();
}

#[test]
fn a_process_that_retires_is_stopped_and_ends_when_it_is_discarded() {
    let reactor = Reactor::new().unwrap();
    let old = Sleeper::new(Stdio::null());
    let mut rank = rank_of(&old, &reactor);
    assert!(!rank.is_suspended(), "nothing was asked of it");
    rank.retire(false);
    assert!(rank.is_retiring() && !rank.must_end());
    until("the process stops", || rank.is_suspended());
    assert!(!rank.retired(&reactor), "it has not ended");
    assert!(!rank.is_retiring() && rank.pids().next().is_none());
    assert!(!descendants::has_ended(old.pid()), "its memory stays");

    // Its successor is another process, and nothing of the old one concerns it.
    let new = Sleeper::new(Stdio::null());
    begin(&mut rank, 1, &new, &reactor);
    let of_old = kind::of_process(kind::CHILD, Incarnation(0), SLOT);
    assert!(rank.is_stale(of_old));
    rank.discard(Some(Incarnation(1)));
    assert!(!descendants::has_ended(old.pid()), "it is of incarnation 0");
    rank.discard(Some(Incarnation(0)));
    until("the old process ends", || descendants::has_ended(old.pid()));
    assert_eq!(rank.reaped(old.pid()), Some(Incarnation(0)));
    assert_eq!(rank.reaped(old.pid()), None, "once");
    assert_eq!(rank.child_pid(), Some(new.pid()));
    assert!(!descendants::has_ended(new.pid()));
}

#[test]
fn the_exit_of_a_stopping_process_is_news_once() {
    let reactor = Reactor::new().unwrap();
    // It is noticed when the process is reaped.
    let first = Sleeper::new(Stdio::null());
    let mut rank = rank_of(&first, &reactor);
    rank.retire(false);
    first.kill();
    assert!(rank.child_reaped(&reactor));
    assert!(rank.is_suspended() && !rank.retired(&reactor));
    // It is noticed when all have stopped.
    let second = Sleeper::new(Stdio::null());
    begin(&mut rank, 1, &second, &reactor);
    rank.retire(false);
    second.kill();
    assert!(rank.is_suspended() && rank.retired(&reactor));
    // It was detected early.
    let third = Sleeper::new(Stdio::null());
    begin(&mut rank, 2, &third, &reactor);
    assert!(rank.exit_begins());
    rank.retire(false);
    third.kill();
    assert!(rank.is_suspended() && !rank.retired(&reactor));
    // A present process is not reported by its reaping: the core gets its status.
    let fourth = Sleeper::new(Stdio::null());
    begin(&mut rank, 3, &fourth, &reactor);
    fourth.kill();
    assert!(!rank.child_reaped(&reactor));
}

#[test]
fn a_retiring_process_with_file_locks_is_killed_for_them() {
    let reactor = Reactor::new().unwrap();
    let name = format!("rejoin-local-rank-locks-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let file = std::fs::File::create(&path).unwrap();
    let shared = file.try_clone().unwrap();
    let lock = Flock::lock(file, FlockArg::LockExclusive).unwrap();
    let sleeper = Sleeper::new(shared.into());
    std::fs::remove_file(&path).unwrap();
    let mut rank = rank_of(&sleeper, &reactor);
    rank.retire(false);
    until("its locks are found", || {
        assert!(!rank.is_suspended() || rank.must_end());
        rank.must_end()
    });
    assert!(rank.is_retiring());
    assert!(!rank.exit_begins(), "its end was caused here");
    until("it ends", || rank.is_suspended());
    assert!(descendants::has_ended(sleeper.pid()));
    assert!(!rank.retired(&reactor));
    drop(lock);
}
