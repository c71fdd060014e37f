//! System calls as a signal handler may make them.
//!
//! Each result is the system's own: a value, or the number of an error.

use std::ffi::CStr;
use std::fmt::Write;
use std::os::fd::RawFd;
use std::sync::atomic::AtomicU32;

use libc::{c_int, c_long};

/// A value, or the system's number of the error.
pub type Sys<T> = Result<T, i32>;

/// The number of the last error.
pub fn errno() -> i32 {
    // SAFETY: the C library gives each thread a valid place for it.
    unsafe { *libc::__errno_location() }
}

/// Sets the number of the last error, as a handler must before it returns.
pub fn set_errno(value: i32) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = value }
}

/// Converts the return value of a system call.
pub fn check(result: c_long) -> Sys<c_long> {
    if result < 0 { Err(errno()) } else { Ok(result) }
}

fn check_int(result: c_int) -> Sys<c_int> {
    if result < 0 { Err(errno()) } else { Ok(result) }
}

/// The kernel's set of signals: bit `n - 1` for signal `n`.
pub type SignalSet = u64;

/// Every signal.
pub const ALL_SIGNALS: SignalSet = !0;

/// Replaces the mask of blocked signals and gives the former one. Not the C library's function:
/// that one spares its internal signals.
pub fn set_mask(mask: SignalSet) -> SignalSet {
    let mut old: SignalSet = 0;
    // SAFETY: both pointers are to sets of the size given.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const mask,
            &raw mut old,
            8,
        );
    }
    old
}

/// The signals that wait to be delivered.
pub fn pending() -> SignalSet {
    let mut set: SignalSet = 0;
    // SAFETY: the pointer is to a set of the size given.
    unsafe { libc::syscall(libc::SYS_rt_sigpending, &raw mut set, 8) };
    set
}

/// Takes one of these signals if it waits.
pub fn take_signal(set: SignalSet) -> Option<libc::siginfo_t> {
    // SAFETY: both structures are plain data for which all zeros is a value; the pointers are to a
    // set of the size given, to details to fill in, and to a timespec.
    unsafe {
        let (mut info, at_once): (libc::siginfo_t, libc::timespec) = std::mem::zeroed();
        let (set, time) = (&raw const set, &raw const at_once);
        let result = libc::syscall(libc::SYS_rt_sigtimedwait, set, &raw mut info, time, 8);
        (result > 0).then_some(info)
    }
}

/// Queues a signal with its details for a thread of this process.
pub fn queue_signal(tid: i32, info: &libc::siginfo_t) -> Sys<()> {
    let (pid, signal, info) = (pid(), info.si_signo, std::ptr::from_ref(info));
    // SAFETY: the pointer is to the details of a signal.
    check(unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, tid, signal, info) }).map(drop)
}

/// The bit of a signal.
pub const fn bit(signal: i32) -> SignalSet {
    1 << (signal - 1)
}

/// This process's number, asked of the kernel: the C library's idea of a thread is stale in a
/// clone.
pub fn pid() -> i32 {
    // SAFETY: touches no memory.
    unsafe { libc::syscall(libc::SYS_getpid) as i32 }
}

/// This thread's number, asked of the kernel.
pub fn tid() -> i32 {
    // SAFETY: touches no memory.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// The parent's number.
pub fn parent() -> i32 {
    // SAFETY: touches no memory.
    unsafe { libc::syscall(libc::SYS_getppid) as i32 }
}

/// Ends the process, running nothing.
pub fn exit(code: i32) -> ! {
    // SAFETY: does not return.
    unsafe { libc::_exit(code) }
}

/// Sleeps for at most so many nanoseconds, below a second.
pub fn sleep(nanoseconds: i64) {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: nanoseconds,
    };
    let none = std::ptr::null_mut::<libc::timespec>();
    // SAFETY: the pointer is to a timespec; the rest is not asked for.
    unsafe { libc::syscall(libc::SYS_nanosleep, &raw const time, none) };
}

/// Identifies this thread within the process, also in a clone.
pub fn thread_pointer() -> usize {
    // SAFETY: reads the thread's own register.
    unsafe { libc::pthread_self() as usize }
}

/// Sleeps while `word` has this value, until a wake or for at most so many nanoseconds.
pub fn futex_wait(word: &AtomicU32, value: u32, most: Option<u64>) {
    let time = most.map(|most| libc::timespec {
        tv_sec: (most / 1_000_000_000) as i64,
        tv_nsec: (most % 1_000_000_000) as i64,
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word lives as long as the call; the time-out is null or a timespec.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, time) };
}

