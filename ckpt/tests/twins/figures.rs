//! Costs of images, restores and notices on this machine. Each line gives the median and the 99th
//! percentile in microseconds.

use std::os::fd::{AsFd as _, AsRawFd as _};
use std::time::{Duration, Instant};

use rejoin_ckpt::watch::{Page, Watcher, hold};

use crate::support::{Job, LIMIT, end_of, kill, readable};
use crate::threads::with_workers;

/// Memory of a rank, in bytes.
const STATE: usize = 256 << 20;
const ROUNDS: usize = 60;

struct Series(&'static str, Vec<f64>);

impl Series {
    fn add(&mut self, time: Duration) {
        self.1.push(time.as_secs_f64() * 1e6);
    }
}

impl Drop for Series {
    fn drop(&mut self) {
        self.1.sort_by(f64::total_cmp);
        let at = |part: usize| self.1[(self.1.len() - 1) * part / 100];
        println!("{:<44} {:>9.0} {:>9.0}", self.0, at(50), at(99));
    }
}

fn rank(page: &Page) -> Job {
    Job::start(|rank| {
        // Fresh memory in pages of 4 KB, all of it written.
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a new mapping of this length.
        let memory = unsafe {
            let at = libc::mmap(std::ptr::null_mut(), STATE, access, kind, -1, 0);
            libc::madvise(at, STATE, libc::MADV_NOHUGEPAGE);
            std::slice::from_raw_parts_mut(at.cast::<u8>(), STATE)
        };
        memory.fill(1);
        rank.accept_checkpoints();
        rank.serve(|rank, word| match word {
            "hold" => {
                hold(page.as_fd(), 0).expect("held");
                rank.say("held");
            }
            _ => {
                rank.say("computing");
                rank.user(|| {
                    loop {
                        std::hint::spin_loop();
                    }
                });
            }
        });
    })
}

/// The stall of a small rank with so many further threads, every other of which computes.
fn with_threads(count: usize, name: &'static str) {
    let mut stall = Series(name, Vec::new());
    let mut job = with_workers(1, |workers| {
        for number in 0..count {
            workers.add(move || match number % 2 {
                0 => std::thread::sleep(Duration::from_millis(1)),
                _ => assert!(std::hint::black_box((0..1000u64).sum::<u64>()) > 0),
            });
        }
    });
    for _ in 0..ROUNDS {
        job.image();
        let twin = job.twin.as_ref().expect("an image");
        stall.add(Duration::from_nanos(twin.prepare + twin.clone));
        std::thread::sleep(Duration::from_millis(2));
    }
    job.finish();
}

/// Prints all figures.
pub fn measure() {
    with_threads(0, "stall of a small rank, no further threads");
    with_threads(1, "stall of a small rank, 1 further thread");
    with_threads(8, "stall of a small rank, 8 further threads");
    with_threads(64, "stall of a small rank, 64 further threads");
    println!("256 MB in 4 KB pages{:>34} {:>9}", "median", "p99");
    let mut prepare = Series("stall: checks, manifest, pipes", Vec::new());
    let mut clone = Series("stall: clone", Vec::new());
    let mut order = Series("order by signal to image at the manager", Vec::new());
    let mut frozen = Series("order by signal to frozen twin", Vec::new());
    let mut restore = Series("restore to runner's first word", Vec::new());
    let mut answer = Series("restore to runner's number at the manager", Vec::new());
    let mut ahead = Series("restore to first word, runner made ahead", Vec::new());
    let mut notice = Series("kill to notice by futex (a twin shares pages)", Vec::new());
    let mut gone = Series("kill to pidfd", Vec::new());

    for _ in 0..ROUNDS {
        let page = Page::new(1).expect("memory");
        let mut job = rank(&page);
        let watcher = Watcher::new(page).expect("a watcher");
        watcher.watch(0);
        assert_eq!(job.ask("hold"), "held");
        job.tell("compute");
        job.expect("computing");
        let start = Instant::now();
        job.order(1);
        assert!(readable(job.socket.as_raw_fd(), LIMIT));
        order.add(start.elapsed());
        job.imaged();
        frozen.add(start.elapsed());
        let twin = job.twin.as_ref().expect("an image");
        prepare.add(Duration::from_nanos(twin.prepare));
        clone.add(Duration::from_nanos(twin.clone));
        let start = Instant::now();
        kill(job.pidfd.as_raw_fd(), libc::SIGKILL);
        assert!(readable(watcher.as_fd().as_raw_fd(), LIMIT));
        notice.add(start.elapsed());
        end_of(job.pidfd.as_raw_fd());
        gone.add(start.elapsed());
        assert_eq!(watcher.ended(), [0]);
        let start = Instant::now();
        job.begin_restore();
        answer.add(start.elapsed());
        job.expect("restored 1");
        restore.add(start.elapsed());
        let twin = job.twin.as_mut().expect("an image");
        assert!(twin.zygote.prepare().expect("prepared"));
        job.kill();
        // Long enough for a runner to be made, on a machine with nothing else to do.
        std::thread::sleep(Duration::from_millis(60));
        let start = Instant::now();
        job.begin_restore();
        job.expect("restored 1");
        ahead.add(start.elapsed());
        job.kill();
        job.drop_twin();
    }
}
