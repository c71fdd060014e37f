//! What must outlive the central manager, in a file of its own per job ([`Record`]s, in their order).
//!
//! The store is redb. What is appended survives the end of this process however it comes; it is made
//! to survive that of the machine only with [`Keep::Machine`], which costs an fsync each time, and
//! helps only jobs whose checkpoints outlive the machine too.

use crate::error::plain;
use redb::backends::FileBackend;
use redb::{
    Database, Durability, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition,
};
use rejoin_channel_table::{Generation, JobId};
use rejoin_managers_protocol::central::Record;
use rejoin_wire::codec::{FrameReader, MANAGER_LIMIT, encode};
use std::collections::VecDeque;
use std::fs::{File, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Version of what is stored.
const FORMAT: u64 = 3;

/// `format` and `job`.
const ABOUT: TableDefinition<'_, &str, u64> = TableDefinition::new("about");

/// Numbers from 0 on, and records as the codec frames them.
const RECORDS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("records");

/// What can be wrong with a journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file can't be had.
    #[error("the journal {}: {}", .path.display(), plain(.source))]
    File {
        /// Which.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Another process has it open.
    #[error("the journal {} is in use: the job's central manager lives", .path.display())]
    InUse {
        /// Which.
        path: PathBuf,
    },
    /// The store refuses.
    #[error("the journal {}: {source}", .path.display())]
    Store {
        /// Which.
        path: PathBuf,
        /// Its reason.
        source: Box<redb::Error>,
    },
    /// It is not what was written: the job can't be taken up again with it.
    #[error("the journal {} is torn or altered: {why}", .path.display())]
    Torn {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// What a record is to survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// The end of this process.
    Process,
    /// The end of the machine.
    Machine,
}

/// Where redb's header has its flags (its design.md): the file was not closed well; its last commit needs no
/// check. Every checksum of a file with the first and without the second is verified before any page is
/// trusted, so this is how we read all files.
const FLAGS: u64 = 9;
const UNCLEAN: u8 = 2;
const TWO_PHASE: u8 = 4;

/// A file that is not synced unless that is wanted: what was written is with the kernel, which
/// outlives us.
#[derive(Debug)]
struct Backend {
    file: FileBackend,
    keep: Keep,
}

impl StorageBackend for Backend {
    fn len(&self) -> Result<u64, std::io::Error> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), std::io::Error> {
        self.file.read(offset, out)?;
        let flags = FLAGS
            .checked_sub(offset)
            .and_then(|at| usize::try_from(at).ok());
        if let Some(flags) = flags.and_then(|at| out.get_mut(at)) {
            *flags = (*flags | UNCLEAN) & !TWO_PHASE;
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<(), std::io::Error> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> Result<(), std::io::Error> {
        match self.keep {
            Keep::Process => Ok(()),
            Keep::Machine => self.file.sync_data(),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), std::io::Error> {
        self.file.write(offset, data)
    }

    fn close(&self) -> Result<(), std::io::Error> {
        self.file.close()
    }
}

/// Kinds of records of which only the last counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Life,
    Started,
    Ordered,
    Committed,
    Memory,
    Other,
}

impl Kind {
    fn of(record: &Record) -> Kind {
        match record {
            Record::Restoring { .. } => Kind::Life,
            Record::Started { .. } => Kind::Started,
            Record::Ordered { .. } => Kind::Ordered,
            Record::Committed { .. } => Kind::Committed,
            Record::Memory(_) => Kind::Memory,
            Record::Began { .. }
            | Record::Finalized { .. }
            | Record::Decided(_)
            | Record::Settled(_)
            | Record::Interrupted { .. } => Kind::Other,
        }
    }
}

/// A job's journal, open for appending.
#[derive(Debug)]
pub struct Journal {
    store: Database,
    path: PathBuf,
    next: u64,
    /// Numbers of the records that count, so that the file stays small however long the job runs.
    live: VecDeque<(u64, Kind)>,
}

fn store_error(path: &Path, error: impl Into<redb::Error>) -> JournalError {
    JournalError::Store {
        path: path.to_path_buf(),
        source: Box::new(error.into()),
    }
}

fn torn(path: &Path, why: impl std::fmt::Display) -> JournalError {
    JournalError::Torn {
        path: path.to_path_buf(),
        why: why.to_string(),
    }
}

impl Journal {
    /// Makes the journal of a new job; nobody else may read it.
    ///
    /// # Errors
    /// There is one already, or the file can't be made.
    pub fn create(path: &Path, job: JobId, keep: Keep) -> Result<Journal, JournalError> {
        let file = |source| JournalError::File {
            path: path.to_path_buf(),
            source,
        };
        let mut options = File::options();
        options.read(true).write(true).create_new(true).mode(0o600);
        let made = options.open(path).map_err(file)?;
        Journal::fresh(path, made, job, keep).inspect_err(|_| {
            let _ = std::fs::remove_file(path);
        })
    }

    fn fresh(path: &Path, file: File, job: JobId, keep: Keep) -> Result<Journal, JournalError> {
        let store = database(path, file, keep)?;
        let wrong = |error: redb::Error| store_error(path, error);
        let filled = || -> Result<(), redb::Error> {
            let transaction = store.begin_write()?;
            {
                let mut about = transaction.open_table(ABOUT)?;
                about.insert("format", FORMAT)?;
                about.insert("job", job.0)?;
                transaction.open_table(RECORDS)?;
            }
            transaction.commit()?;
            Ok(())
        };
        filled().map_err(wrong)?;
        Ok(Journal {
            store,
            path: path.to_path_buf(),
            next: 0,
            live: VecDeque::new(),
        })
    }

    /// Appends a record. When this returns, it is stored.
    ///
    /// # Errors
    /// There is no room, or the store refuses.
    pub fn append(&mut self, record: &Record) -> Result<(), JournalError> {
        let mut bytes = Vec::new();
        encode(record, MANAGER_LIMIT, &mut bytes).map_err(|e| torn(&self.path, e))?;
        let sum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        let kind = Kind::of(record);
        let number = self.next;
        let old: Vec<u64> = self
            .live
            .iter()
            .filter(|(_, other)| kind != Kind::Other && *other == kind)
            .map(|(number, _)| *number)
            .collect();
        let store = &self.store;
        let write = || -> Result<(), redb::Error> {
            let mut transaction = store.begin_write()?;
            transaction.set_durability(Durability::Immediate)?;
            {
                let mut records = transaction.open_table(RECORDS)?;
                records.insert(number, bytes.as_slice())?;
                for number in &old {
                    records.remove(number)?;
                }
            }
            transaction.commit()?;
            Ok(())
        };
        write().map_err(|error| store_error(&self.path, error))?;
        self.live.retain(|(number, _)| !old.contains(number));
        self.live.push_back((number, kind));
        self.next += 1;
        Ok(())
    }

    /// Takes up the journal of a job whose central manager has died, with what it holds.
    ///
    /// # Errors
    /// It is torn, altered, of another format, or in use.
    pub fn resume(path: &Path, keep: Keep) -> Result<(Journal, JobId, Vec<Record>), JournalError> {
        let opened = File::options().read(true).write(true).open(path);
        let file = opened.map_err(|source| JournalError::File {
            path: path.to_path_buf(),
            source,
        })?;
        // The store takes an empty file for a new one.
        if file.metadata().is_ok_and(|meta| meta.len() == 0) {
            return Err(torn(path, "it is empty"));
        }
        let mut store = database(path, file, keep).map_err(|error| match error {
            JournalError::Store { source, .. } => torn(path, source),
            other => other,
        })?;
        match store.check_integrity() {
            Ok(true) => {}
            Ok(false) => return Err(torn(path, "its checksums do not match")),
            Err(error) => return Err(torn(path, redb::Error::from(error))),
        }
        let (job, raw) = read(&store).map_err(|error| torn(path, error))?;
        let mut records = Vec::with_capacity(raw.len());
        let mut live = VecDeque::with_capacity(raw.len());
        for (number, bytes) in &raw {
            let record =
                decode(bytes).map_err(|why| torn(path, format!("record {number}: {why}")))?;
            live.push_back((*number, Kind::of(&record)));
            records.push(record);
        }
        let journal = Journal {
            store,
            path: path.to_path_buf(),
            next: raw.last().map_or(0, |(number, _)| number + 1),
            live,
        };
        Ok((journal, job, records))
    }

    /// The highest generation that a journal speaks of, which nobody may have open.
    ///
    /// # Errors
    /// As for [`Journal::resume`].
    pub fn last_generation(path: &Path) -> Result<Option<Generation>, JournalError> {
        let (_, _, records) = Journal::resume(path, Keep::Process)?;
        Ok(records.iter().filter_map(Record::generation).max())
    }

    /// The job has ended: nobody takes it up again.
    pub fn remove(self) {
        // Who removed it before us did what we want.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn database(path: &Path, file: File, keep: Keep) -> Result<Database, JournalError> {
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let path = path.to_path_buf();
            return Err(JournalError::InUse { path });
        }
        Err(TryLockError::Error(source)) => {
            let path = path.to_path_buf();
            return Err(JournalError::File { path, source });
        }
    }
    let file = FileBackend::new(file).map_err(|error| store_error(path, error))?;
    let mut builder = Database::builder();
    // Records are few and small.
    builder.set_cache_size(1 << 20);
    builder
        .create_with_backend(Backend { file, keep })
        .map_err(|error| store_error(path, error))
}

type Raw = (JobId, Vec<(u64, Vec<u8>)>);

fn read(store: &Database) -> Result<Raw, String> {
    let text = |error: redb::Error| error.to_string();
    let tables = || -> Result<_, redb::Error> {
        let transaction = store.begin_read()?;
        let about = transaction.open_table(ABOUT)?;
        let number = |name| -> Result<Option<u64>, redb::Error> {
            Ok(about.get(name)?.map(|value| value.value()))
        };
        let (format, job) = (number("format")?, number("job")?);
        let mut records = Vec::new();
        for entry in transaction.open_table(RECORDS)?.iter()? {
            let (key, value) = entry?;
            records.push((key.value(), value.value().to_vec()));
        }
        Ok((format, job, records))
    };
    match tables().map_err(text)? {
        (Some(FORMAT), Some(job), records) => Ok((JobId(job), records)),
        (Some(FORMAT), None, _) => Err("it names no job".into()),
        (Some(other), ..) => Err(format!("it has format {other}, and {FORMAT} is understood")),
        (None, ..) => Err("it names no format".into()),
    }
}

fn decode(bytes: &[u8]) -> Result<Record, String> {
    let Some((frame, sum)) = bytes.split_last_chunk::<4>() else {
        return Err("it is too short".into());
    };
    if crc32c::crc32c(frame) != u32::from_le_bytes(*sum) {
        return Err("its checksum does not match".into());
    }
    let mut reader = FrameReader::new(MANAGER_LIMIT);
    reader.push(frame);
    match reader.next() {
        Ok(Some(record)) if reader.unread() == 0 => Ok(record),
        Ok(_) => Err("it is no whole record".into()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alone;
    use rejoin_channel_table::{Epoch, Incarnation};
    use rejoin_managers_protocol::central::{Losses, Memory};
    use rejoin_managers_protocol::control::Time;
    use rejoin_managers_protocol::policy::History;
    use rejoin_managers_protocol::verdict::Verdict;
    use rejoin_wire::ImageCost;
    use std::io::BufRead;
    use std::os::unix::fs::MetadataExt;
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

    fn ordered(epoch: u32) -> Record {
        Record::Ordered {
            epoch: Epoch(epoch),
        }
    }

    fn committed(epoch: u32) -> Record {
        Record::Committed {
            epoch: Epoch(epoch),
            at: Time(9),
            cost: ImageCost::default(),
        }
    }

    #[test]
    fn what_counts_is_read_back_in_its_order() {
        let _alone = alone();
        for keep in [Keep::Process, Keep::Machine] {
            let scratch = Scratch::new("back");
            let mut journal = Journal::create(&scratch.0, JobId(7), keep).unwrap();
            assert_eq!(std::fs::metadata(&scratch.0).unwrap().mode() & 0o777, 0o600);
            journal.append(&began()).unwrap();
            for epoch in 1..=20 {
                journal.append(&ordered(epoch)).unwrap();
                journal.append(&committed(epoch)).unwrap();
            }
            journal.append(&ordered(21)).unwrap();
            drop(journal);
            let (mut journal, job, records) = Journal::resume(&scratch.0, keep).unwrap();
            assert_eq!(job, JobId(7));
            assert_eq!(records, [began(), committed(20), ordered(21)]);
            // And it goes on from there.
            journal.append(&committed(21)).unwrap();
            journal.append(&Record::Decided(Verdict::Success)).unwrap();
            drop(journal);
            let (journal, _, records) = Journal::resume(&scratch.0, keep).unwrap();
            let end = Record::Decided(Verdict::Success);
            assert_eq!(records, [began(), ordered(21), committed(21), end]);
            journal.remove();
            assert!(!scratch.0.exists());
        }
    }

    #[test]
    fn the_last_generation_counts_whatever_came_of_it() {
        let _alone = alone();
        let scratch = Scratch::new("generation");
        let mut journal = Journal::create(&scratch.0, JobId(7), Keep::Process).unwrap();
        for record in [began(), committed(1)] {
            journal.append(&record).unwrap();
        }
        drop(journal);
        let last = || Journal::last_generation(&scratch.0).unwrap();
        assert_eq!(last(), Some(Generation(0)));
        let (mut journal, _, _) = Journal::resume(&scratch.0, Keep::Process).unwrap();
        let restoring = Record::Restoring {
            generation: Generation(3),
            epoch: Some(Epoch(1)),
            incarnations: vec![Incarnation(1); 4],
            memory: Box::new(Memory {
                history: History::default(),
                losses: Losses::default(),
            }),
        };
        journal.append(&restoring).unwrap();
        drop(journal);
        assert_eq!(last(), Some(Generation(3)));
    }

    #[test]
    fn the_journal_of_a_job_is_not_taken_for_another() {
        let _alone = alone();
        let scratch = Scratch::new("twice");
        let journal = Journal::create(&scratch.0, JobId(7), Keep::Process).unwrap();
        let again = Journal::create(&scratch.0, JobId(7), Keep::Process);
        assert!(matches!(again, Err(JournalError::File { .. })));
        let used = Journal::resume(&scratch.0, Keep::Process);
        assert!(matches!(used, Err(JournalError::InUse { .. })));
        drop(journal);
        assert!(Journal::resume(&scratch.0, Keep::Process).is_ok());
    }

    const WRITER: &str = "REJOIN_TEST_JOURNAL";

    #[test]
    fn records_survive_kill_9_of_who_writes_them() {
        let _alone = alone();
        if let Some(path) = std::env::var_os(WRITER) {
            let path = PathBuf::from(path);
            let mut journal = Journal::create(&path, JobId(9), Keep::Process).unwrap();
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
            let (_, job, records) = Journal::resume(&scratch.0, Keep::Process).unwrap();
            assert_eq!(job, JobId(9));
            // The last may have been stored and not yet said.
            let last = [stored, stored + 1].map(committed);
            assert_eq!(records.len(), 2);
            assert_eq!(records[0], began());
            assert!(last.contains(&records[1]), "{stored} stored: {records:?}");
        }
    }

    #[test]
    fn a_torn_or_altered_file_is_refused_or_harmless() {
        let _alone = alone();
        let scratch = Scratch::new("torn");
        let mut journal = Journal::create(&scratch.0, JobId(7), Keep::Process).unwrap();
        let mut all = vec![began(), ordered(1), committed(1), ordered(2)];
        for record in &all {
            journal.append(record).unwrap();
        }
        drop(journal);
        all.remove(1);
        let whole = std::fs::read(&scratch.0).unwrap();
        let resumed = |bytes: &[u8]| {
            std::fs::write(&scratch.0, bytes).unwrap();
            Journal::resume(&scratch.0, Keep::Process).map(|(_, _, records)| records)
        };
        assert_eq!(resumed(&whole).unwrap(), all);
        for length in [0, 1, 100, 4096, whole.len() / 2, whole.len() - 1] {
            let said = resumed(&whole[..length]).unwrap_err();
            assert!(
                matches!(said, JournalError::Torn { .. }),
                "{length}: {said}"
            );
            assert!(said.to_string().contains("is torn or altered"), "{said}");
        }
        let mut refused = 0;
        let bytes = (0..whole.len()).filter(|&at| whole[at] != 0);
        for at in bytes.step_by(31) {
            let mut altered = whole.clone();
            altered[at] ^= 0x10;
            match resumed(&altered) {
                Ok(records) => assert_eq!(records, all, "byte {at}"),
                Err(_) => refused += 1,
            }
        }
        assert!(refused > 3, "{refused} refused");
    }
}
