//! The mappings of this process, as an image holds them.

use rejoin_image_format::{RESTARTER, RegionAdvice, RegionKind, SavedRegion};
use std::ops::Range;

use super::save_error::SaveError;
use super::scratch_list::ScratchList;
use crate::{anonymous, proc, rank_log_memory, sys, watch};

/// Most regions; the kernel allows 65,530 mappings by default.
const MOST_REGIONS: usize = 1 << 16;
/// Most bytes of all names, and of the kernel's list.
const NAMES: usize = 4 << 20;
const TEXT: usize = 96 << 20;

/// Which pages of a region are saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SavedPages {
    /// No page: nothing of it is in the file.
    None,
    /// Pages that have memory.
    Present,
    /// Pages that differ from the file.
    Changed,
    /// All: their file has no name any more.
    All,
}

/// A region, and which of its pages are saved.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListedRegion {
    pub saved: SavedRegion,
    pub pages: SavedPages,
}

/// The regions of this process and the names of their files.
pub(super) struct RegionList {
    pub regions: ScratchList<ListedRegion>,
    pub names: ScratchList<u8>,
    text: ScratchList<u8>,
}

impl RegionList {
    pub fn new() -> Result<Self, SaveError> {
        Ok(Self {
            regions: ScratchList::new(MOST_REGIONS)?,
            names: ScratchList::new(NAMES)?,
            text: ScratchList::new(TEXT)?,
        })
    }

    /// The addresses of this list.
    pub fn addresses(&self) -> [Range<u64>; 3] {
        [
            self.regions.addresses(),
            self.names.addresses(),
            self.text.addresses(),
        ]
    }

    /// Reads the list. `left_out` are mappings that do not belong to the image. `log_bodies` are
    /// the parts of the log's memory that do, in order.
    pub fn read(
        &mut self,
        left_out: &[Range<u64>],
        log_bodies: &[Range<usize>],
    ) -> Result<(), SaveError> {
        read_maps(&mut self.text)?;
        let page = watch::shared_page();
        for one in proc::flagged(&self.text) {
            let mapping = one.mapping;
            let left_out = left_out.iter().any(|range| range.contains(&mapping.start));
            if left_out || mapping.name == b"[vsyscall]" {
                continue;
            }
            if mapping.start < RESTARTER.end && RESTARTER.start < mapping.end {
                return Err(SaveError::Occupied(mapping.start));
            }
            let own = page
                .as_ref()
                .is_some_and(|r| r.contains(&(mapping.start as usize)));
            // The system call that would give it back is not made.
            if one.key != 0 {
                return Err(SaveError::Mapping(mapping.start));
            }
            let mut listed = with_flags(classify(&mapping, own)?, &one);
            if rank_log_memory::is_its_name(mapping.name) {
                push_log(&mut self.regions, &listed, log_bodies)?;
                continue;
            }
            if listed.saved.kind.has_file() {
                listed.saved.name = self.names.len() as u32;
                listed.saved.name_length = mapping.name.len() as u32;
                self.names.extend(mapping.name)?;
            }
            self.regions.push(listed)?;
        }
        Ok(())
    }
}

/// The same region as the kernel's flags have it.
fn with_flags(mut listed: ListedRegion, one: &proc::FlaggedMapping<'_>) -> ListedRegion {
    let saved = &mut listed.saved;
    let advice = RegionAdvice::ALL.iter().enumerate();
    saved.advice = advice.fold(0, |bits, (at, advice)| {
        bits | u8::from(one.has(advice.flag)) << at
    });
    if saved.kind == RegionKind::Memory && one.has(b"dp") {
        (saved.kind, listed.pages) = (RegionKind::Droppable, SavedPages::None);
    } else if saved.kind == RegionKind::Memory && one.has(b"gd") {
        saved.kind = RegionKind::Stack;
    }
    listed
}

/// The access bits of memory that can be read and written.
const READ_AND_WRITE: u8 = 3;

