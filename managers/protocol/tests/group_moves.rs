//! Ranks of recovery groups that move, and come back alone before and after that.

mod central_steps;
mod moving_ranks;

use central_steps::{at, computing, instance, step};
use moving_ranks::{
    carry_out, move_number, moves, on_message, ordered, recorded, records, registered, three_hosts,
};
use rejoin_channel_table::{Epoch, Generation, ImageId, Incarnation, Rank};
use rejoin_managers_protocol::central::{
    Central, CentralEffect, CentralInput, Event, Failover, HostIndex, Job, Leases, MoveRequest,
    Movers, Record,
};
use rejoin_managers_protocol::lease::Terms;
use rejoin_managers_protocol::manager_messages::{
    Cause, HostMessage, ImageMessage, ImageOrder, ProcessInstance, ProcessMessage, RankMoveOrder,
    RankReport, Report, ToCentral, ToLocal,
};
use rejoin_wire::ImageCost;

const SPARE: HostIndex = 2;

/// A rank on each of two hosts, each a group, and a spare host.
fn groups() -> Job {
    Job {
        log_groups: vec![0, 1],
        ..three_hosts()
    }
}

/// The hosts act under leases, which end so long after they were granted.
const LEASE: u64 = 1210;

fn leased(job: Job) -> Job {
    Job {
        leases: Some(Leases {
            terms: Terms::new(1000, 3000),
            hosts: vec![0, 1, 2],
        }),
        ..job
    }
}

fn process(rank: u32, incarnation: u32) -> ProcessInstance {
    ProcessInstance {
        incarnation: Incarnation(incarnation),
        ..instance(rank, 0)
    }
}

fn host_of(central: &Central, rank: usize) -> HostIndex {
    central.ranks().nth(rank).expect("a rank").host
}

fn ask(central: &mut Central, rank: u32, to: HostIndex) -> Vec<CentralEffect> {
    let request = MoveRequest {
        id: 7,
        movers: Movers::Ranks(vec![Rank(rank)]),
        to: Some(to),
    };
    step(central, at(1), CentralInput::Move(request))
}

/// Rank 1 has moved from host 1 to the spare one.
fn moved() -> (Central, Vec<Record>) {
    moved_in(groups())
}

fn moved_in(job: Job) -> (Central, Vec<Record>) {
    let (mut central, mut stored) = recorded(job);
    let begun = ask(&mut central, 1, SPARE);
    assert_eq!(moves(&begun), [(Rank(1), SPARE)]);
    let number = ordered(&begun)[0].1;
    let arrived = carry_out(&mut central, (1, number), (1, SPARE), 1);
    stored.extend(records(&begun));
    stored.extend(records(&arrived));
    assert_eq!(host_of(&central, 1), SPARE);
    (central, stored)
}

fn ends(central: &mut Central, host: HostIndex, instance: ProcessInstance) -> Vec<CentralEffect> {
    on_message(
        central,
        host,
        ToCentral::Process(ProcessMessage::ExitDetected { instance, pid: 11 }),
    )
}

/// The ranks that hosts are to restore from checkpoints: host, rank, incarnation, checkpoint.
fn restored(effects: &[CentralEffect]) -> Vec<(HostIndex, u32, u32, Option<Epoch>)> {
    let orders = effects.iter().filter_map(|effect| match effect {
        CentralEffect::Send(host, ToLocal::Restore { from, ranks, .. }) => {
            let epoch = from.and_then(ImageId::checkpoint);
            Some(
                ranks
                    .iter()
                    .map(move |(rank, i)| (*host, rank.0, i.0, epoch)),
            )
        }
        _ => None,
    });
    orders.flatten().collect()
}

fn report(ranks: Vec<RankReport>) -> ToCentral {
    ToCentral::Report(Box::new(Report {
        generation: Some(Generation(0)),
        signalled: None,
        lacks_table: false,
        ranks,
        loads: Vec::new(),
        exits: Vec::new(),
    }))
}

