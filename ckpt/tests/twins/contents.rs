//! Files that a process writes: what a restored process finds in them.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use rejoin_ckpt::twin::Overwritten;
use rejoin_ckpt::twin::manager::ZygoteAnswer;
use rejoin_tests::folder::Folder;

use crate::state::{clerk, open};
use crate::support::job::answer;
use crate::support::{Job, Test};

pub const TESTS: &[Test] = &[
    ("contents_written_in_place_are_put_back", in_place),
    ("contents_of_a_file_that_was_cut_are_put_back", shrunk),
    ("contents_of_a_large_file_are_cut_back", large),
    (
        "contents_of_a_large_file_that_was_overwritten_are_missed",
        large_overwritten,
    ),
    (
        "contents_of_a_large_file_count_from_image_to_image",
        large_again,
    ),
    ("contents_that_several_ranks_write_stay", shared),
    ("contents_of_a_renamed_file_are_made_again", renamed),
    ("contents_are_read_without_a_loss_of_locks", locked),
];

/// Longer than all that an image copies.
const LARGE: usize = (16 << 20) + 12345;

fn text(path: &Path) -> String {
    fs::read_to_string(path).expect("a file")
}

/// What a restore is refused for.
fn refusal(job: &mut Job, spared: &[(u64, u64)]) -> Overwritten {
    let _ends = job.send_wake(b"", true, spared);
    match answer(&mut job.twin.as_mut().expect("an image").zygote) {
        ZygoteAnswer::Overwritten(file) => file,
        other => panic!("not refused: {other:?}"),
    }
}

/// A rank that opens a file itself: this process has no such descriptor.
fn writer(path: &Path, flags: i32) -> Job {
    Job::start(|rank| clerk(open(path, flags))(rank))
}

fn in_place() {
    let folder = Folder::new("contents");
    let path = folder.join("base");
    for flags in [libc::O_RDWR, libc::O_WRONLY] {
        fs::write(&path, "0123456789").expect("written");
        let mut job = writer(&path, flags);
        job.ask("+ab");
        job.image();
        assert_eq!(job.twin.as_ref().expect("an image").caveats, 0);
        for _ in 0..2 {
            job.ask("+XYZ");
            job.restore(1);
            assert_eq!(text(&path), "ab23456789");
        }
        job.ask("+c");
        assert_eq!(text(&path), "abc3456789");
        job.finish();
    }
}

fn shrunk() {
    let folder = Folder::new("contents");
    let path = folder.join("log");
    let mut job = writer(&path, libc::O_WRONLY | libc::O_CREAT);
    job.ask("+12345");
    job.image();
    job.kill();
    fs::write(&path, "1").expect("written");
    job.begin_restore();
    job.expect("restored 1");
    assert_eq!(
        (text(&path), job.ask("caveats")),
        ("12345".into(), "[]".into())
    );
    job.finish();
}

/// A large file, and a rank at its end.
fn large_file(path: &Path) -> Job {
    let bytes: Vec<u8> = (0..LARGE).map(|at| (at * 7 + at / 999) as u8).collect();
    fs::write(path, bytes).expect("written");
    Job::start(|rank| {
        let fd = open(path, libc::O_RDWR);
        // SAFETY: touches no memory.
        unsafe { libc::lseek(fd, 0, libc::SEEK_END) };
        clerk(fd)(rank);
    })
}

fn overwrite(path: &Path, at: usize) {
    let file = fs::OpenOptions::new().write(true).open(path);
    let file = file.expect("a file");
    file.write_all_at(b"other", at as u64).expect("written");
}

fn large() {
    let folder = Folder::new("contents");
    let path = folder.join("large");
    let mut job = large_file(&path);
    let before = fs::read(&path).expect("a file");
    job.image();
    for _ in 0..2 {
        job.ask("+more");
        job.restore(1);
        assert!(fs::read(&path).expect("a file") == before);
    }
    job.finish();
}

