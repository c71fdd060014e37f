//! Logs of messages that spill into files. Root is needed for a test with hosts and for one with a
//! file system of its own.

use rejoin_tests::folder::Folder;
use rejoin_tests::hosts;
use rejoin_tests::hosts::job::{Job as HostJob, good, lines};
use rejoin_tests::job::{Job, by_rank};
use rejoin_tests::limits::{LIMIT, SOON};
use rejoin_tests::processes::{is_alive, wait_for};
use rejoin_tests::small_disk::{fill_disk, with_small_disk};
use rejoin_tests::torment::{Case, program_survives};
use rejoin_tests::{Run, finish, program};
use std::path::PathBuf;

/// A job of four ranks that each retain a megabyte in memory, with `more` options.
fn sort(more: &[&str], rounds: &str) -> Run {
    let usual = ["--tag-output", "-n", "4", "--recovery", "sender-log"];
    let log = ["--log-limit", "1MB", "--stats"];
    let all = usual.iter().chain(&log).chain(more);
    let run = all.fold(Run::raw::<&str>([]), Run::arg);
    run.arg(program("sort")).arg("50000").arg(rounds)
}

#[test]
fn ranks_are_killed_while_their_logs_spill() {
    // A round is more than the memory holds, however often a slow machine takes checkpoints.
    // With files, the first of which must come before the end.
    let ways: [(_, &[&str]); 2] = [(false, &["400000", "8"]), (true, &["400000", "30"])];
    for (with_images, args) in ways {
        let case = Case {
            name: "sort",
            args,
            mode: &[
                "--recovery",
                "sender-log",
                "--log-limit",
                "1MB",
                "--log-spill",
                "/tmp",
                "--log-spill-limit",
                "8MB",
                "--stats",
            ],
            ordered: true,
            files: false,
            with_images,
            shows: Some(("most_log_file_bytes", 1)),
            least: 20,
        };
        program_survives(&case, 1..3);
    }
}

#[test]
fn a_log_that_spills_needs_fewer_checkpoints() {
    let folder = Folder::new("spill");
    let asked = ["--checkpoint-interval", "asked"];
    let run = |name: &str, more: &[&str]| {
        let events = folder.name(name);
        let done = sort(&[&asked[..], &["--events", &events], more].concat(), "60").ok();
        let text = std::fs::read_to_string(&events).expect("events");
        let committed = text.matches("\"event\":\"committed\"").count();
        (done, committed)
    };
    let (short, often) = run("short", &[]);
    let spill = folder.name("");
    let (spilled, seldom) = run(
        "spilled",
        &["--log-spill", &spill, "--log-spill-limit", "200MB"],
    );
    assert!(
        often > 3 * seldom.max(1),
        "{often} and {seldom} checkpoints"
    );
    let of = by_rank(&short.stdout(), true);
    assert_eq!(of, by_rank(&spilled.stdout(), true));
    let bytes = spilled.counted("most_log_file_bytes");
    assert!(bytes > 10 << 20, "{}", spilled.text());
    assert_eq!(short.counted("most_log_file_bytes"), 0);
    let files = std::fs::read_dir(&*folder).expect("the folder").flatten();
    let names: Vec<_> = files.map(|file| file.file_name()).collect();
    assert_eq!(names.len(), 2, "only the events stay: {names:?}");
}

#[test]
fn a_job_needs_all_of_its_file_when_it_begins_and_nothing_later() {
    let folder = Folder::new("spill-disk");
    let options = |bytes| {
        let spill = ["--log-spill", &folder.name(""), "--log-spill-limit", bytes];
        spill.map(str::to_owned)
    };
    let start = |bytes| {
        let options = options(bytes);
        let usual = ["-n", "2", "--recovery", "sender-log", "--log-limit", "1MB"];
        let asked = ["--checkpoint-interval", "asked", "--stats"];
        let usual = usual.iter().chain(&asked).copied();
        let all = usual.chain(options.iter().map(String::as_str));
        let run = with_small_disk(&folder, 32, &all.collect::<Vec<_>>())?;
        Some(run.arg(program("sort")).arg("50000").arg("600"))
    };
    let Some(run) = start("20MB") else {
        return;
    };
    let done = run.output();
    let text = done.text();
    assert!(!done.output.status.success(), "{text}");
    assert!(
        text.contains("no file of 20000000 bytes for a rank on"),
        "{text}"
    );
    assert!(
        text.contains("(--log-spill-limit): No space left on device"),
        "{text}"
    );
    // All of it is reserved, so no page is missing when others have filled the device.
    let child = start("15MB").expect("a file system").start();
    let job = Job::of(child.id(), "sort");
    wait_for(SOON, "the ranks", || {
        job.ranks().len() == 2 || !is_alive(child.id())
    });
    let disk = PathBuf::from(format!("/proc/{}/root{}", child.id(), folder.display()));
    fill_disk(&disk.join("filler"));
    let done = finish(child, LIMIT, "a full device");
    assert!(done.output.status.success(), "{}", done.text());
    assert!(done.counted("most_log_file_bytes") > 0, "{}", done.text());
}

#[test]
fn a_lost_host_comes_back_with_what_had_spilled() {
    let mut hosts = hosts!(3);
    let log = [
        "--recovery",
        "sender-log",
        "--log-group",
        "rank",
        "--log-limit",
        "1MB",
    ];
    let spill = ["--log-spill", "/tmp", "--log-spill-limit", "64MB"];
    let files = ["--spare", "h3", "--host-lease", "1", "--stats"];
    let work = |run: Run| run.arg(program("sort")).arg("50000").arg("400");
    let all = [&log[..], &spill, &files].concat();
    let undisturbed = HostJob::start(&hosts, &[], work).end();
    let mut job = HostJob::start(&hosts, &all, work);
    job.until_committed("partner", 1);
    hosts.kill(2);
    job.until("recovered", 2);
    let done = job.end();
    good(&done);
    assert_eq!(lines(&done), lines(&undisturbed), "{}", done.text());
    assert!(done.counted("most_log_file_bytes") > 0, "{}", done.text());
}

#[test]
fn options_that_say_too_little_are_refused() {
    let cases: [(&[&str], &str); 4] = [
        (
            &["--recovery", "sender-log", "--log-spill", "/tmp"],
            "--log-spill: give --log-limit, too",
        ),
        (
            &["--recovery", "sender-log", "--log-spill-limit", "1MB"],
            "--log-spill-limit: name the file's folder by --log-spill",
        ),
        (
            &["--log-limit", "1MB", "--log-spill", "/tmp"],
            "--log-limit: --recovery coordinated has no log",
        ),
        (
            &["--log-spill-limit", "1MB"],
            "--log-spill-limit: --recovery coordinated has no log",
        ),
    ];
    for (options, says) in cases {
        let run = options.iter().fold(Run::raw(["-n", "2"]), Run::arg);
        let done = run.arg(program("sort")).output();
        assert_eq!(done.output.status.code(), Some(2), "{}", done.text());
        assert!(done.stderr().contains(says), "{}", done.text());
    }
}
