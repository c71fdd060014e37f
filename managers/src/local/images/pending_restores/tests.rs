//! Restores without images.

use super::*;
use rejoin_channel_table::{Epoch, Generation, Rank};
use rejoin_wire::codec::MANAGER_LIMIT;

fn checkpoint(epoch: u32) -> ImageId {
    ImageId::Checkpoint(Epoch(epoch))
}

/// A restore of the rank in slot 1, in this incarnation and from this checkpoint.
fn restore(incarnation: u32, id: u32) -> PendingRestore {
    let ends = DescriptorPairs::new().unwrap();
    let socket = ends.manager.0.try_clone().unwrap();
    let socket = LocalLink::new(socket, MANAGER_LIMIT, MANAGER_LIMIT);
    let instance = ProcessInstance {
        generation: Generation(incarnation),
        rank: Rank(1),
        incarnation: Incarnation(incarnation),
    };
    PendingRestore::new(instance, checkpoint(id), (ends, socket))
}

fn two_slots() -> PendingRestores {
    let mut restores = PendingRestores::default();
    restores.serve(2);
    restores
}

#[test]
fn only_the_process_that_is_being_made_can_be_told_to_retire() {
    let mut restores = two_slots();
    assert!(!restores.retire(1, Incarnation(2)), "there is none");
    restores.begin(1, restore(2, 5));
    assert!(restores.is_from(1, checkpoint(5)) && !restores.is_from(1, checkpoint(4)));
    assert!(!restores.is_from(0, checkpoint(5)));
    assert!(!restores.retire(1, Incarnation(1)), "that one has ended");
    assert!(!restores.retire(0, Incarnation(2)));
    assert!(restores.retire(1, Incarnation(2)));
    assert!(restores.is_any());
    let taken = restores.take(1).unwrap();
    assert!(taken.is_to_retire());
    assert!(!restores.is_any() && restores.take(1).is_none());
    // Its successor does not inherit the order.
    restores.begin(1, restore(3, 5));
    assert!(!restores.take(1).unwrap().is_to_retire());
}

#[test]
fn ends_of_unknown_processes_are_kept_while_one_is_being_made() {
    let mut restores = two_slots();
    restores.add_stray(10, 9);
    assert_eq!(restores.take_stray(10), None, "it can be no rank");
    restores.begin(1, restore(1, 5));
    for pid in 0..=MOST_STRAYS as u32 {
        restores.add_stray(1000 + pid, 9);
    }
    assert_eq!(restores.take_stray(1000), None, "the oldest is forgotten");
    assert_eq!(restores.take_stray(1001), Some(9));
    assert_eq!(restores.take_stray(1001), None, "once");
    // A number comes again: its last end counts.
    restores.add_stray(1002, 15);
    assert_eq!(restores.take_stray(1002), Some(15));
}

#[test]
fn an_image_that_does_not_answer_is_reported() {
    let mut restores = two_slots();
    restores.begin(0, restore(1, 5));
    let long_ago = Instant::now().checked_sub(ANSWER_LIMIT);
    let late = PendingRestore {
        since: long_ago.unwrap() - Duration::from_millis(1),
        ..restore(1, 5)
    };
    restores.begin(1, late);
    assert_eq!(restores.overdue(), [(1, ANSWER_LIMIT)]);
    // A process that is read from a file takes longer.
    let late = restores.take(1).expect("it was begun");
    restores.begin(1, late.reading(3 * SLOW_DISK));
    assert_eq!(restores.overdue(), []);
}
