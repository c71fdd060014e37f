//! The first page of a file.

use core::cmp::Ordering;

use crate::bytes::{RecordReader, RecordWriter};
use crate::error::ImageError;
use crate::image_number::ImageNumber;
use crate::processor::ProcessorFeatures;
use crate::records::TableCounts;
use crate::{HEADER_LENGTH, PAGE, PAGE_HASH_LENGTH, TABLE_LIMIT, VERSION, checksum};

const MAGIC: [u8; 8] = *b"RJIMAGE\0";
/// Where the header's own checksum is.
const SUM: core::ops::Range<usize> = 12..20;

/// Of which process, and which image of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageIdentity {
    /// The job.
    pub job: u64,
    /// Rollbacks of the job before.
    pub generation: u32,
    /// The image.
    pub number: ImageNumber,
    /// The rank.
    pub rank: u32,
    /// Incarnation of the rank that was saved.
    pub incarnation: u32,
    /// Ranks of the job.
    pub size: u32,
}

impl ImageIdentity {
    /// Length of the encoded identity in bytes.
    pub const LENGTH: usize = 32;

    /// For messages.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        self.put(&mut RecordWriter::new(&mut bytes));
        bytes
    }

    /// Reads [`ImageIdentity::encode`]'s bytes.
    #[must_use]
    pub fn decode(bytes: &[u8; Self::LENGTH]) -> Self {
        Self::take(&mut RecordReader::new(bytes))
    }

    fn put(&self, fields: &mut RecordWriter<'_>) {
        fields.long(self.job);
        for word in [
            self.generation,
            self.number.epoch,
            self.number.step,
            self.rank,
            self.incarnation,
            self.size,
        ] {
            fields.word(word);
        }
    }

    fn take(fields: &mut RecordReader<'_>) -> Self {
        Self {
            job: fields.long(),
            generation: fields.word(),
            number: ImageNumber {
                epoch: fields.word(),
                step: fields.word(),
            },
            rank: fields.word(),
            incarnation: fields.word(),
            size: fields.word(),
        }
    }

    /// Checks that this is the image of a rank with this number.
    ///
    /// # Errors
    /// [`ImageError::OtherJob`], [`ImageError::OtherRank`], [`ImageError::OtherImage`].
    pub fn check(&self, job: u64, rank: u32, number: ImageNumber) -> Result<(), ImageError> {
        if self.job != job {
            return Err(ImageError::OtherJob(self.job));
        }
        if self.rank != rank {
            return Err(ImageError::OtherRank(self.rank));
        }
        if self.number != number {
            return Err(ImageError::OtherImage(self.number));
        }
        Ok(())
    }
}

/// Where a process has its parts, for `prctl(PR_SET_MM_MAP)`: the first eleven fields of the
/// kernel's `prctl_mm_map`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryLayout {
    /// Start and end of code and data, start and end of the heap, start of the stack, start and end
    /// of the arguments and of the environment.
    pub addresses: [u64; 11],
}

/// Where the table is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TablePlace {
    /// Position in the file, a multiple of the page size.
    pub position: u64,
    /// Length in bytes.
    pub length: u64,
    /// Checksum of these bytes.
    pub checksum: u64,
    /// How many records it has.
    pub counts: TableCounts,
}

/// Where the hashes of all pages are, in the order of the extents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HashesPlace {
    /// Position in the file, a multiple of the page size.
    pub position: u64,
    /// How many there are.
    pub pages: u64,
    /// Checksum of their bytes.
    pub checksum: u64,
}

impl HashesPlace {
    /// Length in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.pages.saturating_mul(PAGE_HASH_LENGTH as u64)
    }
}

/// The header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageHeader {
    /// Of which process.
    pub identity: ImageIdentity,
    /// Build id of the library that wrote it; zeros where there is none.
    pub build: [u8; 32],
    /// Features that the process may use.
    pub processor: ProcessorFeatures,
    /// Release of the kernel, for people.
    pub kernel: [u8; 64],
    /// The process's layout.
    pub layout: MemoryLayout,
    /// The hashes of the pages.
    pub hashes: HashesPlace,
    /// The table.
    pub table: TablePlace,
    /// Length of the file in bytes.
    pub length: u64,
}

