//! Images, restores and generations.

use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use rejoin_ckpt::twin::NAME;
use rejoin_ckpt::twin::manager::Zygote;
use rejoin_tests::tracee::{Stop, Tracee};

use crate::support::{
    self, Job, LIMIT, Test, end_of, kill, pidfd, read_to_end, readable, status_of,
};

pub const TESTS: &[Test] = &[
    ("a_restored_image_goes_on_where_it_was", goes_on),
    ("an_image_is_never_consumed", never_consumed),
    ("two_hundred_generations_do_not_grow", generations),
    ("a_runner_made_ahead_takes_the_next_wake", made_ahead),
    ("a_runner_made_ahead_ends_with_its_twin", ends_ahead),
    (
        "a_runner_that_is_killed_with_its_wake_is_replaced",
        killed_with_its_wake,
    ),
    (
        "signals_sent_to_a_runner_made_ahead_do_not_strike",
        signals_ahead,
    ),
    (
        "a_runner_stopped_as_it_answers_does_not_hold_up_its_twin",
        stopped_ahead,
    ),
    ("a_twin_names_itself", names_itself),
    ("a_twin_ends_with_its_manager", ends_with_manager),
    ("a_runner_ends_with_its_manager", runner_ends_with_manager),
    ("a_killed_twin_is_noticed_and_replaced", twin_killed),
    (
        "peers_see_the_ranks_end_though_its_twin_lives",
        peers_see_the_end,
    ),
    (
        "peers_see_the_ranks_end_on_older_kernels_too",
        peers_see_the_end_without_a_range,
    ),
    ("the_program_sees_no_child", no_child),
    ("a_wrapped_rank_has_its_twins_as_hidden_children", wrapped),
    ("streams_are_cut_exactly_at_the_image", streams_are_exact),
    ("all_numbers_of_a_stream_are_renewed", stream_numbers),
    ("a_large_body_and_many_descriptors_arrive", large_body),
    ("a_frozen_twin_uses_no_cpu", no_cpu),
    ("a_twin_goes_before_its_rank_when_memory_is_short", oom),
    ("shared_memory_is_refused", shared_refused),
    ("children_are_refused", children_refused),
    ("memory_left_out_of_the_clone_is_found", dontfork),
];

fn goes_on() {
    let mut job = Job::start(|rank| {
        let mut sum = 0u64;
        rank.serve(|rank, word| {
            sum += word.parse::<u64>().expect("a number");
            rank.say(&format!("{sum} {}", String::from_utf8_lossy(&rank.body)));
        });
    });
    assert_eq!(job.ask("5"), "5 ");
    job.image();
    assert_eq!(job.ask("7"), "12 ");
    job.restore(1);
    assert_eq!(job.ask("2"), "7 hello");
    job.finish();
}

fn never_consumed() {
    let mut job = Job::start(|rank| {
        let mut calls = 0;
        rank.serve(|rank, _| {
            calls += 1;
            rank.say(&format!("{calls}"));
        });
    });
    job.image();
    for _ in 0..3 {
        assert_eq!(job.ask("call"), "1");
        job.restore(1);
    }
    assert_eq!(job.ask("call"), "1");
    job.finish();
}

