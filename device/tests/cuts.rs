//! Links that break at random moments, and strangers at the listeners.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use rejoin_channel_table::{Address, Rank};
use rejoin_device::testing::{
    self, Random, TRANSPORTS, TestJob, anything, finish, from, irecv, isend, pattern, recv, send,
    tcp,
};
use rejoin_device::{Device, Mode, Options};
use rejoin_wire::Transport;

/// Sizes that take each of the ways of sending, and straddle their borders.
fn some_length(random: &mut Random) -> usize {
    match random.below(100) {
        0..10 => 0,
        10..50 => random.below(200),
        50..75 => random.below(9000),
        75..90 => 8192 + random.below(130_000),
        90..98 => 120_000 + random.below(400_000),
        _ => 2_000_000 + random.below(100),
    }
}

fn cut_options(seed: u64, interval: u64) -> impl Fn(u32) -> Options + Send + Sync {
    move |_| Options {
        cut: Some((seed, interval)),
        // A read from the sender's memory cannot be cut: `shm.rs` has tests of it.
        single_copy: false,
        ..Options::default()
    }
}

/// Everyone sends numbered messages to everyone, in all modes, and checks all that comes.
fn exchange(device: &mut Device, seed: u64, rounds: usize, batch: usize) {
    let (me, size) = (device.rank().0, device.size());
    // Both ends of a pair must draw the same lengths.
    let stream = |from: u32, to: u32| Random(seed ^ u64::from(from * 1000 + to) << 20);
    let mut out: Vec<_> = (0..size).map(|to| stream(me, to)).collect();
    let mut coming: Vec<_> = (0..size).map(|from| stream(from, me)).collect();
    for round in 0..rounds {
        let mut posted = Vec::new();
        let mut sent = Vec::new();
        for peer in (0..size).filter(|peer| *peer != me) {
            for number in 0..batch {
                let name = (round * batch + number) as u64;
                let len = some_length(&mut coming[peer as usize]);
                let mut buffer = vec![0xaa; len + 3];
                let request = irecv(device, from(peer, 1), &mut buffer);
                posted.push((request, buffer, peer, name, len));
                let len = some_length(&mut out[peer as usize]);
                let body = pattern(u64::from(me) << 40 | name, len);
                let mode = if number % 5 == 4 {
                    Mode::Synchronous
                } else {
                    Mode::Standard
                };
                sent.push((isend(device, peer, 1, &body, mode), body));
            }
        }
        for (request, buffer, peer, name, len) in posted {
            let got = finish(device, request);
            assert_eq!((got.len, got.truncated), (len as u64, None), "seed {seed}");
            let expected = pattern(u64::from(peer) << 40 | name, len);
            assert!(
                buffer[..len] == expected,
                "seed {seed}: message {name} from {peer} damaged"
            );
            assert_eq!(
                buffer[len..],
                [0xaa; 3],
                "seed {seed}: bytes behind the message written"
            );
        }
        for (request, _body) in sent {
            finish(device, request);
        }
    }
}

#[test]
fn nothing_is_lost_doubled_or_reordered_when_links_are_cut() {
    let few = [(1, 40), (2, 15), (3, 100)];
    // Cuts that fall between two attempts of one send are rare over shared memory.
    let more = (4..20).map(|seed| (seed, 10 * seed));
    let over_memory: Vec<_> = few.into_iter().chain(more).collect();
    let cases = [(Transport::Tcp, &few[..]), (Transport::Shm, &over_memory)];
    for (transport, seeds) in cases {
        for &(seed, interval) in seeds {
            // A ring holds less than a socket, so a long body takes more reads and writes.
            let interval = interval + if transport == Transport::Shm { 150 } else { 0 };
            let job = TestJob::with(2, cut_options(seed, interval)).over(transport);
            let stats = job.run(move |device| {
                exchange(device, seed, 60, 12);
                device.stats()
            });
            let lost = stats[0].links_lost;
            assert!(
                lost > 2,
                "{transport:?}, seed {seed}: only {lost} links lost"
            );
            println!("{transport:?}, seed {seed}: {lost} links lost");
        }
    }
}

#[test]
fn many_ranks_with_links_cut() {
    for transport in TRANSPORTS {
        let mut job = TestJob::with(5, cut_options(7, 60)).over(transport);
        job.cores = 2;
        let stats = job.run(|device| {
            exchange(device, 7, 12, 6);
            device.stats()
        });
        assert!(stats.iter().map(|stats| stats.links_lost).sum::<u64>() > 10);
    }
}

