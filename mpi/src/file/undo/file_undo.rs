//! Records changes of an open file before they are made, and undoes those that a rollback took
//! back.

use std::cell::{Cell, RefCell, RefMut};
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rejoin_channel_table::Generation;

use super::covered_ranges::CoveredRanges;
use super::file_interval::FileInterval;
use super::former_length::FormerLength;
use super::job_rollbacks::JobRollbacks;
use super::undo_folder::{AppendMode, UndoFolder};
use super::undo_plan::{IntervalRecords, UndoPlan, plan};
use super::undo_record::{FileChange, HEADER, MOST_KEPT, UndoRecord};
use crate::error::{Error, ErrorClass, Result};
use crate::file::range_lock::{LockKind, RangeLock};
use crate::file::system_failure::failure;

/// The byte that a rank locks while it undoes changes. No file reaches there.
const UNDO_LOCK: Range<i64> = i64::MAX - 1..i64::MAX;

/// The records of one open file.
pub(in crate::file) struct FileUndo {
    job: Rc<dyn JobRollbacks>,
    folder: UndoFolder,
    path: PathBuf,
    inode: u64,
    append: AppendMode,
    /// The generation whose rollback is undone; unset: none yet.
    settled: Cell<Option<Generation>>,
    present: RefCell<PresentInterval>,
}

/// What this rank has recorded since its last image.
#[derive(Default)]
struct PresentInterval {
    interval: FileInterval,
    /// There is a file of records.
    is_begun: bool,
    covered: CoveredRanges,
    former: FormerLength,
    /// Bytes in records of this rank.
    bytes: u64,
    /// Room for a record.
    buffer: Vec<u8>,
    has_asked: bool,
}

impl std::fmt::Debug for FileUndo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FileUndo({})", self.folder.path().display())
    }
}

impl FileUndo {
    /// The records of the file that is open at this path.
    pub fn new(job: Rc<dyn JobRollbacks>, path: &Path, inode: u64, append: AppendMode) -> Self {
        Self {
            folder: UndoFolder::new(path, job.id()),
            job,
            path: path.to_owned(),
            inode,
            append,
            settled: Cell::new(None),
            present: RefCell::default(),
        }
    }

    /// Undoes what a rollback took back, before this rank does anything with the file. All
    /// processes from before the rollback have been stopped: no rank runs earlier. `file` is open
    /// for writing if `is_writable`.
    ///
    /// # Errors
    /// The class of what the system says.
    #[inline]
    pub fn settle(&self, file: &File, is_writable: bool) -> Result<()> {
        let present = Some(self.job.interval().generation);
        if self.settled.get() == present {
            return Ok(());
        }
        self.undo(file, is_writable)?;
        self.settled.set(present);
        Ok(())
    }

    #[cold]
    fn undo(&self, file: &File, is_writable: bool) -> Result<()> {
        let rollbacks = self.job.rollbacks();
        let stale = || -> Result<Vec<FileInterval>> {
            let mut all = self.folder.intervals().map_err(|e| self.failed(&e))?;
            all.retain(|interval| interval.is_stale(&rollbacks));
            Ok(all)
        };
        if rollbacks.is_empty() || stale()?.is_empty() {
            return Ok(());
        }
        self.job.has_records_in(self.folder.path());
        let other;
        let file = match is_writable {
            true => file,
            false => {
                let opened = OpenOptions::new().write(true).open(&self.path);
                other = opened.map_err(|e| self.failed(&e))?;
                &other
            }
        };
        let lock = RangeLock::take(file, UNDO_LOCK, LockKind::Exclusive);
        let _lock = lock.map_err(|e| self.failed(&e))?;
        // Another rank may have undone them meanwhile.
        let stale = stale()?;
        self.write_back(file, &stale).map_err(|e| self.failed(&e))
    }

    fn failed(&self, error: &io::Error) -> Error {
        failure("undo what a rollback took back of", &self.path, error)
    }

