//! A zygote saves itself into a file. tests/tests/images.rs makes processes of such files.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::FileExt as _;

use rejoin_ckpt::ImageNumber;
use rejoin_ckpt::image::{ImageCompression, ImageIdentity, SaveError};
use rejoin_ckpt::twin::manager::{SaveRequest, ZygoteAnswer};
use rejoin_image_format::{
    ExtentReader, ImageError, ImageHeader, READER_BUFFER, RegionKind, SavedExtent, SavedTable,
};

use crate::support::job::answer;
use crate::support::{Job, Rank, Test};

pub const TESTS: &[Test] = &[
    ("a_zygote_saves_itself_and_serves_on", saves_itself),
    (
        "a_zygote_that_moves_between_processors_saves_itself_whole",
        moves,
    ),
    ("zeros_and_wiped_pages_are_in_no_file", without_zeros),
    (
        "an_image_refers_to_the_one_before_for_what_has_not_changed",
        after_another,
    ),
    (
        "compressed_images_and_plain_ones_refer_to_each_other",
        after_another_compressed,
    ),
    ("a_full_disk_is_reported_and_the_image_stays", full_disk),
    ("a_program_with_a_pipe_of_its_own_gets_a_file", with_pipe),
    ("a_program_with_a_socket_gets_no_file", with_socket),
    (
        "a_program_with_a_deleted_file_gets_no_file",
        with_deleted_file,
    ),
];

pub const IDENTITY: ImageIdentity = ImageIdentity {
    job: 7,
    generation: 0,
    number: ImageNumber::of_checkpoint(1),
    rank: 3,
    incarnation: 0,
    size: 4,
};

/// A file without a name.
fn file() -> File {
    let path = std::env::temp_dir().join(format!("rejoin-saved-{}", std::process::id()));
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(true);
    let file = file.open(&path).expect("a file");
    std::fs::remove_file(&path).expect("its name");
    file
}

/// The request to save an image into this file.
fn to<'a>(
    file: BorrowedFd<'a>,
    base: Option<(BorrowedFd<'a>, &'a str)>,
    compression: ImageCompression,
) -> SaveRequest<'a> {
    SaveRequest {
        file,
        base,
        compression,
        passes: false,
    }
}

pub fn save(job: &mut Job, file: &File) -> ZygoteAnswer {
    save_as(job, file, ImageCompression::None)
}

pub fn save_as(job: &mut Job, file: &File, compression: ImageCompression) -> ZygoteAnswer {
    let zygote = &mut job.twin.as_mut().expect("an image").zygote;
    let sent = zygote.save(&IDENTITY, &to(file.as_fd(), None, compression));
    assert!(sent.expect("a request"));
    answer(zygote)
}

/// A rank that does `prepare` and counts the times it was restored.
fn rank(prepare: impl FnOnce()) -> Job {
    let mut job = Job::start(|rank: &mut Rank| {
        prepare();
        rank.serve(|_, _| {});
    });
    job.image();
    job
}

fn saves_itself() {
    let mut job = rank(|| {});
    let file = file();
    let ZygoteAnswer::Saved { bytes } = save(&mut job, &file) else {
        panic!("not saved");
    };
    assert_eq!(bytes, file.metadata().expect("its data").len());
    let kinds = check_file(&file, bytes);
    for kind in [
        RegionKind::Stack,
        RegionKind::Kernel,
        RegionKind::PrivateFile,
    ] {
        assert!(kinds.contains(&kind), "{kind:?}");
    }
    job.restore(1);
    job.finish();
}

/// Checks the contents of a file. Returns the kinds of its regions.
fn check_file(file: &File, bytes: u64) -> Vec<RegionKind> {
    let mut whole = vec![0; bytes as usize];
    file.read_exact_at(&mut whole, 0).expect("the file");
    let header = ImageHeader::decode(whole.first_chunk().expect("a page"), bytes);
    let header = header.expect("a header");
    header
        .identity
        .check(7, 3, ImageNumber::of_checkpoint(1))
        .expect("this rank's");
    assert_ne!(header.processor.words, [0; 10]);
    let from = header.table.position as usize;
    let table = &whole[from..from + header.table.length as usize];
    let table = SavedTable::new(&header, table).expect("a table");
    for region in table.regions() {
        for extent in table.extents_of(&region) {
            pages_of(file, &extent);
        }
    }
    table.regions().map(|region| region.kind).collect()
}

