//! The records of a table.

use crate::bytes::{RecordReader, RecordWriter};
use crate::{CompressedBlock, PAGE};

/// Length of a [`SavedThread`] in bytes.
pub const THREAD_LENGTH: usize = 32;
/// Length of a [`SavedRegion`] in bytes.
pub const REGION_LENGTH: usize = 64;
/// Length of a [`SavedExtent`] in bytes.
pub const EXTENT_LENGTH: usize = 48;
/// Length of a [`SavedBase`] in bytes.
pub const BASE_LENGTH: usize = 24;

/// How many records a table has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableCounts {
    /// Threads.
    pub threads: u32,
    /// Regions.
    pub regions: u32,
    /// Extents.
    pub extents: u32,
    /// Other files that extents are in.
    pub bases: u32,
    /// Words of 8 bytes of the auxiliary vector.
    pub auxiliary: u32,
}

impl TableCounts {
    /// Lengths in bytes of the threads, regions, extents, bases and the auxiliary vector.
    pub(crate) fn lengths(&self) -> [u64; 5] {
        [
            u64::from(self.threads) * THREAD_LENGTH as u64,
            u64::from(self.regions) * REGION_LENGTH as u64,
            u64::from(self.extents) * EXTENT_LENGTH as u64,
            u64::from(self.bases) * BASE_LENGTH as u64,
            u64::from(self.auxiliary) * 8,
        ]
    }
}

/// A thread: where it continues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SavedThread {
    /// Stack pointer of the thread, to the saved registers.
    pub stack: u64,
    /// Address of the code that takes them from there.
    pub entry: u64,
    /// Base of the `fs` segment: the thread's own data.
    pub fs: u64,
    /// Base of the `gs` segment.
    pub gs: u64,
}

impl SavedThread {
    /// The record.
    #[must_use]
    pub fn encode(&self) -> [u8; THREAD_LENGTH] {
        let mut bytes = [0; THREAD_LENGTH];
        let mut fields = RecordWriter::new(&mut bytes);
        for value in [self.stack, self.entry, self.fs, self.gs] {
            fields.long(value);
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let mut fields = RecordReader::new(bytes);
        Self {
            stack: fields.long(),
            entry: fields.long(),
            fs: fields.long(),
            gs: fields.long(),
        }
    }
}

/// How a region is made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegionKind {
    /// Memory without a file.
    Memory,
    /// Memory without a file whose pages the kernel may drop at any time. None of them are saved.
    Droppable,
    /// A stack, which grows downwards.
    Stack,
    /// A private mapping of a file.
    PrivateFile,
    /// A shared mapping of a file, which is read only.
    SharedFile,
    /// Room that is kept free, without access.
    Reserved,
    /// A mapping of the kernel's (vDSO and its data), which is moved here.
    Kernel,
}

impl RegionKind {
    /// Whether it maps a file.
    #[must_use]
    pub fn has_file(self) -> bool {
        matches!(self, Self::PrivateFile | Self::SharedFile)
    }

    /// Whether it may have extents.
    #[must_use]
    pub fn has_extents(self) -> bool {
        matches!(self, Self::Memory | Self::Stack | Self::PrivateFile)
    }
}

const KINDS: [RegionKind; 7] = [
    RegionKind::Memory,
    RegionKind::Droppable,
    RegionKind::Stack,
    RegionKind::PrivateFile,
    RegionKind::SharedFile,
    RegionKind::Reserved,
    RegionKind::Kernel,
];

/// Advice about the memory of a region, and the kernel's flag for it (`VmFlags` in `smaps`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionAdvice {
    /// Two letters.
    pub flag: &'static [u8],
    /// The number for `madvise`.
    pub number: u64,
}

impl RegionAdvice {
    /// Every advice; a region has the bits of its own, in this order.
    pub const ALL: [Self; 6] = [
        Self::new(b"hg", 14),
        Self::new(b"nh", 15),
        Self::new(b"dd", 16),
        Self::new(b"sr", 2),
        Self::new(b"rr", 1),
        Self::new(b"mg", 12),
    ];

    const fn new(flag: &'static [u8], number: u64) -> Self {
        Self { flag, number }
    }
}

