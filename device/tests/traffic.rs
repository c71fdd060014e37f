//! Messages of all sizes and modes between devices over loopback.

use std::time::Instant;

use rejoin_channel_table::Rank;
use rejoin_device::testing::{
    Random, TRANSPORTS, TestJob, anything, finish, from, irecv, isend, pattern, ping_pong, recv,
    send,
};
use rejoin_device::{Mode, Stats};
use rejoin_wire::Transport;

const SIZES: [usize; 14] = [
    0,
    1,
    8,
    63,
    1000,
    8 << 10,
    (8 << 10) + 1,
    32 << 10,
    64 << 10,
    128 << 10,
    (128 << 10) + 1,
    1 << 20,
    (4 << 20) + 17,
    20_000_003,
];

#[test]
fn ping_pong_of_all_sizes() {
    for transport in TRANSPORTS {
        TestJob::new(2).over(transport).run(|device| {
            let me = device.rank().0;
            for (round, len) in SIZES.into_iter().enumerate() {
                let tag = i32::try_from(round).expect("small");
                let mut buffer = vec![0; len];
                for pass in 0..3 {
                    let body = pattern(round as u64 * 10 + pass, len);
                    if me == 0 {
                        send(device, 1, tag, &body);
                        buffer.fill(0);
                    }
                    let got = recv(device, from(1 - me, tag), &mut buffer);
                    assert_eq!((got.len, got.truncated, got.tag), (len as u64, None, tag));
                    assert!(buffer == body, "{len} bytes came damaged");
                    if me == 1 {
                        send(device, 0, tag, &buffer);
                    }
                }
            }
        });
    }
}

#[test]
fn synchronous_sends_complete_by_the_match() {
    for transport in TRANSPORTS {
        TestJob::new(2).over(transport).run(|device| {
            if device.rank().0 == 0 {
                for len in [0, 10, 50_000, 500_000] {
                    let body = pattern(1, len);
                    let request = isend(device, 1, 5, &body, Mode::Synchronous);
                    for _ in 0..200 {
                        device.progress(None).expect("progress");
                    }
                    assert!(
                        !device.is_complete(request),
                        "{len} bytes: nobody has received it"
                    );
                    send(device, 1, 6, &[]);
                    finish(device, request);
                }
            } else {
                for len in [0, 10, 50_000, 500_000] {
                    recv(device, from(0, 6), &mut []);
                    let mut buffer = vec![0; len];
                    recv(device, from(0, 5), &mut buffer);
                    assert!(buffer == pattern(1, len));
                }
            }
        });
    }
}

#[test]
fn wildcards_and_many_to_one() {
    for transport in TRANSPORTS {
        const RANKS: u32 = 6;
        const EACH: usize = 300;
        let mut job = TestJob::new(RANKS).over(transport);
        job.cores = 2;
        job.run(|device| {
            let me = device.rank().0;
            if me > 0 {
                let mut random = Random(u64::from(me));
                for number in 0..EACH {
                    let mut body = number.to_le_bytes().to_vec();
                    body.resize(8 + random.below(40_000), 1);
                    send(device, 0, 3, &body);
                }
                return;
            }
            let mut next = [0; RANKS as usize];
            let mut buffer = vec![0; 50_000];
            for _ in 0..EACH * (RANKS as usize - 1) {
                let got = recv(device, anything(), &mut buffer);
                let source = usize::try_from(got.source).expect("a rank");
                let number = usize::from_le_bytes(*buffer.first_chunk().expect("8 bytes"));
                assert_eq!(number, next[source], "from {source}");
                next[source] += 1;
            }
            assert_eq!(next[1..], [EACH; RANKS as usize - 1]);
        });
    }
}

#[test]
fn truncation_probe_and_self_send() {
    for transport in TRANSPORTS {
        TestJob::new(2).over(transport).run(|device| {
            let me = device.rank().0;
            let mut small = [7; 10];
            if me == 0 {
                for len in [20, 20_000, 300_000] {
                    send(device, 1, 1, &pattern(len as u64, len));
                }
                send(device, 1, 2, b"probe me");
                let request = isend(device, 0, 9, b"myself", Mode::Standard);
                let got = recv(device, from(0, 9), &mut small);
                assert_eq!((got.len, &small[..6]), (6, &b"myself"[..]));
                finish(device, request);
                return;
            }
            for len in [20u64, 20_000, 300_000] {
                let got = recv(device, from(0, 1), &mut small);
                assert_eq!((got.len, got.truncated), (10, Some(len)));
                let whole = pattern(len, usize::try_from(len).expect("small"));
                assert_eq!(small, whole[..10]);
            }
            let (message, found) = loop {
                if let Some(found) = device.mprobe(&anything()) {
                    break found;
                }
                device.wait(None, None).expect("progress");
            };
            assert_eq!((found.len, found.tag, found.source), (8, 2, 0));
            // SAFETY: the buffer outlives the wait.
            let request =
                unsafe { device.imrecv(message, small.as_mut_ptr(), 10) }.expect("posted");
            assert_eq!(finish(device, request).len, 8);
            assert_eq!(&small[..8], b"probe me");
        });
    }
}

