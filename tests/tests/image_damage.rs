//! Process images that are damaged, foreign or too new, given to the restarter itself: each is
//! refused with its reason, and no process comes of it.

use rejoin_image_format::{
    ERROR_LENGTH, HEADER_LENGTH, ImageError, ImageHeader, ImageNumber, PAGE, SavedExtent,
    SavedTable,
};
use rejoin_tests::folder::Folder;
use rejoin_tests::job::{Job, Numbers};
use rejoin_tests::limits::{LIMIT, SOON};
use rejoin_tests::processes::{is_alive, kill, wait_for};
use rejoin_tests::{Run, finish, prefix, program};
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const RANK: u32 = 1;

/// Two images of rank 1 of a job that has ended, and its program. The later one refers to the
/// first.
struct Sample {
    folder: Folder,
    program: PathBuf,
    bytes: Vec<u8>,
    header: ImageHeader,
    /// The later one, and the name that it knows the first by.
    later: Vec<u8>,
    name: String,
}

/// What the restarter says.
#[derive(Debug, PartialEq)]
enum Answer {
    Refused(ImageError),
    /// A process was made, and waits for requests.
    Made,
    Other(Vec<u8>),
}

impl Sample {
    fn new(name: &str) -> Sample {
        Sample::with(name, "none")
    }

    /// With this compression.
    fn with(name: &str, compression: &str) -> Sample {
        let folder = Folder::new(name);
        let (images, gate) = (folder.name("images"), folder.name("gate"));
        let copy = folder.join("app");
        std::fs::copy(program("back"), &copy).expect("a copy of the program");
        let options = [
            "-n",
            "2",
            "--checkpoint-interval",
            "asked",
            "--checkpoint-signal",
            "USR1",
            "--images",
            &images,
            "--image-compression",
            compression,
        ];
        let run = Run::raw(options).arg(&copy).arg("short").arg(&gate);
        let child = run.start();
        let job = Job::of(child.id(), "app");
        let files = || images_of_rank(&images);
        wait_for(SOON, "the first checkpoint", || {
            (job.has_checkpoint(2) && !files().is_empty()) || !is_alive(child.id())
        });
        let first = files().pop().expect("the image of rank 1");
        let bytes = std::fs::read(&first).expect("the image");
        kill(child.id(), libc::SIGUSR1);
        wait_for(SOON, "the second image", || {
            files().len() == 2 || !is_alive(child.id())
        });
        let later = std::fs::read(files().pop().expect("two images")).expect("the second image");
        std::fs::write(&gate, "").expect("the gate");
        let done = finish(child, LIMIT, "the job");
        assert!(done.output.status.success(), "{}", done.text());
        let page = bytes.first_chunk().expect("a page");
        let header = ImageHeader::decode(page, bytes.len() as u64).expect("a header");
        Sample {
            folder,
            program: copy,
            bytes,
            header,
            later,
            name: first.file_name().expect("a name").to_string_lossy().into(),
        }
    }

    /// What the restarter makes of these bytes.
    fn restart(&self, bytes: &[u8]) -> Answer {
        self.restart_at(bytes, self.header.identity.number)
    }

    /// The same for the image of this name.
    fn restart_at(&self, bytes: &[u8], number: ImageNumber) -> Answer {
        let path = self.folder.join("image");
        std::fs::write(&path, bytes).expect("a file");
        let (mut ours, theirs) = UnixStream::pair().expect("a socket");
        let limit = ours.set_read_timeout(Some(SOON));
        limit.expect("a limit");
        let identity = &self.header.identity;
        let mut child = Command::new(prefix().join("libexec/rejoin/rejoin-restarter"))
            .arg(&path)
            .args(["0", &identity.job.to_string(), &RANK.to_string()])
            .args([number.epoch.to_string(), number.step.to_string()])
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()
            .expect("the restarter");
        let mut answer = [0; ERROR_LENGTH];
        let read = ours.read_exact(&mut answer);
        // A process that was made ends without its manager.
        drop(ours);
        let status = child.wait().expect("its end");
        assert_eq!(status.signal(), None, "it crashed: {read:?} {answer:?}");
        read.expect("an answer");
        match ImageError::decode(&answer) {
            Some(error) => {
                assert_eq!(status.code(), Some(1), "{error}");
                Answer::Refused(error)
            }
            None if answer.starts_with(b"rjtw") => {
                assert_eq!(status.code(), Some(0));
                Answer::Made
            }
            None => Answer::Other(answer.to_vec()),
        }
    }