#[test]
fn blocking_sends_and_wildcards_with_links_cut() {
    const EACH: u64 = 1500;
    let mut job = TestJob::with(3, cut_options(5, 50)).over(Transport::Tcp);
    job.cores = 2;
    job.run(|device| {
        let me = device.rank().0;
        if me > 0 {
            let mut random = Random(u64::from(me));
            for number in 0..EACH {
                let mut body = number.to_le_bytes().to_vec();
                body.resize(8 + some_length(&mut random) / 8, 1);
                send(device, 0, 3, &body);
            }
            return;
        }
        let mut next = [0; 3];
        let mut buffer = vec![0; 500_000];
        for _ in 0..EACH * 2 {
            let got = recv(device, anything(), &mut buffer);
            let source = usize::try_from(got.source).expect("a rank");
            let number = u64::from_le_bytes(*buffer.first_chunk().expect("8 bytes"));
            assert_eq!(number, next[source], "from {source}");
            next[source] += 1;
        }
        assert_eq!(next[1..], [EACH, EACH]);
    });
}

#[test]
fn a_flood_of_unexpected_messages_is_bounded() {
    const FLOOD: usize = 200_000;
    TestJob::new(2).run(|device| {
        if device.rank().0 == 0 {
            let requests: Vec<_> = (0..FLOOD)
                .map(|_| isend(device, 1, 1, &[], Mode::Standard))
                .collect();
            for request in requests {
                finish(device, request);
            }
            let mut byte = [0];
            recv(device, from(1, 2), &mut byte);
        } else {
            // Not a receive is posted for a while; whatever comes is unexpected.
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(300) {
                device.progress(None).expect("progress");
            }
            let came = device.stats().frames_in as usize;
            let window = usize::try_from(device.config().window).expect("fits");
            assert!(
                came * 64 <= window + (1 << 16),
                "{came} empty messages within {window}"
            );
            for _ in 0..FLOOD {
                recv(device, from(0, 1), &mut []);
            }
            send(device, 0, 2, &[1]);
        }
    });
}

#[test]
fn either_family_of_addresses_works() {
    for v6 in [false, true] {
        let mut job = TestJob::new(2);
        job.edit = Arc::new(move |table| {
            for (_, card) in table {
                card.addresses
                    .retain(|at| tcp(at).is_some_and(|at| at.is_ipv6() == v6));
                assert!(
                    !card.addresses.is_empty(),
                    "no loopback of that family here"
                );
            }
        });
        job.run(|device| exchange(device, 9, 3, 5));
    }
}

#[test]
fn a_dead_address_is_passed_over() {
    let mut job = TestJob::new(2).over(Transport::Tcp);
    job.edit = Arc::new(|table| {
        for (_, card) in table {
            // Port 1 of loopback: refused at once.
            card.addresses
                .insert(0, Address::Tcp("127.0.0.1:1".parse().expect("an address")));
        }
    });
    job.run(|device| exchange(device, 10, 3, 5));
}

/// The error of rank 0 when rank 1 can't be reached at its address, and the number of attempts.
fn dial_failed(address: &'static str) -> (String, u64) {
    let mut job = TestJob::with(2, |_| Options {
        connect_timeout: Duration::from_millis(300),
        ..Options::default()
    });
    job.edit = Arc::new(|table| {
        let dead = Address::Tcp(address.parse().expect("an address"));
        table[1].1.addresses = vec![dead];
    });
    let dial_failed = Barrier::new(2);
    let mut said = job.run(move |device| {
        if device.rank().0 == 1 {
            // Rank 0 must not see a dialing peer before its own dial has failed.
            dial_failed.wait();
            let mut byte = [0];
            send(device, 0, 2, &[2]);
            recv(device, from(0, 1), &mut byte);
            assert_eq!(byte, *b"x");
            return (String::new(), 0);
        }
        let env = testing::envelope(device, 1);
        let start = Instant::now();
        // SAFETY: the byte is static.
        let first = unsafe { device.isend(Rank(1), env, b"x".as_ptr(), 1, Mode::Standard) };
        let error = loop {
            if let Err(error) = first {
                break error;
            }
            if let Err(error) = device.wait(None, Some(Duration::from_millis(50))) {
                break error;
            }
            assert!(start.elapsed() < Duration::from_secs(30), "no error");
        };
        let dials = device.stats().dials;
        dial_failed.wait();
        // A link from the other side still brings everything on its way.
        recv(device, from(1, 2), &mut [0]);
        (error.to_string(), dials)
    });
    said.swap_remove(0)
}

