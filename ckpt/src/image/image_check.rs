//! Reads a file of an image as the restarter does, and makes no process of it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rejoin_image_format::{
    ExtentReader, HEADER_LENGTH, ImageError, ImageHeader, ImageIdentity, ImageNumber, PAGE,
    READER_BUFFER, SavedExtent, SavedRegion, SavedTable, checksum,
};

/// Nanoseconds of a second.
const SECOND: i64 = 1_000_000_000;

/// What the header of a file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageSummary {
    /// Of which process, at which checkpoint.
    pub identity: ImageIdentity,
    /// Build id of the library that wrote it, in hexadecimal digits; empty where there is none.
    pub build: String,
    /// Bytes of memory in the image, also of pages that are in earlier files.
    pub memory: u64,
    /// Earlier files that it refers to.
    pub bases: u32,
}

/// Why a file can't be restored from.
#[derive(Debug, thiserror::Error)]
pub enum BadImage {
    /// The system's reason.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// The restarter's reason.
    #[error(transparent)]
    Refused(#[from] ImageError),
    /// The file itself is whole, and an earlier one that it refers to is not.
    #[error("it builds on {name}, where {why}")]
    Base {
        /// Name of the earlier file.
        name: String,
        /// The restarter's reason.
        why: ImageError,
    },
}

/// Reads the header of a file.
///
/// # Errors
/// Why it is none.
pub fn summary(path: &Path) -> Result<ImageSummary, BadImage> {
    Ok(OpenImage::open(path)?.summary())
}

/// The earlier files that a file refers to.
///
/// # Errors
/// Why the file can't be read.
pub fn bases(path: &Path) -> Result<Vec<PathBuf>, BadImage> {
    let image = OpenImage::open(path)?;
    let bytes = image.table_bytes()?;
    let table = SavedTable::new(&image.header, &bytes)?;
    let names = table
        .bases()
        .map(|base| path_beside(path, table.base_name(&base)));
    Ok(names.collect())
}

/// Checks all of a file, and all pages in the files that it refers to. Returns the files that the
/// process had mapped and that are not the same on this machine: here it can't be restored.
///
/// # Errors
/// Why it is not the whole image of this rank of this job at this checkpoint.
pub fn check(
    path: &Path,
    job: u64,
    rank: u32,
    number: ImageNumber,
) -> Result<Vec<PathBuf>, BadImage> {
    let image = OpenImage::open(path)?;
    image.header.identity.check(job, rank, number)?;
    let bytes = image.table_bytes()?;
    let table = SavedTable::new(&image.header, &bytes)?;
    let threads = table.threads().count();
    if threads != 1 {
        return Err(ImageError::Threads(threads as u32).into());
    }
    image.check_hashes()?;
    let (mut files, mut names) = (vec![image], vec![String::new()]);
    for (number, base) in (1..).zip(table.bases()) {
        let path = path_beside(path, table.base_name(&base));
        let opened = OpenImage::open(&path).ok();
        let same =
            |file: &OpenImage| (file.header.length, file.checksum) == (base.length, base.checksum);
        let opened = opened.filter(same);
        files.push(opened.ok_or(ImageError::BaseChanged(number))?);
        names.push(
            path.file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
        );
    }
    let [mut stored, mut pages, mut room] = [(); 3].map(|()| vec![0; READER_BUFFER]);
    let mut reader = ExtentReader::new(&mut stored, &mut pages);
    for number in 0..table.extent_count() {
        let extent = table.extent(number).ok_or(ImageError::Malformed(12))?;
        let file = files
            .get(extent.file as usize)
            .ok_or(ImageError::Malformed(11))?;
        match file.check_extent(&extent, &mut reader, &mut room) {
            Err(BadImage::Refused(why)) if extent.file > 0 => {
                let name = names[extent.file as usize].clone();
                return Err(BadImage::Base { name, why });
            }
            checked => checked?,
        }
    }
    Ok(changed_files(&table))
}

/// The mapped files that are not as they were.
fn changed_files(table: &SavedTable<'_>) -> Vec<PathBuf> {
    let of =
        |region: &SavedRegion| PathBuf::from(std::ffi::OsStr::from_bytes(table.name_of(region)));
    let is_same = |region: &SavedRegion| {
        std::fs::metadata(of(region)).is_ok_and(|now| {
            let changed = now
                .mtime()
                .wrapping_mul(SECOND)
                .wrapping_add(now.mtime_nsec());
            (now.len(), changed.cast_unsigned()) == (region.file_length, region.changed)
        })
    };
    let mapped = table.regions().filter(|region| region.kind.has_file());
    let mut changed: Vec<_> = mapped
        .filter(|region| !is_same(region))
        .map(|r| of(&r))
        .collect();
    changed.dedup();
    changed
}

fn path_beside(path: &Path, name: &[u8]) -> PathBuf {
    path.with_file_name(std::ffi::OsStr::from_bytes(name))
}

/// A file with a whole header.
struct OpenImage {
    file: File,
    header: ImageHeader,
    /// The header's own checksum.
    checksum: u64,
}

impl OpenImage {
    fn open(path: &Path) -> Result<Self, BadImage> {
        let mut options = OpenOptions::new();
        // To open a pipe without a writer must not block.
        let file = options
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)?;
        let length = file.metadata()?.len();
        let mut page = [0; HEADER_LENGTH];
        if length < HEADER_LENGTH as u64 {
            return Err(ImageError::NotAnImage.into());
        }
        file.read_exact_at(&mut page, 0)?;
        Ok(Self {
            header: ImageHeader::decode(&page, length)?,
            checksum: ImageHeader::checksum_in(&page),
            file,
        })
    }

