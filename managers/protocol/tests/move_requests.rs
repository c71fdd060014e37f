//! Requests for moves: which come first, and what becomes of them when central is started
//! again.

mod central_steps;
mod moving_ranks;

use central_steps::{at, computing, instance, step};
use moving_ranks::{
    carry_out, load, move_number, moves, on_message, ordered, recorded, records, running_on,
    three_hosts,
};
use rejoin_channel_table::{Epoch, Generation, ImageId, Incarnation, Rank};
use rejoin_managers_protocol::central::{
    Central, CentralEffect, CentralInput, Event, HostIndex, Job, Leases, MoveRequest, Movers,
    Record,
};
use rejoin_managers_protocol::host_health::HostHealth;
use rejoin_managers_protocol::lease::Terms;
use rejoin_managers_protocol::manager_messages::{
    Cause, End, FileMessage, HostMessage, ImageMessage, MoveMessage, ProcessInstance,
    ProcessMessage, RankMoveOrder, RankReport, Report, Stage, Time, ToCentral, ToLocal,
};
use rejoin_wire::ImageCost;

const MANY: u64 = 1 << 30;

fn request(id: u64, movers: Movers, to: Option<HostIndex>) -> CentralInput {
    CentralInput::Move(MoveRequest { id, movers, to })
}

fn ranks(id: u64, ranks: &[u32], to: Option<HostIndex>) -> CentralInput {
    let ranks = ranks.iter().copied().map(Rank).collect();
    request(id, Movers::Ranks(ranks), to)
}

/// The ends of requests: number, ranks that have moved, and whether all have.
fn over(effects: &[CentralEffect]) -> Vec<(u64, Vec<u32>, bool)> {
    let over = effects.iter().filter_map(|effect| match effect {
        CentralEffect::Event(Event::MovesOver {
            request,
            moved,
            why,
        }) => Some((
            *request,
            moved.iter().map(|rank| rank.0).collect(),
            why.is_none(),
        )),
        _ => None,
    });
    over.collect()
}

/// What a host reports of its ranks, with their incarnations.
fn report(ranks: &[(u32, u32)]) -> ToCentral {
    let of_rank = |(rank, incarnation): &(u32, u32)| RankReport {
        incarnation: Incarnation(*incarnation),
        images: vec![Epoch(1)],
        ..computing(*rank)
    };
    ToCentral::Report(Box::new(Report {
        generation: Some(Generation(0)),
        signalled: None,
        lacks_table: false,
        ranks: ranks.iter().map(of_rank).collect(),
        loads: Vec::new(),
        exits: Vec::new(),
    }))
}

/// Another central manager takes the job up, and its hosts have these ranks.
fn take_up(job: Job, stored: Vec<Record>, hosts: &[&[(u32, u32)]]) -> Central {
    let mut central = Central::resume(job, stored);
    step(&mut central, at(2), CentralInput::Begin);
    for (host, ranks) in hosts.iter().enumerate() {
        on_message(&mut central, host, report(ranks));
    }
    central
}

/// The checkpoint that is requested comes to be.
fn commit(
    central: &mut Central,
    epoch: u32,
    hosts: &[(HostIndex, u32, u32)],
) -> Vec<CentralEffect> {
    let mut effects = Vec::new();
    for (host, rank, incarnation) in hosts {
        let imaged = ToCentral::Image(ImageMessage::Taken {
            instance: ProcessInstance {
                incarnation: Incarnation(*incarnation),
                ..instance(*rank, 0)
            },
            image: ImageId::Checkpoint(Epoch(epoch)),
            cost: ImageCost::default(),
        });
        effects.extend(on_message(central, *host, imaged));
    }
    effects
}

fn requested(effects: &[CentralEffect]) -> Option<u32> {
    effects.iter().find_map(|effect| match effect {
        CentralEffect::Event(Event::Requested(epoch)) => Some(epoch.0),
        _ => None,
    })
}

