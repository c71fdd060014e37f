//! Memory that the kernel empties in clones (`MADV_WIPEONFORK`).
//!
//! A twin is the rank, and not a child that the program forks: it must have this memory. So the
//! kernel's mark is away while the clone is made, and is set again in a runner. Only the list of
//! mappings with their flags (`smaps`) tells of marks. The kernel counts all pages for it, which
//! takes half as long as a clone. So it is read only if a mark may be new, and the twin finds out
//! whether one was missed ([`WipedMemory::emptied_bytes`]).

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{proc, sys};

/// Address of the page that stays empty in twins.
static SECRET: AtomicUsize = AtomicUsize::new(0);

/// The page at this address, which the caller has marked, stays empty in twins and is in no file.
pub fn keep_out_of_images(page: usize) {
    SECRET.store(page, Ordering::Relaxed);
}

/// A new mapping up to this length may have a mark; a longer one hardly has.
const SHORT: u64 = 1 << 20;
/// Pages at the beginning of a mapping that are looked at.
const LOOKED_AT: usize = 512;
const PAGE: u64 = 4096;

/// Memory with a mark, as it was last listed.
#[derive(Debug, Default)]
pub(crate) struct WipedMemory {
    marked: Vec<Range<u64>>,
    /// Mappings that had pages at the last image.
    in_use: Vec<Range<u64>>,
    /// Tells short mappings from those at another time.
    seen: Option<u64>,
}

/// Whether the page that stays empty in twins lies there.
fn has_secret(range: &Range<u64>) -> bool {
    range.contains(&(SECRET.load(Ordering::Relaxed) as u64))
}

/// Mappings that may have a mark.
fn candidates(maps: &[u8]) -> impl Iterator<Item = Range<u64>> {
    let all = proc::lines(maps).filter_map(proc::mapping);
    let found = all.filter(|one| !one.shared && one.inode == 0 && one.write);
    found.map(|one| one.start..one.end)
}

fn length(range: &Range<u64>) -> u64 {
    range.end - range.start
}

/// Identifies the short mappings (FNV-1a of their addresses).
fn fingerprint(maps: &[u8]) -> u64 {
    let short = candidates(maps).filter(|range| length(range) <= SHORT);
    let words = short.flat_map(|range| [range.start, range.end]);
    words.fold(0xcbf2_9ce4_8422_2325, |hash, word| {
        (hash ^ word).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Memory with a mark in the text of `smaps`. What the kernel may drop at any time is none that a
/// program relies on.
fn marked(smaps: &[u8]) -> Vec<Range<u64>> {
    let all = proc::flagged(smaps).filter(|one| one.has(b"wf") && !one.has(b"dp"));
    let ranges = all.map(|one| one.mapping.start..one.mapping.end);
    ranges.filter(|range| !has_secret(range)).collect()
}

fn read() -> Vec<Range<u64>> {
    let mut text = Vec::new();
    match sys::read_file(c"/proc/thread-self/smaps", &mut text) {
        Ok(()) => marked(&text),
        Err(_) => Vec::new(),
    }
}

/// Whether the first pages of a mapping have any that is in memory.
fn is_in_use(range: &Range<u64>) -> bool {
    let mut pages = [0u8; LOOKED_AT];
    let bytes = length(range).min(LOOKED_AT as u64 * PAGE) as usize;
    // SAFETY: there is room for a byte per page.
    unsafe { libc::mincore(range.start as *mut libc::c_void, bytes, pages.as_mut_ptr()) };
    pages.iter().any(|page| page & 1 != 0)
}

impl WipedMemory {
    /// Reads the list if it may have changed, or the last image may have missed something. `maps`
    /// are the present mappings.
    pub fn find(&mut self, maps: &[u8], is_uncertain: bool) {
        let seen = Some(fingerprint(maps));
        if is_uncertain || !self.marked.is_empty() || seen != self.seen {
            self.marked = read();
        }
        self.seen = seen;
        self.in_use.clear();
        // The clone would find the secret's page empty each time, and read the list for it.
        let in_use = candidates(maps).filter(|range| !has_secret(range) && is_in_use(range));
        self.in_use.extend(in_use);
    }

    /// Sets the marks, or takes them away.
    pub fn mark(&self, is_marked: bool) {
        let advice = match is_marked {
            true => libc::MADV_WIPEONFORK,
            false => libc::MADV_KEEPONFORK,
        };
        for range in &self.marked {
            // SAFETY: the advice changes no contents of this process.
            unsafe { libc::madvise(range.start as *mut _, length(range) as usize, advice) };
        }
    }

    /// In the clone: bytes that the kernel has emptied.
    pub fn emptied_bytes(&self) -> u64 {
        match self.in_use.iter().all(is_in_use) {
            true => 0,
            false => read().iter().map(length).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_found() {
        let text = b"1000-2000 rw-p 0 00:00 0 \nVmFlags: rd wr wf\n2000-3000 rw-p 0 00:00 0 \nVmFlags: rd wr wf dd dp\n3000-4000 rw-p 0 00:00 0 \nVmFlags: rd wr\n";
        let found = marked(text);
        let found = found.iter().map(|range| (range.start, range.end));
        assert!(found.eq([(0x1000, 0x2000)]));
    }

    #[test]
    fn a_new_short_mapping_is_noticed() {
        let maps = b"1000-2000 rw-p 0 00:00 0 \n3000-4000 rw-s 0 00:01 5 /a\n".as_slice();
        let more = b"1000-2000 rw-p 0 00:00 0 \n2000-3000 rw-p 0 00:00 0 \n".as_slice();
        assert_ne!(fingerprint(maps), fingerprint(more));
        assert_eq!(candidates(maps).count(), 1);
    }

    #[test]
    fn twins_do_not_look_for_the_secret() {
        let page = || {
            let (rights, how) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
            let how = how | libc::MAP_ANONYMOUS;
            // SAFETY: new pages, which the kernel keeps apart by the mark, and a write to them.
            unsafe {
                let at = libc::mmap(std::ptr::null_mut(), 4096, rights, how, -1, 0);
                assert_ne!(at, libc::MAP_FAILED);
                assert_eq!(libc::madvise(at, 4096, libc::MADV_WIPEONFORK), 0);
                at.cast::<u8>().write(1);
                at.addr()
            }
        };
        let (own, secret) = (page(), page());
        keep_out_of_images(secret);
        let maps = std::fs::read("/proc/thread-self/maps").expect("the mappings");
        let mut memory = WipedMemory::default();
        memory.find(&maps, false);
        let has =
            |list: &[Range<u64>], page: usize| list.iter().any(|r| r.contains(&(page as u64)));
        // They lie side by side or not: then one mapping has both, and none is looked for.
        assert!(!has(&memory.in_use, secret) && !has(&memory.marked, secret));
        assert_eq!(has(&memory.in_use, own), has(&memory.marked, own));
    }
}