/// Lists the memory of the log, which is `reserved`: its bodies are memory of the image.
fn push_log(
    regions: &mut ScratchList<ListedRegion>,
    reserved: &ListedRegion,
    bodies: &[Range<usize>],
) -> Result<(), SaveError> {
    let SavedRegion { start, end, .. } = reserved.saved;
    let mut push = |range: Range<u64>, is_body: bool| {
        let mut region = *reserved;
        (region.saved.start, region.saved.end) = (range.start, range.end);
        if is_body {
            region.saved.kind = RegionKind::Memory;
            region.saved.access = READ_AND_WRITE;
            region.pages = SavedPages::All;
        }
        match range.is_empty() {
            true => Ok(()),
            false => regions.push(region),
        }
    };
    let mut at = start;
    for body in bodies {
        let body = (body.start as u64).max(at)..(body.end as u64).min(end);
        if body.is_empty() {
            continue;
        }
        push(at..body.start, false)?;
        at = body.end;
        push(body, true)?;
    }
    push(at..end, false)
}

fn read_maps(text: &mut ScratchList<u8>) -> Result<(), SaveError> {
    let system = |errno| SaveError::System { errno };
    let file = sys::open(c"/proc/self/smaps", libc::O_RDONLY).map_err(system)?;
    let result = loop {
        let room = text.room();
        if room.is_empty() {
            break Err(SaveError::TooMany);
        }
        // SAFETY: pointer and length describe the room.
        let count = unsafe { libc::read(file, room.as_mut_ptr().cast(), room.len()) };
        match sys::check(count as i64) {
            Ok(0) => break Ok(()),
            Ok(count) => text.grow(count as usize),
            Err(libc::EINTR) => {}
            Err(errno) => break Err(system(errno)),
        }
    };
    sys::close(file);
    result
}

/// How a mapping is saved. `is_shared_page`: it is the page that this library shares with its
/// manager.
fn classify(mapping: &proc::Mapping<'_>, is_shared_page: bool) -> Result<ListedRegion, SaveError> {
    let name = mapping.name;
    let is_deleted = name.ends_with(b" (deleted)");
    let is_device = name.starts_with(b"/dev/") && !name.starts_with(b"/dev/shm/");
    let access = [mapping.read, mapping.write, mapping.execute];
    let bits = (0..3).map(|bit| u8::from(access[bit]) << bit).sum();
    let mut saved = SavedRegion {
        start: mapping.start,
        end: mapping.end,
        kind: RegionKind::Memory,
        access: bits,
        advice: 0,
        offset: 0,
        file_length: 0,
        changed: 0,
        name: 0,
        name_length: 0,
        first_extent: 0,
        extents: 0,
    };
    let mut listed = |kind, pages| {
        saved.kind = kind;
        if kind == RegionKind::Reserved {
            saved.access = 0;
        }
        Ok(ListedRegion { saved, pages })
    };
    if is_shared_page || anonymous::is_library_memory(name) {
        return listed(RegionKind::Reserved, SavedPages::None);
    }
    if name.starts_with(b"[vvar") || name == b"[vdso]" {
        return listed(RegionKind::Kernel, SavedPages::None);
    }
    if mapping.shared {
        if mapping.write || is_deleted || is_device || !name.starts_with(b"/") {
            return Err(SaveError::Mapping(mapping.start));
        }
        let listed = listed(RegionKind::SharedFile, SavedPages::None)?;
        return of_file(listed, mapping).ok_or(SaveError::Mapping(mapping.start));
    }
    if name == b"[stack]" {
        return listed(RegionKind::Stack, SavedPages::Present);
    }
    if name.is_empty() || name.starts_with(b"[") || name == b"/dev/zero" {
        return listed(RegionKind::Memory, SavedPages::Present);
    }
    if is_device || !name.starts_with(b"/") {
        return Err(SaveError::Mapping(mapping.start));
    }
    let private = listed(RegionKind::PrivateFile, SavedPages::Changed)?;
    match of_file(private, mapping) {
        Some(region) => Ok(region),
        None => listed(RegionKind::Memory, SavedPages::All),
    }
}

