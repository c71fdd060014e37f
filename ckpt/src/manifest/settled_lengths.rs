//! Files that the library writes for the program, and of which it knows more than the system.
//!
//! The library may undo its writes itself. Of such a file an image keeps nothing, and a restore
//! leaves it alone.
//!
//! Otherwise several ranks may write a file together, and each knows what it has written.
//! Ranks take their images one after the other. So an image of a file may have the bytes of one
//! rank, and a gap where another one has not written yet, or what a lost run has left behind the
//! end. Such an image keeps the file up to the end of what its own rank has written: what lies
//! behind is in the image of its writer, or is written again after a rollback.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Most files that are noted; all of a further one is kept.
const MOST: usize = 64;

static FILES: [NotedFile; MOST] = [const { NotedFile::new() }; MOST];

/// A file. The thread in the library notes it; images are taken while no thread does.
struct NotedFile {
    is_used: AtomicBool,
    device: AtomicU64,
    inode: AtomicU64,
    settled: AtomicU64,
    /// The library undoes writes itself.
    is_undone: AtomicBool,
}

impl NotedFile {
    const fn new() -> Self {
        Self {
            is_used: AtomicBool::new(false),
            device: AtomicU64::new(0),
            inode: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            is_undone: AtomicBool::new(false),
        }
    }

    fn is_of(&self, file: (u64, u64)) -> bool {
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        self.is_used.load(Ordering::Acquire) && (load(&self.device), load(&self.inode)) == file
    }
}

/// How many bytes of a file an image of this rank keeps, as long as the value lives.
#[derive(Debug)]
pub struct SettledLength(Option<&'static NotedFile>);

impl std::fmt::Debug for NotedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NotedFile({:?})", self.settled)
    }
}

impl SettledLength {
    /// Images keep the first `length` bytes of this file: a device and an inode.
    pub fn new(file: (u64, u64), length: u64) -> Self {
        Self::noted(file, length, false)
    }

    /// Images keep nothing of this file: the library undoes what was written since.
    pub fn of_undone(file: (u64, u64)) -> Self {
        Self::noted(file, 0, true)
    }

    fn noted(file: (u64, u64), length: u64, is_undone: bool) -> Self {
        let free = |one: &&NotedFile| !one.is_used.load(Ordering::Relaxed);
        let place = FILES.iter().find(free);
        if let Some(one) = place {
            one.device.store(file.0, Ordering::Relaxed);
            one.inode.store(file.1, Ordering::Relaxed);
            one.settled.store(length, Ordering::Relaxed);
            one.is_undone.store(is_undone, Ordering::Relaxed);
            one.is_used.store(true, Ordering::Release);
        }
        Self(place)
    }

    /// From now on images keep so many bytes.
    pub fn set(&self, length: u64) {
        if let Some(one) = self.0 {
            one.settled.store(length, Ordering::Relaxed);
        }
    }

    /// From now on images keep at least so many bytes.
    pub fn reach(&self, length: u64) {
        if let Some(one) = self.0 {
            one.settled.fetch_max(length, Ordering::Relaxed);
        }
    }
}

impl Drop for SettledLength {
    fn drop(&mut self) {
        if let Some(one) = self.0 {
            one.is_used.store(false, Ordering::Release);
        }
    }
}

/// How many bytes of a file of this length an image keeps.
pub(super) fn settled_length(file: (u64, u64), length: u64) -> u64 {
    let of_file = FILES.iter().filter(|one| one.is_of(file));
    let settled = of_file.map(|one| one.settled.load(Ordering::Relaxed));
    settled.max().map_or(length, |settled| settled.min(length))
}

/// Whether the library undoes writes to the file itself.
pub(super) fn is_undone(file: (u64, u64)) -> bool {
    let mut of_file = FILES.iter().filter(|one| one.is_of(file));
    of_file.any(|one| one.is_undone.load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_kept_as_far_as_is_noted() {
        let file = (77, 78);
        assert_eq!(settled_length(file, 500), 500);
        let first = SettledLength::new(file, 100);
        assert_eq!(settled_length(file, 500), 100);
        assert_eq!(settled_length(file, 50), 50);
        assert_eq!(settled_length((77, 79), 500), 500);
        let second = SettledLength::new(file, 0);
        first.reach(200);
        first.reach(150);
        second.set(120);
        assert_eq!(settled_length(file, 500), 200);
        drop(first);
        assert_eq!(settled_length(file, 500), 120);
        drop(second);
        assert_eq!(settled_length(file, 500), 500);
    }

    #[test]
    fn a_file_is_undone_as_long_as_the_library_has_it() {
        let file = (79, 80);
        let other = SettledLength::new(file, 100);
        assert!(!is_undone(file));
        let noted = SettledLength::of_undone(file);
        assert!(is_undone(file) && !is_undone((79, 81)));
        drop(noted);
        assert!(!is_undone(file));
        drop(other);
    }
}
