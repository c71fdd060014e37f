//! Tests that are particular to links over shared memory.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use rejoin_channel_table::Rank;
use rejoin_channel_table::card::LocalSocketName;
use rejoin_device::testing::{
    TestJob, finish, from, irecv, isend, misdirect_local, pattern, ping_pong, recv, send,
};
use rejoin_device::{Caller, Envelope, Mode, Options, SendOutcome, Stats};
use rejoin_wire::Transport;

/// The system calls that moved bytes, of each rank.
fn calls(stats: &Stats) -> u64 {
    stats.writes + stats.reads - stats.ring_calls + stats.doorbells
}

#[test]
fn messages_need_no_system_call_while_both_sides_are_awake() {
    // However the cores are shared: a wait that has spun for so long would hang.
    let mut job = TestJob::with(2, |_| Options {
        spin: Some(Duration::from_secs(50)),
        ..Options::default()
    });
    job.transport = Some(Transport::Shm);
    let counted = Barrier::new(2);
    let stats = job.run(move |device| {
        ping_pong(device, 10, 8);
        let (before, others_before) = (device.stats(), turns_of_others());
        // The end of rank 1's last send may find what rank 0 sends next.
        counted.wait();
        ping_pong(device, 2000, 8);
        ping_pong(device, 2000, 100);
        ping_pong(device, 2000, 9000);
        (before, device.stats(), turns_of_others() - others_before)
    });
    let (mut more, mut slept) = (0, 0);
    for (before, after, turns_of_others) in stats {
        assert_eq!((before.rings_made, after.rings_made), (1, 1));
        assert!(after.ring_bytes > 0);
        assert!(after.ring_calls - before.ring_calls >= 4000, "{after:?}");
        let (out, come) = (before.short_out, before.short_in);
        assert_eq!((after.short_out - out, after.short_in - come), (4000, 4000));
        // A wait stops spinning for a while when another process has had the core.
        let blocks = after.blocks - before.blocks;
        assert!(blocks < 2000 || turns_of_others > 0, "{after:?}");
        slept += blocks;
        more += calls(&after) - calls(&before);
    }
    assert!(more <= 100 + 2 * slept, "{more} calls, {slept} waits");
}

/// How often the kernel has given this thread's core to another one that was ready to run.
fn turns_of_others() -> i64 {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).expect("the thread's counters");
    usage.involuntary_context_switches()
}

#[test]
fn the_doorbell_wakes_ranks_that_sleep() {
    let mut job = TestJob::with(2, |_| Options {
        spin: Some(Duration::ZERO),
        ..Options::default()
    });
    job.transport = Some(Transport::Shm);
    let stats = job.run(|device| {
        for len in [8, 9000, 200_000, 3_000_000] {
            ping_pong(device, 20, len);
        }
        device.stats()
    });
    assert!(stats.iter().all(|stats| stats.rings_made == 1));
}

#[test]
fn what_nobody_asks_for_stays_with_its_link() {
    const COUNT: u32 = 600;
    let mut job = TestJob::new(2);
    job.transport = Some(Transport::Shm);
    let sent = Arc::new(Barrier::new(2));
    job.run(move |device| {
        // Some are short, the others go as bytes, once there is no cell.
        let bodies: Vec<_> = (0..COUNT).map(u32::to_le_bytes).collect();
        if device.rank().0 == 0 {
            ping_pong(device, 1, 8);
            let requests: Vec<_> = bodies
                .iter()
                .map(|body| isend(device, 1, 1, body, Mode::Standard))
                .collect();
            device.progress(None).expect("written");
            sent.wait();
            for request in requests {
                finish(device, request);
            }
            return;
        }
        ping_pong(device, 1, 8);
        sent.wait();
        for _ in 0..3 {
            let before = device.stats().frames_in;
            while device.stats().frames_in == before {
                device.progress(None).expect("a pass");
            }
            let came = device.stats().frames_in - before;
            assert!(came <= 16, "{came} messages are buffered in one pass");
        }
        for body in &bodies {
            let mut buffer = [0; 4];
            let request = irecv(device, from(0, 1), &mut buffer);
            finish(device, request);
            assert_eq!(buffer, *body);
        }
    });
}

