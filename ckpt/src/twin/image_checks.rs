//! Checks, before an image is taken, for state that a twin cannot hold.

use std::ops::Range;

use super::imager::Imager;
use crate::error::Refused;
use crate::{anonymous, proc, sys, watch};

impl Imager {
    /// No children but twins.
    pub(super) fn check_children(&mut self, is_direct: bool) -> Result<(), Refused> {
        if (is_direct || self.twins.is_empty()) && !has_children() {
            return Ok(());
        }
        let mut is_known = true;
        let listed = sys::numbers_in(c"/proc/self/task", |tid| {
            is_known &= self.has_only_twins(tid);
        });
        if listed.is_ok() && is_known {
            Ok(())
        } else {
            Err(Refused::Children)
        }
    }

    /// Whether all children of a thread are twins.
    fn has_only_twins(&mut self, tid: i32) -> bool {
        let list = sys::ShortPath::new(format_args!("/proc/self/task/{tid}/children"));
        if sys::read_file(list.as_c_str(), &mut self.maps).is_err() {
            return false;
        }
        let mut children = proc::words(self.maps.trim_ascii()).map(proc::number);
        children.all(|n| n.is_some_and(|n| self.twins.iter().any(|t| *t as u64 == n)))
    }

    /// No writable memory that other processes write too, except the library's own.
    pub(super) fn check_mappings(&mut self) -> Result<(), Refused> {
        sys::read_file(c"/proc/thread-self/maps", &mut self.maps)
            .map_err(|errno| Refused::system("read /proc/thread-self/maps", errno))?;
        match foreign_shared(&self.maps, watch::shared_page().as_ref()) {
            None => Ok(()),
            Some(found) => Err(Refused::SharedMemory {
                bytes: found.end - found.start,
                name: String::from_utf8_lossy(found.name).into_owned(),
            }),
        }
    }

    /// Bytes of private writable memory that this clone lacks, because the program marked them to
    /// stay out of clones.
    pub(super) fn missing_bytes(&self) -> u64 {
        let mut text = Vec::with_capacity(self.maps.capacity());
        match sys::read_file(c"/proc/thread-self/maps", &mut text) {
            Ok(()) => uncovered(&self.maps, &text),
            Err(_) => 0,
        }
    }
}

/// Whether this process has any child, dead or alive, of any kind.
fn has_children() -> bool {
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    // SAFETY: `siginfo_t` is plain data that the call fills in.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        libc::waitid(libc::P_ALL, 0, &mut info, flags) == 0 || sys::errno() != libc::ECHILD
    }
}

/// The first shared writable mapping that is neither a link's memory nor within `page`.
fn foreign_shared<'a>(maps: &'a [u8], page: Option<&Range<usize>>) -> Option<proc::Mapping<'a>> {
    let is_ours = |m: &proc::Mapping<'_>| {
        anonymous::is_link_memory(m.name)
            || page.is_some_and(|r| r.start as u64 <= m.start && m.end <= r.end as u64)
    };
    let all = proc::lines(maps).filter_map(proc::mapping);
    all.into_iter().find(|m| m.write && m.shared && !is_ours(m))
}

/// Bytes of the writable private mappings in `before` that no mapping in `after` covers.
fn uncovered(before: &[u8], after: &[u8]) -> u64 {
    let mut have = proc::lines(after).filter_map(proc::mapping).peekable();
    let mut missing = 0;
    for wanted in proc::lines(before).filter_map(proc::mapping) {
        if !wanted.write || wanted.shared {
            continue;
        }
        let mut from = wanted.start;
        while from < wanted.end {
            match have.peek() {
                Some(m) if m.end <= from => drop(have.next()),
                Some(m) if m.start <= from => from = m.end,
                Some(m) => {
                    let until = m.start.min(wanted.end);
                    missing += until - from;
                    from = until;
                }
                None => {
                    missing += wanted.end - from;
                    from = wanted.end;
                }
            }
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_librarys_own_shared_memory_is_let_pass() {
        let maps = b"1000-2000 r--s 00000000 00:00 1 /etc/x\n3000-5000 rw-s 00000000 00:01 2 /dev/shm/a b\n";
        let found = foreign_shared(maps, None).expect("the second mapping");
        assert_eq!((found.start, found.name), (0x3000, &b"/dev/shm/a b"[..]));
        assert_eq!(foreign_shared(maps, Some(&(0x3000..0x5000))), None);
        assert!(foreign_shared(maps, Some(&(0x3000..0x4000))).is_some());
        let ring = b"1000-2000 rw-s 00000000 00:01 9 /memfd:rejoin-ring (deleted)\n";
        assert_eq!(foreign_shared(ring, None), None);
        let other = b"1000-2000 rw-s 00000000 00:01 9 /memfd:ring (deleted)\n";
        assert!(foreign_shared(other, None).is_some());
    }

    #[test]
    fn holes_are_measured() {
        let before = b"1000-3000 rw-p 0 0:0 0 \n3000-4000 r--p 0 0:0 0 \n5000-8000 rw-p 0 0:0 0 \n";
        assert_eq!(uncovered(before, before), 0);
        let split = b"1000-2000 rw-p 0 0:0 0 \n2000-3000 ---p 0 0:0 0 \n5000-9000 rw-p 0 0:0 0 \n";
        assert_eq!(uncovered(before, split), 0);
        let holes = b"1000-2000 rw-p 0 0:0 0 \n6000-7000 rw-p 0 0:0 0 \n";
        assert_eq!(uncovered(before, holes), 0x3000);
        assert_eq!(uncovered(before, b""), 0x5000);
    }
}
