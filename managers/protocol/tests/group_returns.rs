//! Ranks of recovery groups that come back alone, also while central is started again.

mod central_steps;
mod moving_ranks;

use central_steps::{at, computing, instance, step};
use moving_ranks::{imaged, on_message, recorded, records, registered, three_hosts};
use rejoin_channel_table::{Epoch, Generation, ImageId, Incarnation, Rank};
use rejoin_managers_protocol::central::{
    Central, CentralEffect, CentralInput, Course, HostIndex, ImageWork, Job, RankPlacement, Record,
};
use rejoin_managers_protocol::interval::Interval;
use rejoin_managers_protocol::levels::Level;
use rejoin_managers_protocol::manager_messages::{
    Cause, FileMessage, ImageOrder, LogMessage, ProcessInstance, ProcessMessage, RankReport,
    Report, ToCentral, ToLocal,
};
use rejoin_wire::ImageCost;

/// A rank on each of two hosts, each a group.
fn groups() -> Job {
    Job {
        log_groups: vec![0, 1],
        ..three_hosts()
    }
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

/// A rank that was on its way is at its former place by no table: whoever took the place for that
/// of the new process would not look for another one.
#[test]
fn the_next_central_manager_takes_no_former_place_for_that_of_a_rank_on_its_way() {
    let (mut central, mut stored) = recorded(groups());
    for rank in [0, 1] {
        let instance = instance(rank, 0);
        let ended = ToCentral::Process(ProcessMessage::ExitDetected { instance, pid: 11 });
        stored.extend(records(&on_message(&mut central, rank as usize, ended)));
    }
    let mut next = Central::resume(groups(), stored);
    let mut effects = step(&mut next, at(2), CentralInput::Begin);
    let back = RankReport {
        incarnation: Incarnation(1),
        images: vec![Epoch(1)],
        ..computing(0)
    };
    effects.extend(on_message(&mut next, 0, report(vec![back])));
    effects.extend(on_message(&mut next, 1, report(Vec::new())));
    effects.extend(on_message(&mut next, 2, report(Vec::new())));
    let tables = effects.iter().filter_map(|effect| match effect {
        CentralEffect::Send(_, ToLocal::Start { table, .. }) => Some(table),
        _ => None,
    });
    let known = tables.map(|table| [table[0].0, table[1].0]);
    let known: Vec<[Incarnation; 2]> = known.collect();
    assert!(!known.is_empty(), "{effects:?}");
    for ranks in known {
        assert_eq!(ranks, [Incarnation(1), Incarnation(0)]);
    }
}

fn committed(epoch: u32, level: Level) -> Record {
    Record::Committed {
        epoch: Epoch(epoch),
        level,
        at: at(1),
        cost: ImageCost::default(),
    }
}

/// What is stored of a job in which rank 1 has come back from the first checkpoint. Before that,
/// these checkpoints were committed, and its ranks are on these hosts since.
fn stored_return(job: Job, before: &[Record], hosts: Option<Vec<HostIndex>>) -> Vec<Record> {
    let (mut central, mut stored) = recorded(job);
    stored.extend_from_slice(before);
    let instance = instance(1, 0);
    let ended = ToCentral::Process(ProcessMessage::ExitDetected { instance, pid: 11 });
    let mut returns = records(&on_message(&mut central, 1, ended));
    let back = returns.iter_mut().find_map(|record| match record {
        Record::Return(back) => Some(&mut back.placement),
        _ => None,
    });
    let placed = hosts.map(|hosts| RankPlacement {
        hosts,
        lost: Vec::new(),
        moved: Vec::new(),
        from: Some(Epoch(1)),
    });
    *back.expect("it comes back") = placed.map(Box::new);
    stored.extend(returns);
    stored
}

/// What a rank does after its return gets higher numbers than what it did before, and comes earlier
/// in its program. If images of that time counted, peers would drop what it has yet to get.
#[test]
fn the_next_central_manager_knows_which_images_a_return_has_voided() {
    let before = [committed(2, Level::Memory), committed(2, Level::File)];
    let stored = stored_return(groups(), &before, None);
    let next = Central::resume(groups(), stored);
    let images: Vec<Option<Epoch>> = next.ranks().map(|rank| rank.image).collect();
    assert_eq!(images[Rank(0).index()], Some(Epoch(2)));
    assert_eq!(images[Rank(1).index()], None);
}

#[test]
fn the_next_central_manager_knows_that_copies_begin_anew() {
    let with_copies = |placement| Job {
        copies: Some(1),
        placement,
        ..groups()
    };
    let levels = [Level::File, Level::Partner].map(|level| committed(1, level));
    let on_partners = |job: Job, hosts| {
        let stored = stored_return(job.clone(), &levels, hosts);
        Central::resume(job, stored).view().on_partners
    };
    let known = on_partners(with_copies(vec![0, 1]), None);
    assert_eq!(known.map(|(epoch, _)| epoch), Some(Epoch(1)));
    // They were on one host, so none had copies of the other's files.
    let known = on_partners(with_copies(vec![1, 1]), Some(vec![0, 1]));
    assert_eq!(known, None);
}

/// The hosts that learn that the image of the first checkpoint counts for rank 1.
fn told_of_commit(effects: &[CentralEffect]) -> Vec<HostIndex> {
    let told = effects.iter().filter_map(|effect| match effect {
        CentralEffect::Send(host, ToLocal::Image(ImageOrder::CommitGroup { ranks, epoch, .. }))
            if ranks.contains(&Rank(1)) && *epoch == Epoch(1) =>
        {
            Some(*host)
        }
        _ => None,
    });
    told.collect()
}

fn back(rank: u32, incarnation: u32) -> ToCentral {
    registered(ProcessInstance {
        incarnation: Incarnation(incarnation),
        ..instance(rank, 0)
    })
}

#[test]
fn a_host_learns_with_the_order_and_at_the_return_which_image_of_a_group_counts() {
    let (mut central, _) = recorded(groups());
    let instance = instance(1, 0);
    let ended = ToCentral::Process(ProcessMessage::ExitDetected { instance, pid: 11 });
    let effects = on_message(&mut central, 1, ended);
    let is_order =
        |effect: &CentralEffect| matches!(effect, CentralEffect::Send(1, ToLocal::Restore { .. }));
    let order = effects.iter().position(is_order).expect("an order");
    assert_eq!(told_of_commit(&effects[order..]), [1]);
    let effects = on_message(&mut central, 1, back(1, 1));
    assert_eq!(told_of_commit(&effects), [1]);
}

#[test]
fn a_checkpoint_that_waits_for_a_group_which_comes_back_is_void_and_another_one_follows() {
    let (mut central, _) = recorded(groups());
    let requested = |effects: &[CentralEffect]| {
        let stored = records(effects).into_iter();
        let epochs = stored.filter_map(|record| match record {
            Record::Requested { epoch } => Some(epoch),
            _ => None,
        });
        epochs.collect::<Vec<Epoch>>()
    };
    let asked = step(&mut central, at(1), CentralInput::Checkpoint);
    assert_eq!(requested(&asked), [Epoch(2)]);
    on_message(&mut central, 0, imaged(0, 2));
    let instance = instance(1, 0);
    let ended = ToCentral::Process(ProcessMessage::ExitDetected { instance, pid: 11 });
    on_message(&mut central, 1, ended);
    assert_eq!(central.view().pending, None);
    on_message(&mut central, 1, back(1, 1));
    let due = central.deadline().expect("a checkpoint is due");
    let effects = step(&mut central, due, CentralInput::Tick);
    assert_eq!(requested(&effects), [Epoch(3)]);
}

/// The first checkpoint is in files.
fn with_files(mut job: Job) -> Central {
    let recovery = job.recovery.as_mut().expect("it recovers");
    recovery.files = Some(Interval::Asked);
    let (mut central, _) = recorded(job);
    for (host, rank) in [(0, Rank(0)), (1, Rank(1))] {
        let image = ImageId::Checkpoint(Epoch(1));
        on_message(
            &mut central,
            host,
            ToCentral::File(FileMessage::Stored { rank, image }),
        );
    }
    assert!(central.view().in_files.is_some());
    central
}

/// The image is gone that the group had for that checkpoint.
#[test]
fn a_checkpoint_is_void_from_which_a_group_has_fallen_back_to_files() {
    let mut central = with_files(groups());
    step(&mut central, at(1), CentralInput::Checkpoint);
    on_message(&mut central, 1, imaged(1, 2));
    let first = instance(1, 0);
    let ended = ToCentral::Process(ProcessMessage::ExitDetected {
        instance: first,
        pid: 11,
    });
    on_message(&mut central, 1, ended);
    assert_eq!(central.view().pending, Some(Epoch(2)), "it has its image");
    let failed = ToCentral::Process(ProcessMessage::Failed {
        instance: ProcessInstance {
            incarnation: Incarnation(1),
            ..first
        },
        pid: 12,
        cause: Cause::NotStarted {
            why: "its image is gone".into(),
        },
    });
    let effects = on_message(&mut central, 1, failed);
    let from = effects.iter().find_map(|effect| match effect {
        CentralEffect::Send(1, ToLocal::Restore { from, .. }) => *from,
        _ => None,
    });
    assert_eq!(from, Some(ImageId::Checkpoint(Epoch(1))), "{effects:?}");
    assert_eq!(central.view().pending, None);
    on_message(&mut central, 0, imaged(0, 2));
    let committed = central.view().committed;
    assert_eq!(committed.map(|(epoch, _)| epoch), Some(Epoch(1)));
}

/// The first rank's image is gone, so that it comes back from an earlier one: the files of the
/// later one lack messages that it sends.
#[test]
fn a_group_comes_back_from_no_later_files_than_another_one_and_that_is_stored() {
    let mut central = with_files(Job {
        files_lack: true,
        ..groups()
    });
    step(&mut central, at(1), CentralInput::Checkpoint);
    on_message(&mut central, 0, imaged(0, 2));
    on_message(&mut central, 1, imaged(1, 2));
    let work = central.view().progress.map(|progress| progress.work);
    assert_eq!(work, Some(ImageWork::Files(Epoch(2))));
    let ends = |central: &mut Central, rank| {
        let instance = instance(rank, 0);
        on_message(
            central,
            rank as HostIndex,
            ToCentral::Process(ProcessMessage::ExitDetected { instance, pid: 11 }),
        )
    };
    ends(&mut central, 0);
    let failed = ToCentral::Process(ProcessMessage::Failed {
        instance: ProcessInstance {
            incarnation: Incarnation(1),
            ..instance(0, 0)
        },
        pid: 12,
        cause: Cause::NotStarted {
            why: "its image is gone".into(),
        },
    });
    on_message(&mut central, 0, failed);
    on_message(&mut central, 0, back(0, 2));
    let effects = ends(&mut central, 1);
    let from = effects.iter().find_map(|effect| match effect {
        CentralEffect::Send(1, ToLocal::Restore { from, .. }) => *from,
        _ => None,
    });
    assert_eq!(from, Some(ImageId::Checkpoint(Epoch(1))), "{effects:?}");
    let is_stored = |record: &Record| {
        matches!(record, Record::GroupCommitted { rank, epoch, .. }
            if (*rank, *epoch) == (Rank(1), Epoch(1)))
    };
    assert!(records(&effects).iter().any(is_stored), "{effects:?}");
    let images: Vec<Option<Epoch>> = central.ranks().map(|rank| rank.image).collect();
    assert_eq!(images, [Some(Epoch(1)); 2]);
}

/// Only one group has an image when the other one dies.
#[test]
fn a_job_that_begins_anew_knows_no_image_of_before() {
    let mut central = Central::new(groups());
    step(&mut central, at(0), CentralInput::Begin);
    for (host, rank) in [(0, 0), (1, 1)] {
        on_message(&mut central, host, registered(instance(rank, 0)));
    }
    let told = on_message(&mut central, 1, imaged(1, 1));
    assert_eq!(told_of_commit(&told), [1]);
    let starts = |effects: &[CentralEffect]| {
        let starts = effects.iter().filter_map(|effect| match effect {
            CentralEffect::Send(
                _,
                ToLocal::Restore {
                    from: None, ranks, ..
                },
            ) => Some(ranks[0]),
            _ => None,
        });
        starts.collect::<Vec<_>>()
    };
    let first = instance(0, 0);
    let ended = |instance| ToCentral::Process(ProcessMessage::ExitDetected { instance, pid: 11 });
    let effects = on_message(&mut central, 0, ended(first));
    let anew = |number| [0, 1].map(|rank| (Rank(rank), Incarnation(number)));
    assert_eq!(starts(&effects), anew(1));
    for (host, rank) in [(0, 0), (1, 1)] {
        on_message(&mut central, host, registered(instance(rank, 1)));
    }
    let effects = on_message(&mut central, 1, ended(instance(1, 1)));
    assert_eq!(starts(&effects), anew(2));
}

/// The checkpoints from which ranks are restored.
fn restored(effects: &[CentralEffect]) -> Vec<(Rank, Option<ImageId>)> {
    let orders = effects.iter().filter_map(|effect| match effect {
        CentralEffect::Send(_, ToLocal::Restore { from, ranks, .. }) => Some((ranks[0].0, *from)),
        _ => None,
    });
    orders.collect()
}

/// The first rank comes back from a file that lacks messages for the second one, which then comes
/// back from an earlier one.
fn comes_back_beside(has_all: bool) -> Vec<Rank> {
    let mut central = with_files(Job {
        files_lack: true,
        ..groups()
    });
    step(&mut central, at(1), CentralInput::Checkpoint);
    on_message(&mut central, 0, imaged(0, 2));
    on_message(&mut central, 1, imaged(1, 2));
    let ended = |instance| ToCentral::Process(ProcessMessage::ExitDetected { instance, pid: 11 });
    on_message(&mut central, 0, ended(instance(0, 0)));
    on_message(&mut central, 0, back(0, 1));
    let alone = |rank| ProcessInstance {
        incarnation: Incarnation(1),
        ..instance(rank, 0)
    };
    if has_all {
        let instance = alone(0);
        on_message(
            &mut central,
            0,
            ToCentral::Log(LogMessage::Whole { instance }),
        );
    }
    on_message(&mut central, 1, ended(instance(1, 0)));
    let failed = ToCentral::Process(ProcessMessage::Failed {
        instance: alone(1),
        pid: 12,
        cause: Cause::NotStarted {
            why: "its image is gone".into(),
        },
    });
    let orders = restored(&on_message(&mut central, 1, failed));
    let first = Some(ImageId::Checkpoint(Epoch(1)));
    assert!(orders.iter().all(|(_, from)| *from == first), "{orders:?}");
    orders.into_iter().map(|(rank, _)| rank).collect()
}

#[test]
fn a_group_comes_back_beside_another_one_until_it_has_all_messages() {
    assert_eq!(comes_back_beside(false), [Rank(0), Rank(1)]);
    assert_eq!(comes_back_beside(true), [Rank(1)]);
}

#[test]
fn ranks_that_wait_in_finalize_run_while_a_group_comes_back_and_leave_it_later() {
    let (mut central, _) = recorded(groups());
    for (host, rank) in [(0, 0), (1, 1)] {
        let instance = instance(rank, 0);
        on_message(
            &mut central,
            host,
            ToCentral::Process(ProcessMessage::Finalizing { instance }),
        );
    }
    assert_eq!(central.view().course, Course::Finalizing);
    let ended = ToCentral::Process(ProcessMessage::ExitDetected {
        instance: instance(1, 0),
        pid: 11,
    });
    on_message(&mut central, 1, ended);
    assert_eq!(central.view().course, Course::Running);
    on_message(&mut central, 1, back(1, 1));
    let instance = ProcessInstance {
        incarnation: Incarnation(1),
        ..instance(1, 0)
    };
    let effects = on_message(
        &mut central,
        1,
        ToCentral::Process(ProcessMessage::Finalizing { instance }),
    );
    let next = CentralEffect::Persist(Record::Requested { epoch: Epoch(3) });
    assert!(effects.contains(&next), "{effects:?}");
}
