//! A job that loses a host and continues on others within the launch: central's decision and its
//! orders, and what the host does that takes in ranks.

mod central_steps;
mod local_steps;

use central_steps::{FENCE, at, computing, instance, records, step};
use local_steps::{steps, with_a_rank};
use rejoin_channel_table::{
    BusinessCard, Epoch, Generation, ImageId, Incarnation, LanId, MoveNumber, Rank,
};
use rejoin_managers_protocol::central::{
    AddedHost, Central, CentralEffect, CentralInput, Event, Failover, HostCondition, HostView,
    HostsRequest, Job, Leases, RankMove, RankPlacement, Record, StoredState,
};
use rejoin_managers_protocol::lease::Terms;
use rejoin_managers_protocol::levels::CommittedEpochs;
use rejoin_managers_protocol::local::{Local, LocalEffect, LocalInput};
use rejoin_managers_protocol::manager_messages::{
    Cause, End, FileMessage, HostMessage, ImageMessage, ImageOrder, KeptFile, MovedRank,
    ProcessMessage, RankReport, Report, Stage, ToCentral, ToLocal,
};
use rejoin_managers_protocol::region_commits::RegionEpochs;
use rejoin_managers_protocol::verdict::Verdict;
use rejoin_wire::{ImageCost, Limits};

fn three_hosts() -> Job {
    central_steps::three_hosts(3000)
}

/// The same without the third.
fn two_hosts() -> Job {
    Job {
        hosts: vec!["a".into(), "b".into()],
        leases: Some(Leases {
            terms: Terms::new(1000, 3000),
            hosts: vec![0, 1],
        }),
        ..three_hosts()
    }
}

fn on_message(central: &mut Central, host: usize, message: ToCentral) -> Vec<CentralEffect> {
    step(central, at(0), CentralInput::Local(host, message))
}

/// All ranks register, each on its host.
fn register_all(central: &mut Central, hosts: [usize; 2], number: u32) -> Vec<CentralEffect> {
    let all = hosts.into_iter().zip(0..).map(|(host, rank)| {
        let registered = ToCentral::Process(ProcessMessage::Registered {
            instance: instance(rank, number),
            pid: 10 + rank,
            card: BusinessCard::default(),
            limits: Limits::default(),
        });
        on_message(central, host, registered)
    });
    all.collect::<Vec<_>>().concat()
}

/// Every rank takes its image of an epoch, which goes to files, and each file is copied.
fn into_files(central: &mut Central, epoch: u32) -> Vec<CentralEffect> {
    let epoch = Epoch(epoch);
    let mut effects = Vec::new();
    for (host, rank) in [(0, 0), (1, 1)] {
        let imaged = ToCentral::Image(ImageMessage::Taken {
            instance: instance(rank, 0),
            image: ImageId::Checkpoint(epoch),
            cost: ImageCost::default(),
        });
        effects.extend(on_message(central, host, imaged));
    }
    for (host, rank) in [(0, Rank(0)), (1, Rank(1))] {
        let stored = ToCentral::File(FileMessage::Stored {
            rank,
            image: ImageId::Checkpoint(epoch),
        });
        effects.extend(on_message(central, host, stored));
    }
    for (host, rank) in [(0, Rank(0)), (1, Rank(1))] {
        let copied = ToCentral::File(FileMessage::Copied { rank, epoch });
        effects.extend(on_message(central, 1 - host, copied));
    }
    assert_eq!(central.view().on_partners.map(|(e, _)| e), Some(epoch));
    effects
}

/// A job that runs under leases, with its first checkpoint in files.
fn running_on(job: Job) -> (Central, Vec<Record>) {
    let mut central = Central::new(job);
    let mut effects = step(&mut central, at(0), CentralInput::Begin);
    for host in 0..2 {
        effects.extend(on_message(
            &mut central,
            host,
            ToCentral::Host(HostMessage::Renew { number: 0 }),
        ));
    }
    effects.extend(register_all(&mut central, [0, 1], 0));
    effects.extend(into_files(&mut central, 1));
    (central, records(&effects))
}

fn says(epochs: &[u32]) -> CentralInput {
    let images = epochs
        .iter()
        .map(|epoch| StoredState::Images(Epoch(*epoch)));
    CentralInput::Stored(images.collect())
}

