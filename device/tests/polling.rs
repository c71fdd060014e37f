//! One rank polls, the other waits, and others want the cores: no event may be missed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rejoin_device::Mode;
use rejoin_device::testing::{Random, TRANSPORTS, TestJob, finish, from, irecv, isend, pattern};

const ROUNDS: u64 = 120;
const LENGTHS: [usize; 8] = [0, 8, 200, 4000, 9000, 30_000, 100_000, 300_000];

#[test]
fn nothing_waits_for_an_event_that_was_missed() {
    for transport in TRANSPORTS {
        let done = Arc::new(AtomicBool::new(false));
        let busy: Vec<_> = (0..4)
            .map(|_| {
                let done = Arc::clone(&done);
                thread::spawn(move || while !done.load(Ordering::Relaxed) {})
            })
            .collect();
        let stats = TestJob::new(2).over(transport).run(|device| {
            let me = device.rank().0;
            let mut random = Random(77);
            let mut buffer = vec![0; 300_000];
            for round in 0..ROUNDS {
                let lengths = [random.below(8), random.below(8)].map(|at| LENGTHS[at]);
                let [mine, theirs] = [lengths[me as usize], lengths[1 - me as usize]];
                let posted = irecv(device, from(1 - me, 1), &mut buffer[..theirs]);
                let body = pattern(round << 1 | u64::from(me), mine);
                let sent = isend(device, 1 - me, 1, &body, Mode::Standard);
                while me == 0 && !(device.is_complete(posted) && device.is_complete(sent)) {
                    device.progress(Some(posted)).expect("progress");
                }
                finish(device, posted);
                finish(device, sent);
                let expected = pattern(round << 1 | u64::from(1 - me), theirs);
                assert!(buffer[..theirs] == expected, "round {round} damaged");
            }
            device.stats()
        });
        done.store(true, Ordering::Relaxed);
        for one in busy {
            one.join().expect("ended");
        }
        for stats in stats {
            assert_eq!((stats.late, stats.links_lost), (0, 0), "{stats:?}");
        }
    }
}
