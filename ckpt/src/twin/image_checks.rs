//! Checks, before an image is taken, for state that a twin cannot hold.

use super::imager::Imager;
use crate::error::Refused;
use crate::manifest::MappedMemory;
use crate::{children, proc, sys, watch};

impl Imager {
    /// No children that live, but twins and resource trackers.
    pub(super) fn check_children(&mut self, is_direct: bool) -> Result<(), Refused> {
        if (is_direct || self.twins.is_empty()) && !children::has_any() {
            return Ok(());
        }
        match children::youngest(sys::pid(), &self.twins) {
            Ok(None) => Ok(()),
            Ok(Some(child)) => Err(Refused::Children {
                pid: child.pid,
                name: child.name,
            }),
            Err(errno) => Err(Refused::system("list the program's children", errno)),
        }
    }

    /// Whether the program has a child that may end soon, so that an image can be taken then. Safe
    /// in a signal handler.
    #[must_use]
    pub fn has_young_child(&self) -> bool {
        if (self.is_direct() || self.twins.is_empty()) && !children::has_any() {
            return false;
        }
        let youngest = children::youngest(sys::pid(), &self.twins);
        youngest.is_ok_and(|child| child.is_some_and(|child| child.is_young()))
    }

    /// Reads the list of this process's mappings.
    pub(super) fn read_mappings(&mut self) -> Result<(), Refused> {
        sys::read_file(c"/proc/thread-self/maps", &mut self.maps)
            .map_err(|errno| Refused::system("read /proc/thread-self/maps", errno))
    }

    /// The mappings, as they were read last.
    pub(super) fn mappings(&self) -> MappedMemory<'_> {
        MappedMemory {
            text: &self.maps,
            page: watch::shared_page(),
        }
    }

    /// Bytes of private memory that this clone lacks, because the program marked them to stay out
    /// of clones, or to be empty there.
    pub(super) fn missing_bytes(&self) -> u64 {
        let mut text = Vec::with_capacity(self.maps.capacity());
        match sys::read_file(c"/proc/thread-self/maps", &mut text) {
            Ok(()) => uncovered(&self.maps, &text) + self.wiped.emptied_bytes(),
            Err(_) => 0,
        }
    }
}

/// Bytes of the private mappings with any access in `before` that no mapping in `after` covers.
fn uncovered(before: &[u8], after: &[u8]) -> u64 {
    let mut have = proc::lines(after).filter_map(proc::mapping).peekable();
    let mut missing = 0;
    for wanted in proc::lines(before).filter_map(proc::mapping) {
        let has_access = wanted.read || wanted.write || wanted.execute;
        if !has_access || wanted.shared {
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
    fn holes_are_measured() {
        let before = b"0-1000 ---p 0 0:0 0 \n1000-3000 rw-p 0 0:0 0 \n3000-4000 r--p 0 0:0 0 \n5000-8000 rw-p 0 0:0 0 \n";
        assert_eq!(uncovered(before, before), 0);
        let split = b"1000-2000 rw-p 0 0:0 0 \n2000-3000 ---p 0 0:0 0 \n3000-5000 r--p 0 0:0 0 \n5000-9000 rw-p 0 0:0 0 \n";
        assert_eq!(uncovered(before, split), 0);
        let holes = b"1000-2000 rw-p 0 0:0 0 \n6000-7000 rw-p 0 0:0 0 \n";
        assert_eq!(uncovered(before, holes), 0x4000);
        assert_eq!(uncovered(before, b""), 0x6000);
    }
}
