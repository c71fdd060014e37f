//! Signals that wait for one thread. Neither a clone nor a new thread has them.
//!
//! The C library sends its threads such signals and waits for their effect: when the user of the
//! process changes, and when a thread is cancelled.

use std::ffi::CStr;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::signals::{PARKING_SIGNAL, request_in};
use crate::{proc, sys};

/// How many of them are kept; the rest would stay with the rank.
const MOST: usize = 4;

/// The C library's own signals: for cancellation, and for a change of user. It waits for their
/// effect for ever, so they are kept before all others.
const OF_C_LIBRARY: sys::SignalSet = sys::bit(32) | sys::bit(PARKING_SIGNAL);

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

    /// Takes those that have come since. Several of one number may wait: a signal of the C library
    /// behind requests, for example.
    pub fn take_more(&mut self) {
        while self.count < MOST
            && let Some(info) = take_own()
        {
            self.process = sys::pid();
            self.keep(info);
        }
    }

    /// Of several requests the one for the latest epoch stands for all: they must not take the room
    /// of other signals.
    fn keep(&mut self, info: libc::siginfo_t) {
        let epoch = |info: &libc::siginfo_t| request_in(info).map(|value| value as u32);
        let new = epoch(&info);
        let kept = self.waiting[..self.count].iter_mut();
        let former = kept
            .filter(|_| new.is_some())
            .find(|kept| epoch(kept).is_some());
        match former {
            Some(former) if epoch(former) > new => {}
            Some(former) => *former = info,
            None => {
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
            if is_clone && request_in(info).is_some() {
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

/// Takes a signal that waits for the calling thread, and not for the process. The one that is left
/// out waits on: a clone does not inherit it.
fn take_own() -> Option<libc::siginfo_t> {
    if sys::pending() == 0 {
        return None;
    }
    let left_out = match LEFT_OUT.load(Ordering::Relaxed) {
        0 => 0,
        signal => sys::bit(signal),
    };
    let own = pending_in(c"/proc/thread-self/status") & !left_out;
    let set = match own & OF_C_LIBRARY {
        0 => own,
        urgent => urgent,
    };
    // One of this number waits for the thread. The system takes it before those of the process.
    (set != 0).then(|| sys::take_signal(1 << set.trailing_zeros()))?
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
    use crate::signals::QueuedSignal;

    /// Has signals wait for the calling thread, and takes them.
    fn taken(send: impl FnOnce()) -> (ThreadSignals, sys::SignalSet) {
        let mask = sys::set_mask(sys::ALL_SIGNALS);
        send();
        // SAFETY: all zeros holds no signals.
        let mut signals: ThreadSignals = unsafe { std::mem::zeroed() };
        signals.take();
        (signals, mask)
    }

    fn send_own(signal: i32) {
        // SAFETY: the numbers are this thread's, which blocks the signal.
        unsafe { libc::syscall(libc::SYS_tgkill, sys::pid(), sys::tid(), signal) };
    }

    fn own() -> sys::SignalSet {
        pending_in(c"/proc/thread-self/status")
    }

    #[test]
    fn a_signal_of_the_thread_waits_again() {
        let (mut signals, mask) = taken(|| send_own(libc::SIGUSR1));
        assert_eq!(signals.count, 1);
        assert_eq!(own() & sys::bit(libc::SIGUSR1), 0);
        signals.queue_again();
        assert_eq!(own() & sys::bit(libc::SIGUSR1), sys::bit(libc::SIGUSR1));
        let info = sys::take_signal(sys::bit(libc::SIGUSR1)).expect("the signal");
        // SAFETY: a signal of `tgkill` has a sender.
        assert_eq!(unsafe { info.si_pid() }, sys::pid());
        sys::set_mask(mask);
    }

    /// The C library waits for the effect of its signal for ever, also in a clone.
    #[test]
    fn a_signal_of_the_c_library_is_kept_behind_requests_and_others() {
        const OTHERS: [i32; 4] = [libc::SIGUSR1, libc::SIGUSR2, libc::SIGHUP, libc::SIGWINCH];
        let (mut signals, mask) = taken(|| {
            OTHERS.into_iter().for_each(send_own);
            for epoch in [1, 7, 3, 5, 2, 6] {
                let info = QueuedSignal::request(PARKING_SIGNAL, epoch);
                let (pid, tid, info) = (sys::pid(), sys::tid(), &raw const info);
                // SAFETY: the pointer is to as many bytes as a siginfo has.
                unsafe {
                    libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, tid, PARKING_SIGNAL, info)
                };
            }
            send_own(PARKING_SIGNAL);
        });
        assert_eq!(own() & sys::bit(PARKING_SIGNAL), 0);
        let kept = &signals.waiting[..signals.count];
        let requests: Vec<_> = kept.iter().filter_map(request_in).collect();
        assert_eq!(requests, [7]);
        // In a clone.
        signals.process = -1;
        signals.queue_again();
        let info = sys::take_signal(sys::bit(PARKING_SIGNAL)).expect("the C library's");
        assert_eq!(info.si_code, libc::SI_TKILL);
        assert_eq!(own() & sys::bit(PARKING_SIGNAL), 0);
        while sys::take_signal(own()).is_some() {}
        sys::set_mask(mask);
    }
}