/// The pages of an extent, whose checksum is right.
fn pages_of(file: &File, extent: &SavedExtent) -> Vec<u8> {
    let [mut stored, mut block] = [(); 2].map(|()| vec![0; READER_BUFFER]);
    let mut reader = ExtentReader::new(&mut stored, &mut block);
    let mut pages = vec![0; extent.length() as usize];
    let filled: Result<(), ImageError> = reader.fill(extent, &mut pages, |room, position| {
        file.read_exact_at(room, position).expect("the file");
        Ok(())
    });
    filled.expect("the right checksum");
    pages
}

/// The kernel writes into the memory of a thread that has moved to another processor.
fn moves() {
    let mut job = rank(|| {});
    let zygote = job.twin.as_ref().expect("an image").pid;
    // SAFETY: one thread, so the child may do anything.
    let mover = unsafe { libc::fork() };
    if mover == 0 {
        for processor in (0..2u64).cycle() {
            let set = 1u64 << processor;
            // SAFETY: the pointer is to a set of the size given.
            unsafe { libc::syscall(libc::SYS_sched_setaffinity, zygote, 8, &raw const set) };
        }
    }
    let file = file();
    for round in 0..20 {
        let compression = [ImageCompression::None, ImageCompression::Lz4][round % 2];
        let ZygoteAnswer::Saved { bytes } = save_as(&mut job, &file, compression) else {
            panic!("not saved");
        };
        check_file(&file, bytes);
    }
    // SAFETY: no status is asked for.
    unsafe {
        libc::kill(mover, libc::SIGKILL);
        libc::waitpid(mover, std::ptr::null_mut(), 0);
    }
    job.finish();
}

const LARGE: usize = 64 << 20;

/// Private memory of this process.
pub fn map(length: usize) -> &'static mut [u8] {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping of this length, which stays.
    unsafe {
        let at = libc::mmap(std::ptr::null_mut(), length, access, kind, -1, 0);
        assert_ne!(at, libc::MAP_FAILED);
        std::slice::from_raw_parts_mut(at.cast(), length)
    }
}

/// What lies in the page that clones find empty.
fn secret(at: usize) -> u8 {
    (at * 37 + 11) as u8 ^ 0x5a
}

fn without_zeros() {
    let mut job = rank(|| {
        let large = map(LARGE);
        large.fill(1);
        large.fill(0);
        large[LARGE / 2] = 1;
        let page = map(4096);
        // SAFETY: the advice is about the page that was mapped just now.
        let advised =
            unsafe { libc::madvise(page.as_mut_ptr().cast(), 4096, libc::MADV_WIPEONFORK) };
        assert_eq!(advised, 0);
        rejoin_ckpt::twin::keep_out_of_images(page.as_ptr().addr());
        page.iter_mut()
            .enumerate()
            .for_each(|(at, byte)| *byte = secret(at));
    });
    let file = file();
    let ZygoteAnswer::Saved { bytes } = save(&mut job, &file) else {
        panic!("not saved");
    };
    assert!(bytes < LARGE as u64 / 4, "{bytes} bytes");
    let mut whole = vec![0; bytes as usize];
    file.read_exact_at(&mut whole, 0).expect("the file");
    let secret: Vec<u8> = (0..64).map(secret).collect();
    let found = whole.windows(64).any(|window| window == secret);
    assert!(!found, "the wiped page is in the file");
    job.finish();
}

/// Pages of a file, from the file or from the one before.
fn page_at(files: [&File; 2], address: u64) -> Vec<u8> {
    let [own, before] = files;
    let length = own.metadata().expect("its data").len();
    let mut page = [0; 4096];
    own.read_exact_at(&mut page, 0).expect("the header");
    let header = ImageHeader::decode(&page, length).expect("a header");
    let mut bytes = vec![0; header.table.length as usize];
    own.read_exact_at(&mut bytes, header.table.position)
        .expect("the table");
    let table = SavedTable::new(&header, &bytes).expect("a table");
    let mut extents = table.regions().flat_map(|region| table.extents_of(&region));
    let extent = extents.find(|e| e.address <= address && address < e.address + e.length());
    let extent = extent.expect("the page");
    let from = (address - extent.address) as usize;
    pages_of([own, before][extent.file as usize], &extent)[from..from + 4096].to_vec()
}