#[test]
fn both_sides_may_be_full_at_once() {
    const LEN: usize = 900_000;
    const COUNT: usize = 6;
    for spin in [None, Some(Duration::ZERO)] {
        let mut job = TestJob::with(2, move |_| Options {
            spin,
            ..Options::default()
        });
        job.transport = Some(Transport::Shm);
        job.run(|device| {
            let other = 1 - device.rank().0;
            let bodies: Vec<_> = (0..COUNT).map(|at| pattern(at as u64, LEN)).collect();
            let sent: Vec<_> = bodies
                .iter()
                .map(|body| isend(device, other, 1, body, Mode::Standard))
                .collect();
            let mut buffers = vec![vec![0; LEN]; COUNT];
            let posted: Vec<_> = buffers
                .iter_mut()
                .map(|buffer| irecv(device, from(other, 1), buffer))
                .collect();
            for request in posted.into_iter().chain(sent) {
                finish(device, request);
            }
            assert!(buffers == bodies);
        });
    }
}

#[test]
fn long_messages_are_read_in_one_copy_where_that_is_allowed() {
    for (allowed, cut, least) in [
        (true, None, Some(32 << 10)),
        (true, None, None),
        (false, None, Some(32 << 10)),
        (true, Some((3, 60)), Some(128 << 10)),
    ] {
        let mut job = TestJob::with(2, move |_| Options {
            single_copy: allowed,
            cut,
            ..Options::default()
        });
        job.transport = Some(Transport::Shm);
        job.single_copy_min = least;
        let stats = job.run(|device| {
            let me = device.rank().0;
            for (round, len) in [100_000, 40_000, 5_000_000, 32 << 10]
                .into_iter()
                .cycle()
                .take(40)
                .enumerate()
            {
                let body = pattern(round as u64, len);
                let mut buffer = vec![0; len];
                let posted = irecv(device, from(1 - me, 1), &mut buffer);
                let sent = isend(device, 1 - me, 1, &body, Mode::Standard);
                finish(device, posted);
                finish(device, sent);
                assert!(buffer == body, "round {round}");
            }
            device.stats()
        });
        // Whichever side had the core to move them.
        let moved = stats.iter().map(|s| s.bytes_got + s.bytes_put);
        let moved = moved.sum::<u64>();
        // Without a least length, the time of copies decides.
        assert!(
            least.is_none() || (moved > 20_000_000) == allowed,
            "{stats:?}"
        );
    }
}

/// A sender that gives up its requests has withdrawn what it had offered: its memory may be
/// anything by then.
#[test]
fn a_body_that_was_withdrawn_is_not_read() {
    const LEN: usize = 1 << 20;
    for made in [true, false] {
        let mut job = TestJob::new(2);
        job.transport = Some(Transport::Shm);
        let offered = Arc::new(Barrier::new(2));
        let looked = Arc::new(Barrier::new(2));
        let stats = job.run(move |device| {
            let body = pattern(1, LEN);
            ping_pong(device, 1, 8);
            if device.rank().0 == 0 {
                let request = isend(device, 1, 1, &body, Mode::Standard);
                send(device, 1, 2, &[7]);
                if made {
                    device.withdraw();
                }
                offered.wait();
                looked.wait();
                // Such a caller would not continue from here.
                finish(device, request);
                return device.stats();
            }
            recv(device, from(0, 2), &mut [0]);
            offered.wait();
            let mut room = vec![0; LEN];
            let request = irecv(device, from(0, 1), &mut room);
            for _ in 0..100 {
                device.progress(None).expect("a pass");
            }
            assert_eq!(device.is_complete(request), !made);
            looked.wait();
            finish(device, request);
            assert!(room == body);
            device.stats()
        });
        let read = if made { 0 } else { LEN as u64 };
        assert_eq!(stats[1].bytes_got, read, "{stats:?}");
    }
}

