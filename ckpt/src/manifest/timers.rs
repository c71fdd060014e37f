//! Interval timers and POSIX timers. A clone inherits none of them.

use std::cell::UnsafeCell;

use super::timer_clock::{Clock, PER_THREAD, SIGTIMER, TimerThread, cpu_clock};
use crate::error::{Caveat, Refused};
use crate::{proc, sys};

/// `prctl`: timers are made with the number that the caller asks for (Linux 6.15).
const PR_TIMER_CREATE_RESTORE_IDS: i32 = 77;
/// How many timers are made and dropped to reach a number, where the kernel lacks that `prctl`.
const NUMBERS_TRIED: i32 = 1 << 16;

/// `struct itimerval` in the kernel's order: the period, then the time left.
type Interval = [libc::timeval; 2];

#[derive(Clone)]
struct PosixTimer {
    id: i32,
    clock: Clock,
    signal: i32,
    value: u64,
    notify: i32,
    /// The thread that gets the signal, if only that one does.
    thread: Option<TimerThread>,
    setting: libc::itimerspec,
}

/// Timers of a restored process whose threads do not exist yet.
struct LateTimers(UnsafeCell<Vec<PosixTimer>>);

// SAFETY: used only while one thread of the process runs.
unsafe impl Sync for LateTimers {}

static LATE: LateTimers = LateTimers(UnsafeCell::new(Vec::new()));

/// Sets the timers again that name one of several threads. `thread` gives the number that a thread
/// has now. To be called in a restored process whose threads exist, and do not run yet, by the
/// thread that made them.
pub(crate) fn restore_late(thread: impl Fn(i32) -> Option<i32>) -> Vec<Caveat> {
    // SAFETY: the other threads do not use this.
    let late = std::mem::take(unsafe { &mut *LATE.0.get() });
    let mut caveats = Vec::new();
    for timer in late {
        timer.restore(&thread, &mut caveats);
    }
    caveats
}

/// The process's timers.
#[derive(Default)]
pub(crate) struct Timers {
    intervals: [Option<Interval>; 3],
    posix: Vec<PosixTimer>,
    /// The process has one thread.
    is_alone: bool,
}

impl Timers {
    /// Reads them.
    ///
    /// # Errors
    /// [`Refused::ThreadClock`] for a timer whose clock can't be told.
    pub fn capture() -> Result<Self, Refused> {
        let mut timers = Self {
            is_alone: sys::thread_count().is_ok_and(|count| count <= 1),
            ..Self::default()
        };
        for (which, place) in timers.intervals.iter_mut().enumerate() {
            let mut value: Interval = [libc::timeval {
                tv_sec: 0,
                tv_usec: 0,
            }; 2];
            // SAFETY: the pointer is to two timevals, which is what the kernel calls an itimerval.
            let result = unsafe { libc::syscall(libc::SYS_getitimer, which, value.as_mut_ptr()) };
            *place = (result == 0).then(|| running(value)).flatten();
        }
        let mut text = Vec::new();
        if sys::read_file(c"/proc/self/timers", &mut text).is_ok() {
            timers.posix = posix_timers(&text);
            // Without that `prctl`, numbers only ascend.
            timers.posix.sort_by_key(|timer| timer.id);
        }
        for timer in &mut timers.posix {
            timer.find_threads(timers.is_alone)?;
            // SAFETY: the pointer is to an itimerspec.
            unsafe { libc::syscall(libc::SYS_timer_gettime, timer.id, &raw mut timer.setting) };
            let setting = &mut timer.setting;
            if (setting.it_value.tv_sec, setting.it_value.tv_nsec) == (0, 0) {
                setting.it_value = setting.it_interval;
            }
        }
        Ok(timers)
    }

    /// Sets them again.
    pub fn restore(&self, caveats: &mut Vec<Caveat>) {
        for timer in &self.posix {
            if timer.names_thread() && !self.is_alone {
                // SAFETY: a restored process has one thread so far.
                unsafe { (*LATE.0.get()).push(timer.clone()) };
            } else {
                timer.restore(&|_| Some(sys::tid()), caveats);
            }
        }
        for (which, value) in self.intervals.iter().enumerate() {
            let Some(value) = value else { continue };
            let none = std::ptr::null_mut::<libc::timeval>();
            // SAFETY: the pointer is to two timevals; the old value is not asked for.
            unsafe { libc::syscall(libc::SYS_setitimer, which, value.as_ptr(), none) };
        }
    }
}