#[test]
fn an_exchange_that_is_asked_for_again_after_its_end_does_not_exchange_the_ranks_back() {
    let (mut central, mut stored) = recorded(three_hosts());
    let exchange = || request(5, Movers::Exchange(Rank(0), Rank(1)), None);
    let mut effects = step(&mut central, at(1), exchange());
    assert_eq!(moves(&effects), [(Rank(0), 1), (Rank(1), 0)]);
    effects.extend(carry_out(&mut central, (0, move_number(1, 1)), (0, 1), 1));
    effects.extend(carry_out(&mut central, (1, move_number(1, 1)), (1, 0), 1));
    assert_eq!(over(&effects), [(5, vec![0, 1], true)]);
    stored.extend(records(&effects));
    // The client did not hear of that.
    let hosts: [&[(u32, u32)]; 3] = [&[(1, 1)], &[(0, 1)], &[]];
    let mut central = take_up(three_hosts(), stored, &hosts);
    let effects = step(&mut central, at(3), exchange());
    assert_eq!(moves(&effects), []);
    assert_eq!(over(&effects), [(5, vec![0, 1], true)]);
    // Another request for the same is another one.
    let again = request(6, Movers::Exchange(Rank(0), Rank(1)), None);
    let effects = step(&mut central, at(4), again);
    assert_eq!(moves(&effects), [(Rank(0), 0), (Rank(1), 1)]);
}

#[test]
fn of_ranks_without_a_host_only_those_move_that_have_not_when_central_died() {
    let (mut central, mut stored) = recorded(three_hosts());
    let mut effects = step(&mut central, at(1), ranks(5, &[0, 1], None));
    assert_eq!(moves(&effects), [(Rank(0), 2), (Rank(1), 0)]);
    effects.extend(carry_out(&mut central, (0, move_number(1, 1)), (0, 2), 1));
    assert_eq!(over(&effects), []);
    stored.extend(records(&effects));
    let hosts: [&[(u32, u32)]; 3] = [&[], &[(1, 0)], &[(0, 1)]];
    let mut central = take_up(three_hosts(), stored, &hosts);
    let effects = step(&mut central, at(3), ranks(5, &[0, 1], None));
    assert_eq!(moves(&effects), [(Rank(1), 0)]);
    let effects = carry_out(&mut central, (1, move_number(1, 3)), (1, 0), 2);
    assert_eq!(over(&effects), [(5, vec![0, 1], true)]);
}

#[test]
fn the_ranks_of_a_host_that_is_about_to_end_move_before_others() {
    let mut central = running_on(three_hosts());
    let effects = step(&mut central, at(1), ranks(5, &[0], Some(2)));
    assert_eq!(ordered(&effects), [(0, move_number(1, 1), false)]);
    step(&mut central, at(1), ranks(6, &[0], Some(1)));
    let effects = on_message(&mut central, 1, ToCentral::Host(HostMessage::Ends));
    assert!(matches!(moves(&effects)[..], [(Rank(1), _)]), "{effects:?}");
    let to = moves(&effects)[0].1;
    assert_eq!(over(&effects), [], "the first request waits again");
    let effects = carry_out(&mut central, (1, move_number(1, 2)), (1, to), 1);
    assert_eq!(moves(&effects), [(Rank(0), 2)]);
    let effects = carry_out(&mut central, (0, move_number(1, 4)), (0, 2), 2);
    assert_eq!(over(&effects)[0], (5, vec![0], true));
    // No rank moves to the host that ends.
    assert_eq!(over(&effects)[1..], [(6, vec![], false)]);
}

#[test]
fn a_rank_that_has_stopped_moves_before_a_host_that_is_about_to_end_has_its_turn() {
    let mut central = running_on(three_hosts());
    step(&mut central, at(1), ranks(5, &[0], Some(2)));
    load(&mut central, (0, move_number(1, 1)), (0, 2), 0);
    let effects = on_message(&mut central, 1, ToCentral::Host(HostMessage::Ends));
    assert_eq!(moves(&effects), []);
    let stored = ToCentral::File(FileMessage::Stored {
        rank: Rank(0),
        image: ImageId::Move(move_number(1, 2)),
    });
    on_message(&mut central, 0, stored);
    let mut arrived = instance(0, 0);
    arrived.incarnation = Incarnation(1);
    let effects = on_message(&mut central, 2, moving_ranks::registered(arrived));
    assert_eq!(over(&effects), [(5, vec![0], true)]);
    assert_eq!(moves(&effects).len(), 1, "{effects:?}");
}

#[test]
fn ranks_do_not_move_to_a_host_that_they_are_to_leave() {
    let mut central = running_on(three_hosts());
    step(&mut central, at(1), ranks(5, &[0], Some(1)));
    let broken = |why: &str| ToCentral::Host(HostMessage::Health(HostHealth::Leave(why.into())));
    let effects = on_message(&mut central, 1, broken("hot"));
    let stay = ToLocal::Move(RankMoveOrder::Stay {
        instance: instance(0, 0),
        number: move_number(1, 1),
    });
    assert!(effects.contains(&CentralEffect::Send(0, stay)));
    assert_eq!(over(&effects), [(5, vec![], false)]);
}

