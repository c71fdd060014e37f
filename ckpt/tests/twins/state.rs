//! State that a clone does not inherit, and that a restored process still has.

use std::ffi::CString;
use std::fs;
use std::mem::zeroed;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt as _;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use rejoin_tests::folder::Folder;

use crate::support::{self, Job, LIMIT, Rank, Test};

pub const TESTS: &[Test] = &[
    ("files_each_runner_has_its_own_position", positions),
    ("files_appended_ones_are_cut_back", appended),
    ("files_are_left_alone_when_the_manager_says_so", spared),
    ("files_unlinked_ones_stay", unlinked),
    ("files_two_numbers_of_one_description_stay_one", duplicates),
    (
        "files_two_numbers_stay_one_in_a_container_too",
        duplicates_in_a_container,
    ),
    ("files_process_locks_are_taken_again", process_locks),
    ("files_whole_locks_are_taken_again", whole_locks),
    ("directory_and_mask_stay", directory_and_mask),
    ("close_on_exec_stays", close_on_exec),
    ("timers_interval_timer_goes_on", interval_timer),
    ("timers_posix_timer_keeps_its_number", posix_timer),
    (
        "timers_posix_timer_keeps_its_number_on_older_kernels",
        posix_timer_before,
    ),
    ("signals_pending_at_the_image_come_again", pending),
    (
        "signals_sent_to_a_frozen_twin_do_not_strike",
        frozen_signals,
    ),
    ("signal_mask_stack_and_nice_stay", mask_and_stack),
    ("memory_locks_are_set_again", memory_locks),
];

pub fn open(path: &std::path::Path, flags: i32) -> i32 {
    let path = CString::new(path.to_str().expect("text")).expect("a path");
    // SAFETY: the path ends with a zero byte.
    let fd = unsafe { libc::open(path.as_ptr(), flags, 0o600) };
    assert!(fd >= 0, "{}", std::io::Error::last_os_error());
    fd
}

fn get(fd: i32, length: usize) -> String {
    let mut bytes = vec![0u8; length];
    // SAFETY: pointer and length describe the buffer.
    let count = unsafe { libc::read(fd, bytes.as_mut_ptr().cast(), length) };
    bytes.truncate(count.max(0) as usize);
    String::from_utf8(bytes).expect("text")
}

/// A rank that reads or writes `fd` as told: `+text` writes, a number reads so many bytes.
pub fn clerk(fd: i32) -> impl FnOnce(&mut Rank) {
    move |rank| {
        rank.serve(|rank, word| match word.strip_prefix('+') {
            Some(text) => {
                support::write(fd, text);
                rank.say("written");
            }
            None if word == "caveats" => {
                let all: Vec<_> = rank.caveats.iter().map(ToString::to_string).collect();
                rank.say(&format!("[{}]", all.join("; ")));
            }
            None if word == "close" => {
                // SAFETY: a number of this process, which nothing else uses.
                unsafe { libc::close(fd) };
                rank.say("closed");
            }
            None => rank.say(&get(fd, word.parse().expect("a number"))),
        });
    }
}

fn positions() {
    let folder = Folder::new("state");
    fs::write(folder.join("data"), "0123456789").expect("written");
    let mut job = Job::start(clerk(open(&folder.join("data"), libc::O_RDONLY)));
    assert_eq!(job.ask("3"), "012");
    job.image();
    assert_eq!(job.ask("4"), "3456");
    for _ in 0..2 {
        job.restore(1);
        assert_eq!(job.ask("2"), "34");
    }
    // An image of the runner has its own position too.
    job.image();
    assert_eq!(job.ask("2"), "56");
    job.restore(2);
    assert_eq!(job.ask("2"), "56");
    job.finish();
}