/// The orders to make processes, and to whom.
fn orders(effects: &[CentralEffect]) -> Vec<(usize, &ToLocal)> {
    let order = |effect| match effect {
        &CentralEffect::Send(host, ref order) => match order {
            ToLocal::Spawn { .. } | ToLocal::Restore { .. } => Some((host, order)),
            _ => None,
        },
        _ => None,
    };
    effects.iter().filter_map(order).collect()
}

/// The placement of the second rank on another host.
fn moved_to(host: usize) -> RankPlacement {
    RankPlacement {
        hosts: vec![0, host],
        lost: vec![1],
        moved: vec![MovedRank {
            rank: Rank(1),
            holder: Some(0),
            others: Vec::new(),
        }],
        from: Some(Epoch(1)),
    }
}

fn copy_of(rank: u32) -> KeptFile {
    KeptFile {
        rank: Rank(rank),
        image: ImageId::Checkpoint(Epoch(1)),
        is_parity: false,
    }
}

fn why() -> String {
    "its local manager ended".into()
}

fn asks_and_tells_that_b_is_lost() -> [CentralEffect; 2] {
    let regions = RegionEpochs::default();
    let lost = HostView {
        name: "b".into(),
        condition: HostCondition::Lost,
        why: Some(format!("it is lost: {}", why())),
        lan: LanId::default(),
    };
    [
        CentralEffect::RequestStored { regions },
        CentralEffect::Event(Event::HostChanged(lost)),
    ]
}

#[test]
fn ranks_of_a_lost_host_move_when_no_lease_of_it_can_last() {
    let (mut central, _) = running_on(two_hosts());
    let gone = CentralInput::HostGone(1, why());
    let effects = step(&mut central, at(100), gone);
    assert_eq!(effects, asks_and_tells_that_b_is_lost());
    let effects = step(&mut central, at(101), says(&[1]));
    let stored = records(&effects);
    let placement = Some(Box::new(moved_to(0)));
    let is_stored = |record: &Record| match record {
        Record::Return(back) => back.placement == placement && back.from == Some(Epoch(1)),
        _ => false,
    };
    assert!(stored.iter().any(is_stored), "{effects:?}");
    assert!(effects.contains(&CentralEffect::Placed(moved_to(0))));
    let told = CentralEffect::Event(Event::HostReplaced {
        name: "b".into(),
        why: why(),
        to: "a".into(),
        generation: Generation(1),
        epoch: Some(Epoch(1)),
        regions: None,
    });
    assert!(effects.contains(&told), "{effects:?}");
    assert_eq!(orders(&effects), [], "the only host waits");
    assert_eq!(central.deadline(), Some(at(FENCE)));
    let effects = step(&mut central, at(FENCE - 1), CentralInput::Tick);
    assert_eq!(orders(&effects), []);
    let effects = step(&mut central, at(FENCE), CentralInput::Tick);
    let order = ToLocal::Restore {
        generation: Generation(1),
        regions: None,
        from: Some(ImageId::Checkpoint(Epoch(1))),
        ranks: vec![(Rank(0), Incarnation(1)), (Rank(1), Incarnation(1))],
        moved: moved_to(0).moved,
    };
    assert_eq!(orders(&effects), [(0, &order)]);
    let committed = |e: &CentralEffect| {
        let is = |order: &ToLocal| matches!(order, ToLocal::Image(ImageOrder::Commit { generation, .. }) if *generation == Generation(1));
        matches!(e, CentralEffect::Send(0, order) if is(order))
    };
    assert!(effects.iter().any(committed), "{effects:?}");
    // Its messages from before come to nothing.
    let late = ToCentral::Process(ProcessMessage::Registered {
        instance: instance(1, 1),
        pid: 7,
        card: BusinessCard::default(),
        limits: Limits::default(),
    });
    assert_eq!(on_message(&mut central, 1, late), []);
    let effects = register_all(&mut central, [0, 0], 1);
    let back = |e: &CentralEffect| matches!(e, CentralEffect::Event(Event::Recovered { .. }));
    assert!(effects.iter().any(back), "{effects:?}");
    // The files of the checkpoint have no further copies, so the next one follows.
    let due = central.deadline().expect("a checkpoint");
    let effects = step(&mut central, due, CentralInput::Tick);
    let next = CentralEffect::Persist(Record::Requested { epoch: Epoch(2) });
    assert!(effects.contains(&next), "{effects:?}");
}

