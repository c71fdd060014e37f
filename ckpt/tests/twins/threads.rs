//! Processes with several threads: all of them are in the image, wherever they are.

use std::os::fd::AsRawFd;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rejoin_tests::folder::Folder;

use crate::support::{self, Job, LIMIT, Rank, Test, end_of, read_to_end};

pub const TESTS: &[Test] = &[
    ("threads_that_compute_go_on", compute),
    ("threads_that_sleep_and_wait_go_on", sleep_and_wait),
    (
        "threads_whose_calls_have_time_outs_wait_the_whole_time",
        time_outs,
    ),
    ("threads_that_block_all_signals_are_in_the_image", blocked),
    ("threads_can_be_joined_in_a_restored_process", joined),
    ("threads_other_than_the_first_take_images", by_another),
    (
        "threads_go_on_after_the_first_one_has_ended",
        without_the_first,
    ),
    (
        "threads_that_change_the_user_meanwhile_do_so",
        change_of_user,
    ),
    (
        "threads_that_cannot_be_made_again_end_the_process",
        no_more_threads,
    ),
    ("threads_by_the_hundred_go_on", hundred),
    ("threads_come_and_go_while_images_are_taken", come_and_go),
    ("threads_take_orders_wherever_they_are", storm),
];

/// How often each rank is restored.
pub const GENERATIONS: u32 = 3;

/// Threads that repeat a step, and count how often they did.
#[derive(Default)]
pub struct Workers(Vec<Arc<AtomicU64>>);

impl Workers {
    /// Starts one. A step that panics ends it, so it advances no more.
    pub fn add(&mut self, mut step: impl FnMut() + Send + 'static) {
        let counter = Arc::new(AtomicU64::new(0));
        self.0.push(counter.clone());
        std::thread::spawn(move || {
            loop {
                step();
                counter.fetch_add(1, Ordering::AcqRel);
            }
        });
    }

