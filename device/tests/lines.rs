//! Lines that are down without a word, and lines that break as soon as they stand: over TCP.

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use common::{Job, finish, from, isend, pattern, recv, send, tcp};
use rejoin_channel_table::{Address, Rank};
use rejoin_device::{Error, Mode, Options};
use rejoin_managers_protocol::rank::Transport;

/// One of these tests at a time: what cuts the lines cuts every line of this process.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the kernel drop, unseen, all that comes in on the connections that stand now, as if the cable
/// were out: both ends of each are in this process. New connections get through.
fn unplug() -> usize {
    let drop_all = [libc::sock_filter {
        code: 0x06, // BPF_RET | BPF_K: keep so many bytes of the packet.
        jt: 0,
        jf: 0,
        k: 0,
    }];
    let program = libc::sock_fprog {
        len: 1,
        filter: drop_all.as_ptr().cast_mut(),
    };
    let mut count = 0;
    for entry in std::fs::read_dir("/proc/self/fd").expect("listed") {
        let name = entry.expect("an entry").file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let other = nix::sys::socket::getpeername::<nix::sys::socket::SockaddrStorage>(number);
        let tcp =
            other.is_ok_and(|at| at.as_sockaddr_in().is_some() || at.as_sockaddr_in6().is_some());
        if !tcp {
            continue;
        }
        // SAFETY: the program lives through the call, which copies it.
        let done = unsafe {
            libc::setsockopt(
                number,
                libc::SOL_SOCKET,
                libc::SO_ATTACH_FILTER,
                (&raw const program).cast(),
                size_of::<libc::sock_fprog>() as libc::socklen_t,
            )
        };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
        count += 1;
    }
    count
}

fn impatient(_: u32) -> Options {
    Options {
        link_timeout: Duration::from_secs(1),
        ..Options::default()
    }
}

#[test]
fn a_line_that_is_down_is_given_up_and_dialed_anew() {
    let _alone = alone();
    // Rank 0 waits in one, and polls in the other.
    for polls in [false, true] {
        let stats = Job::with(2, impatient)
            .over(Transport::Tcp)
            .run(move |device| {
                let me = device.rank().0;
                if me == 0 {
                    send(device, 1, 1, &[1]);
                    recv(device, from(1, 1), &mut [0]);
                    assert_eq!(unplug(), 2);
                    let sent = isend(device, 1, 2, &[2], Mode::Synchronous);
                    while polls && !device.is_complete(sent) {
                        device.progress(Some(sent)).expect("progress");
                    }
                    finish(device, sent);
                } else {
                    recv(device, from(0, 1), &mut [0]);
                    send(device, 0, 1, &[1]);
                    recv(device, from(0, 2), &mut [0]);
                }
                device.stats()
            });
        assert_eq!(stats[0].links_lost, 1);
        assert_eq!(stats[0].links_made, 2);
    }
}

#[test]
fn a_rank_that_computes_keeps_its_link_however_full() {
    let _alone = alone();
    const LEN: usize = 8 << 20;
    let stats = Job::with(2, impatient).over(Transport::Tcp).run(|device| {
        let body = pattern(3, LEN);
        if device.rank().0 == 0 {
            send(device, 1, 1, &[1]);
            // A rendezvous fills every buffer between the two ranks while the other computes.
            let sent = isend(device, 1, 2, &body, Mode::Standard);
            finish(device, sent);
        } else {
            let mut buffer = vec![0; LEN];
            let posted = common::irecv(device, from(0, 2), &mut buffer);
            recv(device, from(0, 1), &mut [0]);
            while device.stats().bytes_in < 1000 {
                device.progress(Some(posted)).expect("progress");
            }
            thread::sleep(Duration::from_secs(4));
            finish(device, posted);
            assert!(buffer == body);
        }
        device.stats()
    });
    assert!(stats.iter().all(|stats| stats.links_lost == 0), "{stats:?}");
}

/// Passes on what ranks say to each other until the handshake is over, then breaks the connection.
fn gate(to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let here = listener.local_addr().expect("an address");
    thread::spawn(move || {
        // The thread ends with the test's process.
        for connection in listener.incoming() {
            let mut client = connection.expect("accepted");
            let mut server = TcpStream::connect(to).expect("connected");
            // Hello and proof one way, challenge and answer the other.
            let _ = pass(&mut client, &mut server)
                .and_then(|()| pass(&mut server, &mut client))
                .and_then(|()| pass(&mut client, &mut server))
                .and_then(|()| pass(&mut server, &mut client))
                .and_then(|()| client.read(&mut [0]).map(|_| ()));
        }
    });
    here
}

fn pass(from: &mut TcpStream, to: &mut TcpStream) -> std::io::Result<()> {
    let mut bytes = [0; 4096];
    let count = from.read(&mut bytes)?;
    to.write_all(&bytes[..count])
}

#[test]
fn links_that_break_as_soon_as_they_stand_are_an_error() {
    let _alone = alone();
    let mut job = Job::new(2);
    job.edit = Arc::new(|table| {
        for (_, card) in table {
            let door = card.addresses.iter().find_map(tcp).expect("a listener");
            card.addresses = vec![Address::Tcp(gate(door))];
        }
    });
    let said = job.run_unfinished(|device| {
        let env = common::envelope(device, 1);
        let to = Rank(1 - device.rank().0);
        // SAFETY: the byte is static.
        let sent = unsafe { device.isend(to, env, b"x".as_ptr(), 1, Mode::Synchronous) };
        let mut error = sent.err();
        let start = Instant::now();
        while error.is_none() && start.elapsed() < Duration::from_secs(60) {
            error = device.wait(None, None).err();
        }
        error.map(|error| (matches!(error, Error::Fruitless { .. }), error.to_string()))
    });
    let first = said.iter().flatten().find(|(fruitless, _)| *fruitless);
    let Some((_, text)) = first else {
        panic!("{said:?}");
    };
    for part in ["links in a row", "rank ", "host", "the last one: "] {
        assert!(text.contains(part), "{text:?} does not name {part}");
    }
}
