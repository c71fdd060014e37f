//! Hosts that are lost, and jobs that continue elsewhere from the images of their processes. Root
//! is needed, as in `hosts`.

use rejoin_tests::hosts::job::{Job, good, lines};
use rejoin_tests::hosts::{Cut, Hosts};
use rejoin_tests::limits::{LIMIT, SOON};
use rejoin_tests::processes::{all_gone, descendants, kill};
use rejoin_tests::{Finished, Run, finish, hosts, program};
use std::io::Write as _;
use std::path::{Path, PathBuf};

fn images(hosts: &Hosts) -> PathBuf {
    let images = hosts.folder().join("images");
    std::fs::create_dir_all(&images).expect("a folder");
    images
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// The job rolled back within its launch.
fn is_replaced(done: &Finished) {
    let said = done.stderr();
    assert!(
        said.contains("its ranks continue on host"),
        "{}",
        done.text()
    );
    assert!(!said.contains("all ranks start again"), "{}", done.text());
}

/// Waits until the job runs again for this time, after it has lost so many hosts.
fn until_back(job: &mut Job, hosts_lost: usize, recoveries: usize) {
    job.until("host-replaced", hosts_lost);
    job.until("recovered", recoveries);
}

/// The job continued from images, and left no files.
fn continued(done: &Finished, images: &Path, undisturbed: &Finished) {
    good(done);
    assert_eq!(lines(done), lines(undisturbed), "{}", done.text());
    is_replaced(done);
    let left: Vec<_> = std::fs::read_dir(images).expect("the folder").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn an_unmodified_program_continues_without_a_lost_host() {
    // On a spare; then on the host that is left.
    let ways: [&[&str]; 2] = [&["--spare", "h3", "--output", "commit"], &[]];
    for way in ways {
        let mut hosts = hosts!(3);
        let undisturbed = Job::undisturbed(&hosts, &[]);
        let images = images(&hosts);
        let with = ["--images", text(&images), "--host-lease", "1"];
        let mut job = Job::jacobi(&hosts, &[&with[..], way].concat());
        job.until_in_files(2);
        let managers = hosts.processes(1, "rejoin-local");
        hosts.kill(2);
        until_back(&mut job, 1, 1);
        assert_eq!(hosts.processes(1, "rejoin-local"), managers);
        continued(&job.end(), &images, &undisturbed);
    }
}

#[test]
fn a_lost_host_needs_no_option_and_ends_a_job_that_wants_no_files() {
    let mut hosts = hosts!(2);
    let undisturbed = Job::undisturbed(&hosts, &[]);
    let mut job = Job::jacobi(&hosts, &["--host-lease", "1"]);
    job.until_in_files(2);
    hosts.kill(2);
    until_back(&mut job, 1, 1);
    continued_from_copies(&job.end(), &undisturbed);
    let mut hosts = hosts!(2);
    let with = [
        "--images",
        "none",
        "--host-lease",
        "1",
        "--host-patience",
        "2",
    ];
    let mut job = Job::jacobi(&hosts, &with);
    job.until("committed", 2);
    hosts.kill(2);
    let done = finish(job.child, SOON, "the job without files");
    let said = done.stderr();
    assert!(
        said.contains("host h2 is lost, and its ranks with it"),
        "{said}"
    );
    assert_eq!(done.output.status.code(), Some(1), "{said}");
}

#[test]
fn ranks_that_continued_elsewhere_are_killed_and_lose_a_host_again() {
    let mut hosts = hosts!(3);
    let undisturbed = Job::undisturbed(&hosts, &[]);
    let images = images(&hosts);
    let with = ["--images", text(&images), "--host-lease", "1"];
    let mut job = Job::jacobi(&hosts, &[&with[..], &["--spare", "h3"]].concat());
    job.until_in_files(2);
    hosts.kill(2);
    until_back(&mut job, 1, 1);
    job.until_in_files(4);
    let moved = hosts.processes(3, "jacobi");
    assert_eq!(moved.len(), 2, "{moved:?}");
    kill(moved[0], libc::SIGKILL);
    job.until("lost", 1);
    job.until("recovered", 2);
    job.until_in_files(6);
    hosts.kill(3);
    until_back(&mut job, 2, 3);
    continued(&job.end(), &images, &undisturbed);
}

#[test]
fn ranks_of_a_host_that_was_cut_off_do_not_disturb_their_successors() {
    let hosts = hosts!(3);
    let undisturbed = Job::undisturbed(&hosts, &[]);
    let images = images(&hosts);
    let with = ["--images", text(&images), "--host-lease", "1"];
    let mut job = Job::jacobi(&hosts, &[&with[..], &["--spare", "h3"]].concat());
    job.until_in_files(2);
    hosts.cut(2, Cut::Both);
    until_back(&mut job, 1, 1);
    job.until_in_files(4);
    let left = hosts.processes(2, "jacobi");
    hosts.heal();
    all_gone(&left, SOON + SOON);
    continued(&job.end(), &images, &undisturbed);
}

#[test]
fn programs_with_threads_continue_without_a_lost_host() {
    let programs = [
        ("pool", &["4000"][..]),
        ("openmp", &["400", "7000"]),
        ("talkers", &["6000"]),
    ];
    for (name, args) in programs {
        let mut hosts = hosts!(2);
        let program = |run: Run| args.iter().fold(run.arg(program(name)), Run::arg);
        let undisturbed = Job::start(&hosts, &[], program).end();
        good(&undisturbed);
        let images = images(&hosts);
        let with = ["--images", text(&images), "--host-lease", "1"];
        let gate = Job::gate(&hosts);
        let mut job = Job::start(&hosts, &with, |run| program(run).arg(gate));
        job.until_in_files(2);
        hosts.kill(2);
        until_back(&mut job, 1, 1);
        let done = job.end();
        good(&done);
        // Lines of threads have no order.
        let sorted = |done: &Finished| {
            let mut lines = lines(done);
            lines.sort();
            lines
        };
        let (here, there) = (sorted(&done), sorted(&undisturbed));
        assert_eq!(here, there, "{name}: {}", done.text());
        is_replaced(&done);
    }
}

/// A folder that each host has for itself: its `/tmp` is private.
const OWN: &str = "/tmp/own-images";

/// The job continued from images that no other host could see, and left no files.
fn continued_from_copies(done: &Finished, undisturbed: &Finished) {
    good(done);
    assert_eq!(lines(done), lines(undisturbed), "{}", done.text());
    is_replaced(done);
}

/// Names of the files below a folder of a host.
fn files_of(hosts: &Hosts, number: usize) -> String {
    let list = format!("find {OWN} -type f 2>/dev/null || true");
    hosts.exec(number, &["sh", "-c", &list])
}

#[test]
fn hosts_without_a_common_folder_keep_copies_for_each_other() {
    // The ranks of the lost host come back where the copies are, then where they are not.
    let packed = ["--image-compression", "lz4"];
    let ways: [&[&str]; 2] = [&packed, &["--spare", "h3", "--output", "commit"]];
    for way in ways {
        let mut hosts = hosts!(3);
        let undisturbed = Job::undisturbed(&hosts, &[]);
        let with = ["--images", OWN, "--host-lease", "1"];
        let mut job = Job::jacobi(&hosts, &[&with[..], way].concat());
        job.until_in_files(2);
        assert!(!files_of(&hosts, 2).is_empty(), "files on the second host");
        hosts.kill(2);
        until_back(&mut job, 1, 1);
        continued_from_copies(&job.end(), &undisturbed);
        // Managers of other hosts remove their files while mpirun ends.
        hosts.nothing_runs("jacobi");
        for number in [1, 3] {
            assert_eq!(files_of(&hosts, number), "", "left on h{number}");
        }
    }
}

#[test]
fn a_second_host_is_lost_after_new_copies_were_made() {
    let mut hosts = hosts!(3);
    let undisturbed = Job::undisturbed(&hosts, &[]);
    let rate = ["--image-copy-rate", "50MB"];
    let with = ["--images", OWN, "--host-lease", "1", "--spare", "h3"];
    let with = [&with[..], &rate].concat();
    let mut job = Job::jacobi(&hosts, &with);
    job.until_in_files(2);
    hosts.kill(2);
    until_back(&mut job, 1, 1);
    let next = job.epochs("host-replaced")[0] + 1;
    job.until_committed("partner", next);
    hosts.kill(3);
    until_back(&mut job, 2, 2);
    continued_from_copies(&job.end(), &undisturbed);
}

#[test]
fn a_lost_rank_needs_no_copies_and_a_lost_host_goes_back_to_the_last_ones() {
    let mut hosts = hosts!(2);
    let undisturbed = Job::undisturbed(&hosts, &[]);
    let often = ["--image-interval", "0.1", "--image-copy-interval", "asked"];
    let with = [&["--images", OWN, "--host-lease", "1"][..], &often].concat();
    let mut job = Job::jacobi(&hosts, &with);
    job.until_committed("partner", 1);
    let copied = job.committed("partner")[0];
    job.until_committed("file", copied + 2);
    for name in ["rejoin-twin", "jacobi"] {
        let killed = hosts.processes(1, name);
        killed.into_iter().for_each(|pid| kill(pid, libc::SIGKILL));
    }
    job.until("recovered", 1);
    assert!(job.epochs("recovered")[0] > copied, "not from the copies");
    let back = job.epochs("recovered")[0];
    job.until_committed("file", back + 1);
    hosts.kill(2);
    until_back(&mut job, 1, 2);
    assert_eq!(job.epochs("host-replaced"), [copied]);
    continued_from_copies(&job.end(), &undisturbed);
}

/// Four ranks on three hosts. The first two hosts are a parity group.
const THREE: [&str; 4] = ["--host", "h1:2,h2:1,h3:1", "--image-parity", "2"];

#[test]
fn a_parity_replaces_the_files_of_a_lost_host() {
    // Rank 2 comes back where the parity is, on a spare, or its group has no other host.
    let ways: [(usize, &[&str]); 3] = [(2, &[]), (2, &["--spare", "h4"]), (3, &[])];
    for (lost, way) in ways {
        let mut hosts = hosts!(4);
        let undisturbed = Job::undisturbed(&hosts, &THREE[..2]);
        let with = [&["--images", OWN, "--host-lease", "1"][..], &THREE, way].concat();
        let mut job = Job::jacobi(&hosts, &with);
        job.until_committed("partner", 2);
        let kept = files_of(&hosts, 3);
        assert!(kept.contains("/parity-0.epoch-"), "{kept}");
        assert!(
            !kept.contains("/rank-0.") && !kept.contains("/rank-2."),
            "{kept}"
        );
        hosts.kill(lost);
        until_back(&mut job, 1, 1);
        // Newer files have other holders.
        let next = job.epochs("host-replaced")[0] + 1;
        job.until_committed("partner", next);
        continued_from_copies(&job.end(), &undisturbed);
        hosts.nothing_runs("jacobi");
        for number in [1, 2, 3, 4] {
            let left = if number == lost {
                String::new()
            } else {
                files_of(&hosts, number)
            };
            assert_eq!(left, "", "left on h{number}");
        }
    }
}

#[test]
fn a_damaged_parity_restores_nothing() {
    let mut hosts = hosts!(3);
    let rarely = ["--image-copy-interval", "asked"];
    let with = [&["--images", OWN, "--host-lease", "1"][..], &THREE, &rarely].concat();
    let mut job = Job::jacobi(&hosts, &with);
    job.until_committed("partner", 1);
    let damage = format!(
        "for file in {OWN}/*/parity-*.image; do printf XXXX | dd of=$file bs=1 seek=70000 conv=notrunc 2>&1; done"
    );
    hosts.exec(3, &["sh", "-c", &damage]);
    hosts.kill(2);
    let done = job.end();
    assert!(!done.output.status.success(), "{}", done.text());
    let why = "the file that was made of a parity is not the one that was lost";
    assert!(done.stderr().contains(why), "{}", done.text());
}

#[test]
fn a_parity_needs_a_host_outside_of_its_group() {
    let hosts = hosts!(3);
    let with = [
        "--images",
        OWN,
        "--image-parity",
        "3",
        "--host",
        "h1:2,h2:1,h3:1",
    ];
    let done = Job::jacobi(&hosts, &with).end();
    assert!(!done.output.status.success(), "{}", done.text());
    assert!(
        done.stderr().contains("--image-parity 3: another host"),
        "{}",
        done.text()
    );
}

#[test]
fn a_killed_manager_and_a_killed_central_manager_cost_no_lease() {
    let hosts = hosts!(2);
    let undisturbed = Job::undisturbed(&hosts, &[]);
    // The test ends before this lease does.
    let mut job = Job::jacobi(&hosts, &["--images", OWN, "--host-lease", "60"]);
    job.until_in_files(2);
    kill(hosts.processes(2, "rejoin-local")[0], libc::SIGKILL);
    job.until("host-replaced", 1);
    job.kill_central();
    until_back(&mut job, 1, 1);
    all_gone(&hosts.processes(2, "jacobi"), SOON);
    continued_from_copies(&job.end(), &undisturbed);
}

#[test]
fn orders_to_replace_a_host_wait_for_its_lease_also_in_the_next_central_manager() {
    let hosts = hosts!(3);
    let undisturbed = Job::undisturbed(&hosts, &[]);
    let with = ["--images", OWN, "--host-lease", "10", "--spare", "h3"];
    let mut job = Job::jacobi(&hosts, &with);
    job.until_in_files(2);
    // The manager ends its ranks without its supervisor, but nobody reports that.
    kill(hosts.processes(2, "rejoin-agent")[0], libc::SIGKILL);
    job.until("host-replaced", 1);
    job.kill_central();
    job.until("central-again", 1);
    assert_eq!(job.events("recovered"), 0);
    until_back(&mut job, 1, 1);
    assert_eq!(hosts.processes(3, "jacobi").len(), 2);
    continued_from_copies(&job.end(), &undisturbed);
}

#[test]
fn standard_input_continues_where_a_lost_host_had_read_it() {
    // Rank 0, which reads it, comes back from a file of its host, or from one that is copied first.
    let ways: [&[&str]; 2] = [&[], &["--spare", "h3"]];
    let text: String = (0..40_000).map(|i| format!("line {i}\n")).collect();
    let (most, last) = text.split_at(text.len() / 2);
    for way in ways {
        let mut hosts = hosts!(3);
        let read = |run: Run| run.arg(program("back")).arg("input").start_with_input();
        let mut plain = Job::start_as(&hosts, &["--recovery", "none"], read);
        let mut input = plain.child.stdin.take().expect("its input");
        input.write_all(text.as_bytes()).expect("a reader");
        drop(input);
        let undisturbed = plain.end();
        let with = ["--images", OWN, "--host-lease", "1"];
        let mut job = Job::start_as(&hosts, &[&with[..], way].concat(), read);
        let mut input = job.child.stdin.take().expect("its input");
        input.write_all(most.as_bytes()).expect("a reader");
        job.until_in_files(3);
        hosts.kill(1);
        until_back(&mut job, 1, 1);
        input.write_all(last.as_bytes()).expect("a reader");
        drop(input);
        continued_from_copies(&job.end(), &undisturbed);
    }
}

/// A job with a name over some hosts.
fn named(hosts: &Hosts, images: &Path, options: &[&str]) -> Run {
    let all = ["--tag-output", "--checkpoint-interval", "0.1", "--spin"];
    let run = hosts.mpirun(all).arg("0").arg("--images").arg(images);
    options.iter().fold(run, |run, option| run.arg(option))
}

#[test]
fn a_job_is_restarted_on_other_numbers_of_hosts() {
    let hosts = hosts!(3);
    let undisturbed = Job::undisturbed(&hosts, &[]);
    let images = images(&hosts);
    let gate = Job::gate(&hosts);
    let _ = std::fs::remove_file(&gate);
    let first = named(&hosts, &images, &["--host", "h1:4", "--job-name", "night"]);
    let first = first.arg("-n").arg("4").arg(program("jacobi"));
    let mut job = first.arg("512").arg("2000").arg("500").arg(&gate).start();
    let mut seen = Vec::new();
    let places = ["h1:2,h2:2", "h1:1,h2:1,h3:2", "h2:4", "h1:4"];
    for place in places {
        let done = kill_all((&hosts, 3), &images, job, "jacobi");
        seen.extend(whole_lines(&done));
        job = named(&hosts, &images, &["--host", place, "--restart=night"]).start();
    }
    std::fs::write(&gate, "").expect("the gate");
    let done = finish(job, LIMIT, "a restarted job");
    good(&done);
    seen.extend(whole_lines(&done));
    let of_all = |lines: &[String]| -> Vec<String> {
        let mut all = lines.to_vec();
        all.sort();
        all.dedup();
        all
    };
    let want = of_all(&whole_lines(&undisturbed));
    assert_eq!(of_all(&seen), want, "{}", done.text());
    assert!(!images.join("night").exists(), "the job has left files");
}

/// Kills every process of a job of this program, over `count` hosts, at once. That is two
/// checkpoints from now.
fn kill_all(
    (hosts, count): (&Hosts, usize),
    images: &Path,
    job: std::process::Child,
    name: &str,
) -> Finished {
    let before = committed(images);
    rejoin_tests::processes::wait_for(SOON, "two more checkpoints", || {
        committed(images) > before + 1
    });
    let mut all = descendants(job.id());
    all.push(job.id());
    for host in 1..=count {
        all.extend(hosts.processes(host, "rejoin-local"));
        all.extend(hosts.processes(host, name));
    }
    for signal in [libc::SIGSTOP, libc::SIGKILL] {
        all.iter().for_each(|pid| kill(*pid, signal));
    }
    let done = finish(job, LIMIT, "a job that was killed");
    for host in 1..=count {
        all_gone(&hosts.processes(host, name), SOON);
    }
    done
}

#[test]
fn ranks_that_share_memory_are_restarted_on_one_host_only() {
    let hosts = hosts!(2);
    let images = images(&hosts);
    let gate = Job::gate(&hosts);
    let _ = std::fs::remove_file(&gate);
    let first = named(&hosts, &images, &["--host", "h1:4", "--job-name", "night"]);
    let first = first.arg("-n").arg("4").arg(program("together"));
    let job = first.arg("until").arg(&gate).start();
    kill_all((&hosts, 2), &images, job, "together");
    let apart = ["--host", "h1:2,h2:2", "--restart=night"];
    let done = named(&hosts, &images, &apart).output();
    assert!(!done.output.status.success(), "{}", done.text());
    let says = "which is on another host now";
    assert!(done.last_line().contains(says), "{}", done.text());
    // Its files of /dev/shm are not on the other host.
    let job = named(&hosts, &images, &["--host", "h2:4", "--restart=night"]).start();
    let before = committed(&images);
    rejoin_tests::processes::wait_for(SOON, "two more checkpoints", || {
        committed(&images) > before + 1
    });
    std::fs::write(&gate, "").expect("the gate");
    let done = finish(job, LIMIT, "a restarted job");
    good(&done);
    let right = done.stdout().matches("all sums were right").count();
    assert_eq!(right, 4, "{}", done.text());
}

#[test]
fn memory_of_one_name_on_two_hosts_stays_apart_when_a_host_is_lost() {
    for has_spare in [true, false] {
        let mut hosts = hosts!(3);
        let images = images(&hosts);
        let gate = Job::gate(&hosts);
        let spare: &[&str] = if has_spare { &["--spare", "h3"] } else { &[] };
        let with = [&["--images", text(&images), "--host-lease", "1"], spare].concat();
        let mut job = Job::start(&hosts, &with, |run| {
            run.arg(program("slices")).arg("hosts").arg(gate)
        });
        job.until_in_files(3);
        hosts.kill(2);
        job.until("host-replaced", 1);
        if has_spare {
            job.until("recovered", 1);
            let done = job.end();
            good(&done);
            let right = done.stdout().matches("all sums were right").count();
            assert_eq!(right, 4, "{}", done.text());
            continue;
        }
        // Its ranks are where others have a file of this name.
        let done = job.end();
        assert!(!done.output.status.success(), "{}", done.text());
        let last = done.last_line();
        let says = ["it would share memory", "is another file now"];
        let is_named = says.iter().any(|text| last.contains(text));
        assert!(is_named, "{}", done.text());
    }
}

/// The last committed checkpoint in the record of the job.
fn committed(images: &Path) -> u32 {
    let record = images.join("night").join("job.json");
    let text = std::fs::read_to_string(record).unwrap_or_default();
    let rest = text.split("\"checkpoint\":").nth(1).unwrap_or_default();
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

fn whole_lines(done: &Finished) -> Vec<String> {
    let text = done.stdout();
    let whole = text.split_inclusive('\n').filter(|l| l.ends_with('\n'));
    // The first line of a rank names its host.
    let lines = whole.filter(|line| !line.contains(" on h"));
    lines.map(|line| line.trim_end().to_owned()).collect()
}
