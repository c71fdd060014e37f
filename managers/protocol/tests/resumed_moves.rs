//! Ranks that were about to move when the central manager died.

mod central_steps;
mod local_steps;

use central_steps::{RANKS, at, computing, job, report, said, step};
use local_steps::steps;
use rejoin_channel_table::{
    BusinessCard, Epoch, Generation, ImageId, Incarnation, MoveNumber, Rank,
};
use rejoin_managers_protocol::central::{Central, CentralEffect, CentralInput, Record};
use rejoin_managers_protocol::levels::CommittedEpochs;
use rejoin_managers_protocol::local::{Local, LocalEffect, LocalInput};
use rejoin_managers_protocol::manager_messages::{
    ImageOrder, MovedRank, ProcessInstance, RankMoveOrder, RankReport, Report, ToCentral, ToLocal,
};
use std::sync::Arc;

/// The number of an image that a rank took for a move just before this checkpoint.
fn move_number(before: u32) -> MoveNumber {
    MoveNumber::next(None, Epoch(before - 1))
}

fn image(before: u32) -> ImageId {
    ImageId::Move(move_number(before))
}

/// A central manager of a job that runs, which has asked its host for a report.
fn resumed() -> Central {
    let (generation, none) = (Generation(0), Incarnation(0));
    let records = vec![
        Record::Began {
            generation,
            incarnations: vec![none; RANKS as usize],
            at: at(0),
        },
        Record::Started {
            generation,
            table: vec![(none, Arc::new(BusinessCard::default())); RANKS as usize],
        },
    ];
    let mut central = Central::resume(job(), records);
    step(&mut central, at(1), CentralInput::Begin);
    central
}

/// The rank waits at its image of a move that the journal does not name any more: the order to stay
/// was lost with the last central manager.
#[test]
fn a_rank_that_a_lost_order_leaves_at_its_image_continues_under_the_next_central_manager() {
    let mut central = resumed();
    let report = report(|rank| RankReport {
        moves: (rank == 1).then_some(move_number(6)),
        ..computing(rank)
    });
    let report = said(ToCentral::Report(Box::new(report)));
    let effects = step(&mut central, at(2), report);
    let stays = effects.iter().filter_map(|effect| match effect {
        CentralEffect::Send(0, ToLocal::Move(RankMoveOrder::Stay { instance, number })) => {
            Some((instance.rank, *number))
        }
        _ => None,
    });
    assert_eq!(stays.collect::<Vec<_>>(), [(Rank(1), move_number(6))]);
}

/// The order to drop what was loaded was lost with the last central manager, and the journal does
/// not name the move.
#[test]
fn what_a_host_has_loaded_of_a_rank_that_does_not_come_is_dropped_under_the_next_central_manager() {
    let mut local = Local::new();
    let load = ToLocal::Move(RankMoveOrder::Load {
        generation: Generation(0),
        rank: Rank(7),
        number: move_number(6),
        holder: None,
    });
    steps(&mut local, vec![LocalInput::Central(load)]);
    let loads = |local: &mut Local| {
        let effects = steps(local, vec![LocalInput::Central(ToLocal::Report)]);
        match &effects[..] {
            [LocalEffect::Central(ToCentral::Report(report))] => report.loads.clone(),
            _ => panic!("{effects:?}"),
        }
    };
    let loaded = loads(&mut local);
    assert_eq!(loaded, [Rank(7)]);
    let mut central = resumed();
    let report = Report {
        loads: loaded,
        ..report(computing)
    };
    let report = said(ToCentral::Report(Box::new(report)));
    let effects = step(&mut central, at(2), report);
    let unload = ToLocal::Move(RankMoveOrder::Unload { rank: Rank(7) });
    assert!(effects.contains(&CentralEffect::Send(0, unload.clone())));
    let effects = steps(&mut local, vec![LocalInput::Central(unload)]);
    assert_eq!(effects, [LocalEffect::Unload(Rank(7))]);
    assert_eq!(loads(&mut local), []);
}