fn open_files(pid: i32) -> Vec<String> {
    let list = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("a process");
    let mut list: Vec<_> = list
        .map(|e| {
            e.expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    list.sort();
    list
}

fn generations() {
    let mut job = Job::start(|rank| rank.serve(|rank, word| rank.say(word)));
    let mut early = None;
    let last = std::env::var("REJOIN_GENERATIONS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(200);
    for generation in 1..=last {
        job.image();
        job.restore(generation);
        // Only memory of its own: how much of a file is mapped depends on what the process has
        // touched by now.
        let size: Vec<u64> = ["VmSize", "RssAnon"]
            .map(|key| {
                status_of(job.pid, key)
                    .trim_end_matches(" kB")
                    .parse()
                    .expect("kB")
            })
            .into();
        let lines = std::fs::read_to_string(format!("/proc/{}/maps", job.pid)).expect("maps");
        let now = (open_files(job.pid), lines.lines().count(), size);
        if generation == 5 {
            early = Some(now);
        } else if generation == last {
            let then = early.take().expect("seen");
            assert_eq!(now.0, then.0, "descriptors");
            assert_eq!(now.1, then.1, "mappings");
            assert!(
                now.2[0] <= then.2[0] && now.2[1] <= then.2[1] + 256,
                "{now:?} {then:?}"
            );
        }
    }
    job.finish();
}

/// Children of this process that are twins.
fn twins() -> Vec<i32> {
    let pid = std::process::id();
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("a list");
    let all = list
        .split_whitespace()
        .map(|n| n.parse().expect("a number"));
    all.filter(|pid| name_of(*pid) == NAME).collect()
}

/// Has a runner made ahead, and waits for it.
fn prepare(job: &mut Job) -> i32 {
    let twin = job.twin.as_mut().expect("an image");
    assert!(twin.zygote.prepare().expect("prepared"));
    let start = std::time::Instant::now();
    loop {
        if let [one] = twins()
            .into_iter()
            .filter(|pid| *pid != twin.pid)
            .collect::<Vec<_>>()[..]
        {
            return one;
        }
        assert!(start.elapsed() < LIMIT, "no runner is made");
        std::thread::yield_now();
    }
}

fn made_ahead() {
    let mut job = Job::start(|rank| rank.serve(|rank, word| rank.say(word)));
    let own = name_of(job.pid);
    for generation in 1..=5 {
        job.image();
        let ahead = prepare(&mut job);
        job.restore(generation);
        assert_eq!((job.pid, name_of(job.pid)), (ahead, own.clone()));
        assert_eq!(job.ask("well?"), "well?");
        // The zygote has not been consumed, and can do it again.
        job.restore(generation);
        assert_ne!(job.pid, ahead);
        let ahead = prepare(&mut job);
        job.restore(generation);
        assert_eq!(job.pid, ahead);
    }
    job.finish();
    assert!(twins().is_empty());
}

fn signals_ahead() {
    let mut job = Job::start(|rank| rank.serve(|rank, word| rank.say(word)));
    job.image();
    let ahead = pidfd(prepare(&mut job));
    for signal in [
        libc::SIGINT,
        libc::SIGTERM,
        libc::SIGUSR1,
        libc::SIGRTMIN(),
        libc::SIGRTMIN(),
    ] {
        kill(ahead.as_raw_fd(), signal);
    }
    job.restore(1);
    assert_eq!(job.ask("well?"), "well?");
    job.finish();
}

fn ends_ahead() {
    let mut job = Job::start(|rank| rank.serve(|_, _| {}));
    job.image();
    let ahead = pidfd(prepare(&mut job));
    job.drop_twin();
    assert_eq!(end_of(ahead.as_raw_fd()), (libc::CLD_EXITED, 0));
    job.image();
    let ahead = pidfd(prepare(&mut job));
    // Killed itself, it is replaced by the zygote.
    kill(ahead.as_raw_fd(), libc::SIGKILL);
    end_of(ahead.as_raw_fd());
    job.restore(1);
    job.finish();
}

fn stopped_ahead() {
    let mut job = Job::start(|rank| rank.serve(|rank, word| rank.say(word)));
    job.image();
    let ahead = prepare(&mut job);
    job.kill();
    stop_as_it_answers(&mut job, ahead);
    // The job rolls back again: a stopped process is not ended before its successor exists.
    let stopped = std::mem::replace(&mut job.pidfd, pidfd(ahead));
    job.begin_restore();
    job.expect("restored 1");
    assert_eq!(job.ask("well?"), "well?");
    kill(stopped.as_raw_fd(), libc::SIGKILL);
    end_of(stopped.as_raw_fd());
    job.finish();
}

fn killed_with_its_wake() {
    let mut job = Job::start(|rank| rank.serve(|rank, word| rank.say(word)));
    for generation in 1..=3 {
        job.image();
        let ahead = prepare(&mut job);
        job.kill();
        // It has taken the request, and has reported nothing.
        let killed = pidfd(ahead);
        let mut tracee = Tracee::seize(ahead.cast_unsigned());
        let ends = job.send_wake(b"hello", true, &[]);
        assert_eq!(tracee.next_call(libc::SYS_sendto), Stop::Entry);
        kill(killed.as_raw_fd(), libc::SIGKILL);
        drop(tracee);
        end_of(killed.as_raw_fd());
        job.arrive(ends);
        assert_ne!(job.pid, ahead);
        job.expect(&format!("restored {generation}"));
        assert_eq!(job.ask("well?"), "well?");
    }
    job.finish();
}

/// Wakes the image, whose runner was made ahead, and stops that just behind the call that sends its
/// answer.
fn stop_as_it_answers(job: &mut Job, ahead: i32) {
    let trace = |request, data: usize| {
        // SAFETY: `data` is a number, or points to what the request writes.
        let done = unsafe { libc::ptrace(request, ahead, 0usize, data) };
        assert!(done >= 0, "{}", std::io::Error::last_os_error());
    };
    let pause = || {
        let mut status = 0;
        // SAFETY: the pointer is to a number.
        let who = unsafe { libc::waitpid(ahead, &raw mut status, libc::__WALL) };
        assert!(who == ahead && libc::WIFSTOPPED(status), "{status:#x}");
    };
    trace(libc::PTRACE_SEIZE, 0);
    trace(libc::PTRACE_INTERRUPT, 0);
    pause();
    let ends = job.send_wake(b"hello", true, &[]);
    loop {
        trace(libc::PTRACE_SYSCALL, 0);
        pause();
        // SAFETY: plain data, filled in below.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        trace(libc::PTRACE_GETREGS, (&raw mut registers).addr());
        let sent = registers.rax.cast_signed();
        if registers.orig_rax == libc::SYS_sendto as u64 && sent > 0 {
            break;
        }
    }
    kill(pidfd(ahead).as_raw_fd(), libc::SIGSTOP);
    trace(libc::PTRACE_DETACH, 0);
    job.arrive(ends);
}

fn name_of(pid: i32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm"))
        .expect("a name")
        .trim()
        .to_owned()
}

fn names_itself() {
    let mut job = Job::start(|rank| rank.serve(|_, _| {}));
    let own = name_of(job.pid);
    job.image();
    let twin = job.twin.as_ref().expect("an image").pid;
    assert_eq!(name_of(twin), NAME);
    job.restore(1);
    assert_eq!((name_of(job.pid), name_of(twin)), (own, NAME.to_owned()));
    job.finish();
}

fn ends_with_manager() {
    let mut job = Job::start(|rank| rank.serve(|_, _| {}));
    job.image();
    // The manager's end of file comes by its death, however it dies: here the socket alone is
    // closed.
    let twin = job.twin.take().expect("an image");
    drop(twin.zygote);
    assert_eq!(end_of(twin.pidfd.as_raw_fd()), (libc::CLD_EXITED, 0));
    job.finish();
}

fn runner_ends_with_manager() {
    // A manager between, which is killed; this process inherits what it leaves.
    let (ours, theirs) = support::pair();
    // SAFETY: one thread, so the child may do anything.
    let manager = unsafe { libc::fork() };
    if manager == 0 {
        drop(ours);
        // It waits where it does not see the manager's end of file.
        let mut job = Job::start(|rank| {
            rank.serve(|_, _| {
                // SAFETY: waits for a signal.
                unsafe { libc::pause() };
            });
        });
        job.image();
        let twin = job.twin.as_ref().expect("an image").pid;
        job.restore(1);
        job.tell("pause");
        job.sleeps_in(libc::SYS_pause);
        support::send(
            theirs.as_raw_fd(),
            format!("{twin} {}", job.pid).as_bytes(),
            &[],
        );
        readable(theirs.as_raw_fd(), LIMIT);
        std::process::exit(1);
    }
    drop(theirs);
    let (bytes, _) = support::receive(ours.as_raw_fd(), LIMIT).expect("numbers");
    let text = String::from_utf8(bytes).expect("text");
    let all: Vec<_> = text
        .split(' ')
        .map(|n| pidfd(n.parse().expect("a number")))
        .collect();
    let manager = pidfd(manager);
    kill(manager.as_raw_fd(), libc::SIGKILL);
    end_of(manager.as_raw_fd());
    assert_eq!(
        end_of(all[0].as_raw_fd()),
        (libc::CLD_EXITED, 0),
        "the twin"
    );
    assert_eq!(
        end_of(all[1].as_raw_fd()),
        (libc::CLD_KILLED, libc::SIGKILL),
        "the runner"
    );
}

fn twin_killed() {
    let mut job = Job::start(|rank| rank.serve(|rank, word| rank.say(word)));
    job.image();
    let twin = job.twin.take().expect("an image");
    kill(twin.pidfd.as_raw_fd(), libc::SIGKILL);
    assert_eq!(
        end_of(twin.pidfd.as_raw_fd()),
        (libc::CLD_KILLED, libc::SIGKILL)
    );
    let mut zygote: Zygote = twin.zygote;
    assert!(zygote.restore(&Default::default()).is_err() || zygote.answer().is_err());
    assert_eq!(job.ask("well?"), "well?");
    job.image();
    job.restore(1);
    job.finish();
}

fn peers_see_the_end() {
    peer(|| {});
}

fn peers_see_the_end_without_a_range() {
    peer(|| support::refuse(libc::SYS_close_range, libc::ENOSYS));
}

fn peer(begin: fn()) {
    let (ours, theirs) = support::pair();
    let raw = theirs.as_raw_fd();
    let mut job = Job::start(move |rank| {
        begin();
        // A link of the library's, in its block.
        // SAFETY: touches no memory.
        assert!(unsafe { libc::fcntl(raw, libc::F_DUPFD_CLOEXEC, support::BLOCK) } > 0);
        // SAFETY: as above.
        unsafe { libc::close(raw) };
        rank.serve(|_, _| {});
    });
    drop(theirs);
    job.image();
    assert!(!readable(ours.as_raw_fd(), Duration::ZERO));
    job.kill();
    assert!(
        support::receive(ours.as_raw_fd(), LIMIT).is_none(),
        "the end of file"
    );
    let old = std::mem::replace(&mut job.stdout, support::pipe().0);
    read_to_end(old);
    job.begin_restore();
    job.expect("restored 1");
    job.finish();
}

fn wait_any() -> i32 {
    // SAFETY: no status is asked for.
    let result = unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) };
    if result < 0 {
        std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
    } else {
        -result
    }
}

fn no_child() {
    let program = |rank: &mut support::Rank| {
        rank.serve(|rank, _| rank.say(&format!("{}", wait_any())));
    };
    let mut job = Job::start(program);
    let echild = libc::ECHILD.to_string();
    job.image();
    assert_eq!(job.ask("wait"), echild);
    job.restore(1);
    assert_eq!(job.ask("wait"), echild);
    job.image();
    assert_eq!(job.ask("wait"), echild);
    assert_eq!(status_of(job.pid, "PPid"), std::process::id().to_string());
    job.finish();
}

fn wrapped() {
    let mut job = Job::start_below(
        |rank| rank.serve(|rank, _| rank.say(&format!("{}", wait_any()))),
        true,
    );
    let echild = libc::ECHILD.to_string();
    for _ in 0..3 {
        job.image();
        assert!(!job.twin.as_ref().expect("an image").is_managers_child);
        assert_eq!(job.ask("wait"), echild);
    }
    // A runner made ahead must not look like a child of the program's.
    let twin = job.twin.as_mut().expect("an image");
    assert!(twin.zygote.prepare().expect("prepared"));
    let list = format!("/proc/{0}/task/{0}/children", twin.pid);
    let start = std::time::Instant::now();
    while std::fs::read_to_string(&list).is_ok_and(|list| list.is_empty()) {
        assert!(start.elapsed() < LIMIT, "no runner is made");
        std::thread::yield_now();
    }
    job.image();
    // Its wrapper reaps the rank; the twin, an orphan now, comes to this process.
    kill(job.pidfd.as_raw_fd(), libc::SIGKILL);
    assert!(readable(job.pidfd.as_raw_fd(), LIMIT));
    job.begin_restore();
    job.expect("restored 1");
    assert_eq!(job.ask("wait"), echild);
    job.image();
    job.restore(2);
    job.finish();
}

fn print(text: &str) {
    // SAFETY: pointer and length describe the text.
    let count = unsafe { libc::write(1, text.as_ptr().cast(), text.len()) };
    assert_eq!(count, text.len() as isize);
}

fn streams_are_exact() {
    let mut job = Job::start(|rank| {
        rank.serve(|rank, word| {
            print(word);
            rank.say("done");
        })
    });
    job.ask("one\n");
    job.image();
    assert_eq!(job.text, "one\n");
    job.ask("lost\n");
    job.kill();
    // No other process holds the pipe, so the output of the lost run has an end.
    assert_eq!(read_to_end(job.stdout.as_fd()), "lost\n");
    job.begin_restore();
    job.expect("restored 1");
    job.ask("two\n");
    job.image();
    assert_eq!(job.text, "one\ntwo\n");
    job.finish();
}

fn stream_numbers() {
    let mut job = Job::start(|rank| {
        // SAFETY: numbers of this process.
        let saved = unsafe { libc::dup(1) };
        rank.serve(|rank, word| {
            // SAFETY: pointer and length describe the text.
            unsafe { libc::write(saved, word.as_ptr().cast(), word.len()) };
            rank.say("done");
        });
    });
    job.ask("a");
    job.image();
    assert_eq!(job.text, "a");
    job.kill();
    read_to_end(job.stdout.as_fd());
    job.begin_restore();
    job.expect("restored 1");
    job.ask("b");
    job.image();
    assert_eq!(job.text, "ab");
    job.finish();
}

fn large_body() {
    let mut job = Job::start(|rank| {
        rank.serve(|rank, _| {
            let sum: u64 = rank.body.iter().map(|b| u64::from(*b)).sum();
            let low = rank.fds.iter().all(|fd| fd.as_raw_fd() >= support::BLOCK);
            rank.say(&format!("{} {sum} {low}", rank.body.len()));
        });
    });
    job.image();
    job.kill();
    let body: Vec<u8> = (0..1 << 20).map(|n: u32| n as u8).collect();
    job.restore_with(&body, true, &[(1, 2), (3, 4)]);
    job.expect("restored 1");
    let sum: u64 = body.iter().map(|b| u64::from(*b)).sum();
    assert_eq!(job.ask("sum"), format!("1048576 {sum} true"));
    let zygote = &mut job.twin.as_mut().expect("an image").zygote;
    let long = vec![0; (1 << 20) + 1];
    let request = rejoin_ckpt::twin::manager::RestoreRequest {
        body: &long,
        ..Default::default()
    };
    assert!(zygote.restore(&request).is_err());
    job.restore(1);
    job.finish();
}

fn no_cpu() {
    let mut job = Job::start(|rank| rank.serve(|_, _| {}));
    job.image();
    let twin = job.twin.as_ref().expect("an image").pid;
    // Its answer leaves just before it falls asleep.
    let start = std::time::Instant::now();
    while !status_of(twin, "State").starts_with('S') {
        assert!(start.elapsed() < LIMIT, "it does not come to rest");
        std::thread::yield_now();
    }
    let call = std::fs::read_to_string(format!("/proc/{twin}/syscall")).expect("a call");
    assert!(
        call.starts_with(&format!("{} ", libc::SYS_recvmsg)),
        "{call}"
    );
    job.finish();
}

fn oom() {
    let value = |pid: i32| -> i32 {
        let text = std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).expect("a value");
        text.trim().parse().expect("a number")
    };
    let mut job = Job::start(|rank| rank.serve(|_, _| {}));
    let before = value(job.pid);
    job.image();
    assert!(value(job.twin.as_ref().expect("an image").pid) > before);
    job.restore(1);
    assert_eq!(value(job.pid), before);
    job.finish();
}

