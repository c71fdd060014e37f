//! Ranks with several threads are killed repeatedly: all threads come back, and the program ends
//! like an undisturbed run. Settings are those of `survive.rs`.

use rejoin_tests::folder::Folder;
use rejoin_tests::job::{Job, Numbers, by_rank, times_back};
use rejoin_tests::processes::{kill, wait_for};
use rejoin_tests::torment::{Case, program_survives};
use rejoin_tests::{Run, finish, program};
use std::time::Duration;

/// Ranks that come back in all runs of a program, at least: with four programs, 200 and more.
const LEAST: u32 = 52;
const LIMIT: Duration = Duration::from_secs(60);

fn survives(name: &'static str, args: &'static [&'static str], ordered: bool) {
    let case = Case {
        name,
        args,
        ordered,
        files: false,
        least: LEAST,
    };
    program_survives(&case, 1..4);
}

#[test]
fn workers_with_mutexes_of_every_kind_and_condition_variables() {
    survives("pool", &["1500"], true);
}

#[test]
fn a_stencil_on_the_threads_of_openmp() {
    survives("openmp", &["400", "3000"], true);
}

#[test]
fn four_threads_of_each_rank_that_all_communicate() {
    survives("talkers", &["2500"], false);
}

#[test]
fn threads_that_come_and_go() {
    survives("shortlived", &["600"], true);
}

/// Runs the pool until its images and ranks were killed in turn, and returns its output.
fn pool_with_kills(folder: &Folder, kills: usize) -> String {
    let (gate, events) = (folder.name("gate"), folder.name("events"));
    let options = [
        "--tag-output",
        "--events",
        &events,
        "--checkpoint-interval",
        "0.05",
        "--max-restarts",
        "1000",
    ];
    let run = Run::raw([&options[..], &["-n", "4"]].concat());
    let child = run.arg(program("pool")).arg("100").arg(&gate).start();
    let mpirun = child.id();
    let commits = || {
        let text = std::fs::read_to_string(&events).unwrap_or_default();
        text.matches("\"committed\"").count()
    };
    let done = std::thread::scope(|scope| {
        let killer = scope.spawn(|| {
            let job = Job::of(mpirun, "pool");
            wait_for(LIMIT, "the first checkpoint", || job.has_checkpoint(4));
            let (mut numbers, mut seen) = (Numbers(5), job.ranks());
            for _ in 0..kills {
                let (images, before) = (job.images(), commits());
                kill(
                    images[numbers.below(images.len() as u64) as usize],
                    libc::SIGKILL,
                );
                // The next commit may have been under way.
                wait_for(LIMIT, "checkpoints after that", || commits() > before + 1);
                let ranks = job.ranks();
                kill(
                    ranks[numbers.below(ranks.len() as u64) as usize],
                    libc::SIGKILL,
                );
                job.fresh_ranks(4, &mut seen);
                wait_for(LIMIT, "images of these ranks", || job.has_checkpoint(4));
            }
            std::fs::write(&gate, "").expect("the gate");
        });
        let done = finish(child, LIMIT, "a pool whose images are killed");
        assert!(done.output.status.success(), "{}", done.text());
        killer.join().expect("the killer");
        done
    });
    assert!(
        times_back(&done.stderr()) as usize >= kills,
        "{}",
        done.stderr()
    );
    done.stdout()
}

#[test]
fn images_of_threads_that_are_killed_are_made_again() {
    let folder = Folder::new("pool-images");
    let plain = Run::raw(["--tag-output", "--recovery", "none", "-n", "4"]);
    let plain = plain.arg(program("pool")).arg("100").ok().stdout();
    let killed = pool_with_kills(&folder, 8);
    assert_eq!(by_rank(&killed, true), by_rank(&plain, true));
}
