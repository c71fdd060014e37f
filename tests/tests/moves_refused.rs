//! Moves that can't be: the other host has no room, a weaker processor, or is lost, or the rank has
//! what an image does not hold. The request names the reason, and the rank stays where it is. Root
//! is needed, as in `hosts`.

use rejoin_image_format::{HEADER_LENGTH, ImageHeader};
use rejoin_tests::hosts::job::Job;
use rejoin_tests::hosts::memory_limit::MemoryLimit;
use rejoin_tests::hosts::moves::{Migration, Points, done, rejoin, right, undisturbed};
use rejoin_tests::hosts::{Cut, Hosts};
use rejoin_tests::limits::SOON;
use rejoin_tests::processes::wait_for;
use rejoin_tests::{Finished, Run, hosts, program};
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// A folder that each host has for itself.
const OWN: &str = "/tmp/images-of-moves";

/// The command failed with this reason, and no rank has moved.
fn refused(ended: &Finished, reason: &str) {
    assert!(!ended.output.status.success(), "{}", ended.text());
    assert!(ended.stderr().contains(reason), "{}", ended.text());
    assert!(!ended.stdout().contains("rank 1 has moved"));
}

#[test]
fn a_rank_stays_whose_next_host_has_no_room_for_its_files() {
    let hosts = hosts!(3);
    let alone = Job::undisturbed(&hosts, &[]);
    hosts.exec(3, &["mkdir", "-p", OWN]);
    let small = ["mount", "-t", "tmpfs", "-o", "size=300k", "small", OWN];
    hosts.exec(3, &small);
    let mut job = Job::jacobi(&hosts, &["--images", OWN, "--spare", "h3"]);
    job.until_in_files(1);
    let ended = rejoin(&hosts, &["migrate", "1", "--to", "h3"]);
    refused(&ended, "No space left on device");
    assert_eq!(hosts.places(), ["h1", "h1", "h2", "h2"]);
    hosts.settle(&mut job, "jacobi");
    assert!(done(&hosts, &["migrate", "1", "--to", "h2"]).contains("has moved"));
    hosts.exec(3, &["mount", "-o", "remount,size=300m", OWN]);
    assert!(done(&hosts, &["migrate", "1", "--to", "h3"]).contains("has moved"));
    undisturbed(&job.end(), &alone);
}

/// The files of the images with which rank 1 moves: those of no checkpoint.
fn newest_image(images: &Path) -> PathBuf {
    let folder = fs::read_dir(images).expect("the folder");
    let jobs = folder.map(|entry| entry.expect("an entry").path());
    let mut found = Vec::new();
    for job in jobs.filter(|path| path.is_dir()) {
        for entry in fs::read_dir(job).expect("a folder of a job") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str());
            let number = name.and_then(|name| {
                let rest = name.strip_prefix("rank-1.epoch-")?;
                let (after, step) = rest.strip_suffix(".move")?.split_once('+')?;
                Some((after.parse::<u32>().ok()?, step.parse::<u32>().ok()?))
            });
            found.extend(number.map(|number| (number, path)));
        }
    }
    found.sort();
    found.pop().expect("an image of rank 1").1
}

/// The image says that its process uses all features that a processor can have.
fn demand_all(path: &Path) {
    let file = File::options().read(true).write(true).open(path);
    let file = file.expect("an image");
    let length = file.metadata().expect("its length").len();
    let mut bytes = [0; HEADER_LENGTH];
    file.read_exact_at(&mut bytes, 0).expect("a header");
    let mut header = ImageHeader::decode(&bytes, length).expect("a whole header");
    header.processor.words.fill(u32::MAX);
    file.write_all_at(&header.encode(), 0).expect("a header");
}

#[test]
fn a_rank_stays_whose_next_host_has_a_weaker_processor() {
    let hosts = hosts!(3);
    let alone = Job::undisturbed(&hosts, &[]);
    let images = hosts.folder().join("images");
    fs::create_dir_all(&images).expect("a folder");
    let points = Points::of(&hosts);
    let folder = images.to_str().expect("a path in UTF-8");
    let options = ["--images", folder, "--spare", "h3"];
    let waits = |run| points.prepare(run, &["before-load"]);
    let mut job = Job::jacobi_with(&hosts, &options, waits);
    job.until_in_files(1);
    points.want("before-load");
    let moves = Migration::start(&hosts, 1, "h3").comes_to(&points, "before-load");
    demand_all(&newest_image(&images));
    points.release("before-load");
    refused(&moves.end(), "processor");
    assert_eq!(hosts.places(), ["h1", "h1", "h2", "h2"]);
    hosts.settle(&mut job, "jacobi");
    assert!(done(&hosts, &["migrate", "1", "--to", "h3"]).contains("has moved"));
    undisturbed(&job.end(), &alone);
}

