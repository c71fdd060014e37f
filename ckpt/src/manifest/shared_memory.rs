//! Writable memory of a shared kind: anonymous shared memory, memory files (`memfd_create`), and
//! files.
//!
//! A clone would see what is written there later. So an image has a copy of the contents. The
//! zygote gives the memory up, and a restored process makes it anew or writes the copy back.
//!
//! Ranks of one host may share a file. The first rank that writes to it then has the copy of all,
//! and makes the file again; the others map it later ([`LateMemory`]). [`crate::host_barrier`]
//! makes sure that the copy matches the images of all ranks.

use std::ops::Range;
use std::os::fd::RawFd;

use super::description::Description;
use super::open_file::Descriptor;
use crate::error::Refused;
use crate::host_barrier::{self, BarrierPass};
use crate::{anonymous, proc, sys};

mod late_memory;
mod mapped_file;
mod other_mappers;

pub use late_memory::LateMemory;
use mapped_file::{Candidate, Maker, MappedRange, Origin, SharedFile, memory_name};
use other_mappers::{File, MappedPart, RankMappers};

/// Most bytes of all copies.
const MOST_BYTES: u64 = 1 << 30;

/// All of them.
#[derive(Default)]
pub(crate) struct SharedMemory {
    files: Vec<SharedFile>,
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

impl SharedMemory {
    /// Reads them. `is_other` are descriptors that do not belong to the program alone. Waits for
    /// the other ranks of this host if it shares memory with them.
    ///
    /// # Errors
    /// [`Refused::SharedMemory`] for memory that another process maps, or that can't be made again;
    /// [`Refused::OtherRankLate`] and [`Refused::OtherRankFailed`] for a rank that shares memory.
    pub fn capture(
        maps: &MappedMemory<'_>,
        all: &[Descriptor],
        is_other: impl Fn(&Descriptor) -> bool,
        pass: &mut BarrierPass,
    ) -> Result<Self, Refused> {
        let mappings: Vec<_> = maps.shared().collect();
        let mut shared = Self::default();
        for mapping in mappings.iter().filter(|mapping| mapping.write) {
            shared.add(mapping, &mappings)?;
        }
        let parts: Vec<_> = mappings.iter().map(MappedPart::of).collect();
        let is_seen = pass.is_together() || !shared.files.is_empty();
        if is_seen && !parts.is_empty() {
            let mut others = RankMappers::find(&parts);
            if others.share(&parts) && !pass.is_together() {
                pass.wait_for_all()?;
                // From here on no rank changes anything.
                others = RankMappers::find(&parts);
            }
            shared.assign(&others, &mappings)?;
            shared.check_foreign()?;
        }
        shared.add_descriptors(all, is_other);
        shared.read()?;
        Ok(shared)
    }

    /// Adds the file of a mapping, with all its mappings.
    fn add(&mut self, one: &proc::Mapping<'_>, all: &[proc::Mapping<'_>]) -> Result<(), Refused> {
        let found = Candidate {
            name: one.name,
            file: (one.device, one.inode),
            bytes: one.end - one.start,
        };
        if self.has(found.file) {
            return Ok(());
        }
        let of_file = |m: &&proc::Mapping<'_>| (m.device, m.inode) == found.file;
        let ranges = all.iter().filter(of_file).map(MappedRange::of);
        self.files.push(SharedFile::find(&found, ranges.collect())?);
        Ok(())
    }

    /// Finds out which rank makes each file again.
    fn assign(
        &mut self,
        others: &RankMappers,
        mappings: &[proc::Mapping<'_>],
    ) -> Result<(), Refused> {
        for mapping in mappings {
            let file = (mapping.device, mapping.inode);
            if others.first_writer(file).is_some() {
                // Also those that this process only reads.
                self.add(mapping, mappings)?;
            }
        }
        let me = host_barrier::this_rank();
        for one in &mut self.files {
            if !others.have(one.file) {
                continue;
            }
            if matches!(one.origin, Origin::Memory(_)) {
                return Err(one.refused());
            }
            let mine = one.ranges.iter().any(MappedRange::is_written).then_some(me);
            let first = others.first_writer(one.file).into_iter().chain(mine).min();
            one.maker = match first {
                Some(first) if first != me => Maker::Rank(first),
                _ => Maker::ThisRank,
            };
        }
        Ok(())
    }

    /// Checks that no other process maps what this process makes again: of a file that ranks share,
    /// any part.
    fn check_foreign(&self) -> Result<(), Refused> {
        let mut parts = Vec::new();
        for one in &self.files {
            match one.maker {
                Maker::Alone => parts.extend(one.ranges.iter().map(|range| range.part(one.file))),
                Maker::ThisRank => parts.push(MappedPart::whole(one.file)),
                Maker::Rank(_) => {}
            }
        }
        if parts.is_empty() {
            return Ok(());
        }
        let found = other_mappers::find_foreign(&parts);
        match self.files.iter().find(|one| Some(one.file) == found) {
            Some(one) => Err(one.refused()),
            None => Ok(()),
        }
    }

    /// Whether ranks of this host share a file.
    pub fn is_of_ranks(&self, file: File) -> bool {
        let mut files = self.files.iter().filter(|one| one.maker != Maker::Alone);
        files.any(|one| one.file == file)
    }

    /// Whether ranks of this host share any of them.
    pub fn has_any_of_ranks(&self) -> bool {
        self.files.iter().any(|one| one.maker != Maker::Alone)
    }

    /// The files that are mapped.
    pub fn mapped_files(&self) -> impl Iterator<Item = File> + '_ {
        let mapped = self.files.iter().filter(|one| !one.ranges.is_empty());
        mapped.map(|one| one.file)
    }

    /// In a runner: what it maps when other ranks have made it.
    pub fn into_late(self) -> LateMemory {
        let of_other = |one: SharedFile| match one.maker {
            Maker::Rank(rank) => Some((rank, one)),
            _ => None,
        };
        let is_shared = self.has_any_of_ranks();
        let files = self.files.into_iter().filter_map(of_other).collect();
        LateMemory::of(files, is_shared)
    }

    /// Whether a file or memory is one of these.
    pub fn has(&self, file: File) -> bool {
        self.files.iter().any(|known| known.file == file)
    }

    /// Adds the numbers of memory files, and those files that are not mapped.
    fn add_descriptors(&mut self, all: &[Descriptor], is_other: impl Fn(&Descriptor) -> bool) {
        let is_file = |d: &Descriptor| d.mode & libc::S_IFMT == libc::S_IFREG;
        let is_regular = |d: &&Descriptor| is_file(d) && !is_other(d);
        for one in all.iter().filter(is_regular) {
            let Some(name) = memory_name(one.fd) else {
                continue;
            };
            let known = self.files.iter().position(|known| known.file == one.file);
            let at = known.unwrap_or(self.files.len());
            if known.is_none() {
                self.files
                    .push(SharedFile::new(one.file, Origin::Memory(name)));
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
                let is_of_others = file.maker == Maker::ThisRank && errno != libc::EFBIG;
                result = Err(match is_of_others {
                    true => file.refused(),
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

    /// In a runner: makes the memory again, and writes the contents of files back. What other ranks
    /// make is left to [`LateMemory::map`].
    pub fn restore(&self) -> sys::Sys<()> {
        let is_mine = |one: &&SharedFile| !matches!(one.maker, Maker::Rank(_));
        let mut mine = self.files.iter().filter(is_mine);
        mine.try_for_each(SharedFile::restore)
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