/// A rank that has the image of the first checkpoint.
fn with_its_image(rank: u32) -> RankReport {
    RankReport {
        images: vec![Epoch(1)],
        ..computing(rank)
    }
}

fn vacated(effects: &[CentralEffect]) -> Vec<(HostIndex, ProcessInstance)> {
    let orders = effects.iter().filter_map(|effect| match effect {
        CentralEffect::Send(host, ToLocal::Move(RankMoveOrder::Vacate { instance })) => {
            Some((*host, *instance))
        }
        _ => None,
    });
    orders.collect()
}

fn is_back(effects: &[CentralEffect]) -> bool {
    let back = vec![(Rank(1), 1)];
    effects.contains(&CentralEffect::MovedBack(Epoch(1), back))
}

#[test]
fn a_moved_rank_returns_to_the_host_of_its_image_when_nothing_acts_on_the_other() {
    let (mut central, _) = moved();
    let effects = ends(&mut central, SPARE, process(1, 1));
    assert!(is_back(&effects), "{effects:?}");
    assert_eq!(vacated(&effects), [(SPARE, process(1, 1))]);
    assert_eq!(restored(&effects), []);
    assert_eq!(host_of(&central, 1), 1);
    let instance = process(1, 1);
    let effects = on_message(
        &mut central,
        SPARE,
        ToCentral::Process(ProcessMessage::Vacated { instance }),
    );
    assert_eq!(restored(&effects), [(1, 1, 2, Some(Epoch(1)))]);
    // The others stand, and learn of it.
    let effects = on_message(&mut central, 1, registered(process(1, 2)));
    let is_update = |effect: &CentralEffect| {
        let text = format!("{effect:?}");
        text.contains("Update") && text.contains("Incarnation(2)")
    };
    assert!(effects.iter().any(is_update), "{effects:?}");
    assert_eq!(restored(&effects), []);
}

#[test]
fn after_its_groups_next_checkpoint_it_stays_and_its_former_host_drops_what_it_has() {
    let (mut central, _) = moved();
    let requested = step(&mut central, at(5_000), CentralInput::Checkpoint);
    let numbers = records(&requested).into_iter();
    let number = numbers.filter_map(|record| match record {
        Record::Requested { epoch } => Some(epoch),
        _ => None,
    });
    let epoch = number.last().expect("a checkpoint");
    let mut told = Vec::new();
    for (host, instance) in [(0, process(0, 0)), (SPARE, process(1, 1))] {
        let cost = ImageCost::default();
        let imaged = ToCentral::Image(ImageMessage::Taken {
            instance,
            image: ImageId::Checkpoint(epoch),
            cost,
        });
        told.extend(on_message(&mut central, host, imaged));
    }
    let is_told = |host| {
        let is_it = |effect: &CentralEffect| {
            matches!(effect, CentralEffect::Send(to, ToLocal::Image(ImageOrder::CommitGroup { ranks, epoch: of, .. }))
                if *to == host && ranks == &[Rank(1)] && *of == epoch)
        };
        told.iter().any(is_it)
    };
    assert!(is_told(SPARE) && is_told(1), "{told:?}");
    let effects = ends(&mut central, SPARE, process(1, 1));
    assert!(!is_back(&effects));
    assert_eq!(restored(&effects), [(SPARE, 1, 2, Some(epoch))]);
}

#[test]
fn a_move_waits_for_a_group_that_comes_back_and_follows() {
    let (mut central, _) = recorded(groups());
    ask(&mut central, 1, SPARE);
    let effects = ends(&mut central, 0, process(0, 0));
    let stays = |effect: &CentralEffect| {
        matches!(effect, CentralEffect::Send(1, ToLocal::Move(RankMoveOrder::Stay { instance, .. }))
            if *instance == process(1, 0))
    };
    assert!(effects.iter().any(stays), "{effects:?}");
    let is_over =
        |effect: &CentralEffect| matches!(effect, CentralEffect::Event(Event::MovesOver { .. }));
    assert!(!effects.iter().any(is_over), "{effects:?}");
    assert_eq!(restored(&effects), [(0, 0, 1, Some(Epoch(1)))]);
    assert_eq!(moves(&effects), []);
    let effects = on_message(&mut central, 0, registered(process(0, 1)));
    assert_eq!(moves(&effects), [(Rank(1), SPARE)], "{effects:?}");
}

