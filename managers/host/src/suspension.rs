//! Suspends every process below a manager, and has them continue.

use crate::descendants;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// Passes over the processes, at most. Those that appear later are for the next call.
const PASSES: u32 = 100;

/// Between two passes: a process acts upon SIGSTOP in less, if it has a processor.
const PAUSE: Duration = Duration::from_micros(500);

/// The processes below a manager that were suspended here. Those that others have stopped are not
/// among them, and stay so.
#[derive(Debug)]
pub struct Suspension {
    root: u32,
    suspended: BTreeSet<u32>,
}

impl Suspension {
    /// Of the processes below this one, which itself goes on.
    #[must_use]
    pub fn below(root: u32) -> Suspension {
        Suspension {
            root,
            suspended: BTreeSet::new(),
        }
    }

    /// Suspends all. Processes make others meanwhile, so this ends with a pass that finds none.
    pub fn suspend(&mut self) {
        for _ in 0..PASSES {
            if self.pass() {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Suspends those that run, parents before it looks for their children. Returns whether there
    /// was none.
    fn pass(&mut self) -> bool {
        let mut was_none = true;
        let mut waiting = VecDeque::from([self.root]);
        while let Some(parent) = waiting.pop_front() {
            for pid in descendants::children(parent) {
                was_none &= self.is_suspended(pid, parent);
                waiting.push_back(pid);
            }
        }
        was_none
    }

    /// Suspends one process. Returns whether it was suspended before.
    fn is_suspended(&mut self, pid: u32, parent: u32) -> bool {
        let state = match descendants::state_of(pid) {
            None | Some('T' | 't' | 'X') => return true,
            Some(state) => state,
        };
        // The manager may wait for its exec, and must not wait for a process that continues only
        // when the manager has a lease.
        if parent == self.root && descendants::has_our_program(pid) {
            return false;
        }
        let is_new = self.suspended.insert(pid);
        descendants::send(pid, libc::SIGSTOP);
        // In the kernel (D) it makes no process. The first thread may end before others (Z).
        !is_new && matches!(state, 'D' | 'Z')
    }

    /// Has those continue that were suspended here, except these.
    pub fn resume(&mut self, except: &[u32]) {
        let suspended = std::mem::take(&mut self.suspended);
        if suspended.is_empty() {
            return;
        }
        let mut below = descendants::below(self.root);
        below.retain(|pid| suspended.contains(pid) && !except.contains(pid));
        below
            .iter()
            .for_each(|pid| descendants::send(*pid, libc::SIGCONT));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descendants::{below, send, state_of};
    use rejoin_tests::processes::alone;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};
    use std::time::Instant;

    /// Processes below this shell come and go, and two stay.
    const FAMILY: &str = "sleep 100 & sleep 100 & while :; do /bin/true & wait $!; done";

    fn family() -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", FAMILY]).process_group(0);
        command.spawn().expect("a shell")
    }

    fn until(what: &str, mut holds: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn sleepers(root: u32) -> Vec<u32> {
        let name = |pid: &u32| descendants::stat(*pid).is_some_and(|stat| stat.comm == "sleep");
        below(root).into_iter().filter(name).collect()
    }

    #[test]
    fn all_processes_are_suspended_while_others_appear_and_continue() {
        let _alone = alone();
        // What is below this shell includes the one that forks.
        let mut outer = Command::new("sh");
        outer.args(["-c", "sh -c \"$0\" & wait", FAMILY]);
        let mut outer = outer.process_group(0).spawn().expect("a shell");
        let root = outer.id();
        until("sleepers", || sleepers(root).len() == 2);
        let mut suspension = Suspension::below(root);
        for _ in 0..20 {
            suspension.suspend();
            let runs = |pid: &u32| state_of(*pid).is_some_and(|s| !matches!(s, 'T' | 'Z' | 'X'));
            let left: Vec<u32> = below(root).into_iter().filter(runs).collect();
            assert!(left.is_empty(), "{left:?} run");
            assert!(state_of(root).is_some_and(|state| state != 'T'));
            suspension.resume(&[]);
            until("those that run", || below(root).iter().any(runs));
        }
        descendants::send_group(root, libc::SIGKILL);
        outer.wait().expect("its end");
    }

    #[test]
    fn processes_that_were_stopped_before_or_are_excepted_stay_stopped() {
        let _alone = alone();
        let mut shell = family();
        let root = shell.id();
        until("sleepers", || sleepers(root).len() == 2);
        let [one, other] = sleepers(root)[..] else {
            panic!("two sleepers");
        };
        let is_stopped = |pid| state_of(pid) == Some('T');
        send(one, libc::SIGSTOP);
        until("a stopped process", || is_stopped(one));
        let mut suspension = Suspension::below(root);
        suspension.suspend();
        assert!(is_stopped(one) && is_stopped(other));
        suspension.resume(&[]);
        until("one that continues", || !is_stopped(other));
        assert!(is_stopped(one), "others have stopped it");
        suspension.suspend();
        suspension.resume(&[other]);
        assert!(is_stopped(one) && is_stopped(other), "it was excepted");
        descendants::send_group(root, libc::SIGKILL);
        shell.wait().expect("its end");
    }
}