fn appended() {
    for flags in [libc::O_APPEND, 0] {
        let folder = Folder::new("state");
        let path = folder.join("log");
        let flags = flags | libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
        let fd = open(&path, flags);
        let mut job = Job::start(clerk(fd));
        // SAFETY: a number of this process.
        unsafe { libc::close(fd) };
        job.ask("+one,");
        job.image();
        assert_eq!(job.twin.as_ref().expect("an image").written, 1);
        job.ask("+lost,");
        for _ in 0..2 {
            job.restore(1);
            assert_eq!(fs::read_to_string(&path).expect("a file"), "one,");
            job.ask("+two,");
        }
        assert_eq!(fs::read_to_string(&path).expect("a file"), "one,two,");
        job.finish();
    }
}

fn spared() {
    let folder = Folder::new("state");
    let path = folder.join("log");
    let mut job = Job::start(clerk(open(
        &path,
        libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND,
    )));
    job.ask("+one,");
    job.image();
    job.ask("+two,");
    job.kill();
    job.restore_with(b"", false, &[]);
    job.expect("restored 1");
    assert_eq!(fs::read_to_string(&path).expect("a file"), "one,two,");
    job.kill();
    let data = fs::metadata(&path).expect("a file");
    job.restore_with(b"", true, &[(7, 7), (data.dev(), data.ino())]);
    job.expect("restored 1");
    assert_eq!(fs::read_to_string(&path).expect("a file"), "one,two,");
    job.restore(1);
    assert_eq!(fs::read_to_string(&path).expect("a file"), "one,");
    job.finish();
}

fn unlinked() {
    let folder = Folder::new("state");
    let path = folder.join("scratch");
    let fd = open(&path, libc::O_RDWR | libc::O_CREAT);
    fs::remove_file(&path).expect("removed");
    let mut job = Job::start(clerk(fd));
    job.ask("+abc");
    job.image();
    job.ask("+def");
    job.restore(1);
    assert_eq!(job.ask("caveats"), "[]");
    job.ask("+xy");
    // SAFETY: a number of this process.
    unsafe { libc::lseek(fd, 0, libc::SEEK_SET) };
    assert_eq!(get(fd, 99), "abcxy");
    job.finish();
}

fn duplicates() {
    share(|| {});
}

fn duplicates_in_a_container() {
    share(|| support::refuse(libc::SYS_kcmp, libc::EPERM));
}

fn share(begin: fn()) {
    let folder = Folder::new("state");
    fs::write(folder.join("data"), "0123456789").expect("written");
    let fd = open(&folder.join("data"), libc::O_RDONLY);
    // SAFETY: numbers of this process.
    let (second, apart) = (
        unsafe { libc::dup(fd) },
        open(&folder.join("data"), libc::O_RDONLY),
    );
    let mut job = Job::start(|rank| {
        begin();
        rank.serve(|rank, word| {
            let which = match word {
                "a" => fd,
                "b" => second,
                _ => apart,
            };
            rank.say(&get(which, 1));
        });
    });
    let all = ["a", "b", "c"];
    assert_eq!(all.map(|w| job.ask(w)), ["0", "1", "0"]);
    // At the same position, and yet two of them.
    assert_eq!(job.ask("c"), "1");
    job.image();
    assert_eq!(all.map(|w| job.ask(w)), ["2", "3", "2"]);
    job.restore(1);
    assert_eq!(all.map(|w| job.ask(w)), ["2", "3", "2"]);
    job.finish();
}

fn lock(fd: i32, command: i32, start: i64) -> i32 {
    // SAFETY: `flock` is plain data.
    unsafe {
        let mut lock: libc::flock = zeroed();
        lock.l_type = libc::F_WRLCK as i16;
        (lock.l_start, lock.l_len) = (start, 10);
        libc::fcntl(fd, command, &raw mut lock)
    }
}