#[test]
fn a_host_whose_processes_have_ended_is_replaced_at_once_and_a_spare_begins_with_its_ranks() {
    let (mut central, _) = running_on(three_hosts());
    step(&mut central, at(100), CentralInput::HostEnded(1, why()));
    let effects = step(&mut central, at(101), says(&[1]));
    let here = ToLocal::Restore {
        generation: Generation(1),
        regions: None,
        from: Some(ImageId::Checkpoint(Epoch(1))),
        ranks: vec![(Rank(0), Incarnation(1))],
        moved: Vec::new(),
    };
    let there = ToLocal::Spawn {
        generation: Generation(1),
        regions: None,
        ranks: vec![(Rank(1), Incarnation(1))],
        from: Some(Epoch(1)),
        moved: moved_to(2).moved,
    };
    assert_eq!(orders(&effects), [(0, &here), (2, &there)]);
    // It takes part from now on.
    let renewal = ToCentral::Host(HostMessage::Renew { number: 0 });
    let granted = CentralEffect::Send(2, ToLocal::Granted { number: 0 });
    assert_eq!(on_message(&mut central, 2, renewal), [granted]);
    // A rank dies before all are back: the spare gets another order of the usual kind.
    let failed = ToCentral::Process(ProcessMessage::Failed {
        instance: instance(0, 1),
        pid: 10,
        cause: Cause::Ended {
            end: End::Signaled(9),
            stage: Stage::Registered,
        },
    });
    let effects = on_message(&mut central, 0, failed);
    let hosts: Vec<usize> = orders(&effects).iter().map(|(host, _)| *host).collect();
    assert_eq!(hosts, [0, 2], "{effects:?}");
    assert!(matches!(orders(&effects)[1].1, ToLocal::Restore { .. }));
}

#[test]
fn a_host_that_can_not_be_replaced_ends_the_job() {
    let lost = |effects: &[CentralEffect]| {
        let is = |e: &CentralEffect| matches!(e, CentralEffect::Decided(Verdict::HostLost { host, .. }) if host == "b");
        effects.iter().any(is)
    };
    // mpirun lacks output, or the files.
    let (mut central, _) = running_on(two_hosts());
    step(&mut central, at(100), CentralInput::HostGone(1, why()));
    assert!(lost(&step(&mut central, at(101), says(&[]))));
    // Logs can't go to other hosts, and there is no registered memory.
    let failover = Some(Failover::default());
    let job = Job {
        failover,
        ..two_hosts()
    };
    let (mut central, _) = running_on(job);
    step(&mut central, at(100), CentralInput::HostGone(1, why()));
    assert!(lost(&step(&mut central, at(101), says(&[1]))));
    // The user has asked the ranks to end.
    let (mut central, _) = running_on(two_hosts());
    step(&mut central, at(50), CentralInput::Signal(15));
    step(&mut central, at(100), CentralInput::HostGone(1, why()));
    let interrupted = Verdict::Interrupted { signal: 15 };
    assert_eq!(central.verdict(), Some(&interrupted));
    // A second one goes while the first is asked about.
    let (mut central, _) = running_on(two_hosts());
    step(&mut central, at(100), CentralInput::HostGone(1, why()));
    step(&mut central, at(100), CentralInput::HostGone(0, why()));
    assert!(lost(&step(&mut central, at(101), says(&[1]))));
}

#[test]
fn a_recovery_is_told_though_nobody_knows_how_a_process_of_the_lost_host_ended() {
    let (mut central, _) = running_on(three_hosts());
    let ended = ToCentral::Process(ProcessMessage::ExitDetected {
        instance: instance(1, 0),
        pid: 11,
    });
    on_message(&mut central, 1, ended);
    step(&mut central, at(100), CentralInput::HostEnded(1, why()));
    let effects = step(&mut central, at(101), says(&[1]));
    let hosts: Vec<usize> = orders(&effects).iter().map(|(host, _)| *host).collect();
    assert_eq!(hosts, [0, 2], "{effects:?}");
    let effects = register_all(&mut central, [0, 2], 2);
    let back = |e: &CentralEffect| matches!(e, CentralEffect::Event(Event::Recovered { .. }));
    assert!(effects.iter().any(back), "{effects:?}");
}