/// Wakes so many of the threads that sleep on `word`.
pub fn futex_wake(word: &AtomicU32, count: i32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: a wake touches no memory.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, count) };
}

/// Whether there is something to read, or an end.
pub fn is_readable(fd: RawFd) -> bool {
    wait_readable(fd, 0)
}

/// Waits until there is something to read, or an end, at most so many milliseconds. Returns whether
/// there is.
pub fn wait_readable(fd: RawFd, most: i32) -> bool {
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: the pointer is to one structure.
    unsafe { libc::syscall(libc::SYS_poll, &raw mut poll, 1, most) == 1 }
}

/// The events that a descriptor shows now.
pub fn events_now(fd: RawFd) -> i16 {
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN | libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: the pointer is to one structure.
    unsafe { libc::syscall(libc::SYS_poll, &raw mut poll, 1, 0) };
    poll.revents
}

/// Bytes that wait in a pipe or socket.
pub fn readable_bytes(fd: RawFd) -> Sys<usize> {
    let mut count: c_int = 0;
    // SAFETY: the request fills in one number.
    check_int(unsafe { libc::ioctl(fd, libc::FIONREAD, &raw mut count) })?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// Closes a descriptor.
pub fn close(fd: RawFd) {
    // SAFETY: touches no memory; callers own the number.
    unsafe { libc::close(fd) };
}

/// Closes all descriptors from `first` to before `end`.
pub fn close_between(first: RawFd, end: RawFd) {
    if first >= end {
        return;
    }
    // SAFETY: touches no memory; callers own the range.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first as u32, end as u32 - 1, 0) };
    if result != 0 {
        // Before Linux 5.9, and where a filter does not know the call. Closing while the directory
        // is read may hide entries, so the list comes first.
        let mut open = Vec::new();
        let _ = own_descriptors(|fd| open.push(fd));
        open.into_iter()
            .filter(|fd| (first..end).contains(fd))
            .for_each(close);
    }
}

/// Puts `old` at the number `new`, close-on-exec or not. Equal numbers are left as they are.
pub fn duplicate(old: RawFd, new: RawFd, cloexec: bool) -> Sys<()> {
    if old == new {
        let flag = if cloexec { libc::FD_CLOEXEC } else { 0 };
        return control(new, libc::F_SETFD, flag).map(drop);
    }
    let flag = if cloexec { libc::O_CLOEXEC } else { 0 };
    // SAFETY: touches no memory; callers own the number `new`.
    check_int(unsafe { libc::dup3(old, new, flag) }).map(drop)
}

/// A copy of the descriptor at the lowest free number from `first` on, close-on-exec; where none is
/// free, at any.
pub fn raise(fd: RawFd, first: RawFd) -> Sys<RawFd> {
    raise_above_limit(fd, first).or_else(|_| control(fd, libc::F_DUPFD_CLOEXEC, 3))
}

/// A copy of the descriptor at the lowest free number from `first` on, close-on-exec. The program's
/// limit on open files may be lower: it is raised for a moment.
pub fn raise_above_limit(fd: RawFd, first: RawFd) -> Sys<RawFd> {
    let copy = || control(fd, libc::F_DUPFD_CLOEXEC, first);
    copy().or_else(|_| {
        let exchange = |new: *const libc::rlimit, old: *mut libc::rlimit| {
            // SAFETY: each pointer is null or to a limit.
            check(unsafe { libc::syscall(libc::SYS_prlimit64, 0, libc::RLIMIT_NOFILE, new, old) })
        };
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        exchange(std::ptr::null(), &raw mut limit)?;
        if limit.rlim_cur >= limit.rlim_max {
            return copy();
        }
        let most = libc::rlimit {
            rlim_cur: limit.rlim_max,
            ..limit
        };
        exchange(&raw const most, std::ptr::null_mut())?;
        let copied = copy();
        exchange(&raw const limit, std::ptr::null_mut())?;
        copied
    })
}

/// `fcntl` with a number.
pub fn control(fd: RawFd, command: c_int, argument: c_int) -> Sys<c_int> {
    // SAFETY: only commands that take a number are used.
    check_int(unsafe { libc::fcntl(fd, command, argument) })
}

/// Opens a file, close-on-exec, never as a controlling terminal.
pub fn open(path: &CStr, flags: c_int) -> Sys<RawFd> {
    // SAFETY: the path ends with a zero byte.
    check_int(unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC | libc::O_NOCTTY) })
}