impl ImageHeader {
    /// The bytes of the first page.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_LENGTH] {
        let mut bytes = [0; HEADER_LENGTH];
        let mut fields = RecordWriter::new(&mut bytes);
        fields.put(&MAGIC);
        fields.word(VERSION);
        fields.long(0);
        self.identity.put(&mut fields);
        fields.put(&self.build);
        self.processor.words.iter().for_each(|w| fields.word(*w));
        fields.put(&self.kernel);
        self.layout.addresses.iter().for_each(|a| fields.long(*a));
        fields.long(self.hashes.position);
        fields.long(self.hashes.pages);
        fields.long(self.hashes.checksum);
        let TablePlace {
            position,
            length,
            checksum: sum,
            counts,
        } = self.table;
        fields.long(position);
        fields.long(length);
        fields.long(sum);
        for count in [
            counts.threads,
            counts.regions,
            counts.extents,
            counts.bases,
            counts.auxiliary,
        ] {
            fields.word(count);
        }
        fields.long(self.length);
        let sum = checksum(&bytes);
        bytes[SUM].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads the first page of a file of `length` bytes.
    ///
    /// # Errors
    /// The first reason why this is no header of such a file.
    pub fn decode(bytes: &[u8; HEADER_LENGTH], length: u64) -> Result<Self, ImageError> {
        let mut fields = RecordReader::new(bytes);
        if fields.take::<8>() != MAGIC {
            return Err(ImageError::NotAnImage);
        }
        let (version, sum) = (fields.word(), fields.long());
        // Its checksum may be another one.
        match version.cmp(&VERSION) {
            Ordering::Greater => return Err(ImageError::Newer(version)),
            Ordering::Less => return Err(ImageError::Older(version)),
            Ordering::Equal => {}
        }
        let mut unsummed = *bytes;
        unsummed[SUM].fill(0);
        if checksum(&unsummed) != sum {
            return Err(ImageError::HeaderDamaged);
        }
        let header = Self {
            identity: ImageIdentity::take(&mut fields),
            build: fields.take(),
            processor: ProcessorFeatures {
                words: core::array::from_fn(|_| fields.word()),
            },
            kernel: fields.take(),
            layout: MemoryLayout {
                addresses: core::array::from_fn(|_| fields.long()),
            },
            hashes: HashesPlace {
                position: fields.long(),
                pages: fields.long(),
                checksum: fields.long(),
            },
            table: TablePlace {
                position: fields.long(),
                length: fields.long(),
                checksum: fields.long(),
                counts: TableCounts {
                    threads: fields.word(),
                    regions: fields.word(),
                    extents: fields.word(),
                    bases: fields.word(),
                    auxiliary: fields.word(),
                },
            },
            length: fields.long(),
        };
        header.check_lengths(length)
    }

    /// The checksum that the first page of a file has of itself.
    #[must_use]
    pub fn checksum_in(bytes: &[u8; HEADER_LENGTH]) -> u64 {
        RecordReader::new(&bytes[SUM]).long()
    }

    fn check_lengths(self, length: u64) -> Result<Self, ImageError> {
        let TablePlace {
            position,
            length: table,
            ..
        } = self.table;
        if self.length != length {
            return Err(ImageError::WrongLength(length));
        }
        let end = position.checked_add(table);
        let fits = position.is_multiple_of(PAGE)
            && position >= HEADER_LENGTH as u64
            && table <= TABLE_LIMIT
            && end.is_some_and(|end| end <= length);
        let hashes = self.hashes.position.checked_add(self.hashes.length());
        let fits = fits
            && self.hashes.position.is_multiple_of(PAGE)
            && hashes.is_some_and(|end| end <= position);
        match fits {
            true => Ok(self),
            false => Err(ImageError::Malformed(1)),
        }
    }
}
