//! Images at random moments in the middle of the C library's own work.

use std::ffi::{CStr, CString, c_void};
use std::os::fd::AsRawFd;
use std::ptr::null_mut;
use std::time::Duration;

use rejoin_tests::folder::Folder;

use crate::support::{self, Job, LIMIT, Random, Test, read_to_end};

pub const TESTS: &[Test] = &[
    ("storm_malloc", || storm("malloc", malloc)),
    ("storm_printf", || storm("printf", printf)),
    ("storm_setenv", || storm("setenv", setenv)),
    ("storm_dlopen", || storm("dlopen", dlopen)),
    ("storm_recursive_mutex", || storm("mutex", mutex)),
    ("storm_restores", restores),
];

/// Images of a storm, and how many of them are restored.
const IMAGES: u32 = 60;
const KILLS: u32 = 12;

/// Continues for so many rounds, or until a file is there. Returns for how many that was, and their
/// sum.
fn run(round: fn(u64) -> u64, rounds: u64, file: &CStr) -> (u64, u64) {
    let (mut number, mut sum) = (0, 0u64);
    // SAFETY: the path ends with a zero byte.
    while number < rounds && unsafe { libc::access(file.as_ptr(), libc::F_OK) } != 0 {
        sum = sum.wrapping_mul(31).wrapping_add(round(number));
        number += 1;
    }
    // SAFETY: writes out what was printed.
    unsafe { libc::fflush(null_mut()) };
    (number, sum)
}

/// Orders at random times; some images are restored. The sum of all rounds must be that of as many
/// in an undisturbed run.
fn storm(name: &str, round: fn(u64) -> u64) {
    let mut random = Random::new(name);
    let folder = Folder::new("storm");
    let file = CString::new(folder.name("end")).expect("a path");
    let start = || {
        let file = file.clone();
        Job::start(move |rank| {
            rank.accept_checkpoints();
            rank.serve(|rank, word| {
                let rounds = word.parse().expect("a number");
                rank.say("now");
                let (rounds, sum) = rank.user(|| run(round, rounds, &file));
                rank.say(&format!("{rounds} {sum}"));
            });
        })
    };
    let mut job = start();
    job.tell(&u64::MAX.to_string());
    job.expect("now");
    let mut kills = 0;
    for epoch in 1..=IMAGES {
        job.order(epoch);
        let word = job.imaged_or_word(Duration::from_micros(200 + random.below(3000)));
        assert_eq!(word, None, "it ends when it is told");
        // All of them by the end.
        if kills < KILLS && (random.below(4) == 0 || IMAGES - epoch < KILLS - kills) {
            kills += 1;
            job.kill();
            read_to_end(std::mem::replace(&mut job.stdout, support::pipe().0));
            job.begin_restore();
            assert!(job.hear().starts_with("restored"));
        }
    }
    std::fs::write(folder.join("end"), "").expect("the end");
    let (word, text) = read_while(&mut job);
    job.drop_twin();
    let (rounds, _) = word.split_once(' ').expect("two numbers");
    println!("{name}: {rounds} rounds, {IMAGES} images, {kills} restored");

    std::fs::remove_file(folder.join("end")).expect("no end");
    let mut undisturbed = start();
    undisturbed.tell(rounds);
    undisturbed.expect("now");
    let (expected, printed) = read_while(&mut undisturbed);
    assert_eq!(word, expected, "{name}");
    assert!(
        text == printed,
        "{name}: other output: {} bytes, {}",
        text.len(),
        printed.len()
    );
}

/// The word and the output of a rank that goes undisturbed from now on.
fn read_while(job: &mut Job) -> (String, String) {
    let word = job.imaged_or_word(LIMIT).expect("no image was ordered");
    (word, job.rest_of_text())
}

fn malloc(number: u64) -> u64 {
    let mut sum = 0;
    let mut held: [*mut c_void; 16] = [null_mut(); 16];
    for step in 0..64 {
        let at = ((number + step * 7) % 16) as usize;
        let size = 16 + (step as usize * 37 + number as usize * 11) % 5000;
        // SAFETY: the C library's heap, used as it should be.
        unsafe {
            libc::free(held[at]);
            held[at] = libc::malloc(size);
            held[at].cast::<u8>().write(step as u8);
            held[at] = libc::realloc(held[at], size * 2);
            sum += u64::from(held[at].cast::<u8>().read());
        }
    }
    // SAFETY: as above.
    held.into_iter().for_each(|at| unsafe { libc::free(at) });
    sum
}

