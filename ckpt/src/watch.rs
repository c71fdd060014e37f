//! Notices a rank's end before the kernel frees the rank's memory.
//!
//! The kernel marks the robust futexes of a thread at the very beginning of its exit. A pidfd
//! becomes readable only when all memory is freed, which takes tens of milliseconds per gigabyte.
//! So each rank holds one word, in a page that it shares with its manager, through an entry in its
//! own robust list ([`hold`]). The manager watches the words of its ranks ([`Watcher`]).
//!
//! The notice is early, not certain: `execve` and the end of the main thread alone mark the word as
//! well. A pidfd confirms.
//!
//! Layout: the kernel finds the word at a fixed distance before the list's entry. The entry must be
//! in private memory, or a twin and its rank would change each other's list. So the word is at the
//! end of the shared page, and the entry at the beginning of a private page right after it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use crate::sys;

mod list;
mod watcher;

pub use watcher::Watcher;

/// Bytes of a slot: a page, since each rank maps its own only.
const PAGE: usize = 4096;
/// Where the word lies in its page.
const WORD: usize = PAGE - 24;
/// Where the list's entry lies, from the beginning of the shared page.
const ENTRY: usize = PAGE + 8;

/// The kernel wakes for a word with this bit only (`FUTEX_WAITERS`).
const WAITERS: u32 = 0x8000_0000;
/// Set by the kernel in the word of a holder that ended (`FUTEX_OWNER_DIED`).
const DIED: u32 = 0x4000_0000;
/// The holder's thread number (`FUTEX_TID_MASK`).
const TID_MASK: u32 = 0x3fff_ffff;

/// The shared page of this process, followed by the private one; null when it holds no word.
static HELD: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
/// The thread whose robust list has the entry, by its thread pointer.
static HOLDER: AtomicUsize = AtomicUsize::new(0);
/// The holder is the process's first thread, also in a clone.
static IS_FIRST: AtomicBool = AtomicBool::new(false);

/// The words of all ranks of a manager: memory that it makes and each rank maps a page of.
#[derive(Debug)]
pub struct Page {
    memory: OwnedFd,
    address: *mut u8,
    slots: usize,
}

// SAFETY: the memory is used through atomics only and stays mapped as long as this lives.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    /// Makes memory for so many ranks, sealed against changes of its size.
    ///
    /// # Errors
    /// When the system gives none.
    pub fn new(slots: usize) -> io::Result<Self> {
        let length = slots.max(1) * PAGE;
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name ends with a zero byte; the descriptor is new.
        let memory = unsafe {
            let fd = libc::memfd_create(c"rejoin-watch".as_ptr(), flags);
            let fd = sys::check(fd.into()).map_err(io::Error::from_raw_os_error)?;
            OwnedFd::from_raw_fd(fd as i32)
        };
        let fd = memory.as_raw_fd();
        // SAFETY: touches no memory.
        let sized = sys::check(unsafe { libc::ftruncate(fd, length as i64) }.into());
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        sized
            .and_then(|_| sys::control(fd, libc::F_ADD_SEALS, seals))
            .map_err(io::Error::from_raw_os_error)?;
        let address = map(std::ptr::null_mut(), length, libc::MAP_SHARED, fd, 0)?;
        // Ranks map their own page only; other children of the manager need none.
        // SAFETY: the mapping was made here.
        unsafe { libc::madvise(address.cast(), length, libc::MADV_DONTFORK) };
        Ok(Self {
            memory,
            address,
            slots: slots.max(1),
        })
    }

    /// How many ranks it is for.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The thread number of the rank that holds a slot.
    #[must_use]
    pub fn holder(&self, slot: u32) -> Option<i32> {
        let word = self.word(slot)?.load(Ordering::Acquire);
        (word & DIED == 0 && word & TID_MASK != 0).then_some((word & TID_MASK) as i32)
    }

    /// Whether the holder of a slot has begun to end.
    #[must_use]
    pub fn has_ended(&self, slot: u32) -> bool {
        self.word(slot)
            .is_some_and(|word| word.load(Ordering::Acquire) & DIED != 0)
    }

    fn word(&self, slot: u32) -> Option<&AtomicU32> {
        let slot = usize::try_from(slot)
            .ok()
            .filter(|slot| *slot < self.slots)?;
        // SAFETY: the word lies in the mapping, which lives as long as this, and is only used as an
        // atomic.
        Some(unsafe { AtomicU32::from_ptr(self.address.add(slot * PAGE + WORD).cast()) })
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: the mapping was made here, and no reference to it is left.
        unsafe { libc::munmap(self.address.cast(), self.slots * PAGE) };
    }
}

impl AsFd for Page {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }
}