    /// Makes the file what it was before these intervals.
    fn write_back(&self, file: &File, stale: &[FileInterval]) -> io::Result<()> {
        let (mut files, mut records, mut last) = (Vec::new(), Vec::new(), None);
        for interval in self.folder.intervals()? {
            let (file, found) = self.folder.records(interval)?;
            let is_stale = stale.contains(&interval);
            records.push(IntervalRecords {
                is_stale,
                records: found,
            });
            files.push(file);
            last = Some(interval).filter(|_| !is_stale).or(last);
        }
        let inode = file.metadata()?.ino();
        if let Some(plan) = plan(&records, inode) {
            carry_out(&plan, &files, file)?;
            // The records go only when the former bytes are where they outlive this host.
            file.sync_data()?;
            // A later rollback may go back further. Records from before may have seen the length
            // that a stale change had made.
            if let Some(last) = last {
                let seen = UndoRecord {
                    change: FileChange::Write,
                    inode,
                    offset: 0,
                    length: 0,
                    kept: 0,
                    size: plan.former,
                };
                self.folder.append(last, &seen.encode(&[]), self.append)?;
            }
        }
        // The oldest one last: a rank that is killed meanwhile leaves what counts.
        stale
            .iter()
            .rev()
            .try_for_each(|one| self.folder.remove(*one))
    }

    /// Records that `len` bytes are about to be written at a position. `file` can be read.
    ///
    /// # Errors
    /// `NoSpace` beyond the limit; the class of what the system says.
    pub fn before_write(&self, file: &File, at: u64, len: u64) -> Result<()> {
        let range = at..at.saturating_add(len);
        let mut present = self.enter();
        if len == 0 || present.covered.contains(&range) {
            return Ok(());
        }
        let size = self.size(file)?;
        self.record(file, &mut present, range.clone(), size)?;
        present.covered.insert(range);
        Ok(())
    }

    /// Records that the file is about to get this size.
    ///
    /// # Errors
    /// Those of [`FileUndo::before_write`].
    pub fn before_resize(&self, file: &File, to: u64) -> Result<()> {
        let size = self.size(file)?;
        let mut present = self.enter();
        if to == size {
            return Ok(());
        }
        if to > size {
            return self.record(file, &mut present, size..to, size);
        }
        self.learn_of_others(&mut present)
            .map_err(|e| self.unrecorded(&e))?;
        for gap in present.covered.gaps(to..size) {
            self.record(file, &mut present, gap, size)?;
        }
        let cut = UndoRecord {
            change: FileChange::Cut,
            inode: self.inode,
            offset: to,
            length: 0,
            kept: 0,
            size,
        };
        self.append(&mut present, &cut.encode(&[]))
    }

    /// Bytes that other ranks have recorded in the interval need no second record. All that is cut
    /// off would be one.
    fn learn_of_others(&self, present: &mut PresentInterval) -> io::Result<()> {
        if !self.folder.intervals()?.contains(&present.interval) {
            return Ok(());
        }
        for placed in self.folder.records(present.interval)?.1 {
            let record = placed.record;
            if record.inode != self.inode {
                continue;
            }
            match record.change {
                FileChange::Write => present.covered.insert(record.offset..record.end()),
                FileChange::Cut => present.covered.cut(record.offset),
            }
        }
        Ok(())
    }

    /// All ranks know that the file has this size.
    pub fn resized(&self, to: u64) {
        self.present.borrow_mut().covered.cut(to);
    }

    fn size(&self, file: &File) -> Result<u64> {
        let status = file.metadata();
        let status = status.map_err(|e| failure("get the size of", &self.path, &e))?;
        Ok(status.len())
    }

