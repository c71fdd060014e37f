//! Message queues and semaphores that belong to the system: a rollback does not take them back.

use std::os::fd::RawFd;

use crate::error::Caveat;
use crate::{proc, sys};

/// Number of the file system of POSIX message queues.
const QUEUES: i64 = 0x1980_0202;
/// Most semaphores of a set that are looked at.
const MOST: u64 = 64;

/// Whether a descriptor is a POSIX message queue. The system shows it as a file.
pub(crate) fn is_message_queue(fd: RawFd) -> bool {
    // SAFETY: `statfs` is plain data that the call fills in.
    unsafe {
        let mut system: libc::statfs = std::mem::zeroed();
        libc::fstatfs(fd, &raw mut system) == 0 && system.f_type == QUEUES
    }
}

/// Queues and semaphores of System V that this process was the last to use.
pub(super) fn of_system_v() -> Vec<Caveat> {
    let (me, mut text, mut found) = (sys::pid(), Vec::new(), Vec::new());
    let mut each = |path, uses: &dyn Fn(&[u64]) -> bool, what: &str| {
        if sys::read_file(path, &mut text).is_err() {
            return;
        }
        for line in proc::lines(&text) {
            // The key in front may be negative.
            let numbers: Vec<u64> = proc::words(line).skip(1).map_while(proc::number).collect();
            if let Some(id) = numbers.first().filter(|_| uses(&numbers)) {
                found.push(Caveat::SystemV {
                    what: what.to_owned(),
                    id: *id,
                });
            }
        }
    };
    let is_own = |pid: Option<&u64>| pid == Some(&(me as u64));
    let last_sent_or_received = |numbers: &[u64]| is_own(numbers.get(4)) || is_own(numbers.get(5));
    each(
        c"/proc/sysvipc/msg",
        &last_sent_or_received,
        "message queue",
    );
    let last_changed = |numbers: &[u64]| {
        let (id, count) = (numbers[0], numbers.get(2).map_or(0, |count| *count));
        // SAFETY: touches no memory.
        let pid = |at: u64| unsafe { libc::syscall(libc::SYS_semctl, id, at, libc::GETPID, 0) };
        (0..count.min(MOST)).any(|at| pid(at) == i64::from(me))
    };
    each(c"/proc/sysvipc/sem", &last_changed, "semaphore set");
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_and_semaphores_that_this_process_uses_are_found() {
        // SAFETY: the pointer is to a message of this length.
        let (queue, set) = unsafe {
            let queue = libc::msgget(libc::IPC_PRIVATE, 0o600);
            let message = [1u64, 7];
            libc::msgsnd(queue, message.as_ptr().cast(), 8, libc::IPC_NOWAIT);
            let set = libc::semget(libc::IPC_PRIVATE, 2, 0o600);
            libc::semctl(set, 1, libc::SETVAL, 3);
            (queue, set)
        };
        let found = of_system_v();
        for (id, wanted) in [(queue, "message queue"), (set, "semaphore set")] {
            let is_there = found.iter().any(|caveat| {
                matches!(caveat, Caveat::SystemV { what, id: of } if what == wanted && *of == id as u64)
            });
            assert!(is_there, "{wanted} {id}: {found:?}");
        }
        // SAFETY: both were made here.
        unsafe {
            libc::msgctl(queue, libc::IPC_RMID, std::ptr::null_mut());
            libc::semctl(set, 0, libc::IPC_RMID);
        }
        assert!(!is_message_queue(1));
    }
}
