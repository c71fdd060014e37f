//! What carries messages between ranks of one host: whether the memory and the sockets for it can be had.

use super::Finding;
use crate::error::plain;
use nix::sys::resource::{Resource, getrlimit};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

/// Memory of a link between two of few ranks (device/src/transport/shm).
const LINK: u64 = 600 << 10;

/// What ranks of one host will use, and why not what is faster.
pub(super) fn within_host() -> Finding {
    let what = "within a host";
    match memory().and_then(|()| door()) {
        Ok(()) => Finding::good(
            what,
            format!(
                "shared memory without a name, up to {} KiB for each two ranks that talk",
                LINK >> 10
            ),
        ),
        Err(why) => Finding::warning(
            what,
            format!("TCP: {why}"),
            "shared memory would be several times faster",
        ),
    }
}

/// As much memory as a link takes, had and given back.
fn memory() -> Result<(), String> {
    let limit = getrlimit(Resource::RLIMIT_FSIZE).map_or(u64::MAX, |(soft, _)| soft);
    if limit < LINK {
        // To go on would end the process.
        return Err(format!(
            "the limit on the size of files (ulimit -f) is {limit} bytes"
        ));
    }
    let said = |what: &str| format!("{what}: {}", plain(&io::Error::last_os_error()));
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a C string.
    let number = unsafe { libc::memfd_create(c"rejoin-doctor".as_ptr(), flags) };
    if number < 0 {
        return Err(said("memfd_create"));
    }
    // SAFETY: the descriptor is new, nobody else owns it.
    let file = unsafe { File::from_raw_fd(number) };
    // SAFETY: plain numbers.
    if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, LINK.cast_signed()) } < 0 {
        return Err(said("fallocate"));
    }
    Ok(())
}

/// A local socket of the kind over which ranks hand each other the memory.
fn door() -> Result<(), String> {
    let name = format!("rejoin-doctor-{}", std::process::id());
    let tried = SocketAddr::from_abstract_name(name).and_then(|name| {
        let listener = UnixListener::bind_addr(&name)?;
        let _caller = UnixStream::connect_addr(&name)?;
        listener.accept().map(drop)
    });
    tried.map_err(|error| format!("local sockets: {}", plain(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_names_shared_memory_or_says_why_not() {
        let finding = within_host();
        let good = finding.cost.is_empty();
        assert_eq!(
            good,
            finding.found.starts_with("shared memory"),
            "{finding:?}"
        );
        assert_eq!(good, memory().is_ok() && door().is_ok());
    }
}