#[test]
fn an_answer_of_before_newer_files_is_asked_for_again() {
    let (mut central, _) = running_on(two_hosts());
    step(&mut central, at(50), CentralInput::Checkpoint);
    into_files(&mut central, 2);
    step(&mut central, at(100), CentralInput::HostEnded(1, why()));
    let effects = step(&mut central, at(101), says(&[1]));
    assert_eq!(
        effects,
        [CentralEffect::RequestStored {
            regions: RegionEpochs::default()
        }]
    );
    let effects = step(&mut central, at(102), says(&[2]));
    assert!(!orders(&effects).is_empty(), "{effects:?}");
}

#[test]
fn the_next_central_manager_waits_for_a_whole_lease_and_orders_what_is_missing() {
    let (mut central, mut stored) = running_on(three_hosts());
    step(&mut central, at(100), CentralInput::HostGone(1, why()));
    let effects = step(&mut central, at(101), says(&[1]));
    assert_eq!(orders(&effects).len(), 1, "the spare waits");
    stored.extend(records(&effects));
    let mut central = Central::resume(three_hosts(), stored);
    let effects = step(&mut central, at(500), CentralInput::Begin);
    assert!(
        effects.contains(&CentralEffect::Placed(moved_to(2))),
        "{effects:?}"
    );
    step(&mut central, at(500), CentralInput::HostGone(1, why()));
    let report = |generation| {
        ToCentral::Report(Box::new(Report {
            generation,
            signalled: None,
            lacks_table: false,
            ranks: Vec::new(),
            loads: Vec::new(),
            exits: Vec::new(),
        }))
    };
    let answer = CentralInput::Local(2, report(None));
    assert_eq!(orders(&step(&mut central, at(500), answer)), []);
    let answer = CentralInput::Local(0, report(Some(Generation(1))));
    let effects = step(&mut central, at(500), answer);
    let hosts: Vec<usize> = orders(&effects).iter().map(|(host, _)| *host).collect();
    assert_eq!(hosts, [0], "{effects:?}");
    assert_eq!(central.deadline(), Some(at(500 + FENCE)));
    let effects = step(&mut central, at(500 + FENCE), CentralInput::Tick);
    assert!(matches!(orders(&effects)[..], [(2, ToLocal::Spawn { .. })]));
}

fn report_of(ranks: Vec<RankReport>, generation: u32) -> ToCentral {
    ToCentral::Report(Box::new(Report {
        generation: Some(Generation(generation)),
        signalled: None,
        lacks_table: false,
        ranks,
        loads: Vec::new(),
        exits: Vec::new(),
    }))
}

/// A host that was added takes in the ranks of a lost one, and then central dies.
#[test]
fn the_next_central_manager_asks_an_added_host_that_has_taken_in_ranks() {
    let (mut central, mut stored) = running_on(two_hosts());
    let added = HostsRequest {
        id: 1,
        hosts: vec![AddedHost {
            name: "new".into(),
            slots: 2,
            is_remote: true,
            lan: LanId::default(),
        }],
    };
    let effects = step(&mut central, at(50), CentralInput::AddHosts(added));
    stored.extend(records(&effects));
    step(&mut central, at(100), CentralInput::HostEnded(1, why()));
    let effects = step(&mut central, at(101), says(&[1]));
    assert!(matches!(
        orders(&effects)[..],
        [_, (2, ToLocal::Spawn { .. })]
    ));
    stored.extend(records(&effects));
    let mut central = Central::resume(two_hosts(), stored);
    let effects = step(&mut central, at(500), CentralInput::Begin);
    let asks = CentralEffect::Send(2, ToLocal::Report);
    assert!(effects.contains(&asks), "{effects:?}");
    step(&mut central, at(500), CentralInput::HostGone(1, why()));
    let back = |rank| RankReport {
        incarnation: Incarnation(1),
        images: vec![Epoch(1)],
        ..computing(rank)
    };
    assert_eq!(on_message(&mut central, 0, report_of(vec![back(0)], 1)), []);
    let effects = on_message(&mut central, 2, report_of(vec![back(1)], 1));
    let started = |e: &CentralEffect| matches!(e, CentralEffect::Persist(Record::Started { .. }));
    assert!(effects.iter().any(started), "{effects:?}");
    assert_eq!(central.verdict(), None);
}

