//! A rank's end is noticed through the word that it holds.

use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use rejoin_ckpt::watch::{Page, Watcher, hold, hold_none, release};

use crate::support::{Job, LIMIT, Rank, Test, end_of, kill, readable};

pub const TESTS: &[Test] = &[
    (
        "an_end_is_noticed_before_the_process_is_gone",
        before_the_pidfd,
    ),
    ("a_released_word_is_no_news", released),
    ("each_generation_is_noticed_by_its_own_word", generations),
    ("a_twins_end_is_not_the_ranks", twins_end),
    ("the_programs_own_robust_locks_work_as_ever", robust_locks),
    ("more_slots_than_one_thread_takes", many_slots),
    ("an_unknown_slot_is_refused", unknown_slot),
    ("without_a_slot_nothing_is_released", no_slot),
];

/// A rank that holds the slot 0, and others as told by their numbers.
fn holder(page: &Page) -> impl FnOnce(&mut Rank) {
    // Raised into the block, as the library does: it is dropped in a twin.
    move |rank| {
        hold(page.as_fd(), 0).expect("held");
        rank.serve(|rank, word| {
            match word.parse() {
                Ok(slot) => hold(page.as_fd(), slot).expect("held"),
                Err(_) if word == "none" => hold_none().expect("a page"),
                Err(_) => release(),
            }
            rank.say("done");
        });
    }
}

fn ended(watcher: &Watcher) -> Vec<u32> {
    assert!(readable(watcher.as_fd().as_raw_fd(), LIMIT), "no notice");
    watcher.ended()
}

fn is_quiet(watcher: &Watcher) -> bool {
    !readable(watcher.as_fd().as_raw_fd(), Duration::ZERO) && watcher.ended().is_empty()
}

/// Starts a thread of this process that sleeps forever, and returns its number.
fn sleeping_thread() -> i32 {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // SAFETY: both calls touch no memory.
        tell.send(unsafe { libc::gettid() }).expect("told");
        loop {
            std::thread::park();
        }
    });
    told.recv().expect("a number")
}

/// Has a thread of a child stop where it ends, before it is gone.
fn hold_at_its_end(thread: i32) {
    let options = libc::PTRACE_O_TRACEEXIT as usize;
    // SAFETY: touches no memory.
    let seized = unsafe { libc::ptrace(libc::PTRACE_SEIZE, thread, 0usize, options) };
    assert_eq!(seized, 0, "{}", std::io::Error::last_os_error());
}

/// Waits until it stands there.
fn stands_at_its_end(thread: i32) {
    let mut status = 0;
    // SAFETY: the pointer is to a number.
    let stopped = unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL) };
    assert_eq!(stopped, thread, "{}", std::io::Error::last_os_error());
    assert_eq!(status >> 8, libc::SIGTRAP | libc::PTRACE_EVENT_EXIT << 8);
}

/// A process is not gone before all of its threads are: the notice does not wait for that.
fn before_the_pidfd() {
    let page = Page::new(1).expect("memory");
    let job = Job::start(|rank| {
        rank.say(&sleeping_thread().to_string());
        holder(&page)(rank);
    });
    let thread = job.hear().parse().expect("a number");
    let watcher = Watcher::new(page).expect("a watcher");
    watcher.watch(0);
    // It was wiped by the line before.
    assert_eq!(job.ask("0"), "done");
    assert!(is_quiet(&watcher));
    hold_at_its_end(thread);
    kill(job.pidfd.as_raw_fd(), libc::SIGKILL);
    stands_at_its_end(thread);
    assert_eq!(ended(&watcher), [0]);
    assert!(watcher.page().has_ended(0));
    assert!(
        !readable(job.pidfd.as_raw_fd(), Duration::ZERO),
        "it is gone"
    );
    // SAFETY: touches no memory.
    let let_go = unsafe { libc::ptrace(libc::PTRACE_DETACH, thread, 0usize, 0usize) };
    assert_eq!(let_go, 0);
    let end = (libc::CLD_KILLED, libc::SIGKILL);
    assert_eq!(end_of(job.pidfd.as_raw_fd()), end);
}

fn released() {
    let page = Page::new(1).expect("memory");
    let mut job = Job::start(holder(&page));
    let watcher = Watcher::new(page).expect("a watcher");
    watcher.watch(0);
    assert_eq!(job.ask("0"), "done");
    assert_eq!(watcher.page().holder(0), Some(job.pid));
    assert_eq!(job.ask("release"), "done");
    assert_eq!(watcher.page().holder(0), None);
    job.finish();
    assert!(is_quiet(&watcher));
}

/// A process that has come from an image, of which the host watches no more.
fn no_slot() {
    let page = Page::new(2).expect("memory");
    let mut job = Job::start(holder(&page));
    let watcher = Watcher::new(page).expect("a watcher");
    assert_eq!(job.ask("none"), "done");
    assert_eq!(job.ask("release"), "done");
    assert_eq!(watcher.page().holder(0), Some(job.pid));
    // It may have one again.
    assert_eq!(job.ask("1"), "done");
    assert_eq!(watcher.page().holder(1), Some(job.pid));
    job.finish();
}

fn mappings(pid: i32) -> usize {
    std::fs::read_to_string(format!("/proc/{pid}/maps"))
        .expect("maps")
        .lines()
        .count()
}

