//! The determinants of a named job's ranks, which outlive mpirun: with them, the job continues from
//! the images of its ranks (`--restart`). A file in the folder of the job.
//!
//! What is appended is on the disk after [`DeterminantsFile::sync`]. Nothing that depends on it
//! leaves its rank before.

use super::local_messages::MOST_RECORDS;
use crate::stored_entries::{self, TornEntry};
use rejoin_channel_table::{JobId, Rank};
use rejoin_logging::determinants::{CopiedLog, LogPart};
use rejoin_managers_host::error::system_text;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// The file.
const NAME: &str = "determinants";
/// The first entry begins with this: the mark of such a file, and its format.
const FORMAT: (u64, u64) = (u64::from_le_bytes(*b"rejoin-d"), 2);
/// Most bytes of the file.
const LIMIT: u64 = 16 << 30;
/// Bytes appended since the file was written anew, beyond which that is done again if most of them
/// count no more.
const SPARE: u64 = 1 << 20;

/// The copies of determinants, by rank.
pub type DeterminantCopies = BTreeMap<Rank, CopiedLog>;

/// An entry: a part of a rank's determinants, and whether it is the last one of those that were
/// read at the same moment.
type StoredPart = (Rank, LogPart, bool);

/// The file, open for appending.
#[derive(Debug)]
pub struct DeterminantsFile {
    path: PathBuf,
    job: JobId,
    file: File,
    /// Entries that are not written yet.
    pending: Vec<u8>,
    /// Bytes of the file, and how many it had when it was written anew.
    length: u64,
    least: u64,
}

impl DeterminantsFile {
    /// Makes the file of a job in this folder, with these determinants.
    ///
    /// # Errors
    /// For the user: it can't be written.
    pub fn create(folder: &Path, job: JobId, copies: &DeterminantCopies) -> Result<Self, String> {
        let path = folder.join(NAME);
        let made = written(&path, job, copies);
        let (file, length) = made.map_err(|error| said(&path, &system_text(&error)))?;
        Ok(Self {
            path,
            job,
            file,
            pending: Vec::new(),
            length,
            least: length,
        })
    }

    /// The determinants that a job has left in this folder.
    ///
    /// # Errors
    /// For the user: there are none, or the file is of no use.
    pub fn load(folder: &Path, job: JobId) -> Result<DeterminantCopies, String> {
        let path = folder.join(NAME);
        let mut all = Vec::new();
        let read = File::open(&path).and_then(|file| file.take(LIMIT).read_to_end(&mut all));
        match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(said(&path, "the nondeterministic answers are not there"));
            }
            Err(error) => return Err(said(&path, &system_text(&error))),
            Ok(_) => {}
        }
        let torn = |error: TornEntry| said(&path, &format!("torn or altered: {error}"));
        let mut rest = &all[..];
        let first = stored_entries::next(&mut rest).map_err(torn)?;
        let first = first.ok_or_else(|| said(&path, "it is empty"))?;
        let (format, of): ((u64, u64), JobId) = stored_entries::decode(first).map_err(torn)?;
        if format != FORMAT || of != job {
            return Err(said(&path, "it has another format, or is of another job"));
        }
        let mut copies = DeterminantCopies::new();
        let mut incoming: Option<(Rank, LogPart)> = None;
        while let Some(entry) = stored_entries::next(&mut rest).map_err(torn)? {
            let (rank, mut part, is_last): StoredPart =
                stored_entries::decode(entry).map_err(torn)?;
            if let Some((_, mut begun)) = incoming.take().filter(|(of, _)| *of == rank) {
                part = begun
                    .extend(part)
                    .map(|()| begun)
                    .unwrap_or_else(|other| other);
            }
            if !is_last {
                incoming = Some((rank, part));
                continue;
            }
            let copy = copies.entry(rank).or_default();
            let added = copy.add(&part);
            added.map_err(|error| said(&path, &error.to_string()))?;
        }
        // What was read at one moment counts as a whole, or not at all.
        Ok(copies)
    }

    /// Notes the next part of a rank's determinants: all that was read at one moment.
    ///
    /// # Errors
    /// The part is too long.
    pub fn append(&mut self, rank: Rank, part: &LogPart) -> io::Result<()> {
        self.pending.extend(entries(rank, part.clone())?);
        Ok(())
    }

    /// Writes what was noted. It is on the disk then. `copies`: all that counts, which replaces the
    /// file when most of that counts no more.
    ///
    /// # Errors
    /// The system's reason.
    pub fn sync(&mut self, copies: &DeterminantCopies) -> io::Result<()> {
        self.file.write_all(&self.pending)?;
        self.length += self.pending.len() as u64;
        self.pending.clear();
        if self.length > 2 * self.least + SPARE {
            (self.file, self.length) = written(&self.path, self.job, copies)?;
            self.least = self.length;
            return Ok(());
        }
        self.file.sync_data()
    }

    /// Removes the file: it does not have all determinants, so the job can't continue with it.
    pub fn give_up(self) {
        remove(self.path.parent().unwrap_or(Path::new(".")));
    }
}

/// Removes the file in this folder, if it is there.
pub fn remove(folder: &Path) {
    // What stays does no harm: it is of another job than any later one.
    let _ = fs::remove_file(folder.join(NAME));
}

fn said(path: &Path, why: &str) -> String {
    format!("{}: {why}", path.display())
}

/// The entries of a part that was read at one moment.
fn entries(rank: Rank, part: LogPart) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut chunks = part.chunks(MOST_RECORDS).peekable();
    while let Some(chunk) = chunks.next() {
        let stored: StoredPart = (rank, chunk, chunks.peek().is_none());
        bytes.extend(stored_entries::entry(&stored).map_err(io::Error::other)?);
    }
    Ok(bytes)
}

