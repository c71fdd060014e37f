//! What the kernel knows of a thread, and its numbers.

use std::ptr::null_mut;

use crate::support::{Job, Test};
use crate::threads::{OWN, all_go_on, sleep_ms, with_workers};

pub const TESTS: &[Test] = &[
    ("threads_keep_what_the_kernel_knows_of_them", kernel_state),
    (
        "threads_are_not_found_by_their_former_numbers",
        former_numbers,
    ),
];

/// What a thread asks the kernel of itself.
#[derive(PartialEq, Debug)]
struct Seen {
    name: [u8; 16],
    stack: (usize, usize),
    mask: u64,
    processors: [u64; 16],
    nice: i32,
    policy: i32,
    robust: (usize, usize),
    gs: usize,
    own: u64,
    clears: usize,
}

fn seen() -> Seen {
    let mut seen = Seen {
        name: [0; 16],
        stack: (0, 0),
        mask: 0,
        processors: [0; 16],
        nice: 0,
        policy: 0,
        robust: (0, 0),
        gs: 0,
        own: OWN.get(),
        clears: 0,
    };
    // SAFETY: each pointer is to room for what the call writes.
    unsafe {
        let mut stack: libc::stack_t = std::mem::zeroed();
        libc::prctl(libc::PR_GET_NAME, seen.name.as_mut_ptr());
        libc::prctl(libc::PR_GET_TID_ADDRESS, &raw mut seen.clears);
        libc::sigaltstack(std::ptr::null(), &mut stack);
        seen.stack = (stack.ss_sp as usize, stack.ss_size);
        let (none, mask) = (std::ptr::null::<u64>(), &raw mut seen.mask);
        libc::syscall(libc::SYS_rt_sigprocmask, 0, none, mask, 8);
        let set = seen.processors.as_mut_ptr();
        libc::syscall(libc::SYS_sched_getaffinity, 0, 128, set);
        seen.nice = libc::getpriority(libc::PRIO_PROCESS, 0);
        seen.policy = libc::sched_getscheduler(0);
        let (list, length) = (&raw mut seen.robust.0, &raw mut seen.robust.1);
        libc::syscall(libc::SYS_get_robust_list, 0, list, length);
        libc::syscall(libc::SYS_arch_prctl, 0x1004, &raw mut seen.gs);
    }
    seen
}

/// Gives a thread a state of its own.
fn become_special(number: u64) {
    OWN.set(number);
    let name = std::ffi::CString::new(format!("special {number}")).expect("no zero");
    let memory = Box::leak(vec![0u8; 65_536].into_boxed_slice());
    // SAFETY: the memory stays; the other pointers are to what the calls read.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, name.as_ptr());
        let mut stack: libc::stack_t = std::mem::zeroed();
        stack.ss_sp = memory.as_mut_ptr().cast();
        stack.ss_size = memory.len();
        assert_eq!(libc::sigaltstack(&stack, null_mut()), 0);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&mut set, libc::SIGUSR1 + number as i32);
        libc::pthread_sigmask(libc::SIG_SETMASK, &set, null_mut());
        let cpus = 1u64 << (number % 2);
        libc::syscall(libc::SYS_sched_setaffinity, 0, 8, &raw const cpus);
        libc::setpriority(libc::PRIO_PROCESS, 0, number as i32);
        let policies = [libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_FIFO];
        let policy = policies[number as usize];
        let parameter = libc::sched_param {
            sched_priority: i32::from(policy == libc::SCHED_FIFO),
        };
        // Only a privileged process may have the last one.
        let set = libc::sched_setscheduler(0, policy, &parameter);
        assert!(set == 0 || policy == libc::SCHED_FIFO);
        libc::syscall(libc::SYS_arch_prctl, 0x1001, memory.as_ptr());
    }
}

fn kernel_state() {
    all_go_on(with_workers(5, |workers| {
        for number in 0..3 {
            let mut first: Option<Seen> = None;
            workers.add(move || {
                let first = first.get_or_insert_with(|| {
                    become_special(number);
                    seen()
                });
                assert_eq!(*first, seen());
                assert!(first.clears != 0 && first.robust.0 != 0);
                let mut processor = 0u32;
                // With one processor allowed, both ways of asking say the same: one of them reads
                // what the kernel writes into the registered area of the thread.
                // SAFETY: the pointer is to a number.
                unsafe {
                    let none = std::ptr::null_mut::<u32>();
                    libc::syscall(libc::SYS_getcpu, &raw mut processor, none, none);
                    assert_eq!(libc::sched_getcpu(), processor as i32);
                }
                sleep_ms(1);
            });
        }
    }));
}

/// The C library keeps the former numbers of threads, which no thread has any more.
fn former_numbers() {
    let mut job = Job::start(|rank| {
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            // SAFETY: touches no memory.
            send.send(unsafe { libc::pthread_self() }).expect("sent");
            loop {
                sleep_ms(1);
            }
        });
        let other = receive.recv().expect("a thread");
        rank.serve(|rank, _| {
            // SAFETY: both threads exist; the pointer is to a set of the size given.
            let results = unsafe {
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                let size = size_of_val(&set);
                [
                    libc::pthread_kill(other, 0),
                    libc::pthread_getaffinity_np(other, size, &mut set),
                    libc::pthread_kill(libc::pthread_self(), 0),
                    libc::sched_getaffinity(0, size, &mut set),
                ]
            };
            rank.say(&format!("{results:?}"));
        });
    });
    assert_eq!(job.ask("find"), "[0, 0, 0, 0]");
    job.image();
    job.restore(1);
    let none = libc::ESRCH;
    assert_eq!(job.ask("find"), format!("[{none}, {none}, 0, 0]"));
    job.finish();
}
