//! Requests, images and commits, step by step.

use super::*;

fn at(millis: u64) -> Time {
    Time(0).plus_millis(millis)
}

fn two(interval: Interval) -> Coordinator {
    Coordinator::new(2, interval, None)
}

fn take(c: &mut Coordinator, now: Time, cost: ImageCost) -> Epoch {
    let epoch = c.request(now).expect("a request");
    assert_eq!(c.imaged(Rank(0), epoch, cost), Progress::Waiting);
    assert_eq!(
        c.imaged(Rank(1), epoch, ImageCost::default()),
        Progress::Complete(epoch)
    );
    c.commit(now, epoch);
    epoch
}

#[test]
fn a_checkpoint_stands_when_every_image_is_there_and_the_one_before_it_until_then() {
    let mut c = two(Interval::Every(100));
    assert_eq!(take(&mut c, at(0), ImageCost::default()), Epoch(1));
    assert_eq!(c.deadline(), Some(at(100)));
    let epoch = c.request(at(100)).unwrap();
    assert_eq!(c.request(at(100)), None, "one at a time");
    assert_eq!(
        c.imaged(Rank(0), epoch, ImageCost::default()),
        Progress::Waiting
    );
    assert_eq!(
        c.imaged(Rank(0), epoch, ImageCost::default()),
        Progress::Waiting,
        "said twice"
    );
    assert_eq!(c.committed(), Some(Epoch(1)));
    assert_eq!(
        c.imaged(Rank(1), Epoch(1), ImageCost::default()),
        Progress::Waiting,
        "an old one"
    );
    assert_eq!(
        c.imaged(Rank(1), epoch, ImageCost::default()),
        Progress::Complete(epoch)
    );
    assert_eq!(c.committed(), Some(Epoch(1)), "not before it is stored");
    c.commit(at(101), epoch);
    assert_eq!(c.committed(), Some(Epoch(2)));
    // The checkpoint that was requested meanwhile comes next, at once.
    assert_eq!(c.tick(at(101)), Tick::Due);
}

#[test]
fn the_cost_of_a_checkpoint_is_the_longest_stall_and_the_copies_of_all_ranks() {
    let mut c = two(Interval::Asked);
    let epoch = c.request(at(0)).unwrap();
    let cost = |stall, copied| ImageCost {
        stall,
        copied,
        copying: 0,
    };
    c.imaged(Rank(1), epoch, cost(700, 5));
    c.imaged(Rank(1), epoch, cost(700, 5));
    c.imaged(Rank(0), epoch, cost(300, 80));
    let wanted = CheckpointCost {
        stall: 700,
        slowest: Rank(1),
        copied: 85,
    };
    assert_eq!(c.cost_so_far(), wanted);
}

#[test]
fn numbers_are_abandoned_by_failed_and_rolled_back_orders() {
    let mut c = two(Interval::Every(100));
    take(&mut c, at(0), ImageCost::default());
    let second = c.request(at(1)).unwrap();
    assert_eq!(c.failed(at(2), second), Progress::Aborted(second));
    assert_eq!(c.failed(at(2), second), Progress::Waiting);
    let third = c.request(at(3)).unwrap();
    c.imaged(Rank(0), third, ImageCost::default());
    assert_eq!(c.rolled_back(Some(Epoch(1))), Some(third));
    assert_eq!(
        c.imaged(Rank(1), third, ImageCost::default()),
        Progress::Waiting
    );
    assert_eq!(c.request(at(4)), Some(Epoch(4)));
    assert_eq!(c.committed(), Some(Epoch(1)));
    let mut again = two(Interval::Auto);
    let stored = CommittedCheckpoint {
        epoch: Epoch(1),
        at: at(0),
        cost: ImageCost::default(),
    };
    let last = LastCommits {
        memory: Some(stored),
        ..LastCommits::default()
    };
    again.resume(last, Epoch(4));
    assert_eq!(again.request(at(1)), Some(Epoch(5)));
}

#[test]
fn failures_do_not_put_checkpoints_off() {
    let mut c = two(Interval::Every(100));
    take(&mut c, at(0), ImageCost::default());
    for millis in [50, 90, 130] {
        c.rolled_back(Some(Epoch(1)));
        c.run_again(at(millis));
    }
    assert_eq!(c.deadline(), Some(at(130 + SETTLE)));
    let request = c.request(at(150)).unwrap();
    assert_eq!(c.rolled_back(Some(Epoch(1))), Some(request));
    c.run_again(at(160));
    assert_eq!(
        c.deadline(),
        Some(at(160 + SETTLE)),
        "the one that was lost"
    );
    let mut asked = two(Interval::Asked);
    take(&mut asked, at(0), ImageCost::default());
    asked.rolled_back(Some(Epoch(1)));
    asked.run_again(at(1));
    assert_eq!(asked.deadline(), None);
}

