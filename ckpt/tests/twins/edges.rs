//! Refusals, caveats, and the abilities of a restored process.

use std::os::fd::AsRawFd;
use std::ptr::null_mut;

use crate::support::{self, Job, Rank, Test, end_of, kill, read_to_end};

pub const TESTS: &[Test] = &[
    (
        "a_clone_that_fails_leaves_everything_as_it_was",
        clone_fails,
    ),
    (
        "too_many_open_files_leave_everything_as_it_was",
        no_descriptors,
    ),
    (
        "descriptors_that_live_in_the_kernel_are_named",
        kernel_descriptors,
    ),
    (
        "a_runner_can_raise_fork_and_make_threads",
        runner_is_a_process,
    ),
    (
        "a_child_that_the_program_forks_is_not_the_rank",
        forked_child,
    ),
    ("an_order_inside_the_library_waits_for_its_end", inside),
    (
        "a_stream_that_the_program_redirected_is_left_alone",
        redirected,
    ),
    ("a_wake_without_pipes_says_what_is_lost", no_pipes),
    ("a_new_standard_input_takes_the_place_of_the_old", new_input),
    ("nonsense_ends_a_twin_and_is_no_answer", nonsense),
];

/// The open descriptors, with their kind.
fn open_files() -> Vec<(i32, u64)> {
    let stat = |fd: i32| {
        // SAFETY: `stat` is plain data that the call fills in.
        unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            (libc::fstat(fd, &mut stat) == 0).then_some((fd, stat.st_ino))
        }
    };
    (0..1024).filter_map(stat).collect()
}

fn writer(text: &str) {
    support::write(1, text);
}

fn check_refusal(program: fn(&mut Rank)) -> String {
    let mut job = Job::start(move |rank| {
        program(rank);
        let before = open_files();
        rank.serve(|rank, word| {
            writer(word);
            rank.say(&format!("{}", open_files() == before));
        });
    });
    assert_eq!(job.ask("before,"), "true");
    let refusal = job.ask("image");
    assert_eq!(job.ask("after"), "true", "{refusal}");
    job.finish();
    assert_eq!(read_to_end(&job.stdout), "before,after");
    refusal
}

fn clone_fails() {
    let refusal = check_refusal(|_| support::refuse(libc::SYS_clone, libc::ENOMEM));
    assert!(
        refusal.starts_with("refused: clone the process: Cannot allocate memory"),
        "{refusal}"
    );
}

fn no_descriptors() {
    // Room for 0, 1, … more: it fails at another point each time, and succeeds in the end.
    let mut refusals = 0;
    for room in 0..12 {
        let mut job = Job::start(move |rank| {
            // All numbers are low here, and few.
            // SAFETY: the pointer is to a limit.
            let limit = open_files().len() as u64 + room;
            let before = {
                let limit = libc::rlimit {
                    rlim_cur: limit,
                    rlim_max: limit,
                };
                // SAFETY: as above; the socket is the only number in the block.
                unsafe {
                    rank.socket = libc::dup2(rank.socket, 3);
                    libc::close_range(4, u32::MAX, 0);
                    libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
                }
                open_files()
            };
            rank.serve(|rank, word| {
                writer(word);
                rank.say(&format!("{}", open_files() == before));
            });
        });
        job.tell("image");
        let (bytes, fds) = support::receive(job.socket.as_raw_fd(), support::LIMIT).expect("alive");
        drop(fds);
        if bytes.starts_with(b"refused") {
            refusals += 1;
            assert_eq!(job.ask("after"), "true", "with room for {room}");
            assert_eq!(read_to_end_of(&mut job), "after");
        } else {
            assert_eq!(bytes[0], b'I');
            kill(job.pidfd.as_raw_fd(), libc::SIGKILL);
            end_of(job.pidfd.as_raw_fd());
        }
    }
    assert!((1..12).contains(&refusals), "{refusals}");
}

fn read_to_end_of(job: &mut Job) -> String {
    job.finish();
    read_to_end(&job.stdout)
}

