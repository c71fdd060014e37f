//! Calls that a checkpoint request interrupts. The program sees neither EINTR nor a shorter time.
//! This holds in the rank and in a process restored from an image taken in the middle of the call.

use std::os::fd::AsRawFd;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use libc::{c_int, timespec};

use crate::support::{self, Job, Test};

pub const TESTS: &[Test] = &[
    ("calls_nanosleep", || {
        timed(libc::SYS_clock_nanosleep, nanosleep)
    }),
    ("calls_usleep", || timed(libc::SYS_clock_nanosleep, usleep)),
    ("calls_nanosleep_without_a_rest", || {
        timed(libc::SYS_nanosleep, raw_nanosleep)
    }),
    ("calls_clock_nanosleep_until", || {
        timed(libc::SYS_clock_nanosleep, sleep_until)
    }),
    ("calls_poll", || timed(libc::SYS_poll, poll)),
    ("calls_select", || timed(libc::SYS_pselect6, select)),
    ("calls_pselect", || timed(libc::SYS_pselect6, pselect)),
    ("calls_ppoll", || timed(libc::SYS_ppoll, ppoll)),
    ("calls_epoll_wait", || {
        timed(libc::SYS_epoll_wait, epoll_wait)
    }),
    ("calls_epoll_pwait", || {
        timed(libc::SYS_epoll_pwait, epoll_pwait)
    }),
    ("calls_epoll_pwait2", || {
        timed(libc::SYS_epoll_pwait2, epoll_pwait2)
    }),
    ("calls_receive_timeout", || {
        timed(libc::SYS_recvfrom, receive_timeout)
    }),
    ("calls_sem_timedwait", || {
        timed(libc::SYS_futex, sem_timedwait)
    }),
    ("calls_futex_relative", || {
        timed(libc::SYS_futex, futex_relative)
    }),
    ("calls_semtimedop", || {
        timed(libc::SYS_semtimedop, semtimedop)
    }),
    ("calls_sigtimedwait", || {
        timed(libc::SYS_rt_sigtimedwait, sigtimedwait)
    }),
    ("calls_semop_awaits_its_event", semop),
    ("calls_read_awaits_its_event", read),
    ("calls_sigwaitinfo_awaits_its_signal", || {
        signalled(libc::SYS_rt_sigtimedwait, sigwait)
    }),
    ("calls_pause_awaits_its_signal", || {
        signalled(libc::SYS_pause, pause)
    }),
    ("calls_sigsuspend_awaits_its_signal", || {
        signalled(libc::SYS_rt_sigsuspend, sigsuspend)
    }),
    (
        "calls_the_programs_own_signals_still_interrupt",
        own_signals,
    ),
    (
        "calls_a_signal_during_the_handler_interrupts_a_poll",
        || {
            meanwhile(libc::SYS_poll, forever_poll, -i64::from(libc::EINTR));
        },
    ),
    (
        "calls_a_signal_during_the_handler_interrupts_a_read",
        || {
            meanwhile(libc::SYS_read, forever_read, -i64::from(libc::EINTR));
        },
    ),
    ("calls_many_orders_do_not_prolong_a_poll_forever", || {
        many_orders(libc::SYS_poll, poll)
    }),
    ("calls_many_orders_do_not_prolong_a_sleep_forever", || {
        many_orders(libc::SYS_nanosleep, raw_nanosleep);
    }),
    (
        "calls_a_changed_disposition_gets_no_signal",
        changed_disposition,
    ),
    ("calls_errno_is_kept", errno_is_kept),
];

/// Long enough for an order to come in the middle.
pub const TIME: Duration = Duration::from_millis(120);

fn time() -> timespec {
    timespec {
        tv_sec: 0,
        tv_nsec: TIME.as_nanos() as i64,
    }
}

pub fn errno() -> c_int {
    // SAFETY: each thread has a place for it.
    unsafe { *libc::__errno_location() }
}

/// A result, or the negative number of the error.
pub fn outcome(result: impl Into<i64>) -> i64 {
    let result = result.into();
    if result < 0 {
        -i64::from(errno())
    } else {
        result
    }
}

