//! Signals that wait for one thread. Neither a clone nor a new thread has them.
//!
//! The C library sends its threads such signals and waits for their effect: when the user of the
//! process changes, and when a thread is cancelled.

use std::ffi::CStr;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::signals::request_in;
use crate::{proc, sys};

/// How many of them are kept; the rest would stay with the rank.
const MOST: usize = 4;

/// A signal that a restored process does not get; 0 for none.
static LEFT_OUT: AtomicI32 = AtomicI32::new(0);

/// From here on, a restored process does not get this signal.
pub(super) fn leave_out(signal: i32) {
    LEFT_OUT.store(signal, Ordering::Relaxed);
}

/// Signals with their details. All zeros holds none.
pub(super) struct ThreadSignals {
    count: usize,
    waiting: [libc::siginfo_t; MOST],
    /// The process in which they waited.
    process: i32,
}

impl ThreadSignals {
    /// Takes those of the calling thread, which blocks all signals.
    pub fn take(&mut self) {
        self.count = 0;
        self.take_more();
    }

    /// Takes those that have come since.
    pub fn take_more(&mut self) {
        if sys::pending() == 0 {
            return;
        }
        self.process = sys::pid();
        let own = pending_in(c"/proc/thread-self/status");
        for signal in (1..=64).filter(|&signal| own & sys::bit(signal) != 0) {
            if self.count < MOST
                && let Some(info) = sys::take_signal(sys::bit(signal))
            {
                self.waiting[self.count] = info;
                self.count += 1;
            }
        }
    }

    /// Queues them again for the calling thread, in the same process or in a clone.
    pub fn queue_again(&mut self) {
        let (pid, tid) = (sys::pid(), sys::tid());
        let is_clone = self.process != pid;
        for info in &mut self.waiting[..self.count] {
            // The request was for the rank that the image is of.
            let is_left_out = info.si_signo == LEFT_OUT.load(Ordering::Relaxed);
            if is_clone && (is_left_out || request_in(info).is_some()) {
                continue;
            }
            // SAFETY: a signal from a process has its number; it is read only for such a one.
            if info.si_code <= 0 && unsafe { info.si_pid() } == self.process {
                set_sender(info, pid);
            }
            let _ = sys::queue_signal(tid, info);
        }
        self.count = 0;
    }
}

/// Whether signals wait for a thread of this process, and not for the process.
pub(super) fn wait_for(tid: i32) -> bool {
    let path = sys::ShortPath::new(format_args!("/proc/self/task/{tid}/status"));
    pending_in(path.as_c_str()) != 0
}

/// The set of signals that wait for a thread, by its status file.
fn pending_in(path: &CStr) -> sys::SignalSet {
    let mut text = [0; 2048];
    let length = sys::read_into(path, &mut text).unwrap_or(0);
    proc::field(&text[..length], "SigPnd:")
        .and_then(proc::hex)
        .unwrap_or(0)
}

/// Replaces the sender's process number. The C library ignores a signal of its own kind that comes
/// from elsewhere.
fn set_sender(info: &mut libc::siginfo_t, pid: i32) {
    // Behind signal, error, code and padding.
    const SENDER: usize = 16;
    // SAFETY: the field lies in the structure.
    unsafe {
        std::ptr::from_mut(info)
            .cast::<u8>()
            .add(SENDER)
            .cast::<i32>()
            .write(pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_of_the_thread_waits_again() {
        let mask = sys::set_mask(sys::ALL_SIGNALS);
        // SAFETY: all zeros holds no signals; the numbers are this thread's.
        let mut signals: ThreadSignals = unsafe {
            libc::syscall(libc::SYS_tgkill, sys::pid(), sys::tid(), libc::SIGUSR1);
            std::mem::zeroed()
        };
        signals.take();
        assert_eq!(signals.count, 1);
        assert_eq!(
            pending_in(c"/proc/thread-self/status") & sys::bit(libc::SIGUSR1),
            0
        );
        signals.process = sys::pid();
        signals.queue_again();
        assert_eq!(
            pending_in(c"/proc/thread-self/status") & sys::bit(libc::SIGUSR1),
            sys::bit(libc::SIGUSR1)
        );
        let info = sys::take_signal(sys::bit(libc::SIGUSR1)).expect("the signal");
        // SAFETY: a signal of `tgkill` has a sender.
        assert_eq!(unsafe { info.si_pid() }, sys::pid());
        sys::set_mask(mask);
    }
}
