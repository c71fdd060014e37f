//! Starting a rank's process, cheaply: one clone, a handful of system calls, one exec. The manager
//! does not wait for the exec; an error comes through a pipe that all ranks share.

use nix::unistd::{Pid, setpgid};
use rejoin_managers_host::descendants;
use rejoin_managers_host::error::{Error, Result, system_text};
use rejoin_managers_host::topology::Cpus;
use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Number of the rank's descriptor of its socket to the manager. It is above the numbers that
/// programs expect, which often count from 3, and within `limit`, their soft limit of open files.
#[must_use]
pub fn manager_number(limit: Option<&libc::rlimit>) -> i32 {
    let last = limit.map_or(u64::MAX, |l| l.rlim_cur.saturating_sub(1));
    i32::try_from(last).map_or(100, |last| last.min(100))
}

/// Length of the report of a failed child: rank slot, errno and step.
pub const FAILURE_LENGTH: usize = 12;

/// The step at which a child failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpawnStep {
    /// Going to the working directory.
    Directory = 0,
    /// Executing the program.
    Program = 1,
    /// Binding itself; it continues without.
    Binding = 2,
}

/// The failure of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpawnFailure {
    /// [`SpawnOrder::slot`].
    pub slot: usize,
    /// The failed step.
    pub step: SpawnStep,
    /// The system's error number.
    pub errno: i32,
}

impl SpawnFailure {
    /// Reads a message of the pipe of failures.
    #[must_use]
    pub fn read(message: [u8; FAILURE_LENGTH]) -> SpawnFailure {
        let word = |at: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&message[at..at + 4]);
            u32::from_ne_bytes(word)
        };
        SpawnFailure {
            slot: word(0) as usize,
            errno: word(4) as i32,
            step: match word(8) {
                0 => SpawnStep::Directory,
                2 => SpawnStep::Binding,
                _ => SpawnStep::Program,
            },
        }
    }
}

/// Data that all processes of one program share.
#[derive(Debug)]
pub struct ProgramImage {
    /// File to execute.
    pub path: CString,
    /// Arguments, the name of the program first.
    pub argv: Vec<CString>,
    /// Working directory to change to.
    pub wdir: Option<CString>,
}

/// One process to start.
#[derive(Debug)]
pub struct SpawnOrder<'a> {
    /// The program to run.
    pub image: &'a ProgramImage,
    /// Whole environment: the variables of all ranks, and this rank's own.
    pub environment: [&'a [CString]; 2],
    /// Standard input, output and error.
    pub streams: [BorrowedFd<'a>; 3],
    /// The rank's end of its socket to the manager.
    pub manager: BorrowedFd<'a>,
    /// The number that it gets there.
    pub number: i32,
    /// CPUs to run on, from before the program's first page is touched: so its memory is of their
    /// node.
    pub cpus: Option<&'a Cpus>,
    /// Where to write a failure to; another than `number`, and closed by exec.
    pub failures: BorrowedFd<'a>,
    /// Number to write there.
    pub slot: u32,
    /// Limit of open files to set again, when the manager has raised its own.
    pub open_files: Option<libc::rlimit>,
    /// Have SIGXFSZ ignored, which the manager does in any case.
    pub file_limit_ignored: bool,
}

/// A started process.
#[derive(Debug)]
pub struct Child {
    /// Process id of the child, which is its process group's too.
    pub pid: u32,
    /// Becomes readable when it ends.
    pub pidfd: OwnedFd,
}

/// Raw views of an [`SpawnOrder`], made before the clone so that the child allocates nothing.
struct Raw {
    path: *const libc::c_char,
    argv: Vec<*const libc::c_char>,
    shell_argv: Vec<*const libc::c_char>,
    environment: Vec<*const libc::c_char>,
    wdir: *const libc::c_char,
    streams: [i32; 3],
    manager: i32,
    number: i32,
    /// The kernel's mask; empty: not bound.
    cpus: Vec<u64>,
    failures: i32,
    slot: u32,
    open_files: Option<libc::rlimit>,
    file_limit: libc::sighandler_t,
    parent: i32,
}

/// Starts a process in a process group of its own, which dies with this one.
///
/// # Errors
/// The system has no process left; errors of the exec come through the pipe of failures.
pub fn spawn(order: &SpawnOrder<'_>) -> std::io::Result<Child> {
    let raw = Raw::new(order);
    let mut pidfd: i32 = -1;
    // SAFETY: clone_args is plain data for which all zeros is a value.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = libc::CLONE_PIDFD as u64;
    arguments.pidfd = (&raw mut pidfd) as u64;
    arguments.exit_signal = libc::SIGCHLD as u64;
    let size = std::mem::size_of::<libc::clone_args>();
    // SAFETY: without CLONE_VM the child has its own copy of everything, as after fork. The child
    // takes no lock and allocates nothing until its exec. So locks that the watcher's threads held
    // at that moment do not matter.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw mut arguments, size) };
    match pid {
        // SAFETY: we are the child.
        0 => unsafe { become_rank(&raw) },
        // Sandboxes hide clone3.
        -1 if std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS) => {
            spawn_by_fork(&raw)
        }
        -1 => Err(std::io::Error::last_os_error()),
        pid => {
            // SAFETY: the kernel made the descriptor for us.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            lead_group(pid as i32);
            Ok(Child {
                pid: pid as u32,
                pidfd,
            })
        }
    }
}

