//! The clocks that timers measure, and the threads that they name.

use crate::sys;

/// A thread that a timer names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimerThread {
    /// By its number at the image.
    Living(i32),
    /// The thread has ended: nobody gets the signal, or the clock stands.
    Ended,
}

/// What measures the time of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    /// A clock of the system.
    Other(i32),
    /// The processor time of this process. `rate` says which kind of time counts.
    Process { rate: i32 },
    /// The processor time of a thread.
    Thread { thread: TimerThread, rate: i32 },
    /// The processor time of the thread that made the timer.
    OfMaker { rate: i32 },
}

/// In the number of a clock of processor time: that of one thread.
pub(super) const PER_THREAD: i32 = 4;
/// In the number of such a clock: bits for the kind of time. All of them set mean a clock of a
/// descriptor.
const RATE: i32 = 3;
/// The signal with which the C library's helper thread learns of timers (`SIGEV_THREAD`).
pub(super) const SIGTIMER: i32 = 32;

impl Clock {
    /// From the kernel's number: `~id << 3 | per thread | kind` for processor time, where 0 stands
    /// for the caller.
    pub fn of(number: i32) -> Self {
        let rate = number & RATE;
        if number >= 0 || rate == RATE {
            return Self::Other(number);
        }
        match (!(number >> 3), number & PER_THREAD != 0) {
            (0, true) => Self::OfMaker { rate },
            (tid, true) => Self::Thread {
                thread: TimerThread::Living(tid),
                rate,
            },
            (pid, false) if pid == 0 || pid == sys::pid() => Self::Process { rate },
            _ => Self::Other(number),
        }
    }
}

/// The number of a clock of processor time.
pub(super) fn cpu_clock(id: i32, kind: i32) -> i32 {
    !id << 3 | kind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_of_processor_time_have_owners() {
        let rate = 2;
        let thread = TimerThread::Living(77);
        let own = sys::pid();
        for (number, clock) in [
            (-6, Clock::Process { rate }),
            (cpu_clock(own, rate), Clock::Process { rate }),
            (-2, Clock::OfMaker { rate }),
            (
                cpu_clock(77, rate | PER_THREAD),
                Clock::Thread { thread, rate },
            ),
            (cpu_clock(1, rate), Clock::Other(cpu_clock(1, rate))),
            // A clock of descriptor 5.
            (cpu_clock(5, 3), Clock::Other(cpu_clock(5, 3))),
        ] {
            assert_eq!(Clock::of(number), clock, "{number}");
        }
    }
}
