//! Other processes that map the files of this one.

use crate::error::Refused;
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
            to: mapping.offset.saturating_add(mapping.end - mapping.start),
            writes: mapping.write,
        }
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.file == other.file && self.from < other.to && other.from < self.to
    }
}

/// The other ranks of this host that map files of this process.
#[derive(Debug, Default)]
pub(super) struct RankMappers {
    /// Parts of files that these ranks map, each with its rank.
    parts: Vec<(u32, MappedPart)>,
}

impl RankMappers {
    /// The ranks that map these parts.
    #[cfg(test)]
    pub fn of(parts: Vec<(u32, MappedPart)>) -> Self {
        Self { parts }
    }

    /// Looks at the ranks of this host.
    ///
    /// # Errors
    /// [`Refused::System`] for a rank that can't be looked at.
    pub fn find(parts: &[MappedPart]) -> Result<Self, Refused> {
        Self::find_by(|file| parts.iter().any(|part| part.file == file))
            .map_err(|errno| Refused::system("read the mappings of another rank", errno))
    }

    /// Looks for mappings of these files.
    pub fn find_by(is_wanted: impl Fn(File) -> bool) -> sys::Sys<Self> {
        let (mut found, mut text) = (Vec::new(), Vec::new());
        for (rank, pid) in host_barrier::others() {
            let read = each_shared(pid, &mut text, |their| {
                if is_wanted(their.file) {
                    found.push((rank, *their));
                }
            });
            match read {
                // Nothing is left of the process.
                Ok(()) | Err(libc::ENOENT | libc::ESRCH) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(Self { parts: found })
    }

    /// Whether a rank writes to a file of these that this process maps, or maps a file that this
    /// process writes to.
    pub fn share(&self, parts: &[MappedPart]) -> bool {
        let writes = |file| parts.iter().any(|part| part.file == file && part.writes);
        let mut all = self.parts.iter();
        all.any(|(_, part)| part.writes || writes(part.file))
    }

    /// What ranks map of a file.
    pub fn of_file(&self, file: File) -> impl Iterator<Item = (u32, &MappedPart)> {
        let of_file = self.parts.iter().filter(move |(_, part)| part.file == file);
        of_file.map(|(rank, part)| (*rank, part))
    }

    /// Whether a rank maps a file.
    pub fn has(&self, rank: u32, file: File) -> bool {
        self.of_file(file).any(|(of, _)| of == rank)
    }
}

/// A file of these parts that a process maps which is no rank of this host, and the number of that
/// process. A process of this job that is stopped does not count: it is an earlier instance of a
/// rank.
pub(super) fn find_foreign(parts: &[MappedPart]) -> Option<(File, i32)> {
    let (me, ranks, job) = (sys::pid(), host_barrier::others(), host_barrier::identity());
    let mut found = None;
    let (mut text, mut status) = (Vec::new(), Vec::new());
    let _ = sys::numbers_in(c"/proc", |pid| {
        if pid == me || found.is_some() || ranks.iter().any(|(_, of)| *of == pid) {
            return;
        }
        let (mut same, mut is_of_job) = (None, job.is_none());
        // A process of another user, or one that is gone, has nothing.
        let _ = each_shared(pid, &mut text, |their| {
            is_of_job |= Some(their.file) == job;
            if parts.iter().any(|part| part.overlaps(their)) {
                same = Some(their.file);
            }
        });
        if let Some(file) = same.filter(|_| !(is_of_job && is_stopped(pid, &mut status))) {
            found = Some((file, pid));
        }
    });
    found
}

/// Whether a process has ended, or is about to: nothing is mapped there any more.
pub(super) fn has_ended(pid: i32) -> bool {
    let (path, mut text) = (
        sys::ShortPath::new(format_args!("/proc/{pid}/maps")),
        Vec::new(),
    );
    match sys::read_file(path.as_c_str(), &mut text) {
        Ok(()) => text.is_empty(),
        Err(errno) => matches!(errno, libc::ENOENT | libc::ESRCH),
    }
}

/// The first of these ranks, with their processes, that has a descriptor of a file.
pub(super) fn find_descriptor(ranks: &[(u32, i32)], file: File) -> Option<u32> {
    let has_it = |pid: i32| {
        let mut is_found = false;
        let list = sys::ShortPath::new(format_args!("/proc/{pid}/fd"));
        // A process that is gone has nothing.
        let _ = sys::numbers_in(list.as_c_str(), |fd| {
            let path = sys::ShortPath::new(format_args!("/proc/{pid}/fd/{fd}"));
            is_found |= sys::status_of(path.as_c_str()) == Ok(file);
        });
        is_found
    };
    let found = ranks.iter().find(|(_, pid)| has_it(*pid));
    found.map(|(rank, _)| *rank)
}

/// Calls `each` with what a process maps that others may have, too.
fn each_shared(pid: i32, text: &mut Vec<u8>, mut each: impl FnMut(&MappedPart)) -> sys::Sys<()> {
    let path = sys::ShortPath::new(format_args!("/proc/{pid}/maps"));
    sys::read_file(path.as_c_str(), text)?;
    let mappings = proc::lines(text).filter_map(proc::mapping);
    let shared = mappings.filter(|mapping| mapping.shared);
    shared.for_each(|mapping| each(&MappedPart::of(&mapping)));
    Ok(())
}

fn is_stopped(pid: i32, text: &mut Vec<u8>) -> bool {
    let path = sys::ShortPath::new(format_args!("/proc/{pid}/status"));
    let read = sys::read_file(path.as_c_str(), text);
    read.is_ok() && proc::field(text, "State:").is_some_and(|state| state.starts_with(b"T"))
}
