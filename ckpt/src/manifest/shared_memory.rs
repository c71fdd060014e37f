//! Writable memory of a shared kind: anonymous shared memory, memory files (`memfd_create`), and
//! files.
//!
//! A clone would see what is written there later. So an image has a copy of the contents. The
//! zygote gives the memory up, and a restored process makes it anew or writes the copy back.
//!
//! Ranks of one host may share a file. Each mapped part is then in the image of one rank
//! ([`file_share`]), and the ranks put the file back together ([`LateMemory`]).
//! [`crate::host_barrier`] makes sure that the copies match the images of all ranks.

use std::ops::Range;
use std::os::fd::RawFd;

use super::description::Description;
use super::files::Files;
use super::locked_memory::Locked;
use super::open_file::{Cut, Descriptor};
use crate::error::{Refused, WhyShared};
use crate::host_barrier::{self, BarrierPass};
use crate::{anonymous, children, proc, sys};

mod byte_ranges;
mod file_share;
mod late_memory;
mod mapped_file;
mod new_file;
mod other_mappers;

pub use late_memory::LateMemory;
use mapped_file::{Candidate, MappedRange, Origin, SharedFile, memory_name};
use other_mappers::{File, MappedPart, RankMappers};

/// Most bytes of all copies.
const MOST_BYTES: u64 = 1 << 30;

/// All writable shared memory of the process.
#[derive(Default)]
pub(crate) struct SharedMemory {
    files: Vec<SharedFile>,
    /// Generation of the process.
    generation: u32,
}

/// The mappings of the process.
pub(crate) struct MappedMemory<'a> {
    /// The kernel's list.
    pub text: &'a [u8],
    /// The page that this library shares with its manager.
    pub page: Option<Range<usize>>,
}

impl MappedMemory<'_> {
    /// Mappings of the program's that other processes may have, too.
    pub fn shared(&self) -> impl Iterator<Item = proc::Mapping<'_>> {
        let mappings = proc::lines(self.text).filter_map(proc::mapping);
        mappings.filter(|mapping| mapping.shared && !self.is_ours(mapping))
    }

    /// Parts of files that these mappings are.
    fn parts(&self) -> Vec<MappedPart> {
        self.shared()
            .map(|mapping| MappedPart::of(&mapping))
            .collect()
    }

    /// Whether a mapping is this library's.
    fn is_ours(&self, mapping: &proc::Mapping<'_>) -> bool {
        let (from, to) = (mapping.start, mapping.end);
        let within = |page: &Range<usize>| page.start as u64 <= from && to <= page.end as u64;
        anonymous::is_library_memory(mapping.name) || self.page.as_ref().is_some_and(within)
    }
}

/// Ends this process with a message: its memory would not be that of the image.
pub(super) fn end_process(errno: i32) -> ! {
    let text = sys::ShortPath::new(format_args!(
        "rejoin: shared memory can't be made again: error {errno}\n"
    ));
    let _ = sys::write_all(2, text.as_c_str().to_bytes());
    sys::exit(1)
}

/// Waits for the other ranks of this host if this process shares memory with them. `known` are
/// files that it has only read at its last image.
///
/// # Errors
/// [`Refused::OtherRankLate`] and [`Refused::OtherRankFailed`] for a rank that shares memory.
pub(crate) fn await_sharers(
    maps: &MappedMemory<'_>,
    known: &[File],
    pass: &mut BarrierPass,
) -> Result<(), Refused> {
    let parts = maps.parts();
    let is_new = |part: &MappedPart| part.writes || !known.contains(&part.file);
    if pass.is_together() || !parts.iter().any(is_new) {
        return Ok(());
    }
    match RankMappers::find(&parts)?.share(&parts) {
        true => pass.wait_for_all(),
        false => Ok(()),
    }
}