#[test]
fn a_rank_that_does_not_follow_is_named_and_the_request_aborted() {
    let mut c = two(Interval::Asked);
    let epoch = c.request(at(0)).unwrap();
    c.imaged(Rank(0), epoch, ImageCost::default());
    assert_eq!(c.tick(at(REQUEST_LIMIT - 1)), Tick::Nothing);
    let late = Tick::Late {
        epoch,
        rank: Rank(1),
    };
    assert_eq!(c.tick(at(REQUEST_LIMIT)), late);
    assert_eq!(c.pending(), None);
    assert_eq!(c.deadline(), None);
}

#[test]
fn a_checkpoint_that_is_wanted_during_a_rollback_comes_after_it() {
    let mut c = two(Interval::Asked);
    take(&mut c, at(0), ImageCost::default());
    c.rolled_back(Some(Epoch(1)));
    c.request_later();
    assert_eq!(c.tick(at(5)), Tick::Nothing);
    c.schedule(at(9));
    assert_eq!(c.tick(at(9)), Tick::Due);
    assert_eq!(c.request(at(9)), Some(Epoch(2)));
    c.rolled_back(Some(Epoch(1)));
    c.schedule(at(11));
    assert_eq!(c.tick(at(11)), Tick::Nothing, "requested once");
}

#[test]
fn an_interval_that_is_too_short_for_two_checkpoints_is_stretched_and_told_once() {
    let mut c = two(Interval::Every(100));
    let dear = ImageCost {
        stall: 10_000,
        copied: 10_000,
        copying: 90_000,
    };
    take(&mut c, at(0), dear);
    assert_eq!((c.newly_stretched(), c.deadline()), (None, Some(at(100))));
    take(&mut c, at(100), dear);
    let stretch = Stretch {
        asked: 100,
        interval: 400,
        cost: 100_000,
    };
    assert_eq!(c.newly_stretched(), Some(stretch));
    assert_eq!((c.newly_stretched(), c.deadline()), (None, Some(at(500))));
    // It holds again when checkpoints are cheap.
    take(&mut c, at(500), ImageCost::default());
    assert_eq!(c.deadline(), Some(at(600)));
}

#[test]
fn a_lost_image_calls_for_another_checkpoint_at_once() {
    let mut c = two(Interval::Asked);
    let first = take(&mut c, at(0), ImageCost::default());
    assert_eq!(c.deadline(), None);
    assert_eq!(c.image_lost(at(5), Rank(1), first, true), Progress::Waiting);
    assert_eq!(c.tick(at(5)), Tick::Due);
    let second = c.request(at(5)).unwrap();
    assert_eq!(
        c.image_lost(at(6), Rank(1), second, true),
        Progress::Aborted(second)
    );
    assert_eq!(c.deadline(), Some(at(6 + RETAKE_PAUSES.0)), "again");
    assert_eq!(
        c.image_lost(at(7), Rank(1), Epoch(77), true),
        Progress::Waiting
    );
}

#[test]
fn the_last_image_of_a_rank_is_one_that_is_there() {
    let cost = ImageCost::default();
    let mut c = two(Interval::Asked);
    assert_eq!(c.image_of(Rank(0)), None);
    let first = take(&mut c, at(0), cost);
    assert_eq!(c.image_of(Rank(0)), Some(first));
    let second = c.request(at(1)).unwrap();
    c.imaged(Rank(0), second, cost);
    let images = |c: &Coordinator| [0, 1].map(|rank| c.image_of(Rank(rank)));
    assert_eq!(images(&c), [Some(second), Some(first)]);
    // The committed image of a rank is gone, then the request is aborted.
    c.image_lost(at(2), Rank(0), first, true);
    assert_eq!(images(&c), [Some(second), Some(first)]);
    c.failed(at(3), second);
    assert_eq!(images(&c), [None, Some(first)]);
    let third = take(&mut c, at(4), cost);
    assert_eq!(images(&c), [Some(third); 2]);
}

