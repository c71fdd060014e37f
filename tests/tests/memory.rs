//! Images in memory while memory is short: they are given up, and ranks get what they need.

use rejoin_tests::folder::Folder;
use rejoin_tests::job::Job;
use rejoin_tests::limits::LIMIT;
use rejoin_tests::processes::{kill, wait_for};
use rejoin_tests::{Finished, Run, finish, program};

/// Memory is always short, and images that hold 50 MiB or more are given up.
const SHORT: (&str, &str) = ("REJOIN_TEST_MEMORY", "1000000000000000,52428800");

/// `rewrite` with two ranks of 80 MiB that run until `act` has returned. It knows the job and its
/// events.
fn rewrite(name: &str, options: &[&str], act: impl FnOnce(&Job, &str)) -> Finished {
    let folder = Folder::new(name);
    let (events, images) = (folder.name("events"), folder.name("images"));
    let images: &[&str] = if options.is_empty() {
        &[]
    } else {
        &["--images", &images]
    };
    let with = [
        "--events",
        &events,
        "--checkpoint-interval",
        "0.5",
        "-n",
        "2",
    ];
    let run = Run::raw([&with[..], images, options].concat());
    let run = run.env(SHORT.0, SHORT.1);
    let (most, gate) = (LIMIT.as_secs().to_string(), folder.name("gate"));
    let run = run.arg(program("rewrite")).arg("80").arg(most);
    let child = run.arg(&gate).start();
    act(&Job::of(child.id(), "rewrite"), &events);
    std::fs::write(&gate, "").expect("the gate");
    finish(child, LIMIT, name)
}

fn count(events: &str, what: &str) -> usize {
    let text = std::fs::read_to_string(events).unwrap_or_default();
    text.lines().filter(|line| line.contains(what)).count()
}

#[test]
fn images_are_given_up_and_the_job_says_so_and_goes_on() {
    let done = rewrite("memory-short", &[], |_, events| {
        let given_up = || count(events, "memory is short") > 0;
        wait_for(LIMIT, "an image that is given up", given_up);
        let before = count(events, "\"level\":\"memory\"");
        let next = || count(events, "\"level\":\"memory\"") > before;
        wait_for(LIMIT, "the next checkpoint", next);
    });
    assert!(done.output.status.success(), "{}", done.text());
    let said = done.stderr();
    assert!(said.contains("was given up: memory is short ("), "{said}");
    assert!(!said.contains("killed"), "{said}");
}

#[test]
fn images_that_are_also_in_files_leave_memory_and_ranks_come_back_from_the_files() {
    let options = ["--image-interval", "asked"];
    let done = rewrite("memory-files", &options, |job, events| {
        // The first checkpoint is in files. It is the newest until the next one.
        let in_files = || count(events, "\"level\":\"file\"") > 0;
        wait_for(LIMIT, "a checkpoint in files", in_files);
        wait_for(LIMIT, "no image in memory", || job.images().is_empty());
        kill(job.ranks()[0], libc::SIGKILL);
        let is_back = || count(events, "\"event\":\"recovered\"") > 0;
        wait_for(LIMIT, "a recovery", is_back);
    });
    assert!(done.output.status.success(), "{}", done.text());
    assert!(done.stderr().contains("is back after"), "{}", done.text());
}
