//! The file of a recording, as its rank writes it.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::posix_fallocate;
use nix::sys::resource::{Resource, getrlimit};
use rejoin_ckpt::rank_log_memory::MappedWords;
use rejoin_wire::recording::{
    DETERMINANT_WORDS, HEADER_BYTES, MAGIC, MAGIC_WORD, STAGE, STAGE_WORDS, STAGED_AT,
    STAGED_BYTES, STOPPED, filled,
};

use super::raised;
use crate::log::LogWords;

/// Bytes that are staged at most.
const STAGE_BYTES: usize = STAGE_WORDS * 8;
/// Longest body that is staged. A longer one is written at once.
const STAGED_BODY: usize = 8 << 10;

/// The file. Small entries go into the mapped words first, so most of them take no system call.
pub(super) struct RecordingFile {
    file: File,
    words: MappedWords,
    /// The staged bytes, as in the mapped words.
    staged: Vec<u8>,
    /// Where they belong.
    at: u64,
}

impl RecordingFile {
    /// Makes the file, and returns the memory of the log of determinants.
    ///
    /// # Errors
    /// The file exists, or the system's reason. There is no file then that was not there before.
    pub(super) fn create(path: &Path) -> io::Result<(Self, LogWords)> {
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        let begun = Self::begin(file);
        if begun.is_err() {
            // The reason is known already.
            let _ = fs::remove_file(path);
        }
        begun
    }

    fn begin(file: File) -> io::Result<(Self, LogWords)> {
        let file = raised(file)?;
        // The mapped part must not need room later: the lack of it would be a signal.
        posix_fallocate(&file, 0, HEADER_BYTES as i64)?;
        let [words, log] = [(); 2].map(|()| MappedWords::map_first(file.as_fd(), HEADER_BYTES));
        let (words, log) = (words?, log?);
        words.store(STAGED_AT, HEADER_BYTES as u64);
        words.store(MAGIC_WORD, MAGIC);
        let recording = Self {
            file,
            words,
            staged: Vec::with_capacity(STAGE_BYTES),
            at: HEADER_BYTES as u64,
        };
        Ok((recording, LogWords::new(log, DETERMINANT_WORDS)))
    }

    /// Appends an entry, which is filled up, and its body.
    ///
    /// # Errors
    /// The system's: the recording ends before this entry.
    pub(super) fn append(&mut self, entry: &[u8], body: &[u8]) -> io::Result<()> {
        if entry.len() > STAGE_BYTES / 2 || body.len() > STAGED_BODY {
            return self.write_through(entry, body);
        }
        let count = entry.len() + filled(body.len() as u64) as usize;
        if self.staged.len() + count > STAGE_BYTES {
            self.flush()?;
        }
        let from = self.staged.len();
        self.staged.extend_from_slice(entry);
        self.staged.extend_from_slice(body);
        self.staged.resize(from + count, 0);
        let words = self.staged[from..].as_chunks().0.iter();
        for (word, value) in (STAGE + from / 8..).zip(words) {
            self.words.store(word, u64::from_le_bytes(*value));
        }
        self.words.store(STAGED_BYTES, self.staged.len() as u64);
        Ok(())
    }

    fn write_through(&mut self, entry: &[u8], body: &[u8]) -> io::Result<()> {
        self.flush()?;
        let body_at = self.at + entry.len() as u64;
        let end = body_at + filled(body.len() as u64);
        check_room(end)?;
        // What is cut short is no entry, so the end of the rank does no harm.
        self.file.write_all_at(entry, self.at)?;
        self.file.write_all_at(body, body_at)?;
        let gap = [0; 8];
        let gap = &gap[..(end - body_at) as usize - body.len()];
        self.file.write_all_at(gap, end - gap.len() as u64)?;
        self.at = end;
        self.words.store(STAGED_AT, self.at);
        Ok(())
    }

    /// Writes the staged bytes to their place.
    fn flush(&mut self) -> io::Result<()> {
        if self.staged.is_empty() {
            return Ok(());
        }
        check_room(self.at + self.staged.len() as u64)?;
        self.file.write_all_at(&self.staged, self.at)?;
        self.at += self.staged.len() as u64;
        self.staged.clear();
        self.words.store(STAGED_BYTES, 0);
        self.words.store(STAGED_AT, self.at);
        Ok(())
    }

    /// Says that the rank continues without a recording.
    pub(super) fn stop(self) {
        self.words.store(STOPPED, 1);
    }
}

/// Whether the file may get so long. A write beyond the limit of the process would end it
/// (SIGXFSZ).
fn check_room(end: u64) -> io::Result<()> {
    match getrlimit(Resource::RLIMIT_FSIZE) {
        Ok((most, _)) if end > most => Err(Errno::EFBIG.into()),
        _ => Ok(()),
    }
}
