//! The doorbells of a link, and the local socket that carries wake-ups.
//!
//! A side that closes its end of the link arms its doorbell after it has shut the socket down. A
//! sender reads the doorbell of its peer behind each message. So the next message to a closed end
//! rings, and the socket reports that the link is lost. No other check of a send is needed for
//! that, though a sender on the fast path makes no pass of progress in most of its calls.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rejoin_ring::doorbell;

use super::link_memory::{Direction, LinkMemory, SharedWord, word};
use crate::transport::{Fault, moved};

/// The doorbells of both sides, and the socket. Must be dropped before the memory of the link.
pub(super) struct Doorbells {
    /// The events that are to wake this side, and the other.
    own: NonNull<AtomicU64>,
    peers: NonNull<AtomicU64>,
    /// Non-blocking.
    socket: OwnedFd,
    /// Wake-ups sent.
    rung: u64,
}

impl Doorbells {
    /// Of the side that writes the direction `own`.
    pub(super) fn new(memory: &LinkMemory, own: Direction, socket: OwnedFd) -> Self {
        Self {
            own: memory.word(SharedWord::Doorbell(own)),
            peers: memory.word(SharedWord::Doorbell(own.opposite())),
            socket,
            rung: 0,
        }
    }

    /// After something was published: whether the peer sleeps and has asked for a wake-up by
    /// `event`, or has closed the link.
    #[inline(always)]
    pub(super) fn must_ring(&self, event: u64) -> bool {
        doorbell::must_ring(word!(self.peers), event)
    }

    /// Wakes the peer; false when the peer has closed the link.
    #[cold]
    pub(super) fn ring(&mut self) -> bool {
        self.rung += 1;
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let byte = [1u8];
        // SAFETY: one byte is read.
        let sent = unsafe { libc::send(self.socket.as_raw_fd(), byte.as_ptr().cast(), 1, flags) };
        // A full socket holds a wake-up already.
        let closed = [Some(libc::EPIPE), Some(libc::ECONNRESET)];
        sent >= 0 || !closed.contains(&io::Error::last_os_error().raw_os_error())
    }

    /// Wake-ups that this side has sent.
    pub(super) fn rung(&self) -> u64 {
        self.rung
    }

    /// Asks for a wake-up at these events. The caller looks for them once more before it sleeps.
    pub(super) fn arm(&self, events: u64) {
        doorbell::arm(word!(self.own), events);
    }

    /// This side is awake.
    pub(super) fn disarm(&self) {
        doorbell::disarm(word!(self.own));
    }

    /// Takes the wake-ups that have come; false at the end of the link.
    pub(super) fn take_wakeups(&self) -> bool {
        let mut bytes = [0u8; 256];
        loop {
            let (at, len) = (bytes.as_mut_ptr().cast(), bytes.len());
            let socket = self.socket.as_raw_fd();
            // SAFETY: pointer and length describe the bytes.
            let count = unsafe { libc::recv(socket, at, len, libc::MSG_DONTWAIT) };
            match count {
                1.. => {}
                0 => return false,
                _ => match io::Error::last_os_error().kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock => return true,
                    _ => return false,
                },
            }
        }
    }

    /// Writes the end of the handshake, which goes over the socket; returns the bytes taken.
    ///
    /// # Errors
    /// The link is broken.
    pub(super) fn write_handshake(&self, bytes: &[u8]) -> Result<usize, Box<Fault>> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let socket = self.socket.as_raw_fd();
        // SAFETY: pointer and length describe the bytes.
        moved(unsafe { libc::send(socket, bytes.as_ptr().cast(), bytes.len(), flags) })
    }

    /// Breaks the socket, which both sides notice.
    pub(super) fn cut(&self) {
        // SAFETY: the descriptor is open; shutdown touches no memory.
        let _ = unsafe { libc::shutdown(self.socket.as_raw_fd(), libc::SHUT_RDWR) };
    }

    /// The socket, to be watched.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Drops a socket and words that are no longer this process's, without a system call.
    pub(super) fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for Doorbells {
    fn drop(&mut self) {
        // In this order: a peer that rings finds the socket shut down.
        self.cut();
        self.arm(doorbell::DATA | doorbell::ROOM);
    }
}
