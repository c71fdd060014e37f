//! MPI-IO: a program that holds each family of calls to the standard, on one host and on two; disks
//! that are full; and ranks that are killed while they write a file together, or change it in
//! place.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use rejoin_tests::folder::Folder;
use rejoin_tests::hosts::job::{Job, good, lines};
use rejoin_tests::limits::LIMIT;
use rejoin_tests::named_job::NamedJob;
use rejoin_tests::small_disk::with_small_disk;
use rejoin_tests::torment::{Case, program_survives};
use rejoin_tests::{Run, hosts, program};

#[test]
fn every_family_of_calls_is_right() {
    for ranks in [1, 2, 4] {
        let folder = Folder::new(&format!("files-{ranks}"));
        let run = Run::new(ranks, program("files")).arg(&folder);
        let done = run.limit(LIMIT).ok();
        let want = format!("files: right on {ranks} ranks\n");
        assert_eq!(done.stdout(), want, "{}", done.text());
    }
}

#[test]
fn ranks_of_two_hosts_see_one_file() {
    let hosts = hosts!(2);
    let run = hosts.mpirun(["-n", "4", "--host", "h1:2,h2:2"]);
    let done = run
        .arg(program("files"))
        .arg(hosts.folder())
        .limit(LIMIT)
        .ok();
    assert_eq!(
        done.stdout(),
        "files: right on 4 ranks\n",
        "{}",
        done.text()
    );
}

#[test]
fn a_full_disk_is_an_error_of_all_ranks() {
    let folder = Folder::new("files-full");
    let Some(run) = with_small_disk(&folder, 4, &["-n", "3"]) else {
        return;
    };
    let done = run.arg(program("fill")).arg(folder.join("data")).ok();
    assert_eq!(
        done.stdout(),
        "fill: no space on 3 ranks\n",
        "{}",
        done.text()
    );
}

#[test]
fn a_file_that_ranks_write_together_is_right_after_kills() {
    let case = Case {
        name: "appender",
        args: &["1500"],
        mode: &[],
        ordered: true,
        files: true,
        with_images: false,
        shows: None,
        least: 10,
    };
    program_survives(&case, 1..3);
}

/// Ranks that compute from a file which they change in place.
const IN_PLACE: Case = Case {
    name: "inplace",
    args: &["700"],
    mode: &[],
    ordered: true,
    files: true,
    with_images: false,
    shows: None,
    least: 10,
};

/// The second time, images are killed with the ranks.
#[test]
fn a_file_that_ranks_change_in_place_is_right_after_kills() {
    for with_images in [false, true] {
        let case = Case {
            with_images,
            ..IN_PLACE
        };
        program_survives(&case, 1..3);
    }
}

#[test]
fn a_file_that_ranks_change_in_place_is_put_back_at_a_restart() {
    let mut job = NamedJob::gated("files-restart", ["inplace", "gated"]);
    let child = job.first(&[]).start();
    job.killed(child);
    let child = job.again(&[]).start();
    job.killed(child);
    let child = job.again(&[]).start();
    job.ends_well(child);
    let left = job.folder().join(".gate.data.rejoin-undo");
    assert!(!left.exists(), "{} is left", left.display());
}

/// The folder of the file has room for the file, and not for the records of what is overwritten. A
/// file that is new needs none, however often it is written.
#[test]
fn records_that_find_no_room_are_an_error_of_all_ranks() {
    let folder = Folder::new("files-records");
    let bounded = || {
        let run = Run::new(3, program("overwrite")).arg(folder.join("data"));
        run.env("REJOIN_FILE_UNDO_LIMIT", "1000000").limit(LIMIT)
    };
    let done = bounded().ok();
    let want = "overwrite: written on 3 ranks\n";
    assert_eq!(done.stdout(), want, "{}", done.text());
    let done = bounded().ok();
    let want = "overwrite: no room for records on 3 ranks\n";
    assert_eq!(done.stdout(), want, "{}", done.text());
    let run = Run::raw(["--recovery", "none", "-n", "3"]).arg(program("overwrite"));
    let done = run.arg(folder.join("data")).limit(LIMIT).ok();
    let want = "overwrite: written on 3 ranks\n";
    assert_eq!(done.stdout(), want, "{}", done.text());
}

/// The user may write the file, and make none beside it.
#[test]
fn a_file_in_a_folder_without_room_for_records_is_refused() {
    let folder = Folder::new("files-read-only");
    std::fs::write(folder.join("data"), vec![1; 3 << 20]).expect("a file");
    let allow = |path: PathBuf, mode| {
        let mode = Permissions::from_mode(mode);
        std::fs::set_permissions(path, mode).expect("permissions");
    };
    allow(folder.join("data"), 0o666);
    allow(folder.join("."), 0o755);
    let run = Run::new(3, program("overwrite")).arg(folder.join("data"));
    let done = run.arg("65534").limit(LIMIT).ok();
    let want = "overwrite: no access on 3 ranks\n";
    assert_eq!(done.stdout(), want, "{}", done.text());
}

/// The ranks of the lost host continue on the other one, which sees the file, too.
#[test]
fn a_file_that_ranks_change_in_place_is_right_after_a_lost_host() {
    let mut hosts = hosts!(2);
    let changed = |hosts: &hosts::Hosts, options: &[&str]| {
        let path = hosts.folder().join("changed");
        Job::start(hosts, options, |run| {
            run.arg(program("inplace")).arg("4000").arg(path)
        })
    };
    let undisturbed = changed(&hosts, &["--recovery", "none"]).end();
    let images = hosts.folder().join("images");
    std::fs::create_dir_all(&images).expect("a folder");
    let images = images.to_str().expect("UTF-8");
    let mut job = changed(&hosts, &["--images", images, "--host-lease", "1"]);
    job.until_in_files(2);
    hosts.kill(2);
    job.until("recovered", 1);
    let done = job.end();
    good(&done);
    assert_eq!(lines(&done), lines(&undisturbed), "{}", done.text());
}