fn kernel_descriptors() {
    let mut job = Job::start(|rank| {
        // SAFETY: touches no memory but the path.
        unsafe {
            libc::epoll_create1(0);
            libc::inotify_init();
            libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0);
            libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0);
            libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        }
        rank.serve(|_, _| {});
    });
    job.image();
    // Not the device, which has no state, nor the epoll set, which the image has.
    assert_eq!(job.twin.as_ref().expect("an image").caveats, 3);
    job.finish();
}

extern "C" fn nothing(_: i32) {}

fn runner_is_a_process() {
    let act = || {
        // SAFETY: ordinary use of the C library.
        unsafe {
            libc::signal(libc::SIGUSR1, nothing as *const () as usize);
            let raised = libc::raise(libc::SIGUSR1);
            let child = libc::fork();
            if child == 0 {
                libc::_exit(7);
            }
            let mut status = 0;
            let waited = libc::waitpid(child, &mut status, 0) == child;
            let thread = std::thread::spawn(|| 40 + 2).join().expect("joined");
            format!("{raised} {waited} {} {thread}", libc::WEXITSTATUS(status))
        }
    };
    let mut job = Job::start(|rank| rank.serve(|rank, _| rank.say(&act())));
    let expected = "0 true 7 42";
    assert_eq!(job.ask("act"), expected);
    for generation in 1..=3 {
        job.image();
        job.restore(generation);
        assert_eq!(job.ask("act"), expected);
    }
    job.finish();
}

/// It inherits the handler; an order that reaches it must not make an image of it.
fn forked_child() {
    let (ours, theirs) = support::pair();
    let mut job = Job::start(|rank| {
        rank.accept_checkpoints();
        rank.user(|| {
            // SAFETY: one thread, so the child may do anything.
            if unsafe { libc::fork() } == 0 {
                support::send(theirs.as_raw_fd(), &std::process::id().to_le_bytes(), &[]);
                support::receive(theirs.as_raw_fd(), support::LIMIT);
                support::send(theirs.as_raw_fd(), b"alone", &[]);
                // SAFETY: ends the child.
                unsafe { libc::_exit(0) };
            }
        });
        rank.serve(|rank, _| {
            // SAFETY: no status is asked for.
            unsafe { libc::waitpid(-1, null_mut(), 0) };
            rank.say("reaped");
        });
    });
    let (bytes, _) = support::receive(ours.as_raw_fd(), support::LIMIT).expect("a number");
    let child = u32::from_le_bytes(bytes.try_into().expect("4 bytes")) as i32;
    let pidfd = support::pidfd(child);
    let sent = {
        use std::os::fd::AsFd as _;
        let (mut seen, start) = (Default::default(), std::time::Instant::now());
        loop {
            let signal = support::signal();
            let sent =
                rejoin_ckpt::checkpoint_request::send(pidfd.as_fd(), child, signal, 1, &mut seen);
            if !matches!(sent, Ok(false)) || start.elapsed() > support::LIMIT {
                break sent;
            }
        }
    };
    assert!(sent.expect("sent"));
    support::send(ours.as_raw_fd(), b"go", &[]);
    let (bytes, _) = support::receive(ours.as_raw_fd(), support::LIMIT).expect("a word");
    assert_eq!(bytes, b"alone");
    assert_eq!(job.ask("wait"), "reaped");
    // The first thing from the rank after that is the image that it was asked for.
    job.image();
    job.restore(1);
    job.finish();
}

fn inside() {
    let mut job = Job::start(|rank| {
        rank.accept_checkpoints();
        rank.serve(|rank, word| {
            rank.say(word);
            // Out into the program and back.
            rank.user(|| {});
        });
    });
    assert_eq!(job.ask("zero"), "zero");
    // It has been in the program since, and waits inside again.
    job.sleeps_in(libc::SYS_poll);
    job.order(5);
    job.order(4);
    assert_eq!(job.ask("one"), "one");
    job.imaged();
    // The newest only, and only once.
    job.order(5);
    assert_eq!(job.ask("two"), "two");
    assert_eq!(job.ask("three"), "three");
    job.restore(1);
    job.finish();
}