fn process_locks() {
    let folder = Folder::new("state");
    let path = folder.join("base");
    fs::write(&path, "0123456789").expect("written");
    let fd = open(&path, libc::O_RDWR);
    let mut job = Job::start(|rank| {
        assert_eq!(lock(fd, libc::F_SETLK, 5), 0);
        rank.serve(|rank, _| rank.say(&format!("{:?}", rank.caveats)));
    });
    job.image();
    assert!(job.twin.as_ref().expect("an image").has_locks);
    assert_eq!(lock(fd, libc::F_SETLK, 5), -1, "the rank has it");
    job.kill();
    assert_eq!(lock(fd, libc::F_SETLK, 0), 0, "it ended with the rank");
    job.begin_restore();
    job.expect("restored 1");
    assert!(
        job.ask("caveats").contains("LockLost"),
        "this process has it now"
    );
    // Closing any descriptor of the file would do as well.
    // SAFETY: `flock` is plain data.
    unsafe {
        let mut free: libc::flock = zeroed();
        free.l_type = libc::F_UNLCK as i16;
        libc::fcntl(fd, libc::F_SETLK, &raw mut free);
    }
    job.restore(1);
    assert_eq!(job.ask("caveats"), "[]");
    assert_eq!(lock(fd, libc::F_SETLK, 5), -1, "the runner has it");
    assert_eq!(
        lock(fd, libc::F_SETLK, 20),
        0,
        "and no more than the rank had"
    );
    job.finish();
}

fn whole_locks() {
    let folder = Folder::new("state");
    let path = folder.join("base");
    fs::write(&path, "0123456789").expect("written");
    let inner = path.clone();
    let mut job = Job::start(move |rank| {
        let fd = open(&inner, libc::O_RDONLY);
        // SAFETY: a number of this process.
        assert_eq!(unsafe { libc::flock(fd, libc::LOCK_EX) }, 0);
        clerk(fd)(rank);
    });
    let other = open(&path, libc::O_RDONLY);
    let is_taken = || {
        // SAFETY: a number of this process.
        let got = unsafe { libc::flock(other, libc::LOCK_EX | libc::LOCK_NB) } == 0;
        // SAFETY: as above.
        unsafe { libc::flock(other, libc::LOCK_UN) };
        !got
    };
    assert_eq!(job.ask("2"), "01");
    job.image();
    assert!(job.twin.as_ref().expect("an image").has_locks);
    job.ask("2");
    assert!(is_taken());
    job.kill();
    assert!(!is_taken(), "it ended with the rank");
    job.begin_restore();
    job.expect("restored 1");
    assert_eq!(
        (job.ask("caveats"), job.ask("2")),
        ("[]".to_owned(), "23".to_owned())
    );
    assert!(is_taken());
    job.image();
    assert!(is_taken());
    assert_eq!(job.ask("close"), "closed");
    assert!(!is_taken(), "no image keeps what the rank lets go");
    job.finish();
}

fn directory_and_mask() {
    let folder = Folder::new("state");
    let path = folder.to_path_buf();
    let mut job = Job::start(move |rank| {
        std::env::set_current_dir(path).expect("a folder");
        // SAFETY: touches no memory.
        unsafe { libc::umask(0o27) };
        rank.serve(|rank, _| {
            // SAFETY: touches no memory.
            let mask = unsafe { libc::umask(0o27) };
            let here = std::env::current_dir().expect("a folder");
            rank.say(&format!("{mask:o} {}", here.display()));
        });
    });
    job.image();
    job.restore(1);
    assert_eq!(job.ask("where"), format!("27 {}", folder.display()));
    job.finish();
}

fn close_on_exec() {
    let folder = Folder::new("state");
    fs::write(folder.join("data"), "0").expect("written");
    let (kept, closed) = (
        open(&folder.join("data"), libc::O_RDONLY),
        open(&folder.join("data"), libc::O_RDONLY | libc::O_CLOEXEC),
    );
    let mut job = Job::start(|rank| {
        rank.serve(|rank, _| {
            // SAFETY: numbers of this process.
            let flags = [kept, closed].map(|fd| unsafe { libc::fcntl(fd, libc::F_GETFD) });
            rank.say(&format!("{flags:?}"));
        });
    });
    job.image();
    job.restore(1);
    assert_eq!(job.ask("flags"), "[0, 1]");
    job.finish();
}