/// Ranks whose cards name wrong local listeners use TCP.
fn over_tcp_all_the_same(socket: LocalSocketName) -> Vec<Stats> {
    let mut job = TestJob::new(2);
    job.edit = Arc::new(move |table| misdirect_local(table, socket));
    let stats = job.run(|device| {
        for len in [8, 9000, 3_000_000] {
            ping_pong(device, 3, len);
        }
        device.stats()
    });
    for stats in &stats {
        assert_eq!((stats.rings_made, stats.links_made), (0, 1), "{stats:?}");
    }
    stats
}

#[test]
fn a_local_listener_that_is_not_there_is_passed_over() {
    over_tcp_all_the_same(LocalSocketName([0x5a; 16]));
}

#[test]
fn a_listener_behind_which_no_link_is_established_is_passed_over() {
    let socket = LocalSocketName(
        std::process::id()
            .to_le_bytes()
            .repeat(4)
            .try_into()
            .expect("16 bytes"),
    );
    let name = SocketAddr::from_abstract_name(format!("rejoin-{socket}")).expect("a name");
    let listener = UnixListener::bind_addr(&name).expect("bound");
    // Takes every connection and drops it. The thread ends with the test's process.
    thread::spawn(move || listener.incoming().for_each(drop));
    let stats = over_tcp_all_the_same(socket);
    // Bounded: a few at the listener, and one or two over TCP.
    assert!(stats.iter().all(|stats| stats.dials <= 7), "{stats:?}");
}

/// Messages that go the shortest way, between others that don't: nothing is lost, and nothing
/// overtakes.
#[test]
fn direct_messages_keep_their_order_among_others() {
    const ROUNDS: usize = 3000;
    let mut job = TestJob::new(2);
    job.transport = Some(Transport::Shm);
    let counts = job.run(|device| {
        let me = device.rank().0;
        let mut direct = 0;
        for round in 0..ROUNDS {
            let len = [0, 1, 8, 32, 33, 900, 8 << 10, 20_000][round * 7 / 3 % 8];
            let body: Vec<u8> = (0..len).map(|at| (at * 31 + round) as u8).collect();
            let to_me = from(1 - me, 1);
            if me as usize == round % 2 {
                let env = Envelope {
                    context: to_me.context,
                    source: me as i32,
                    tag: 1,
                };
                let to = Rank(1 - me);
                let caller = Caller::Blocking;
                // SAFETY: the body stays during the call.
                let tried = unsafe { device.try_send(to, &env, body.as_ptr(), len, caller) };
                if matches!(tried, SendOutcome::Sent) {
                    direct += 1;
                } else {
                    send(device, 1 - me, 1, &body);
                }
            } else {
                let mut room = vec![0xa5; len];
                // SAFETY: the room is this call's alone.
                let now = unsafe { device.try_recv(&to_me, room.as_mut_ptr(), len) };
                match now {
                    Some(done) => {
                        assert_eq!((done.len, done.truncated), (len as u64, None));
                        direct += 1;
                    }
                    None => {
                        recv(device, to_me, &mut room);
                    }
                }
                assert!(room == body, "round {round}");
            }
        }
        direct
    });
    assert!(
        counts.iter().all(|direct| *direct > ROUNDS / 10),
        "{counts:?}"
    );
}

/// More bodies than a ring holds go by without a byte of another kind, met and not met: the link
/// stays.
#[test]
fn a_link_outlives_many_bodies_that_stood_apart() {
    for ahead in [1, 50] {
        let mut job = TestJob::new(2);
        job.transport = Some(Transport::Shm);
        let stats = job.run(move |device| {
            let body = [9; 1024];
            for _ in 0..2000 / ahead {
                if device.rank().0 == 0 {
                    (0..ahead).for_each(|_| send(device, 1, 1, &body));
                    send(device, 1, 3, &[7]);
                    recv(device, from(1, 2), &mut [0]);
                } else {
                    // Before the others, which are not expected then.
                    recv(device, from(0, 3), &mut [0]);
                    let mut room = [0; 1024];
                    (0..ahead).for_each(|_| {
                        recv(device, from(0, 1), &mut room);
                    });
                    assert_eq!(room, body);
                    send(device, 0, 2, &[1]);
                }
            }
            device.stats()
        });
        for stats in stats {
            assert_eq!((stats.links_made, stats.links_lost), (1, 0), "{stats:?}");
        }
    }
}