/// A timer that runs. A periodic timer whose signal is pending has no time left, and continues when
/// the program takes the signal. A restored process has no such signal, so the timer continues
/// there a period later.
fn running(mut value: Interval) -> Option<Interval> {
    let is_zero = |time: &libc::timeval| (time.tv_sec, time.tv_usec) == (0, 0);
    if is_zero(&value[1]) {
        value[1] = value[0];
    }
    (!is_zero(&value[1])).then_some(value)
}

impl PosixTimer {
    /// Finds out which of the threads that the timer names live.
    fn find_threads(&mut self, is_alone: bool) -> Result<(), Refused> {
        let found = |thread: TimerThread| match thread {
            TimerThread::Living(tid) if !sys::has_thread(tid) => TimerThread::Ended,
            thread => thread,
        };
        self.thread = self.thread.map(found);
        self.clock = match self.clock {
            Clock::Thread { thread, rate } => Clock::Thread {
                thread: found(thread),
                rate,
            },
            // The system does not say who made the timer. A helper thread of the C library
            // (SIGEV_THREAD) is not the one.
            Clock::OfMaker { rate } => match self.thread {
                _ if is_alone => Clock::OfMaker { rate },
                Some(thread) if self.signal != SIGTIMER => Clock::Thread { thread, rate },
                _ => return Err(Refused::ThreadClock { id: self.id }),
            },
            clock => clock,
        };
        Ok(())
    }

    fn names_thread(&self) -> bool {
        self.thread.is_some() || matches!(self.clock, Clock::Thread { .. })
    }

    /// `now` gives the number that a thread has in this process.
    fn restore(&self, now: &impl Fn(i32) -> Option<i32>, caveats: &mut Vec<Caveat>) {
        let number = |thread| match thread {
            TimerThread::Living(tid) => now(tid),
            TimerThread::Ended => None,
        };
        let clock = match self.clock {
            Clock::Other(id) => Some(id),
            Clock::Process { rate } => Some(cpu_clock(0, rate)),
            Clock::OfMaker { rate } => Some(cpu_clock(0, rate | PER_THREAD)),
            Clock::Thread { thread, rate } => {
                number(thread).map(|tid| cpu_clock(tid, rate | PER_THREAD))
            }
        };
        let target = self.thread.map(number);
        let result = match (clock, target) {
            (Some(clock), Some(Some(tid))) => self.start(clock, self.notify, tid),
            (Some(clock), None) => self.start(clock, self.notify, 0),
            (Some(clock), Some(None)) => self.start(clock, libc::SIGEV_NONE, 0),
            // A clock that stands: the timer is there, and is never over.
            (None, _) => self.create(libc::CLOCK_MONOTONIC, libc::SIGEV_NONE, 0),
        };
        if let Err(errno) = result {
            caveats.push(Caveat::TimerLost { id: self.id, errno });
        }
    }

    fn start(&self, clock: i32, notify: i32, thread: i32) -> sys::Sys<()> {
        self.create(clock, notify, thread)?;
        let none = std::ptr::null_mut::<libc::itimerspec>();
        let setting = &raw const self.setting;
        // SAFETY: the pointer is to an itimerspec; the old value is not asked for.
        let result = unsafe { libc::syscall(libc::SYS_timer_settime, self.id, 0, setting, none) };
        sys::check(result).map(drop)
    }

    /// Makes a timer of the same number, because the program refers to it by number.
    fn create(&self, clock: i32, notify: i32, thread: i32) -> sys::Sys<()> {
        let create_as = |id| self.create_as(id, clock, notify, thread);
        // SAFETY: touches no memory.
        let asked = unsafe { libc::prctl(PR_TIMER_CREATE_RESTORE_IDS, 1, 0, 0, 0) } == 0;
        let mut made = create_as(self.id);
        if asked {
            // SAFETY: touches no memory.
            unsafe { libc::prctl(PR_TIMER_CREATE_RESTORE_IDS, 0, 0, 0, 0) };
            return made.map(drop);
        }
        // The kernel assigns numbers in order: make and drop timers until it assigns this one.
        for _ in 0..NUMBERS_TRIED {
            let id = made?;
            if id == self.id {
                return Ok(());
            }
            // SAFETY: touches no memory; the timer was made here.
            unsafe { libc::syscall(libc::SYS_timer_delete, id) };
            if id > self.id {
                break;
            }
            made = create_as(self.id);
        }
        Err(libc::EBUSY)
    }

    fn create_as(&self, id: i32, clock: i32, notify: i32, thread: i32) -> sys::Sys<i32> {
        let mut id = id;
        // SAFETY: `sigevent` is plain data; the pointers are to it and to a number, which the
        // kernel sets.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = notify;
            event.sigev_signo = self.signal;
            event.sigev_value.sival_ptr = self.value as *mut libc::c_void;
            event.sigev_notify_thread_id = thread;
            let (event, place) = (&raw mut event, &raw mut id);
            sys::check(libc::syscall(libc::SYS_timer_create, clock, event, place))?;
        }
        Ok(id)
    }
}