#[test]
fn an_unreachable_rank_is_an_error_with_its_name() {
    // An address without a listener, and one that the system refuses itself: the pauses grow there,
    // too.
    for address in ["127.0.0.1:1", "127.255.255.255:1"] {
        let (said, dials) = dial_failed(address);
        for part in ["rank 1", "host1", address, "send"] {
            assert!(said.contains(part), "{said:?} does not name {part}");
        }
        assert!((2..40).contains(&dials), "{dials} attempts in 0.3 s");
    }
}

/// Continues until those at this rank's listeners are dropped whose first bytes are no rank's.
fn drop_strangers(device: &mut Device) {
    let start = Instant::now();
    while device.stats().strangers < 2 {
        assert!(start.elapsed() < Duration::from_secs(60), "strangers stay");
        device.progress(None).expect("progress");
    }
}

#[test]
fn strangers_are_dropped_and_do_no_harm() {
    let cards = Arc::new(Mutex::new(Vec::new()));
    let mut job = TestJob::new(2);
    let seen = Arc::clone(&cards);
    job.edit = Arc::new(move |table| {
        let addresses = table.iter().flat_map(|(_, card)| card.addresses.clone());
        seen.lock()
            .expect("unpoisoned")
            .extend(addresses.filter_map(|at| tcp(&at)));
    });
    let stats = job.run(move |device| {
        if device.rank().0 == 0 {
            exchange(device, 4, 2, 4);
            let targets: Vec<SocketAddr> = cards.lock().expect("unpoisoned").clone();
            let mut open = Vec::new();
            for target in targets.iter().filter(|at| at.ip().is_loopback()) {
                for noise in [&b"GET / HTTP/1.0\r\n\r\n"[..], &[0xff; 4096], b"RJNH", b""] {
                    let mut stranger = TcpStream::connect(target).expect("connected");
                    let _ = stranger.write_all(noise);
                    open.push(stranger);
                }
            }
            exchange(device, 5, 4, 4);
            drop_strangers(device);
            for mut stranger in open {
                stranger
                    .set_read_timeout(Some(Duration::from_millis(50)))
                    .expect("set");
                let mut bytes = [0; 64];
                let got = stranger.read(&mut bytes).unwrap_or(0);
                assert_eq!(got, 0, "a stranger was told something");
            }
        } else {
            exchange(device, 4, 2, 4);
            exchange(device, 5, 4, 4);
            drop_strangers(device);
        }
        device.stats()
    });
    let dropped: u64 = stats.iter().map(|stats| stats.strangers).sum();
    assert!(dropped >= 4, "{dropped} strangers dropped");
    assert!(stats.iter().all(|stats| stats.links_lost == 0));
}

#[test]
fn a_crowd_at_the_door_is_not_turned_away() {
    const CROWD: usize = 400;
    let cards = Arc::new(Mutex::new(Vec::new()));
    let mut job = TestJob::new(2).over(Transport::Tcp);
    let seen = Arc::clone(&cards);
    job.edit = Arc::new(move |table| {
        let addresses = table[0].1.addresses.iter();
        seen.lock()
            .expect("unpoisoned")
            .extend(addresses.filter_map(tcp));
    });
    job.run(move |device| {
        if device.rank().0 == 1 {
            // Behind the crowd.
            std::thread::sleep(Duration::from_millis(200));
            send(device, 0, 1, b"x");
            return;
        }
        let listener = cards.lock().expect("unpoisoned")[0];
        let crowd: Vec<_> = (0..CROWD)
            .map(|_| TcpStream::connect(listener).expect("connected"))
            .collect();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(400) {
            device.progress(None).expect("progress");
        }
        for mut one in crowd.iter().take(10) {
            one.set_nonblocking(true).expect("set");
            let said = one.read(&mut [0]).map_err(|error| error.kind());
            assert_eq!(said, Err(std::io::ErrorKind::WouldBlock), "reset");
        }
        recv(device, from(1, 1), &mut [0]);
    });
}
