//! The local manager's core step by step: ends, graces, stale news.

mod local_steps;

use local_steps::{
    CALLER, CHILD, I, R, at, ended, ends_by_order, failed, instance, left, lost, register,
    registered, said, spawn, spawned, steps,
};
use rejoin_channel_table::{
    BusinessCard, Epoch, Generation, ImageId, Incarnation, MoveNumber, Rank,
};
use rejoin_managers_protocol::lease::Terms;
use rejoin_managers_protocol::levels::CommittedEpochs;
use rejoin_managers_protocol::local::{CLOSED_GRACE, GRACE, Local, LocalEffect, LocalInput};
use rejoin_managers_protocol::manager_messages::{
    Cause, End, HostMessage, ImageMessage, ImageOrder, ProcessInstance, ProcessMessage,
    RankMoveOrder, Stage, Time, ToCentral, ToLocal,
};
use rejoin_wire::{
    FromManager, Holds, ImageCost, Limits, MOST_COUNTERS, ProcessMap, ToManager, VERSION,
};
use std::sync::Arc;

#[test]
fn a_plain_program_ends_as_it_ends() {
    let effects = steps(
        &mut spawned(),
        vec![
            LocalInput::Closed(R, I),
            LocalInput::ChildEnded(R, I, End::Exited(0)),
        ],
    );
    assert_eq!(effects, [ended(Stage::Spawned), LocalEffect::Sweep]);
    let mut core = spawned();
    let failure = LocalInput::ChildEnded(R, I, End::Exited(2));
    let told = failed(CHILD, End::Exited(2), Stage::Spawned);
    assert_eq!(steps(&mut core, vec![failure]), [told]);
    ends_by_order(&mut core);
}

#[test]
fn an_end_in_the_middle_is_a_failure_even_with_code_zero() {
    let effects = steps(
        &mut registered(CHILD),
        vec![LocalInput::ChildEnded(R, I, End::Exited(0))],
    );
    assert_eq!(effects[0], failed(CHILD, End::Exited(0), Stage::Registered));
    let effects = steps(
        &mut left(CHILD),
        vec![LocalInput::ChildEnded(R, I, End::Exited(0))],
    );
    assert_eq!(effects[0], ended(Stage::Left));
}

#[test]
fn a_process_that_begins_to_end_while_it_must_make_room_is_reported_as_what_it_was() {
    let mut core = Local::new();
    let spawn = spawn(vec![(R, I)]);
    let order = ToLocal::Restore {
        generation: Generation(1),
        regions: None,
        from: None,
        ranks: vec![(R, I.next())],
        moved: Vec::new(),
    };
    let until = vec![
        LocalInput::Central(spawn),
        LocalInput::Spawned(R, I, CHILD),
        said(CHILD, register()),
        LocalInput::Central(order),
    ];
    assert_eq!(
        steps(&mut core, until).last(),
        Some(&LocalEffect::Retire(R, I))
    );
    let (instance, pid) = (instance(), CHILD);
    let effects = steps(&mut core, vec![LocalInput::ExitDetected(R, I)]);
    let told = LocalEffect::Central(ToCentral::Process(ProcessMessage::ExitDetected {
        instance,
        pid,
    }));
    assert_eq!(effects, [told]);
    let effects = steps(
        &mut core,
        vec![LocalInput::ChildEnded(R, I, End::Signaled(9))],
    );
    let cause = Cause::Ended {
        end: End::Signaled(9),
        stage: Stage::Registered,
    };
    let told = LocalEffect::Central(ToCentral::Process(ProcessMessage::ExitStatus {
        instance,
        pid,
        cause,
    }));
    assert_eq!(effects, [told]);
}

#[test]
fn an_orphan_is_lost_when_it_says_so() {
    let mut core = registered(CHILD);
    let on = Rank(7);
    let effects = steps(&mut core, vec![said(CHILD, ToManager::Orphan { on })]);
    assert_eq!(effects, [lost(CHILD, Cause::Orphaned { on })]);
    let end = LocalInput::ChildEnded(R, I, End::Signaled(9));
    assert_eq!(steps(&mut core, vec![end]), []);
    ends_by_order(&mut core);
}

