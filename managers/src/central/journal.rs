//! The journal: records that must outlive the central manager ([`Record`]s, in their order), in one
//! file per job.
//!
//! Central appends entries to the file ([`stored_entries`]). An entry survives any end of this
//! process, but not the end of the machine: the checkpoints of the job, which are processes, don't
//! survive that either. An entry that the end of its writer has cut short was never acted upon, and
//! is dropped. When most entries are obsolete, a file with the others replaces the old one.

use crate::stored_entries;
use rejoin_channel_table::{JobId, Rank};
use rejoin_managers_host::error::system_text;
use rejoin_managers_host::run_dir::NEW;
use rejoin_managers_protocol::central::Record;
use rejoin_managers_protocol::levels::Level;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The first entry begins with this: the mark of a journal, and its format.
const FORMAT: (u64, u64) = (u64::from_le_bytes(*b"rejoin-j"), 18);

/// Bytes of entries that count no more, beyond which the file is replaced.
const SPARE: u64 = 64 * 1024;

/// An error of a journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file is not available.
    #[error("the journal {}: {}", .path.display(), system_text(.source))]
    File {
        /// Path of the journal.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Another process has it open.
    #[error("the journal {} is in use: the job's central manager lives", .path.display())]
    InUse {
        /// Path of the journal.
        path: PathBuf,
    },
    /// The journal is not there, or its writer ended before it named the job: nothing was stored.
    #[error("the journal {} names no job", .path.display())]
    Empty {
        /// The journal's file.
        path: PathBuf,
    },
    /// The journal is not what was written: the job can't be taken up again with it.
    #[error("the journal {} is torn or altered: {why}", .path.display())]
    Torn {
        /// Path of the journal.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// Kinds of records of which only the last counts.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Started,
    Requested,
    Committed(Level),
    GroupCommitted(Rank),
    /// With its ranks, in their order.
    Return(Vec<Rank>),
    RegionsNumbered,
    RegionsCommitted,
    Memory,
    Moving,
    MoveNumbered,
    Stopping,
    Other,
}

impl Kind {
    fn of(record: &Record) -> Kind {
        match record {
            Record::Started { .. } => Kind::Started,
            Record::Requested { .. } => Kind::Requested,
            Record::Committed { level, .. } => Kind::Committed(*level),
            Record::GroupCommitted { rank, .. } => Kind::GroupCommitted(*rank),
            Record::Return(back) => {
                Kind::Return(back.ranks.iter().map(|(rank, _)| *rank).collect())
            }
            Record::RegionsNumbered { .. } => Kind::RegionsNumbered,
            Record::RegionsCommitted { .. } => Kind::RegionsCommitted,
            Record::Memory(_) => Kind::Memory,
            Record::Moving { .. } => Kind::Moving,
            Record::MoveNumbered(_) => Kind::MoveNumbered,
            Record::Stopping { .. } => Kind::Stopping,
            Record::Began { .. }
            | Record::Finalized { .. }
            | Record::Moved { .. }
            | Record::Draining(_)
            | Record::HostAdded { .. }
            | Record::HostDone(_)
            | Record::Decided(_)
            | Record::Settled(_)
            | Record::Interrupted { .. }
            | Record::Passed { .. } => Kind::Other,
        }
    }

    /// Whether a record of this kind leaves nothing of an earlier one.
    fn supersedes(&self, earlier: &Kind) -> bool {
        match (self, earlier) {
            (Kind::Other, _) => false,
            (Kind::Return(ranks), Kind::Return(before)) => {
                before.iter().all(|rank| ranks.binary_search(rank).is_ok())
            }
            _ => self == earlier,
        }
    }
}

/// A job's journal, open for appending.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    /// The job's entry, and those of the records that count.
    first: Vec<u8>,
    live: Vec<(Kind, Vec<u8>)>,
    length: u64,
}