#[test]
fn each_copy_of_ranks_that_move_together_has_a_number_that_is_stored_first() {
    let mut central = running_on(Job {
        placement: vec![0, 0],
        ..three_hosts()
    });
    let effects = step(&mut central, at(1), ranks(5, &[0, 1], Some(2)));
    assert_eq!(
        ordered(&effects),
        [(0, move_number(1, 1), false), (1, move_number(1, 1), false)]
    );
    let effects = load(&mut central, (0, move_number(1, 1)), (0, 2), MANY);
    assert_eq!(ordered(&effects), [(0, move_number(1, 2), false)]);
    let effects = load(&mut central, (1, move_number(1, 1)), (0, 2), MANY);
    let number = move_number(1, 3);
    assert_eq!(ordered(&effects), [(1, number, false)]);
    let stored: Vec<Record> = records(&effects);
    assert_eq!(stored, [Record::MoveNumbered(number)]);
    let effects = load(&mut central, (1, number), (0, 2), 1);
    assert_eq!(ordered(&effects), [(1, move_number(1, 4), true)]);
}

/// The host's own wish for its ranks is the one under way.
fn drains(effects: &[CentralEffect], host: HostIndex) -> bool {
    let from = effects.iter().filter_map(|effect| match effect {
        CentralEffect::Persist(Record::Moving { moves, .. }) => Some(moves),
        _ => None,
    });
    let mut all = from.flatten();
    all.any(|one| one.from == host)
}

#[test]
fn a_host_with_a_deadline_does_not_wait_for_a_client_whose_rank_leaves_it_too() {
    let mut central = running_on(Job {
        placement: vec![1, 1],
        ..three_hosts()
    });
    let effects = step(&mut central, at(1), ranks(5, &[0], Some(2)));
    assert_eq!(ordered(&effects), [(0, move_number(1, 1), false)]);
    let effects = on_message(&mut central, 1, ToCentral::Host(HostMessage::Ends));
    assert_eq!(moves(&effects).len(), 2, "{effects:?}");
    assert!(drains(&effects, 1));
    assert_eq!(
        on_message(&mut central, 1, ToCentral::Host(HostMessage::Ends)),
        [],
        "once"
    );
}

#[test]
fn the_other_rank_of_an_exchange_does_not_go_to_a_host_that_ends() {
    let mut central = running_on(three_hosts());
    step(
        &mut central,
        at(1),
        request(5, Movers::Exchange(Rank(0), Rank(1)), None),
    );
    load(&mut central, (1, move_number(1, 1)), (1, 0), 0);
    // Rank 1 has stopped.
    let effects = on_message(&mut central, 1, ToCentral::Host(HostMessage::Ends));
    let stay = ToLocal::Move(RankMoveOrder::Stay {
        instance: instance(0, 0),
        number: move_number(1, 1),
    });
    assert!(
        effects.contains(&CentralEffect::Send(0, stay)),
        "{effects:?}"
    );
}

#[test]
fn a_host_that_ends_waits_for_one_that_is_silent() {
    let mut central = running_on(Job {
        hosts: vec!["a".into(), "b".into()],
        slots: vec![2, 2],
        ..with_lease(0)
    });
    let silent = until_silent(&mut central, 0);
    let ends = || CentralInput::Local(1, ToCentral::Host(HostMessage::Ends));
    let effects = step(&mut central, silent, ends());
    let gives_up = CentralEffect::Send(1, ToLocal::CanNotLeave);
    assert!(!effects.contains(&gives_up), "{effects:?}");
    assert_eq!(moves(&effects), []);
    let heard = CentralInput::Local(0, ToCentral::Host(HostMessage::Renew { number: 2 }));
    step(&mut central, silent, heard);
    assert_eq!(moves(&step(&mut central, silent, ends())), [(Rank(1), 0)]);
}

#[test]
fn others_do_not_give_way_to_a_host_whose_ranks_can_not_move() {
    let mut central = running_on(three_hosts());
    let finalizing = ToCentral::Process(ProcessMessage::Finalizing {
        instance: instance(1, 0),
    });
    on_message(&mut central, 1, finalizing);
    let effects = step(&mut central, at(1), ranks(5, &[0], Some(2)));
    assert_eq!(ordered(&effects), [(0, move_number(1, 1), false)]);
    let effects = on_message(&mut central, 1, ToCentral::Host(HostMessage::Ends));
    let stays = |effect: &CentralEffect| {
        matches!(
            effect,
            CentralEffect::Send(_, ToLocal::Move(RankMoveOrder::Stay { .. }))
        )
    };
    assert!(!effects.iter().any(stays), "{effects:?}");
}

