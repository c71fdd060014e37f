//! Moving a rank against saving and restarting the whole job: 4 ranks of 256 MB on two hosts, in
//! pairs. In each, the last rank moves to a third host. Then the job stops with a last checkpoint,
//! in a folder in memory that all hosts share, and is restarted on the same two hosts. The hosts
//! are network namespaces of this machine; root is needed.
//!
//! `REJOIN_PREFIX=… cargo run -p rejoin-tests --example move_or_restart [PAIRS [MB [PERCENT]]]`
//!
//! Prints a line for each pair with these milliseconds, and `dropped<TAB>PAIR<TAB>REASON` for each
//! that has no figure:
//!
//! `pair<TAB>MOVED<TAB>RESTARTED<TAB>MOVE<TAB>SAVE_AND_RESTART`
//!
//! - for how long the moved rank made no step;
//! - for how long some rank of the restarted job made no step;
//! - from the request of the move to its end;
//! - from the signal to the first step of the last rank of the restarted job.

use rejoin_tests::gaps::{Gap, gaps, now};
use rejoin_tests::hosts::Hosts;
use rejoin_tests::processes::{is_alive, kill, wait_for};
use rejoin_tests::{Run, finish, program, root};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const RANKS: usize = 4;
/// A move or a restart is over long before this.
const SOON: Duration = Duration::from_secs(120);
/// Seconds for which the job runs at most.
const LONG: &str = "3600";
/// `mpirun` ends with this code when the job has stopped with a checkpoint.
const STOPPED: i32 = 85;

/// A file system in memory; dropping this value removes it.
struct Tmpfs(PathBuf);

impl Tmpfs {
    fn new() -> Tmpfs {
        let path = root().join(format!("target/move-or-restart-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        let mut mount = Command::new("mount");
        let status = mount.args(["-t", "tmpfs", "none"]).arg(&path).status();
        assert!(status.is_ok_and(|status| status.success()), "no tmpfs");
        Tmpfs(path)
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// The job, and its files.
struct Paired<'a> {
    hosts: &'a Hosts,
    images: PathBuf,
    gaps: PathBuf,
    events: PathBuf,
    /// What the program is told: megabytes, percent.
    words: [String; 2],
}

impl Paired<'_> {
    fn run(&self, options: &[&str]) -> Run {
        let all = "--host h1:2,h2:2 --spare h3 --checkpoint-interval 5 --grace 100s";
        let all = all.split(' ').chain(options.iter().copied());
        let run = self.hosts.mpirun(all).arg("--images").arg(&self.images);
        run.arg("--events").arg(&self.events)
    }

    fn first(&self) -> Child {
        let run = self.run(&["--job-name", "pair", "-n", "4"]);
        let [megabytes, percent] = &self.words;
        let run = run.arg(program("migrant")).arg(megabytes).arg(percent);
        run.arg(LONG).arg(&self.gaps).start()
    }

    /// Waits until the job has taken so many checkpoints in files since its last start.
    fn until_in_files(&self, mpirun: u32, count: usize) {
        wait_for(SOON, "checkpoints in files", || {
            let text = std::fs::read_to_string(&self.events).unwrap_or_default();
            text.matches("\"level\":\"file\"").count() >= count || !is_alive(mpirun)
        });
    }

    /// The first gap of this kind of each of these ranks, as soon as they have ended.
    fn gaps_of(
        &self,
        ranks: std::ops::Range<usize>,
        is_it: impl Fn(&Gap) -> bool,
    ) -> Result<Vec<Gap>, String> {
        let found = || -> Option<Vec<Gap>> {
            let text = std::fs::read_to_string(&self.gaps).unwrap_or_default();
            let all = gaps(&text);
            let of = |rank| {
                let mut of_rank = all.iter().filter(|gap| gap.rank == rank);
                of_rank.find(|gap| is_it(gap)).copied()
            };
            ranks.clone().map(of).collect()
        };
        let begun = Instant::now();
        while begun.elapsed() < SOON {
            if let Some(gaps) = found() {
                return Ok(gaps);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err("a rank made no step".into())
    }

    /// Returns for how long the rank made no step, and how long the move took.
    fn move_rank(&self) -> Result<[f64; 2], String> {
        let begun = now();
        let output = self.hosts.rejoin(&["migrate", "3", "--to", "h3"]);
        let ended = now();
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).replace('\n', "; "));
        }
        let is_it = |gap: &Gap| gap.restored && gap.after > begun;
        let gap = self.gaps_of(RANKS - 1..RANKS, is_it)?[0];
        Ok([gap.after - gap.before, ended - begun].map(|nanos| nanos as f64 / 1e6))
    }

    /// Stops the job and restarts it. Returns for how long some rank made no step, how long it took
    /// from the signal, and the restarted job.
    fn restart(&self, job: Child) -> Result<([f64; 2], Child), String> {
        let begun = now();
        kill(job.id(), libc::SIGTERM);
        let done = finish(job, SOON, "a job that stops");
        if done.output.status.code() != Some(STOPPED) {
            return Err(done.text().replace('\n', "; "));
        }
        // No rank is there now.
        let ended = now();
        let child = self.run(&["--restart=pair"]).start();
        let gaps = self.gaps_of(0..RANKS, |gap| gap.before < ended && ended < gap.after);
        let gaps = match gaps {
            Ok(gaps) => gaps,
            Err(why) => {
                kill(child.id(), libc::SIGKILL);
                let text = finish(child, SOON, "a job that was restarted").text();
                return Err(format!("{why}: {}", text.replace('\n', "; ")));
            }
        };
        let first = gaps.iter().map(|gap| gap.before).min().unwrap_or(0);
        let last = gaps.iter().map(|gap| gap.after).max().unwrap_or(0);
        let times = [last - first, last - begun];
        Ok((times.map(|nanos| nanos as f64 / 1e6), child))
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let pairs: usize = args.next().and_then(|n| n.parse().ok()).unwrap_or(10);
    let megabytes = args.next().unwrap_or_else(|| "256".into());
    let percent = args.next().unwrap_or_else(|| "10".into());
    let images = Tmpfs::new();
    let hosts = Hosts::up(3).expect("there can be no hosts here");
    let [gaps, events] = ["gaps", "events"].map(|name| hosts.folder().join(name));
    let end = gaps.with_extension("end");
    let paired = Paired {
        hosts: &hosts,
        images: images.0.clone(),
        gaps,
        events,
        words: [megabytes, percent],
    };
    let mut job = paired.first();
    let mut measured = 0;
    for number in 1..=pairs {
        paired.until_in_files(job.id(), 2);
        let moved = paired.move_rank();
        let _ = std::fs::remove_file(&paired.events);
        let (restarted, next) = match paired.restart(job) {
            Ok(restarted) => restarted,
            Err(why) => {
                println!("dropped\tpair {number} and all later ones\t{why}");
                break;
            }
        };
        job = next;
        match moved {
            Ok([pause, took]) => {
                let [stood, took_all] = restarted;
                println!("pair\t{pause:.3}\t{stood:.3}\t{took:.3}\t{took_all:.3}");
                measured += 1;
            }
            Err(why) => println!("dropped\tpair {number}\t{why}"),
        }
        if number == pairs {
            std::fs::write(&end, "").expect("the end of the job");
            finish(job, SOON, "a job that was restarted");
            break;
        }
    }
    drop(images);
    assert!(measured > 0, "nothing was measured");
}