/// The only image in memory was where the rank was before it moved, and that host is lost. There
/// are files, so the ranks are not lost with it.
#[test]
fn a_rollback_to_an_image_of_a_lost_former_host_needs_files_elsewhere() {
    let (_, mut stored) = running_on(three_hosts());
    let moved = RankMove {
        rank: Rank(1),
        from: 1,
        to: 2,
        incarnation: Incarnation(1),
    };
    let number = MoveNumber::next(None, Epoch(1));
    stored.push(Record::Moving {
        plans: Vec::new(),
        visited: vec![1, 2],
        spent: vec![(moved.rank, moved.incarnation)],
        number,
        moves: vec![moved.clone()],
    });
    stored.push(Record::Moved {
        number,
        moved,
        card: Box::default(),
    });
    let mut central = Central::resume(three_hosts(), stored);
    step(&mut central, at(500), CentralInput::Begin);
    step(&mut central, at(500), CentralInput::HostEnded(1, why()));
    let at_checkpoint = |rank, incarnation, images: &[u32]| RankReport {
        incarnation: Incarnation(incarnation),
        images: images.iter().copied().map(Epoch).collect(),
        ..computing(rank)
    };
    on_message(
        &mut central,
        0,
        report_of(vec![at_checkpoint(0, 0, &[1])], 0),
    );
    let report = report_of(vec![at_checkpoint(1, 1, &[])], 0);
    on_message(&mut central, 2, report);
    let killed = ToCentral::Process(ProcessMessage::Failed {
        instance: instance(0, 0),
        pid: 10,
        cause: Cause::Ended {
            end: End::Signaled(9),
            stage: Stage::Registered,
        },
    });
    let effects = on_message(&mut central, 0, killed);
    let asks = |e: &CentralEffect| matches!(e, CentralEffect::RequestStored { .. });
    assert!(effects.iter().any(asks), "{effects:?}");
    assert_eq!(central.verdict(), None);
    let mut without = central.clone();
    step(&mut without, at(501), says(&[]));
    let why = "it had the image of rank 1, which had moved".into();
    let host = "b".into();
    assert_eq!(without.verdict(), Some(&Verdict::HostLost { host, why }));
    let effects = step(&mut central, at(501), says(&[1]));
    let moved = |(host, order): &(usize, &ToLocal)| match order {
        ToLocal::Restore { from, moved, .. } if from.is_some() => (*host, moved.len()),
        order => panic!("{order:?}"),
    };
    let orders: Vec<_> = orders(&effects).iter().map(moved).collect();
    assert_eq!(orders, [(0, 0), (2, 1)], "{effects:?}");
}

/// The core of a host with rank 0, which has a copy of rank 1's file.
fn host_with_a_copy() -> Local {
    let mut core = with_a_rank();
    let epochs = CommittedEpochs::only(Some(Epoch(1)));
    let inputs = vec![
        LocalInput::Central(ToLocal::Copy {
            members: vec![(Rank(1), 1)],
            epoch: Epoch(1),
        }),
        LocalInput::ImageCopied(copy_of(1)),
        LocalInput::Central(ToLocal::Image(ImageOrder::Commit {
            generation: Generation(0),
            epochs,
            abandoned: Epoch(1),
        })),
    ];
    steps(&mut core, inputs);
    core
}

#[test]
fn an_order_to_start_that_comes_late_rolls_back_what_an_older_one_has_started() {
    let mut core = host_with_a_copy();
    let order = ToLocal::Spawn {
        generation: Generation(1),
        regions: None,
        ranks: vec![(Rank(0), Incarnation(1))],
        from: None,
        moved: Vec::new(),
    };
    let effects = steps(&mut core, vec![LocalInput::Central(order.clone())]);
    assert_eq!(effects, [LocalEffect::Retire(Rank(0), Incarnation(0))]);
    let retired = LocalInput::Retired(Rank(0), Incarnation(0));
    let effects = steps(&mut core, vec![retired]);
    assert_eq!(effects, [LocalEffect::Spawn(instance(0, 1))]);
    assert_eq!(steps(&mut core, vec![LocalInput::Central(order)]), []);
}

