//! State of a process that lies in the kernel, and that a clone inherits but a process made from a
//! file does not.

use std::ffi::CString;
use std::os::fd::RawFd;

use super::privileges::{self, Privileges};
use super::save_error::SaveError;
use super::saved_process::SavedProcess;
use crate::manifest::{self, Descriptor};
use crate::signals::SignalAction;
use crate::sys;
use crate::threads::kernel_state::register_rseq;

/// Signals of the system.
const SIGNALS: usize = 64;
/// Kinds of limits (`RLIM_NLIMITS`).
const LIMITS: usize = 16;
/// Words of the set of processors: 8,192 processors.
const PROCESSOR_WORDS: usize = 128;

/// A device that is open under a number.
struct OpenDevice {
    fd: RawFd,
    path: CString,
    flags: i32,
    is_cloexec: bool,
}

/// The state.
pub(super) struct ProcessState {
    actions: [SignalAction; SIGNALS],
    alternate_stack: libc::stack_t,
    limits: [libc::rlimit; LIMITS],
    processors: ([u64; PROCESSOR_WORDS], usize),
    umask: libc::mode_t,
    directory: CString,
    devices: Vec<OpenDevice>,
    thread_pointer: u64,
    personality: i64,
    has_no_huge_pages: bool,
    /// Parts of the processor's state that need a permission (AMX).
    components: u64,
    privileges: Privileges,
    is_dumpable: bool,
}

/// `arch_prctl`: the permitted parts of the processor's state.
const ARCH_GET_XCOMP_PERM: i32 = 0x1022;
/// `arch_prctl`: asks for a permission.
const ARCH_REQ_XCOMP_PERM: i32 = 0x1023;
/// The tiles of AMX, the only part that needs a permission.
const AMX_TILES: i32 = 18;

impl ProcessState {
    /// Reads it in a zygote.
    ///
    /// # Errors
    /// [`SaveError::Descriptor`] for one that can't be opened again, [`SaveError::Directory`] if
    /// the working directory has no path.
    pub fn capture(program: &SavedProcess<'_>, thread_pointer: u64) -> Result<Self, SaveError> {
        let system = |errno| SaveError::System { errno };
        let all = manifest::descriptors(program.block).map_err(system)?;
        let devices = devices(&all, program)?;
        if privileges::is_confined(program.manager) {
            return Err(SaveError::Confined);
        }
        // SAFETY: these are plain data for which all zeros is a value; the calls fill them in.
        unsafe {
            let mut state = Self {
                actions: std::array::from_fn(|index| SignalAction::read(index as i32 + 1)),
                alternate_stack: std::mem::zeroed(),
                limits: std::mem::zeroed(),
                processors: ([0; PROCESSOR_WORDS], 0),
                umask: libc::umask(0),
                directory: directory()?,
                devices,
                thread_pointer,
                personality: libc::syscall(libc::SYS_personality, 0xffff_ffffu32),
                has_no_huge_pages: libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1,
                components: 0,
                privileges: Privileges::read(),
                is_dumpable: libc::prctl(libc::PR_GET_DUMPABLE, 0, 0, 0, 0) == 1,
            };
            let components = &raw mut state.components;
            libc::syscall(libc::SYS_arch_prctl, ARCH_GET_XCOMP_PERM, components);
            libc::umask(state.umask);
            libc::sigaltstack(std::ptr::null(), &raw mut state.alternate_stack);
            for (kind, limit) in (0..).zip(&mut state.limits) {
                let (none, limit) = (std::ptr::null::<libc::rlimit>(), std::ptr::from_mut(limit));
                libc::syscall(libc::SYS_prlimit64, 0, kind, none, limit);
            }
            let (set, length) = &mut state.processors;
            let bytes = libc::syscall(
                libc::SYS_sched_getaffinity,
                0,
                size_of_val(set),
                set.as_mut_ptr(),
            );
            *length = usize::try_from(bytes).unwrap_or(0);
            Ok(state)
        }
    }

