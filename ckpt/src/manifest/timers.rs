//! Interval timers and POSIX timers. A clone inherits none of them.

use std::cell::UnsafeCell;

use crate::error::Caveat;
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
    clock: i32,
    signal: i32,
    value: u64,
    notify: i32,
    /// The thread that gets the signal, if only that one does.
    thread: Option<i32>,
    setting: libc::itimerspec,
}

/// Timers of a restored process whose threads do not exist yet.
struct LateTimers(UnsafeCell<Vec<PosixTimer>>);

// SAFETY: used only while one thread of the process runs.
unsafe impl Sync for LateTimers {}

static LATE: LateTimers = LateTimers(UnsafeCell::new(Vec::new()));

/// Sets the timers again whose signals go to one of several threads. `thread` gives the number that
/// a thread has now. To be called in a restored process whose threads exist, by the thread that
/// made them.
pub(crate) fn restore_late(thread: impl Fn(i32) -> Option<i32>) {
    // SAFETY: the other threads do not use this.
    let late = std::mem::take(unsafe { &mut *LATE.0.get() });
    for timer in late {
        if let Some(thread) = timer.thread.and_then(&thread) {
            timer.restore(thread, &mut Vec::new());
        }
    }
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
    pub fn capture() -> Self {
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
            // SAFETY: the pointer is to an itimerspec.
            unsafe { libc::syscall(libc::SYS_timer_gettime, timer.id, &raw mut timer.setting) };
            let setting = &mut timer.setting;
            if (setting.it_value.tv_sec, setting.it_value.tv_nsec) == (0, 0) {
                setting.it_value = setting.it_interval;
            }
        }
        timers
    }

    /// Sets them again.
    pub fn restore(&self, caveats: &mut Vec<Caveat>) {
        for timer in &self.posix {
            if timer.thread.is_some() && !self.is_alone {
                // SAFETY: a restored process has one thread so far.
                unsafe { (*LATE.0.get()).push(timer.clone()) };
            } else {
                timer.restore(sys::tid(), caveats);
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
    /// `thread` gets the signals, if only one thread does.
    fn restore(&self, thread: i32, caveats: &mut Vec<Caveat>) {
        let result = self.create(thread).and_then(|()| {
            let none = std::ptr::null_mut::<libc::itimerspec>();
            let setting = &raw const self.setting;
            // SAFETY: the pointer is to an itimerspec; the old value is not asked for.
            sys::check(unsafe { libc::syscall(libc::SYS_timer_settime, self.id, 0, setting, none) })
        });
        if let Err(errno) = result {
            caveats.push(Caveat::TimerLost { id: self.id, errno });
        }
    }

    /// Makes a timer of the same number, because the program refers to it by number.
    fn create(&self, thread: i32) -> sys::Sys<()> {
        // SAFETY: touches no memory.
        let asked = unsafe { libc::prctl(PR_TIMER_CREATE_RESTORE_IDS, 1, 0, 0, 0) } == 0;
        let mut made = self.create_as(self.id, thread);
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
            made = self.create_as(self.id, thread);
        }
        Err(libc::EBUSY)
    }

    fn create_as(&self, id: i32, thread: i32) -> sys::Sys<i32> {
        let mut id = id;
        // SAFETY: `sigevent` is plain data; the pointers are to it and to a number, which the
        // kernel sets.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = self.notify;
            event.sigev_signo = self.signal;
            event.sigev_value.sival_ptr = self.value as *mut libc::c_void;
            event.sigev_notify_thread_id = thread;
            let (event, place) = (&raw mut event, &raw mut id);
            sys::check(libc::syscall(
                libc::SYS_timer_create,
                self.clock,
                event,
                place,
            ))?;
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
                clock: 0,
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
                timer.thread = thread.and_then(|thread| i32::try_from(thread).ok());
                timer.notify = kind | timer.thread.map_or(0, |_| libc::SIGEV_THREAD_ID);
            }
            b"ClockID" => {
                let digits = value.strip_prefix(b"-");
                let size = proc::number(digits.unwrap_or(value)).unwrap_or(0) as i32;
                timer.clock = if digits.is_some() { -size } else { size };
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
        assert_eq!(seen[0], (7, 14, 0xbeef, libc::SIGEV_SIGNAL, 1));
        assert_eq!(
            seen[1],
            (9, 0, 0, libc::SIGEV_NONE | libc::SIGEV_THREAD_ID, -6)
        );
        assert_eq!((timers[0].thread, timers[1].thread), (None, Some(3)));
        assert_eq!(posix_timers(b"signal: 3/1\nID: x\n").len(), 0);
    }
}