fn torn(path: &Path, why: impl std::fmt::Display) -> JournalError {
    JournalError::Torn {
        path: path.to_path_buf(),
        why: why.to_string(),
    }
}

fn file_error(path: &Path, source: std::io::Error) -> JournalError {
    JournalError::File {
        path: path.to_path_buf(),
        source,
    }
}

impl Journal {
    /// Makes the journal of a new job, readable by its owner only.
    ///
    /// # Errors
    /// There is one already, or the file can't be made.
    pub fn create(path: &Path, job: JobId) -> Result<Journal, JournalError> {
        let first = entry(path, &(FORMAT, job))?;
        let file = made(path).map_err(|error| file_error(path, error))?;
        lock(path, &file)?;
        let mut journal = Journal {
            file,
            path: path.to_path_buf(),
            first: Vec::new(),
            live: Vec::new(),
            length: 0,
        };
        if let Err(error) = journal.write(&first) {
            journal.remove();
            return Err(error);
        }
        journal.first = first;
        Ok(journal)
    }

    /// Appends a record. When this returns, it is stored.
    ///
    /// # Errors
    /// There is no room, or the system refuses.
    pub fn append(&mut self, record: &Record) -> Result<(), JournalError> {
        let bytes = entry(&self.path, record)?;
        self.write(&bytes)?;
        self.count(Kind::of(record), bytes);
        let live: usize = self.live.iter().map(|(_, bytes)| bytes.len()).sum();
        if self.length > 2 * live as u64 + SPARE
            && let Err(error) = self.replace()
        {
            tracing::warn!(%error, "the journal is not replaced by a shorter one");
        }
        Ok(())
    }

    /// A stored record counts; of some kinds those before it do no more.
    fn count(&mut self, kind: Kind, bytes: Vec<u8>) {
        self.live.retain(|(earlier, _)| !kind.supersedes(earlier));
        self.live.push((kind, bytes));
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), JournalError> {
        let written = self.file.write_all(bytes);
        self.length += bytes.len() as u64;
        written.map_err(|error| file_error(&self.path, error))
    }

    /// Puts a file with the records that count in the place of this one.
    fn replace(&mut self) -> Result<(), JournalError> {
        let new = replacement(&self.path);
        // Of a writer that ended while it did this.
        let _ = std::fs::remove_file(&new);
        let wrong = |error| file_error(&self.path, error);
        let file = made(&new).map_err(wrong)?;
        lock(&self.path, &file)?;
        let mut bytes = self.first.clone();
        self.live.iter().for_each(|(_, live)| bytes.extend(live));
        let written = (&file).write_all(&bytes);
        let placed = written.and_then(|()| std::fs::rename(&new, &self.path));
        placed.map_err(|error| {
            let _ = std::fs::remove_file(&new);
            wrong(error)
        })?;
        self.length = bytes.len() as u64;
        self.file = file;
        Ok(())
    }

    /// Opens the journal of a job whose central manager has died, with its records.
    ///
    /// # Errors
    /// The journal is empty, torn, altered, of another format, or in use.
    pub fn resume(path: &Path) -> Result<(Journal, JobId, Vec<Record>), JournalError> {
        let wrong = |error| file_error(path, error);
        let mut options = File::options();
        let opened = options.read(true).append(true).open(path);
        let empty = || JournalError::Empty {
            path: path.to_path_buf(),
        };
        let mut file = match opened {
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(empty()),
            opened => opened.map_err(wrong)?,
        };
        lock(path, &file)?;
        if !is_at(&file, path).map_err(wrong)? {
            // Its writer has just replaced it.
            let path = path.to_path_buf();
            return Err(JournalError::InUse { path });
        }
        let mut all = Vec::new();
        file.read_to_end(&mut all).map_err(wrong)?;
        let mut rest = &all[..];
        let first = next(path, &mut rest)?.ok_or_else(empty)?;
        let (format, job): ((u64, u64), JobId) = decode(path, first)?;
        if format != FORMAT {
            return Err(torn(path, "it has another format"));
        }
        let mut journal = Journal {
            file,
            path: path.to_path_buf(),
            first: first.to_vec(),
            live: Vec::new(),
            length: 0,
        };
        while let Some(bytes) = next(path, &mut rest)? {
            let record: Record = decode(path, bytes)?;
            journal.count(Kind::of(&record), bytes.to_vec());
        }
        journal.length = (all.len() - rest.len()) as u64;
        if !rest.is_empty() {
            tracing::info!(bytes = rest.len(), "the last entry was cut short: dropped");
            journal.file.set_len(journal.length).map_err(wrong)?;
        }
        let live = journal.live.iter();
        let records = live.map(|(_, bytes)| decode(path, bytes));
        let records = records.collect::<Result<_, _>>()?;
        Ok((journal, job, records))
    }