    /// Sets it again, in a process made from the image. The limit on open files comes first, for
    /// descriptors with high numbers.
    pub fn restore(&self) -> Result<(), SaveError> {
        register_rseq(self.thread_pointer as usize);
        // SAFETY: all pointers are to structures of the kernel's, which are read. The handlers are
        // those of this program, at their addresses.
        unsafe {
            for (kind, limit) in (0..).zip(&self.limits) {
                let none = std::ptr::null_mut::<libc::rlimit>();
                // A hard limit that is lower by now stays.
                libc::syscall(
                    libc::SYS_prlimit64,
                    0,
                    kind,
                    std::ptr::from_ref(limit),
                    none,
                );
            }
            for (signal, action) in (1..).zip(&self.actions) {
                // SIGKILL and SIGSTOP can't be set.
                let _ = action.set(signal);
            }
            let mut stack = self.alternate_stack;
            stack.ss_flags &= !libc::SS_ONSTACK;
            libc::sigaltstack(&raw const stack, std::ptr::null_mut());
            let (set, length) = &self.processors;
            // On a host with other processors the process runs on all of them.
            libc::syscall(libc::SYS_sched_setaffinity, 0, *length, set.as_ptr());
            libc::umask(self.umask);
            if libc::chdir(self.directory.as_ptr()) != 0 {
                return Err(SaveError::System {
                    errno: sys::errno(),
                });
            }
            libc::syscall(libc::SYS_personality, self.personality);
            libc::prctl(
                libc::PR_SET_THP_DISABLE,
                self.has_no_huge_pages as u64,
                0,
                0,
                0,
            );
            if self.components & 1 << AMX_TILES != 0 {
                libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, AMX_TILES);
            }
        }
        Ok(())
    }

    /// The last step: what may forbid the others.
    pub fn restrict(&self) -> Result<(), SaveError> {
        self.privileges.restore()?;
        // Another user makes a process one that is not dumped.
        // SAFETY: touches no memory.
        unsafe { libc::prctl(libc::PR_SET_DUMPABLE, self.is_dumpable as u64, 0, 0, 0) };
        Ok(())
    }

    /// Opens the devices again. The program's numbers are free.
    pub fn open_devices(&self) -> Result<(), SaveError> {
        for device in &self.devices {
            let failed = |_| SaveError::Descriptor(device.fd);
            let new = sys::open(&device.path, device.flags).map_err(failed)?;
            sys::duplicate(new, device.fd, device.is_cloexec).map_err(failed)?;
            if new != device.fd {
                sys::close(new);
            }
        }
        Ok(())
    }
}

/// The devices among the descriptors, all of which must be such that a file can hold them.
fn devices(all: &[Descriptor], program: &SavedProcess<'_>) -> Result<Vec<OpenDevice>, SaveError> {
    let mut devices = Vec::new();
    let placeholder = sys::status(program.socket).map(|s| (s.st_dev, s.st_ino));
    for one in all {
        let is_ours = one.fd == program.file || one.fd == program.socket;
        if is_ours || Ok(one.file) == placeholder || program.inherited.contains(&(one.fd, one.file))
        {
            continue;
        }
        match one.mode & libc::S_IFMT {
            libc::S_IFREG if manifest::is_message_queue(one.fd) => {
                return Err(SaveError::Descriptor(one.fd));
            }
            // The manifest opens them.
            libc::S_IFREG | libc::S_IFDIR => {}
            libc::S_IFCHR if matches!(libc::major(one.special), 1 | 4 | 5 | 136..=143) => {
                devices.push(OpenDevice::read(one.fd).ok_or(SaveError::Descriptor(one.fd))?);
            }
            _ if program.manifest.leads_to_tracker(one.fd) => {}
            // A restored process gets its standard input from the manager.
            _ if one.fd == 0 => {}
            _ => return Err(SaveError::Descriptor(one.fd)),
        }
    }
    Ok(devices)
}

impl OpenDevice {
    fn read(fd: RawFd) -> Option<Self> {
        let link = sys::ShortPath::new(format_args!("/proc/self/fd/{fd}"));
        let mut buffer = [0; 256];
        let path = sys::read_link(link.as_c_str(), &mut buffer).ok()?;
        let flags = sys::control(fd, libc::F_GETFL, 0).ok()?;
        Some(Self {
            fd,
            path: CString::new(path).ok()?,
            flags: flags & (libc::O_ACCMODE | libc::O_APPEND | libc::O_NONBLOCK),
            is_cloexec: sys::control(fd, libc::F_GETFD, 0).is_ok_and(|flags| flags != 0),
        })
    }
}

/// The working directory's path.
fn directory() -> Result<CString, SaveError> {
    let mut buffer = [0u8; libc::PATH_MAX as usize];
    // SAFETY: pointer and length describe the buffer.
    let length = unsafe { libc::syscall(libc::SYS_getcwd, buffer.as_mut_ptr(), buffer.len()) };
    let path = usize::try_from(length)
        .ok()
        .and_then(|length| CString::new(&buffer[..length.checked_sub(1)?]).ok());
    // The kernel begins the path of a directory outside the root with a word in parentheses.
    path.filter(|path| path.as_bytes().starts_with(b"/"))
        .ok_or(SaveError::Directory)
}