#[test]
fn images_that_are_killed_again_and_again_are_replaced_after_pauses_that_double() {
    let mut c = two(Interval::Asked);
    let (mut now, mut pauses) = (0, Vec::new());
    let mut epoch = take(&mut c, at(now), ImageCost::default());
    for _ in 0..10 {
        c.image_lost(at(now), Rank(1), epoch, true);
        // The images of both ranks are killed.
        c.image_lost(at(now), Rank(1), epoch, true);
        let due = c.deadline().expect("another checkpoint");
        pauses.push((due.0 - at(now).0) / 1_000_000);
        now += pauses.last().expect("one was pushed");
        assert_eq!(c.tick(at(now)), Tick::Due);
        epoch = take(&mut c, at(now), ImageCost::default());
    }
    let (shortest, longest) = RETAKE_PAUSES;
    assert_eq!(pauses[..3], [0, shortest, 2 * shortest]);
    assert_eq!(pauses[7..], [longest; 3]);
    // One that is lost before its commit belongs to the series, too.
    c.image_lost(at(now), Rank(1), epoch, true);
    now += longest;
    let next = c.request(at(now)).expect("a request");
    assert_eq!(
        c.image_lost(at(now), Rank(1), next, true),
        Progress::Aborted(next)
    );
    assert_eq!(c.deadline(), Some(at(now + longest)));
    // One that lasts ends it.
    epoch = take(&mut c, at(now), ImageCost::default());
    now += longest;
    c.image_lost(at(now), Rank(1), epoch, true);
    assert_eq!(c.tick(at(now)), Tick::Due);
}

#[test]
fn a_pause_after_lost_images_delays_no_checkpoint_that_is_due_sooner() {
    let mut c = two(Interval::Every(30));
    let first = take(&mut c, at(0), ImageCost::default());
    c.image_lost(at(1), Rank(1), first, true);
    let second = take(&mut c, at(1), ImageCost::default());
    c.image_lost(at(2), Rank(1), second, true);
    assert_eq!(c.deadline(), Some(at(31)));
}

#[test]
fn the_automatic_interval_follows_the_dearest_rank() {
    let mut c = two(Interval::Auto);
    let cost = ImageCost {
        stall: 10_000,
        copied: 45_000,
        copying: 0,
    };
    take(&mut c, at(0), cost);
    // 100 ms in all, half a percent of 20 s.
    assert_eq!(c.deadline(), Some(at(20_000)));
    // A rank that is suspended longest need not be the dearest.
    let mut c = two(Interval::Auto);
    let epoch = c.request(at(0)).unwrap();
    for (rank, stall, copied) in [(0, 1_000, 40_000), (1, 20_000, 0)] {
        c.imaged(
            Rank(rank),
            epoch,
            ImageCost {
                stall,
                copied,
                copying: 0,
            },
        );
    }
    c.commit(at(0), epoch);
    assert_eq!(c.deadline(), Some(at(16_200)));
    let mut c = two(Interval::Auto);
    take(&mut c, at(0), ImageCost::default());
    assert_eq!(c.deadline(), Some(at(AUTO.0)));
}

#[test]
fn the_automatic_interval_shrinks_with_failures_to_a_bound() {
    let mut c = two(Interval::Auto);
    c.begin(at(0));
    let cost = ImageCost {
        stall: 100_000,
        copied: 400_000,
        copying: 0,
    };
    let costs = cost.total() / 1000;
    let minute = |minutes: u64| at(60_000 * minutes);
    let interval = |c: &mut Coordinator, now: Time| {
        take(c, now, cost);
        (c.deadline().expect("the next one").0 - now.0) / 1_000_000
    };
    assert_eq!(interval(&mut c, minute(1)), 200 * costs);
    // One failure in 62 minutes, then six.
    c.set_failures(1);
    let first = interval(&mut c, minute(60));
    let best = ((2 * costs * 62 * 60_000) as f64).sqrt();
    assert!(first.abs_diff(best as u64) < 2, "{first} {best}");
    c.set_failures(6);
    let later = interval(&mut c, minute(60));
    assert!(later * 2 < first && later > 4 * costs, "{later} {first}");
    c.set_failures(100_000);
    assert_eq!(interval(&mut c, minute(60)), 4 * costs);
}

#[test]
fn automatic_files_leave_pauses_that_shrink_with_failures() {
    let mut c = Coordinator::new(2, Interval::Asked, Some(Interval::Auto));
    c.begin(at(0));
    let writes = |c: &mut Coordinator, now: Time| {
        let epoch = take(c, now, ImageCost::default());
        c.begin_files(now);
        c.epochs().writing == Some(epoch)
    };
    let store = |c: &mut Coordinator, now: Time| {
        let epoch = c.epochs().writing.expect("files");
        c.stored(Rank(0), epoch);
        c.stored(Rank(1), epoch);
        c.commit_files(now);
    };
    assert!(writes(&mut c, at(1_000)));
    store(&mut c, at(2_000));
    // They took a second: twenty seconds from their beginning.
    assert!(!writes(&mut c, at(20_900)));
    assert!(writes(&mut c, at(21_000)));
    store(&mut c, at(22_000));
    // Many failures: four times as long as they took.
    c.set_failures(1000);
    assert!(!writes(&mut c, at(24_900)));
    assert!(writes(&mut c, at(25_000)));
}
