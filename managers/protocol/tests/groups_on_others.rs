//! Recovery groups that lose a host: those with ranks there return on others, and the rest stand.

mod central_steps;
mod moving_ranks;
mod returning_ranks;

use central_steps::{at, step};
use moving_ranks::{imaged, on_message, records, registered};
use rejoin_channel_table::{Epoch, ImageId, Incarnation, Rank};
use rejoin_managers_protocol::central::{
    Central, CentralEffect, CentralInput, HostIndex, Job, Record, ReturnScope,
};
use rejoin_managers_protocol::manager_messages::{
    ImageMessage, ImageOrder, ProcessMessage, RankMoveOrder, ToCentral, ToLocal,
};
use returning_ranks::{
    FENCE, SPARE, continues, ends, groups, moved, orders, process, running_on, why,
};

fn running() -> Central {
    running_on(groups())
}

/// The hosts that learn that the image of this checkpoint counts for rank 1.
fn told_of_commit(effects: &[CentralEffect], epoch: u32) -> Vec<HostIndex> {
    let told = effects.iter().filter_map(|effect| match effect {
        CentralEffect::Send(
            host,
            ToLocal::Image(ImageOrder::CommitGroup {
                ranks, epoch: of, ..
            }),
        ) if ranks.contains(&Rank(1)) && *of == Epoch(epoch) => Some(*host),
        _ => None,
    });
    told.collect()
}

#[test]
fn a_group_returns_on_another_host_when_no_lease_of_the_lost_one_can_last() {
    let mut central = running();
    step(&mut central, at(100), CentralInput::HostGone(1, why()));
    let decided = continues(&mut central, 101);
    let returns = records(&decided).into_iter();
    let returns = returns.filter_map(|record| match record {
        Record::Return(back) => Some((back.scope, back.ranks)),
        _ => None,
    });
    let group = (ReturnScope::Groups, vec![(Rank(1), Incarnation(1))]);
    assert_eq!(returns.collect::<Vec<_>>(), [group]);
    assert_eq!(orders(&decided), [], "its former process may act");
    let early = step(&mut central, at(FENCE - 1), CentralInput::Tick);
    assert_eq!(orders(&early), []);
    let due = step(&mut central, at(FENCE), CentralInput::Tick);
    assert_eq!(orders(&due), [(SPARE, 1, 1)]);
}

#[test]
fn a_group_returns_at_once_from_a_host_whose_processes_have_ended() {
    let mut central = running();
    step(&mut central, at(100), CentralInput::HostEnded(1, why()));
    let decided = continues(&mut central, 101);
    assert_eq!(orders(&decided), [(SPARE, 1, 1)]);
    assert_eq!(told_of_commit(&decided, 1), [SPARE]);
}

/// Of rank 1's files there may be one each: the next checkpoint is to be in files soon.
#[test]
fn a_checkpoint_follows_the_return_of_a_group_on_another_host() {
    let mut central = running();
    step(&mut central, at(100), CentralInput::HostEnded(1, why()));
    continues(&mut central, 101);
    let back = on_message(&mut central, SPARE, registered(process(1, 1)));
    assert_eq!(told_of_commit(&back, 1), [SPARE]);
    let due = central.deadline().expect("a checkpoint is due");
    let effects = step(&mut central, due, CentralInput::Tick);
    let next = CentralEffect::Persist(Record::Requested { epoch: Epoch(2) });
    assert!(effects.contains(&next), "{effects:?}");
    on_message(&mut central, 0, imaged(0, 2));
    let taken = ToCentral::Image(ImageMessage::Taken {
        instance: process(1, 1),
        image: ImageId::Checkpoint(Epoch(2)),
        cost: rejoin_wire::ImageCost::default(),
    });
    let effects = on_message(&mut central, SPARE, taken);
    let writes = |effect: &CentralEffect| match effect {
        CentralEffect::Send(_, ToLocal::Image(ImageOrder::Commit { epochs, .. }))
        | CentralEffect::SendAll(_, ToLocal::Image(ImageOrder::Commit { epochs, .. })) => {
            epochs.writing == Some(Epoch(2))
        }
        _ => false,
    };
    assert!(effects.iter().any(writes), "{effects:?}");
}

/// Rank 1 has moved to the spare host, and both that and its former host are lost.
#[test]
fn a_rank_that_has_returned_elsewhere_returns_there_again() {
    let mut central = moved(groups());
    step(&mut central, at(100), CentralInput::HostEnded(1, why()));
    step(&mut central, at(100), CentralInput::HostEnded(SPARE, why()));
    let decided = continues(&mut central, 101);
    assert_eq!(orders(&decided), [(0, 1, 2)]);
    on_message(&mut central, 0, registered(process(1, 2)));
    let again = ends(&mut central, 0, process(1, 2));
    assert_eq!(central.verdict(), None, "{again:?}");
    assert_eq!(orders(&again), [(0, 1, 3)]);
}

