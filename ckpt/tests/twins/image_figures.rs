//! Costs of process images on this machine, beside a plain write and a plain read of as many bytes.
//! `IMAGE_FOLDER` names the folder; `/dev/shm` by default. Prints a line for each figure: its name
//! and, behind tabs, the milliseconds of each round. `cargo xtask bench images` reads them.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rejoin_ckpt::ImageNumber;
use rejoin_ckpt::image::ImageCompression;
use rejoin_ckpt::store::{BaseFiles, ImageFolder, StoredImage};
use rejoin_ckpt::twin::manager::{Zygote, ZygoteAnswer};

use crate::process_images::{map, save, save_as};
use crate::support::job::answer;
use crate::support::{Job, kill, pidfd};

const ROUNDS: usize = 7;

struct Series(String, Vec<f64>);

impl Series {
    fn new(bytes: usize, what: &str) -> Series {
        Series(format!("{} MiB: {what}", bytes >> 20), Vec::new())
    }

    fn add(&mut self, time: Duration) {
        self.1.push(time.as_secs_f64() * 1e3);
    }
}

impl Drop for Series {
    fn drop(&mut self) {
        let times: Vec<_> = self.1.iter().map(|time| format!("{time:.3}")).collect();
        println!("{}\t{}", self.0, times.join("\t"));
    }
}

/// Random bytes, so that no page is like another.
fn fill(memory: &mut [u8]) {
    let mut state = 1u64;
    for word in memory.chunks_exact_mut(8) {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        word.copy_from_slice(&state.to_le_bytes());
    }
}

/// Ends the image's process, and makes another one of the file. The job reaps it.
#[allow(clippy::zombie_processes)]
fn start_again(job: &mut Job, image: &StoredImage) {
    let restarter = rejoin_tests::prefix().join("libexec/rejoin/rejoin-restarter");
    let (ours, theirs) = UnixStream::pair().expect("a socket");
    let child = Command::new(restarter)
        .arg(image.path())
        .args(["0", "7", "3", "1"])
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .env_clear()
        .spawn()
        .expect("a process");
    let twin = job.twin.as_mut().expect("an image");
    kill(twin.pidfd.as_raw_fd(), libc::SIGKILL);
    twin.zygote = Zygote::new(ours.into()).expect("a zygote");
    twin.pid = child.id() as i32;
    twin.pidfd = pidfd(twin.pid);
}

/// A file past the system's cache, as images are written and read, where that is possible.
fn open_directly(path: &Path, options: &mut OpenOptions) -> File {
    let direct = options.custom_flags(libc::O_DIRECT).open(path);
    direct
        .or_else(|_| options.custom_flags(0).open(path))
        .expect("a file")
}

/// How long a plain write, a plain read, and a read into memory that is made for it take.
fn raw_times(path: &Path, bytes: &[u8]) -> [Duration; 3] {
    let start = Instant::now();
    let mut options = OpenOptions::new();
    let mut file = open_directly(path, options.write(true).create(true).truncate(true));
    for piece in bytes.chunks(1 << 20) {
        file.write_all(piece).expect("written");
    }
    file.sync_data().expect("synced");
    let written = start.elapsed();
    let piece = map(1 << 20);
    piece.fill(1);
    let start = Instant::now();
    let mut file = open_directly(path, OpenOptions::new().read(true));
    while file.read(piece).expect("read") > 0 {}
    let read = start.elapsed();
    let start = Instant::now();
    let memory = map(bytes.len());
    let mut file = open_directly(path, OpenOptions::new().read(true));
    for piece in memory.chunks_mut(1 << 20) {
        file.read_exact(piece).expect("read");
    }
    let read_anew = start.elapsed();
    for memory in [memory, piece] {
        // SAFETY: the memory was mapped here, and nothing refers to it any more.
        unsafe { libc::munmap(memory.as_mut_ptr().cast(), memory.len()) };
    }
    std::fs::remove_file(path).expect("removed");
    [written, read, read_anew]
}

/// Lines of text with numbers, as a program's records may be.
fn fill_with_text(memory: &mut [u8]) {
    let mut line = String::new();
    let (mut at, mut number) = (0, 1u32);
    while at < memory.len() {
        number = number.wrapping_mul(747_796_405).wrapping_add(1);
        line.clear();
        let _ = write!(
            line,
            "step {at:>12} residual {:.6e} of cell {}; ",
            f64::from(number),
            number >> 20
        );
        let count = line.len().min(memory.len() - at);
        memory[at..at + count].copy_from_slice(&line.as_bytes()[..count]);
        at += count;
    }
}