/// A call that ends by its time-out: the expected result, and the call.
pub type Call = (i64, fn() -> i64);

/// An image in the middle of the call; the rank's call and the runner's call both end as if nothing
/// had happened.
pub fn timed(number: i64, call: fn() -> Call) {
    let (expected, call) = call();
    let mut job = Job::start(move |rank| {
        rank.accept_checkpoints();
        rank.serve(|rank, _| {
            rank.say("now");
            let start = Instant::now();
            let result = rank.user(call);
            let word = if start.elapsed() >= TIME {
                "whole"
            } else {
                "short"
            };
            rank.say(&format!("{result} {word}"));
        });
    });
    let expected = format!("{expected} whole");
    job.tell("call");
    job.expect("now");
    job.sleeps_in(number);
    job.order(1);
    job.imaged();
    job.expect(&expected);
    for generation in [1, 1] {
        job.restore(generation);
        job.expect(&expected);
    }
    job.finish();
}

fn nanosleep() -> Call {
    // SAFETY: the pointers are to timespecs.
    (0, || unsafe {
        let mut rest = time();
        outcome(libc::nanosleep(&time(), &mut rest))
    })
}

fn usleep() -> Call {
    // SAFETY: touches no memory.
    (0, || unsafe {
        outcome(libc::usleep(TIME.as_micros() as u32))
    })
}

fn raw_nanosleep() -> Call {
    // SAFETY: the pointer is to a timespec.
    (0, || unsafe {
        outcome(libc::syscall(
            libc::SYS_nanosleep,
            &time(),
            null_mut::<timespec>(),
        ))
    })
}

fn sleep_until() -> Call {
    // SAFETY: the pointers are to timespecs.
    (0, || unsafe {
        let mut until = time();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut until);
        until.tv_nsec += TIME.as_nanos() as i64;
        until.tv_sec += until.tv_nsec / 1_000_000_000;
        until.tv_nsec %= 1_000_000_000;
        let flags = libc::TIMER_ABSTIME;
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, flags, &until, null_mut()).into()
    })
}

fn poll() -> Call {
    // SAFETY: nothing is looked at.
    (0, || unsafe {
        outcome(libc::poll(null_mut(), 0, TIME.as_millis() as i32))
    })
}

fn select() -> Call {
    // SAFETY: the pointer is to a timeval.
    (0, || unsafe {
        let mut time = libc::timeval {
            tv_sec: 0,
            tv_usec: TIME.as_micros() as i64,
        };
        outcome(libc::select(
            0,
            null_mut(),
            null_mut(),
            null_mut(),
            &mut time,
        ))
    })
}

fn pselect() -> Call {
    // SAFETY: the pointers are to a set and to a timespec.
    (0, || unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        outcome(libc::pselect(
            0,
            null_mut(),
            null_mut(),
            null_mut(),
            &time(),
            &set,
        ))
    })
}

fn ppoll() -> Call {
    // SAFETY: the pointer is to a timespec.
    (0, || unsafe {
        outcome(libc::ppoll(null_mut(), 0, &time(), std::ptr::null()))
    })
}

fn epoll() -> c_int {
    // SAFETY: touches no memory.
    unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }
}

fn epoll_wait() -> Call {
    // SAFETY: the pointer is to one event.
    (0, || unsafe {
        let mut event: libc::epoll_event = std::mem::zeroed();
        outcome(libc::epoll_wait(
            epoll(),
            &mut event,
            1,
            TIME.as_millis() as i32,
        ))
    })
}

fn epoll_pwait() -> Call {
    // SAFETY: the pointers are to one event and to a set.
    (0, || unsafe {
        let mut event: libc::epoll_event = std::mem::zeroed();
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        outcome(libc::epoll_pwait(
            epoll(),
            &mut event,
            1,
            TIME.as_millis() as i32,
            &set,
        ))
    })
}

