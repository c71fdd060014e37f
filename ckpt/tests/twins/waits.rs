//! Waits of which no argument tells the time, and programs that an order by signal is not for.

use std::ptr::null_mut;
use std::time::{Duration, Instant};

use libc::{c_int, timeval};

use rejoin_ckpt::checkpoint_request;

use crate::calls::{Call, TIME, errno, many_orders, outcome, receive_timeout, timed};
use crate::support::{self, Job, LIMIT, Test};

pub const TESTS: &[Test] = &[
    ("waits_send_timeout", || {
        timed(libc::SYS_sendto, send_timeout)
    }),
    ("waits_accept_timeout", || {
        timed(libc::SYS_accept, accept_timeout)
    }),
    ("waits_many_orders_do_not_prolong_a_send_forever", || {
        many_orders(libc::SYS_sendto, send_timeout)
    }),
    ("waits_many_orders_do_not_prolong_a_receive_forever", || {
        many_orders(libc::SYS_recvfrom, receive_timeout)
    }),
    (
        "waits_the_next_call_at_the_same_place_has_its_own_time",
        next_call,
    ),
    (
        "waits_a_sigwait_for_all_finds_no_order",
        crate::signalled_threads::in_sigwait,
    ),
    ("waits_a_program_that_blocks_all_gets_no_order", blocks_all),
    ("waits_what_came_before_is_drained", drained),
    ("waits_another_program_gets_no_order", another_program),
    ("waits_what_the_hook_leaves_waits_on", left),
];

fn limit(fd: c_int, option: c_int) {
    let time = timeval {
        tv_sec: 0,
        tv_usec: TIME.as_micros() as i64,
    };
    let size = size_of_val(&time) as u32;
    // SAFETY: pointer and size describe the time.
    let set =
        unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, option, (&raw const time).cast(), size) };
    assert_eq!(set, 0);
}

fn socket_pair() -> [c_int; 2] {
    let mut ends = [0; 2];
    // SAFETY: the pointer is to two numbers.
    let made = unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, ends.as_mut_ptr()) };
    assert_eq!(made, 0);
    ends
}

fn send(fd: c_int, bytes: &[u8], flags: c_int) -> i64 {
    // SAFETY: pointer and length describe the bytes.
    outcome(unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), flags) } as i64)
}

fn send_timeout() -> Call {
    (-i64::from(libc::EAGAIN), || {
        let [end, _other] = socket_pair();
        limit(end, libc::SO_SNDTIMEO);
        for part in [&[0u8; 65536][..], &[0]] {
            while send(end, part, libc::MSG_DONTWAIT) > 0 {}
        }
        send(end, &[0], 0)
    })
}

fn accept_timeout() -> Call {
    (-i64::from(libc::EAGAIN), || {
        // SAFETY: the address is plain data; the system gives it a name of its own.
        unsafe {
            let fd = libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0);
            let mut address: libc::sockaddr_un = std::mem::zeroed();
            address.sun_family = libc::AF_UNIX as u16;
            let size = size_of_val(&address.sun_family) as u32;
            assert_eq!(libc::bind(fd, (&raw const address).cast(), size), 0);
            assert_eq!(libc::listen(fd, 1), 0);
            limit(fd, libc::SO_RCVTIMEO);
            outcome(libc::accept(fd, null_mut(), null_mut()))
        }
    })
}

/// A call that an order has interrupted ends; the same call at the same place, long after, waits as
/// long as it should.
fn next_call() {
    let mut job = Job::start(|rank| {
        rank.accept_checkpoints();
        let [end, other] = socket_pair();
        limit(end, libc::SO_RCVTIMEO);
        rank.serve(|rank, word| {
            if word == "give" {
                assert_eq!(send(other, b"x", 0), 1);
            }
            let text = rank.user(|| {
                let (mut byte, start) = (0u8, Instant::now());
                // SAFETY: the pointer is to one byte.
                let result = unsafe { libc::recv(end, (&raw mut byte).cast(), 1, 0) };
                let result = outcome(result as i64);
                format!("{result} {}", start.elapsed() >= TIME)
            });
            rank.say(&text);
        });
    });
    let none = format!("{} true", -libc::EAGAIN);
    for epoch in [1, 2] {
        job.tell("wait");
        job.sleeps_in(libc::SYS_recvfrom);
        job.order(epoch);
        job.imaged();
        job.expect(&none);
    }
    assert_eq!(job.ask("give"), "1 false");
    job.tell("wait");
    job.sleeps_in(libc::SYS_recvfrom);
    job.order(3);
    job.imaged();
    job.expect(&none);
    job.restore(1);
    job.expect(&none);
    job.finish();
}

