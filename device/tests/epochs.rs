//! Ranks that enter epochs at moments of their own: later frames and resumes wait, nothing is lost.

use rejoin_channel_table::{Epoch, Rank};
use rejoin_device::testing::{self, TestJob, finish, from, irecv, isend, pattern};
use rejoin_device::{Device, Mode, Options};

const MESSAGES: u64 = 300;

/// Everyone sends to everyone and enters an epoch now and then; returns links lost.
fn exchange(device: &mut Device) -> u64 {
    let (me, size) = (device.rank().0, device.size());
    let mut lost = 0;
    for number in 0..MESSAGES {
        let len = [10, 3000, 20_000, 200_000][number as usize % 4];
        let (mut posted, mut sent) = (Vec::new(), Vec::new());
        for peer in (0..size).filter(|peer| *peer != me) {
            let mut buffer = vec![0; len];
            posted.push((irecv(device, from(peer, 1), &mut buffer), buffer, peer));
        }
        // The middle of an exchange: others have sent in the epoch before, or wait in it. Not
        // before all links are established: a handshake between two epochs ends in a link that does
        // not last.
        if number > 0 && number % u64::from(5 * size) == u64::from(5 * me) {
            device.meet_signal(device.epoch().0 + 1).expect("entered");
        }
        // A peer leaves, and its links with it, once it has everyone's last message: count before.
        lost = device.stats().links_lost;
        for peer in (0..size).filter(|peer| *peer != me) {
            let body = pattern(number << 8 | u64::from(me), len);
            sent.push((isend(device, peer, 1, &body, Mode::Standard), body));
        }
        for (request, buffer, peer) in posted {
            finish(device, request);
            let expected = pattern(number << 8 | u64::from(peer), len);
            assert!(buffer == expected, "message {number} from {peer} damaged");
        }
        for (request, _body) in sent {
            finish(device, request);
        }
    }
    lost
}

#[test]
fn frames_of_a_later_epoch_wait_in_their_link() {
    let lost = TestJob::new(3).run(|device| {
        let lost = exchange(device);
        (lost, device.epoch())
    });
    for (lost, epoch) in lost {
        assert_eq!(lost, 0, "a later epoch is no breach");
        assert!(epoch >= Epoch(20), "{epoch:?}");
    }
}

#[test]
fn a_signal_that_announces_messages_makes_no_rank_enter_its_first_epoch() {
    let epochs = TestJob::new(2).run(|device| {
        device.meet_signal(0).expect("nothing to read");
        device.epoch()
    });
    assert_eq!(epochs, [Epoch(0); 2]);
}

#[test]
fn resumes_of_a_later_epoch_wait_for_the_safe_point() {
    let options = |_| Options {
        cut: Some((11, 60)),
        ..Options::default()
    };
    let lost: u64 = TestJob::with(3, options).run(exchange).into_iter().sum();
    assert!(lost > 50, "too few cuts to mean much: {lost}");
}

#[test]
fn the_first_word_may_be_of_a_later_epoch() {
    TestJob::new(2).run(|device| {
        let mut bytes = [0];
        if device.rank() == Rank(0) {
            device.meet_signal(9).expect("entered");
            testing::send(device, 1, 0, b"x");
            testing::recv(device, from(1, 0), &mut bytes);
        } else {
            testing::recv(device, from(0, 0), &mut bytes);
            testing::send(device, 0, 0, b"y");
        }
        assert_eq!(device.epoch(), Epoch(9));
    });
}