fn epoll_pwait2() -> Call {
    // SAFETY: the pointers are to one event and to a timespec.
    (0, || unsafe {
        let mut event: libc::epoll_event = std::mem::zeroed();
        let (number, fd, time) = (libc::SYS_epoll_pwait2, epoll(), time());
        outcome(libc::syscall(
            number,
            fd,
            &raw mut event,
            1,
            &raw const time,
            0,
            8,
        ))
    })
}

pub fn receive_timeout() -> Call {
    // SAFETY: the pointers are to a timeval and to a byte.
    (-i64::from(libc::EAGAIN), || unsafe {
        let mut ends = [0; 2];
        libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, ends.as_mut_ptr());
        let time = libc::timeval {
            tv_sec: 0,
            tv_usec: TIME.as_micros() as i64,
        };
        let size = std::mem::size_of_val(&time) as u32;
        let option = (&raw const time).cast();
        libc::setsockopt(ends[0], libc::SOL_SOCKET, libc::SO_RCVTIMEO, option, size);
        let mut byte = 0u8;
        outcome(libc::recv(ends[0], (&raw mut byte).cast(), 1, 0) as i64)
    })
}

fn sem_timedwait() -> Call {
    // SAFETY: the pointers are to a semaphore and to a timespec.
    (-i64::from(libc::ETIMEDOUT), || unsafe {
        let mut semaphore: libc::sem_t = std::mem::zeroed();
        libc::sem_init(&mut semaphore, 0, 0);
        let mut until = time();
        libc::clock_gettime(libc::CLOCK_REALTIME, &mut until);
        until.tv_nsec += TIME.as_nanos() as i64;
        until.tv_sec += until.tv_nsec / 1_000_000_000;
        until.tv_nsec %= 1_000_000_000;
        outcome(libc::sem_timedwait(&mut semaphore, &until))
    })
}

fn futex_relative() -> Call {
    // The number goes through the C library's `syscall`, where the code does not tell it: the
    // manager's hint does. SAFETY: the pointers are to a word and to a timespec.
    (-i64::from(libc::ETIMEDOUT), || unsafe {
        let (word, time) = (0u32, time());
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        outcome(libc::syscall(
            libc::SYS_futex,
            &raw const word,
            operation,
            0,
            &raw const time,
        ))
    })
}

fn semaphores() -> c_int {
    // SAFETY: touches no memory.
    unsafe { libc::semget(libc::IPC_PRIVATE, 1, 0o600) }
}

fn remove_semaphores(set: c_int) {
    // SAFETY: touches no memory.
    unsafe { libc::semctl(set, 0, libc::IPC_RMID) };
}

fn take_one() -> libc::sembuf {
    libc::sembuf {
        sem_num: 0,
        sem_op: -1,
        sem_flg: 0,
    }
}

fn semtimedop() -> Call {
    let set = semaphores();
    SET.store(set, Ordering::Relaxed);
    // SAFETY: the pointers are to an operation and to a timespec.
    (-i64::from(libc::EAGAIN), || unsafe {
        let time = time();
        let (mut take, set) = (take_one(), SET.load(Ordering::Relaxed));
        let number = libc::SYS_semtimedop;
        outcome(libc::syscall(
            number,
            set,
            &raw mut take,
            1,
            &raw const time,
        ))
    })
}

static SET: AtomicI32 = AtomicI32::new(0);

fn sigtimedwait() -> Call {
    // SAFETY: the pointers are to a set and to a timespec.
    (-i64::from(libc::EAGAIN), || unsafe {
        let set = user_signal();
        libc::sigprocmask(libc::SIG_BLOCK, &set, null_mut());
        outcome(libc::sigtimedwait(&set, null_mut(), &time()))
    })
}

fn user_signal() -> libc::sigset_t {
    // SAFETY: a set is plain data.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGUSR1);
        set
    }
}

