//! The first message over a link arrives though its sender computes from then on.

use rejoin_tests::folder::Folder;
use rejoin_tests::job::{Job, times_back};
use rejoin_tests::limits::{LIMIT, SOON};
use rejoin_tests::processes::{kill, wait_for};
use rejoin_tests::{Finished, Run, finish, program};
use std::time::Duration;

const TRANSPORTS: [&str; 2] = ["shm", "tcp"];
/// The longest time that a message took, of all ranks, in milliseconds.
fn worst(done: &Finished) -> u64 {
    assert!(done.output.status.success(), "{}", done.text());
    let text = done.stdout();
    let took = text
        .lines()
        .filter_map(|line| line.split_once("at most ")?.1.strip_suffix(" ms"));
    let took: Vec<u64> = took
        .map(|ms| ms.parse().expect("a number of milliseconds"))
        .collect();
    assert!(!took.is_empty(), "{}", done.text());
    took.into_iter().max().unwrap_or(u64::MAX)
}

#[test]
fn a_rank_that_sends_once_and_computes_does_not_delay_its_peers() {
    for transport in TRANSPORTS {
        for how in ["send", "isend", "bcast"] {
            for ranks in [2, 4] {
                let run = Run::new(ranks, program("first")).arg("1").arg("3");
                let done = run.arg(how).env("REJOIN_TRANSPORT", transport).output();
                let took = worst(&done);
                let what = format!("{transport}, {how}, {ranks} ranks: {took} ms");
                assert!(took < 2000, "{what}\n{}", done.text());
            }
        }
    }
}

/// Links are made anew by ranks that come back in the middle of a computation.
#[test]
fn nor_after_a_recovery() {
    for transport in TRANSPORTS {
        let folder = Folder::new(&format!("first-{transport}"));
        let options = ["-n", "3", "--checkpoint-interval", "0.2"];
        let run = Run::raw(options).arg(program("first"));
        let run = run.arg("0").arg("3").arg("send");
        let run = run.arg(folder.name("end"));
        let child = run.env("REJOIN_TRANSPORT", transport).start();
        let job = Job::of(child.id(), "first");
        wait_for(SOON, "the first checkpoint", || job.has_checkpoint(3));
        let mut seen = job.ranks();
        for victim in [1, 0] {
            std::thread::sleep(Duration::from_millis(1300));
            kill(seen[seen.len() - 3 + victim], libc::SIGKILL);
            job.fresh_ranks(3, &mut seen);
        }
        std::fs::write(folder.join("end"), "").expect("the file");
        let done = finish(child, LIMIT, "the ranks that came back");
        let took = worst(&done);
        assert!(times_back(&done.stderr()) >= 2, "{}", done.text());
        assert!(took < 2000, "{transport}: {took} ms\n{}", done.text());
    }
}