fn after_another() {
    let (complete, changed) = changed_pages(ImageCompression::None, ImageCompression::None);
    assert!(changed * 20 < complete, "{changed} bytes after {complete}");
}

fn after_another_compressed() {
    let (none, lz4) = (ImageCompression::None, ImageCompression::Lz4);
    let (complete, changed) = changed_pages(lz4, lz4);
    // Changed pages are far from each other, and one page alone does not get shorter.
    for bytes in [complete, changed] {
        assert!(bytes < LARGE as u64 / 20, "{bytes} bytes");
    }
    changed_pages(lz4, none);
    changed_pages(none, lz4);
}

/// Images before and after a change of each hundredth page; the lengths of both files.
fn changed_pages(first: ImageCompression, second: ImageCompression) -> (u64, u64) {
    const PAGES: usize = LARGE / 4096;
    let memory = map(LARGE);
    let start = memory.as_ptr() as u64;
    let mut job = Job::start(|rank: &mut Rank| {
        for (number, page) in memory.chunks_exact_mut(4096).enumerate() {
            page.fill(number as u8);
            page[..8].copy_from_slice(&(number as u64 + 1).to_le_bytes());
        }
        rank.serve(|rank, _| {
            // One page of a hundred changes.
            for page in (0..PAGES).step_by(100) {
                memory[page * 4096 + 9] ^= 0xff;
            }
            rank.say("changed");
        });
    });
    let before = file();
    job.image();
    let ZygoteAnswer::Saved { bytes: complete } = save_as(&mut job, &before, first) else {
        panic!("not saved");
    };
    assert_eq!(job.ask("change"), "changed");
    job.image();
    let (own, next) = (
        file(),
        ImageIdentity {
            number: ImageNumber::of_checkpoint(2),
            ..IDENTITY
        },
    );
    let zygote = &mut job.twin.as_mut().expect("an image").zygote;
    let sent = zygote.save(
        &next,
        &to(own.as_fd(), Some((before.as_fd(), "before")), second),
    );
    assert!(sent.expect("a request"));
    let ZygoteAnswer::Saved { bytes } = answer(zygote) else {
        panic!("not saved");
    };
    for page in [0, 1, 99, 100, 101, PAGES - 1] {
        let mut want = vec![page as u8; 4096];
        want[..8].copy_from_slice(&(page as u64 + 1).to_le_bytes());
        if page % 100 == 0 {
            want[9] ^= 0xff;
        }
        let address = start + page as u64 * 4096;
        assert!(page_at([&own, &before], address) == want, "page {page}");
    }
    job.finish();
    (complete, bytes)
}

fn full_disk() {
    let mut job = rank(|| {});
    let full = OpenOptions::new().write(true).open("/dev/full");
    let errno = libc::ENOSPC;
    let why = ZygoteAnswer::NotSaved(SaveError::System { errno });
    assert_eq!(save(&mut job, &full.expect("a device")), why);
    job.restore(1);
    job.finish();
}

fn with_pipe() {
    let mut job = rank(|| {
        let mut ends = [0; 2];
        // SAFETY: the pointer is to two numbers.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    });
    let answer = save(&mut job, &file());
    assert!(matches!(answer, ZygoteAnswer::Saved { .. }), "{answer:?}");
    job.restore(1);
    job.finish();
}

fn with_socket() {
    let mut job = rank(|| {
        // SAFETY: touches no memory.
        assert!(unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) } >= 0);
    });
    let answer = save(&mut job, &file());
    let is_socket = matches!(answer, ZygoteAnswer::NotSaved(SaveError::Descriptor(3..)));
    assert!(is_socket, "{answer:?}");
    job.restore(1);
    job.finish();
}

fn with_deleted_file() {
    let mut job = rank(|| {
        std::mem::forget(file());
    });
    let answer = save(&mut job, &file());
    let is_file = matches!(answer, ZygoteAnswer::NotSaved(SaveError::Descriptor(3..)));
    assert!(is_file, "{answer:?}");
    job.finish();
}
