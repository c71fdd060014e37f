//! What is to be written back to a file, in which order, and how long it becomes.

use super::record_scan::PlacedRecord;
use super::undo_record::FileChange;

/// The records of one interval.
pub(super) struct IntervalRecords {
    /// A rollback took back what was done in it.
    pub is_stale: bool,
    /// In the order in which they were made, which is that of changes that ranks have ordered by
    /// messages.
    pub records: Vec<PlacedRecord>,
}

/// Bytes that are to be written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WriteBack {
    /// Which of the intervals has them.
    pub interval: usize,
    /// Where in the file of its records.
    pub at: u64,
    /// Where in the file.
    pub offset: u64,
    /// Number of the bytes.
    pub len: u64,
    /// How many zeros follow: the file ended before, and a write that counts made it longer.
    pub zeros: u64,
}

/// How a file becomes what it was.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UndoPlan {
    /// What is written back, in this order: the oldest record of a byte comes last.
    pub writes: Vec<WriteBack>,
    /// The length of the file before the first stale change.
    pub former: u64,
    /// The length of the file then.
    pub length: u64,
    /// The file was cut, so it may have to become longer.
    pub may_grow: bool,
}

/// The plan for the file of this number. `intervals` are in order of time. `None`: none of the
/// stale records is of this file.
///
/// Ranks take their images one after the other. So one rank may write in a stale interval before
/// another one writes in the interval before it, which counts: the file keeps at least what counts.
pub(super) fn plan(intervals: &[IntervalRecords], inode: u64) -> Option<UndoPlan> {
    let of_file = |interval: usize| {
        let records = intervals[interval].records.iter();
        records.filter(move |placed| placed.record.inode == inode)
    };
    let all = 0..intervals.len();
    let is_stale = |interval: &usize| intervals[*interval].is_stale;
    let stale = || all.clone().filter(is_stale);
    let mut former: Option<u64> = None;
    let mut may_grow = false;
    for placed in stale().flat_map(of_file) {
        if !may_grow {
            let size = placed.record.size;
            former = Some(former.map_or(size, |former| former.min(size)));
        }
        // What the file's length was after this says nothing of its length before.
        may_grow |= placed.record.change == FileChange::Cut;
    }
    let counted = all.clone().filter(|interval| !is_stale(interval));
    let counted = counted.flat_map(of_file).map(|placed| placed.record);
    let end = counted.fold(0, |end, record| match record.change {
        FileChange::Write => record.end().max(end),
        FileChange::Cut => record.offset,
    });
    let former = former?;
    let length = former.max(end);
    let back = |interval: usize| {
        of_file(interval).rev().map(move |placed| {
            let (record, at) = (placed.record, placed.at);
            let absent = record.offset + record.kept;
            WriteBack {
                interval,
                at,
                offset: record.offset,
                len: record.kept,
                zeros: record.end().min(length).saturating_sub(absent),
            }
        })
    };
    let writes = stale().rev().flat_map(back);
    Some(UndoPlan {
        writes: writes.filter(|w| w.len + w.zeros > 0).collect(),
        former,
        length,
        may_grow,
    })
}
