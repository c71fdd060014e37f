//! Requests by signal to processes whose first thread does not take the signal.

use std::ptr::null_mut;
use std::time::{Duration, Instant};

use rejoin_tests::folder::Folder;

use crate::support::{self, Job, LIMIT, Rank, Test};
use crate::threads::{GENERATIONS, Workers, block_all_signals, sleep_ms, sum_of, sum_until};

pub const TESTS: &[Test] = &[
    ("requests_come_past_the_mask_of_the_only_thread", alone),
    (
        "requests_come_by_another_thread_past_the_mask_of_the_first",
        by_another,
    ),
    ("requests_come_past_the_masks_of_all_threads", past_all),
    (
        "requests_come_by_another_thread_if_the_first_has_ended",
        without_first,
    ),
    (
        "requests_past_masks_leave_the_change_of_users_alone",
        beside_users,
    ),
];

/// Requests an image until it is there.
pub fn image_by_signal(job: &mut Job, epoch: u32) {
    use std::os::fd::AsRawFd as _;
    let start = Instant::now();
    while !support::readable(job.socket.as_raw_fd(), Duration::from_millis(2)) {
        assert!(start.elapsed() < LIMIT, "no image by signal");
        job.try_order(epoch);
    }
    job.imaged();
}

/// A rank whose first thread computes with all signals blocked, beside threads that `start` makes.
/// `is_first`: the rank has no image from before.
fn deaf_first(name: &str, is_first: bool, start: impl FnOnce(&mut Workers)) {
    let folder = Folder::new(name);
    let (end, file) = (folder.join("end"), folder.join("end"));
    let mut job = Job::start(move |rank: &mut Rank| {
        let mut workers = Workers::default();
        rank.accept_checkpoints();
        start(&mut workers);
        rank.serve(|rank, _| {
            rank.say("now");
            let (rounds, sum) = rank.user(|| {
                block_all_signals();
                sum_until(&file)
            });
            rank.say(&format!("{rounds} {sum} {:?}", workers.late(2)));
        });
    });
    if !is_first {
        // The C library replaces the handler when it makes the first further thread.
        job.image();
    }
    job.tell("compute");
    job.expect("now");
    for generation in 1..=GENERATIONS {
        image_by_signal(&mut job, generation);
        job.restore(generation);
    }
    std::fs::write(&end, "").expect("the end");
    let text = job.hear();
    let (rounds, rest) = text.split_once(' ').expect("two words");
    let rounds = rounds.parse().expect("a number");
    assert_eq!(rest, format!("{} []", sum_of(rounds)));
    job.finish();
}

fn alone() {
    deaf_first("deaf", true, |_| {});
}

fn by_another() {
    deaf_first("deaf-first", true, |workers| {
        workers.add(|| sleep_ms(1));
        workers.add(|| std::thread::sleep(Duration::from_micros(300)));
    });
}

fn past_all() {
    deaf_first("all-deaf", false, |workers| {
        for ms in [1, 2] {
            let mut is_blocked = false;
            workers.add(move || {
                if !std::mem::replace(&mut is_blocked, true) {
                    block_all_signals();
                }
                sleep_ms(ms);
            });
        }
    });
}

fn beside_users() {
    deaf_first("users", true, |workers| {
        // glibc sends every thread the signal that parks threads, and waits for all.
        workers.add(|| {
            // SAFETY: changes nothing.
            assert_eq!(unsafe { libc::setresuid(!0, !0, !0) }, 0);
            std::thread::sleep(Duration::from_micros(500));
        });
    });
}

fn without_first() {
    let folder = Folder::new("without-first");
    let (end, file) = (folder.join("end"), folder.join("end"));
    let mut job = Job::start(|rank| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                rank.accept_checkpoints();
                rank.serve(|rank, _| {
                    rank.say("now");
                    let (rounds, sum) = rank.user(|| sum_until(&file));
                    rank.say(&format!("{}", sum == sum_of(rounds)));
                });
                // SAFETY: ends the process.
                unsafe { libc::_exit(0) };
            });
            // SAFETY: ends this thread alone; the scope's memory stays.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        });
    });
    job.tell("compute");
    job.expect("now");
    let start = Instant::now();
    while support::status_of(job.pid, "State") != "Z (zombie)" {
        assert!(start.elapsed() < LIMIT, "the first thread does not end");
        sleep_ms(1);
    }
    image_by_signal(&mut job, 1);
    job.restore(1);
    std::fs::write(&end, "").expect("the end");
    job.expect("true");
    job.finish();
}

/// The program's own wait for all signals continues, though an image is taken meanwhile.
pub fn in_sigwait() {
    let mut job = Job::start(|rank| {
        rank.accept_checkpoints();
        block_all_signals();
        rank.serve(|rank, _| {
            rank.say("now");
            let found = rank.user(|| {
                // SAFETY: the pointers are to a set of this frame and to a timespec.
                unsafe {
                    let mut every: libc::sigset_t = std::mem::zeroed();
                    libc::sigfillset(&mut every);
                    let time = libc::timespec {
                        tv_sec: 60,
                        tv_nsec: 0,
                    };
                    libc::sigtimedwait(&every, null_mut(), &time)
                }
            });
            rank.say(&format!("{found}"));
        });
    });
    job.tell("wait");
    job.expect("now");
    job.sleeps_in(libc::SYS_rt_sigtimedwait);
    for generation in 1..=GENERATIONS {
        image_by_signal(&mut job, generation);
        job.restore(generation);
        job.sleeps_in(libc::SYS_rt_sigtimedwait);
    }
    use std::os::fd::AsRawFd as _;
    support::kill(job.pidfd.as_raw_fd(), libc::SIGUSR2);
    job.expect(&format!("{}", libc::SIGUSR2));
    job.finish();
}
