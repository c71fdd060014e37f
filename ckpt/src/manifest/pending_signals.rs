//! Pending signals. A clone inherits none of them.

use crate::error::Caveat;
use crate::signals::PARKING_SIGNAL;
use crate::sys;

/// More pending signals than any program has; the rest would stay with the rank.
const MOST: usize = 1024;

/// Pending signals with their details, in order of delivery.
#[derive(Default)]
pub(crate) struct PendingSignals {
    waiting: Vec<libc::siginfo_t>,
}

impl PendingSignals {
    /// Reads the pending signals of this process, with all signals blocked. The system reports the
    /// details of a signal only when it delivers it, so each signal is taken and queued again.
    /// Requests are for this process only. Signals by which threads are parked are for one thread,
    /// and would go to any when queued again.
    pub fn capture(request_signal: i32) -> Self {
        let left_out = sys::bit(request_signal) | sys::bit(PARKING_SIGNAL);
        let set = sys::pending() & !left_out;
        if set == 0 {
            return Self::default();
        }
        let mut waiting = Vec::new();
        while waiting.len() < MOST {
            match sys::take_signal(set) {
                Some(info) => waiting.push(info),
                None => break,
            }
        }
        let pending = Self { waiting };
        pending.restore(&mut Vec::new());
        pending
    }

    /// Queues them for this process.
    pub fn restore(&self, caveats: &mut Vec<Caveat>) {
        let pid = sys::pid();
        for info in &self.waiting {
            let signal = info.si_signo;
            // SAFETY: the pointer is to a siginfo of the kernel's own making.
            let result = unsafe {
                libc::syscall(
                    libc::SYS_rt_sigqueueinfo,
                    pid,
                    signal,
                    std::ptr::from_ref(info),
                )
            };
            if let Err(errno) = sys::check(result) {
                caveats.push(Caveat::SignalLost { signal, errno });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Queued again for the process, a signal of the C library would reach another thread.
    #[test]
    fn a_signal_that_parks_threads_stays_with_its_thread() {
        let mask = sys::set_mask(sys::ALL_SIGNALS);
        // SAFETY: the numbers are this thread's, which blocks the signal.
        unsafe { libc::syscall(libc::SYS_tgkill, sys::pid(), sys::tid(), PARKING_SIGNAL) };
        let captured = PendingSignals::capture(libc::SIGUSR2).waiting;
        let own = sys::take_signal(sys::bit(PARKING_SIGNAL)).expect("the signal");
        assert_eq!(own.si_code, libc::SI_TKILL);
        assert!(captured.iter().all(|info| info.si_signo != PARKING_SIGNAL));
        sys::set_mask(mask);
    }
}
