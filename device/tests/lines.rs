//! Connections that fail silently, and connections that break as soon as they are established: over
//! TCP.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rejoin_channel_table::{Address, Rank};
use rejoin_device::testing::{self, TestJob, finish, from, isend, pattern, recv, send, tcp};
use rejoin_device::{Device, Error, Mode, Options};
use rejoin_wire::Transport;

/// One of these tests at a time: what cuts the lines cuts every line of this process.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the kernel silently drop all bytes that arrive on the existing connections, as if the
/// cable were out. Both ends of each connection are in this process. New connections work.
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
        let stats = TestJob::with(2, impatient)
            .over(Transport::Tcp)
            .run(move |device| {
                let me = device.rank().0;
                if me == 0 {
                    send(device, 1, 1, &[1]);
                    recv(device, from(1, 1), &mut [0]);
                    // Both ends, beside those that other tests leave open for a moment.
                    assert!(unplug() >= 2);
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
    let stats = TestJob::with(2, impatient)
        .over(Transport::Tcp)
        .run(|device| {
            let body = pattern(3, LEN);
            if device.rank().0 == 0 {
                send(device, 1, 1, &[1]);
                // A rendezvous fills every buffer between the two ranks while the other computes.
                let sent = isend(device, 1, 2, &body, Mode::Standard);
                finish(device, sent);
            } else {
                let mut buffer = vec![0; LEN];
                let posted = testing::irecv(device, from(0, 2), &mut buffer);
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

/// The connections that pass, beside those that break as soon as they are established.
#[derive(Default)]
struct Passage {
    is_open: AtomicBool,
    broken: AtomicUsize,
    /// Those that have passed.
    whole: Mutex<Vec<TcpStream>>,
}

impl Passage {
    fn note(&self, stream: TcpStream) {
        self.whole.lock().expect("locked").push(stream);
    }
}

/// Forwards the bytes of ranks to each other until the handshake is over, then breaks the
/// connection: unless it is open.
fn gate(to: SocketAddr, passage: Arc<Passage>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let here = listener.local_addr().expect("an address");
    thread::spawn(move || {
        // The thread ends with the test's process.
        for connection in listener.incoming() {
            let mut client = connection.expect("accepted");
            let mut server = TcpStream::connect(to).expect("connected");
            // Hello and proof one way, challenge and answer the other.
            let mut is_open = false;
            let _ = pass(&mut client, &mut server)
                .and_then(|()| pass(&mut server, &mut client))
                .and_then(|()| pass(&mut client, &mut server))
                .and_then(|()| {
                    is_open = passage.is_open.load(Ordering::Relaxed);
                    if is_open {
                        // The answer establishes the link, and a frame may follow it.
                        passage.note(client.try_clone()?);
                    }
                    pass(&mut server, &mut client)
                })
                .and_then(|()| {
                    if is_open {
                        pass_all(client, server)
                    } else {
                        client.read(&mut [0]).map(|_| ())
                    }
                });
            passage.broken.fetch_add(1, Ordering::Relaxed);
        }
    });
    here
}

fn pass(from: &mut TcpStream, to: &mut TcpStream) -> std::io::Result<()> {
    let mut bytes = [0; 4096];
    let count = from.read(&mut bytes)?;
    to.write_all(&bytes[..count])
}

/// Passes on everything, both ways.
fn pass_all(client: TcpStream, server: TcpStream) -> std::io::Result<()> {
    let (mut there, mut back) = (client.try_clone()?, server.try_clone()?);
    let (mut client, mut server) = (client, server);
    thread::spawn(move || {
        let _ = std::io::copy(&mut there, &mut server);
        server.shutdown(Shutdown::Both)
    });
    thread::spawn(move || std::io::copy(&mut back, &mut client));
    Ok(())
}

#[test]
fn a_link_with_nothing_to_bring_may_break_any_number_of_times() {
    let _alone = alone();
    let passage = Arc::new(Passage::default());
    passage.is_open.store(true, Ordering::Relaxed);
    let mut job = TestJob::new(2);
    let shared = Arc::clone(&passage);
    job.edit = Arc::new(move |table| {
        for (_, card) in table {
            let door = card.addresses.iter().find_map(tcp).expect("a listener");
            card.addresses = vec![Address::Tcp(gate(door, Arc::clone(&shared)))];
        }
    });
    job.run(move |device| {
        let other = 1 - device.rank().0;
        // Each rank knows that its messages have arrived.
        let sent = isend(device, other, 1, &[1], Mode::Synchronous);
        recv(device, from(other, 1), &mut [0]);
        finish(device, sent);
        if other == 1 {
            recv(device, from(1, 2), &mut [0]);
            return;
        }
        passage.is_open.store(false, Ordering::Relaxed);
        let before = passage.broken.load(Ordering::Relaxed);
        for stream in passage.whole.lock().expect("locked").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        let start = Instant::now();
        while passage.broken.load(Ordering::Relaxed) < before + 50 {
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "{:?}",
                device.stats()
            );
            device.wait(None, None).expect("progress");
        }
        passage.is_open.store(true, Ordering::Relaxed);
        send(device, 0, 2, &[1]);
    });
}

#[test]
fn a_link_may_break_any_number_of_times_while_a_message_waits_for_its_receive() {
    let _alone = alone();
    const LEN: usize = 4 << 20;
    let passage = Arc::new(Passage::default());
    passage.is_open.store(true, Ordering::Relaxed);
    let mut job = TestJob::new(2);
    let shared = Arc::clone(&passage);
    job.edit = Arc::new(move |table| {
        for (_, card) in table {
            let door = card.addresses.iter().find_map(tcp).expect("a listener");
            card.addresses = vec![Address::Tcp(gate(door, Arc::clone(&shared)))];
        }
    });
    let over = AtomicBool::new(false);
    job.run(move |device| {
        let until = |device: &mut Device, what: &str, done: &dyn Fn(&Device) -> bool| {
            let start = Instant::now();
            while !done(device) {
                assert!(
                    start.elapsed() < Duration::from_secs(60),
                    "{what}: {:?}",
                    device.stats()
                );
                device.wait(None, None).expect("progress");
            }
        };
        let body = pattern(5, LEN);
        if device.rank().0 == 1 {
            send(device, 0, 1, &[1]);
            until(device, "the end of the cuts", &|_| {
                over.load(Ordering::Relaxed)
            });
            let mut buffer = vec![0; LEN];
            recv(device, from(0, 2), &mut buffer);
            assert!(buffer == body);
            return;
        }
        recv(device, from(1, 1), &mut [0]);
        let announced = isend(device, 1, 2, &body, Mode::Standard);
        let (mut made, mut frames) = (0, 0);
        for _ in 0..50 {
            // A link is established, and the other side has sent over it.
            until(device, "a frame", &|device| {
                let stats = device.stats();
                stats.links_made > made && stats.frames_in > frames
            });
            let before = device.stats();
            (made, frames) = (before.links_made, before.frames_in);
            for stream in passage.whole.lock().expect("locked").drain(..) {
                let _ = stream.shutdown(Shutdown::Both);
            }
            until(device, "the loss", &|device| {
                device.stats().links_lost > before.links_lost
            });
        }
        over.store(true, Ordering::Relaxed);
        finish(device, announced);
    });
}

#[test]
fn links_that_break_as_soon_as_they_stand_are_an_error() {
    let _alone = alone();
    let mut job = TestJob::with(2, |_| Options {
        connect_timeout: Duration::from_secs(2),
        ..Options::default()
    });
    job.edit = Arc::new(|table| {
        for (_, card) in table {
            let door = card.addresses.iter().find_map(tcp).expect("a listener");
            card.addresses = vec![Address::Tcp(gate(door, Arc::default()))];
        }
    });
    let said = job.run_unfinished(|device| {
        let env = testing::envelope(device, 1);
        let to = Rank(1 - device.rank().0);
        // SAFETY: the byte is static.
        let sent = unsafe { device.isend(to, env, b"x".as_ptr(), 1, Mode::Synchronous) };
        let mut error = sent.err();
        let start = Instant::now();
        while error.is_none() && start.elapsed() < Duration::from_secs(60) {
            error = device.wait(None, None).err();
        }
        error.map(|error| {
            (
                matches!(error, Error::LinkFlapping { .. }),
                error.to_string(),
            )
        })
    });
    let first = said.iter().flatten().find(|(flapping, _)| *flapping);
    let Some((_, text)) = first else {
        panic!("{said:?}");
    };
    for part in ["links in a row", "rank ", "host", "the last one: "] {
        assert!(text.contains(part), "{text:?} does not name {part}");
    }
}
