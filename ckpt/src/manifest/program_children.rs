//! Children of the program that an image may have: those that have ended, and resource trackers.

use std::os::fd::RawFd;

use super::open_file::Descriptor;
use crate::error::Caveat;
use crate::signals::SignalAction;
use crate::{children, sys};

/// How often the number of a child is tried while the former process of that number is still there,
/// and nanoseconds between two attempts.
const TRIED: u32 = 100;
const PAUSE: i64 = 2_000_000;

/// A child that has ended, and for which the program has not waited.
struct EndedChild {
    pid: i32,
    /// `CLD_EXITED`, or another code for an end by a signal.
    code: i32,
    /// The exit code, or the signal.
    status: i32,
}

/// The children.
#[derive(Default)]
pub(super) struct ProgramChildren {
    ended: Vec<EndedChild>,
    /// Descriptors of pipes to resource trackers, each with its close-on-exec flag.
    pipes: Vec<(RawFd, bool)>,
}

impl ProgramChildren {
    /// Reads them. Other children were refused already. `known` are the pipes to trackers that
    /// earlier images have had.
    pub fn capture(all: &[Descriptor], known: &mut Vec<(u64, u64)>) -> Self {
        let (mut ended, mut listed) = (Vec::new(), Vec::new());
        if children::has_any() {
            listed = children::all(sys::pid(), &[]).unwrap_or_default();
        }
        for child in listed {
            if child.has_ended {
                ended.extend(EndedChild::read(child.pid));
            } else if child.is_tracker() {
                known.extend(files_of(child.pid));
            }
        }
        let is_pipe = |d: &&Descriptor| d.fd > 2 && d.mode & libc::S_IFMT == libc::S_IFIFO;
        let pipes = all.iter().filter(is_pipe);
        let pipes: Vec<_> = pipes.filter(|d| known.contains(&d.file)).collect();
        *known = pipes.iter().map(|d| d.file).collect();
        let flag = |fd| sys::control(fd, libc::F_GETFD, 0).is_ok_and(|flags| flags != 0);
        let pipes = pipes.iter().map(|d| (d.fd, flag(d.fd))).collect();
        Self { ended, pipes }
    }

    /// Whether any child has ended.
    pub fn have_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Whether a descriptor is a pipe to a resource tracker.
    pub fn has_pipe(&self, fd: RawFd) -> bool {
        self.pipes.iter().any(|(pipe, _)| *pipe == fd)
    }

    /// In a process made from a file: the trackers are gone, and what it writes to them goes
    /// nowhere. A pipe without a reader would end a program that was about to write: Python looks
    /// whether its tracker is there only before that.
    pub fn discard_writes(&self) {
        for &(fd, is_cloexec) in &self.pipes {
            if let Ok(nowhere) = sys::open(c"/dev/null", libc::O_WRONLY) {
                let _ = sys::duplicate(nowhere, fd, is_cloexec);
                if nowhere != fd {
                    sys::close(nowhere);
                }
            }
        }
    }

    /// In a runner, with its signals blocked: makes children that end at once in the same way, if
    /// possible with the same numbers.
    pub fn restore(&self, caveats: &mut Vec<Caveat>) {
        for child in &self.ended {
            if let Err(errno) = child.make() {
                caveats.push(Caveat::ChildLost {
                    pid: child.pid,
                    errno,
                });
            }
        }
        if self.have_ended() {
            // The program has had this signal, or it is among those that wait.
            sys::take_signal(sys::bit(libc::SIGCHLD));
        }
    }
}

impl EndedChild {
    /// Leaves the status to the program.
    fn read(pid: i32) -> Option<Self> {
        let info = wait_for(pid, libc::WNOHANG)?;
        // SAFETY: the system has filled in the status of a child.
        let status = unsafe { info.si_status() };
        Some(Self {
            pid,
            code: info.si_code,
            status,
        })
    }

    /// An error of the number leaves the status to a child with another number.
    fn make(&self) -> sys::Sys<()> {
        let mut made = clone_as(self.pid);
        for _ in 0..TRIED {
            if made != Err(libc::EEXIST) {
                break;
            }
            sys::sleep(PAUSE);
            made = clone_as(self.pid);
        }
        let (pid, result) = match made {
            Ok(pid) => (pid, Ok(())),
            Err(errno) => (clone_as(0)?, Err(errno)),
        };
        if pid == 0 {
            self.end();
        }
        wait_for(pid, 0);
        result
    }

    /// Ends the calling process as the child had ended.
    fn end(&self) -> ! {
        if self.code != libc::CLD_EXITED {
            let action = SignalAction::default();
            // SAFETY: the default action has no handler. Memory is not dumped once more.
            unsafe {
                libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
                let _ = action.set(self.status);
                libc::syscall(libc::SYS_kill, sys::pid(), self.status);
            }
            sys::set_mask(0);
        }
        sys::exit(self.status)
    }
}

/// Waits for a child that has ended, and leaves its status to a later wait.
fn wait_for(pid: i32, options: i32) -> Option<libc::siginfo_t> {
    let flags = libc::WEXITED | libc::WNOWAIT | options;
    // SAFETY: `siginfo_t` is plain data that the call fills in.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let done = libc::waitid(libc::P_PID, pid as u32, &raw mut info, flags);
        (done == 0 && info.si_pid() == pid).then_some(info)
    }
}

/// Clones this process; the clone has this number, or any if it is 0.
fn clone_as(pid: i32) -> sys::Sys<i32> {
    // SAFETY: `clone_args` is plain data. Without a new stack and without shared memory this is a
    // fork: both sides continue from here, each with memory of its own.
    let result = unsafe {
        let mut arguments: libc::clone_args = std::mem::zeroed();
        arguments.exit_signal = libc::SIGCHLD as u64;
        if pid != 0 {
            arguments.set_tid = (&raw const pid) as u64;
            arguments.set_tid_size = 1;
        }
        let (at, size) = (&raw const arguments, size_of_val(&arguments));
        libc::syscall(libc::SYS_clone3, at, size)
    };
    sys::check(result).map(|pid| pid as i32)
}

/// The files that a process has open, without its standard streams.
fn files_of(pid: i32) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    let list = sys::ShortPath::new(format_args!("/proc/{pid}/fd"));
    // A process that is gone has nothing.
    let _ = sys::numbers_in(list.as_c_str(), |fd| {
        if fd > 2 {
            let path = sys::ShortPath::new(format_args!("/proc/{pid}/fd/{fd}"));
            found.extend(sys::status_of(path.as_c_str()));
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_has_ended_is_made_again_and_its_status_stays() {
        for (code, status) in [(libc::CLD_EXITED, 7), (libc::CLD_KILLED, libc::SIGKILL)] {
            let pid = clone_as(0).expect("a child");
            let child = EndedChild { pid, code, status };
            if pid == 0 {
                child.end();
            }
            wait_for(pid, 0);
            for _ in 0..2 {
                let seen = EndedChild::read(pid).expect("its status");
                assert_eq!((seen.code, seen.status), (code, status));
            }
            let mut status = 0;
            // SAFETY: the pointer is to a number.
            unsafe { libc::waitpid(pid, &raw mut status, 0) };
            assert!(EndedChild::read(pid).is_none());
        }
    }
}
