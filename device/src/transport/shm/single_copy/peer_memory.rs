//! Reading the other side's memory, where the system lets it (`process_vm_readv`, Linux 3.2), and
//! writing it.
//!
//! Each side publishes the address of a secret in its memory, and the other side tries to read it.
//! Every later read also fetches the secret, in the same call and as its last part. So the data
//! came from the same process, even if its number was used again, and the process still offered the
//! memory after the read. A security module (Yama), a filter on system calls, or a namespace of
//! processes may forbid such reads.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::os;

use super::super::link_memory::{Direction, LinkMemory, SharedWord};

/// Most bytes of one call: the kernel takes no more than 2 GiB.
const MOST: usize = 1 << 30;
/// A side's report whether it can read the other's memory.
const CAN: u64 = 1;
const CANNOT: u64 = 2;

/// The secret and the offered memory of this side.
pub(crate) struct Exposed {
    /// At an address that stays; 0 once nothing may be read any more.
    secret: Box<AtomicU64>,
}

impl Exposed {
    /// Shows a new secret to the other side of the memory.
    pub(in crate::transport::shm) fn to(memory: &LinkMemory, own: Direction) -> Self {
        // Without one the other side reads nothing.
        let secret = os::noise().unwrap_or(0);
        let shown = Self {
            secret: Box::new(AtomicU64::new(secret)),
        };
        let address = shown.secret.as_ptr().expose_provenance() as u64;
        let parts = [u64::from(std::process::id()), address, secret];
        for (number, part) in parts.into_iter().enumerate() {
            word(memory.word(SharedWord::Secret(own, number))).store(part, Ordering::Release);
        }
        shown
    }

    /// Makes all unfinished reads fail, because the offered memory may change from here on.
    pub(crate) fn withdraw(&self) {
        self.secret.store(0, Ordering::Release);
        // No write to the offered memory may come before it.
        fence(Ordering::SeqCst);
    }
}

impl Drop for Exposed {
    /// The secret must not stay in freed memory.
    fn drop(&mut self) {
        self.withdraw();
    }
}

#[cfg(test)]
impl Exposed {
    /// The secret itself.
    pub(in crate::transport::shm) fn secret(&self) -> &AtomicU64 {
        &self.secret
    }
}

/// This side's access to the other side's memory.
#[derive(Clone, Copy)]
pub(in crate::transport::shm) struct PeerMemory {
    pid: libc::pid_t,
    address: u64,
    secret: u64,
}

impl PeerMemory {
    /// Tries to read the other side's secret, and reports the result to it.
    ///
    /// # Errors
    /// The obstacle; none if the read was not `wanted`.
    pub(in crate::transport::shm) fn try_read(
        memory: &LinkMemory,
        own: Direction,
        wanted: bool,
    ) -> Result<Self, Option<io::Error>> {
        let theirs = own.opposite();
        let part =
            |number| word(memory.word(SharedWord::Secret(theirs, number))).load(Ordering::Acquire);
        let peer = Self {
            pid: libc::pid_t::try_from(part(0)).unwrap_or(0),
            address: part(1),
            secret: part(2),
        };
        let shown = wanted && peer.pid > 0 && peer.secret != 0;
        // SAFETY: nothing is written but the secret's copy.
        let read = shown.then(|| unsafe { peer.read(0, std::ptr::null_mut(), 0) });
        let said = if matches!(read, Some(Ok(()))) {
            CAN
        } else {
            CANNOT
        };
        word(memory.word(SharedWord::CanRead(own))).store(said, Ordering::Release);
        read.ok_or(None)?.map(|()| peer).map_err(Some)
    }

    /// Reads so many bytes at an address of the peer's.
    ///
    /// # Safety
    /// `to` is writable for `len` bytes, and nothing else uses them during the call.
    ///
    /// # Errors
    /// The system refuses, a part is not mapped, or the process is not the peer that published the
    /// secret: not all bytes were read.
    pub(in crate::transport::shm) unsafe fn read(
        self,
        from: u64,
        to: *mut u8,
        len: usize,
    ) -> io::Result<()> {
        let mut done = 0;
        loop {
            let count = (len - done).min(MOST);
            let mut secret = 0u64;
            let local = [
                libc::iovec {
                    iov_base: to.wrapping_add(done).cast(),
                    iov_len: count,
                },
                libc::iovec {
                    iov_base: (&raw mut secret).cast(),
                    iov_len: size_of::<u64>(),
                },
            ];
            let at = |address: u64, len| libc::iovec {
                iov_base: std::ptr::without_provenance_mut(address as usize),
                iov_len: len,
            };
            // In this order.
            let remote = [
                at(from.wrapping_add(done as u64), count),
                at(self.address, size_of::<u64>()),
            ];
            // SAFETY: the local pieces are the secret's copy and what the caller has promised.
            let got = unsafe {
                libc::process_vm_readv(self.pid, local.as_ptr(), 2, remote.as_ptr(), 2, 0)
            };
            let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
            if got != size_of::<u64>() + count {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if secret != self.secret {
                return Err(io::Error::other("another process has the peer's number"));
            }
            done += count;
            if done == len {
                return Ok(());
            }
        }
    }
}

impl PeerMemory {
    /// Whether the process is there, and the one whose secret it is.
    pub(in crate::transport::shm) fn is_there(self) -> bool {
        // SAFETY: nothing is written but the secret's copy.
        unsafe { self.read(0, std::ptr::null_mut(), 0) }.is_ok()
    }

    /// Writes so many bytes from an address of this process to an address of the peer, at the
    /// peer's request. False if not all bytes were written.
    pub(in crate::transport::shm) fn write(self, from: u64, to: u64, len: usize) -> bool {
        let at = |address: u64, len| libc::iovec {
            iov_base: std::ptr::with_exposed_provenance_mut(address as usize),
            iov_len: len,
        };
        let mut done = 0;
        while done < len {
            let count = (len - done).min(MOST);
            let local = at(from.wrapping_add(done as u64), count);
            let remote = at(to.wrapping_add(done as u64), count);
            // SAFETY: memory of this process is only read, by the system, which refuses what is not
            // mapped.
            let put = unsafe {
                libc::process_vm_writev(self.pid, &raw const local, 1, &raw const remote, 1, 0)
            };
            if usize::try_from(put) != Ok(count) {
                return false;
            }
            done += count;
        }
        true
    }
}

/// The other side's report of its reads so far.
pub(in crate::transport::shm) fn peer_can_read(
    memory: &LinkMemory,
    own: Direction,
) -> Option<bool> {
    match word(memory.word(SharedWord::CanRead(own.opposite()))).load(Ordering::Acquire) {
        0 => None,
        said => Some(said == CAN),
    }
}

fn word<'a>(at: NonNull<AtomicU64>) -> &'a AtomicU64 {
    // SAFETY: it lies in memory that is mapped while the caller holds it.
    unsafe { at.as_ref() }
}
