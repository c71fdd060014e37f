//! Streams of longer nonblocking sends over TCP share writes; a few such sends do not wait for each
//! other.

use rejoin_device::Mode;
use rejoin_device::testing::{TestJob, finish, from, irecv, isend, pattern, recv, send};
use rejoin_wire::Transport;

const LEN: usize = 32 << 10;

/// Writes of each of twenty windows of so many sends, and those made before anything was waited
/// for.
fn windows(count: usize) -> Vec<(u64, u64)> {
    let mut ranks = TestJob::new(2).over(Transport::Tcp).run(move |device| {
        let me = device.rank().0;
        let bodies: Vec<_> = (0..count).map(|at| pattern(at as u64, LEN)).collect();
        let mut byte = [0];
        send(device, 1 - me, 0, &[1]);
        recv(device, from(1 - me, 0), &mut byte);
        let mut writes = Vec::new();
        for _ in 0..20 {
            if me == 0 {
                let before = device.stats().writes;
                let requests: Vec<_> = bodies
                    .iter()
                    .map(|body| isend(device, 1, 2, body, Mode::Standard))
                    .collect();
                let early = device.stats().writes - before;
                for request in requests {
                    finish(device, request);
                }
                writes.push((device.stats().writes - before, early));
                recv(device, from(1, 3), &mut byte);
            } else {
                let mut buffers = vec![vec![0; LEN]; count];
                let requests: Vec<_> = buffers
                    .iter_mut()
                    .map(|buffer| irecv(device, from(0, 2), buffer))
                    .collect();
                for request in requests {
                    finish(device, request);
                }
                assert!(buffers == bodies, "bodies arrive whole and in order");
                send(device, 0, 3, &[1]);
            }
        }
        writes
    });
    ranks.swap_remove(0)
}

#[test]
fn a_stream_of_long_sends_shares_writes() {
    let writes = windows(16);
    let least = writes.iter().map(|(all, _)| *all).min();
    assert!(least <= Some(10), "{writes:?} writes for 16 sends each");
}

#[test]
fn a_few_long_sends_go_out_at_once() {
    let writes = windows(4);
    assert!(
        writes.iter().all(|(_, early)| *early >= 4),
        "{writes:?}: writes for 4 sends each, in all and before the wait"
    );
}
