//! Whether one rank can read another's memory (`process_vm_readv`), tried by two processes with the
//! same relation as ranks.

use super::finding::Finding;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The value that one holds and the other reads.
const SECRET: u64 = 0x5245_4a4f_494e_0a17;

/// For so long the two are waited for.
const LIMIT: Duration = Duration::from_secs(5);

/// Tries it, and reports the obstacle.
pub(super) fn single_copy() -> Finding {
    let what = "single copy";
    let yama = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    let yama = yama.ok().and_then(|text| text.trim().parse::<u32>().ok());
    let scope = yama.map_or("no yama".into(), |scope| {
        format!("yama ptrace_scope {scope}")
    });
    let first = try_read(false);
    if first == Ok(()) {
        return Finding::good(
            what,
            format!("processes of a user read each other ({scope})"),
        );
    }
    match (try_read(true), yama) {
        (Ok(()), _) => Finding::good(what, format!("ranks allow each other to read ({scope})")),
        (Err(why), _) => Finding::warning(
            what,
            format!("{why} ({scope})"),
            "over shared memory long messages are copied twice, through a ring; \
             debuggers may need privileges, too",
        ),
    }
}

/// Makes a process that holds the secret, and another one that reads it. `allow`: the first lets
/// its parent and the processes that the parent has started trace it, as ranks do under Yama.
fn try_read(allow: bool) -> Result<(), String> {
    let said = |error: std::io::Error| rejoin_managers_host::error::system_text(&error);
    let (mut ours, theirs) = UnixStream::pair().map_err(said)?;
    ours.set_read_timeout(Some(LIMIT)).map_err(said)?;
    let cell = Box::new(0u64);
    // SAFETY: the child makes system calls only.
    let holder = fork(|| unsafe { hold(&raw const *cell, allow, theirs.as_raw_fd()) })?;
    drop(theirs);
    let ready = ours.read_exact(&mut [0]);
    let result = ready.map_err(said).and_then(|()| {
        // SAFETY: the child makes system calls only.
        let reader = fork(|| unsafe { read_of(holder.0, &raw const *cell) })?;
        match reader.wait() {
            0 => Ok(()),
            errno => Err(said(std::io::Error::from_raw_os_error(errno))),
        }
    });
    // Its end tells the holder to end.
    let _ = ours.write_all(&[0]);
    drop(ours);
    holder.wait();
    result
}

/// A child of ours.
struct Child(libc::pid_t);

impl Child {
    /// Waits for its end, and returns its exit code.
    fn wait(self) -> i32 {
        let mut status = 0;
        // SAFETY: the kernel writes one int.
        while unsafe { libc::waitpid(self.0, &raw mut status, 0) } < 0 {
            if std::io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
                return libc::ECHILD;
            }
        }
        if libc::WIFEXITED(status) {
            libc::WEXITSTATUS(status)
        } else {
            libc::EINTR
        }
    }
}

/// A child that calls `what` and exits with its result.
fn fork(what: impl FnOnce() -> i32) -> Result<Child, String> {
    // SAFETY: what the child does takes no lock and allocates nothing; it ends by the alarm at the
    // latest.
    match unsafe { libc::fork() } {
        -1 => Err(rejoin_managers_host::error::system_text(
            &std::io::Error::last_os_error(),
        )),
        0 => {
            // SAFETY: plain numbers.
            unsafe { libc::alarm(LIMIT.as_secs() as u32) };
            let code = what();
            // SAFETY: nothing of ours is to be run at the end.
            unsafe { libc::_exit(code) }
        }
        pid => Ok(Child(pid)),
    }
}

/// Writes the secret into a copy of its own of the cell, says so, and waits.
///
/// # Safety
/// Only in a child; the cell is writable and of no one else there.
unsafe fn hold(cell: *const u64, allow: bool, socket: i32) -> i32 {
    // SAFETY: the cell is as promised, the rest plain system calls on this stack.
    unsafe {
        cell.cast_mut().write_volatile(SECRET);
        if allow {
            libc::prctl(libc::PR_SET_PTRACER, libc::getppid(), 0, 0, 0);
        }
        let mut byte = 1u8;
        libc::write(socket, (&raw const byte).cast(), 1);
        libc::read(socket, (&raw mut byte).cast(), 1);
    }
    0
}

/// Reads the cell of another process. Returns 0, or what the system says.
///
/// # Safety
/// Only in a child.
unsafe fn read_of(pid: libc::pid_t, cell: *const u64) -> i32 {
    let mut got = 0u64;
    let vector = |base: *mut u64| libc::iovec {
        iov_base: base.cast(),
        iov_len: size_of::<u64>(),
    };
    let (local, remote) = (vector(&raw mut got), vector(cell.cast_mut()));
    // SAFETY: the local vector is this stack's; the other's is checked by the kernel.
    unsafe {
        let count = libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0);
        if count < 0 {
            return *libc::__errno_location();
        }
    }
    // SAFETY: the kernel has written it.
    let got = unsafe { (&raw const got).read_volatile() };
    if got == SECRET { 0 } else { libc::EIO }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reader_reads_what_the_other_holds_only() {
        let _alone = crate::alone();
        // If this machine forbids such reads, the finding says so.
        let finding = single_copy();
        assert_eq!(
            try_read(true).is_ok(),
            finding.cost.is_empty(),
            "{finding:?}"
        );
        // A process that is no more can't be read.
        let gone = fork(|| 0).unwrap();
        let pid = gone.0;
        assert_eq!(gone.wait(), 0);
        let cell = Box::new(SECRET);
        // SAFETY: system calls only.
        let reader = fork(|| unsafe { read_of(pid, &raw const *cell) }).unwrap();
        assert_eq!(reader.wait(), libc::ESRCH);
        // A process with another value is distinguished from it.
        let cell = Box::new(1u64);
        let (own, at) = (std::process::id() as i32, &raw const *cell);
        // SAFETY: system calls only; a parent may not be read under Yama, which is another error.
        let reader = fork(|| unsafe { read_of(own, at) }).unwrap();
        assert_ne!(reader.wait(), 0);
    }
}