#[test]
fn the_next_central_manager_knows_that_a_rank_is_back_where_it_was() {
    let (mut central, mut stored) = moved();
    stored.extend(records(&ends(&mut central, SPARE, process(1, 1))));
    let mut next = Central::resume(groups(), stored);
    let mut effects = step(&mut next, at(2), CentralInput::Begin);
    let arrived = RankReport {
        incarnation: Incarnation(1),
        ended: true,
        images: Vec::new(),
        ..computing(1)
    };
    for (host, ranks) in [
        (0, vec![with_its_image(0)]),
        (1, Vec::new()),
        (SPARE, vec![arrived]),
    ] {
        effects.extend(on_message(&mut next, host, report(ranks)));
    }
    let moves_again = |effect: &CentralEffect| matches!(effect, CentralEffect::Moved { .. });
    assert!(!effects.iter().any(moves_again), "{effects:?}");
    assert_eq!(vacated(&effects), [(SPARE, process(1, 1))]);
    assert_eq!(restored(&effects), []);
    let instance = process(1, 1);
    let effects = on_message(
        &mut next,
        SPARE,
        ToCentral::Process(ProcessMessage::Vacated { instance }),
    );
    assert_eq!(restored(&effects), [(1, 1, 2, Some(Epoch(1)))]);
}

#[test]
fn the_next_central_manager_tells_nobody_of_a_rank_that_has_moved_and_is_on_its_way_back() {
    let (mut central, mut stored) = moved();
    let due = central.deadline().expect("a checkpoint follows");
    stored.extend(records(&step(&mut central, due, CentralInput::Tick)));
    let epoch = central.view().pending.expect("it is requested");
    for (host, instance) in [(0, process(0, 0)), (SPARE, process(1, 1))] {
        let imaged = ToCentral::Image(ImageMessage::Taken {
            instance,
            image: ImageId::Checkpoint(epoch),
            cost: ImageCost::default(),
        });
        stored.extend(records(&on_message(&mut central, host, imaged)));
    }
    stored.extend(records(&ends(&mut central, SPARE, process(1, 1))));
    let mut next = Central::resume(groups(), stored);
    let mut effects = step(&mut next, at(2), CentralInput::Begin);
    for (host, ranks) in [
        (0, vec![with_its_image(0)]),
        (1, Vec::new()),
        (SPARE, Vec::new()),
    ] {
        effects.extend(on_message(&mut next, host, report(ranks)));
    }
    assert_eq!(restored(&effects), [(SPARE, 1, 2, Some(epoch))]);
    let told = effects.iter().filter_map(|effect| match effect {
        CentralEffect::Send(_, ToLocal::Update { instance, .. })
        | CentralEffect::SendAll(_, ToLocal::Update { instance, .. }) => Some(*instance),
        CentralEffect::Send(_, ToLocal::Start { table, .. }) => Some(process(1, table[1].0.0)),
        _ => None,
    });
    let told: Vec<ProcessInstance> = told.collect();
    assert!(!told.contains(&process(1, 2)), "{told:?}");
}

#[test]
fn no_rank_moves_whose_determinants_do_not_outlive_its_host() {
    let (mut central, _) = recorded(Job {
        failover: Some(Failover {
            takes_in: false,
            ..Failover::default()
        }),
        ..groups()
    });
    let effects = ask(&mut central, 1, SPARE);
    let why = effects.iter().find_map(|effect| match effect {
        CentralEffect::Event(Event::MovesOver { why, .. }) => why.clone(),
        _ => None,
    });
    let why = why.expect("a reason");
    assert!(why.contains("--stable node"), "{why}");
    assert_eq!(moves(&effects), []);
}