    /// The image with another header, whose checksum is right.
    fn with_header(&self, change: impl FnOnce(&mut ImageHeader)) -> Vec<u8> {
        let mut header = self.header;
        change(&mut header);
        let mut bytes = self.bytes.clone();
        bytes[..HEADER_LENGTH].copy_from_slice(&header.encode());
        bytes
    }

    /// Bytes that mean something: the rest of the last page does not.
    fn used(&self) -> usize {
        (self.header.table.position + self.header.table.length) as usize
    }
}

#[test]
fn an_image_that_is_altered_anywhere_makes_no_process() {
    let sample = Sample::new("altered");
    assert_eq!(sample.restart(&sample.bytes), Answer::Made);
    let seed = std::env::var("REJOIN_SEED").map_or(12, |seed| seed.parse().expect("a seed"));
    println!("REJOIN_SEED={seed}");
    let mut numbers = Numbers(seed);
    let mut below = |bound: usize| numbers.below(bound as u64) as usize;
    let (used, table) = (sample.used(), sample.header.table.position as usize);
    // The hashes behind the pages are for the next image alone.
    let pages = sample.header.hashes.position as usize;
    for round in 0..24 {
        // The header, the pages, the table.
        let places = [
            below(HEADER_LENGTH),
            HEADER_LENGTH + below(pages - HEADER_LENGTH),
            table + below(used - table),
        ];
        let at = places[round % 3];
        let mut bytes = sample.bytes.clone();
        bytes[at] ^= 1 << below(8);
        let found = sample.restart(&bytes);
        assert!(matches!(found, Answer::Refused(_)), "{at}: {found:?}");
        // A page that was not written, and one that was written to the wrong place.
        let [page, other] = [(); 2].map(|()| below(pages) / PAGE as usize * PAGE as usize);
        let length = PAGE as usize;
        for source in [
            vec![0; length],
            sample.bytes[other..other + length].to_vec(),
        ] {
            let mut bytes = sample.bytes.clone();
            bytes[page..page + length].copy_from_slice(&source);
            if bytes[..used] != sample.bytes[..used] {
                let found = sample.restart(&bytes);
                assert!(matches!(found, Answer::Refused(_)), "{page}: {found:?}");
            }
        }
    }
}

/// The compressed extents in an image's own file.
fn compressed(bytes: &[u8]) -> Vec<SavedExtent> {
    let page = bytes.first_chunk().expect("a page");
    let header = ImageHeader::decode(page, bytes.len() as u64).expect("a header");
    let (from, length) = (header.table.position as usize, header.table.length as usize);
    let table = SavedTable::new(&header, &bytes[from..from + length]).expect("a table");
    let extents = table.regions().flat_map(|region| table.extents_of(&region));
    extents
        .filter(|extent| extent.file == 0 && extent.block.is_some())
        .collect()
}

#[test]
fn a_compressed_image_that_is_altered_anywhere_makes_no_process() {
    let sample = Sample::with("compressed", "lz4");
    assert_eq!(sample.restart(&sample.bytes), Answer::Made);
    let extents = compressed(&sample.bytes);
    let mut numbers = Numbers(31);
    let mut below = |bound: usize| numbers.below(bound as u64) as usize;
    for _ in 0..12 {
        let extent = extents[below(extents.len())];
        let block = extent.block.expect("a block");
        let at = extent.position as usize + below(block.length as usize);
        let mut bytes = sample.bytes.clone();
        bytes[at] ^= 1 << below(8);
        let damaged = Answer::Refused(ImageError::MemoryDamaged(extent.address));
        assert_eq!(sample.restart(&bytes), damaged, "{at}");
    }
    // The later image has parts of the blocks of the first.
    let number = next(sample.header.identity.number);
    let first = sample.folder.join(&sample.name);
    std::fs::write(&first, &sample.bytes).expect("the first image");
    assert_eq!(sample.restart_at(&sample.later, number), Answer::Made);
    let mut damaged = sample.bytes.clone();
    for extent in extents {
        damaged[extent.position as usize + 9] ^= 1;
    }
    std::fs::write(&first, damaged).expect("a damaged image");
    let found = sample.restart_at(&sample.later, number);
    let is_named = matches!(found, Answer::Refused(ImageError::MemoryDamaged(_)));
    assert!(is_named, "{found:?}");
}

