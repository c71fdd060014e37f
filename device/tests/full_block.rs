//! Where the library's descriptors go when the block is full. In a process of its own, because it
//! lowers the limit on open files.

use std::net::UdpSocket;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rejoin_device::descriptors::{below_block, block_start, raise};

const SOFT: u64 = 700;
const HARD: u64 = 900;

fn raised() -> OwnedFd {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    raise(socket.into()).expect("moved or kept")
}

#[test]
fn the_block_goes_as_far_as_the_hard_limit_and_then_forbids_images() {
    setrlimit(Resource::RLIMIT_NOFILE, SOFT, HARD).expect("limits");
    let start = block_start();
    let mut held: Vec<OwnedFd> = Vec::new();
    while held.len() < HARD as usize - start as usize {
        held.push(raised());
        assert!(held.last().is_some_and(|last| last.as_raw_fd() >= start));
    }
    // The program has its own limit again.
    assert_eq!(getrlimit(Resource::RLIMIT_NOFILE), Ok((SOFT, HARD)));
    assert_eq!(block_start(), start, "the block begins where it did");
    assert_eq!(below_block(), None);

    let low = raised();
    assert!(low.as_raw_fd() < start);
    assert_eq!(below_block(), Some(low.as_raw_fd()));
    let second = raised();
    drop(low);
    assert_eq!(below_block(), Some(second.as_raw_fd()));
    drop(second);
    assert_eq!(below_block(), None, "it is closed");
}
