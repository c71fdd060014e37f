//! This thread's robust list, as glibc keeps it on 64-bit machines. Each entry points to the next,
//! and the last to the head. Right before each entry is room for a pointer back.

use std::io;

use crate::sys;

/// The kernel's `struct robust_list_head`.
#[repr(C)]
struct Head {
    first: *mut u8,
    futex_offset: i64,
    pending: *mut u8,
}

/// The low bit of a pointer says that the lock inherits priority.
const FLAGS: usize = 1;

/// The head that the C library has registered.
pub(super) struct List {
    head: *mut Head,
}

impl List {
    /// Finds the head, whose futex words must lie `futex_offset` bytes after their entries.
    pub fn of_this_thread(futex_offset: i64) -> io::Result<Self> {
        let (mut head, mut length) = (std::ptr::null_mut::<Head>(), 0usize);
        // SAFETY: the pointers are to a pointer and to a length, which the system sets.
        let result =
            unsafe { libc::syscall(libc::SYS_get_robust_list, 0, &raw mut head, &raw mut length) };
        sys::check(result).map_err(io::Error::from_raw_os_error)?;
        let is_known = !head.is_null()
            && length == std::mem::size_of::<Head>()
            // SAFETY: the C library's head is as long as it says and lives as long as the thread.
            && unsafe { (*head).futex_offset } == futex_offset;
        if !is_known {
            let text = "the C library's list of robust locks is laid out in an unknown way";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        Ok(Self { head })
    }

    /// Puts an entry first.
    ///
    /// # Safety
    /// The entry and the eight bytes before it are this process's own until it is removed.
    pub unsafe fn insert(&self, entry: *mut u8) {
        // SAFETY: every entry and the head have room for a pointer back.
        unsafe {
            let next = (*self.head).first;
            back(next).write(entry);
            entry.cast::<*mut u8>().write(next);
            back(entry).write(self.head.cast());
            // Complete before the kernel may come by it.
            std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::Release);
            (*self.head).first = entry;
        }
    }
}

/// Takes an entry out.
///
/// # Safety
/// The entry was inserted by this thread, or by the one that it is the clone of.
pub(super) unsafe fn remove(entry: *mut u8) {
    // SAFETY: the neighbours are entries of live locks, or the head.
    unsafe {
        let next = entry.cast::<*mut u8>().read();
        let previous = back(entry).read();
        plain(previous).cast::<*mut u8>().write(next);
        back(next).write(previous);
    }
}

/// Where an entry's pointer back lies.
fn back(entry: *mut u8) -> *mut *mut u8 {
    plain(entry).wrapping_sub(8).cast()
}

fn plain(pointer: *mut u8) -> *mut u8 {
    pointer.map_addr(|address| address & !FLAGS)
}