/// Prints the median, least and longest time in milliseconds.
fn row(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let millis = |at: usize| times[at].as_secs_f64() * 1e3;
    let [median, least, most] = [times.len() / 2, 0, times.len() - 1].map(millis);
    println!("{name:<44} {median:>9.1} {least:>9.1} {most:>9.1}");
}

/// Prints length, save and restore of 256 MiB with and without compression.
pub fn measure_compression() {
    let folder = std::env::var_os("IMAGE_FOLDER").map_or("/dev/shm".into(), PathBuf::from);
    let memory = map(256 << 20);
    type Fill = fn(&mut [u8]);
    let contents: [(&str, Fill); 3] = [
        ("random", fill),
        ("text", fill_with_text),
        ("half of each page zero", |memory| {
            fill(memory);
            memory
                .chunks_mut(4096)
                .for_each(|page| page[..2048].fill(0));
        }),
    ];
    for (name, fill) in contents {
        fill(memory);
        for compression in [ImageCompression::None, ImageCompression::Lz4] {
            let title = format!("256 MiB, {name}, {compression:?}");
            println!("{title:<44} {:>9} {:>9} {:>9}", "median", "least", "most");
            let (mut saved, mut there) = (Vec::new(), Vec::new());
            let images = ImageFolder::new(&folder, 7, None);
            for round in 0..ROUNDS {
                let mut job = Job::start(|rank| rank.serve(|rank, _| rank.say("here")));
                job.image();
                let partial = images
                    .begin(3, ImageNumber::of_checkpoint(1), BaseFiles::default())
                    .expect("a file");
                let start = Instant::now();
                let answered = save_as(&mut job, partial.file(), compression);
                let ZygoteAnswer::Saved { bytes } = answered else {
                    panic!("{answered:?}");
                };
                saved.push(start.elapsed());
                if round == 0 {
                    println!(
                        "{:<44} {:>9.1}",
                        "MiB in the file",
                        bytes as f64 / f64::from(1 << 20)
                    );
                }
                let stored = partial.complete(b"").expect("an image");
                job.kill();
                let start = Instant::now();
                start_again(&mut job, &stored);
                let answered = answer(&mut job.twin.as_mut().expect("an image").zygote);
                assert!(
                    matches!(answered, ZygoteAnswer::Frozen { .. }),
                    "{answered:?}"
                );
                there.push(start.elapsed());
                job.begin_restore();
                job.expect("restored 1");
                job.finish();
            }
            row("save", saved);
            row("restarter's start to the zygote's answer", there);
            images.remove_if_empty();
        }
    }
}

/// Prints all figures.
pub fn measure() {
    let folder = std::env::var_os("IMAGE_FOLDER").map_or("/dev/shm".into(), PathBuf::from);
    for bytes in [256usize << 20, 1 << 30] {
        let mut raw = Series::new(bytes, "plain write");
        let mut saved = Series::new(bytes, "save");
        let mut plain = Series::new(bytes, "plain read");
        let mut anew = Series::new(bytes, "plain read into new memory");
        let mut there = Series::new(bytes, "restore");
        let mut back = Series::new(bytes, "restore and resume");
        let own = map(bytes);
        fill(own);
        let images = ImageFolder::new(&folder, 7, None);
        for _ in 0..ROUNDS {
            let [written, read, read_anew] = raw_times(&folder.join("rejoin-raw"), own);
            raw.add(written);
            plain.add(read);
            anew.add(read_anew);
            let mut job = Job::start(|rank| {
                // The rank has the memory of this process.
                rank.serve(|rank, _| rank.say("here"));
            });
            job.image();
            let partial = images
                .begin(3, ImageNumber::of_checkpoint(1), BaseFiles::default())
                .expect("a file");
            let start = Instant::now();
            let answered = save(&mut job, partial.file());
            assert!(
                matches!(answered, ZygoteAnswer::Saved { .. }),
                "{answered:?}"
            );
            saved.add(start.elapsed());
            let stored = partial.complete(b"").expect("an image");
            job.kill();
            let start = Instant::now();
            start_again(&mut job, &stored);
            let zygote = &mut job.twin.as_mut().expect("an image").zygote;
            let answered = answer(zygote);
            assert!(
                matches!(answered, ZygoteAnswer::Frozen { .. }),
                "{answered:?}"
            );
            there.add(start.elapsed());
            job.begin_restore();
            job.expect("restored 1");
            back.add(start.elapsed());
            assert_eq!(job.ask("work"), "here");
            job.finish();
        }
        images.remove_if_empty();
    }
}
