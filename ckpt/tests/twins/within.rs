//! Descriptors without a file, both ends of which are in the process. `tests/programs/within.c` has
//! all kinds of them.

use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use rejoin_tests::folder::Folder;

use crate::support::{self, Job, Rank, Test};

pub const TESTS: &[Test] = &[
    ("within_contents_come_again_in_each_runner", contents),
    ("within_an_image_does_not_keep_a_pipe_open", ends),
    ("within_what_was_closed_since_is_there_again", closed_since),
    ("within_passed_descriptors_refuse_an_image", passed),
    ("within_full_pairs_are_full_again", full),
    ("within_epoll_sets_watch_the_standard_streams", streams),
    ("within_shared_memory_is_as_it_was", memory),
    ("within_files_that_are_mapped_are_as_they_were", mapped_file),
    (
        "within_mapped_files_that_were_removed_are_there_again",
        removed_file,
    ),
    (
        "within_contents_without_kcmp_in_a_container",
        in_a_container,
    ),
];

fn pair(kind: i32) -> [RawFd; 2] {
    let mut ends = [0; 2];
    // SAFETY: the pointer is to two numbers.
    let made = unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) };
    assert_eq!(made, 0);
    ends
}

fn pipe() -> [RawFd; 2] {
    let mut ends = [0; 2];
    // SAFETY: the pointer is to two numbers.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    ends
}

/// What waits in a descriptor, or the number of the error.
fn take(fd: RawFd) -> String {
    if !support::readable(fd, Duration::ZERO) {
        return "nothing".to_owned();
    }
    let mut bytes = [0u8; 64];
    // SAFETY: pointer and length describe the buffer.
    let count = unsafe { libc::read(fd, bytes.as_mut_ptr().cast(), bytes.len()) };
    match usize::try_from(count) {
        Ok(0) => "end".to_owned(),
        Ok(count) => String::from_utf8_lossy(&bytes[..count]).into_owned(),
        Err(_) => std::io::Error::last_os_error().to_string(),
    }
}

/// A rank that takes what is in `fds`.
fn taker(fds: Vec<RawFd>) -> impl FnOnce(&mut Rank) {
    move |rank| {
        rank.serve(|rank, _| {
            let all: Vec<_> = fds.iter().map(|fd| take(*fd)).collect();
            rank.say(&all.join(" "));
        });
    }
}

fn check_contents(prepare: fn()) {
    let mut job = Job::start(|rank| {
        prepare();
        let (pipe, stream) = (pipe(), pair(libc::SOCK_STREAM));
        let datagrams = pair(libc::SOCK_DGRAM);
        let mut packets = [0; 2];
        // SAFETY: the pointer is to two numbers.
        let made = unsafe { libc::pipe2(packets.as_mut_ptr(), libc::O_DIRECT) };
        assert_eq!(made, 0);
        support::write(packets[1], "five");
        support::write(packets[1], "six");
        support::write(pipe[1], "one");
        support::write(stream[0], "two");
        support::write(datagrams[1], "three");
        support::write(datagrams[1], "four");
        // SAFETY: touches no memory.
        let copy = unsafe { libc::dup(pipe[0]) };
        let [first, second] = [datagrams[0], packets[0]];
        let all = [
            copy, stream[1], first, first, second, second, pipe[0], stream[0],
        ];
        taker(all.to_vec())(rank);
    });
    let all = "one two three four five six nothing nothing";
    for generation in 0..3 {
        job.image();
        assert_eq!(job.twin.as_ref().expect("an image").caveats, 0);
        assert_eq!(job.ask("take"), all);
        job.restore(2 * generation + 1);
        assert_eq!(job.ask("take"), all);
        // An image of the runner, from before it took them.
        job.restore(2 * generation + 1);
        job.image();
        job.restore(2 * generation + 2);
    }
    job.finish();
}

fn contents() {
    check_contents(|| {});
}

fn in_a_container() {
    check_contents(|| support::refuse(libc::SYS_kcmp, libc::EPERM));
}

fn ends() {
    let mut job = Job::start(|rank| {
        let (pipe, pair) = (pipe(), pair(libc::SOCK_STREAM));
        rank.serve(|rank, word| {
            if word == "close" {
                // SAFETY: numbers of this process.
                unsafe {
                    libc::close(pipe[1]);
                    libc::close(pair[1]);
                }
            }
            rank.say(&format!("{} {}", take(pipe[0]), take(pair[0])));
        });
    });
    job.image();
    assert_eq!(job.ask("close"), "end end");
    job.restore(1);
    assert_eq!(job.ask("take"), "nothing nothing");
    assert_eq!(job.ask("close"), "end end");
    // An image of ends that are alone.
    job.image();
    job.restore(2);
    assert_eq!(job.ask("take"), "end end");
    job.finish();
}

fn closed_since() {
    let mut job = Job::start(|rank| {
        let pipe = pipe();
        support::write(pipe[1], "old");
        rank.serve(|rank, word| {
            if word == "close" {
                // SAFETY: numbers of this process.
                unsafe {
                    libc::close(pipe[0]);
                    libc::close(pipe[1]);
                }
                // Other objects under the numbers.
                assert_eq!(pair(libc::SOCK_STREAM), pipe);
            }
            rank.say(&take(pipe[0]));
        });
    });
    job.image();
    assert_eq!(job.ask("close"), "nothing");
    job.restore(1);
    assert_eq!(job.ask("take"), "old");
    job.finish();
}