fn map(kind: i32) -> *mut libc::c_void {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping wherever the system likes.
    unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            8192,
            access,
            kind | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    }
}

fn shared_refused() {
    // This process maps it, too, as its parent has done.
    let at = map(libc::MAP_SHARED);
    let mut job = Job::start(|rank| {
        rank.serve(|rank, _| {
            // SAFETY: the mapping was made above, and nothing uses it.
            unsafe { libc::munmap(at, 8192) };
            rank.say("done");
        });
    });
    let text = job.ask("image");
    assert!(
        text.starts_with("refused: the program has writable shared memory"),
        "{text}"
    );
    assert!(
        text.contains("anonymous") && text.contains("8192"),
        "{text}"
    );
    job.ask("unmap");
    job.image();
    job.restore(1);
    job.finish();
}

fn children_refused() {
    let mut job = Job::start(|rank| {
        // SAFETY: one thread; the child only waits to be killed.
        let mut child = unsafe { libc::fork() };
        if child == 0 {
            loop {
                // SAFETY: waits for a signal.
                unsafe { libc::pause() };
            }
        }
        rank.serve(|rank, _| {
            // SAFETY: a child of this process.
            unsafe {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, std::ptr::null_mut(), 0);
            }
            child = 0;
            rank.say("reaped");
        });
    });
    assert!(job.ask("image").contains("child process of its own ("));
    assert_eq!(job.ask("reap"), "reaped");
    job.image();
    job.restore(1);
    job.finish();
}

fn dontfork() {
    let mut job = Job::start(|rank| {
        rank.serve(|rank, _| {
            let at = map(libc::MAP_PRIVATE);
            // SAFETY: a mapping of this process.
            assert_eq!(unsafe { libc::madvise(at, 8192, libc::MADV_DONTFORK) }, 0);
            rank.say("done");
        });
    });
    job.image();
    assert_eq!(job.twin.as_ref().expect("an image").missing, 0);
    job.ask("mark");
    job.image();
    assert_eq!(job.twin.as_ref().expect("an image").missing, 8192);
    job.finish();
}