fn redirected() {
    let folder = std::env::temp_dir().join(format!("rejoin-redirected-{}", std::process::id()));
    let path = folder.clone();
    let mut job = Job::start(move |rank| {
        let file = std::fs::File::create(path).expect("a file");
        // SAFETY: numbers of this process.
        unsafe { libc::dup2(file.as_raw_fd(), 1) };
        drop(file);
        rank.serve(|rank, word| {
            writer(word);
            rank.say("done");
        });
    });
    job.ask("one,");
    job.image();
    job.ask("lost,");
    job.restore(1);
    job.ask("two");
    let text = std::fs::read_to_string(&folder).expect("a file");
    std::fs::remove_file(&folder).expect("removed");
    assert_eq!(text, "one,two");
    job.finish();
}

fn no_pipes() {
    use std::os::fd::AsFd as _;
    let mut job = Job::start(|rank| {
        rank.serve(|rank, word| {
            writer(word);
            rank.say(&format!("{:?}", rank.caveats));
        });
    });
    job.image();
    job.kill();
    let (socket, theirs) = support::pair();
    let fds = [theirs.as_fd()];
    let request = rejoin_ckpt::twin::manager::RestoreRequest {
        fds: &fds,
        ..Default::default()
    };
    let twin = job.twin.as_mut().expect("an image");
    assert!(twin.zygote.restore(&request).expect("restored"));
    let answer = support::job::answer(&mut twin.zygote);
    let rejoin_ckpt::twin::manager::ZygoteAnswer::Running { pid } = answer else {
        panic!("{answer:?}")
    };
    drop(theirs);
    (job.pid, job.pidfd, job.socket) = (pid, support::pidfd(pid), socket);
    job.expect("restored 1");
    assert_eq!(
        job.ask("into nothing"),
        "[StreamLost { fd: 1 }, StreamLost { fd: 2 }]"
    );
    job.finish();
}

fn new_input() {
    use std::os::fd::AsFd as _;
    let (old, _old_writer) = support::pipe();
    let mut job = Job::start(|rank| {
        // SAFETY: numbers of this process.
        unsafe { libc::dup2(old.as_raw_fd(), 0) };
        rank.serve(|rank, _| {
            let mut bytes = [0u8; 16];
            // SAFETY: pointer and length describe the buffer.
            let count = unsafe { libc::read(0, bytes.as_mut_ptr().cast(), 16) };
            rank.say(&String::from_utf8_lossy(&bytes[..count.max(0) as usize]));
        });
    });
    job.image();
    job.kill();
    let (socket, theirs) = support::pair();
    let (input, writer) = support::pipe();
    let fds = [theirs.as_fd()];
    let stdin = Some(input.as_fd());
    let request = rejoin_ckpt::twin::manager::RestoreRequest {
        fds: &fds,
        stdin,
        ..Default::default()
    };
    let twin = job.twin.as_mut().expect("an image");
    assert!(twin.zygote.restore(&request).expect("restored"));
    let answer = support::job::answer(&mut twin.zygote);
    let rejoin_ckpt::twin::manager::ZygoteAnswer::Running { pid } = answer else {
        panic!("{answer:?}")
    };
    drop((theirs, input));
    (job.pid, job.pidfd, job.socket) = (pid, support::pidfd(pid), socket);
    job.expect("restored 1");
    support::write(writer.as_raw_fd(), "fed again");
    assert_eq!(job.ask("read"), "fed again");
    job.finish();
}

fn nonsense() {
    use std::os::fd::{AsFd as _, AsRawFd as _};
    let mut job = Job::start(|rank| rank.serve(|_, _| {}));
    job.image();
    let twin = job.twin.take().expect("an image");
    let bytes = [0x77u8; 24];
    let fd = twin.zygote.as_fd().as_raw_fd();
    // SAFETY: pointer and length describe the bytes.
    assert_eq!(unsafe { libc::write(fd, bytes.as_ptr().cast(), 24) }, 24);
    assert_eq!(end_of(twin.pidfd.as_raw_fd()), (libc::CLD_EXITED, 0));
    // The other way round: bytes that a program might write to its twin's socket.
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
    let mut zygote = rejoin_ckpt::twin::manager::Zygote::new(ours.into()).expect("a zygote");
    assert!(zygote.answer().expect("nothing yet").is_none());
    std::io::Write::write_all(&mut &theirs, &bytes).expect("written");
    assert!(zygote.answer().is_err());
    job.finish();
}
