//! Memory that the program locked. A clone's memory is not locked.

use crate::error::Caveat;
use crate::{proc, sys};

/// Locked ranges.
#[derive(Default)]
pub(crate) struct Locked {
    ranges: Vec<(u64, u64)>,
    /// New mappings are locked as well (`mlockall(MCL_FUTURE)`).
    is_future: bool,
}

impl Locked {
    /// Reads them. `smaps` walks the page tables, so it is read only where something is locked at
    /// all.
    pub fn capture() -> Self {
        let mut text = Vec::new();
        let before = locked_size(&mut text);
        if before == 0 {
            return Self::default();
        }
        let is_future = with_a_new_page(|| locked_size(&mut text) > before);
        let ranges = match sys::read_file(c"/proc/thread-self/smaps", &mut text) {
            Ok(()) => proc::flagged(&text)
                .filter(|one| one.has(b"lo"))
                .map(|one| (one.mapping.start, one.mapping.end))
                .collect(),
            Err(_) => Vec::new(),
        };
        Self { ranges, is_future }
    }

    /// Locks them again.
    pub fn restore(&self, caveats: &mut Vec<Caveat>) {
        for &(start, end) in &self.ranges {
            // SAFETY: locking changes no content; a range that is gone gives an error.
            let result =
                unsafe { libc::mlock(start as *const libc::c_void, (end - start) as usize) };
            if let Err(errno) = sys::check(result.into()) {
                caveats.push(Caveat::Unlocked {
                    bytes: end - start,
                    errno,
                });
            }
        }
        if self.is_future {
            // SAFETY: touches no memory's content.
            unsafe { libc::mlockall(libc::MCL_FUTURE) };
        }
    }
}

/// `VmLck`, in kB.
fn locked_size(text: &mut Vec<u8>) -> u64 {
    if sys::read_file(c"/proc/thread-self/status", text).is_err() {
        return 0;
    }
    let value = proc::field(text, "VmLck:").and_then(|v| proc::words(v).next());
    value.and_then(proc::number).unwrap_or(0)
}

fn with_a_new_page(look: impl FnOnce() -> bool) -> bool {
    let (access, kind) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping wherever the system likes, removed again.
    unsafe {
        let page = libc::mmap(std::ptr::null_mut(), 4096, access, kind, -1, 0);
        let found = page != libc::MAP_FAILED && look();
        if page != libc::MAP_FAILED {
            libc::munmap(page, 4096);
        }
        found
    }
}