fn printf(number: u64) -> u64 {
    // SAFETY: the format fits the arguments.
    unsafe {
        let count = libc::printf(
            c"round %lu of a program, %.3f\n".as_ptr(),
            number,
            number as f64 / 7.0,
        );
        count as u64
    }
}

fn setenv(number: u64) -> u64 {
    let mut sum = 0;
    for step in 0..20u8 {
        let name = [b'R', b'A' + step, 0];
        let value = [b'0' + (number % 10) as u8, b'a' + step, 0];
        // SAFETY: both texts end with a zero byte.
        unsafe {
            assert_eq!(
                libc::setenv(name.as_ptr().cast(), value.as_ptr().cast(), 1),
                0
            );
            sum += u64::from(libc::getenv(name.as_ptr().cast()).cast::<u8>().read());
        }
    }
    sum
}

fn dlopen(_: u64) -> u64 {
    // SAFETY: names end with a zero byte; the library is a real one.
    unsafe {
        let library = libc::dlopen(c"libresolv.so.2".as_ptr(), libc::RTLD_NOW);
        assert!(!library.is_null());
        let found = !libc::dlsym(library, c"ns_name_ntop".as_ptr()).is_null();
        libc::dlclose(library);
        u64::from(found)
    }
}

fn mutex(_: u64) -> u64 {
    let mut sum = 0;
    // SAFETY: a mutex of this frame, used as it should be.
    unsafe {
        let mut kind: libc::pthread_mutexattr_t = std::mem::zeroed();
        libc::pthread_mutexattr_init(&mut kind);
        libc::pthread_mutexattr_settype(&mut kind, libc::PTHREAD_MUTEX_RECURSIVE);
        let mut mutex: libc::pthread_mutex_t = std::mem::zeroed();
        libc::pthread_mutex_init(&mut mutex, &kind);
        for _ in 0..200 {
            for _ in 0..4 {
                sum += libc::pthread_mutex_lock(&mut mutex) as u64;
            }
            for _ in 0..4 {
                sum += libc::pthread_mutex_unlock(&mut mutex) as u64;
            }
        }
        sum += libc::pthread_mutex_destroy(&mut mutex) as u64;
    }
    sum
}

/// Signals rain on the zygote and on the runner that it makes.
fn restores() {
    let mut random = Random::new("restores");
    let mut job = Job::start(|rank| {
        // SAFETY: takes no address.
        unsafe { libc::signal(libc::SIGUSR2, libc::SIG_IGN) };
        rank.accept_checkpoints();
        rank.serve(|rank, word| {
            let sum = rank.user(|| (0..200).map(malloc).sum::<u64>());
            rank.say(&format!("{word} {sum}"));
        });
    });
    let expected = job.ask("sum");
    job.image();
    let mut epoch = 0;
    for _ in 0..30 {
        job.kill();
        let twin = job.twin.as_ref().expect("an image");
        for _ in 0..random.below(20) {
            for signal in [
                libc::SIGUSR2,
                libc::SIGINT,
                libc::SIGALRM,
                libc::SIGRTMIN() + 3,
            ] {
                support::kill(twin.pidfd.as_raw_fd(), signal);
            }
        }
        job.begin_restore();
        for _ in 0..random.below(20) {
            support::kill(job.pidfd.as_raw_fd(), libc::SIGUSR2);
        }
        job.expect("restored 1");
        job.tell("sum");
        for _ in 0..random.below(3) {
            epoch += 1;
            job.order(epoch);
        }
        loop {
            // Images on the way are not what this is about: their pipes and sockets go at once.
            let (bytes, _) = support::receive(job.socket.as_raw_fd(), LIMIT).expect("it lives");
            if bytes.starts_with(b"sum") {
                assert_eq!(String::from_utf8(bytes).expect("text"), expected);
                break;
            }
        }
    }
    job.kill();
    job.drop_twin();
}
