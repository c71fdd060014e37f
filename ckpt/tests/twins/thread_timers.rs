//! Timers that signal one thread, and timers that measure the processor time of one thread.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Instant;

use crate::support::{Job, LIMIT, Test};
use crate::threads::{Workers, all_go_on, with_workers};

pub const TESTS: &[Test] = &[
    ("thread_timers_signal_their_threads", signal_their_threads),
    ("thread_timers_measure_their_threads", measure_their_threads),
    ("thread_timers_measure_another_thread", measure_another),
    (
        "thread_timers_of_the_c_librarys_helper_call_back",
        call_back,
    ),
    (
        "thread_timers_of_threads_that_have_ended_stay",
        of_ended_thread,
    ),
    ("thread_timers_of_the_only_thread_go_on", of_only_thread),
    (
        "thread_timers_with_the_clock_of_an_unknown_thread_refuse_images",
        of_unknown_thread,
    ),
];

/// Nanoseconds of a timer's period.
const PERIOD: i64 = 3_000_000;

std::thread_local! {
    /// Signals that this thread got.
    static TICKS: AtomicU64 = const { AtomicU64::new(0) };
}

extern "C" fn tick(_: i32) {
    TICKS.with(|ticks| ticks.fetch_add(1, Ordering::AcqRel));
}

fn ticks() -> u64 {
    TICKS.with(|ticks| ticks.load(Ordering::Acquire))
}

/// The number of a thread, and of its clock.
fn own_tid() -> i32 {
    // SAFETY: touches no memory.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// The clock of a thread's processor time.
fn clock_of(tid: i32) -> i32 {
    !tid << 3 | 6
}

fn time_of(clock: i32) -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a timespec.
    assert_eq!(unsafe { libc::clock_gettime(clock, &mut time) }, 0);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Makes a timer by the system call, as profilers do. `tid`: the thread that gets the signal.
fn make_timer(clock: i32, tid: Option<i32>, period: i64) -> i32 {
    let mut id = 0;
    // SAFETY: the structures are plain data; the pointers are to them and to a number.
    unsafe {
        let handler = tick as *const () as usize;
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGUSR1, &action, null_mut());
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_signo = libc::SIGUSR1;
        if let Some(tid) = tid {
            event.sigev_notify = libc::SIGEV_SIGNAL | libc::SIGEV_THREAD_ID;
            event.sigev_notify_thread_id = tid;
        }
        let made = libc::syscall(libc::SYS_timer_create, clock, &raw mut event, &raw mut id);
        assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
    }
    set_timer(id, period);
    id
}

