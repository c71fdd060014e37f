//! The system calls that the restarter makes.

use core::arch::asm;

use rejoin_image_format::ImageError;

/// The system's number for an error.
pub type Errno = i32;

/// What failed, as [`ImageError::System`] numbers it.
#[derive(Clone, Copy)]
pub enum RestartStep {
    OpenImage = 0,
    ReadImage = 1,
    MapMemory = 2,
    ProtectMemory = 3,
    ListMappings = 4,
    MoveVdso = 5,
    SetUpThread = 6,
    Unmap = 7,
}

impl RestartStep {
    /// The error of this step.
    pub fn because(self) -> impl FnOnce(Errno) -> ImageError {
        move |errno| ImageError::System {
            step: self as u16,
            errno,
        }
    }
}

const READ: u64 = 0;
const OPEN: u64 = 2;
const CLOSE: u64 = 3;
const FSTAT: u64 = 5;
const LSEEK: u64 = 8;
const MMAP: u64 = 9;
const MPROTECT: u64 = 10;
const MUNMAP: u64 = 11;
const SIGPROCMASK: u64 = 14;
const PREAD: u64 = 17;
const MREMAP: u64 = 25;
const MADVISE: u64 = 28;
const NANOSLEEP: u64 = 35;
const SENDTO: u64 = 44;
const CLONE: u64 = 56;
const WAIT4: u64 = 61;
const FCNTL: u64 = 72;
const PRCTL: u64 = 157;
const ARCH_PRCTL: u64 = 158;
const GETAFFINITY: u64 = 204;
const EXIT_GROUP: u64 = 231;

const READ_ONLY_CLOEXEC: u64 = 0o2_000_000;
const NO_SIGNAL: u64 = 0x4000;
const ADVICE_DROP: u64 = 4;
const ADVICE_POPULATE_WRITE: u64 = 23;
const EINTR: Errno = 4;

/// A system call.
///
/// # Safety
/// What the call does to memory must be sound.
unsafe fn call(number: u64, arguments: [u64; 6]) -> Result<u64, Errno> {
    let [a, b, c, d, e, f] = arguments;
    let result: i64;
    // SAFETY: the kernel changes these registers only.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    match result {
        0.. => Ok(result.cast_unsigned()),
        _ => Err((-result) as Errno),
    }
}

/// Blocks all signals: the process continues with them blocked.
pub fn block_signals() {
    let all = u64::MAX;
    // SAFETY: the pointer is to a set of the length given.
    let _ = unsafe { call(SIGPROCMASK, [0, (&raw const all) as u64, 0, 8, 0, 0]) };
}

/// Opens a file for reading; the path ends with a zero byte.
pub fn open(path: &[u8]) -> Result<i32, Errno> {
    // SAFETY: the path ends with a zero byte.
    let fd = unsafe { call(OPEN, [path.as_ptr() as u64, READ_ONLY_CLOEXEC, 0, 0, 0, 0])? };
    Ok(fd as i32)
}

/// Closes a descriptor.
pub fn close(fd: i32) {
    // SAFETY: touches no memory.
    let _ = unsafe { call(CLOSE, [fd as u64, 0, 0, 0, 0, 0]) };
}

/// Reads of this file go past the system's cache from now on, if the file system allows that.
/// They must be of whole pages.
pub fn bypass_cache(fd: i32) {
    const SET_FLAGS: u64 = 4;
    const DIRECT: u64 = 0o40_000;
    // SAFETY: touches no memory.
    let _ = unsafe { call(FCNTL, [fd as u64, SET_FLAGS, DIRECT, 0, 0, 0]) };
}

/// Length of a file in bytes.
pub fn length(fd: i32) -> Result<u64, Errno> {
    const END: u64 = 2;
    // SAFETY: touches no memory.
    unsafe { call(LSEEK, [fd as u64, 0, END, 0, 0, 0]) }
}

/// Length of a file in bytes, and the time of its last change in nanoseconds.
pub fn status(fd: i32) -> Result<(u64, u64), Errno> {
    let mut status = [0u64; 18];
    // SAFETY: the kernel's structure has 144 bytes.
    unsafe { call(FSTAT, [fd as u64, status.as_mut_ptr() as u64, 0, 0, 0, 0])? };
    let changed = status[11]
        .wrapping_mul(1_000_000_000)
        .wrapping_add(status[12]);
    Ok((status[6], changed))
}