/// The host on which a rank was to return is lost when the order is due, and was not given yet.
#[test]
fn a_rank_whose_order_was_due_elsewhere_gets_one_order() {
    let mut central = running();
    step(&mut central, at(100), CentralInput::HostGone(1, why()));
    assert_eq!(orders(&continues(&mut central, 101)), []);
    let late = FENCE + 10;
    step(
        &mut central,
        at(late),
        CentralInput::HostEnded(SPARE, why()),
    );
    assert_eq!(orders(&continues(&mut central, late)), [(0, 1, 2)]);
    let tick = step(&mut central, at(late + 1), CentralInput::Tick);
    assert_eq!(orders(&tick), []);
}

/// The newer image was on the lost host only.
#[test]
fn a_group_that_returns_on_another_host_has_the_files_left_and_no_newer_image() {
    let mut central = running();
    step(&mut central, at(50), CentralInput::Checkpoint);
    for (host, rank) in [(0, 0), (1, 1)] {
        on_message(&mut central, host, imaged(rank, 2));
    }
    let committed = central.view().committed;
    assert_eq!(committed.map(|(epoch, _)| epoch), Some(Epoch(2)));
    step(&mut central, at(100), CentralInput::HostEnded(1, why()));
    let decided = continues(&mut central, 101);
    assert_eq!(orders(&decided), [(SPARE, 1, 1)]);
    let is_stored = |record: &Record| {
        matches!(record, Record::GroupCommitted { rank, epoch, .. }
            if (*rank, *epoch) == (Rank(1), Epoch(1)))
    };
    assert!(records(&decided).iter().any(is_stored), "{decided:?}");
    let images: Vec<Option<Epoch>> = central.ranks().map(|rank| rank.image).collect();
    assert_eq!(images, [Some(Epoch(2)), Some(Epoch(1))]);
    on_message(&mut central, SPARE, registered(process(1, 1)));
    let again = ends(&mut central, SPARE, process(1, 1));
    let from = again.iter().find_map(|effect| match effect {
        CentralEffect::Send(SPARE, ToLocal::Restore { from, .. }) => *from,
        _ => None,
    });
    assert_eq!(from, Some(ImageId::Checkpoint(Epoch(1))), "{again:?}");
}

#[test]
fn a_checkpoint_for_which_a_lost_host_had_an_image_is_void() {
    let mut central = running();
    step(&mut central, at(50), CentralInput::Checkpoint);
    on_message(&mut central, 1, imaged(1, 2));
    assert_eq!(central.view().pending, Some(Epoch(2)));
    step(&mut central, at(100), CentralInput::HostEnded(1, why()));
    continues(&mut central, 101);
    assert_eq!(central.view().pending, None);
    on_message(&mut central, 0, imaged(0, 2));
    let committed = central.view().committed;
    assert_eq!(committed.map(|(epoch, _)| epoch), Some(Epoch(1)));
    on_message(&mut central, SPARE, registered(process(1, 1)));
    let due = central.deadline().expect("a checkpoint is due");
    let effects = step(&mut central, due, CentralInput::Tick);
    let next = CentralEffect::Persist(Record::Requested { epoch: Epoch(3) });
    assert!(effects.contains(&next), "{effects:?}");
}

#[test]
fn a_rank_leaves_its_host_when_all_come_back_where_files_are_and_then_it_comes_there() {
    let mut central = moved(Job {
        log_groups: Vec::new(),
        ..groups()
    });
    step(&mut central, at(100), CentralInput::HostEnded(0, why()));
    let decided = continues(&mut central, 101);
    let vacates = decided.iter().filter_map(|effect| match effect {
        CentralEffect::Send(host, ToLocal::Move(RankMoveOrder::Vacate { instance })) => {
            Some((*host, *instance))
        }
        _ => None,
    });
    assert_eq!(vacates.collect::<Vec<_>>(), [(SPARE, process(1, 1))]);
    let ordered: Vec<u32> = orders(&decided).iter().map(|order| order.1).collect();
    assert!(!ordered.contains(&1), "{decided:?}");
    let instance = process(1, 1);
    let vacated = CentralInput::Local(
        SPARE,
        ToCentral::Process(ProcessMessage::Vacated { instance }),
    );
    let effects = step(&mut central, at(102), vacated);
    assert!(orders(&effects).contains(&(1, 1, 2)), "{effects:?}");
}