fn spawn_by_fork(raw: &Raw) -> std::io::Result<Child> {
    // SAFETY: the child takes no lock and allocates nothing until its exec.
    let pid = unsafe { libc::fork() };
    match pid {
        // SAFETY: we are the child.
        0 => unsafe { become_rank(raw) },
        -1 => Err(std::io::Error::last_os_error()),
        pid => {
            lead_group(pid);
            Ok(Child {
                pid: pid as u32,
                pidfd: descendants::watch(pid as u32)?,
            })
        }
    }
}

/// Both sides do this, so that a signal to the group never comes too early.
fn lead_group(pid: libc::pid_t) {
    // After the child's exec it fails, and is done already.
    let _ = setpgid(Pid::from_raw(pid), Pid::from_raw(pid));
}

impl Raw {
    fn new(order: &SpawnOrder<'_>) -> Raw {
        let image = order.image;
        fn pointers<'a>(list: impl Iterator<Item = &'a CString>) -> Vec<*const libc::c_char> {
            list.map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
        }
        let argv = pointers(image.argv.iter());
        let shell = [c"/bin/sh".as_ptr(), image.path.as_ptr()];
        let shell_argv = shell
            .into_iter()
            .chain(argv.iter().skip(1).copied())
            .collect();
        Raw {
            path: image.path.as_ptr(),
            shell_argv,
            argv,
            environment: pointers(order.environment.into_iter().flatten()),
            wdir: image.wdir.as_deref().map_or(std::ptr::null(), CStr::as_ptr),
            streams: order.streams.map(|fd| fd.as_raw_fd()),
            manager: order.manager.as_raw_fd(),
            number: order.number,
            cpus: order.cpus.map(Cpus::mask).unwrap_or_default(),
            failures: order.failures.as_raw_fd(),
            slot: order.slot,
            open_files: order.open_files,
            file_limit: match order.file_limit_ignored {
                true => libc::SIG_IGN,
                false => libc::SIG_DFL,
            },
            parent: std::process::id() as i32,
        }
    }
}

/// The child's way to exec. Only async-signal-safe calls, no allocation.
///
/// # Safety
/// Only in a fresh child with one thread; the pointers in `raw` are valid and end with null.
unsafe fn become_rank(raw: &Raw) -> ! {
    // SAFETY: plain system calls on numbers and on pointers that `spawn` keeps alive.
    unsafe {
        libc::setpgid(0, 0);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
        if libc::getppid() != raw.parent {
            // The manager ended before the death signal was set.
            libc::_exit(127);
        }
        if !raw.cpus.is_empty() {
            let bytes = std::mem::size_of_val(raw.cpus.as_slice());
            if libc::sched_setaffinity(0, bytes, raw.cpus.as_ptr().cast()) != 0 {
                report(raw, SpawnStep::Binding);
            }
        }
        if let Some(limit) = &raw.open_files {
            libc::setrlimit(libc::RLIMIT_NOFILE, limit);
        }
        for (number, &fd) in raw.streams.iter().enumerate() {
            libc::dup2(fd, number as i32);
        }
        if raw.manager == raw.number {
            libc::fcntl(raw.number, libc::F_SETFD, 0);
        } else {
            libc::dup2(raw.manager, raw.number);
        }
        if !raw.wdir.is_null() && libc::chdir(raw.wdir) != 0 {
            fail(raw, SpawnStep::Directory);
        }
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::signal(libc::SIGXFSZ, raw.file_limit);
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
        libc::execve(raw.path, raw.argv.as_ptr(), raw.environment.as_ptr());
        if *libc::__errno_location() == libc::ENOEXEC {
            // A script without a first line that names its interpreter.
            libc::execve(
                c"/bin/sh".as_ptr(),
                raw.shell_argv.as_ptr(),
                raw.environment.as_ptr(),
            );
        }
        fail(raw, SpawnStep::Program)
    }
}

/// # Safety
/// Only in a fresh child.
unsafe fn fail(raw: &Raw, step: SpawnStep) -> ! {
    // SAFETY: plain system calls.
    unsafe {
        report(raw, step);
        libc::_exit(127)
    }
}