    /// The job has ended: no central manager will continue it.
    pub fn remove(self) {
        // It may be removed already, which is just as good.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Path of a file that will replace the journal. Remains of a dead writer are removed with the run
/// directory's other unfinished files.
fn replacement(path: &Path) -> PathBuf {
    path.with_extension(NEW)
}

fn made(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.read(true).append(true).create_new(true);
    options.mode(0o600).open(path)
}

/// Claims a journal's file for as long as it is open.
fn lock(path: &Path, file: &File) -> Result<(), JournalError> {
    let in_use = || JournalError::InUse {
        path: path.to_path_buf(),
    };
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(in_use()),
        Err(TryLockError::Error(source)) => Err(file_error(path, source)),
        Ok(()) => Ok(()),
    }
}

/// Whether the file is the one of this name.
fn is_at(file: &File, path: &Path) -> std::io::Result<bool> {
    let (ours, named) = (file.metadata()?, std::fs::metadata(path)?);
    Ok((ours.dev(), ours.ino()) == (named.dev(), named.ino()))
}

/// A message with its head.
fn entry<T: Serialize>(path: &Path, message: &T) -> Result<Vec<u8>, JournalError> {
    stored_entries::entry(message).map_err(|error| torn(path, error))
}

/// The next whole entry. `None`: there is none, or it was cut short.
fn next<'a>(path: &Path, rest: &mut &'a [u8]) -> Result<Option<&'a [u8]>, JournalError> {
    stored_entries::next(rest).map_err(|error| torn(path, error))
}

