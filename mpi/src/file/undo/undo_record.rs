//! One record: a change of a file that is about to be made, and the bytes that it destroys.

use xxhash_rust::xxh3::Xxh3;

/// Bytes of a record before those that it keeps.
pub(super) const HEADER: usize = 64;

/// Most bytes that one record keeps. They are read and written while the cache has them.
pub(super) const MOST_KEPT: usize = 256 << 10;

/// The first bytes of a record.
pub(super) const MAGIC: [u8; 8] = *b"\x89undo\r\n\x01";

/// What is done to the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileChange {
    /// `length` bytes are written at `offset`.
    Write,
    /// The file is cut to `offset` bytes.
    Cut,
}

/// A change of a file. All numbers are bytes, but that of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UndoRecord {
    /// What is done.
    pub change: FileChange,
    /// Number of the file in its file system.
    pub inode: u64,
    /// Where the change begins.
    pub offset: u64,
    /// How much is written.
    pub length: u64,
    /// How many bytes from `offset` on were there, and follow the header.
    pub kept: u64,
    /// Length of the file before.
    pub size: u64,
}

impl UndoRecord {
    /// The record, with the bytes that it keeps.
    pub fn encode(&self, kept: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        bytes.extend_from_slice(kept);
        self.encode_before(&mut bytes);
        bytes
    }

    /// Writes the header before the bytes that it keeps, which begin at [`HEADER`].
    pub fn encode_before(&self, bytes: &mut [u8]) {
        let (header, kept) = bytes.split_at_mut(HEADER);
        let change = match self.change {
            FileChange::Write => 1,
            FileChange::Cut => 2,
        };
        let words = [
            u64::from_le_bytes(MAGIC),
            change,
            self.inode,
            self.offset,
            self.length,
            kept.len() as u64,
            self.size,
        ];
        let (said, sum) = header.split_at_mut(HEADER - 8);
        for (place, word) in said.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        sum.copy_from_slice(&checksum(said, kept).to_le_bytes());
    }

    /// The record that has this header; `None` if there is none, or if it keeps more than a record
    /// can. The bytes that it keeps are to be checked by [`UndoRecord::is_whole`].
    pub fn decode(header: &[u8; HEADER]) -> Option<Self> {
        let (words, _) = header.as_chunks::<8>();
        let word = |i: usize| u64::from_le_bytes(words[i]);
        let change = match word(1) {
            1 => FileChange::Write,
            2 => FileChange::Cut,
            _ => return None,
        };
        let record = Self {
            change,
            inode: word(2),
            offset: word(3),
            length: word(4),
            kept: word(5),
            size: word(6),
        };
        (words[0] == MAGIC && record.kept <= MOST_KEPT as u64).then_some(record)
    }

    /// Whether header and kept bytes were written as a whole.
    pub fn is_whole(header: &[u8; HEADER], kept: &[u8]) -> bool {
        let (said, sum) = header.split_at(HEADER - 8);
        checksum(said, kept).to_le_bytes() == sum
    }

    /// Where the written bytes end.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}

fn checksum(header: &[u8], kept: &[u8]) -> u64 {
    let mut hasher = Xxh3::new();
    hasher.update(header);
    hasher.update(kept);
    hasher.digest()
}
