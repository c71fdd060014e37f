//! The file: head, data, sums. All numbers are little-endian.
//!
//! | part | bytes |
//! |---|---|
//! | magic, version, length of the head | 8, 4, 4 |
//! | job, rank, ranks of the job, generation, incarnation, epoch | 8, 4 × 5 |
//! | number of regions, length of the build's name, the name | 4, 4, … |
//! | per region: number, length | 4, 8 |
//! | the regions' bytes, in the order of their numbers | … |
//! | a sum for each chunk of 1 MiB (chunks do not go over regions) | 32 each |
//! | the sum of head and sums; the magic again | 32, 8 |
//!
//! Sums are BLAKE3.

use serde::{Deserialize, Serialize};

const MAGIC: [u8; 8] = *b"RJREGION";
/// The format's version.
pub(super) const VERSION: u32 = 1;
/// Bytes that have a sum of their own.
pub(super) const CHUNK: usize = 1 << 20;
/// Length of a sum, in bytes.
const SUM: usize = blake3::OUT_LEN;
/// Most regions of a process.
pub const REGION_LIMIT: usize = 1 << 16;
const BUILD_LIMIT: usize = 255;
/// The head up to the build's name.
const FIXED: usize = 8 + 4 + 4 + 8 + 5 * 4 + 4 + 4;

/// Whose state a file holds, and from when.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag {
    /// The job.
    pub job: u64,
    /// The rank.
    pub rank: u32,
    /// How many ranks the job has.
    pub size: u32,
    /// Rollbacks of the job before it.
    pub generation: u32,
    /// Restores of the rank before it.
    pub incarnation: u32,
    /// The checkpoint's number.
    pub epoch: u32,
    /// The library that wrote it; at most 255 bytes. For the user, not compared.
    pub build: String,
}

/// The head of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileHead {
    pub tag: Tag,
    /// Number and length of each region, by number.
    pub table: Vec<(u32, u64)>,
}

impl FileHead {
    /// `None` for a build's name that is too long.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let (tag, build) = (&self.tag, self.tag.build.as_bytes());
        if build.len() > BUILD_LIMIT {
            return None;
        }
        let length = FIXED + build.len() + self.table.len() * 12;
        let mut bytes = Vec::with_capacity(length);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((length as u32).to_le_bytes());
        bytes.extend(tag.job.to_le_bytes());
        for number in [
            tag.rank,
            tag.size,
            tag.generation,
            tag.incarnation,
            tag.epoch,
        ] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend((self.table.len() as u32).to_le_bytes());
        bytes.extend((build.len() as u32).to_le_bytes());
        bytes.extend(build);
        for (id, length) in &self.table {
            bytes.extend(id.to_le_bytes());
            bytes.extend(length.to_le_bytes());
        }
        Some(bytes)
    }

    /// Length of a head that begins so, and its version; `None` when it is none.
    pub fn length(begin: &[u8; 16]) -> Option<(u32, usize)> {
        let mut reader = Reader(begin);
        let magic = reader.take(8)?;
        let (version, length) = (reader.number()?, reader.number()? as usize);
        let most = FIXED + BUILD_LIMIT + REGION_LIMIT * 12;
        (magic == MAGIC && (FIXED..=most).contains(&length)).then_some((version, length))
    }

    /// A head of the length that it says.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes.get(16..)?);
        let job = reader.long()?;
        let mut next = || reader.number();
        let (rank, size, generation, incarnation, epoch) =
            (next()?, next()?, next()?, next()?, next()?);
        let (count, length) = (next()? as usize, next()? as usize);
        if count > REGION_LIMIT || length > BUILD_LIMIT {
            return None;
        }
        let build = String::from_utf8(reader.take(length)?.to_vec()).ok()?;
        if reader.0.len() != count * 12 {
            return None;
        }
        let mut table = Vec::with_capacity(count);
        for _ in 0..count {
            table.push((reader.number()?, reader.long()?));
        }
        Some(Self {
            tag: Tag {
                job,
                rank,
                size,
                generation,
                incarnation,
                epoch,
                build,
            },
            table,
        })
    }

    /// Bytes of data and number of chunks; `None` when they cannot be counted.
    pub fn extent(&self) -> Option<(u64, u64)> {
        self.table
            .iter()
            .try_fold((0u64, 0u64), |(bytes, chunks), (_, length)| {
                Some((
                    bytes.checked_add(*length)?,
                    chunks + length.div_ceil(CHUNK as u64),
                ))
            })
    }
}