static COUNT: AtomicI32 = AtomicI32::new(0);
static VALUE: AtomicU64 = AtomicU64::new(0);

extern "C" fn note(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    COUNT.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the kernel gives valid information.
    VALUE.store(
        unsafe { (*info).si_value().sival_ptr as u64 },
        Ordering::Relaxed,
    );
}

fn catch(signal: i32) {
    // SAFETY: the handler has the signature that SA_SIGINFO asks for.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = note as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        assert_eq!(libc::sigaction(signal, &action, null_mut()), 0);
    }
}

/// Waits until the handler has run so often.
fn until_counted(count: i32) {
    let start = std::time::Instant::now();
    while COUNT.load(Ordering::Relaxed) < count {
        assert!(start.elapsed() < LIMIT, "no signal comes");
        std::hint::spin_loop();
    }
}

fn interval_timer() {
    let mut job = Job::start(|rank| {
        catch(libc::SIGALRM);
        // SAFETY: the pointers are to plain data.
        unsafe {
            let time = libc::timeval {
                tv_sec: 0,
                tv_usec: 20_000,
            };
            let timer = libc::itimerval {
                it_interval: time,
                it_value: time,
            };
            libc::setitimer(libc::ITIMER_REAL, &timer, null_mut());
        }
        rank.serve(|rank, _| {
            COUNT.store(0, Ordering::Relaxed);
            until_counted(3);
            rank.say("ticks");
        });
    });
    job.image();
    for _ in 0..2 {
        job.restore(1);
        assert_eq!(job.ask("wait"), "ticks");
    }
    job.finish();
}

fn posix_timer() {
    numbered_timer(|| {});
}

/// There a timer's number cannot be asked for. (Names and death signals go without as well.)
fn posix_timer_before() {
    numbered_timer(|| support::refuse(libc::SYS_prctl, libc::EINVAL));
}

fn numbered_timer(begin: fn()) {
    let mut job = Job::start(|rank| {
        begin();
        catch(libc::SIGUSR1);
        let mut timer: libc::timer_t = null_mut();
        // SAFETY: the pointers are to plain data. The first one's number is not the first.
        unsafe {
            for value in [1, 2, 0xbeef_u64] {
                if !timer.is_null() {
                    libc::timer_delete(timer);
                }
                let mut event: libc::sigevent = zeroed();
                event.sigev_notify = libc::SIGEV_SIGNAL;
                event.sigev_signo = libc::SIGUSR1;
                event.sigev_value.sival_ptr = value as *mut libc::c_void;
                assert_eq!(
                    libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer),
                    0
                );
            }
        }
        let timer = timer as usize;
        rank.serve(|rank, _| {
            // SAFETY: the pointers are to plain data.
            unsafe {
                let time = libc::timespec {
                    tv_sec: 0,
                    tv_nsec: 2_000_000,
                };
                let setting = libc::itimerspec {
                    it_interval: time,
                    it_value: time,
                };
                let timer = timer as libc::timer_t;
                assert_eq!(libc::timer_settime(timer, 0, &setting, null_mut()), 0);
            }
            COUNT.store(0, Ordering::Relaxed);
            until_counted(3);
            rank.say(&format!(
                "{:x} {:?}",
                VALUE.load(Ordering::Relaxed),
                rank.caveats
            ));
        });
    });
    assert_eq!(job.ask("wait"), "beef []");
    job.image();
    for _ in 0..2 {
        job.restore(1);
        assert_eq!(job.ask("wait"), "beef []");
    }
    job.image();
    job.restore(2);
    assert_eq!(job.ask("wait"), "beef []");
    job.finish();
}

fn set_mask(how: i32, signals: &[i32]) {
    // SAFETY: the pointer is to a set.
    unsafe {
        let mut set: libc::sigset_t = zeroed();
        libc::sigemptyset(&mut set);
        for signal in signals {
            libc::sigaddset(&mut set, *signal);
        }
        assert_eq!(libc::sigprocmask(how, &set, null_mut()), 0);
    }
}