fn generations() {
    let page = Page::new(2).expect("memory");
    let mut job = Job::start(holder(&page));
    let watcher = Watcher::new(page).expect("a watcher");
    let mut early = 0;
    for generation in 1..=20 {
        let slot = generation % 2;
        watcher.watch(slot);
        assert_eq!(job.ask(&slot.to_string()), "done");
        assert_eq!(watcher.page().holder(slot), Some(job.pid));
        job.image();
        kill(job.pidfd.as_raw_fd(), libc::SIGKILL);
        assert_eq!(ended(&watcher), [slot]);
        end_of(job.pidfd.as_raw_fd());
        job.begin_restore();
        job.expect(&format!("restored {generation}"));
        if generation == 3 {
            early = mappings(job.pid);
        }
    }
    assert_eq!(mappings(job.pid), early);
    assert_eq!(job.ask("release"), "done");
    assert_eq!(mappings(job.pid), early - 2);
    job.finish();
    assert!(is_quiet(&watcher));
}

fn twins_end() {
    let page = Page::new(2).expect("memory");
    let mut job = Job::start(holder(&page));
    let watcher = Watcher::new(page).expect("a watcher");
    watcher.watch(0);
    assert_eq!(job.ask("0"), "done");
    job.image();
    job.drop_twin();
    job.image();
    assert!(is_quiet(&watcher));
    assert_eq!(watcher.page().holder(0), Some(job.pid));
    job.kill();
    assert_eq!(ended(&watcher), [0]);
    job.begin_restore();
    job.expect("restored 1");
    // The runner's end, before it holds anything, is no second end of the old one.
    watcher.watch(0);
    job.kill();
    assert!(is_quiet(&watcher));
    job.drop_twin();
}

/// Locks in memory that both sides see.
fn shared_locks() -> &'static mut [libc::pthread_mutex_t; 4] {
    // SAFETY: new memory, large enough, which stays; each lock is set up before use.
    unsafe {
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
        );
        let at = libc::mmap(std::ptr::null_mut(), 4096, access, kind, -1, 0);
        let locks = &mut *at.cast::<[libc::pthread_mutex_t; 4]>();
        let mut kind: libc::pthread_mutexattr_t = zeroed();
        libc::pthread_mutexattr_init(&mut kind);
        libc::pthread_mutexattr_setpshared(&mut kind, libc::PTHREAD_PROCESS_SHARED);
        libc::pthread_mutexattr_setrobust(&mut kind, libc::PTHREAD_MUTEX_ROBUST);
        for (number, lock) in locks.iter_mut().enumerate() {
            let protocol = if number == 3 {
                libc::PTHREAD_PRIO_INHERIT
            } else {
                libc::PTHREAD_PRIO_NONE
            };
            libc::pthread_mutexattr_setprotocol(&mut kind, protocol);
            assert_eq!(libc::pthread_mutex_init(lock, &kind), 0);
        }
        locks
    }
}

fn robust_locks() {
    let locks = shared_locks();
    let page = Page::new(1).expect("memory");
    let at = locks.as_mut_ptr();
    let lock = |number: usize| {
        // SAFETY: a lock that is set up.
        assert_eq!(unsafe { libc::pthread_mutex_lock(at.add(number)) }, 0);
    };
    let unlock = |number: usize| {
        // SAFETY: as above.
        assert_eq!(unsafe { libc::pthread_mutex_unlock(at.add(number)) }, 0);
    };
    let job = Job::start(|rank| {
        // Before, around and after the word; a priority-inheriting one is its neighbour too.
        lock(3);
        hold(page.as_fd(), 0).expect("held");
        lock(0);
        unlock(3);
        lock(1);
        unlock(0);
        release();
        lock(3);
        hold(page.as_fd(), 0).expect("held");
        lock(2);
        unlock(2);
        lock(2);
        unlock(3);
        lock(0);
        rank.say("locked");
        rank.hear();
    });
    job.expect("locked");
    let watcher = Watcher::new(page).expect("a watcher");
    job.kill();
    assert!(watcher.page().has_ended(0));
    for (number, expected) in [
        (0, libc::EOWNERDEAD),
        (1, libc::EOWNERDEAD),
        (2, libc::EOWNERDEAD),
        (3, 0),
    ] {
        // SAFETY: a lock that is set up.
        let result = unsafe { libc::pthread_mutex_trylock(&mut locks[number]) };
        assert_eq!(result, expected, "{number}");
    }
}

fn many_slots() {
    let page = Page::new(300).expect("memory");
    let jobs: Vec<_> = [5u32, 126, 127, 299]
        .map(|slot| {
            let memory = page.as_fd();
            let job = Job::start(move |rank| {
                rank.serve(|rank, _| {
                    hold(memory, slot).expect("held");
                    rank.say("done");
                });
            });
            (slot, job)
        })
        .into();
    let watcher = Watcher::new(page).expect("a watcher");
    assert!(!watcher.watch(300));
    for slot in 0..300 {
        assert!(watcher.watch(slot));
    }
    for (slot, job) in &jobs {
        assert_eq!(job.ask("hold"), "done");
        job.kill();
        assert_eq!(ended(&watcher), [*slot]);
    }
    watcher.unwatch(7);
    assert!(is_quiet(&watcher));
}

fn unknown_slot() {
    let page = Page::new(1).expect("memory");
    // Beyond the end nothing can be written: that would end the process.
    assert!(hold(page.as_fd(), 9).is_err());
    assert_eq!(page.holder(9), None);
}