    /// Waits until each has advanced by so many steps. Returns the numbers of those that have not.
    pub fn late(&self, steps: u64) -> Vec<usize> {
        let read = |at: usize| self.0[at].load(Ordering::Acquire);
        let begin: Vec<_> = (0..self.0.len()).map(read).collect();
        let start = Instant::now();
        loop {
            let late: Vec<_> = (0..begin.len())
                .filter(|&at| read(at) < begin[at] + steps)
                .collect();
            if late.is_empty() || start.elapsed() > LIMIT / 2 {
                return late;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A rank with such threads, which takes images on request and reports late ones on each word.
pub fn with_workers(steps: u64, start: impl FnOnce(&mut Workers)) -> Job {
    Job::start(move |rank| {
        let mut workers = Workers::default();
        start(&mut workers);
        rank.serve(|rank, _| rank.say(&format!("late: {:?}", workers.late(steps))));
    })
}

/// No thread is late, in the rank and in processes restored from its images.
pub fn all_go_on(mut job: Job) {
    assert_eq!(job.ask("well?"), "late: []");
    for generation in 1..=GENERATIONS {
        job.image();
        assert_eq!(job.ask("well?"), "late: []");
        job.restore(generation);
        assert_eq!(job.ask("well?"), "late: []");
    }
    job.finish();
}

fn compute() {
    all_go_on(with_workers(3, |workers| {
        for seed in 0..3u64 {
            let mut number = seed as f64;
            workers.add(move || {
                let before = number;
                for step in 0..100_000u64 {
                    number += (step as f64).sqrt();
                }
                assert!(number > before);
            });
        }
    }));
}

pub fn sleep_ms(ms: u64) {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: ms as i64 * 1_000_000,
    };
    // SAFETY: the pointer is to a timespec.
    assert_eq!(unsafe { libc::nanosleep(&time, null_mut()) }, 0);
}

/// Two threads that give each other a turn.
fn turns(workers: &mut Workers, wait: impl Fn(usize) + Send + Copy + 'static) {
    for side in 0..2 {
        workers.add(move || wait(side));
    }
}

fn condition(side: usize) {
    static TURN: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());
    let turn = TURN.0.lock().expect("no panic");
    let mut turn = TURN
        .1
        .wait_while(turn, |turn| *turn != side)
        .expect("no panic");
    *turn = 1 - side;
    TURN.1.notify_all();
}

fn pipes(side: usize) {
    static ENDS: [AtomicI32; 2] = [AtomicI32::new(0), AtomicI32::new(0)];
    if ENDS[1].load(Ordering::Acquire) == 0 {
        if side == 1 {
            let mut ends = [0; 2];
            // SAFETY: the pointer is to two numbers.
            assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
            ENDS[0].store(ends[0], Ordering::Release);
            ENDS[1].store(ends[1], Ordering::Release);
        }
        return sleep_ms(1);
    }
    let mut byte = [7u8];
    let [read, write] = [&ENDS[0], &ENDS[1]].map(|end| end.load(Ordering::Acquire));
    // SAFETY: the pointers are to one byte.
    unsafe {
        if side == 0 {
            assert_eq!(libc::read(read, byte.as_mut_ptr().cast(), 1), 1);
            assert_eq!(byte, [7]);
        } else {
            sleep_ms(2);
            assert_eq!(libc::write(write, byte.as_ptr().cast(), 1), 1);
        }
    }
}

fn sleep_and_wait() {
    all_go_on(with_workers(5, |workers| {
        turns(workers, condition);
        turns(workers, pipes);
        workers.add(|| sleep_ms(2));
        // SAFETY: nothing is looked at.
        workers.add(|| assert_eq!(unsafe { libc::poll(null_mut(), 0, 2) }, 0));
        workers.add(|| std::thread::park_timeout(Duration::from_millis(2)));
    }));
}

fn time_outs() {
    const TIME: Duration = Duration::from_millis(80);
    let whole = |call: fn() -> i32| {
        move || {
            let start = Instant::now();
            assert_eq!(call(), 0);
            assert!(start.elapsed() >= TIME, "{:?}", start.elapsed());
        }
    };
    let mut job = with_workers(1, |workers| {
        workers.add(whole(|| {
            sleep_ms(TIME.as_millis() as u64);
            0
        }));
        // SAFETY: nothing is looked at.
        workers.add(whole(|| unsafe {
            libc::poll(null_mut(), 0, TIME.as_millis() as i32)
        }));
        workers.add(whole(|| {
            let mut time = libc::timeval {
                tv_sec: 0,
                tv_usec: TIME.as_micros() as i64,
            };
            // SAFETY: the pointer is to a timeval.
            unsafe { libc::select(0, null_mut(), null_mut(), null_mut(), &mut time) }
        }));
        // The C library's general function hides the call's number from the handler.
        workers.add(whole(|| {
            let time = libc::timespec {
                tv_sec: 0,
                tv_nsec: TIME.as_nanos() as i64,
            };
            // SAFETY: the pointer is to a timespec.
            unsafe { libc::syscall(libc::SYS_nanosleep, &raw const time, 0) as i32 }
        }));
    });
    for round in 1..=GENERATIONS {
        for _ in 0..10 {
            job.image();
        }
        assert_eq!(job.ask("well?"), "late: []");
        job.restore(round);
    }
    assert_eq!(job.ask("well?"), "late: []");
    job.finish();
}

pub fn block_all_signals() {
    // SAFETY: a set of this frame.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut set);
        libc::pthread_sigmask(libc::SIG_SETMASK, &set, null_mut());
    }
}

fn blocked() {
    all_go_on(with_workers(5, |workers| {
        for ms in [0, 2] {
            let mut is_blocked = false;
            workers.add(move || {
                if !std::mem::replace(&mut is_blocked, true) {
                    block_all_signals();
                }
                if ms > 0 {
                    sleep_ms(ms);
                } else {
                    std::hint::black_box((0..10_000u32).fold(1u32, u32::wrapping_mul));
                }
            });
        }
    }));
}

fn joined() {
    let mut job = Job::start(|rank| {
        let stop = Arc::new(AtomicBool::new(false));
        let (flag, mut text) = (stop.clone(), Some("its value".to_owned()));
        let mut thread = Some(std::thread::spawn(move || {
            while !flag.load(Ordering::Acquire) {
                sleep_ms(1);
            }
            text.take()
        }));
        rank.serve(|rank, _| {
            stop.store(true, Ordering::Release);
            let value = thread.take().and_then(|thread| thread.join().ok()?);
            rank.say(&format!("{value:?}"));
        });
    });
    job.image();
    for _ in 0..2 {
        job.restore(1);
        assert_eq!(job.ask("join"), "Some(\"its value\")");
    }
    job.finish();
}

std::thread_local! {
    /// A thread's own.
    pub static OWN: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// A thread that only sleeps, and says whether it is the first one of its process.
fn first_thread(is_first: &AtomicBool) -> ! {
    loop {
        // SAFETY: touches no memory.
        let (tid, pid) = unsafe { (libc::syscall(libc::SYS_gettid), libc::getpid()) };
        is_first.store(tid == i64::from(pid), Ordering::Release);
        sleep_ms(1);
    }
}

fn by_another() {
    static IS_FIRST: AtomicBool = AtomicBool::new(false);
    let mut job = Job::start(|rank| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut workers = Workers::default();
                workers.add(|| sleep_ms(1));
                rank.serve(|rank, _| {
                    IS_FIRST.store(false, Ordering::Release);
                    let late = workers.late(3);
                    let start = Instant::now();
                    while !IS_FIRST.load(Ordering::Acquire) && start.elapsed() < LIMIT / 2 {
                        sleep_ms(1);
                    }
                    let is_first = IS_FIRST.load(Ordering::Acquire);
                    rank.say(&format!("late: {late:?} {is_first} {}", OWN.replace(5)));
                });
                // SAFETY: ends the process.
                unsafe { libc::_exit(0) };
            });
            first_thread(&IS_FIRST);
        });
    });
    assert_eq!(job.ask("well?"), "late: [] true 0");
    for generation in 1..=GENERATIONS {
        job.image();
        assert_eq!(job.ask("well?"), "late: [] true 5");
        job.restore(generation);
        assert_eq!(job.ask("well?"), "late: [] true 5");
    }
    job.finish();
}