fn passed() {
    let mut job = Job::start(|rank| {
        let ends = pair(libc::SOCK_STREAM);
        support::send(ends[0], b"with", &[ends[0]]);
        rank.serve(|rank, _| rank.say("here"));
    });
    job.tell("image");
    let said = job.hear();
    assert!(
        said.contains("refused: descriptor") && said.contains("a message with descriptors waits"),
        "{said}"
    );
    assert_eq!(job.ask("there?"), "here");
    job.finish();
}

/// Sends pieces of a length until no more fits, and then bytes.
fn fill(fd: RawFd, length: usize) -> usize {
    let bytes = vec![7u8; length];
    let mut sum = 0;
    for length in [length, 1] {
        // SAFETY: pointer and length describe the bytes.
        while let Ok(count) = usize::try_from(unsafe {
            libc::send(fd, bytes.as_ptr().cast(), length, libc::MSG_DONTWAIT)
        }) {
            sum += count;
        }
    }
    sum
}

fn full() {
    for length in [1, 700, 65536] {
        let mut job = Job::start(|rank| {
            let ends = pair(libc::SOCK_STREAM);
            fill(ends[0], length);
            rank.serve(|rank, _| rank.say(&fill(ends[0], 1).to_string()));
        });
        for generation in 1..4 {
            job.image();
            job.restore(generation);
            assert_eq!(job.ask("more"), "0", "pieces of {length}");
        }
        job.finish();
    }
}

fn streams() {
    let mut job = Job::start(|rank| {
        // SAFETY: touches no memory.
        let set = unsafe { libc::epoll_create1(0) };
        let mut event = libc::epoll_event {
            events: libc::EPOLLOUT as u32,
            u64: 77,
        };
        // SAFETY: the pointer is to an event.
        let added = unsafe { libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, 1, &raw mut event) };
        assert_eq!(added, 0);
        rank.serve(|rank, _| {
            let mut events = [libc::epoll_event { events: 0, u64: 0 }; 4];
            // SAFETY: pointer and count describe the events.
            let found = unsafe { libc::epoll_wait(set, events.as_mut_ptr(), 4, 0) };
            let data = events[0].u64;
            rank.say(&format!("{found} {data}"));
        });
    });
    assert_eq!(job.ask("look"), "1 77");
    for generation in 1..4 {
        job.image();
        assert_eq!(job.ask("look"), "1 77");
        job.restore(generation);
        assert_eq!(job.ask("look"), "1 77");
    }
    job.finish();
}

/// A rank that counts in shared memory.
fn counter(file: RawFd) -> impl FnOnce(&mut Rank) {
    move |rank| {
        let anonymous = if file < 0 { libc::MAP_ANONYMOUS } else { 0 };
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: new memory, which this function alone uses.
        let memory = unsafe {
            let kind = libc::MAP_SHARED | anonymous;
            let at = libc::mmap(std::ptr::null_mut(), 1 << 20, access, kind, file, 0);
            assert_ne!(at, libc::MAP_FAILED);
            // The middle has an access of its own.
            libc::mprotect(at.byte_add(1 << 19), 4096, libc::PROT_READ);
            std::slice::from_raw_parts_mut(at.cast::<u8>(), 1 << 19)
        };
        rank.serve(|rank, _| {
            memory[7] += 1;
            memory[(1 << 19) - 1] += 2;
            rank.say(&format!("{} {}", memory[7], memory[(1 << 19) - 1]));
        });
    }
}

fn check_counter(mut job: Job) {
    job.ask("count");
    for generation in 1..4 {
        job.image();
        assert_eq!(job.ask("count"), "2 4");
        assert_eq!(job.ask("count"), "3 6");
        job.restore(generation);
        assert_eq!(job.ask("count"), "2 4");
        // The same image again.
        job.restore(generation);
    }
    job.finish();
}

fn memory() {
    check_counter(Job::start(counter(-1)));
}

/// A rank that counts in a file, which it maps.
fn file_counter(path: &std::path::Path) -> Job {
    let file = std::fs::File::create_new(path).expect("a file");
    file.set_len(1 << 20).expect("its length");
    Job::start(|rank| {
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).write(true).open(path);
        counter(file.expect("the file").as_raw_fd())(rank);
    })
}

fn mapped_file() {
    let folder = Folder::new("mapped");
    check_counter(file_counter(&folder.join("file")));
}

fn removed_file() {
    let folder = Folder::new("removed");
    let path = folder.join("file");
    let mut job = file_counter(&path);
    assert_eq!(job.ask("count"), "1 2");
    job.image();
    std::fs::remove_file(&path).expect("removed");
    job.restore(1);
    assert_eq!(job.ask("count"), "2 4");
    let bytes = std::fs::read(&path).expect("the file");
    assert_eq!((bytes.len(), bytes[7]), (1 << 20, 2));
    job.finish();
}
