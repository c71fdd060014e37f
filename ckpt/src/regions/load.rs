//! Checks a file before anything of it is used.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::format::{self, CHUNK, FileHead, Root, Sums, Tag, VERSION};

/// The file that a rank wants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The job, if only its own files will do.
    pub job: Option<u64>,
    /// The rank.
    pub rank: u32,
    /// How many ranks there are.
    pub size: u32,
    /// The epoch that all ranks roll back to; without one the newest.
    pub epoch: Option<u32>,
}

/// The result of a load.
#[derive(Debug)]
pub struct Loaded {
    /// Whose state was loaded, and from when.
    pub tag: Tag,
    /// The file.
    pub path: PathBuf,
    /// Newer files that could not be used, and why.
    pub refused: Vec<RefusedFile>,
}

/// A file that is not used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct RefusedFile {
    /// The file.
    pub path: PathBuf,
    /// Why it cannot be used.
    #[source]
    pub why: Why,
}

/// Why a file is not used.
#[derive(Debug, thiserror::Error)]
pub enum Why {
    /// The file cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] std::io::Error),
    /// The file does not begin as a stored state does.
    #[error("it is no stored state")]
    NoState,
    /// Another format.
    #[error("it has version {0} of the format, this library reads version 1")]
    Version(u32),
    /// The file ends too early or continues too long.
    #[error("it has {found} bytes instead of {expected}: it was torn")]
    Torn {
        /// Length in bytes, as the file's head says.
        expected: u64,
        /// Length of the file, in bytes.
        found: u64,
    },
    /// The sums of the file do not fit.
    #[error("its {part} is not what was written: it was altered or damaged")]
    Damaged {
        /// `head` or `data`.
        part: &'static str,
    },
    /// The state belongs to another job, rank or epoch, or to another number of ranks.
    #[error("it is of another {what}: {found} instead of {wanted}")]
    Foreign {
        /// `job`, `rank`, `number of ranks` or `epoch`.
        what: &'static str,
        /// In the file.
        found: u64,
        /// Looked for.
        wanted: u64,
    },
    /// The program registered something else.
    #[error("it holds other regions than are registered: {0}")]
    Regions(String),
}

/// For the message of an error.
pub(super) fn reasons(refused: &[RefusedFile]) -> String {
    refused.iter().map(|one| format!("; {one}")).collect()
}

/// A file that has passed.
pub(super) struct Checked {
    pub tag: Tag,
    /// Number and length of each region.
    pub table: Vec<(u32, u64)>,
    pub head: Vec<u8>,
    /// Where the data begins.
    pub data: u64,
    pub root: Root,
}

/// Opens a file to read it. To open a pipe without a writer must not block.
pub(super) fn open(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// Checks all of a file.
pub(super) fn check(
    path: &Path,
    epoch: u32,
    wanted: &Wanted,
    table: &[(u32, u64)],
) -> Result<Checked, Why> {
    let whole = check_sums_of(path)?;
    foreign(&whole.tag, epoch, wanted)?;
    if whole.table != table {
        return Err(Why::Regions(difference(&whole.table, table)));
    }
    Ok(whole)
}

/// Checks all sums of a file, whosever it is.
pub(super) fn check_sums_of(path: &Path) -> Result<Checked, Why> {
    let mut file = open(path)?;
    let found = file.metadata()?.len();
    let (bytes, head) = read_head(&mut file, found)?;
    let (data, chunks) = head.extent().ok_or(Why::Damaged { part: "head" })?;
    let end = format::end_length(chunks).ok_or(Why::Damaged { part: "head" })?;
    let begin = bytes.len() as u64;
    let expected = data.checked_add(begin).and_then(|sum| sum.checked_add(end));
    let expected = expected.ok_or(Why::Damaged { part: "head" })?;
    if found != expected {
        return Err(Why::Torn { expected, found });
    }
    // The length fits the file, so this allocates no more than the file has.
    let mut written = vec![0; end as usize];
    file.seek(SeekFrom::Start(begin + data))?;
    file.read_exact(&mut written)?;
    let root = check_sums(&mut file, &bytes, &head, &written)?;
    Ok(Checked {
        tag: head.tag,
        table: head.table,
        head: bytes,
        data: begin,
        root,
    })
}

/// The tag of a file whose head is whole; its data is not read.
pub(super) fn tag(path: &Path) -> Result<Tag, Why> {
    let mut file = open(path)?;
    let found = file.metadata()?.len();
    let (_, head) = read_head(&mut file, found)?;
    Ok(head.tag)
}

fn read_head(file: &mut File, found: u64) -> Result<(Vec<u8>, FileHead), Why> {
    let mut begin = [0; 16];
    if found < begin.len() as u64 {
        return Err(Why::Torn {
            expected: begin.len() as u64,
            found,
        });
    }
    file.read_exact(&mut begin)?;
    let (version, length) = FileHead::length(&begin).ok_or(Why::NoState)?;
    if version != VERSION {
        return Err(Why::Version(version));
    }
    if found < length as u64 {
        return Err(Why::Torn {
            expected: length as u64,
            found,
        });
    }
    let mut bytes = begin.to_vec();
    bytes.resize(length, 0);
    file.read_exact(&mut bytes[begin.len()..])?;
    let head = FileHead::decode(&bytes).ok_or(Why::Damaged { part: "head" })?;
    Ok((bytes, head))
}

/// Compares the sums of all parts with those that were written.
fn check_sums(file: &mut File, bytes: &[u8], head: &FileHead, written: &[u8]) -> Result<Root, Why> {
    file.seek(SeekFrom::Start(bytes.len() as u64))?;
    let mut sums = Sums::new(bytes);
    let mut chunk = Vec::new();
    for (_, length) in &head.table {
        let mut left = *length;
        while left > 0 {
            let size = left.min(CHUNK as u64) as usize;
            chunk.resize(size, 0);
            file.read_exact(&mut chunk)?;
            sums.add(&chunk);
            left -= size as u64;
        }
    }
    let root = sums.root();
    if sums.encode() == written {
        Ok(root)
    } else {
        Err(Why::Damaged { part: "data" })
    }
}

pub(super) fn foreign(tag: &Tag, epoch: u32, wanted: &Wanted) -> Result<(), Why> {
    let pairs = [
        ("job", tag.job, wanted.job.unwrap_or(tag.job)),
        ("rank", tag.rank.into(), wanted.rank.into()),
        ("number of ranks", tag.size.into(), wanted.size.into()),
        ("epoch", tag.epoch.into(), epoch.into()),
    ];
    match pairs.into_iter().find(|(_, found, wanted)| found != wanted) {
        Some((what, found, wanted)) => Err(Why::Foreign {
            what,
            found,
            wanted,
        }),
        None => Ok(()),
    }
}

/// The first region that differs, in words.
fn difference(stored: &[(u32, u64)], registered: &[(u32, u64)]) -> String {
    let find = |table: &[(u32, u64)], id: u32| table.iter().find(|r| r.0 == id).map(|r| r.1);
    let ids = stored.iter().chain(registered).map(|r| r.0);
    for id in ids {
        match (find(stored, id), find(registered, id)) {
            (Some(stored), None) => {
                return format!("region {id} ({stored} bytes) is not registered");
            }
            (None, Some(_)) => return format!("region {id} was not stored"),
            (Some(stored), Some(now)) if stored != now => {
                return format!("region {id} has {now} bytes, {stored} were stored");
            }
            _ => {}
        }
    }
    "another order".to_owned()
}