fn without_the_first() {
    let mut job = Job::start(|rank| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut workers = Workers::default();
                workers.add(|| sleep_ms(1));
                rank.serve(|rank, _| rank.say(&format!("late: {:?}", workers.late(3))));
                // SAFETY: ends the process.
                unsafe { libc::_exit(0) };
            });
            sleep_ms(20);
            // SAFETY: ends this thread alone; the scope's memory stays.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        });
    });
    let begun = Instant::now();
    while support::status_of(job.pid, "State") != "Z (zombie)" {
        assert!(begun.elapsed() < LIMIT, "the first thread does not end");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(job.ask("well?"), "late: []");
    job.image();
    assert_eq!(job.ask("well?"), "late: []");
    job.restore(1);
    assert_eq!(job.ask("well?"), "late: []");
    job.finish();
}

fn change_of_user() {
    let mut job = with_workers(20, |workers| {
        // glibc sends every thread the signal that parks threads, and waits for all.
        workers.add(|| {
            // SAFETY: changes nothing.
            assert_eq!(unsafe { libc::setresuid(!0, !0, !0) }, 0);
            std::thread::sleep(Duration::from_micros(300));
        });
        // Its signal interrupts calls, as any signal does.
        (0..3).for_each(|_| workers.add(|| std::thread::sleep(Duration::from_millis(1))));
    });
    for generation in 1..=GENERATIONS {
        for _ in 0..30 {
            job.image();
        }
        assert_eq!(job.ask("well?"), "late: []");
        job.restore(generation);
        assert_eq!(job.ask("well?"), "late: []");
    }
    job.finish();
}