/// The whole files of rank 1, in the order of their checkpoints.
fn images_of_rank(folder: &str) -> Vec<PathBuf> {
    let within = |folder: &Path| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let jobs = within(Path::new(folder));
    let mut all: Vec<_> = jobs.iter().flat_map(|job| within(job)).collect();
    let is_image = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("rank-1.") && name.ends_with(".image")
    };
    all.retain(is_image);
    all.sort();
    all
}

#[test]
fn an_image_without_the_one_that_it_refers_to_makes_no_process() {
    let sample = Sample::new("later");
    let number = next(sample.header.identity.number);
    let first = sample.folder.join(&sample.name);
    let length = sample.later.len();
    assert!(length < sample.bytes.len(), "{length} bytes are new");
    let changed = Answer::Refused(ImageError::BaseChanged(1));
    assert_eq!(sample.restart_at(&sample.later, number), changed, "gone");
    std::fs::write(&first, &sample.bytes).expect("the first image");
    assert_eq!(sample.restart_at(&sample.later, number), Answer::Made);
    // An image of another time, and one that is cut off.
    let other = sample.with_header(|header| header.identity.incarnation += 1);
    for other in [&other[..], &sample.bytes[..sample.bytes.len() / 2]] {
        std::fs::write(&first, other).expect("another image");
        assert_eq!(sample.restart_at(&sample.later, number), changed);
    }
    // All of its pages.
    let mut damaged = sample.bytes.clone();
    let pages = HEADER_LENGTH..sample.header.hashes.position as usize;
    damaged[pages].iter_mut().for_each(|byte| *byte ^= 1);
    std::fs::write(&first, damaged).expect("a damaged image");
    let found = sample.restart_at(&sample.later, number);
    let is_named = matches!(found, Answer::Refused(ImageError::MemoryDamaged(_)));
    assert!(is_named, "{found:?}");
}

#[test]
fn an_image_of_another_length_makes_no_process() {
    let sample = Sample::new("torn");
    let whole = sample.bytes.len();
    let mut numbers = Numbers(7);
    let mut lengths = vec![0, 1, HEADER_LENGTH - 1, HEADER_LENGTH, sample.used() - 1];
    lengths.extend((0..8).map(|_| numbers.below(whole as u64) as usize));
    for length in lengths {
        let found = sample.restart(&sample.bytes[..length]);
        let is_named = matches!(
            found,
            Answer::Refused(ImageError::NotAnImage | ImageError::WrongLength(_))
        );
        assert!(is_named, "{length}: {found:?}");
    }
    let longer = [&sample.bytes[..], &[0; PAGE as usize]].concat();
    let length = longer.len() as u64;
    let refused = Answer::Refused(ImageError::WrongLength(length));
    assert_eq!(sample.restart(&longer), refused);
}

/// The image of the next checkpoint.
fn next(number: ImageNumber) -> ImageNumber {
    ImageNumber::of_checkpoint(number.epoch + 1)
}

#[test]
fn an_image_that_belongs_elsewhere_makes_no_process() {
    let sample = Sample::new("foreign");
    let identity = sample.header.identity;
    let job = sample.with_header(|header| header.identity.job ^= 1);
    let rank = sample.with_header(|header| header.identity.rank = 0);
    let later = sample.with_header(|header| {
        header.identity.number = next(header.identity.number);
    });
    let mut newer = sample.bytes.clone();
    newer[8] += 1;
    let version = u32::from(newer[8]);
    // No processor has all features of a register.
    let weaker = sample.with_header(|header| header.processor.words[3] = u32::MAX);
    for (bytes, error) in [
        (job, ImageError::OtherJob(identity.job ^ 1)),
        (rank, ImageError::OtherRank(0)),
        (later, ImageError::OtherImage(next(identity.number))),
        (newer, ImageError::Newer(version)),
        (weaker, ImageError::WeakerProcessor(3)),
    ] {
        assert_eq!(sample.restart(&bytes), Answer::Refused(error));
    }
    // A program that was built anew since.
    let program = std::fs::read(&sample.program).expect("the program");
    std::fs::write(&sample.program, program).expect("the program again");
    let found = sample.restart(&sample.bytes);
    let is_named = matches!(found, Answer::Refused(ImageError::FileChanged(_)));
    assert!(is_named, "{found:?}");
}