#[test]
fn a_closed_socket_is_followed_by_an_end_or_is_one() {
    let mut core = registered(CHILD);
    assert_eq!(steps(&mut core, vec![LocalInput::Closed(R, I)]), []);
    let immediate = steps(
        &mut core.clone(),
        vec![LocalInput::ChildEnded(R, I, End::Signaled(9))],
    );
    assert_eq!(
        immediate[0],
        failed(CHILD, End::Signaled(9), Stage::Registered)
    );
    let effects = at(
        &mut core,
        Time(0).plus_millis(CLOSED_GRACE),
        vec![LocalInput::Tick],
    );
    let LocalEffect::Central(ToCentral::Process(ProcessMessage::Failed {
        cause: Cause::Misbehaved { why },
        ..
    })) = &effects[0]
    else {
        panic!("{effects:?}");
    };
    assert!(why.contains("closed its socket"));
}

#[test]
fn the_end_is_polite_first_and_then_not() {
    let mut core = registered(CHILD);
    let end = ToLocal::End { why: "test".into() };
    let effects = steps(&mut core, vec![LocalInput::Central(end)]);
    let stop = FromManager::Stop { why: "test".into() };
    let expected = [
        LocalEffect::Ranks(vec![R], stop),
        LocalEffect::SignalAll(15),
        LocalEffect::SignalAll(18),
    ];
    assert_eq!(effects, expected);
    let now = Time(0).plus_millis(GRACE);
    assert_eq!(core.deadline(), Some(now));
    assert_eq!(
        at(&mut core, now, vec![LocalInput::Tick]),
        [LocalEffect::SignalAll(9)]
    );
    let effects = steps(
        &mut core,
        vec![
            LocalInput::ChildEnded(R, I, End::Signaled(9)),
            LocalInput::Swept,
        ],
    );
    let done = LocalEffect::Central(ToCentral::Host(HostMessage::Done));
    assert_eq!(
        effects[effects.len() - 2..],
        [LocalEffect::Sweep, done.clone()]
    );
    // Another central manager may not have received it.
    for order in [ToLocal::Report, ToLocal::Kill] {
        let effects = steps(&mut core, vec![LocalInput::Central(order)]);
        assert_eq!(effects, std::slice::from_ref(&done));
    }
    assert!(!core.is_over());
    let effects = steps(&mut core, vec![LocalInput::Central(ToLocal::Leave)]);
    assert_eq!(effects, [LocalEffect::Exit { keeps_files: false }]);
    assert!(core.is_over());
}

#[test]
fn without_central_everything_is_killed_and_nothing_said() {
    let mut core = registered(CHILD);
    let effects = steps(&mut core, vec![LocalInput::CentralLost]);
    assert_eq!(effects, [LocalEffect::SignalAll(9)]);
    let effects = steps(
        &mut core,
        vec![
            LocalInput::ChildEnded(R, I, End::Signaled(9)),
            LocalInput::Swept,
        ],
    );
    assert_eq!(
        effects,
        [LocalEffect::Sweep, LocalEffect::Exit { keeps_files: true }]
    );
}

#[test]
fn news_of_another_incarnation_or_generation_changes_nothing() {
    let mut core = registered(CHILD);
    let before = core.clone();
    let stale = Incarnation(7);
    let table = Vec::new();
    let effects = steps(
        &mut core,
        vec![
            LocalInput::ChildEnded(R, stale, End::Signaled(9)),
            LocalInput::FromRank(R, stale, CHILD, ToManager::Finalizing),
            LocalInput::Closed(Rank(9), I),
            LocalInput::Central(ToLocal::Start {
                generation: Generation(3),
                table,
                image: None,
            }),
            LocalInput::Central(ToLocal::AllFinalized {
                generation: Generation(3),
            }),
            LocalInput::Swept,
        ],
    );
    assert_eq!(effects, []);
    assert_eq!(core, before);
}

#[test]
fn a_rank_of_another_version_or_number_is_refused() {
    let with = |rank, version| {
        let message = ToManager::Register {
            rank,
            incarnation: I,
            pid: 1,
            card: BusinessCard::default(),
            version,
            limits: Limits::default(),
        };
        steps(&mut spawned(), vec![said(CHILD, message)]).remove(0)
    };
    for effect in [with(R, VERSION + 1), with(Rank(0), VERSION)] {
        let refused = matches!(
            &effect,
            LocalEffect::Central(ToCentral::Process(ProcessMessage::Failed {
                cause: Cause::Misbehaved { .. },
                ..
            }))
        );
        assert!(refused, "{effect:?}");
    }
}