/// The rank returns to its former host while the one that it had moved to is lost.
fn returns_from_a_lost_host(job: Job, orders: &[(HostIndex, u32, u32, Option<Epoch>)]) {
    let (mut central, _) = moved_in(leased(job));
    for host in 0..=SPARE {
        on_message(
            &mut central,
            host,
            ToCentral::Host(HostMessage::Renew { number: 0 }),
        );
    }
    let mut effects = ends(&mut central, SPARE, process(1, 1));
    effects.retain(|effect| matches!(effect, CentralEffect::Send(1, _)));
    assert_eq!(restored(&effects), []);
    let gone = CentralInput::HostGone(SPARE, "no power".into());
    assert_eq!(restored(&step(&mut central, at(2), gone)), []);
    let early = step(&mut central, at(LEASE), CentralInput::Tick);
    assert_eq!(restored(&early), []);
    let due = step(&mut central, at(LEASE + 1), CentralInput::Tick);
    assert_eq!(restored(&due), orders);
}

#[test]
fn no_order_is_given_while_a_lost_host_may_act_that_the_rank_returns_from() {
    returns_from_a_lost_host(groups(), &[(1, 1, 2, Some(Epoch(1)))]);
}

#[test]
fn nor_in_a_rollback_of_all_ranks() {
    returns_from_a_lost_host(three_hosts(), &[(1, 1, 2, Some(Epoch(1)))]);
}

#[test]
fn nor_in_the_rollback_after_that() {
    let (mut central, _) = moved_in(leased(three_hosts()));
    for host in 0..=SPARE {
        on_message(
            &mut central,
            host,
            ToCentral::Host(HostMessage::Renew { number: 0 }),
        );
    }
    ends(&mut central, SPARE, process(1, 1));
    let gone = CentralInput::HostGone(SPARE, "no power".into());
    step(&mut central, at(2), gone);
    let again = ends(&mut central, 0, instance(0, 1));
    assert_eq!(restored(&again), [(0, 0, 2, Some(Epoch(1)))]);
    let due = step(&mut central, at(LEASE + 1), CentralInput::Tick);
    assert_eq!(restored(&due), [(1, 1, 3, Some(Epoch(1)))]);
}

/// The same under the next central manager, which learns of the loss when it is started.
fn returns_from_a_host_lost_before(job: &Job, reports: [ToCentral; 2]) {
    let job = leased(job.clone());
    let (mut central, mut stored) = moved_in(job.clone());
    stored.extend(records(&ends(&mut central, SPARE, process(1, 1))));
    let mut next = Central::resume(job, stored);
    let mut effects = step(&mut next, at(2), CentralInput::Begin);
    for (host, report) in reports.into_iter().enumerate() {
        effects.extend(on_message(&mut next, host, report));
    }
    let gone = CentralInput::HostGone(SPARE, "no power".into());
    effects.extend(step(&mut next, at(2), gone));
    let ordered = |effects: &[CentralEffect]| {
        let mut ranks = restored(effects);
        ranks.retain(|order| order.1 == 1);
        ranks
    };
    assert_eq!(ordered(&effects), []);
    let later = step(&mut next, at(2 * LEASE), CentralInput::Tick);
    assert_eq!(ordered(&later), [(1, 1, 2, Some(Epoch(1)))]);
}

#[test]
fn the_next_central_manager_waits_for_the_lease_of_a_lost_host_too() {
    let reports = [report(vec![with_its_image(0)]), report(Vec::new())];
    returns_from_a_host_lost_before(&groups(), reports);
}

#[test]
fn and_in_a_rollback_of_all_ranks_whatever_their_hosts_have_heard_of_it() {
    let reports = [report(vec![with_its_image(0)]), report(Vec::new())];
    returns_from_a_host_lost_before(&three_hosts(), reports);
}

#[test]
fn a_process_that_does_not_stop_on_the_other_host_ends_the_job_with_that_reason() {
    let (mut central, _) = moved();
    ends(&mut central, SPARE, process(1, 1));
    let failed = ToCentral::Process(ProcessMessage::Failed {
        instance: process(1, 1),
        pid: 11,
        cause: Cause::NotStopped {
            why: "its process 11 does not stop".into(),
        },
    });
    on_message(&mut central, SPARE, failed);
    step(&mut central, at(600_000), CentralInput::Tick);
    let verdict = central.verdict().expect("a verdict");
    assert!(
        format!("{verdict:?}").contains("does not stop"),
        "{verdict:?}"
    );
}