fn no_more_threads() {
    let mut job = with_workers(3, |workers| {
        workers.add(|| sleep_ms(1));
        refuse_threads();
    });
    assert_eq!(job.ask("well?"), "late: []");
    job.image();
    assert_eq!(job.ask("well?"), "late: []");
    job.kill();
    job.begin_restore();
    let end = end_of(job.pidfd.as_raw_fd());
    assert_eq!(end, (libc::CLD_KILLED, libc::SIGKILL));
    assert_eq!(
        read_to_end(std::mem::replace(&mut job.stderr, support::pipe().0)),
        "rejoin: no thread could be made (error 11)\n"
    );
    job.drop_twin();
}

/// Has the system make no threads from now on.
fn refuse_threads() {
    let code = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let has = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
    let answer = libc::BPF_RET | libc::BPF_K;
    let mut program = [
        code(load, 0, 0, 0),
        code(equal, libc::SYS_clone as u32, 0, 3),
        // The first argument.
        code(load, 16, 0, 0),
        code(has, libc::CLONE_THREAD as u32, 0, 1),
        code(answer, libc::SECCOMP_RET_ERRNO | libc::EAGAIN as u32, 0, 0),
        code(answer, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the pointer is to a filter of the length given.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        let set = libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter, 0, 0);
        assert_eq!(set, 0);
    }
}

fn hundred() {
    all_go_on(with_workers(2, |workers| {
        (0..100).for_each(|ms| workers.add(move || sleep_ms(ms % 5 + 1)));
    }));
}

/// Starts threads that end soon, and joins them.
fn short_lives(seed: u64) -> u64 {
    let threads: Vec<_> = (0..4)
        .map(|number| std::thread::spawn(move || seed.wrapping_mul(number + 1)))
        .collect();
    threads
        .into_iter()
        .map(|thread| thread.join().expect("its value"))
        .sum()
}

fn come_and_go() {
    let mut job = with_workers(3, |workers| {
        for seed in 0..2 {
            workers.add(move || assert_eq!(short_lives(seed), seed * 10));
        }
    });
    for generation in 1..=10 {
        for _ in 0..5 {
            job.image();
        }
        job.restore(generation);
        assert_eq!(job.ask("well?"), "late: []");
    }
    job.finish();
}

/// What the first thread of the storm computes.
pub fn sum_of(rounds: u64) -> u64 {
    (0..rounds).fold(1u64, |sum, round| {
        sum.wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(round)
    })
}

/// The same until a file exists: how many rounds that was, and their sum.
pub fn sum_until(file: &std::path::Path) -> (u64, u64) {
    let (mut rounds, mut sum) = (0u64, 1u64);
    while rounds % 1000 != 0 || !file.exists() {
        sum = sum
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(rounds);
        rounds += 1;
    }
    (rounds, sum)
}

/// Requests by signal while all threads compute, allocate, sleep, come and go.
fn storm() {
    let folder = Folder::new("threads");
    let end = folder.join("end");
    let file = end.clone();
    let mut job = Job::start(move |rank: &mut Rank| {
        let mut workers = Workers::default();
        workers.add(|| sleep_ms(1));
        workers.add(|| assert_eq!(short_lives(7), 70));
        workers.add(|| drop(std::hint::black_box(vec![1u8; 5000])));
        turns(&mut workers, condition);
        rank.accept_checkpoints();
        rank.serve(|rank, _| {
            rank.say("now");
            let (rounds, sum) = rank.user(|| sum_until(&file));
            rank.say(&format!("{rounds} {sum} {:?}", workers.late(1)));
        });
    });
    let mut epoch = 0;
    for _ in 0..8 {
        job.tell("compute");
        job.expect("now");
        for _ in 0..3 {
            epoch += 1;
            job.order(epoch);
            let word = job.imaged_or_word(Duration::from_millis(1));
            assert_eq!(word, None, "it ends when it is told");
        }
        job.kill();
        job.begin_restore();
        assert!(job.hear().starts_with("restored"));
        std::fs::write(&end, "").expect("the end");
        let text = job.hear();
        let (rounds, rest) = text.split_once(' ').expect("two words");
        let rounds = rounds.parse().expect("a number");
        assert_eq!(rest, format!("{} []", sum_of(rounds)));
        std::fs::remove_file(&end).expect("no end");
    }
    job.finish();
}
