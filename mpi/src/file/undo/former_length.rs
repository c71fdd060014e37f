//! How long a file was when an interval began, so that what ranks have written behind that need not
//! be kept: a rollback cuts it off.

use std::collections::BTreeMap;
use std::io;

use super::file_interval::FileInterval;
use super::record_scan::headers;
use super::undo_folder::UndoFolder;
use super::undo_record::FileChange;

/// What is known of the length. No record says more than what comes before it in its file, so each
/// is read once.
#[derive(Default)]
pub(super) struct FormerLength {
    /// The length that the interval's first record has seen.
    first: Option<u64>,
    /// How far the records of other intervals were read.
    others: BTreeMap<FileInterval, u64>,
    /// Where the writes of other intervals end: ranks may be in the one before.
    end: u64,
}

impl FormerLength {
    /// Bytes of the file from here on are of this interval alone. `None`: that is not known.
    ///
    /// # Errors
    /// The system's.
    pub fn of(
        &mut self,
        folder: &UndoFolder,
        interval: FileInterval,
        inode: u64,
    ) -> io::Result<Option<u64>> {
        if self.first.is_none() {
            let (found, _) = headers(&folder.open(interval)?, 0, 1)?;
            let own = found.iter().find(|record| record.inode == inode);
            self.first = own.map(|record| record.size);
        }
        for other in folder.intervals()? {
            if other == interval {
                continue;
            }
            let read = self.others.entry(other).or_default();
            let (found, end) = match folder.open(other) {
                Ok(file) => headers(&file, *read, usize::MAX)?,
                // No rollback goes back so far any more.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let Some(end) = end else {
                // A torn record hides what follows.
                return Ok(None);
            };
            *read = end;
            for record in found.iter().filter(|record| record.inode == inode) {
                if record.change == FileChange::Write {
                    self.end = self.end.max(record.end());
                }
            }
        }
        Ok(self.first.map(|first| first.max(self.end)))
    }
}