fn decode<T: DeserializeOwned>(path: &Path, entry: &[u8]) -> Result<T, JournalError> {
    stored_entries::decode(entry).map_err(|error| torn(path, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alone;
    use rejoin_channel_table::{Epoch, Generation, Incarnation};
    use rejoin_managers_protocol::central::{Return, ReturnScope};
    use rejoin_managers_protocol::manager_messages::Time;
    use rejoin_managers_protocol::verdict::Verdict;
    use rejoin_wire::ImageCost;
    use std::io::BufRead;
    use std::process::{Command, Stdio};

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let file = format!("rejoin-journal-{}-{name}", std::process::id());
            Scratch(std::env::temp_dir().join(file))
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn began() -> Record {
        Record::Began {
            generation: Generation(0),
            incarnations: vec![Incarnation(0); 4],
            at: Time(7),
        }
    }

    fn requested(epoch: u32) -> Record {
        Record::Requested {
            epoch: Epoch(epoch),
        }
    }

    fn committed(epoch: u32) -> Record {
        Record::Committed {
            epoch: Epoch(epoch),
            level: Level::Memory,
            at: Time(9),
            cost: ImageCost::default(),
        }
    }

    #[test]
    fn what_counts_is_read_back_in_its_order() {
        let _alone = alone();
        let scratch = Scratch::new("back");
        let mut journal = Journal::create(&scratch.0, JobId(7)).unwrap();
        assert_eq!(std::fs::metadata(&scratch.0).unwrap().mode() & 0o777, 0o600);
        journal.append(&began()).unwrap();
        for epoch in 1..=20 {
            journal.append(&requested(epoch)).unwrap();
            journal.append(&committed(epoch)).unwrap();
        }
        journal.append(&requested(21)).unwrap();
        drop(journal);
        let (mut journal, job, records) = Journal::resume(&scratch.0).unwrap();
        assert_eq!(job, JobId(7));
        assert_eq!(records, [began(), committed(20), requested(21)]);
        // And it continues from there.
        journal.append(&committed(21)).unwrap();
        journal.append(&Record::Decided(Verdict::Success)).unwrap();
        drop(journal);
        let (journal, _, records) = Journal::resume(&scratch.0).unwrap();
        let end = Record::Decided(Verdict::Success);
        assert_eq!(records, [began(), requested(21), committed(21), end]);
        journal.remove();
        assert!(!scratch.0.exists());
    }

    fn returning(ranks: &[u32], epoch: u32) -> Record {
        let of = |rank: &u32| (Rank(*rank), Incarnation(epoch));
        Record::Return(Box::new(Return {
            scope: ReturnScope::Groups,
            generation: Generation(0),
            ranks: ranks.iter().map(of).collect(),
            from: Some(Epoch(epoch)),
            regions: None,
            since: Epoch(0),
            placement: None,
            memory: Box::default(),
        }))
    }

    #[test]
    fn the_return_of_ranks_counts_until_all_of_them_return_again() {
        let _alone = alone();
        let scratch = Scratch::new("returns");
        let mut journal = Journal::create(&scratch.0, JobId(7)).unwrap();
        for (ranks, epoch) in [(&[0][..], 1), (&[0, 2], 2), (&[2], 3), (&[2], 4)] {
            journal.append(&returning(ranks, epoch)).unwrap();
        }
        drop(journal);
        let (mut journal, _, records) = Journal::resume(&scratch.0).unwrap();
        assert_eq!(records, [returning(&[0, 2], 2), returning(&[2], 4)]);
        journal.append(&returning(&[0, 1, 2], 5)).unwrap();
        drop(journal);
        let (journal, _, records) = Journal::resume(&scratch.0).unwrap();
        assert_eq!(records, [returning(&[0, 1, 2], 5)]);
        journal.remove();
    }

    #[test]
    fn the_journal_of_a_job_is_not_taken_for_another() {
        let _alone = alone();
        let scratch = Scratch::new("twice");
        let journal = Journal::create(&scratch.0, JobId(7)).unwrap();
        let again = Journal::create(&scratch.0, JobId(7));
        assert!(matches!(again, Err(JournalError::File { .. })));
        let used = Journal::resume(&scratch.0);
        assert!(matches!(used, Err(JournalError::InUse { .. })));
        drop(journal);
        assert!(Journal::resume(&scratch.0).is_ok());
    }

    const WRITER: &str = "REJOIN_TEST_JOURNAL";

    #[test]
    fn records_survive_kill_9_of_who_writes_them() {
        let _alone = alone();
        if let Some(path) = std::env::var_os(WRITER) {
            let path = PathBuf::from(path);
            let mut journal = Journal::create(&path, JobId(9)).unwrap();
            journal.append(&began()).unwrap();
            for epoch in 1.. {
                journal.append(&committed(epoch)).unwrap();
                println!("\nstored {epoch}");
            }
        }
        for round in 0..5u32 {
            let scratch = Scratch::new(&format!("killed-{round}"));
            let mut writer = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "--nocapture"])
                .arg("central::journal::tests::records_survive_kill_9_of_who_writes_them")
                .env(WRITER, &scratch.0)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let lines = std::io::BufReader::new(writer.stdout.take().unwrap()).lines();
            let mut stored = 0;
            for line in lines {
                let line = line.unwrap();
                let Some(number) = line.strip_prefix("stored ") else {
                    continue;
                };
                stored = number.parse().unwrap();
                if stored == 1 + 40 * round {
                    writer.kill().unwrap();
                }
            }
            writer.wait().unwrap();
            let (_, job, records) = Journal::resume(&scratch.0).unwrap();
            assert_eq!(job, JobId(9));
            // The last may have been stored and not yet said.
            let last = [stored, stored + 1].map(committed);
            assert_eq!(records.len(), 2);
            assert_eq!(records[0], began());
            assert!(last.contains(&records[1]), "{stored} stored: {records:?}");
        }
    }

    /// A file of these records, and how long it was after each of them.
    fn stored(path: &Path, records: &[Record]) -> (Vec<u8>, Vec<usize>) {
        let mut journal = Journal::create(path, JobId(7)).unwrap();
        let mut lengths = vec![std::fs::read(path).unwrap().len()];
        for record in records {
            journal.append(record).unwrap();
            lengths.push(std::fs::read(path).unwrap().len());
        }
        (std::fs::read(path).unwrap(), lengths)
    }

    fn resumed(path: &Path, bytes: &[u8]) -> Result<Vec<Record>, JournalError> {
        std::fs::write(path, bytes).unwrap();
        Journal::resume(path).map(|(_, _, records)| records)
    }

    #[test]
    fn an_entry_that_was_cut_short_is_dropped_and_the_next_one_follows_the_others() {
        let _alone = alone();
        let scratch = Scratch::new("cut");
        let all = [began(), committed(1), requested(2)];
        let (whole, lengths) = stored(&scratch.0, &all);
        for length in 0..=whole.len() {
            let said = resumed(&scratch.0, &whole[..length]);
            let Some(count) = lengths.iter().rposition(|&end| end <= length) else {
                let said = said.unwrap_err().to_string();
                assert!(said.contains("names no job"), "{length}: {said}");
                continue;
            };
            assert_eq!(said.unwrap(), all[..count], "{length}");
            let (mut journal, _, _) = Journal::resume(&scratch.0).unwrap();
            journal.append(&Record::Decided(Verdict::Success)).unwrap();
            drop(journal);
            let (_, _, records) = Journal::resume(&scratch.0).unwrap();
            assert_eq!(records[..count], all[..count], "{length}");
            assert_eq!(records[count..], [Record::Decided(Verdict::Success)]);
        }
    }

    #[test]
    fn an_altered_file_is_refused() {
        let _alone = alone();
        let scratch = Scratch::new("altered");
        let (whole, _) = stored(
            &scratch.0,
            &[began(), requested(1), committed(1), requested(2)],
        );
        for at in 0..whole.len() {
            let mut altered = whole.clone();
            altered[at] ^= 0x10;
            let said = resumed(&scratch.0, &altered).unwrap_err();
            assert!(matches!(said, JournalError::Torn { .. }), "{at}: {said}");
        }
    }

    #[test]
    fn the_file_stays_small_however_long_a_job_runs() {
        let _alone = alone();
        let scratch = Scratch::new("long");
        let mut journal = Journal::create(&scratch.0, JobId(7)).unwrap();
        journal.append(&began()).unwrap();
        for epoch in 1..=10_000 {
            journal.append(&requested(epoch)).unwrap();
            journal.append(&committed(epoch)).unwrap();
            let length = std::fs::metadata(&scratch.0).unwrap().len();
            assert!(length < SPARE + 4096, "{length} bytes at epoch {epoch}");
        }
        assert!(!replacement(&scratch.0).exists());
        // The new file is as much this journal's as the first one.
        let used = Journal::resume(&scratch.0);
        assert!(matches!(used, Err(JournalError::InUse { .. })));
        drop(journal);
        let (_, job, records) = Journal::resume(&scratch.0).unwrap();
        assert_eq!(job, JobId(7));
        assert_eq!(records, [began(), requested(10_000), committed(10_000)]);
    }
}