/// Holds a slot of the manager's memory until this thread ends or [`release`] is called: to be
/// called by the program's main thread. A restored process calls it with a slot of its own, from
/// whichever thread; that may be in a handler.
///
/// # Errors
/// When the page cannot be mapped, and `Unsupported` when the C library's robust list is not laid
/// out as glibc's is on 64-bit machines. The manager then notices by pidfd alone.
pub fn hold(memory: BorrowedFd<'_>, slot: u32) -> io::Result<()> {
    let (fd, offset) = (memory.as_raw_fd(), i64::from(slot) * PAGE as i64);
    let size = sys::status(memory.as_raw_fd())
        .map_err(io::Error::from_raw_os_error)?
        .st_size;
    if offset + PAGE as i64 > size {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no such slot"));
    }
    let held = HELD.load(Ordering::Acquire);
    if !held.is_null() {
        // The entry is in the list already, in this process's own memory: only the word is another
        // one.
        let page = map(held, PAGE, libc::MAP_SHARED | libc::MAP_FIXED, fd, offset)?;
        mark(page, holder());
        return Ok(());
    }
    let list = list::List::of_this_thread(WORD as i64 - ENTRY as i64)?;
    let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let both = map(std::ptr::null_mut(), 2 * PAGE, private, -1, 0)?;
    let shared = libc::MAP_SHARED | libc::MAP_FIXED;
    if let Err(error) = map(both, PAGE, shared, fd, offset) {
        unmap(both);
        return Err(error);
    }
    HOLDER.store(sys::thread_pointer(), Ordering::Relaxed);
    IS_FIRST.store(sys::tid() == sys::pid(), Ordering::Relaxed);
    mark(both, sys::tid());
    let mask = sys::set_mask(sys::ALL_SIGNALS);
    // SAFETY: the entry lies in the private page, which stays mapped until it is taken out of the
    // list.
    unsafe { list.insert(both.add(ENTRY)) };
    HELD.store(both, Ordering::Release);
    sys::set_mask(mask);
    Ok(())
}

/// A process that comes from an image has no slot: its list's entry gets a word that nobody
/// watches. The image does not hold the page of its predecessor's word. Changes nothing in a
/// process that has held no slot.
///
/// # Errors
/// When the page cannot be mapped.
pub fn hold_none() -> io::Result<()> {
    let held = HELD.load(Ordering::Acquire);
    if !held.is_null() {
        let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        map(held, PAGE, private, -1, 0)?;
    }
    Ok(())
}

/// Releases the word, so that the watcher does not report the end of this process.
pub fn release() {
    let held = HELD.swap(std::ptr::null_mut(), Ordering::AcqRel);
    if held.is_null() {
        return;
    }
    let mask = sys::set_mask(sys::ALL_SIGNALS);
    // SAFETY: the page is mapped while it is held, and `hold` has put the entry into the list.
    unsafe {
        AtomicU32::from_ptr(held.add(WORD).cast()).store(0, Ordering::Release);
        wake(held.add(WORD).cast());
        list::remove(held.add(ENTRY));
    }
    unmap(held);
    sys::set_mask(mask);
}

/// The library's own shared page, which is no reason to refuse an image.
pub(crate) fn shared_page() -> Option<std::ops::Range<usize>> {
    let start = HELD.load(Ordering::Acquire) as usize;
    (start != 0).then_some(start..start + PAGE)
}

/// The kernel's number of the thread that holds the word, in a restored process; 0 if that thread
/// does not exist yet. Then the manager notices the end a little later.
fn holder() -> i32 {
    if IS_FIRST.load(Ordering::Relaxed) {
        sys::pid()
    } else if HOLDER.load(Ordering::Relaxed) == sys::thread_pointer() {
        sys::tid()
    } else {
        0
    }
}

/// Writes the holder's number into the word. The kernel compares with its own number, which in a
/// clone is not the C library's.
fn mark(page: *mut u8, holder: i32) {
    // SAFETY: the page is mapped, and the word is only used as an atomic.
    unsafe {
        let word = page.add(WORD).cast();
        AtomicU32::from_ptr(word).store(holder as u32 & TID_MASK | WAITERS, Ordering::Release);
        wake(word);
    }
}

/// Wakes the threads that wait for the word to change.
///
/// # Safety
/// The word is mapped.
unsafe fn wake(word: *mut u32) {
    // SAFETY: the caller's word; a wake touches no memory.
    unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, i32::MAX, 0, 0, 0) };
}

fn map(at: *mut u8, length: usize, kind: i32, fd: i32, offset: i64) -> io::Result<*mut u8> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, or one in place of pages that this module owns.
    let address = unsafe { libc::mmap(at.cast(), length, access, kind, fd, offset) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::from_raw_os_error(sys::errno()));
    }
    Ok(address.cast())
}

fn unmap(both: *mut u8) {
    // SAFETY: both pages were mapped here, and nothing points there any more.
    unsafe { libc::munmap(both.cast(), 2 * PAGE) };
}
