//! The manager's side: threads that sleep until a rank's word changes.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{DIED, Page, wake};
use crate::sys;

/// `futex_waitv`: the same number on every machine.
const SYS_FUTEX_WAITV: i64 = 449;
/// From a wait that the kernel could not do to the next.
const RETRY: Duration = Duration::from_millis(10);
/// The kernel's limit for one call, less the watcher's own word.
const SLOTS_PER_THREAD: usize = 127;
/// A word of 32 bits, seen by several processes.
const SHARED_WORD: u32 = 2;

/// The kernel's `struct futex_waitv`.
#[repr(C)]
struct Wait {
    value: u64,
    address: u64,
    flags: u32,
    reserved: u32,
}

/// Watches slots; its descriptor is readable when [`Watcher::ended`] has something to say.
#[derive(Debug)]
pub struct Watcher {
    state: Arc<State>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct State {
    page: Page,
    /// Counts changes of `watched`.
    change: AtomicU32,
    is_over: AtomicBool,
    lists: Mutex<Lists>,
    news: OwnedFd,
}

#[derive(Debug, Default)]
struct Lists {
    watched: Vec<bool>,
    ended: Vec<u32>,
}

impl Watcher {
    /// Starts a thread for each 127 slots of `page`.
    ///
    /// # Errors
    /// `Unsupported` where the system cannot wait for several words: a kernel before Linux 5.16, or
    /// a filter of system calls. Else when the system gives no descriptor or thread.
    pub fn new(page: Page) -> io::Result<Self> {
        // Without words the call fails with EINVAL if the kernel has it.
        // SAFETY: no words are given.
        let probe = unsafe { libc::syscall(SYS_FUTEX_WAITV, 0, 0, 0, 0, 0) };
        if let Err(why) = sys::check(probe)
            && why != libc::EINVAL
        {
            let text = match why {
                libc::ENOSYS => "this kernel has no futex_waitv (Linux 5.16)",
                _ => "a filter of system calls refuses futex_waitv",
            };
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        // SAFETY: the descriptor is new.
        let news = unsafe {
            let fd = libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK);
            let fd = sys::check(fd.into()).map_err(io::Error::from_raw_os_error)?;
            OwnedFd::from_raw_fd(fd as i32)
        };
        let lists = Lists {
            watched: vec![false; page.slots()],
            ended: Vec::new(),
        };
        let (change, is_over) = (AtomicU32::new(0), AtomicBool::new(false));
        let groups = page.slots().div_ceil(SLOTS_PER_THREAD);
        let state = Arc::new(State {
            page,
            change,
            is_over,
            lists: Mutex::new(lists),
            news,
        });
        let mut watcher = Self {
            state,
            threads: Vec::new(),
        };
        for group in 0..groups {
            let state = Arc::clone(&watcher.state);
            let builder = std::thread::Builder::new().name("rejoin-watch".to_owned());
            watcher
                .threads
                .push(builder.spawn(move || state.run(group))?);
        }
        Ok(watcher)
    }

    /// The memory that ranks are to map.
    #[must_use]
    pub fn page(&self) -> &Page {
        &self.state.page
    }

    /// Watches a slot from now on, for a new holder, and clears the mark of an earlier holder.
    /// `false` when there is no such slot.
    pub fn watch(&self, slot: u32) -> bool {
        let Some(word) = self.state.page.word(slot) else {
            return false;
        };
        {
            let mut lists = self.state.lists();
            word.store(0, Ordering::Release);
            lists.ended.retain(|other| *other != slot);
            lists.watched[slot as usize] = true;
        }
        self.state.changed();
        true
    }

    /// Stops watching a slot.
    pub fn unwatch(&self, slot: u32) {
        if let Some(watched) = self.state.lists().watched.get_mut(slot as usize) {
            *watched = false;
        }
        self.state.changed();
    }

    /// The slots whose holders have begun to end since the last call.
    pub fn ended(&self) -> Vec<u32> {
        let mut count = 0u64;
        // SAFETY: the pointer is to eight bytes.
        unsafe { libc::read(self.state.news.as_raw_fd(), (&raw mut count).cast(), 8) };
        std::mem::take(&mut self.state.lists().ended)
    }
}

impl AsFd for Watcher {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.state.news.as_fd()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Release);
        self.state.changed();
        for thread in self.threads.drain(..) {
            // A thread that panicked has nothing more to do either.
            let _ = thread.join();
        }
    }
}

impl State {
    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.change.fetch_add(1, Ordering::AcqRel);
        // SAFETY: the word lives as long as this.
        unsafe { wake(self.change.as_ptr()) };
    }

    fn run(&self, group: usize) {
        let first = group * SLOTS_PER_THREAD;
        let mut waits = Vec::with_capacity(SLOTS_PER_THREAD + 1);
        loop {
            // Read before the lists: a change after this ends the wait at once.
            let change = self.change.load(Ordering::Acquire);
            if self.is_over.load(Ordering::Acquire) {
                return;
            }
            waits.clear();
            waits.push(Wait::new(&self.change, change));
            self.look(first, &mut waits);
            let none = std::ptr::null::<libc::timespec>();
            // SAFETY: the pointer is to as many waits; their words live as long as this.
            let ended =
                unsafe { libc::syscall(SYS_FUTEX_WAITV, waits.as_ptr(), waits.len(), 0, none, 0) };
            match sys::check(ended) {
                Ok(_) | Err(libc::EAGAIN | libc::EINTR) => {}
                // The kernel lacks memory: the words are read again after a while.
                Err(_) => std::thread::sleep(RETRY),
            }
        }
    }

    /// Reports the slots whose holders ended, and adds the others to `waits`.
    fn look(&self, first: usize, waits: &mut Vec<Wait>) {
        let mut lists = self.lists();
        let last = (first + SLOTS_PER_THREAD).min(lists.watched.len());
        let mut is_news = false;
        for slot in first..last {
            let number = slot as u32;
            let Some(word) = self.page.word(number).filter(|_| lists.watched[slot]) else {
                continue;
            };
            let value = word.load(Ordering::Acquire);
            if value & DIED == 0 {
                waits.push(Wait::new(word, value));
            } else {
                lists.watched[slot] = false;
                lists.ended.push(number);
                is_news = true;
            }
        }
        if is_news {
            let one = 1u64;
            // SAFETY: the pointer is to eight bytes.
            unsafe { libc::write(self.news.as_raw_fd(), (&raw const one).cast(), 8) };
        }
    }
}

impl Wait {
    fn new(word: &AtomicU32, value: u32) -> Self {
        let address = word.as_ptr() as u64;
        Self {
            value: value.into(),
            address,
            flags: SHARED_WORD,
            reserved: 0,
        }
    }
}