/// The bytes that a process has in its data, its heap and other memory of its own.
fn data(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a status");
    let mut lines = status.lines();
    let data = lines.find_map(|line| line.strip_prefix("VmData:"));
    let kilobytes = data.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.expect("a size") * 1024
}

/// From now on a process and those that it starts get no more of such memory.
fn limit_data(pid: u32, bytes: u64) {
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: libc::RLIM_INFINITY,
    };
    let none = std::ptr::null_mut();
    // SAFETY: the new limits are valid, and the old ones are not asked for.
    let set = unsafe { libc::prlimit(pid as i32, libc::RLIMIT_DATA, &limit, none) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn a_rank_stays_whose_next_host_has_too_little_memory() {
    const SPARE: u64 = 16 << 20;
    let hosts = hosts!(3);
    // 64 MiB of each rank.
    let large = |run: Run| run.arg(program("jacobi")).arg("4096").arg("50");
    let alone = Job::start(&hosts, &[], large).end();
    let gate = Job::gate(&hosts);
    let mut job = Job::start(&hosts, &["--spare", "h3"], |run| {
        large(run).arg("500").arg(&gate)
    });
    job.until_in_files(1);
    let there_and_back = || {
        for to in ["h3", "h1"] {
            assert!(done(&hosts, &["migrate", "1", "--to", to]).contains("has moved"));
        }
    };
    // The local manager stays there.
    there_and_back();
    let manager = hosts.processes(3, "rejoin-local")[0];
    let stays = |job: &mut Job, reason: &str| {
        refused(&rejoin(&hosts, &["migrate", "1", "--to", "h3"]), reason);
        assert_eq!(hosts.places(), ["h1", "h1", "h2", "h2"]);
        hosts.settle(job, "jacobi");
    };
    limit_data(manager, data(manager) + SPARE);
    stays(&mut job, "refused to map memory");
    limit_data(manager, libc::RLIM_INFINITY);
    there_and_back();
    // What is too much is noticed when it is used: the system kills the largest process. With so
    // little memory, what loads the rank does not get larger than the local manager.
    let limit = MemoryLimit::set(manager, SPARE / 2);
    if limit.is_some() {
        stays(&mut job, "host h3 is lost");
    }
    right(&job.end(), &alone);
}

#[test]
fn a_rank_stays_whose_next_host_is_lost_while_it_loads() {
    // It loses its power, or is cut off.
    for cut in [false, true] {
        let mut hosts = hosts!(3);
        let alone = Job::undisturbed(&hosts, &[]);
        let points = Points::of(&hosts);
        let options = ["--spare", "h3", "--host-lease", "3"];
        let waits = |run| points.prepare(run, &["load-sent"]);
        let mut job = Job::jacobi_with(&hosts, &options, waits);
        job.until_in_files(1);
        points.want("load-sent");
        let moves = Migration::start(&hosts, 1, "h3").comes_to(&points, "load-sent");
        match cut {
            true => hosts.cut(3, Cut::Both),
            false => hosts.kill(3),
        }
        points.release("load-sent");
        refused(&moves.end(), "host h3 is lost");
        assert_eq!(hosts.places(), ["h1", "h1", "h2", "h2"]);
        assert!(done(&hosts, &["migrate", "1", "--to", "h2"]).contains("has moved"));
        hosts.heal();
        undisturbed(&job.end(), &alone);
    }
}

/// The second rank of a program does not move for this reason. The job ends as an undisturbed one.
fn stays(hosts: &Hosts, options: &[&str], name: &str, args: &[&str], reason: &str) {
    let gate = Job::gate(hosts);
    let start = |options: &[&str]| {
        Job::start(hosts, options, |run: Run| {
            args.iter()
                .fold(run.arg(program(name)), Run::arg)
                .arg(&gate)
        })
    };
    let alone = start(options).end();
    let mut job = start(&[options, &["--spare", "h3"]].concat());
    job.until("began", 1);
    wait_for(SOON, "the second rank", || {
        !hosts.processes_of(1, name, 1).is_empty()
    });
    let places = hosts.places();
    let mut ended = rejoin(hosts, &["migrate", "1", "--to", "h3"]);
    // Where ranks share memory from the beginning, there is a checkpoint first.
    while ended.stderr().contains("no checkpoint that it could") {
        job.until("committed", 1);
        ended = rejoin(hosts, &["migrate", "1", "--to", "h3"]);
    }
    refused(&ended, reason);
    assert_eq!(hosts.places(), places);
    right(&job.end(), &alone);
}

#[test]
fn ranks_stay_that_share_memory() {
    let hosts = hosts!(3);
    let one = ["--host", "h1:4,h2:4"];
    stays(&hosts, &one, "together", &["until"], "share memory");
}

#[test]
fn ranks_stay_that_have_child_processes() {
    let hosts = hosts!(3);
    let reason = "has a child process of its own";
    stays(&hosts, &[], "helpers", &["long", "20"], reason);
}