/// The region with the identity of its file. `None` if the name leads to another file by now.
fn of_file(mut listed: ListedRegion, mapping: &proc::Mapping<'_>) -> Option<ListedRegion> {
    let mut path = [0u8; libc::PATH_MAX as usize];
    path.get_mut(..mapping.name.len())?
        .copy_from_slice(mapping.name);
    let path = std::ffi::CStr::from_bytes_until_nul(&path).ok()?;
    let status = sys::path_status(path).ok()?;
    if status.st_ino != mapping.inode {
        return None;
    }
    listed.saved.offset = mapping.offset;
    listed.saved.file_length = status.st_size as u64;
    let seconds = (status.st_mtime as u64).wrapping_mul(1_000_000_000);
    listed.saved.changed = seconds.wrapping_add(status.st_mtime_nsec as u64);
    Some(listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of(line: &[u8]) -> Result<(RegionKind, SavedPages), SaveError> {
        let mapping = proc::mapping(line).expect("a mapping");
        classify(&mapping, false).map(|listed| (listed.saved.kind, listed.pages))
    }

    #[test]
    fn the_bodies_of_a_log_are_memory_of_the_image() {
        let line = b"10000-20000 rw-s 0 00:01 5 /memfd:rejoin-log (deleted)";
        let mapping = proc::mapping(line).expect("a mapping");
        let reserved = classify(&mapping, false).expect("a region");
        let kinds = |bodies: &[Range<usize>]| {
            let mut list = RegionList::new().expect("a list");
            push_log(&mut list.regions, &reserved, bodies).expect("room");
            let of = |one: &ListedRegion| (one.saved.start, one.saved.end, one.pages);
            list.regions.iter().map(of).collect::<Vec<_>>()
        };
        let (no, all) = (SavedPages::None, SavedPages::All);
        assert_eq!(kinds(&[]), [(0x10000, 0x20000, no)]);
        let (first, last) = (0x10000..0x11000, 0x18000..0x20000);
        assert_eq!(
            kinds(&[first, last]),
            [
                (0x10000, 0x11000, all),
                (0x11000, 0x18000, no),
                (0x18000, 0x20000, all)
            ]
        );
        // Of another mapping.
        assert_eq!(
            kinds(&[0x5000..0x6000, 0x30000..0x31000]),
            [(0x10000, 0x20000, no)]
        );
    }

    #[test]
    fn flags_of_mappings_are_kept() {
        let of = |flags: &str| {
            let text = format!("1000-2000 rw-p 0 00:00 0 \nVmFlags: rd wr {flags}\n");
            let one = proc::flagged(text.as_bytes()).next().expect("a mapping");
            let plain = classify(&one.mapping, false).expect("a region");
            let region = with_flags(plain, &one);
            (region.saved.kind, region.saved.advice, region.pages)
        };
        let (present, none) = (SavedPages::Present, SavedPages::None);
        assert_eq!(of("ac"), (RegionKind::Memory, 0, present));
        assert_eq!(of("hg dd"), (RegionKind::Memory, 0b101, present));
        assert_eq!(of("gd nh"), (RegionKind::Stack, 0b10, present));
        assert_eq!(of("wf dp"), (RegionKind::Droppable, 0, none));
    }

    #[test]
    fn mappings_are_saved_by_what_they_are() {
        use RegionKind::{Kernel, Memory, PrivateFile, Reserved, Stack};
        let exe = std::env::current_exe().expect("a program");
        let inode = std::os::unix::fs::MetadataExt::ino(&exe.metadata().expect("its data"));
        let path = exe.display();
        let own = format!("1000-2000 r-xp 00000000 00:01 {inode} {path}");
        let other = format!("1000-2000 r-xp 00000000 00:01 {} {path}", inode + 1);
        for (line, kind, pages) in [
            (
                &b"1000-2000 rw-p 0 00:00 0 "[..],
                Memory,
                SavedPages::Present,
            ),
            (
                b"1000-2000 rw-p 0 00:00 0 [heap]",
                Memory,
                SavedPages::Present,
            ),
            (
                b"1000-2000 rw-p 0 00:00 0 [stack]",
                Stack,
                SavedPages::Present,
            ),
            (b"1000-2000 r-xp 0 00:00 0 [vdso]", Kernel, SavedPages::None),
            (
                b"1000-2000 rw-s 0 00:01 5 /memfd:rejoin-ring (deleted)",
                Reserved,
                SavedPages::None,
            ),
            (
                b"1000-2000 rw-p 0 00:01 5 /tmp/gone (deleted)",
                Memory,
                SavedPages::All,
            ),
            (own.as_bytes(), PrivateFile, SavedPages::Changed),
            (other.as_bytes(), Memory, SavedPages::All),
        ] {
            assert_eq!(
                kind_of(line),
                Ok((kind, pages)),
                "{}",
                String::from_utf8_lossy(line)
            );
        }
        for line in [
            &b"1000-2000 rw-s 0 00:01 5 /dev/shm/x"[..],
            b"1000-2000 r--s 0 00:01 5 anon_inode:[perf_event]",
            b"1000-2000 rw-p 0 00:01 5 /dev/nvidia0",
        ] {
            assert_eq!(kind_of(line), Err(SaveError::Mapping(0x1000)));
        }
    }
}
