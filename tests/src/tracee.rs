//! A process that is stopped at its system calls, so that a test can act in the middle of one
//! (ptrace(2)).
//!
//! All of it belongs to one thread of the test.

use crate::limits::LIMIT;
use std::time::{Duration, Instant};

/// Between two looks at it.
const PAUSE: Duration = Duration::from_micros(20);

/// Where a traced process has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It is stopped at the begin of a system call.
    Entry,
    /// It is stopped at the end of a system call.
    Exit,
    /// It has ended.
    Dead,
}

/// A traced process; dropping this value detaches it.
pub struct Tracee {
    pid: libc::pid_t,
    stopped: bool,
    inside: bool,
    dead: bool,
}

/// Eight bytes of a process's memory, also while it runs.
#[must_use]
pub fn word_of(pid: u32, at: u64) -> Option<u64> {
    let mut word = 0u64;
    let local = libc::iovec {
        iov_base: (&raw mut word).cast(),
        iov_len: 8,
    };
    let remote = libc::iovec {
        iov_base: std::ptr::without_provenance_mut(at as usize),
        iov_len: 8,
    };
    let pid = pid.cast_signed();
    // SAFETY: eight bytes are written to a variable of that size.
    let got = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    (got == 8).then_some(word)
}

impl Tracee {
    /// Begins to trace a process that runs.
    ///
    /// # Panics
    /// Where that is not allowed.
    #[must_use]
    pub fn seize(pid: u32) -> Tracee {
        let pid = pid.cast_signed();
        let mut tracee = Tracee {
            pid,
            stopped: false,
            inside: false,
            dead: false,
        };
        tracee.ask(libc::PTRACE_SEIZE, libc::PTRACE_O_TRACESYSGOOD as usize);
        tracee.ask(libc::PTRACE_INTERRUPT, 0);
        tracee
    }

    fn ask(&mut self, request: libc::c_uint, data: usize) {
        // SAFETY: none of the requests made here writes to this process's memory.
        let done = unsafe { libc::ptrace(request, self.pid, 0usize, data) };
        let error = std::io::Error::last_os_error();
        // It may be killed at any moment; the next wait reports that.
        let gone = error.raw_os_error() == Some(libc::ESRCH);
        assert!(done >= 0 || gone, "ptrace request {request:#x}: {error}");
    }

    /// Lets it run to the begin of its next system call of this number.
    pub fn next_call(&mut self, number: libc::c_long) -> Stop {
        loop {
            self.go_on();
            match self.wait() {
                Stop::Entry if self.is_in(number) => return Stop::Entry,
                Stop::Entry | Stop::Exit => {}
                Stop::Dead => return Stop::Dead,
            }
        }
    }

    fn registers(&self) -> Option<libc::user_regs_struct> {
        // SAFETY: all zero is a value of it.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        // SAFETY: the registers are written to a variable of their type.
        let done =
            unsafe { libc::ptrace(libc::PTRACE_GETREGS, self.pid, 0usize, &raw mut registers) };
        (done >= 0).then_some(registers)
    }

    /// The arguments of the system call at whose begin it is stopped; zeros when it is gone.
    #[must_use]
    pub fn arguments(&self) -> [u64; 6] {
        self.registers().map_or([0; 6], |registers| {
            let r = registers;
            [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9]
        })
    }

    /// Eight bytes of its memory, also while it runs.
    #[must_use]
    pub fn word(&self, at: u64) -> Option<u64> {
        word_of(self.pid.cast_unsigned(), at)
    }

    fn is_in(&self, number: libc::c_long) -> bool {
        let number = number.cast_unsigned();
        self.registers().is_some_and(|r| r.orig_rax == number)
    }

    /// Lets it run to the next begin or end of a system call.
    pub fn go_on(&mut self) {
        if std::mem::take(&mut self.stopped) {
            self.ask(libc::PTRACE_SYSCALL, 0);
        }
    }

    /// Waits until it is stopped at the begin or end of a system call; its signals are delivered.
    ///
    /// # Panics
    /// When it does not within a minute.
    pub fn wait(&mut self) -> Stop {
        let stop = self.wait_until(Instant::now() + LIMIT);
        stop.unwrap_or_else(|| panic!("process {} makes no system call", self.pid))
    }

    /// The same until some moment at most.
    fn wait_until(&mut self, end: Instant) -> Option<Stop> {
        loop {
            let mut status = 0;
            let flags = libc::__WALL | libc::WNOHANG;
            // SAFETY: the status is written to a variable of its type.
            let got = unsafe { libc::waitpid(self.pid, &raw mut status, flags) };
            if got == 0 {
                if Instant::now() > end {
                    return None;
                }
                std::thread::sleep(PAUSE);
                continue;
            }
            if got < 0 || libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
                self.dead = true;
                return Some(Stop::Dead);
            }
            self.stopped = true;
            let signal = libc::WSTOPSIG(status);
            if signal == libc::SIGTRAP | 0x80 {
                self.inside = !self.inside;
                let stop = if self.inside { Stop::Entry } else { Stop::Exit };
                return Some(stop);
            }
            // A stop of the tracer is no signal for it; any other stop is.
            let event = status >> 16 != 0;
            let signal = if event { 0 } else { signal };
            self.stopped = false;
            self.ask(libc::PTRACE_SYSCALL, signal as usize);
        }
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        if self.dead {
            return;
        }
        if !self.stopped {
            self.ask(libc::PTRACE_INTERRUPT, 0);
            let end = Instant::now() + LIMIT;
            // If it does not stop in time, the end of this thread detaches it.
            while !self.stopped && !self.dead && self.wait_until(end).is_some() {}
        }
        self.ask(libc::PTRACE_DETACH, 0);
    }
}