/// A set of every signal.
fn every() -> libc::sigset_t {
    // SAFETY: a set is plain data.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut set);
        set
    }
}

/// Blocks every signal, as programs do that take them with `sigwait` only.
fn block_all() {
    // SAFETY: the pointer is to a set.
    let set = unsafe { libc::sigprocmask(libc::SIG_BLOCK, &every(), null_mut()) };
    assert_eq!(set, 0);
}

fn blocks_all() {
    let mut job = Job::start(|rank| {
        rank.accept_checkpoints();
        rank.serve(|rank, word| {
            match word {
                "block" => block_all(),
                // SAFETY: the pointer is to a set.
                _ => unsafe {
                    libc::sigprocmask(libc::SIG_UNBLOCK, &every(), null_mut());
                },
            }
            rank.say(word);
        });
    });
    assert_eq!(job.ask("block"), "block");
    assert!(!job.try_order(1));
    assert_eq!(job.ask("open"), "open");
    // It is tried again: at once, or when it is seen to run or to sleep with the signal open.
    job.order(1);
    // It came inside the library, whose next safe point it waits for.
    job.image();
    job.restore(1);
    job.finish();
}

/// An order that came just before the program blocked signals is no signal of the program's, and no
/// image has it.
fn drained() {
    let mut job = Job::start(|rank| {
        rank.accept_checkpoints();
        block_all();
        rank.serve(|rank, word| {
            if word == "drain" {
                checkpoint_request::drain();
            }
            let waits = support::status_of(std::process::id() as i32, "SigPnd") != NONE
                || support::status_of(std::process::id() as i32, "ShdPnd") != NONE;
            rank.say(&format!("{waits} {:?}", checkpoint_request::take_pending()));
        });
    });
    assert_eq!(job.ask("look"), "false None", "it blocks them by now");
    // As if it had been sent a moment before.
    let order = libc::sigval {
        sival_ptr: std::ptr::without_provenance_mut(7),
    };
    // SAFETY: touches no memory.
    let sent = unsafe { libc::sigqueue(job.pid, support::signal(), order) };
    assert_eq!(sent, 0);
    assert_eq!(job.ask("look"), "true None");
    assert_eq!(job.ask("drain"), "false Some(7)");
    assert_eq!(job.ask("drain"), "false None");
    job.finish();
}

/// A request that the handler can't meet waits for the library's next safe point, and the program
/// continues.
fn left() {
    let mut job = Job::start(|rank| {
        checkpoint_request::install(support::signal(), |_| false).expect("a handler");
        rank.serve(|rank, _| rank.say(&format!("{:?}", checkpoint_request::take_pending())));
    });
    assert_eq!(job.ask("look"), "None");
    job.order(7);
    assert_eq!(job.ask("look"), "Some(7)");
    assert_eq!(job.ask("look"), "None");
    job.finish();
}

const NONE: &str = "0000000000000000";

/// A program that becomes another one has no handler any more.
fn another_program() {
    let job = Job::start(|rank| {
        rank.accept_checkpoints();
        rank.serve(|_, _| {
            let words = [c"sleep".as_ptr(), c"60".as_ptr(), std::ptr::null()];
            // SAFETY: the words end with zero bytes, their list with a null.
            unsafe { libc::execvp(words[0], words.as_ptr()) };
            panic!("{}", errno());
        });
    });
    job.order(1);
    job.tell("exec");
    let (name, start) = (format!("/proc/{}/comm", job.pid), Instant::now());
    while std::fs::read_to_string(&name).expect("it lives") != "sleep\n" {
        assert!(start.elapsed() < LIMIT, "no other program");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(!job.try_order(2), "it would die of the signal");
    job.kill();
}