#[test]
fn counters_come_between_all_finalized_and_leave_and_are_bounded() {
    let counters = |count: usize| ToManager::Counters {
        counters: vec![("a\nb".repeat(30), 7); count],
    };
    let mut core = registered(CHILD);
    let all = ToLocal::AllFinalized {
        generation: Generation(0),
    };
    let inputs = vec![said(CHILD, ToManager::Finalizing), LocalInput::Central(all)];
    steps(&mut core, inputs);
    let effects = steps(&mut core, vec![said(CHILD, counters(1000))]);
    let LocalEffect::Central(ToCentral::Process(ProcessMessage::Counters {
        counters: told, ..
    })) = &effects[0]
    else {
        panic!("{effects:?}");
    };
    assert_eq!(told.len(), MOST_COUNTERS);
    assert_eq!(told[0].1, 7);
    assert!(told[0].0.starts_with("a b") && told[0].0.chars().count() == 40);

    let effects = steps(&mut registered(CHILD), vec![said(CHILD, counters(1))]);
    let refused = matches!(
        &effects[0],
        LocalEffect::Central(ToCentral::Process(ProcessMessage::Failed { cause: Cause::Misbehaved { why }, .. }))
            if why == "it said Counters when it was Registered"
    );
    assert!(refused, "{effects:?}");
}

#[test]
fn what_a_program_says_stays_one_line() {
    let why = format!("a\nb\u{1b}[2J{}", "x".repeat(1000));
    let abort = ToManager::Abort { code: 1, why };
    let effects = steps(&mut registered(CHILD), vec![said(CHILD, abort)]);
    let LocalEffect::Central(ToCentral::Process(ProcessMessage::Failed {
        cause: Cause::Aborted { why, .. },
        ..
    })) = &effects[0]
    else {
        panic!("{effects:?}");
    };
    assert!(
        why.starts_with("a b [2Jx") && why.chars().count() == 400,
        "{why}"
    );
}

#[test]
fn a_checkpoint_asked_for_after_a_rollback_is_none_of_the_abandoned_ones() {
    let mut core = registered(CHILD);
    let commit = |epoch, abandoned| {
        LocalInput::Central(ToLocal::Image(ImageOrder::Commit {
            generation: Generation(0),
            epochs: in_memory(epoch),
            abandoned: Epoch(abandoned),
        }))
    };
    // Number 5 was under way when all rolled back to 4: the rank has never received it.
    steps(&mut core, vec![commit(4, 5)]);
    let ask = ToManager::Checkpoint { after: Epoch(4) };
    let asked = ToCentral::Image(ImageMessage::Wanted {
        instance: instance(),
        after: Epoch(5),
    });
    let effects = steps(&mut core, vec![said(CHILD, ask)]);
    assert_eq!(effects, [LocalEffect::Central(asked)]);
    let answer = FromManager::Committed {
        generation: Generation(0),
        epoch: Some(Epoch(6)),
        abandoned: Epoch(6),
    };
    let effects = steps(&mut core, vec![commit(6, 6)]);
    assert_eq!(effects, [LocalEffect::Ranks(vec![R], answer)]);
}

#[test]
fn a_job_that_begins_anew_before_its_host_has_a_lease_starts_the_newer_processes() {
    let mut core = Local::new();
    core.use_leases(Terms::new(1000, 3000), Time(0));
    let spawn = spawn(vec![(R, I)]);
    let anew = ToLocal::Restore {
        generation: Generation(1),
        regions: None,
        from: None,
        ranks: vec![(R, I.next())],
        moved: Vec::new(),
    };
    let orders = vec![LocalInput::Central(spawn), LocalInput::Central(anew)];
    let effects = steps(&mut core, orders);
    let spawned = |e: &LocalEffect| matches!(e, LocalEffect::Spawn(_));
    assert!(!effects.iter().any(spawned), "{effects:?}");
    let granted = ToLocal::Granted { number: 0 };
    let effects = steps(&mut core, vec![LocalInput::Central(granted)]);
    let newer = ProcessInstance {
        generation: Generation(1),
        rank: R,
        incarnation: I.next(),
    };
    assert_eq!(effects.last(), Some(&LocalEffect::Spawn(newer)));
}