/// A mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavedRegion {
    /// First address.
    pub start: u64,
    /// The address after the last.
    pub end: u64,
    /// How it is made again.
    pub kind: RegionKind,
    /// Access: 1 read, 2 write, 4 execute.
    pub access: u8,
    /// Bits of [`RegionAdvice::ALL`], from the lowest on.
    pub advice: u8,
    /// Position in the file, in bytes.
    pub offset: u64,
    /// Length of the file in bytes.
    pub file_length: u64,
    /// When the file was last changed, in nanoseconds since 1970.
    pub changed: u64,
    /// Where the path is among the names.
    pub name: u32,
    /// Length of the path in bytes.
    pub name_length: u32,
    /// Number of its first extent.
    pub first_extent: u32,
    /// How many extents it has.
    pub extents: u32,
}

impl SavedRegion {
    /// The record.
    #[must_use]
    pub fn encode(&self) -> [u8; REGION_LENGTH] {
        let mut bytes = [0; REGION_LENGTH];
        let mut fields = RecordWriter::new(&mut bytes);
        for value in [
            self.start,
            self.end,
            self.offset,
            self.file_length,
            self.changed,
        ] {
            fields.long(value);
        }
        let kind = KINDS.iter().position(|kind| *kind == self.kind);
        let [access, advice] = [self.access, self.advice].map(u32::from);
        fields.word(kind.unwrap_or_default() as u32 | access << 8 | advice << 16);
        for value in [self.name, self.name_length, self.first_extent, self.extents] {
            fields.word(value);
        }
        bytes
    }

    /// `None` for an unknown kind, access or advice.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = RecordReader::new(bytes);
        let [start, end, offset, file_length, changed] = core::array::from_fn(|_| fields.long());
        let flags = fields.word();
        let region = Self {
            start,
            end,
            offset,
            file_length,
            changed,
            kind: *KINDS.get((flags & 0xff) as usize)?,
            access: Some((flags >> 8) as u8).filter(|access| *access < 8)?,
            advice: u8::try_from(flags >> 16)
                .ok()
                .filter(|advice| advice >> RegionAdvice::ALL.len() == 0)?,
            name: fields.word(),
            name_length: fields.word(),
            first_extent: fields.word(),
            extents: fields.word(),
        };
        Some(region)
    }

    /// Length in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.end - self.start
    }
}

/// Pages whose contents are in a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SavedExtent {
    /// Address of the first page.
    pub address: u64,
    /// Position in the file.
    pub position: u64,
    /// How many pages.
    pub pages: u32,
    /// The file: 0 is the image's own, and the others are its bases, counted from 1.
    pub file: u32,
    /// Checksum of the contents ([`crate::checksum_of_pages`]).
    pub checksum: u64,
    /// The block at this position that has the pages; `None`: they are there as they are.
    pub block: Option<CompressedBlock>,
}

impl SavedExtent {
    /// The record.
    #[must_use]
    pub fn encode(&self) -> [u8; EXTENT_LENGTH] {
        let mut bytes = [0; EXTENT_LENGTH];
        let mut fields = RecordWriter::new(&mut bytes);
        fields.long(self.address);
        fields.long(self.position);
        fields.word(self.pages);
        fields.word(self.file);
        fields.long(self.checksum);
        self.block.unwrap_or_default().put(&mut fields);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let mut fields = RecordReader::new(bytes);
        Self {
            address: fields.long(),
            position: fields.long(),
            pages: fields.word(),
            file: fields.word(),
            checksum: fields.long(),
            block: Some(CompressedBlock::take(&mut fields))
                .filter(|block| *block != CompressedBlock::default()),
        }
    }

    /// Length in memory in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        u64::from(self.pages) * PAGE
    }

    /// Length in the file in bytes: of the whole block, if the pages are compressed.
    #[must_use]
    pub fn stored_length(&self) -> u64 {
        self.block.map_or(self.length(), |b| b.stored_length())
    }
}

/// An earlier image of the rank in the same folder, which has pages that did not change since.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SavedBase {
    /// Length of its file in bytes.
    pub length: u64,
    /// Checksum in its header ([`crate::ImageHeader::checksum_in`]): another file of the name has
    /// another one.
    pub checksum: u64,
    /// Where its name is among the names.
    pub name: u32,
    /// Length of the name in bytes.
    pub name_length: u32,
}

impl SavedBase {
    /// The record.
    #[must_use]
    pub fn encode(&self) -> [u8; BASE_LENGTH] {
        let mut bytes = [0; BASE_LENGTH];
        let mut fields = RecordWriter::new(&mut bytes);
        fields.long(self.length);
        fields.long(self.checksum);
        fields.word(self.name);
        fields.word(self.name_length);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let mut fields = RecordReader::new(bytes);
        Self {
            length: fields.long(),
            checksum: fields.long(),
            name: fields.word(),
            name_length: fields.word(),
        }
    }
}