/// Length of the part after the data.
pub(super) fn end_length(chunks: u64) -> Option<u64> {
    chunks
        .checked_mul(SUM as u64)?
        .checked_add((SUM + MAGIC.len()) as u64)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (part, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(part)
    }

    fn number(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn long(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }
}

/// The sums of a file, as its data goes by.
pub(super) struct Sums {
    all: Vec<u8>,
    root: blake3::Hasher,
}

/// The sum of everything.
pub(super) type Root = blake3::Hash;

impl Sums {
    pub fn new(head: &[u8]) -> Self {
        let mut root = blake3::Hasher::new();
        root.update(head);
        Self {
            all: Vec::new(),
            root,
        }
    }

    /// The next chunk; its sum.
    pub fn add(&mut self, chunk: &[u8]) -> blake3::Hash {
        let sum = blake3::hash(chunk);
        self.all.extend(sum.as_bytes());
        self.root.update(sum.as_bytes());
        sum
    }

    pub fn root(&self) -> Root {
        self.root.finalize()
    }

    /// The part after the data.
    pub fn encode(self) -> Vec<u8> {
        let root = self.root();
        let mut bytes = self.all;
        bytes.extend(root.as_bytes());
        bytes.extend(MAGIC);
        bytes
    }
}

/// `rank-000003-epoch-0000000012.rejoin`.
pub(super) fn file_name(rank: u32, epoch: u32) -> String {
    format!("rank-{rank:06}-epoch-{epoch:010}.rejoin")
}

/// Rank and epoch of a file's name.
pub(super) fn read_name(name: &str) -> Option<(u32, u32)> {
    let rest = name.strip_prefix("rank-")?.strip_suffix(".rejoin")?;
    let (rank, epoch) = rest.split_once("-epoch-")?;
    let (rank, epoch) = (rank.parse().ok()?, epoch.parse().ok()?);
    (file_name(rank, epoch) == name).then_some((rank, epoch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_round_trip() {
        let tag = Tag {
            job: 7,
            rank: 3,
            size: 4,
            epoch: 9,
            build: "x1".to_owned(),
            ..Tag::default()
        };
        let head = FileHead {
            tag,
            table: vec![(1, 10), (5, 3 << 20)],
        };
        let bytes = head.encode().expect("a head");
        let begin = bytes[..16].try_into().expect("16 bytes");
        assert_eq!(FileHead::length(begin), Some((VERSION, bytes.len())));
        assert_eq!(FileHead::decode(&bytes), Some(head.clone()));
        assert_eq!(head.extent(), Some((10 + (3 << 20), 4)));
        for length in 0..bytes.len() {
            assert_eq!(FileHead::decode(&bytes[..length]), None);
        }
    }

    #[test]
    fn forged_lengths_are_refused() {
        let table = vec![(1, u64::MAX), (2, 2)];
        let head = FileHead {
            tag: Tag::default(),
            table,
        };
        assert_eq!(head.extent(), None);
        assert_eq!(end_length(u64::MAX), None);
        let mut begin = [0; 16];
        begin[..8].copy_from_slice(&MAGIC);
        begin[12..].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(FileHead::length(&begin), None);
        let long = Tag {
            build: "x".repeat(256),
            ..Tag::default()
        };
        assert_eq!(
            FileHead {
                tag: long,
                table: Vec::new()
            }
            .encode(),
            None
        );
    }

    #[test]
    fn names_are_exact() {
        assert_eq!(read_name(&file_name(3, 12)), Some((3, 12)));
        for name in [
            "rank-3-epoch-12.rejoin",
            "rank-000003-epoch-0000000012.draft",
            "x",
            "",
        ] {
            assert_eq!(read_name(name), None, "{name}");
        }
    }
}