/// Reads as much as there is room for; the number of bytes, 0 at the end.
pub fn read(fd: i32, room: &mut [u8]) -> Result<usize, Errno> {
    let (at, length) = (room.as_mut_ptr() as u64, room.len() as u64);
    // SAFETY: pointer and length describe the room.
    unsafe { call(READ, [fd as u64, at, length, 0, 0, 0]) }.map(|count| count as usize)
}

/// Fills `room` from a position in a file. An end before that is an error.
pub fn read_at(fd: i32, room: &mut [u8], position: u64) -> Result<(), Errno> {
    const EIO: Errno = 5;
    let mut done = 0;
    while done < room.len() {
        let rest = &mut room[done..];
        let (at, length) = (rest.as_mut_ptr() as u64, rest.len() as u64);
        let from = position + done as u64;
        // SAFETY: pointer and length describe the rest of the room.
        match unsafe { call(PREAD, [fd as u64, at, length, from, 0, 0]) } {
            Ok(0) => return Err(EIO),
            Ok(count) => done += count as usize,
            Err(EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// A new mapping at exactly this address.
///
/// # Safety
/// With the flag `MAP_FIXED`, nothing may use what was mapped there.
pub unsafe fn map(
    range: (u64, u64),
    access: u64,
    flags: u64,
    (fd, offset): (i32, u64),
) -> Result<(), Errno> {
    let (start, length) = range;
    // SAFETY: the caller's promise.
    let at = unsafe { call(MMAP, [start, length, access, flags, fd as u64, offset])? };
    match at == start {
        true => Ok(()),
        // A kernel that does not know MAP_FIXED_NOREPLACE chooses another place.
        false => Err(17),
    }
}

/// Removes mappings.
///
/// # Safety
/// Nothing may use the range any more.
pub unsafe fn unmap(start: u64, length: u64) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    unsafe { call(MUNMAP, [start, length, 0, 0, 0, 0]) }.map(drop)
}

/// Moves a mapping to another address.
///
/// # Safety
/// Nothing may use either range.
pub unsafe fn move_mapping(from: u64, length: u64, to: u64) -> Result<(), Errno> {
    const MAY_MOVE_FIXED: u64 = 3;
    let arguments = [from, length, length, MAY_MOVE_FIXED, to, 0];
    // SAFETY: the caller's promise.
    unsafe { call(MREMAP, arguments) }.map(drop)
}

/// Sets the access to a mapping.
///
/// # Safety
/// Nothing may use the range in another way.
pub unsafe fn protect(start: u64, length: u64, access: u64) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    unsafe { call(MPROTECT, [start, length, access, 0, 0, 0]) }.map(drop)
}

/// Gives memory to a range that is about to be written; an advice only.
pub fn populate(start: u64, length: u64) {
    advise((start, length), ADVICE_POPULATE_WRITE);
}

/// Gives an advice that changes no contents, which the system may ignore.
pub fn advise((start, length): (u64, u64), advice: u64) {
    // SAFETY: contents do not change.
    let _ = unsafe { call(MADVISE, [start, length, advice, 0, 0, 0]) };
}

/// Drops the contents of a private range: it reads as zeros, or as its file, from now on.
///
/// # Safety
/// Nothing may use the range in another way.
pub unsafe fn drop_contents(start: u64, length: u64) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    unsafe { call(MADVISE, [start, length, ADVICE_DROP, 0, 0, 0]) }.map(drop)
}

/// Sleeps for at most so many nanoseconds, below a second.
pub fn sleep(nanoseconds: u64) {
    let time = [0, nanoseconds];
    // SAFETY: the pointer is to a time in seconds and nanoseconds; the rest is not asked for.
    let _ = unsafe { call(NANOSLEEP, [time.as_ptr() as u64, 0, 0, 0, 0, 0]) };
}

/// Processors that this process may use.
pub fn processors() -> usize {
    let mut set = [0u64; 128];
    let length = size_of_val(&set) as u64;
    // SAFETY: pointer and length describe the set.
    let done = unsafe { call(GETAFFINITY, [0, length, set.as_mut_ptr() as u64, 0, 0, 0]) };
    let count: u32 = set.iter().map(|word| word.count_ones()).sum();
    done.map_or(1, |_| count as usize)
}

/// Starts a process that shares this one's memory and files, and ends without a signal. It calls
/// `entry` with `argument`, on a stack that ends at `stack`. Its number.
///
/// # Safety
/// `entry` may be called with the argument, on that stack, beside this process.
pub unsafe fn share_memory(
    stack: u64,
    entry: unsafe extern "C" fn(u64) -> !,
    argument: u64,
) -> Result<i32, Errno> {
    const MEMORY: u64 = 0x100;
    const FILES: u64 = 0x400;
    let result: i64;
    // SAFETY: the kernel changes these registers only. The new process has its own, and leaves
    // through `entry`, which does not return.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r13",
            "call r12",
            "ud2",
            "2:",
            inlateout("rax") CLONE => result,
            in("rdi") MEMORY | FILES, in("rsi") stack, in("rdx") 0, in("r10") 0, in("r8") 0,
            in("r12") entry, in("r13") argument,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    match result {
        0.. => Ok(result as i32),
        _ => Err((-result) as Errno),
    }
}

/// Waits for the end of a process that [`share_memory`] has started. An error if it was not the
/// end that it had in mind.
pub fn wait_for(pid: i32) -> Result<(), Errno> {
    const ALL_KINDS: u64 = 0x4000_0000;
    const EIO: Errno = 5;
    let mut status = 0u32;
    loop {
        let place = (&raw mut status) as u64;
        // SAFETY: the pointer is to a number.
        match unsafe { call(WAIT4, [pid as u64, place, ALL_KINDS, 0, 0, 0]) } {
            Ok(_) if status == 0 => return Ok(()),
            Ok(_) => return Err(EIO),
            Err(EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// This process is killed when its parent ends.
pub fn end_with_parent() {
    const SET_DEATH_SIGNAL: u64 = 1;
    const KILL: u64 = 9;
    // SAFETY: touches no memory.
    let _ = unsafe { call(PRCTL, [SET_DEATH_SIGNAL, KILL, 0, 0, 0, 0]) };
}

/// Fills `room` from a socket. An end before that is an error.
pub fn receive(socket: i32, room: &mut [u8]) -> Result<(), Errno> {
    const EPIPE: Errno = 32;
    let mut done = 0;
    while done < room.len() {
        match read(socket, &mut room[done..]) {
            Ok(0) => return Err(EPIPE),
            Ok(count) => done += count,
            Err(EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Sends a message; nobody may be there to read it.
pub fn send(socket: i32, bytes: &[u8]) {
    let (at, length) = (bytes.as_ptr() as u64, bytes.len() as u64);
    // SAFETY: pointer and length describe the bytes.
    let _ = unsafe { call(SENDTO, [socket as u64, at, length, NO_SIGNAL, 0, 0]) };
}

/// `prctl(PR_SET_MM, PR_SET_MM_MAP)` with a structure of this length.
///
/// # Safety
/// The pointer is to such a structure.
pub unsafe fn set_memory_map(structure: u64, length: u64) -> Result<(), Errno> {
    const SET_MM: u64 = 35;
    const MAP: u64 = 14;
    // SAFETY: the caller's promise.
    unsafe { call(PRCTL, [SET_MM, MAP, structure, length, 0, 0]) }.map(drop)
}

/// Sets the base of a segment.
pub fn arch_prctl(code: u64, base: u64) -> Result<(), Errno> {
    // SAFETY: this program uses neither segment.
    unsafe { call(ARCH_PRCTL, [code, base, 0, 0, 0, 0]) }.map(drop)
}

/// Ends the process.
pub fn exit(code: i32) -> ! {
    loop {
        // SAFETY: does not return.
        let _ = unsafe { call(EXIT_GROUP, [code as u64, 0, 0, 0, 0, 0]) };
    }
}