/// Puts a file with these determinants in place, and returns it and its length.
fn written(path: &Path, job: JobId, copies: &DeterminantCopies) -> io::Result<(File, u64)> {
    let partial = path.with_extension("partial");
    let mut bytes = stored_entries::entry(&(FORMAT, job)).map_err(io::Error::other)?;
    for (rank, copy) in copies {
        bytes.extend(entries(*rank, copy.whole())?);
    }
    let mut file = File::create(&partial)?;
    file.write_all(&bytes)?;
    file.sync_all()?;
    fs::rename(&partial, path)?;
    let folder = path.parent().map(File::open).transpose()?;
    folder.map_or(Ok(()), |folder| folder.sync_all())?;
    Ok((file, bytes.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let folder = format!("rejoin-determinants-{}-{name}", std::process::id());
            let folder = std::env::temp_dir().join(folder);
            fs::create_dir_all(&folder).expect("a folder");
            Scratch(folder)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn part(from: u64, count: u64) -> LogPart {
        LogPart {
            first: 0,
            from,
            answers: from + count,
            sends: 0,
            records: (from..from + count).map(|n| [n, 1, 2, 3]).collect(),
        }
    }

    /// Adds a part to the copies and to the file.
    fn add(file: &mut DeterminantsFile, copies: &mut DeterminantCopies, rank: u32, part: LogPart) {
        let copy = copies.entry(Rank(rank)).or_default();
        copy.add(&part).expect("the next part");
        file.append(Rank(rank), &part).expect("room");
        file.sync(copies).expect("a disk");
    }

    #[test]
    fn a_job_finds_what_was_stored() {
        let scratch = Scratch::new("found");
        let job = JobId(7);
        assert!(DeterminantsFile::load(&scratch.0, job).is_err());
        let mut copies = DeterminantCopies::new();
        let mut file = DeterminantsFile::create(&scratch.0, job, &copies).expect("a file");
        for from in [0, 5, 9] {
            add(&mut file, &mut copies, 0, part(from, 5));
            add(&mut file, &mut copies, 3, part(from, 6));
        }
        let found = DeterminantsFile::load(&scratch.0, job).expect("a file");
        assert_eq!(found, copies);
        assert!(DeterminantsFile::load(&scratch.0, JobId(8)).is_err());
        // A job that is restarted begins with these.
        let mut file = DeterminantsFile::create(&scratch.0, job, &found).expect("a file");
        add(&mut file, &mut copies, 3, part(15, 1));
        let found = DeterminantsFile::load(&scratch.0, job).expect("a file");
        assert_eq!(found, copies);
        remove(&scratch.0);
        assert!(DeterminantsFile::load(&scratch.0, job).is_err());
    }

    #[test]
    fn what_was_read_at_one_moment_counts_as_a_whole() {
        let scratch = Scratch::new("long");
        let (job, mut copies) = (JobId(7), DeterminantCopies::new());
        let mut file = DeterminantsFile::create(&scratch.0, job, &copies).expect("a file");
        add(&mut file, &mut copies, 1, part(0, 3));
        let before = (copies.clone(), file.length as usize);
        let long = MOST_RECORDS as u64 + 1;
        // Beside it stays what the file had.
        file.least = u64::MAX / 4;
        add(&mut file, &mut copies, 1, part(3, long));
        let found = DeterminantsFile::load(&scratch.0, job).expect("a file");
        assert_eq!(found, copies);
        let path = scratch.0.join(NAME);
        let whole = fs::read(&path).expect("the file");
        let last = entries(Rank(1), part(3 + long - 1, 1))
            .expect("an entry")
            .len();
        assert!(whole.len() > before.1 + last);
        fs::write(&path, &whole[..whole.len() - last]).expect("a disk");
        let found = DeterminantsFile::load(&scratch.0, job).expect("the rest");
        assert_eq!(found, before.0, "the first half of it says nothing");
    }

    #[test]
    fn an_entry_that_was_cut_short_does_not_count_and_an_altered_one_is_refused() {
        let scratch = Scratch::new("torn");
        let (job, mut copies) = (JobId(7), DeterminantCopies::new());
        let mut file = DeterminantsFile::create(&scratch.0, job, &copies).expect("a file");
        add(&mut file, &mut copies, 1, part(0, 3));
        let before = copies.clone();
        add(&mut file, &mut copies, 1, part(3, 3));
        let path = scratch.0.join(NAME);
        let whole = fs::read(&path).expect("the file");
        fs::write(&path, &whole[..whole.len() - 1]).expect("a disk");
        let found = DeterminantsFile::load(&scratch.0, job).expect("the rest");
        assert_eq!(found, before);
        let mut altered = whole.clone();
        altered[whole.len() - 9] ^= 1;
        fs::write(&path, altered).expect("a disk");
        let why = DeterminantsFile::load(&scratch.0, job).expect_err("altered");
        assert!(why.contains("torn or altered"), "{why}");
    }

    #[test]
    fn a_file_of_which_most_counts_no_more_is_replaced() {
        let scratch = Scratch::new("replaced");
        let (job, mut copies) = (JobId(7), DeterminantCopies::new());
        let mut file = DeterminantsFile::create(&scratch.0, job, &copies).expect("a file");
        for round in 0..40 {
            let mut next = part(round * 2_000, 2_000);
            next.first = next.from;
            add(&mut file, &mut copies, 0, next);
        }
        let length = fs::metadata(scratch.0.join(NAME)).expect("a file").len();
        assert!(length < 2 * SPARE, "{length} bytes");
        let found = DeterminantsFile::load(&scratch.0, job).expect("a file");
        assert_eq!(found, copies);
    }
}