/// The system's data about an open file.
pub fn status(fd: RawFd) -> Sys<libc::stat> {
    // SAFETY: `stat` is plain data that the call fills in.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        check_int(libc::fstat(fd, &mut stat)).map(|_| stat)
    }
}

/// Device and inode of the file at a path.
pub fn status_of(path: &CStr) -> Sys<(u64, u64)> {
    path_status(path).map(|stat| (stat.st_dev, stat.st_ino))
}

/// Threads of this process. Each has a directory, so the link count gives their number.
pub fn thread_count() -> Sys<u64> {
    path_status(c"/proc/self/task").map(|stat| stat.st_nlink.saturating_sub(2))
}

/// Whether this process has a thread of this number.
pub fn has_thread(tid: i32) -> bool {
    // SAFETY: signal 0 only asks.
    unsafe { libc::syscall(libc::SYS_tgkill, pid(), tid, 0) == 0 }
}

/// The system's data about the file at a path.
pub fn path_status(path: &CStr) -> Sys<libc::stat> {
    // SAFETY: the path ends with a zero byte; `stat` is plain data that the call fills in.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        check_int(libc::stat(path.as_ptr(), &mut stat)).map(|_| stat)
    }
}

/// Reads a whole file of `/proc` into `text`, whose memory is used again.
pub fn read_file(path: &CStr, text: &mut Vec<u8>) -> Sys<()> {
    text.clear();
    let fd = open(path, libc::O_RDONLY)?;
    let result = loop {
        if text.capacity() - text.len() < 4096 {
            text.reserve(text.capacity().max(16 * 1024));
        }
        let room = text.capacity() - text.len();
        // SAFETY: the pointer is to `room` bytes of the vector's own spare memory.
        let count = unsafe { libc::read(fd, text.as_mut_ptr().add(text.len()).cast(), room) };
        match usize::try_from(count) {
            Ok(0) => break Ok(()),
            // SAFETY: the system has filled in `count` more bytes.
            Ok(count) => unsafe { text.set_len(text.len() + count) },
            Err(_) if errno() == libc::EINTR => {}
            Err(_) => break Err(errno()),
        }
    };
    close(fd);
    result
}

/// Reads what fits of a small file of `/proc`. Returns the number of bytes.
pub fn read_into(path: &CStr, buffer: &mut [u8]) -> Sys<usize> {
    let fd = open(path, libc::O_RDONLY)?;
    // SAFETY: pointer and length describe the buffer.
    let count = unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) };
    let result = check(count as c_long).map(|count| count as usize);
    close(fd);
    result
}

/// One send; a send without a reader raises no signal.
pub fn send(socket: RawFd, bytes: &[u8]) -> Sys<usize> {
    let (start, length) = (bytes.as_ptr().cast(), bytes.len());
    // SAFETY: pointer and length describe `bytes`.
    let count = unsafe { libc::send(socket, start, length, libc::MSG_NOSIGNAL) };
    check(count as c_long).map(|count| count as usize)
}

/// Writes all of `bytes`.
pub fn write_all(fd: RawFd, mut bytes: &[u8]) -> Sys<()> {
    while !bytes.is_empty() {
        // SAFETY: pointer and length describe `bytes`.
        let count = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
        match usize::try_from(count) {
            Ok(count) => bytes = &bytes[count..],
            Err(_) if errno() == libc::EINTR => {}
            Err(_) => return Err(errno()),
        }
    }
    Ok(())
}

/// Where a symbolic link of `/proc` leads, as far as the buffer holds it.
pub fn read_link<'a>(path: &CStr, buffer: &'a mut [u8]) -> Sys<&'a [u8]> {
    // SAFETY: the path ends with a zero byte; pointer and length describe the buffer.
    let count = unsafe { libc::readlink(path.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len()) };
    match usize::try_from(count) {
        Ok(count) => Ok(&buffer[..count]),
        Err(_) => Err(errno()),
    }
}

/// Processors that this thread may use.
pub fn processors() -> u32 {
    let mut set = [0u64; 128];
    let size = std::mem::size_of_val(&set);
    // SAFETY: pointer and length describe the set.
    unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, size, set.as_mut_ptr()) };
    set.iter().map(|word| word.count_ones()).sum()
}

/// Whether a file is in the memory of this machine (tmpfs).
pub fn is_in_memory(fd: RawFd) -> bool {
    // SAFETY: plain data for which all zeros is a value; the call fills it in.
    let kind = unsafe {
        let mut status: libc::statfs = std::mem::zeroed();
        libc::fstatfs(fd, &raw mut status);
        status.f_type
    };
    kind == libc::TMPFS_MAGIC
}