/// Reads blocks of `ID: 0`, `signal: 14/0000000000000001`, `notify: signal/pid.77`, `ClockID: 1`.
fn posix_timers(text: &[u8]) -> Vec<PosixTimer> {
    let mut timers: Vec<PosixTimer> = Vec::new();
    for line in proc::lines(text) {
        let mut parts = line.splitn(2, |b| *b == b':');
        let (Some(key), Some(value)) = (parts.next(), parts.next()) else {
            continue;
        };
        let value = value.trim_ascii();
        if key == b"ID" {
            let Some(id) = proc::number(value).and_then(|n| i32::try_from(n).ok()) else {
                continue;
            };
            let zero = libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            let setting = libc::itimerspec {
                it_interval: zero,
                it_value: zero,
            };
            timers.push(PosixTimer {
                id,
                clock: Clock::Other(0),
                signal: 0,
                value: 0,
                notify: 0,
                thread: None,
                setting,
            });
        }
        let Some(timer) = timers.last_mut() else {
            continue;
        };
        match key {
            b"signal" => {
                let mut parts = value.splitn(2, |b| *b == b'/');
                timer.signal = parts.next().and_then(proc::number).unwrap_or(0) as i32;
                timer.value = parts.next().and_then(proc::hex).unwrap_or(0);
            }
            b"notify" => {
                let kind = if value.starts_with(b"none") {
                    libc::SIGEV_NONE
                } else {
                    libc::SIGEV_SIGNAL
                };
                let at = value.windows(5).position(|w| w == b"/tid.");
                let thread = at.and_then(|at| proc::number(&value[at + 5..]));
                let thread = thread.and_then(|thread| i32::try_from(thread).ok());
                timer.thread = thread.map(TimerThread::Living);
                timer.notify = kind | timer.thread.map_or(0, |_| libc::SIGEV_THREAD_ID);
            }
            b"ClockID" => {
                let digits = value.strip_prefix(b"-");
                let size = proc::number(digits.unwrap_or(value)).unwrap_or(0) as i32;
                timer.clock = Clock::of(if digits.is_some() { -size } else { size });
            }
            _ => {}
        }
    }
    timers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_whose_signal_waits_continues() {
        let times = |numbers: [i64; 2]| numbers.map(|tv_usec| libc::timeval { tv_sec: 0, tv_usec });
        let left = |numbers| running(times(numbers)).map(|value| value.map(|time| time.tv_usec));
        assert_eq!(left([3000, 0]), Some([3000, 3000]));
        assert_eq!(left([3000, 7]), Some([3000, 7]));
        assert_eq!(left([0, 7]), Some([0, 7]));
        assert_eq!(left([0, 0]), None);
    }

    #[test]
    fn timers_are_read() {
        let text = b"ID: 7\nsignal: 14/000000000000beef\nnotify: signal/pid.77\nClockID: 1\nID: 9\nsignal: 0/0\nnotify: none/tid.3\nClockID: -6\n";
        let timers = posix_timers(text);
        let seen: Vec<_> = timers
            .iter()
            .map(|t| (t.id, t.signal, t.value, t.notify, t.clock))
            .collect();
        assert_eq!(
            seen[0],
            (7, 14, 0xbeef, libc::SIGEV_SIGNAL, Clock::Other(1))
        );
        let notify = libc::SIGEV_NONE | libc::SIGEV_THREAD_ID;
        assert_eq!(seen[1], (9, 0, 0, notify, Clock::Process { rate: 2 }));
        let threads = timers.iter().map(|timer| timer.thread);
        assert!(threads.eq([None, Some(TimerThread::Living(3))]));
        assert_eq!(posix_timers(b"signal: 3/1\nID: x\n").len(), 0);
    }

    #[test]
    fn a_clock_of_an_unknown_thread_is_refused() {
        let text = b"ID: 4\nsignal: 14/0\nnotify: signal/pid.3\nClockID: -2\n";
        let mut timer = posix_timers(text).remove(0);
        assert_eq!(
            timer.find_threads(false),
            Err(Refused::ThreadClock { id: 4 })
        );
        assert_eq!(timer.find_threads(true), Ok(()));
        let helper = format!(
            "ID: 4\nsignal: 32/0\nnotify: signal/tid.{}\nClockID: -2\n",
            sys::tid()
        );
        let mut timer = posix_timers(helper.as_bytes()).remove(0);
        assert_eq!(
            timer.find_threads(false),
            Err(Refused::ThreadClock { id: 4 })
        );
    }
}