#[test]
fn a_stop_takes_its_checkpoint_though_a_request_has_waited() {
    let mut central = running_on(three_hosts());
    // A request that waits for a checkpoint puts the next one off.
    step(&mut central, at(1), CentralInput::Checkpoint);
    step(&mut central, at(1), ranks(5, &[0], Some(2)));
    let effects = step(&mut central, at(1), CentralInput::Stop(None));
    assert_eq!(over(&effects), [(5, vec![], false)]);
    let effects = commit(&mut central, 2, &[(0, 0, 0), (1, 1, 0)]);
    let again = requested(&effects).is_some();
    let effects = step(&mut central, at(2), CentralInput::Tick);
    let stops = effects
        .iter()
        .any(|e| matches!(e, CentralEffect::Persist(Record::Decided(_))));
    assert!(
        again || requested(&effects).is_some() || stops,
        "{effects:?}"
    );
}

#[test]
fn ranks_leave_finalize_also_if_a_signal_has_ended_the_last_move() {
    let mut central = running_on(three_hosts());
    step(&mut central, at(1), ranks(5, &[0], Some(2)));
    for rank in [0, 1] {
        let finalizing = ToCentral::Process(ProcessMessage::Finalizing {
            instance: instance(rank, 0),
        });
        let effects = on_message(&mut central, rank as usize, finalizing);
        assert_eq!(requested(&effects), None, "a rank is on its way");
    }
    const USR1: i32 = 10;
    let effects = step(&mut central, at(1), CentralInput::Signal(USR1));
    assert_eq!(over(&effects), [(5, vec![], false)]);
    assert!(
        requested(&effects).is_some(),
        "the last checkpoint: {effects:?}"
    );
}

#[test]
fn ranks_go_to_another_host_if_the_one_that_was_chosen_for_them_is_lost() {
    let mut central = running_on(three_hosts());
    let effects = step(&mut central, at(1), request(5, Movers::Drain(1), None));
    assert_eq!(moves(&effects), [(Rank(1), 2)]);
    let lost = |host| CentralInput::HostEnded(host, "no route".into());
    let effects = step(&mut central, at(1), lost(2));
    assert_eq!(moves(&effects), [(Rank(1), 0)]);
    let effects = carry_out(&mut central, (1, move_number(1, 2)), (1, 0), 2);
    assert_eq!(over(&effects), [(5, vec![1], true)]);
    // The user has chosen this one.
    let mut central = running_on(three_hosts());
    step(&mut central, at(1), ranks(5, &[1], Some(2)));
    let effects = step(&mut central, at(1), lost(2));
    assert_eq!(over(&effects), [(5, vec![], false)]);
}

#[test]
fn who_has_moved_is_said_also_if_the_rest_can_not() {
    let (mut central, mut stored) = recorded(three_hosts());
    let mut effects = step(&mut central, at(1), ranks(5, &[0, 1], None));
    effects.extend(carry_out(&mut central, (0, move_number(1, 1)), (0, 2), 1));
    stored.extend(records(&effects));
    let hosts: [&[(u32, u32)]; 3] = [&[], &[(1, 0)], &[(0, 1)]];
    let mut central = take_up(three_hosts(), stored, &hosts);
    let finalizing = ToCentral::Process(ProcessMessage::Finalizing {
        instance: instance(1, 0),
    });
    on_message(&mut central, 1, finalizing);
    let effects = step(&mut central, at(3), ranks(5, &[0, 1], None));
    assert_eq!(over(&effects), [(5, vec![0], false)]);
}

#[test]
fn the_next_central_manager_knows_hosts_of_earlier_requests_and_their_incarnations() {
    let (mut central, mut stored) = recorded(three_hosts());
    let mut effects = step(&mut central, at(1), ranks(5, &[0], Some(2)));
    let refused = ToCentral::Image(ImageMessage::NotTaken {
        instance: instance(0, 0),
        image: ImageId::Move(move_number(1, 1)),
        why: "no".into(),
        outlives: false,
    });
    effects.extend(on_message(&mut central, 0, refused));
    effects.extend(step(&mut central, at(1), ranks(6, &[1], Some(0))));
    stored.extend(records(&effects));
    let latest = stored
        .iter()
        .rposition(|one| matches!(one, Record::Moving { .. }));
    let latest = latest.expect("a record");
    // Of this kind, only the last one counts.
    let mut at_record = 0..stored.len();
    stored.retain(|one| {
        let is_last = at_record.next() == Some(latest);
        is_last || !matches!(one, Record::Moving { .. })
    });
    let mut central = Central::resume(three_hosts(), stored);
    let effects = step(&mut central, at(2), CentralInput::Begin);
    let asks = |host| effects.contains(&CentralEffect::Send(host, ToLocal::Report));
    assert!(asks(0) && asks(1) && asks(2), "{effects:?}");
    on_message(&mut central, 0, report(&[(0, 0)]));
    on_message(&mut central, 1, report(&[(1, 0)]));
    on_message(&mut central, 2, report(&[]));
    let effects = step(&mut central, at(3), ranks(7, &[0], Some(2)));
    let incarnation = effects.iter().find_map(|effect| match effect {
        CentralEffect::Persist(Record::Moving { moves, .. }) => Some(moves[0].incarnation),
        _ => None,
    });
    assert_eq!(incarnation, Some(Incarnation(2)));
}