/// A call that waits forever; `event` ends it, once in the rank and once in the runner.
fn eventually(number: i64, call: impl Fn() -> i64, event: impl Fn(&Job)) {
    let mut job = Job::start(|rank| {
        rank.accept_checkpoints();
        rank.serve(|rank, _| {
            rank.say("now");
            let result = rank.user(&call);
            rank.say(&format!("{result}"));
        });
    });
    job.tell("call");
    job.expect("now");
    for epoch in 1..=3 {
        job.sleeps_in(number);
        job.order(epoch);
        job.imaged();
    }
    job.sleeps_in(number);
    event(&job);
    job.expect("1");
    for _ in 0..2 {
        job.restore(1);
        job.sleeps_in(number);
        event(&job);
        job.expect("1");
    }
    job.finish();
}

fn read() {
    let (from, to) = support::pipe();
    let call = || {
        let mut byte = 0u8;
        // SAFETY: the pointer is to one byte.
        outcome(unsafe { libc::read(from.as_raw_fd(), (&raw mut byte).cast(), 1) } as i64)
    };
    eventually(libc::SYS_read, call, |_| {
        let byte = b"x".as_ptr().cast();
        // SAFETY: the pointer is to one byte.
        let count = unsafe { libc::write(to.as_raw_fd(), byte, 1) };
        assert_eq!(count, 1);
    });
}

fn semop() {
    let set = semaphores();
    // SAFETY: the pointers are to operations.
    let call = || unsafe { outcome(libc::semop(set, &mut take_one(), 1)) + 1 };
    // SAFETY: as above.
    eventually(libc::SYS_semtimedop, call, |_| unsafe {
        let mut give = libc::sembuf {
            sem_op: 1,
            ..take_one()
        };
        assert_eq!(libc::semop(set, &mut give, 1), 0);
    });
    remove_semaphores(set);
}

static CAUGHT: AtomicI32 = AtomicI32::new(0);

extern "C" fn count(_: c_int) {
    CAUGHT.fetch_add(1, Ordering::Relaxed);
}

fn catch(flags: c_int) {
    // SAFETY: the handler has the right signature.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = count as *const () as usize;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, null_mut()), 0);
    }
}

fn signalled(number: i64, call: fn() -> i64) {
    eventually(number, call, |job| {
        support::kill(job.pidfd.as_raw_fd(), libc::SIGUSR1)
    });
}

fn sigwait() -> i64 {
    let set = user_signal();
    // SAFETY: the pointer is to a set.
    unsafe {
        libc::sigprocmask(libc::SIG_BLOCK, &set, null_mut());
        i64::from(libc::sigwaitinfo(&set, null_mut()) == libc::SIGUSR1)
    }
}

fn pause() -> i64 {
    catch(libc::SA_RESTART);
    // SAFETY: waits for a signal.
    let result = outcome(unsafe { libc::pause() });
    i64::from(result == -i64::from(libc::EINTR) && CAUGHT.load(Ordering::Relaxed) == 1)
}

fn sigsuspend() -> i64 {
    catch(libc::SA_RESTART);
    let set = user_signal();
    // SAFETY: the pointers are to sets.
    let result = unsafe {
        libc::sigprocmask(libc::SIG_BLOCK, &set, null_mut());
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        outcome(libc::sigsuspend(&none))
    };
    i64::from(result == -i64::from(libc::EINTR) && CAUGHT.load(Ordering::Relaxed) == 1)
}

/// A signal of the program's comes while the handler works: the call is interrupted by that, as
/// ever.
fn own_signals() {
    let call = || {
        catch(0);
        // SAFETY: nothing is looked at.
        outcome(unsafe { libc::poll(null_mut(), 0, 60_000) })
    };
    let mut job = Job::start(|rank| {
        rank.accept_checkpoints();
        rank.serve(|rank, _| {
            rank.say("now");
            let result = rank.user(call);
            rank.say(&format!("{result} {}", CAUGHT.load(Ordering::Relaxed)));
        });
    });
    job.tell("call");
    job.expect("now");
    job.sleeps_in(libc::SYS_poll);
    // Both wait when it runs again; the lower number, the program's, is delivered last: its frame
    // is on top.
    support::kill(job.pidfd.as_raw_fd(), libc::SIGSTOP);
    job.order(1);
    support::kill(job.pidfd.as_raw_fd(), libc::SIGUSR1);
    support::kill(job.pidfd.as_raw_fd(), libc::SIGCONT);
    job.imaged();
    let expected = format!("{} 1", -libc::EINTR);
    job.expect(&expected);
    job.restore(1);
    job.expect(&expected);
    job.finish();
}