    /// What is recorded in the interval that the rank is in.
    fn enter(&self) -> RefMut<'_, PresentInterval> {
        let interval = self.job.interval();
        let mut present = self.present.borrow_mut();
        if present.interval != interval {
            *present = PresentInterval {
                interval,
                ..PresentInterval::default()
            };
        }
        present
    }

    /// Makes the records of bytes that are written to this range, or cut off.
    fn record(
        &self,
        file: &File,
        present: &mut PresentInterval,
        range: Range<u64>,
        size: u64,
    ) -> Result<()> {
        let former = self.former_length(present, range.end);
        let end = former
            .map_err(|e| self.unrecorded(&e))?
            .min(size)
            .min(range.end);
        self.check_limit(present, end.saturating_sub(range.start))?;
        let mut at = range.start;
        loop {
            let left = end.saturating_sub(at);
            let most = HEADER + left.min(MOST_KEPT as u64) as usize;
            let mut bytes = std::mem::take(&mut present.buffer);
            if bytes.len() < most {
                bytes.resize(most, 0);
            }
            let read = read_up_to(file, &mut bytes[HEADER..most], at);
            let read = read.map_err(|e| self.unrecorded(&e))?;
            // The last record also says where the change ends.
            let is_last = left <= MOST_KEPT as u64 || read == 0;
            let next = if is_last { range.end } else { at + read as u64 };
            let record = UndoRecord {
                change: FileChange::Write,
                inode: self.inode,
                offset: at,
                length: next - at,
                kept: read as u64,
                size,
            };
            record.encode_before(&mut bytes[..HEADER + read]);
            self.append(present, &bytes[..HEADER + read])?;
            present.buffer = bytes;
            if is_last {
                return Ok(());
            }
            at = next;
        }
    }

    /// Bytes of the file from here on need no record of what they were. The range ends at `end`.
    fn former_length(&self, present: &mut PresentInterval, end: u64) -> io::Result<u64> {
        let (interval, inode) = (present.interval, self.inode);
        // The first record of the interval has nothing to go by.
        if !present.is_begun && !self.folder.intervals()?.contains(&interval) {
            return Ok(end);
        }
        let known = present.former.of(&self.folder, interval, inode)?;
        Ok(known.unwrap_or(end))
    }

    fn append(&self, present: &mut PresentInterval, record: &[u8]) -> Result<()> {
        let begun = match present.is_begun {
            true => Ok(()),
            false => self.begin(present.interval),
        };
        let appended = begun.and_then(|()| {
            present.is_begun = true;
            self.folder.append(present.interval, record, self.append)
        });
        appended.map_err(|e| self.unrecorded(&e))?;
        present.bytes += record.len() as u64;
        Ok(())
    }

    fn unrecorded(&self, error: &io::Error) -> Error {
        failure("record a change of", &self.path, error)
    }

    /// Begins the file of an interval's records. The first rank also removes older ones.
    fn begin(&self, interval: FileInterval) -> io::Result<()> {
        self.job.has_records_in(self.folder.path());
        match self.folder.make(interval)? {
            true => self.folder.prune(self.job.horizon()),
            false => Ok(()),
        }
    }

    /// Half of the limit is a reason for a checkpoint, after which records begin anew.
    fn check_limit(&self, present: &mut PresentInterval, kept: u64) -> Result<()> {
        let limit = self.job.limit();
        let bytes = present.bytes.saturating_add(kept + HEADER as u64);
        if bytes > limit {
            let text = format!(
                "can't record what a change of {} destroys: that would be {bytes} bytes since the \
                 rank's last checkpoint, and REJOIN_FILE_UNDO_LIMIT is {limit}; raise the limit, \
                 take checkpoints more often (--checkpoint-interval), or run with --recovery none",
                self.path.display()
            );
            return Err(Error::new(ErrorClass::NoSpace, text));
        }
        if bytes > limit / 2 && !present.has_asked {
            present.has_asked = true;
            self.job.ask_for_checkpoint()?;
        }
        Ok(())
    }
}

/// Reads until the buffer is full or the file ends. Returns the number of bytes.
fn read_up_to(file: &File, into: &mut [u8], at: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < into.len() {
        match file.read_at(&mut into[done..], at + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Writes the former bytes back, and cuts the file to its former length.
fn carry_out(plan: &UndoPlan, records: &[File], file: &File) -> io::Result<()> {
    let mut buffer = vec![0; MOST_KEPT];
    for back in &plan.writes {
        let bytes = &mut buffer[..back.len as usize];
        records[back.interval].read_exact_at(bytes, back.at)?;
        file.write_all_at(bytes, back.offset)?;
        let mut at = back.offset + back.len;
        let end = at + back.zeros;
        while at < end {
            let zeros = &mut buffer[..(end - at).min(MOST_KEPT as u64) as usize];
            zeros.fill(0);
            file.write_all_at(zeros, at)?;
            at += zeros.len() as u64;
        }
    }
    let length = file.metadata()?.len();
    if length > plan.length || (length < plan.length && plan.may_grow) {
        file.set_len(plan.length)?;
    }
    Ok(())
}