#[test]
fn an_earlier_process_that_waits_for_a_move_does_not_continue() {
    let (mut central, mut stored) = moved();
    stored.extend(records(&ends(&mut central, SPARE, process(1, 1))));
    let mut next = Central::resume(groups(), stored);
    let mut effects = step(&mut next, at(2), CentralInput::Begin);
    // Its host has not heard that the rank has moved, nor that it is back.
    let waits = RankReport {
        moves: Some(move_number(1, 2)),
        ..with_its_image(1)
    };
    for (host, ranks) in [
        (0, vec![with_its_image(0)]),
        (1, vec![waits]),
        (SPARE, Vec::new()),
    ] {
        effects.extend(on_message(&mut next, host, report(ranks)));
    }
    let stays = |effect: &CentralEffect| {
        matches!(
            effect,
            CentralEffect::Send(_, ToLocal::Move(RankMoveOrder::Stay { .. }))
        )
    };
    assert!(!effects.iter().any(stays), "{effects:?}");
    assert_eq!(restored(&effects), [(1, 1, 2, Some(Epoch(1)))]);
}

#[test]
fn a_move_that_a_return_has_voided_is_not_told_again() {
    let (mut central, mut stored) = moved();
    stored.extend(records(&ends(&mut central, SPARE, process(1, 1))));
    let instance = process(1, 1);
    let effects = on_message(
        &mut central,
        SPARE,
        ToCentral::Process(ProcessMessage::Vacated { instance }),
    );
    stored.extend(records(&effects));
    stored.extend(records(&on_message(
        &mut central,
        1,
        registered(process(1, 2)),
    )));
    // A later return is all that the journal keeps: the first one is superseded.
    let voided = |record: &Record| matches!(record, Record::Return(_));
    stored.extend(records(&ends(&mut central, 1, process(1, 2))));
    let first = stored.iter().position(voided).expect("the first return");
    let mut superseded = stored.remove(first);
    let last = stored.iter_mut().rfind(|record| voided(record));
    let Some(Record::Return(last)) = last else {
        panic!("the last return: {stored:?}");
    };
    // As if the group had committed another checkpoint in between.
    last.from = Some(Epoch(90));
    if let Record::Return(superseded) = &mut superseded {
        assert_eq!(superseded.from, Some(Epoch(1)));
    }
    let mut next = Central::resume(groups(), stored);
    let mut effects = step(&mut next, at(2), CentralInput::Begin);
    for (host, ranks) in [
        (0, vec![with_its_image(0)]),
        (1, Vec::new()),
        (SPARE, Vec::new()),
    ] {
        effects.extend(on_message(&mut next, host, report(ranks)));
    }
    let moves_again = |effect: &CentralEffect| matches!(effect, CentralEffect::Moved { .. });
    assert!(!effects.iter().any(moves_again), "{effects:?}");
}

#[test]
fn a_group_that_returns_to_a_drained_host_moves_away_from_it_again() {
    let (mut central, _) = recorded(groups());
    let drain = MoveRequest {
        id: 7,
        movers: Movers::Drain(1),
        to: Some(SPARE),
    };
    let begun = step(&mut central, at(1), CentralInput::Move(drain));
    assert_eq!(moves(&begun), [(Rank(1), SPARE)]);
    let number = ordered(&begun)[0].1;
    carry_out(&mut central, (1, number), (1, SPARE), 1);
    ends(&mut central, SPARE, process(1, 1));
    let instance = process(1, 1);
    on_message(
        &mut central,
        SPARE,
        ToCentral::Process(ProcessMessage::Vacated { instance }),
    );
    let mut effects = on_message(&mut central, 1, registered(process(1, 2)));
    assert_eq!(host_of(&central, 1), 1);
    // The checkpoint that the return put off comes first.
    let requested = records(&effects).into_iter();
    let epochs = requested.filter_map(|record| match record {
        Record::Requested { epoch } => Some(epoch),
        _ => None,
    });
    if let Some(epoch) = epochs.last() {
        for (host, instance) in [(0, process(0, 0)), (1, process(1, 2))] {
            let imaged = ToCentral::Image(ImageMessage::Taken {
                instance,
                image: ImageId::Checkpoint(epoch),
                cost: ImageCost::default(),
            });
            effects.extend(on_message(&mut central, host, imaged));
        }
    }
    assert_eq!(moves(&effects).len(), 1, "{effects:?}");
    assert_eq!(moves(&effects)[0].0, Rank(1));
}