/// Waits for the end of a child of any kind.
pub fn wait_for_clone(pid: i32) -> Sys<()> {
    loop {
        let none = std::ptr::null_mut::<i32>();
        // SAFETY: nothing is asked for but the end.
        let result = unsafe { libc::syscall(libc::SYS_wait4, pid, none, libc::__WALL, none) };
        match check(result) {
            Ok(_) => return Ok(()),
            Err(libc::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Whether a child of any kind has ended. If so, nothing is left of it.
pub fn has_ended(pid: i32) -> bool {
    let none = std::ptr::null_mut::<i32>();
    let flags = libc::__WALL | libc::WNOHANG;
    // SAFETY: nothing is asked for but the end.
    unsafe { libc::syscall(libc::SYS_wait4, pid, none, flags, none) != 0 }
}

/// Nanoseconds of a clock that never goes back.
pub fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Milliseconds since the system was started, as in the times of `/proc`.
pub fn since_start() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) };
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// Nanoseconds of the clock that file systems use, since 1970.
pub fn real_time() -> i128 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut time) };
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

/// A short path in memory of its own, for use where nothing may be allocated.
pub struct ShortPath {
    bytes: [u8; 64],
    length: usize,
}

impl ShortPath {
    /// Formats a path. One that does not fit in 63 bytes is cut: the paths made here are far
    /// shorter.
    pub fn new(text: std::fmt::Arguments<'_>) -> Self {
        let mut path = Self {
            bytes: [0; 64],
            length: 0,
        };
        let _ = path.write_fmt(text);
        path
    }

    /// For system calls.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }
}

impl Write for ShortPath {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.length + text.len();
        if end >= self.bytes.len() {
            return Err(std::fmt::Error);
        }
        self.bytes[self.length..end].copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// Calls `each` with every open descriptor of this process.
pub fn own_descriptors(mut each: impl FnMut(RawFd)) -> Sys<()> {
    let fd = open_directory(c"/proc/thread-self/fd")?;
    let result = list(fd, |_, name| {
        if let Some(number) = as_number(name).filter(|number| *number != fd) {
            each(number)
        }
    });
    close(fd);
    result
}

/// Calls `each` with every number in a directory of `/proc` whose names are numbers.
pub fn numbers_in(directory: &CStr, mut each: impl FnMut(i32)) -> Sys<()> {
    let fd = open_directory(directory)?;
    let result = list(fd, |_, name| {
        as_number(name).into_iter().for_each(&mut each)
    });
    close(fd);
    result
}

/// The name in a directory of the file with this number there, if it has one.
pub fn name_in(directory: &CStr, inode: u64) -> Option<Vec<u8>> {
    let (fd, mut found) = (open_directory(directory).ok()?, None);
    let result = list(fd, |number, name| {
        if number == inode {
            found = Some(name.to_vec());
        }
    });
    close(fd);
    result.ok().and(found)
}

fn as_number(name: &[u8]) -> Option<i32> {
    crate::proc::number(name).and_then(|number| i32::try_from(number).ok())
}

fn open_directory(path: &CStr) -> Sys<RawFd> {
    open(path, libc::O_RDONLY | libc::O_DIRECTORY)
}

fn list(fd: RawFd, mut each: impl FnMut(u64, &[u8])) -> Sys<()> {
    let mut buffer = [0u64; 256];
    loop {
        let size = std::mem::size_of_val(&buffer);
        // SAFETY: pointer and length describe the buffer.
        let count = unsafe { libc::syscall(libc::SYS_getdents64, fd, buffer.as_mut_ptr(), size) };
        let count = match usize::try_from(count) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(_) => return Err(errno()),
        };
        // SAFETY: the system has filled in `count` bytes of the buffer.
        let bytes = unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast::<u8>(), count) };
        entries(bytes, &mut each);
    }
}

/// Numbers and names of the entries of `linux_dirent64`: inode and offset of 8 bytes each, length
/// of 2, kind of 1, name.
fn entries(mut bytes: &[u8], mut each: impl FnMut(u64, &[u8])) {
    while bytes.len() > 19 {
        let length = usize::from(u16::from_ne_bytes([bytes[16], bytes[17]]));
        if length < 20 || length > bytes.len() {
            return;
        }
        let inode = bytes
            .first_chunk()
            .map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        let name = &bytes[19..length];
        each(inode, name.split(|b| *b == 0).next().unwrap_or_default());
        bytes = &bytes[length..];
    }
}
