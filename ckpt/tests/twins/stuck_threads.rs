//! Threads that do not park: no image is taken, and a later try succeeds.

use std::os::fd::AsRawFd;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

use crate::support::{self, Job, Test};
use crate::threads::{Workers, sleep_ms};

pub const TESTS: &[Test] = &[
    ("threads_that_cannot_be_parked_are_named", unparkable),
    (
        "threads_in_uninterruptible_sleep_are_named",
        uninterruptible,
    ),
];

fn unparkable() {
    static IS_OPEN: AtomicBool = AtomicBool::new(false);
    static TID: AtomicI32 = AtomicI32::new(0);
    let raw_mask = |mask: u64| {
        let (new, none) = (&raw const mask, std::ptr::null_mut::<u64>());
        // SAFETY: the pointer is to a set of the size given.
        unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, new, none, 8) };
    };
    let mut job = Job::start(move |rank| {
        let mut workers = Workers::default();
        workers.add(|| sleep_ms(1));
        std::thread::Builder::new()
            .name("deaf".into())
            .spawn(move || {
                raw_mask(!0);
                // SAFETY: touches no memory.
                TID.store(
                    unsafe { libc::syscall(libc::SYS_gettid) } as i32,
                    Ordering::Release,
                );
                while !IS_OPEN.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
                raw_mask(0);
                loop {
                    sleep_ms(1);
                }
            })
            .expect("a thread");
        while TID.load(Ordering::Acquire) == 0 {
            sleep_ms(1);
        }
        rank.serve(|rank, word| {
            if word == "open" {
                IS_OPEN.store(true, Ordering::Release);
            }
            let tid = TID.load(Ordering::Acquire);
            rank.say(&format!("late: {:?} {tid}", workers.late(3)));
        });
    });
    let text = job.ask("well?");
    let tid = text
        .strip_prefix("late: [] ")
        .expect("none is late")
        .to_owned();
    for _ in 0..2 {
        let start = Instant::now();
        assert_eq!(
            job.ask("image"),
            format!(
                "refused: thread {tid} (deaf, state R) of the program could not be stopped within \
                 a second"
            )
        );
        assert!(
            start.elapsed() < Duration::from_secs(3),
            "{:?}",
            start.elapsed()
        );
        assert!(job.ask("well?").starts_with("late: []"));
    }
    assert!(job.ask("open").starts_with("late: []"));
    job.image();
    job.restore(1);
    assert!(job.ask("well?").starts_with("late: []"));
    job.finish();
}

/// A thread that waits for a child it has made by `vfork` takes no signal.
fn uninterruptible() {
    static TID: AtomicI32 = AtomicI32::new(0);
    let mut job = Job::start(move |rank| {
        let (read, write) = support::pipe();
        let (read, mut write) = (read.as_raw_fd(), Some(write));
        let mut workers = Workers::default();
        workers.add(|| sleep_ms(1));
        let stuck = move || {
            TID.store(own_tid(), Ordering::Release);
            wait_like_vfork(read);
            TID.store(0, Ordering::Release);
            loop {
                sleep_ms(1);
            }
        };
        let builder = std::thread::Builder::new().name("stuck".into());
        builder.spawn(stuck).expect("a thread");
        while TID.load(Ordering::Acquire) == 0 {
            sleep_ms(1);
        }
        rank.serve(|rank, word| {
            if word == "release" {
                write = None;
                while TID.load(Ordering::Acquire) != 0 {
                    sleep_ms(1);
                }
            }
            let tid = TID.load(Ordering::Acquire);
            rank.say(&format!("late: {:?} {tid}", workers.late(3)));
        });
    });
    let text = job.ask("well?");
    let tid = text.strip_prefix("late: [] ").expect("none is late");
    let why = format!(
        "refused: thread {tid} (stuck, state D) of the program could not be stopped within a second"
    );
    for _ in 0..2 {
        assert_eq!(job.ask("image"), why);
        assert!(job.ask("well?").starts_with("late: []"));
    }
    assert_eq!(job.ask("release"), "late: [] 0");
    job.image();
    job.restore(1);
    assert_eq!(job.ask("well?"), "late: [] 0");
    job.finish();
}

fn own_tid() -> i32 {
    // SAFETY: touches no memory.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// Makes a child that reads to the end of a pipe, and waits for its end as `vfork` does.
fn wait_like_vfork(read: i32) {
    let flags = libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the child has memory of its own, and makes system calls only.
    unsafe {
        let pid = libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0);
        if pid == 0 {
            libc::syscall(libc::SYS_close_range, read + 1, u32::MAX, 0);
            libc::close_range(0, (read - 1) as u32, 0);
            let mut byte = 0u8;
            libc::read(read, (&raw mut byte).cast(), 1);
            libc::_exit(0);
        }
        assert_eq!(libc::waitpid(pid as i32, null_mut(), 0), pid as i32);
    }
}