/// Two ranks move here while a process of a third one is on its way out: each comes with its own
/// image.
#[test]
fn ranks_that_come_together_come_with_their_own_images() {
    let mut local = Local::new();
    let instance = |rank, incarnation| ProcessInstance {
        generation: Generation(0),
        rank: Rank(rank),
        incarnation: Incarnation(incarnation),
    };
    let restore = |rank, number| ToLocal::Restore {
        generation: Generation(0),
        regions: None,
        from: Some(image(number)),
        ranks: vec![(Rank(rank), Incarnation(1))],
        moved: vec![MovedRank {
            rank: Rank(rank),
            holder: None,
            others: Vec::new(),
        }],
    };
    let begin = ToLocal::Spawn {
        generation: Generation(0),
        regions: None,
        ranks: vec![(Rank(3), Incarnation(0))],
        from: None,
        moved: Vec::new(),
    };
    let vacate = ToLocal::Move(RankMoveOrder::Vacate {
        instance: instance(3, 0),
    });
    let orders = [begin, vacate, restore(7, 6), restore(8, 5)];
    let mut inputs: Vec<LocalInput> = orders.into_iter().map(LocalInput::Central).collect();
    inputs.insert(1, LocalInput::Spawned(Rank(3), Incarnation(0), 9));
    let effects = steps(&mut local, inputs);
    let begins = |effect: &LocalEffect| matches!(effect, LocalEffect::Restore(..));
    assert!(!effects.iter().any(begins), "{effects:?}");
    let effects = steps(
        &mut local,
        vec![LocalInput::Retired(Rank(3), Incarnation(0))],
    );
    for (rank, number) in [(7, 6), (8, 5)] {
        let comes = LocalEffect::Restore(instance(rank, 1), image(number));
        assert!(effects.contains(&comes), "{effects:?}");
    }
}

/// A rank was to move to this host, and its process there is on its way out when the next central
/// manager has it moved here again.
#[test]
fn the_image_of_a_move_is_dropped_also_if_the_process_of_an_earlier_move_is_still_there() {
    let mut local = Local::new();
    let instance = |incarnation| ProcessInstance {
        generation: Generation(0),
        rank: Rank(7),
        incarnation: Incarnation(incarnation),
    };
    let restore = |number, incarnation| ToLocal::Restore {
        generation: Generation(0),
        regions: None,
        from: Some(image(number)),
        ranks: vec![(Rank(7), Incarnation(incarnation))],
        moved: vec![MovedRank {
            rank: Rank(7),
            holder: None,
            others: Vec::new(),
        }],
    };
    let begin = ToLocal::Spawn {
        generation: Generation(0),
        regions: None,
        ranks: Vec::new(),
        from: None,
        moved: Vec::new(),
    };
    let commit = |abandoned| {
        ToLocal::Image(ImageOrder::Commit {
            generation: Generation(0),
            epochs: CommittedEpochs::default(),
            abandoned: Epoch(abandoned),
        })
    };
    let vacate = ToLocal::Move(RankMoveOrder::Vacate {
        instance: instance(1),
    });
    let orders = [begin, restore(6, 1), vacate, commit(6), restore(8, 2)];
    let orders = orders.into_iter().map(LocalInput::Central).collect();
    let effects = steps(&mut local, orders);
    assert!(effects.contains(&LocalEffect::DropImage(Rank(7), image(6))));
    let retired = |incarnation| LocalInput::Retired(Rank(7), Incarnation(incarnation));
    let inputs = vec![retired(1), LocalInput::Spawned(Rank(7), Incarnation(2), 10)];
    let effects = steps(&mut local, inputs);
    assert!(effects.contains(&LocalEffect::Restore(instance(2), image(8))));
    let effects = steps(&mut local, vec![LocalInput::Central(commit(9))]);
    assert_eq!(effects, [LocalEffect::DropImage(Rank(7), image(8))]);
    let vacate = LocalInput::Central(ToLocal::Move(RankMoveOrder::Vacate {
        instance: instance(2),
    }));
    let effects = steps(&mut local, vec![vacate.clone(), retired(2)]);
    let drops = |effect: &LocalEffect| matches!(effect, LocalEffect::DropImage(..));
    assert!(!effects.iter().any(drops), "{effects:?}");
    // A move that is given up leaves nothing until the next checkpoint.
    let begins = steps(&mut local, vec![LocalInput::Central(restore(10, 3))]);
    assert!(begins.contains(&LocalEffect::Restore(instance(3), image(10))));
    let vacate = LocalInput::Central(ToLocal::Move(RankMoveOrder::Vacate {
        instance: instance(3),
    }));
    let effects = steps(&mut local, vec![vacate]);
    assert!(!effects.iter().any(drops), "its process is being made");
    let effects = steps(&mut local, vec![retired(3)]);
    assert!(effects.contains(&LocalEffect::DropImage(Rank(7), image(10))));
}
