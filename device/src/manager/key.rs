//! The job's key, in one place, which no image of the process keeps.
//!
//! It lies in a page of its own that the kernel empties in every fork and leaves out of core dumps
//! (`MADV_WIPEONFORK`, `MADV_DONTDUMP`; madvise(2)). A twin is a fork, and process images are
//! written by one. The manager sends the key again to a restored process.

use std::num::NonZero;
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};
use rejoin_channel_table::ids::JobKey;

use crate::error::{Error, Result};

/// Length of the mapping: the kernel rounds up to a page.
const LENGTH: NonZero<usize> = NonZero::<usize>::MIN.saturating_add(4095);

/// The page, and the key in it: zeros in a forked child.
pub(crate) struct KeyPage {
    key: NonNull<JobKey>,
}

impl KeyPage {
    /// Moves the key out of `from`, where zeros stay.
    ///
    /// # Errors
    /// When the system has no memory left, or cannot keep it out of forks (Linux before 4.14).
    pub(crate) fn take(from: &mut JobKey) -> Result<Self> {
        let flags = MapFlags::MAP_PRIVATE;
        let rights = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let at = unsafe { mmap_anonymous(None, LENGTH, rights, flags) }
            .map_err(|errno| Error::system("map a page for the job's key", errno))?;
        // From here on dropping it unmaps the page.
        let page = Self { key: at.cast() };
        // SAFETY: both advices are about the page just mapped, which no other code knows.
        unsafe {
            madvise(at, LENGTH.get(), MmapAdvise::MADV_WIPEONFORK)
                .map_err(|errno| Error::system("keep the job's key out of forks", errno))?;
            // A core dump with the key in it is the lesser evil than no job.
            let _ = madvise(at, LENGTH.get(), MmapAdvise::MADV_DONTDUMP);
            rejoin_ckpt::twin::keep_out_of_images(at.addr().get());
            page.key.write(JobKey::new(*from.expose()));
        }
        wipe(from);
        Ok(page)
    }

    /// The key.
    pub(crate) fn get(&self) -> &JobKey {
        // SAFETY: the page is mapped for as long as this lives; any 32 bytes are a key.
        unsafe { self.key.as_ref() }
    }
}

impl Drop for KeyPage {
    fn drop(&mut self) {
        // SAFETY: the page is this value's own, and no reference to it is left. A failure would
        // leave it mapped, which does no harm.
        let _ = unsafe {
            wipe(self.key.as_mut());
            munmap(self.key.cast(), LENGTH.get())
        };
    }
}

/// Overwrites a key where it lies.
fn wipe(key: &mut JobKey) {
    // SAFETY: a reference is valid for a write; volatile, so that it is not optimised away.
    unsafe { std::ptr::from_mut(key).write_volatile(JobKey::new([0; 32])) };
}

/// Overwrites what calls that have returned left below on the stack: copies of the key that the
/// decoding of the manager's message made.
#[inline(never)]
pub(crate) fn wipe_stack() {
    let mut below = [0u8; 32 << 10];
    std::hint::black_box(&mut below);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_moves_and_leaves_zeros() {
        let mut key = JobKey::new([7; 32]);
        let page = KeyPage::take(&mut key).expect("a page");
        assert_eq!(page.get(), &JobKey::new([7; 32]));
        assert_eq!(key, JobKey::new([0; 32]));
    }
}
