//! The kernel's state of the path to the other end (`TCP_INFO`, tcp(7), `linux/tcp.h`).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use crate::transport::PathState;

/// Bytes of `struct tcp_info` that are read: up to `tcpi_bytes_received` (Linux 4.1).
const LENGTH: usize = 136;
const RETRANSMITS: usize = 2;
const PROBES: usize = 3;
const UNACKED: usize = 24;
const LAST_ACK_RECV: usize = 56;
const BYTES_ACKED: usize = 120;
const BYTES_RECEIVED: usize = 128;

/// Asks the kernel about a connection, live or broken.
///
/// # Errors
/// When the kernel does not tell, or tells less than Linux 4.1.
pub(super) fn ask(socket: BorrowedFd<'_>) -> io::Result<PathState> {
    let mut info = [0u8; LENGTH];
    let mut length = LENGTH as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to the array.
    let asked = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if asked < 0 {
        return Err(io::Error::last_os_error());
    }
    if (length as usize) < LENGTH {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(PathState {
        waits: word(&info, UNACKED) > 0 && info[RETRANSMITS] > 0 || info[PROBES] > 0,
        since_ack: Duration::from_millis(word(&info, LAST_ACK_RECV).into()),
        moved: long(&info, BYTES_ACKED).saturating_add(long(&info, BYTES_RECEIVED)),
    })
}

fn word(info: &[u8; LENGTH], at: usize) -> u32 {
    info[at..]
        .first_chunk()
        .map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

fn long(info: &[u8; LENGTH], at: usize) -> u64 {
    info[at..]
        .first_chunk()
        .map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn bytes_of_both_directions_are_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let mut one = TcpStream::connect(listener.local_addr().expect("an address")).expect("up");
        let (mut other, _) = listener.accept().expect("accepted");
        one.write_all(&[1; 1000]).expect("sent");
        other.read_exact(&mut [0; 1000]).expect("read");
        other.write_all(&[1; 500]).expect("sent");
        one.read_exact(&mut [0; 500]).expect("read");
        let path = ask(one.as_fd()).expect("told");
        // The connection's own first byte may count.
        assert!((1500..=1501).contains(&path.moved), "{path:?}");
        assert!(!path.waits);
    }
}