#[test]
fn a_rank_that_fails_with_another_is_named_also_if_it_was_to_move() {
    let mut central = running_on(three_hosts());
    let effects = step(&mut central, at(1), ranks(5, &[1], Some(2)));
    let refused = ToCentral::Image(ImageMessage::NotTaken {
        instance: instance(1, 0),
        image: ImageId::Move(ordered(&effects)[0].1),
        why: "no".into(),
        outlives: false,
    });
    on_message(&mut central, 1, refused);
    let killed = |rank| {
        ToCentral::Process(ProcessMessage::Failed {
            instance: instance(rank, 0),
            pid: 10 + rank,
            cause: Cause::Ended {
                end: End::Signaled(9),
                stage: Stage::Registered,
            },
        })
    };
    let lost = |effects: &[CentralEffect]| {
        let lost = effects.iter().filter_map(|effect| match effect {
            CentralEffect::Event(Event::Lost { rank, .. }) => Some(rank.0),
            _ => None,
        });
        lost.collect::<Vec<_>>()
    };
    let effects = on_message(&mut central, 0, killed(0));
    assert_eq!(lost(&effects), [0]);
    let effects = on_message(&mut central, 1, killed(1));
    assert_eq!(lost(&effects), [1]);
}

/// Three hosts, of which one has a lease.
fn with_lease(host: HostIndex) -> Job {
    Job {
        leases: Some(Leases {
            hosts: vec![host],
            terms: Terms::new(1000, 60_000),
        }),
        ..three_hosts()
    }
}

/// The host renews its lease, which then runs out. Returns when.
fn until_silent(central: &mut Central, host: HostIndex) -> Time {
    on_message(
        central,
        host,
        ToCentral::Host(HostMessage::Renew { number: 1 }),
    );
    loop {
        let due = central.deadline().expect("a lease runs out");
        let effects = step(central, due, CentralInput::Tick);
        let is_silent =
            |e: &CentralEffect| matches!(e, CentralEffect::Event(Event::HostSilent { .. }));
        if effects.iter().any(is_silent) {
            return due;
        }
    }
}

#[test]
fn no_rank_moves_to_a_silent_host() {
    let mut central = running_on(with_lease(1));
    let silent = until_silent(&mut central, 1);
    let effects = step(&mut central, silent, ranks(5, &[0], Some(1)));
    assert_eq!(over(&effects), [(5, vec![], false)]);
    // It would lose its ranks.
    let balance = request(6, Movers::Balance, None);
    assert_eq!(
        over(&step(&mut central, silent, balance)),
        [(6, vec![], false)]
    );
    let effects = step(&mut central, silent, ranks(7, &[0], None));
    assert_eq!(moves(&effects), [(Rank(0), 2)]);
}

/// Copies ahead take so long that a checkpoint is requested between them.
#[test]
fn a_rank_takes_no_image_of_a_move_while_a_checkpoint_is_under_way() {
    let mut central = running_on(three_hosts());
    let begun = step(&mut central, at(1), ranks(5, &[1], Some(2)));
    let number = ordered(&begun)[0].1;
    let stored = ToCentral::File(FileMessage::Stored {
        rank: Rank(1),
        image: ImageId::Move(number),
    });
    on_message(&mut central, 1, stored);
    let asked = step(&mut central, at(900_000), CentralInput::Checkpoint);
    assert_eq!(requested(&asked), Some(2));
    let loaded = ToCentral::Move(MoveMessage::Loaded {
        rank: Rank(1),
        number,
        bytes: MANY,
    });
    let effects = on_message(&mut central, 2, loaded);
    assert_eq!(ordered(&effects), []);
    let effects = commit(&mut central, 2, &[(0, 0, 0), (1, 1, 0)]);
    let next: Vec<u32> = ordered(&effects).iter().map(|order| order.0).collect();
    assert_eq!(next, [1], "{effects:?}");
}
