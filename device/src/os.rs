//! The system's data about this machine, and its random bytes.

use std::io;

use crate::error::{Error, Result};

/// Fills the bytes from the system's generator.
///
/// # Errors
/// When the system has none.
pub(crate) fn random(bytes: &mut [u8]) -> Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        let rest = &mut bytes[filled..];
        // SAFETY: the pointer and length describe `rest`.
        let count = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        match usize::try_from(count) {
            Ok(count) => filled += count,
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(Error::system("get random bytes", error));
                }
            }
        }
    }
    Ok(())
}

/// A number that no other process draws.
pub(crate) fn noise() -> Result<u64> {
    let mut bytes = [0; 8];
    random(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// This machine's name, `localhost` when it has none.
#[must_use]
pub(crate) fn host_name() -> String {
    nix::unistd::gethostname()
        .ok()
        .and_then(|name| name.into_string().ok())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".to_owned())
}

/// Identifies this running system: the boot's id and the network namespace, since two ranks with
/// different loopbacks cannot reach each other there.
#[must_use]
pub(crate) fn local_host_id() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = std::fs::read_link("/proc/self/ns/net")
        .map(|link| link.to_string_lossy().into_owned())
        .unwrap_or_default();
    format!("{}/{}/{namespace}", host_name(), boot.trim())
}