/// The process from before the move has not heard of it.
#[test]
fn an_earlier_process_that_does_not_stop_does_not_end_a_job_that_does_not_wait_for_it() {
    let (_, stored) = moved();
    let mut next = Central::resume(groups(), stored);
    step(&mut next, at(2), CentralInput::Begin);
    let arrived = RankReport {
        incarnation: Incarnation(1),
        ..with_its_image(1)
    };
    let mut effects = Vec::new();
    for (host, ranks) in [
        (0, vec![with_its_image(0)]),
        (1, vec![with_its_image(1)]),
        (SPARE, vec![arrived]),
    ] {
        effects.extend(on_message(&mut next, host, report(ranks)));
    }
    assert_eq!(vacated(&effects), [(1, process(1, 0))]);
    let failed = ToCentral::Process(ProcessMessage::Failed {
        instance: process(1, 0),
        pid: 11,
        cause: Cause::NotStopped {
            why: "its process 11 does not stop".into(),
        },
    });
    on_message(&mut next, 1, failed);
    step(&mut next, at(600_000), CentralInput::Tick);
    assert_eq!(next.verdict(), None);
}

#[test]
fn the_next_central_manager_tells_again_where_a_rank_has_moved_and_which_image_counts_there() {
    let (_, stored) = moved();
    let mut next = Central::resume(groups(), stored);
    let mut effects = step(&mut next, at(2), CentralInput::Begin);
    let arrived = RankReport {
        incarnation: Incarnation(1),
        images: Vec::new(),
        ..computing(1)
    };
    for (host, ranks) in [
        (0, vec![with_its_image(0)]),
        (1, Vec::new()),
        (SPARE, vec![arrived]),
    ] {
        effects.extend(on_message(&mut next, host, report(ranks)));
    }
    let moved = effects.iter().filter_map(|effect| match effect {
        CentralEffect::Moved { rank, to, .. } => Some((*rank, *to)),
        _ => None,
    });
    assert_eq!(moved.collect::<Vec<_>>(), [(Rank(1), SPARE)]);
    let is_update = |effect: &CentralEffect| match effect {
        CentralEffect::Send(_, ToLocal::Update { instance, .. })
        | CentralEffect::SendAll(_, ToLocal::Update { instance, .. }) => *instance == process(1, 1),
        _ => false,
    };
    assert!(effects.iter().any(is_update), "{effects:?}");
}

#[test]
fn the_host_that_a_rank_moves_to_learns_which_image_of_its_group_counts() {
    let (mut central, _) = recorded(groups());
    let begun = ask(&mut central, 1, SPARE);
    let number = ordered(&begun)[0].1;
    let effects = carry_out(&mut central, (1, number), (1, SPARE), 1);
    let starts = |effect: &CentralEffect| {
        matches!(effect, CentralEffect::Send(SPARE, ToLocal::Start { .. }))
    };
    let started = effects.iter().position(starts).expect("it starts");
    let is_told = |effect: &CentralEffect| {
        matches!(effect, CentralEffect::Send(SPARE, ToLocal::Image(ImageOrder::CommitGroup { ranks, epoch, .. }))
            if ranks == &[Rank(1)] && *epoch == Epoch(1))
    };
    assert!(effects[started..].iter().any(is_told), "{effects:?}");
}