fn pending() {
    let signal = libc::SIGRTMIN() + 4;
    let mut job = Job::start(|rank| {
        catch(signal);
        set_mask(libc::SIG_BLOCK, &[signal]);
        rank.serve(|rank, word| {
            match word {
                "queue" => {
                    for value in [11usize, 22, 33] {
                        let value = libc::sigval {
                            sival_ptr: value as *mut libc::c_void,
                        };
                        // SAFETY: touches no memory.
                        unsafe { libc::sigqueue(libc::getpid(), signal, value) };
                    }
                }
                _ => set_mask(libc::SIG_UNBLOCK, &[signal]),
            }
            let (count, last) = (COUNT.load(Ordering::Relaxed), VALUE.load(Ordering::Relaxed));
            rank.say(&format!("{count} {last}"));
        });
    });
    assert_eq!(job.ask("queue"), "0 0");
    job.image();
    assert_eq!(job.ask("open"), "3 33", "in order, each with its value");
    for _ in 0..2 {
        job.restore(1);
        assert_eq!(job.ask("open"), "3 33");
    }
    job.finish();
}

fn frozen_signals() {
    let mut job = Job::start(|rank| {
        catch(libc::SIGUSR1);
        rank.serve(|rank, _| rank.say(&format!("{}", COUNT.load(Ordering::Relaxed))));
    });
    job.image();
    job.kill();
    let twin = job.twin.as_ref().expect("an image");
    // A Ctrl-C at the terminal goes to all of a group, the frozen ones too; others too.
    for signal in [
        libc::SIGINT,
        libc::SIGTERM,
        libc::SIGHUP,
        libc::SIGUSR1,
        libc::SIGTSTP,
    ] {
        support::kill(twin.pidfd.as_raw_fd(), signal);
    }
    job.begin_restore();
    job.expect("restored 1");
    assert_eq!(job.ask("count"), "0");
    job.finish();
}

fn mask_and_stack() {
    let mut job = Job::start(|rank| {
        let stack = Box::leak(vec![0u8; 65536].into_boxed_slice());
        // SAFETY: the pointers are to plain data; the stack stays.
        unsafe {
            let new = libc::stack_t {
                ss_sp: stack.as_mut_ptr().cast(),
                ss_flags: 0,
                ss_size: 65536,
            };
            assert_eq!(libc::sigaltstack(&new, null_mut()), 0);
        }
        set_mask(libc::SIG_BLOCK, &[libc::SIGUSR2, libc::SIGRTMIN() + 1]);
        // SAFETY: touches no memory.
        unsafe { libc::nice(3) };
        rank.serve(|rank, _| {
            let status = support::status_of(std::process::id() as i32, "SigBlk");
            // SAFETY: the pointer is to plain data.
            let stack = unsafe {
                let mut old: libc::stack_t = zeroed();
                libc::sigaltstack(std::ptr::null(), &mut old);
                (old.ss_sp as usize, old.ss_size)
            };
            // SAFETY: touches no memory.
            let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
            rank.say(&format!("{status} {stack:x?} {nice}"));
        });
    });
    let before = job.ask("state");
    job.image();
    assert_eq!(job.ask("state"), before);
    job.restore(1);
    assert_eq!(job.ask("state"), before);
    job.finish();
}

fn memory_locks() {
    let mut job = Job::start(|rank| {
        let memory = Box::leak(vec![1u8; 65536].into_boxed_slice());
        // SAFETY: memory of this process.
        assert_eq!(unsafe { libc::mlock(memory.as_ptr().cast(), 65536) }, 0);
        rank.serve(|rank, _| {
            rank.say(&support::status_of(std::process::id() as i32, "VmLck"));
        });
    });
    let before = job.ask("size");
    assert_ne!(before, "0 kB");
    job.image();
    job.restore(1);
    assert_eq!(job.ask("size"), before);
    job.finish();
}
