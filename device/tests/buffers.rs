//! Buffers that are not in the process's memory: an error that says so, no lost link. Over TCP:
//! with shared memory this process itself copies the bytes, and such a buffer ends it.

use std::num::NonZero;
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect};
use rejoin_channel_table::Rank;
use rejoin_device::testing::{self, TestJob, from, irecv, isend, recv, send};
use rejoin_device::{Device, Error, Mode};
use rejoin_wire::Transport;

const LEN: usize = 1 << 20;
/// Readable and writable bytes at the start of the buffer.
const GOOD: usize = 64 << 10;

/// A buffer whose end cannot be touched.
fn bad_buffer() -> NonNull<u8> {
    let len = NonZero::new(LEN).expect("not zero");
    let rights = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: a new mapping touches no existing memory; its end is taken away before anyone has it.
    unsafe {
        let at = mmap_anonymous(None, len, rights, MapFlags::MAP_PRIVATE).expect("mapped");
        mprotect(at.byte_add(GOOD), LEN - GOOD, ProtFlags::PROT_NONE).expect("protected");
        at.cast()
    }
}

/// Makes progress until the device says what is wrong.
fn first_error(device: &mut Device) -> Error {
    loop {
        if let Err(error) = device.wait(None, None) {
            return error;
        }
    }
}

fn check(error: &Error, operation: &str) {
    assert!(matches!(error, Error::Buffer { .. }), "{error}");
    let said = error.to_string();
    for part in [operation, "rank 1", "host1", "buffer"] {
        assert!(said.contains(part), "{said:?} does not name {part}");
    }
}

#[test]
fn a_send_from_nowhere_is_an_error_of_the_buffer() {
    for len in [100_000, LEN] {
        // Rank 1 never gets the message, so the ranks end without MPI_Finalize's agreement.
        let lost = TestJob::new(2)
            .over(Transport::Tcp)
            .run_unfinished(move |device| {
                if device.rank().0 == 1 {
                    recv(device, from(0, 2), &mut [0]);
                    send(device, 0, 3, &[1]);
                    let posted = irecv(device, from(0, 1), Vec::leak(vec![0; LEN]));
                    while !device.is_complete(posted) && device.stats().links_lost == 0 {
                        device.wait(Some(posted), None).expect("progress");
                    }
                    return 0;
                }
                send(device, 1, 2, &[1]);
                recv(device, from(1, 3), &mut [0]);
                let bad = bad_buffer();
                let env = testing::envelope(device, 1);
                // SAFETY: not what is promised, and that is the point: the kernel refuses it.
                let sent = unsafe { device.isend(Rank(1), env, bad.as_ptr(), len, Mode::Standard) };
                let error = sent.err().unwrap_or_else(|| first_error(device));
                check(&error, "send");
                device.stats().links_lost
            });
        assert_eq!(lost, [0, 0], "{len} bytes");
    }
}

#[test]
fn a_receive_to_nowhere_is_an_error_of_the_buffer() {
    let lost = TestJob::new(2)
        .over(Transport::Tcp)
        .run_unfinished(|device| {
            if device.rank().0 == 1 {
                let body = Vec::leak(vec![7; LEN]);
                let sent = isend(device, 0, 1, body, Mode::Standard);
                while !device.is_complete(sent) && device.stats().links_lost == 0 {
                    device.wait(Some(sent), None).expect("progress");
                }
                return 0;
            }
            let bad = bad_buffer();
            // SAFETY: as above.
            let posted = unsafe { device.irecv(from(1, 1), bad.as_ptr(), LEN) };
            posted.expect("posted");
            let error = first_error(device);
            check(&error, "receive");
            device.stats().links_lost
        });
    assert_eq!(lost, [0, 0]);
}
