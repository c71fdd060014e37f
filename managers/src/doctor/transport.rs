//! The transport between ranks of one host: whether its memory and its sockets are available.

use super::finding::Finding;
use rejoin_ckpt::anonymous;
use rejoin_managers_host::error::system_text;
use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

/// Memory of a link between two of few ranks (device/src/transport/shm).
const LINK: u64 = 600 << 10;

/// The transport that ranks of one host will use, and why not a faster one.
pub(super) fn within_host() -> Finding {
    let what = "within a host";
    match memory().and_then(|()| local_listener()) {
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

/// Gets as much memory as a link takes, and gives it back.
fn memory() -> Result<(), String> {
    anonymous::allow(LINK).map_err(|error| system_text(&error))?;
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a C string.
    let number = unsafe { libc::memfd_create(c"rejoin-doctor".as_ptr(), flags) };
    if number < 0 {
        let error = io::Error::last_os_error();
        return Err(format!("memfd_create: {}", system_text(&error)));
    }
    // SAFETY: the descriptor is new, no other code owns it.
    let file = unsafe { File::from_raw_fd(number) };
    anonymous::reserve(&file, LINK).map_err(|error| format!("fallocate: {}", system_text(&error)))
}

/// A local socket of the kind over which ranks pass the memory to each other.
fn local_listener() -> Result<(), String> {
    let name = format!("rejoin-doctor-{}", std::process::id());
    let tried = SocketAddr::from_abstract_name(name).and_then(|name| {
        let listener = UnixListener::bind_addr(&name)?;
        let _caller = UnixStream::connect_addr(&name)?;
        listener.accept().map(drop)
    });
    tried.map_err(|error| format!("local sockets: {}", system_text(&error)))
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
        assert_eq!(good, memory().is_ok() && local_listener().is_ok());
    }
}
