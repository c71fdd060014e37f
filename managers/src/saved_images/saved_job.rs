//! One job in a folder of images.

use rejoin_ckpt::regions::is_claimed;
use rejoin_ckpt::store::{FolderUse, ImageFolder};
use serde::Serialize;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Whether a job runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Running {
    /// No manager of this host uses its files.
    No,
    /// A manager does.
    Yes,
    /// A manager of another host has left its lock, and only that host can tell; or the next launch
    /// of the job is awaited.
    Unknown,
}

/// How the state of a rank is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum SavedKind {
    /// A process image.
    #[serde(rename = "process image")]
    ProcessImage,
    /// Memory that the program registered.
    #[serde(rename = "registered regions")]
    Regions,
}

/// The state of one rank at one checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SavedFile {
    /// The rank.
    pub rank: u32,
    /// Where it is.
    pub path: PathBuf,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// When it was written, in seconds since 1970.
    pub written: u64,
    /// The file was written to its end.
    pub whole: bool,
    /// Earlier files that it refers to.
    pub earlier_files: u32,
    /// Build of the library that wrote it.
    pub build: Option<String>,
    /// Why its head can't be read.
    pub problem: Option<String>,
}

/// The files of one checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SavedCheckpoint {
    /// Number of the checkpoint. Registered regions have numbers of their own.
    pub number: u32,
    /// How the state is stored.
    pub kind: SavedKind,
    /// There is a whole file of every rank, and the heads of all can be read.
    pub complete: bool,
    /// The job has committed it last.
    pub committed: bool,
    /// Files of the checkpoint, in the order of ranks.
    pub files: Vec<SavedFile>,
}

/// A job.
#[derive(Debug, Clone, Serialize)]
pub struct SavedJob {
    /// Name of the job, or `job-` and its id.
    pub name: String,
    /// Id of the job in hexadecimal digits, if a file tells it.
    pub id: Option<String>,
    /// How many ranks it has, if a file tells that.
    pub ranks: Option<u32>,
    /// Programs of the job, if it has left a record.
    pub programs: Vec<String>,
    /// Whether it runs.
    pub running: Running,
    /// The host whose manager uses its files, or may.
    pub host: Option<String>,
    /// Why its record can't be used.
    pub problem: Option<String>,
    /// What it has stored, the oldest first.
    pub checkpoints: Vec<SavedCheckpoint>,
    /// The job has a record, which makes it one that can be restarted.
    #[serde(skip)]
    pub(super) is_named: bool,
    #[serde(skip)]
    pub(super) number: Option<u64>,
    #[serde(skip)]
    pub(super) folder: ImageFolder,
}

impl SavedFile {
    /// Another file, of which only its place is known.
    pub(super) fn new(rank: u32, path: PathBuf, bytes: u64, written: SystemTime) -> SavedFile {
        let written = written.duration_since(UNIX_EPOCH).unwrap_or_default();
        SavedFile {
            rank,
            path,
            bytes,
            written: written.as_secs(),
            whole: true,
            earlier_files: 0,
            build: None,
            problem: None,
        }
    }
}

impl SavedCheckpoint {
    /// Bytes of its files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// When its last file was written, in seconds since 1970.
    #[must_use]
    pub fn written(&self) -> u64 {
        let written = self.files.iter().map(|file| file.written);
        written.max().unwrap_or_default()
    }

    /// Ranks of which there is a whole file.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.files.iter().filter(|file| file.whole).count()
    }
}

impl SavedJob {
    /// A job of this name, in a folder of images of which nothing is known yet.
    pub(super) fn new(name: String, folder: ImageFolder) -> SavedJob {
        SavedJob {
            name,
            id: None,
            ranks: None,
            programs: Vec::new(),
            running: Running::No,
            host: None,
            problem: None,
            checkpoints: Vec::new(),
            is_named: false,
            number: None,
            folder,
        }
    }

    /// The id, which a file has told.
    pub(super) fn has_id(&mut self, id: u64) {
        self.number = Some(id);
        self.id = Some(format!("{id:016x}"));
    }

    /// Looks again whether it runs.
    pub(super) fn look_for_managers(&mut self) {
        let host = nix::unistd::gethostname().unwrap_or_default();
        let host = host.to_string_lossy();
        let images = self.folder.path().parent();
        let job = images.zip(self.number);
        (self.running, self.host) = match self.folder.in_use(&host) {
            // Its mpirun, which runs here, may have no manager in the folder of process images.
            FolderUse::Free if job.is_some_and(|(images, job)| is_claimed(images, job)) => {
                (Running::Yes, Some(host.into_owned()))
            }
            FolderUse::Free => (Running::No, None),
            FolderUse::ByHost(host) => (Running::Yes, Some(host)),
            FolderUse::Unknown(host) => (Running::Unknown, Some(host)),
            FolderUse::Awaited => (Running::Unknown, None),
        };
    }

    /// The last complete checkpoints of a kind, the newest first.
    pub(super) fn newest_complete(&self, kind: SavedKind) -> impl Iterator<Item = u32> {
        let complete = self.checkpoints.iter().rev();
        let complete = complete.filter(move |one| one.kind == kind && one.complete);
        complete.map(|one| one.number)
    }
}
