//! That the fast path leaves nothing behind that is ready to go another way, and notices links that
//! its peer has closed.

use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use rejoin_channel_table::ids::Rank;
use rejoin_wire::Transport;

use super::{Caller, SLOW_PATH_EVERY};
use crate::Device;
use crate::testing::{TestJob, envelope, from, ping_pong, recv, send};
use crate::transport::SendOutcome;
use crate::{Options, program_memory};

/// Sends to rank 1 on the fast path, in which no pass of progress is due.
fn try_send(device: &mut Device, body: &[u8]) -> SendOutcome {
    device.progress.number_from_one();
    let env = envelope(device, 1);
    // SAFETY: the body is readable.
    unsafe { device.try_send(Rank(1), &env, body.as_ptr(), body.len(), Caller::Blocking) }
}

/// Whether such a send was made.
fn is_sent(device: &mut Device, body: &[u8]) -> bool {
    matches!(try_send(device, body), SendOutcome::Sent)
}

/// A send to rank 2 that waits for the next write there, as one of a burst does.
fn defer(device: &mut Device, body: &[u8]) {
    let env = envelope(device, 2);
    let segment = program_memory::segment(body.as_ptr(), body.len());
    let mode = rejoin_engine::MessageMode::Standard;
    let sent = device.engine.send(Rank(2), env, segment, Some(body), mode);
    assert_eq!(sent.expect("retained"), rejoin_engine::Sent::Done);
    assert!(device.engine.tx_pending(Rank(2)));
}

#[test]
fn a_fast_call_leaves_no_deferred_write_for_others() {
    const { assert!(SLOW_PATH_EVERY > 2) };
    let job = TestJob::with(3, |rank| Options {
        transport: Some(if rank == 2 {
            Transport::Tcp
        } else {
            Transport::Shm
        }),
        ..Options::default()
    });
    job.run(|device| {
        let mut buffer = [0; 8];
        match device.rank().0 {
            0 => {
                ping_pong(device, 1, 8);
                send(device, 2, 2, b"the link");
                recv(device, from(2, 2), &mut buffer);
                device.passes().flush_ready().expect("flushed");
                assert!(is_sent(device, b"at once."));
                defer(device, b"deferred");
                assert!(!is_sent(device, b"too soon"));
                send(device, 1, 1, b"the long");
                assert!(!device.engine.tx_pending(Rank(2)));
                assert!(is_sent(device, b"at last."));
            }
            1 => {
                ping_pong(device, 1, 8);
                for body in [b"at once.", b"the long", b"at last."] {
                    recv(device, from(0, 1), &mut buffer);
                    assert_eq!(buffer, *body);
                }
            }
            _ => {
                recv(device, from(0, 2), &mut buffer);
                send(device, 0, 2, &buffer);
                recv(device, from(0, 2), &mut buffer);
                assert_eq!(buffer, *b"deferred");
            }
        }
    });
}

/// Closes the link to rank 0 on this side alone.
fn lose_link(device: &mut Device) {
    let live = device.links.live_to(Rank(0)).expect("a link");
    crate::transport::Endpoint::cut(&mut live.endpoint);
    let start = Instant::now();
    while device.stats().links_lost == 0 {
        assert!(start.elapsed() < Duration::from_secs(30), "not noticed");
        device.progress(None).expect("progress");
    }
}

#[test]
fn the_first_send_after_a_pause_replaces_a_link_that_only_the_receiver_has_closed() {
    let turns = Arc::new(Barrier::new(2));
    TestJob::new(2).over(Transport::Shm).run(move |device| {
        ping_pong(device, 3, 8);
        turns.wait();
        if device.rank().0 == 0 {
            // Rank 0 computes.
            turns.wait();
            let SendOutcome::LinkLost(fault) = try_send(device, b"at last.") else {
                panic!("the sender has not noticed the closed link");
            };
            device.link_lost(Rank(1), *fault).expect("dropped");
            assert!(device.awaits_links());
            device.await_links().expect("a new link");
            // It computes again: the message is on its way.
            turns.wait();
        } else {
            lose_link(device);
            turns.wait();
            let mut buffer = [0; 8];
            recv(device, from(0, 1), &mut buffer);
            assert_eq!(buffer, *b"at last.");
            turns.wait();
        }
    });
}