fn set_timer(id: i32, period: i64) {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: period,
    };
    let setting = libc::itimerspec {
        it_interval: time,
        it_value: time,
    };
    let none = null_mut::<libc::itimerspec>();
    // SAFETY: the pointer is to an itimerspec.
    let set = unsafe { libc::syscall(libc::SYS_timer_settime, id, 0, &raw const setting, none) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// Sleeps through the signals of timers.
fn sleep_ms(ms: u64) {
    std::thread::sleep(std::time::Duration::from_millis(ms));
}

fn compute() {
    std::hint::black_box((0..20_000u32).fold(1u32, u32::wrapping_mul));
}

/// Does something until this thread's timer signals it.
fn until_tick(mut step: impl FnMut()) {
    let (before, start) = (ticks(), Instant::now());
    while ticks() == before {
        assert!(start.elapsed() < LIMIT / 3, "no signal of a timer");
        step();
    }
}

/// A thread with a timer that signals it.
fn add(workers: &mut Workers, clock: i32, step: fn()) {
    let mut timer = None;
    workers.add(move || {
        timer.get_or_insert_with(|| make_timer(clock, Some(own_tid()), PERIOD));
        until_tick(step);
    });
}

fn signal_their_threads() {
    all_go_on(with_workers(3, |workers| {
        add(workers, libc::CLOCK_MONOTONIC, || sleep_ms(1));
        add(workers, libc::CLOCK_REALTIME, compute);
        add(workers, libc::CLOCK_PROCESS_CPUTIME_ID, compute);
        // A thread without a timer gets no signal.
        workers.add(|| {
            sleep_ms(1);
            assert_eq!(ticks(), 0);
        });
    }));
}

fn measure_their_threads() {
    all_go_on(with_workers(3, |workers| {
        for _ in 0..2 {
            let mut timer = None;
            workers.add(move || {
                let begin = *timer.get_or_insert_with(|| {
                    make_timer(libc::CLOCK_THREAD_CPUTIME_ID, Some(own_tid()), PERIOD);
                    (own_tid(), time_of(libc::CLOCK_THREAD_CPUTIME_ID))
                });
                until_tick(compute);
                let used = time_of(libc::CLOCK_THREAD_CPUTIME_ID) - begin.1;
                // A thread of a restored process begins at zero.
                let least = (ticks() as i64 - 1) * PERIOD;
                assert!(begin.0 != own_tid() || used >= least, "{used} < {least}");
            });
        }
        // Computes more than the others: with its clock they would get more signals.
        workers.add(compute);
    }));
}

fn measure_another() {
    static MEASURED: AtomicI32 = AtomicI32::new(0);
    all_go_on(with_workers(3, |workers| {
        workers.add(|| {
            let mine = own_tid();
            let _ = MEASURED.compare_exchange(0, mine, Ordering::AcqRel, Ordering::Acquire);
            compute();
        });
        let mut timer = None;
        workers.add(move || {
            while MEASURED.load(Ordering::Acquire) == 0 {
                sleep_ms(1);
            }
            timer.get_or_insert_with(|| {
                let clock = clock_of(MEASURED.load(Ordering::Acquire));
                make_timer(clock, Some(own_tid()), PERIOD)
            });
            until_tick(|| sleep_ms(1));
        });
    }));
}

/// Calls by the C library's helper thread.
static CALLS: AtomicU64 = AtomicU64::new(0);

extern "C" fn called(_: libc::sigval) {
    CALLS.fetch_add(1, Ordering::AcqRel);
}

fn call_back() {
    all_go_on(with_workers(3, |workers| {
        let mut timer: libc::timer_t = null_mut();
        // SAFETY: the structures are plain data; the function stands where glibc expects it, behind
        // value, signal and kind.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD;
            let function = called as *const () as usize;
            let place = (&raw mut event).cast::<u8>().add(16).cast::<usize>();
            place.write_unaligned(function);
            let made = libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer);
            assert_eq!(made, 0);
            let time = libc::timespec {
                tv_sec: 0,
                tv_nsec: PERIOD,
            };
            let setting = libc::itimerspec {
                it_interval: time,
                it_value: time,
            };
            assert_eq!(libc::timer_settime(timer, 0, &setting, null_mut()), 0);
        }
        workers.add(|| {
            let (before, start) = (CALLS.load(Ordering::Acquire), Instant::now());
            while CALLS.load(Ordering::Acquire) == before {
                assert!(start.elapsed() < LIMIT / 3, "no call of a timer");
                sleep_ms(1);
            }
        });
    }));
}

fn of_ended_thread() {
    all_go_on(with_workers(2, |workers| {
        let mut timer = None;
        workers.add(move || {
            let id = *timer.get_or_insert_with(|| {
                let make = || make_timer(libc::CLOCK_MONOTONIC, Some(own_tid()), PERIOD);
                std::thread::spawn(make).join().expect("a timer")
            });
            sleep_ms(1);
            set_timer(id, PERIOD);
            assert_eq!(ticks(), 0);
        });
        workers.add(|| {
            sleep_ms(1);
            assert_eq!(ticks(), 0);
        });
    }));
}

fn of_only_thread() {
    let mut job = Job::start(|rank| {
        make_timer(libc::CLOCK_THREAD_CPUTIME_ID, Some(own_tid()), PERIOD);
        make_timer(clock_of(own_tid()), None, 2 * PERIOD);
        rank.serve(|rank, _| {
            until_tick(compute);
            until_tick(compute);
            rank.say("ticks");
        });
    });
    assert_eq!(job.ask("well?"), "ticks");
    for generation in 1..=2 {
        job.image();
        job.restore(generation);
        assert_eq!(job.ask("well?"), "ticks");
    }
    job.finish();
}

fn of_unknown_thread() {
    let mut job = with_workers(1, |workers| {
        let mut timer = None;
        workers.add(move || {
            timer.get_or_insert_with(|| {
                make_timer(libc::CLOCK_THREAD_CPUTIME_ID, None, 999_999_999)
            });
            sleep_ms(1);
        });
    });
    assert_eq!(job.ask("well?"), "late: []");
    let text = job.ask("image");
    assert!(
        text.starts_with("refused: timer 0 of the program measures the processor time"),
        "{text}"
    );
    assert_eq!(job.ask("well?"), "late: []");
    job.finish();
}