/// As `setsid` does where it leads its process group: its parent ends at once.
#[test]
fn an_image_of_an_abandoned_epoch_that_comes_late_is_dropped() {
    let mut core = registered(CHILD);
    let commit = ToLocal::Image(ImageOrder::Commit {
        generation: Generation(0),
        epochs: in_memory(4),
        abandoned: Epoch(5),
    });
    let imaged = |epoch| {
        let message = ToManager::Imaged {
            generation: Generation(0),
            image: ImageId::Checkpoint(Epoch(epoch)),
            pid: 100,
            cost: ImageCost::default(),
            streams: [false; 2],
            caveats: Vec::new(),
            holds: Holds::default(),
        };
        said(CHILD, message)
    };
    let effects = steps(&mut core, vec![LocalInput::Central(commit), imaged(5)]);
    assert_eq!(
        effects,
        [LocalEffect::DropImage(R, ImageId::Checkpoint(Epoch(5)))]
    );
    let effects = steps(&mut core, vec![imaged(6)]);
    let told = matches!(
        effects[..],
        [LocalEffect::Central(ToCentral::Image(
            ImageMessage::Taken { .. }
        ))]
    );
    assert!(told, "{effects:?}");
}

#[test]
fn no_rank_starts_before_its_host_has_a_lease() {
    let mut core = Local::new();
    core.use_leases(Terms::new(1000, 3000), Time(0));
    let spawn = spawn(vec![(R, I)]);
    let effects = steps(&mut core, vec![LocalInput::Central(spawn)]);
    assert_eq!(
        effects,
        [LocalEffect::Central(ToCentral::Host(HostMessage::Renew {
            number: 0
        }))]
    );
    let granted = LocalInput::Central(ToLocal::Granted { number: 0 });
    let effects = steps(&mut core, vec![granted]);
    assert_eq!(
        effects,
        [
            LocalEffect::RunUntil(Time(0).plus_millis(1000)),
            LocalEffect::Spawn(instance())
        ]
    );
}

/// Each order of an earlier generation alone: nothing else refuses it.
/// A core whose rank has registered in the next generation.
fn registered_again() -> Local {
    let mut core = registered(CHILD);
    let next = I.next();
    let anew = ToLocal::Restore {
        generation: Generation(1),
        regions: None,
        from: None,
        ranks: vec![(R, next)],
        moved: Vec::new(),
    };
    let message = ToManager::Register {
        rank: R,
        incarnation: next,
        pid: 1,
        card: BusinessCard::default(),
        version: VERSION,
        limits: Limits::default(),
    };
    let inputs = vec![
        LocalInput::Central(anew),
        LocalInput::Retired(R, I),
        LocalInput::Spawned(R, next, CALLER),
        LocalInput::FromRank(R, next, CALLER, message),
    ];
    steps(&mut core, inputs);
    core
}

#[test]
fn orders_of_an_earlier_generation_change_nothing() {
    let (core, next) = (registered_again(), I.next());
    let generation = Generation(0);
    let table = vec![(next, Arc::new(BusinessCard::default())); 5];
    let process_map = ProcessMap::of(&table, |_| 0);
    let (epoch, image) = (Epoch(1), None);
    let earlier = [
        ToLocal::Start {
            generation,
            table,
            image,
        },
        ToLocal::Begin {
            generation,
            process_map,
            image,
        },
        ToLocal::Image(ImageOrder::Checkpoint { generation, epoch }),
        ToLocal::Image(ImageOrder::Commit {
            generation,
            epochs: in_memory(epoch.0),
            abandoned: epoch,
        }),
        ToLocal::Restore {
            generation,
            regions: None,
            from: None,
            ranks: vec![(R, next.next())],
            moved: Vec::new(),
        },
        ToLocal::Image(ImageOrder::CommitGroup {
            generation,
            ranks: vec![R],
            epoch,
            released: None,
        }),
        ToLocal::Move(RankMoveOrder::Load {
            generation,
            rank: Rank(7),
            number: MoveNumber::next(None, epoch),
            holder: None,
        }),
        ToLocal::AllFinalized { generation },
    ];
    for order in earlier {
        let mut after = core.clone();
        let effects = steps(&mut after, vec![LocalInput::Central(order.clone())]);
        assert_eq!(effects, [], "{order:?}");
        assert!(after == core, "{order:?}");
    }
}