/// Tells of the error of the last call.
///
/// # Safety
/// Only in a fresh child.
unsafe fn report(raw: &Raw, step: SpawnStep) {
    // SAFETY: plain system calls; the buffer lives on this stack.
    unsafe {
        let errno = *libc::__errno_location();
        let mut message = [0u8; FAILURE_LENGTH];
        message[..4].copy_from_slice(&raw.slot.to_ne_bytes());
        message[4..8].copy_from_slice(&errno.to_ne_bytes());
        message[8..].copy_from_slice(&(step as u32).to_ne_bytes());
        libc::write(raw.failures, message.as_ptr().cast(), message.len());
    }
}

/// Finds the file of a program as a shell would: names without a slash in `path`.
///
/// # Errors
/// No such program, with a hint when one of that name lies in the working directory.
pub fn resolve(name: &OsStr, path: Option<&OsStr>, wdir: Option<&Path>) -> Result<PathBuf> {
    let shown = name.to_string_lossy();
    let at = |file: &Path| wdir.map_or_else(|| file.to_path_buf(), |dir| dir.join(file));
    if name.as_bytes().contains(&b'/') {
        let file = PathBuf::from(name);
        return match std::fs::metadata(at(&file)) {
            Ok(data) if data.is_dir() => Err(Error::Usage(format!("{shown} is a directory"))),
            Ok(_) => Ok(file),
            Err(error) => Err(Error::Usage(format!(
                "can't run {shown}: {}",
                system_text(&error)
            ))),
        };
    }
    let default = OsStr::new("/usr/local/bin:/usr/bin:/bin");
    for dir in std::env::split_paths(path.unwrap_or(default)) {
        let file = dir.join(name);
        if is_executable(&file) {
            return Ok(file);
        }
    }
    let here = at(Path::new(name));
    let hint = if is_executable(&here) {
        format!("; did you mean ./{shown}?")
    } else {
        String::new()
    };
    Err(Error::Usage(format!("no program {shown} in PATH{hint}")))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(file).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn the_managers_number_is_one_that_ranks_may_have() {
        let limit = |rlim_cur| libc::rlimit {
            rlim_cur,
            rlim_max: libc::RLIM_INFINITY,
        };
        assert_eq!(manager_number(None), 100);
        assert_eq!(manager_number(Some(&limit(libc::RLIM_INFINITY))), 100);
        assert_eq!(manager_number(Some(&limit(101))), 100);
        assert_eq!(manager_number(Some(&limit(100))), 99);
        assert_eq!(manager_number(Some(&limit(64))), 63);
    }

    #[test]
    fn who_can_not_be_bound_runs_and_says_so() {
        let _alone = crate::alone();
        let image = ProgramImage {
            path: c"/bin/true".into(),
            argv: vec![c"true".into()],
            wdir: None,
        };
        let null = std::fs::File::open("/dev/null").unwrap();
        let (told, failures) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
        // One that no machine has.
        let cpus = Cpus::parse("65535");
        let child = spawn(&SpawnOrder {
            image: &image,
            environment: [&[], &[]],
            streams: [null.as_fd(); 3],
            manager: null.as_fd(),
            number: manager_number(None),
            cpus: Some(&cpus),
            failures: failures.as_fd(),
            slot: 5,
            open_files: None,
            file_limit_ignored: false,
        });
        drop(failures);
        let pid = nix::unistd::Pid::from_raw(child.unwrap().pid as i32);
        let end = nix::sys::wait::waitpid(pid, None).unwrap();
        assert_eq!(end, nix::sys::wait::WaitStatus::Exited(pid, 0));
        let mut message = [0; FAILURE_LENGTH];
        assert_eq!(nix::unistd::read(&told, &mut message), Ok(FAILURE_LENGTH));
        let said = SpawnFailure {
            slot: 5,
            step: SpawnStep::Binding,
            errno: libc::EINVAL,
        };
        assert_eq!(SpawnFailure::read(message), said);
    }

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        let path = Some(OsStr::new("/nonexistent:/bin:/usr/bin"));
        assert!(
            resolve(OsStr::new("sh"), path, None)
                .unwrap()
                .ends_with("sh")
        );
        assert_eq!(
            resolve(OsStr::new("/bin/sh"), None, None).unwrap(),
            Path::new("/bin/sh")
        );
        let error = resolve(OsStr::new("no-such-program"), path, None).unwrap_err();
        assert_eq!(error.to_string(), "no program no-such-program in PATH");
        assert!(resolve(OsStr::new("/bin"), path, None).is_err());
        let error = resolve(
            OsStr::new("sh"),
            Some(OsStr::new("/x")),
            Some(Path::new("/bin")),
        );
        assert!(
            error
                .unwrap_err()
                .to_string()
                .contains("did you mean ./sh?")
        );
    }
}
