//! That the fast path leaves nothing behind that is ready to go another way.

use rejoin_channel_table::ids::Rank;
use rejoin_wire::Transport;

use super::{Caller, PASS_AFTER};
use crate::Device;
use crate::testing::{TestJob, envelope, from, ping_pong, recv, send};
use crate::transport::SendOutcome;
use crate::{Options, memory};

/// Sends to rank 1 on the fast path, in which no pass of progress is due.
fn try_send(device: &mut Device, body: &[u8]) -> bool {
    device.progress.number_from_one();
    let env = envelope(device, 1);
    // SAFETY: the body is readable.
    let tried =
        unsafe { device.try_send(Rank(1), &env, body.as_ptr(), body.len(), Caller::Blocking) };
    matches!(tried, SendOutcome::Sent)
}

/// A send to rank 2 that waits for the next write there, as one of a burst does.
fn put_off(device: &mut Device, body: &[u8]) {
    let env = envelope(device, 2);
    let segment = memory::segment(body.as_ptr(), body.len());
    let mode = rejoin_engine::MessageMode::Standard;
    let sent = device.engine.send(Rank(2), env, segment, Some(body), mode);
    assert_eq!(sent.expect("kept"), rejoin_engine::Sent::Done);
    assert!(device.engine.tx_pending(Rank(2)));
}

#[test]
fn a_fast_call_leaves_nothing_put_off_for_others() {
    const { assert!(PASS_AFTER > 2) };
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
                device.flush_ready().expect("flushed");
                assert!(try_send(device, b"at once."));
                put_off(device, b"put off.");
                assert!(!try_send(device, b"too soon"));
                send(device, 1, 1, b"the long");
                assert!(!device.engine.tx_pending(Rank(2)));
                assert!(try_send(device, b"at last."));
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
                assert_eq!(buffer, *b"put off.");
            }
        }
    });
}