impl SharedMemory {
    /// Reads them. `is_other` are descriptors that do not belong to the program alone.
    /// `is_together`: all ranks of this host are parked. Otherwise none of them shares memory with
    /// this process ([`await_sharers`]).
    ///
    /// # Errors
    /// [`Refused::SharedMemory`] for memory that another process maps, or that can't be made again;
    /// [`Refused::SharedWithHosts`] for a file that ranks of other hosts may map.
    pub fn capture(
        maps: &MappedMemory<'_>,
        all: &[Descriptor],
        is_other: impl Fn(&Descriptor) -> bool,
        is_together: bool,
    ) -> Result<Self, Refused> {
        let mappings: Vec<_> = maps.shared().collect();
        let others = match is_together && !mappings.is_empty() {
            true => RankMappers::find(&maps.parts())?,
            false => RankMappers::default(),
        };
        let mut shared = Self {
            files: Vec::new(),
            generation: host_barrier::this_generation(),
        };
        for mapping in &mappings {
            shared.add(mapping, &mappings, &others)?;
        }
        shared.check_foreign()?;
        shared.add_descriptors(all, is_other);
        shared.read()?;
        Ok(shared)
    }

    /// Adds the file of a mapping, with all its mappings.
    fn add(
        &mut self,
        one: &proc::Mapping<'_>,
        all: &[proc::Mapping<'_>],
        others: &RankMappers,
    ) -> Result<(), Refused> {
        let found = Candidate {
            name: one.name,
            file: (one.device, one.inode),
            bytes: one.end - one.start,
        };
        if !self.has(found.file) {
            let of_file = |m: &&proc::Mapping<'_>| (m.device, m.inode) == found.file;
            let ranges = all.iter().filter(of_file).map(MappedRange::of);
            let file = SharedFile::find(&found, ranges.collect(), others)?;
            self.files.extend(file);
        }
        Ok(())
    }

    /// Checks that no process but ranks of this host maps the same parts.
    fn check_foreign(&self) -> Result<(), Refused> {
        let of_file = |one: &SharedFile| {
            let file = one.file;
            let parts = one.ranges.iter().map(move |range| range.part(file));
            parts.collect::<Vec<_>>()
        };
        let parts: Vec<_> = self.files.iter().flat_map(of_file).collect();
        if parts.is_empty() {
            return Ok(());
        }
        let Some((file, pid)) = other_mappers::find_foreign(&parts) else {
            return Ok(());
        };
        let name = children::name_of(pid);
        match self.files.iter().find(|one| one.file == file) {
            Some(one) => Err(one.refused(WhyShared::Process { pid, name })),
            None => Ok(()),
        }
    }

    /// Whether a file is made again as a whole: nothing else of it is to be kept.
    pub fn is_remade(&self, file: File) -> bool {
        let mut files = self.files.iter().filter(|one| one.can_be_made());
        files.any(|one| one.file == file)
    }

    /// Whether ranks of this host share any part of a file.
    pub fn has_common_part(&self) -> bool {
        self.files.iter().any(|one| one.share.is_common)
    }

    /// In a runner: the files, which are put back when all ranks have joined the job again.
    /// `program` is the program's other state that waits for that.
    pub fn into_late(self, program: (Files, Locked), cut: Cut) -> LateMemory {
        let is_file = |one: &SharedFile| matches!(one.origin, Origin::File(_));
        let files = self.files.into_iter().filter(is_file).collect();
        LateMemory::new((files, self.generation), program, cut)
    }

    /// Whether a file or memory is one of these.
    pub fn has(&self, file: File) -> bool {
        self.files.iter().any(|known| known.file == file)
    }

    /// Adds the numbers of memory files and of files without a name that are mapped, and those
    /// memory files that are not mapped.
    fn add_descriptors(&mut self, all: &[Descriptor], is_other: impl Fn(&Descriptor) -> bool) {
        let is_file = |d: &Descriptor| d.mode & libc::S_IFMT == libc::S_IFREG;
        let is_regular = |d: &&Descriptor| is_file(d) && !is_other(d);
        for one in all.iter().filter(is_regular) {
            let known = self.files.iter().position(|known| known.file == one.file);
            let at = known.unwrap_or(self.files.len());
            match (known, memory_name(one.fd)) {
                (Some(at), _) if self.files[at].is_memory() => {}
                (None, Some(name)) => {
                    let file = SharedFile::new(one.file, Origin::Memory(name));
                    self.files.push(file);
                }
                _ => continue,
            }
            if !self.files[at].descriptions.is_empty() {
                continue;
            }
            let same: Vec<_> = all.iter().filter(|d| d.file == one.file).collect();
            let position = |one: Description| {
                // SAFETY: touches no memory.
                let position = unsafe { libc::lseek(one.number(), 0, libc::SEEK_CUR) };
                (one, position.max(0))
            };
            let descriptions = Description::all(&same).into_iter().map(position);
            self.files[at].descriptions = descriptions.collect();
            self.files[at].length = one.size;
            self.files[at].seals = sys::control(one.fd, libc::F_GET_SEALS, 0).unwrap_or(0);
        }
    }

    /// Whether a descriptor is one of these.
    pub fn holds(&self, fd: RawFd) -> bool {
        let mut all = self.files.iter().flat_map(|file| &file.descriptions);
        all.any(|(one, _)| one.has(fd))
    }

    fn read(&mut self) -> Result<(), Refused> {
        if self.files.is_empty() {
            return Ok(());
        }
        let mut left = MOST_BYTES;
        let memory = sys::open(c"/proc/thread-self/mem", libc::O_RDONLY)
            .map_err(|errno| Refused::system("open /proc/thread-self/mem", errno))?;
        let mut result = Ok(());
        for file in &mut self.files {
            if let Err(errno) = file.read(memory, &mut left) {
                let is_file = matches!(file.origin, Origin::File(_));
                result = Err(match is_file && errno != libc::EFBIG {
                    true => file.refused(WhyShared::Unread { errno }),
                    false => file.too_large(),
                });
                break;
            }
        }
        sys::close(memory);
        result
    }

    /// In the zygote: gives the memory up, and keeps its addresses. `instead` takes the numbers.
    pub fn release(&self, instead: RawFd) {
        for file in &self.files {
            for range in &file.ranges {
                range.reserve();
            }
            for (one, _) in &file.descriptions {
                // The number is open, so this replaces it and cannot run out of anything.
                let _ = one.put(instead);
            }
        }
    }

    /// In the zygote made from a file, whose addresses are kept already.
    pub fn reserve(&self, instead: RawFd) {
        let all = self.files.iter().flat_map(|file| &file.descriptions);
        for (one, _) in all {
            let _ = one.put(instead);
        }
    }

    /// In a runner: makes the memory again. Files are left to [`LateMemory::restore`].
    pub fn restore(&self) -> sys::Sys<()> {
        self.files.iter().try_for_each(|one| match &one.origin {
            Origin::Memory(name) => one.restore_memory(name),
            Origin::File(_) => Ok(()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_librarys_own_shared_memory_is_known() {
        let is_ours = |line: &[u8], page| {
            let maps = MappedMemory { text: line, page };
            maps.is_ours(&proc::mapping(line).expect("a mapping"))
        };
        let file = b"3000-5000 rw-s 00000000 00:01 2 /dev/shm/a b";
        assert!(!is_ours(file, None));
        assert!(is_ours(file, Some(0x3000..0x5000)));
        assert!(!is_ours(file, Some(0x3000..0x4000)));
        let ring = b"1000-2000 rw-s 00000000 00:01 9 /memfd:rejoin-ring (deleted)";
        assert!(is_ours(ring, None));
        let other = b"1000-2000 rw-s 00000000 00:01 9 /memfd:ring (deleted)";
        assert!(!is_ours(other, None));
    }
}