fn forever_poll() -> i64 {
    catch(libc::SA_RESTART);
    // SAFETY: nothing is looked at.
    outcome(unsafe { libc::poll(null_mut(), 0, 60_000) })
}

fn forever_read() -> i64 {
    catch(0);
    let (from, _to) = support::pipe();
    let mut byte = 0u8;
    // SAFETY: the pointer is to one byte.
    outcome(unsafe { libc::read(from.as_raw_fd(), (&raw mut byte).cast(), 1) } as i64)
}

/// The program's signal comes while the image is taken: after it the call must not continue as if
/// nothing had come.
fn meanwhile(number: i64, call: fn() -> i64, expected: i64) {
    let mut job = Job::start(move |rank| {
        support::rank::MEANWHILE.store(libc::SIGUSR1, Ordering::Release);
        rank.accept_checkpoints();
        rank.serve(|rank, _| {
            rank.say("now");
            let result = rank.user(call);
            rank.say(&format!("{result} {}", CAUGHT.load(Ordering::Relaxed)));
        });
    });
    job.tell("call");
    job.expect("now");
    job.sleeps_in(number);
    job.order(1);
    job.imaged();
    let expected = format!("{expected} 1");
    job.expect(&expected);
    job.restore(1);
    job.expect(&expected);
    job.finish();
}

/// Orders come all the time, for much longer than the time-out.
pub fn many_orders(number: i64, call: fn() -> Call) {
    let (expected, call) = call();
    let job = Job::start(move |rank| {
        rank.accept_checkpoints();
        rank.serve(|rank, _| {
            rank.say("now");
            let start = Instant::now();
            let result = rank.user(call);
            let word = if start.elapsed() >= TIME {
                "whole"
            } else {
                "short"
            };
            rank.say(&format!("end {result} {word}"));
        });
    });
    job.tell("call");
    job.expect("now");
    job.sleeps_in(number);
    // Without a memory of its time the call would be as long as the orders continue.
    let mut epoch = 0;
    let text = loop {
        epoch += 1;
        assert!(epoch < 20_000, "the call does not end");
        job.order(epoch);
        let (bytes, _) =
            support::receive(job.socket.as_raw_fd(), support::LIMIT).expect("the rank lives");
        if bytes.starts_with(b"end") {
            break String::from_utf8(bytes).expect("text");
        }
    };
    assert_eq!(text, format!("end {expected} whole"));
    job.tell("end");
    support::end_of(job.pidfd.as_raw_fd());
}

fn changed_disposition() {
    let mut job = Job::start(|rank| {
        rank.accept_checkpoints();
        rank.serve(|rank, _| {
            // SAFETY: takes no address.
            unsafe { libc::signal(support::signal(), libc::SIG_DFL) };
            rank.say("done");
        });
    });
    assert_eq!(job.ask("change"), "done");
    assert!(!job.try_order(1), "it would die of the signal");
    job.image();
    job.restore(1);
    job.finish();
}

fn errno_is_kept() {
    let mut job = Job::start(|rank| {
        rank.accept_checkpoints();
        rank.serve(|rank, _| {
            rank.say("now");
            let is_same = rank.user(|| {
                // SAFETY: each thread has a place for it.
                unsafe { *libc::__errno_location() = 77 };
                let start = Instant::now();
                while start.elapsed() < TIME {
                    std::hint::spin_loop();
                }
                errno() == 77
            });
            rank.say(&format!("{is_same}"));
        });
    });
    job.tell("call");
    job.expect("now");
    job.order(1);
    job.imaged();
    job.expect("true");
    job.restore(1);
    job.expect("true");
    job.finish();
}