#[test]
fn one_write_per_small_send_and_shared_writes_in_a_burst() {
    for transport in TRANSPORTS {
        let counts = TestJob::new(2).over(transport).run(|device| {
            let me = device.rank().0;
            let mut byte = [0];
            // Connected, and all acks of the past told.
            send(device, 1 - me, 0, &[1]);
            recv(device, from(1 - me, 0), &mut byte);
            let mut writes = Vec::new();
            for len in [0, 8, 1000, 8 << 10] {
                let sent = |stats: Stats| stats.writes + stats.short_out;
                let before = sent(device.stats());
                ping_pong(device, 100, len);
                writes.push(sent(device.stats()) - before);
            }
            let before = device.stats();
            if me == 0 {
                for _ in 0..10 {
                    let requests: Vec<_> = (0..64)
                        .map(|_| isend(device, 1, 2, &[5; 8], Mode::Standard))
                        .collect();
                    for request in requests {
                        finish(device, request);
                    }
                    recv(device, from(1, 3), &mut byte);
                }
            } else {
                for _ in 0..10 {
                    let mut buffer = [0; 8];
                    for _ in 0..64 {
                        recv(device, from(0, 2), &mut buffer);
                    }
                    send(device, 0, 3, &[1]);
                }
            }
            let after = device.stats();
            let short_counts = after.short_out - before.short_out;
            (writes, after.writes - before.writes, short_counts)
        });
        for (writes, ..) in &counts {
            for count in writes {
                assert!(
                    (100..=101).contains(count),
                    "{writes:?} writes for 100 small sends each"
                );
            }
        }
        let (_, writes, short_counts) = counts[0];
        // Over shared memory a write is no system call that others could share, and a short message
        // none.
        let most =
            [160, 640_u64.saturating_sub(short_counts)][usize::from(transport == Transport::Shm)];
        assert!(
            writes <= most,
            "{writes} writes and {short_counts} short messages for 640 sends in bursts of 64"
        );
        assert!(
            transport != Transport::Shm || short_counts > 320,
            "{short_counts}"
        );
    }
}

#[test]
fn everyone_connects_to_everyone_at_once() {
    for transport in TRANSPORTS {
        const RANKS: u32 = 16;
        let mut job = TestJob::new(RANKS).over(transport);
        job.cores = 2;
        let made = job.run(|device| {
            let me = device.rank().0;
            for round in 0..3 {
                let bodies: Vec<_> = (0..RANKS)
                    .map(|to| [me.to_le_bytes(), to.to_le_bytes()].concat())
                    .collect();
                let mut buffers = vec![[0; 8]; RANKS as usize];
                let mut requests = Vec::new();
                for peer in 0..RANKS {
                    requests.push(irecv(
                        device,
                        from(peer, round),
                        &mut buffers[peer as usize],
                    ));
                }
                for peer in 0..RANKS {
                    let body = &bodies[peer as usize];
                    requests.push(isend(device, peer, round, body, Mode::Standard));
                }
                for request in requests {
                    finish(device, request);
                }
                for (peer, buffer) in (0u32..).zip(&buffers) {
                    assert_eq!(buffer[..4], peer.to_le_bytes());
                    assert_eq!(buffer[4..], me.to_le_bytes());
                }
            }
            device.stats().links_made
        });
        let total: u64 = made.iter().sum();
        assert!(
            total >= u64::from(RANKS * (RANKS - 1)),
            "{total} ends of links"
        );
    }
}

#[test]
fn a_message_behind_a_full_window_is_reached_without_blocking() {
    for transport in TRANSPORTS {
        const COUNT: usize = 2000;
        for posted in [true, false] {
            TestJob::new(2).over(transport).run(move |device| {
                let bulk = vec![3; 4096];
                let mut last = [5];
                if device.rank() == Rank(0) {
                    let mut sent: Vec<_> = (0..COUNT)
                        .map(|_| isend(device, 1, 0, &bulk, Mode::Standard))
                        .collect();
                    sent.push(isend(device, 1, 1, &last, Mode::Standard));
                    for request in sent {
                        finish(device, request);
                    }
                    return;
                }
                last = [0];
                let request = posted.then(|| irecv(device, from(0, 1), &mut last));
                let start = Instant::now();
                loop {
                    assert!(start.elapsed().as_secs() < 20, "posted: {posted}");
                    device.progress(request).expect("progress");
                    match request {
                        Some(request) if device.is_complete(request) => break,
                        None if device.probe(&from(0, 1)).is_some() => break,
                        _ => {}
                    }
                }
                match request {
                    Some(request) => finish(device, request),
                    None => recv(device, from(0, 1), &mut last),
                };
                assert_eq!(last, [5]);
                let mut bulk = vec![vec![0; 4096]; COUNT];
                let requests: Vec<_> = bulk
                    .iter_mut()
                    .map(|bytes| irecv(device, from(0, 0), bytes))
                    .collect();
                for request in requests {
                    finish(device, request);
                }
            });
        }
    }
}