#[test]
fn a_host_takes_in_a_rank_and_keeps_the_copy_of_its_file() {
    let mut core = host_with_a_copy();
    let moved = MovedRank {
        rank: Rank(1),
        holder: Some(0),
        others: Vec::new(),
    };
    let order = ToLocal::Restore {
        generation: Generation(1),
        regions: None,
        from: Some(ImageId::Checkpoint(Epoch(1))),
        ranks: vec![(Rank(0), Incarnation(1)), (Rank(1), Incarnation(1))],
        moved: vec![moved.clone()],
    };
    let effects = steps(&mut core, vec![LocalInput::Central(order.clone())]);
    let retire = LocalEffect::Retire(Rank(0), Incarnation(0));
    assert_eq!(
        effects,
        [
            LocalEffect::TakeIn(moved, Some(ImageId::Checkpoint(Epoch(1)))),
            retire
        ]
    );
    // A central manager that is started again repeats it.
    let repeated = steps(&mut core, vec![LocalInput::Central(order)]);
    assert_eq!(repeated, []);
    let retired = LocalInput::Retired(Rank(0), Incarnation(0));
    let effects = steps(&mut core, vec![retired]);
    let restore = |rank| LocalEffect::Restore(instance(rank, 1), ImageId::Checkpoint(Epoch(1)));
    assert_eq!(effects, [restore(0), restore(1)]);
    // Files of later checkpoints supersede this one, as the file of a rank of this host.
    let commit = |memory: u32, file: u32| {
        let epochs = CommittedEpochs {
            memory: Some(Epoch(memory)),
            writing: None,
            file: Some(Epoch(file)),
            copying: None,
            partner: Some(Epoch(file)),
        };
        LocalInput::Central(ToLocal::Image(ImageOrder::Commit {
            generation: Generation(1),
            epochs,
            abandoned: Epoch(memory),
        }))
    };
    let effects = steps(&mut core, vec![commit(2, 1)]);
    let from_memory = LocalEffect::DropFromMemory(Rank(1), ImageId::Checkpoint(Epoch(1)));
    assert_eq!(effects, [from_memory]);
    let effects = steps(&mut core, vec![commit(3, 3)]);
    assert_eq!(
        effects,
        [LocalEffect::DropImage(
            Rank(1),
            ImageId::Checkpoint(Epoch(1))
        )]
    );
}

/// It moves here with an image of its own. Its last checkpoint still counts.
#[test]
fn a_host_drops_the_copy_of_a_rank_that_has_moved_there_when_its_checkpoint_counts_no_more() {
    let mut core = host_with_a_copy();
    let order = ToLocal::Restore {
        generation: Generation(0),
        regions: None,
        from: Some(ImageId::Move(MoveNumber::next(None, Epoch(1)))),
        ranks: vec![(Rank(1), Incarnation(1))],
        moved: vec![MovedRank {
            rank: Rank(1),
            holder: Some(0),
            others: Vec::new(),
        }],
    };
    let commit = |epochs| {
        ToLocal::Image(ImageOrder::Commit {
            generation: Generation(0),
            epochs,
            abandoned: Epoch(2),
        })
    };
    let before = commit(CommittedEpochs::only(Some(Epoch(1))));
    let orders = [order, before].map(LocalInput::Central);
    let effects = steps(&mut core, orders.into());
    let dropped = |effect: &&LocalEffect| matches!(effect, LocalEffect::DropCopy(_));
    assert_eq!(effects.iter().find(dropped), None);
    let after = commit(CommittedEpochs::only(Some(Epoch(3))));
    let effects = steps(&mut core, vec![LocalInput::Central(after)]);
    assert!(
        effects.contains(&LocalEffect::DropCopy(copy_of(1))),
        "{effects:?}"
    );
}

#[test]
fn a_rank_that_is_here_already_may_come_back_from_the_file_of_another_host() {
    let mut core = host_with_a_copy();
    let order = |number, holder| {
        let moved = MovedRank {
            rank: Rank(1),
            holder: Some(holder),
            others: Vec::new(),
        };
        let number = Incarnation(number);
        let order = ToLocal::Restore {
            generation: Generation(number.0),
            regions: None,
            from: Some(ImageId::Checkpoint(Epoch(1))),
            ranks: vec![(Rank(0), number), (Rank(1), number)],
            moved: vec![moved.clone()],
        };
        (LocalInput::Central(order), moved)
    };
    let (first, _) = order(1, 0);
    let retired = LocalInput::Retired(Rank(0), Incarnation(0));
    steps(&mut core, vec![first, retired]);
    let (second, moved) = order(2, 3);
    let effects = steps(&mut core, vec![second]);
    let taken_in = LocalEffect::TakeIn(moved, Some(ImageId::Checkpoint(Epoch(1))));
    assert!(effects.contains(&taken_in), "{effects:?}");
}