fn large_overwritten() {
    let folder = Folder::new("contents");
    let path = folder.join("large");
    for at in [0, LARGE / 2, LARGE - 5] {
        let mut job = large_file(&path);
        job.image();
        job.ask("+more");
        job.kill();
        overwrite(&path, at);
        let missed = refusal(&mut job, &[]);
        assert!(!missed.is_shared);
        // Bytes behind those of the image do not count.
        let mut job = large_file(&path);
        job.image();
        job.kill();
        overwrite(&path, LARGE);
        job.begin_restore();
        job.expect("restored 1");
        job.finish();
    }
}

fn large_again() {
    let folder = Folder::new("contents");
    let path = folder.join("large");
    let mut job = large_file(&path);
    for _ in 0..3 {
        job.image();
        job.ask("+more");
    }
    job.image();
    job.ask("+lost");
    job.restore(1);
    assert_eq!(
        fs::metadata(&path).expect("a file").len(),
        LARGE as u64 + 12
    );
    // The image is later, but the bytes were hashed before: nobody can tell.
    job.ask("+more");
    overwrite(&path, 77);
    job.image();
    job.kill();
    overwrite(&path, LARGE + 20);
    assert!(!refusal(&mut job, &[]).is_shared);
}

fn shared() {
    let folder = Folder::new("contents");
    let path = folder.join("log");
    fs::write(&path, "0123456789").expect("written");
    let data = fs::metadata(&path).expect("a file");
    let spared = [(data.dev(), data.ino())];
    let mut job = writer(&path, libc::O_RDWR);
    job.image();
    job.kill();
    fs::write(&path, "0123456789 and more").expect("written");
    job.restore_with(b"", true, &spared);
    job.expect("restored 1");
    assert_eq!(text(&path), "0123456789 and more");
    job.kill();
    overwrite(&path, 3);
    let missed = refusal(&mut job, &spared);
    assert!(missed.is_shared);
    job.begin_restore();
    job.expect("restored 1");
    assert_eq!(text(&path), "0123456789", "no other rank writes it");
    job.finish();
}

fn renamed() {
    let folder = Folder::new("contents");
    let (new, path) = (folder.join("new"), folder.join("path"));
    let mut job = writer(&new, libc::O_RDWR | libc::O_CREAT);
    job.ask("+half");
    job.image();
    let mut moved = |next: Option<&str>| {
        job.ask("+ done");
        fs::rename(&new, &path).expect("renamed");
        if let Some(next) = next {
            fs::write(&new, next).expect("written");
        }
        job.restore(1);
        assert_eq!(text(&new), "half");
        assert_eq!(text(&path), "half done");
    };
    moved(None);
    moved(Some("the next"));
    job.ask("+ again");
    assert_eq!(text(&new), "half again");
    job.finish();
}

fn locked() {
    let folder = Folder::new("contents");
    let path = folder.join("base");
    fs::write(&path, "0123456789").expect("written");
    let other = fs::File::open(&path).expect("a file");
    let is_locked = || {
        // SAFETY: `flock` is plain data that the call fills in.
        unsafe {
            let mut lock: libc::flock = std::mem::zeroed();
            lock.l_type = libc::F_RDLCK as i16;
            libc::fcntl(other.as_raw_fd(), libc::F_GETLK, &raw mut lock);
            lock.l_type != libc::F_UNLCK as i16
        }
    };
    for flags in [libc::O_RDWR, libc::O_WRONLY] {
        let mut job = Job::start(|rank| {
            let fd = open(&path, flags);
            // SAFETY: a number of this process.
            assert_eq!(unsafe { libc::lockf(fd, libc::F_TLOCK, 0) }, 0);
            clerk(fd)(rank);
        });
        job.ask("+ab");
        assert!(is_locked());
        job.image();
        assert!(is_locked(), "with flags {flags}");
        job.kill();
        drop(job);
    }
}