/// The first exit may be the cause of the others, so a restarted central manager must know which
/// one it was.
#[test]
fn a_report_names_unacknowledged_exits_in_the_order_of_their_detection() {
    let first = R.0.checked_sub(1).map(Rank).unwrap();
    let ranks = [first, R];
    let mut core = Local::new();
    let spawn = spawn(ranks.map(|rank| (rank, I)).to_vec());
    steps(&mut core, vec![LocalInput::Central(spawn)]);
    for rank in ranks {
        let register = ToManager::Register {
            rank,
            incarnation: I,
            pid: CHILD,
            card: BusinessCard::default(),
            version: VERSION,
            limits: Limits::default(),
        };
        let there = LocalInput::Spawned(rank, I, CHILD);
        let said = LocalInput::FromRank(rank, I, CHILD, register);
        steps(&mut core, vec![there, said]);
    }
    let of = |rank, incarnation: Incarnation| ProcessInstance {
        generation: Generation(incarnation.0),
        rank,
        incarnation,
    };
    let exits = |core: &mut Local| -> Vec<(ProcessInstance, bool)> {
        let effects = steps(core, vec![LocalInput::Central(ToLocal::Report)]);
        let [LocalEffect::Central(ToCentral::Report(report))] = &effects[..] else {
            panic!("{effects:?}");
        };
        let known = |said| matches!(said, ProcessMessage::ExitStatus { .. });
        let exits = report.exits.iter();
        exits.map(|e| (e.instance(), known(e.message()))).collect()
    };

    // The higher rank exits first.
    let detected = |rank| LocalInput::ExitDetected(rank, I);
    steps(&mut core, vec![detected(R), detected(first)]);
    let both = [(of(R, I), false), (of(first, I), false)];
    assert_eq!(exits(&mut core), both);

    // Both have successors before any status is known, and one of the successors exits, too.
    let restore = ToLocal::Restore {
        generation: Generation(1),
        regions: None,
        from: None,
        ranks: ranks.map(|rank| (rank, I.next())).to_vec(),
        moved: Vec::new(),
    };
    let retired = ranks.map(|rank| LocalInput::Retired(rank, I));
    let orders = std::iter::once(LocalInput::Central(restore)).chain(retired);
    let effects = steps(&mut core, orders.collect());
    let again = ranks.map(|rank| LocalEffect::Spawn(of(rank, I.next())));
    assert_eq!(effects[effects.len() - 2..], again);
    let end = End::Signaled(9);
    let ended = |rank, incarnation| LocalInput::ChildEnded(rank, incarnation, end);
    steps(&mut core, vec![ended(first, I.next()), ended(R, I)]);
    let three = [
        (of(R, I), true),
        (of(first, I), false),
        (of(first, I.next()), false),
    ];
    assert_eq!(exits(&mut core), three);

    // Central acknowledges an exit of an instance by its name.
    let acknowledged = ToLocal::Acknowledged { instance: of(R, I) };
    steps(&mut core, vec![LocalInput::Central(acknowledged)]);
    assert_eq!(exits(&mut core), three[1..]);
}

#[test]
fn ranks_of_a_restarted_job_begin_from_their_images() {
    let mut core = Local::new();
    let order = ToLocal::Spawn {
        generation: Generation(3),
        regions: None,
        ranks: vec![(R, Incarnation(3))],
        from: Some(Epoch(7)),
        moved: Vec::new(),
    };
    let begun = ProcessInstance {
        generation: Generation(3),
        rank: R,
        incarnation: Incarnation(3),
    };
    let effects = steps(&mut core, vec![LocalInput::Central(order)]);
    assert_eq!(
        effects,
        [LocalEffect::Restore(begun, ImageId::Checkpoint(Epoch(7)))]
    );
    // One that is lost goes back to the same checkpoint.
    let there = LocalInput::Spawned(R, Incarnation(3), CHILD);
    let again = ToLocal::Restore {
        generation: Generation(4),
        regions: None,
        from: Some(ImageId::Checkpoint(Epoch(7))),
        ranks: vec![(R, Incarnation(4))],
        moved: Vec::new(),
    };
    let retired = LocalInput::Retired(R, Incarnation(3));
    let effects = steps(&mut core, vec![there, LocalInput::Central(again), retired]);
    let restored = |effect: &LocalEffect| match effect {
        LocalEffect::Restore(instance, image) => Some((instance.incarnation, *image)),
        _ => None,
    };
    let restored: Vec<_> = effects.iter().filter_map(restored).collect();
    assert_eq!(restored, [(Incarnation(4), ImageId::Checkpoint(Epoch(7)))]);
}

/// This checkpoint is committed in memory.
fn in_memory(epoch: u32) -> CommittedEpochs {
    CommittedEpochs {
        memory: Some(Epoch(epoch)),
        ..CommittedEpochs::default()
    }
}
