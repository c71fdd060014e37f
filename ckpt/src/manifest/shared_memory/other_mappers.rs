//! Other processes that map the files of this one.

use crate::{host_barrier, proc, sys};

/// Identity of a file: its file system and its number there.
pub(super) type File = (u64, u64);

/// A part of a file that a process maps.
#[derive(Debug, Clone, Copy)]
pub(super) struct MappedPart {
    pub file: File,
    pub from: u64,
    pub to: u64,
    pub writes: bool,
}

impl MappedPart {
    pub fn of(mapping: &proc::Mapping<'_>) -> Self {
        Self {
            file: (mapping.device, mapping.inode),
            from: mapping.offset,
            to: mapping.offset + (mapping.end - mapping.start),
            writes: mapping.write,
        }
    }

    /// All of a file.
    pub fn whole(file: File) -> Self {
        Self {
            file,
            from: 0,
            to: u64::MAX,
            writes: true,
        }
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.file == other.file && self.from < other.to && other.from < self.to
    }
}

/// A rank of this host that maps such a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RankMapping {
    file: File,
    rank: u32,
    writes: bool,
}

/// The other ranks of this host that map files of this process.
#[derive(Debug, Default)]
pub(super) struct RankMappers {
    mappings: Vec<RankMapping>,
}

impl RankMappers {
    /// Looks at the ranks of this host.
    pub fn find(parts: &[MappedPart]) -> Self {
        let (mut mappings, mut text) = (Vec::new(), Vec::new());
        for (rank, pid) in host_barrier::others() {
            each_shared(pid, &mut text, |their| {
                if parts.iter().any(|part| part.file == their.file) {
                    mappings.push(RankMapping {
                        file: their.file,
                        rank,
                        writes: their.writes,
                    });
                }
            });
        }
        Self { mappings }
    }

    /// Whether a rank writes to a file of these that this process maps, or maps a file that this
    /// process writes to.
    pub fn share(&self, parts: &[MappedPart]) -> bool {
        let writes = |file| parts.iter().any(|part| part.file == file && part.writes);
        let mut all = self.mappings.iter();
        all.any(|one| one.writes || writes(one.file))
    }

    /// Whether a rank maps this file.
    pub fn have(&self, file: File) -> bool {
        self.mappings.iter().any(|one| one.file == file)
    }

    /// The first of them that writes to this file.
    pub fn first_writer(&self, file: File) -> Option<u32> {
        let is_writer = |one: &&RankMapping| one.file == file && one.writes;
        let writers = self.mappings.iter().filter(is_writer);
        writers.map(|one| one.rank).min()
    }
}

/// A file of these parts that a process maps which is no rank of this host. A stopped process does
/// not count: it takes no image, or it is an earlier instance of a rank.
pub(super) fn find_foreign(parts: &[MappedPart]) -> Option<File> {
    let (me, ranks, mut found) = (sys::pid(), host_barrier::others(), None);
    let (mut text, mut status) = (Vec::new(), Vec::new());
    let _ = sys::numbers_in(c"/proc", |pid| {
        if pid == me || found.is_some() || ranks.iter().any(|(_, of)| *of == pid) {
            return;
        }
        let mut same = None;
        each_shared(pid, &mut text, |their| {
            if parts.iter().any(|part| part.overlaps(their)) {
                same = Some(their.file);
            }
        });
        if same.is_some() && !is_stopped(pid, &mut status) {
            found = same;
        }
    });
    found
}

/// Whether a process maps a file, shared.
pub(super) fn maps(pid: i32, file: File) -> bool {
    let mut found = false;
    each_shared(pid, &mut Vec::new(), |their| found |= their.file == file);
    found
}

/// Calls `each` with what a process maps that others may have, too. A process of another user, or
/// one that is gone, has nothing.
fn each_shared(pid: i32, text: &mut Vec<u8>, mut each: impl FnMut(&MappedPart)) {
    let path = sys::ShortPath::new(format_args!("/proc/{pid}/maps"));
    if sys::read_file(path.as_c_str(), text).is_ok() {
        let mappings = proc::lines(text).filter_map(proc::mapping);
        let shared = mappings.filter(|mapping| mapping.shared);
        shared.for_each(|mapping| each(&MappedPart::of(&mapping)));
    }
}

fn is_stopped(pid: i32, text: &mut Vec<u8>) -> bool {
    let path = sys::ShortPath::new(format_args!("/proc/{pid}/status"));
    let read = sys::read_file(path.as_c_str(), text);
    read.is_ok() && proc::field(text, "State:").is_some_and(|state| state.starts_with(b"T"))
}
