//! Anonymous files, as memory that processes share: how managers and ranks reserve room in them.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use crate::host_barrier::BARRIER_MEMORY;
use crate::rank_log_memory;

/// Name of the memory of a link between ranks of one host. It stays out of clones, and a restored
/// rank makes new links; so a mapping of this name is no reason to refuse an image.
pub const LINK_MEMORY: &CStr = c"rejoin-ring";

/// Whether a mapping's name, as `/proc/PID/maps` shows it, is that of memory which this library
/// shares with other processes: a link's, the barrier's, or that of a rank's log. It is part of no
/// image.
pub(crate) fn is_library_memory(name: &[u8]) -> bool {
    let memory = name.strip_prefix(b"/memfd:");
    let memory = memory.and_then(|name| name.strip_suffix(b" (deleted)"));
    let ours = [LINK_MEMORY, BARRIER_MEMORY].map(CStr::to_bytes);
    memory.is_some_and(|name| ours.contains(&name)) || rank_log_memory::is_its_name(name)
}

/// How often a reservation is tried when signals interrupt it.
const MOST_BEGUN: u32 = 100;

/// Whether this process may make files of so many bytes. Above the limit, SIGXFSZ ends the process
/// unless it ignores the signal.
///
/// # Errors
/// The limit is below.
pub fn allow(bytes: u64) -> io::Result<()> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the call fills the value in.
    if unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if limit.rlim_cur != libc::RLIM_INFINITY && limit.rlim_cur < bytes {
        return Err(io::Error::other(format!(
            "the limit on the size of files (ulimit -f) is below {bytes} bytes"
        )));
    }
    Ok(())
}

/// Makes the system allocate memory for the first bytes of a file.
///
/// # Errors
/// The system's reason, or too many interruptions by signals.
pub fn reserve(file: &impl AsFd, bytes: u64) -> io::Result<()> {
    let bytes = libc::off_t::try_from(bytes).map_err(io::Error::other)?;
    repeat(|| {
        // SAFETY: the call touches no memory of this process.
        match unsafe { libc::fallocate(file.as_fd().as_raw_fd(), 0, 0, bytes) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    })
}

/// Repeats a call that a signal has interrupted, a bounded number of times. Before Linux 6.10 or
/// so, any pending signal makes the kernel give up an allocation under way.
fn repeat(mut call: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    for _ in 1..MOST_BEGUN {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
    call()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_signals_interrupt_is_begun_again_but_not_for_ever() {
        let interrupted = || io::Error::from_raw_os_error(libc::EINTR);
        for signals in [0, 1, MOST_BEGUN - 1] {
            let mut left = signals;
            let done = repeat(|| {
                let one = left > 0;
                left -= u32::from(one);
                if one { Err(interrupted()) } else { Ok(()) }
            });
            assert!(done.is_ok() && left == 0, "{signals} signals: {done:?}");
        }
        let mut begun = 0;
        let done = repeat(|| {
            begun += 1;
            Err(interrupted())
        });
        let kind = done.expect_err("no end of signals").kind();
        assert_eq!((kind, begun), (io::ErrorKind::Interrupted, MOST_BEGUN));
        let full = repeat(|| Err(io::Error::from_raw_os_error(libc::ENOSPC)));
        assert_eq!(full.expect_err("full").raw_os_error(), Some(libc::ENOSPC));
    }
}