    fn summary(&self) -> ImageSummary {
        let build = &self.header.build;
        let end = build
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last + 1);
        ImageSummary {
            identity: self.header.identity,
            build: build[..end]
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect(),
            memory: self.header.hashes.pages.saturating_mul(PAGE),
            bases: self.header.table.counts.bases,
        }
    }

    /// The header has limited the length, which the file has.
    fn table_bytes(&self) -> io::Result<Vec<u8>> {
        let place = &self.header.table;
        let mut bytes = vec![0; place.length as usize];
        self.file.read_exact_at(&mut bytes, place.position)?;
        Ok(bytes)
    }

    /// The restarter does not read the hashes, and the next image does.
    fn check_hashes(&self) -> Result<(), BadImage> {
        let place = &self.header.hashes;
        // The file has so many bytes, as the header's check has shown.
        let mut bytes = vec![0; place.length() as usize];
        self.file.read_exact_at(&mut bytes, place.position)?;
        match checksum(&bytes) == place.checksum {
            true => Ok(()),
            false => Err(ImageError::TableDamaged.into()),
        }
    }

    fn check_extent(
        &self,
        extent: &SavedExtent,
        reader: &mut ExtentReader<'_>,
        room: &mut [u8],
    ) -> Result<(), BadImage> {
        let memory = room.get_mut(..extent.length() as usize);
        let memory = memory.ok_or(ImageError::Malformed(10))?;
        reader.fill(extent, memory, |room, position| {
            Ok(self.file.read_exact_at(room, position)?)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_image_format::{
        HashesPlace, MemoryLayout, PageHash, ProcessorFeatures, RegionKind, SavedBase, SavedThread,
        TableCounts, TablePlace, WORDS, checksum_of_pages,
    };

    const MEMORY: u64 = 0x7f00_0000_0000;
    const BEFORE: &str = "rank-3.epoch-1.image";

    fn identity(epoch: u32) -> ImageIdentity {
        ImageIdentity {
            job: 77,
            generation: 0,
            number: ImageNumber::of_checkpoint(epoch),
            rank: 3,
            incarnation: 0,
            size: 4,
        }
    }

    fn page(byte: u8) -> Vec<u8> {
        vec![byte; PAGE as usize]
    }

    /// The table of an image of two pages, of which the second may be in the file before it.
    fn table(base: Option<&SavedBase>) -> Vec<u8> {
        let extent = |number: u64, file| SavedExtent {
            address: MEMORY + number * PAGE,
            position: (number + 1) * PAGE,
            pages: 1,
            file,
            checksum: checksum_of_pages(&page(number as u8 + 1)),
            block: None,
        };
        // In the file before, it is the second page, too.
        let extents = [extent(0, 0), extent(1, u32::from(base.is_some()))];
        let region = SavedRegion {
            start: MEMORY,
            end: MEMORY + 4 * PAGE,
            kind: RegionKind::Memory,
            access: 7,
            advice: 0,
            offset: 0,
            file_length: 0,
            changed: 0,
            name: 0,
            name_length: 0,
            first_extent: 0,
            extents: 2,
        };
        let thread = SavedThread {
            stack: MEMORY + 64,
            entry: MEMORY + 16,
            ..SavedThread::default()
        };
        let mut bytes = [&thread.encode()[..], &region.encode()].concat();
        extents
            .iter()
            .for_each(|extent| bytes.extend(extent.encode()));
        base.iter().for_each(|base| bytes.extend(base.encode()));
        bytes.extend(base.map_or(&[][..], |_| BEFORE.as_bytes()));
        bytes
    }

    /// The bytes of such an image.
    fn image(epoch: u32, base: Option<&SavedBase>) -> Vec<u8> {
        let table = table(base);
        let hashes = [
            PageHash::of(&page(1)).encode(),
            PageHash::of(&page(2)).encode(),
        ]
        .concat();
        let mut pages = page(1);
        if base.is_none() {
            pages.extend(page(2));
        }
        let hashes_at = PAGE + pages.len() as u64;
        let table_at = hashes_at + PAGE;
        let header = ImageHeader {
            identity: identity(epoch),
            build: [0xab; 32],
            processor: ProcessorFeatures { words: [0; WORDS] },
            kernel: [0; 64],
            layout: MemoryLayout::default(),
            hashes: HashesPlace {
                position: hashes_at,
                pages: 2,
                checksum: checksum(&hashes),
            },
            table: TablePlace {
                position: table_at,
                length: table.len() as u64,
                checksum: checksum(&table),
                counts: TableCounts {
                    threads: 1,
                    regions: 1,
                    extents: 2,
                    bases: base.is_some().into(),
                    auxiliary: 0,
                },
            },
            length: table_at + table.len() as u64,
        };
        let mut bytes = [&header.encode()[..], &pages, &hashes].concat();
        bytes.resize(table_at as usize, 0);
        bytes.extend(table);
        bytes
    }

    #[test]
    fn each_altered_byte_that_counts_is_found_also_in_the_file_before() {
        let folder = std::env::temp_dir().join(format!("rejoin-check-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (before, later) = (folder.join(BEFORE), folder.join("rank-3.epoch-2.image"));
        let first = image(1, None);
        let base = SavedBase {
            length: first.len() as u64,
            checksum: ImageHeader::checksum_in(first.first_chunk().expect("a page")),
            name: 0,
            name_length: BEFORE.len() as u32,
        };
        let second = image(2, Some(&base));
        let put = |path: &Path, bytes: &[u8]| std::fs::write(path, bytes).expect("a file");
        put(&before, &first);
        put(&later, &second);
        assert!(
            check(&before, 77, 3, ImageNumber::of_checkpoint(1))
                .expect("whole")
                .is_empty()
        );
        let check_later = || check(&later, 77, 3, ImageNumber::of_checkpoint(2));
        assert!(check_later().expect("whole").is_empty());
        assert_eq!(
            bases(&later).expect("its table"),
            std::slice::from_ref(&before)
        );
        let summary = summary(&later).expect("its header");
        assert_eq!((summary.memory, summary.bases), (2 * PAGE, 1));
        assert_eq!((summary.identity, summary.build.len()), (identity(2), 64));
        assert!(matches!(
            check(&later, 77, 2, ImageNumber::of_checkpoint(2)),
            Err(BadImage::Refused(ImageError::OtherRank(3)))
        ));
        // In the header, in a page, in the hashes, in the table.
        let page = PAGE as usize;
        for at in [40, page + 7, 2 * page + 3, second.len() - 1] {
            let mut altered = second.clone();
            altered[at] ^= 1;
            put(&later, &altered);
            assert!(check_later().is_err(), "byte {at}");
        }
        put(&later, &second);
        let mut altered = first.clone();
        altered[2 * page + 9] ^= 1;
        put(&before, &altered);
        let damaged = check_later().expect_err("damaged").to_string();
        assert!(
            damaged.starts_with("it builds on rank-3.epoch-1.image, where "),
            "{damaged}"
        );
        std::fs::remove_file(&before).expect("removed");
        let gone = check_later();
        assert!(matches!(
            gone,
            Err(BadImage::Refused(ImageError::BaseChanged(1)))
        ));
        for length in [0, 100, page, second.len() - 1] {
            put(&later, &second[..length]);
            assert!(check_later().is_err(), "{length} bytes");
        }
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
