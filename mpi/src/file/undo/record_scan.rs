//! Finds the whole records of a file of records.
//!
//! Ranks append to the file. One that is killed in the middle of that leaves a part of a record,
//! and others may follow behind it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::undo_record::{HEADER, MAGIC, MOST_KEPT, UndoRecord};

/// Bytes in which the beginning of a record is looked for at once.
const STEP: usize = 64 << 10;

/// A record, and where the file of records has the bytes that it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlacedRecord {
    /// The record.
    pub record: UndoRecord,
    /// Position of the first kept byte.
    pub at: u64,
}

/// The records of a file of `len` bytes, in their order. `read` fills a buffer from a position on.
///
/// # Errors
/// Those of `read`.
pub(super) fn scan(
    len: u64,
    mut read: impl FnMut(u64, &mut [u8]) -> io::Result<()>,
) -> io::Result<Vec<PlacedRecord>> {
    let (mut all, mut at) = (Vec::new(), 0);
    let mut buffer = vec![0; MOST_KEPT];
    while at + HEADER as u64 <= len {
        match record_at(at, len, &mut buffer, &mut read)? {
            Some(placed) => {
                at = placed.at + placed.record.kept;
                all.push(placed);
            }
            None => at = next_start(at + 1, len, &mut buffer[..STEP], &mut read)?,
        }
    }
    Ok(all)
}

/// Up to `most` records from a position on, and where the next one begins; `None` if the next one
/// is torn. What they keep is not read.
///
/// # Errors
/// The system's.
pub(super) fn headers(
    file: &File,
    mut at: u64,
    most: usize,
) -> io::Result<(Vec<UndoRecord>, Option<u64>)> {
    let (mut all, len) = (Vec::new(), file.metadata()?.len());
    while at < len && all.len() < most {
        let mut header = [0; HEADER];
        if at + HEADER as u64 > len {
            return Ok((all, None));
        }
        file.read_exact_at(&mut header, at)?;
        let behind = at + HEADER as u64;
        let Some(record) = UndoRecord::decode(&header).filter(|r| r.kept <= len - behind) else {
            return Ok((all, None));
        };
        at = behind + record.kept;
        all.push(record);
    }
    Ok((all, Some(at)))
}

/// The whole record at a position.
fn record_at(
    at: u64,
    len: u64,
    buffer: &mut [u8],
    read: &mut impl FnMut(u64, &mut [u8]) -> io::Result<()>,
) -> io::Result<Option<PlacedRecord>> {
    let mut header = [0; HEADER];
    read(at, &mut header)?;
    let behind = at + HEADER as u64;
    let record = UndoRecord::decode(&header);
    let Some(record) = record.filter(|record| record.kept <= len - behind) else {
        return Ok(None);
    };
    let kept = &mut buffer[..record.kept as usize];
    read(behind, kept)?;
    let placed = PlacedRecord { record, at: behind };
    Ok(UndoRecord::is_whole(&header, kept).then_some(placed))
}

/// Where the next record may begin, from `at` on.
fn next_start(
    mut at: u64,
    len: u64,
    buffer: &mut [u8],
    read: &mut impl FnMut(u64, &mut [u8]) -> io::Result<()>,
) -> io::Result<u64> {
    while at + HEADER as u64 <= len {
        let step = buffer.len().min((len - at) as usize);
        let part = &mut buffer[..step];
        read(at, part)?;
        let found = part.windows(MAGIC.len()).position(|eight| eight == MAGIC);
        if let Some(place) = found {
            return Ok(at + place as u64);
        }
        at += (step - MAGIC.len() + 1) as u64;
    }
    Ok(len)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::undo_record::FileChange;
    use super::*;

    fn scanned(bytes: &[u8]) -> Vec<PlacedRecord> {
        let read = |at: u64, to: &mut [u8]| {
            to.copy_from_slice(&bytes[at as usize..][..to.len()]);
            Ok(())
        };
        scan(bytes.len() as u64, read).expect("no error of the memory")
    }

    /// A record, and how much of it was written.
    fn part() -> impl Strategy<Value = (UndoRecord, Vec<u8>, usize)> {
        let kept = proptest::collection::vec(any::<u8>(), 0..300);
        (any::<[u64; 4]>(), any::<bool>(), kept, 0..800usize).prop_map(
            |([inode, offset, length, size], cuts, kept, written)| {
                let change = if cuts {
                    FileChange::Cut
                } else {
                    FileChange::Write
                };
                let record = UndoRecord {
                    change,
                    inode,
                    offset,
                    length,
                    kept: kept.len() as u64,
                    size,
                };
                (record, kept, written)
            },
        )
    }

    proptest! {
        #[test]
        fn whole_records_are_found_between_torn_ones(
            parts in proptest::collection::vec(part(), 0..8)
        ) {
            let (mut bytes, mut want, mut torn) = (Vec::new(), Vec::new(), Vec::new());
            for (record, kept, written) in parts {
                let encoded = record.encode(&kept);
                let start = bytes.len();
                bytes.extend(encoded.iter().take(written));
                if written >= encoded.len() {
                    let at = (start + HEADER) as u64;
                    want.push(PlacedRecord { record, at });
                } else {
                    torn.push((start, encoded));
                }
            }
            // The next part may begin with just the byte that a torn record lacks.
            let is_torn = |(start, all): &(usize, Vec<u8>)| !bytes[*start..].starts_with(all);
            prop_assume!(torn.iter().all(is_torn));
            prop_assert_eq!(scanned(&bytes), want);
        }
    }

    #[test]
    fn a_record_is_found_far_behind_a_torn_one_that_keeps_others() {
        let record = UndoRecord {
            change: FileChange::Write,
            inode: 1,
            offset: 2,
            length: 3,
            kept: 0,
            size: 4,
        };
        // Kept bytes are no records, whatever they look like.
        let inner = record.encode(&[]);
        let mut kept = vec![7; 3 * STEP];
        kept[..HEADER].copy_from_slice(&inner);
        let torn = record.encode(&kept);
        assert_eq!(scanned(&torn).len(), 1);
        let mut bytes = torn[..2 * STEP].to_vec();
        bytes[HEADER..2 * HEADER].fill(0);
        bytes.extend_from_slice(&inner);
        let found = scanned(&bytes);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].at, bytes.len() as u64);
    }
}
