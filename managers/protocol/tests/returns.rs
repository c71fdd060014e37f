//! Ranks that come back: where, when their orders are given, and what counts for them then.

mod central_steps;
mod moving_ranks;
mod returning_ranks;

use central_steps::{at, imaged as all_imaged, instance, killed, records, register, step};
use moving_ranks::{imaged, on_message, recorded, registered};
use rejoin_channel_table::{Epoch, Generation, ImageId, Incarnation, Rank};
use rejoin_managers_protocol::central::{
    Central, CentralEffect, CentralInput, Event, HostIndex, Job, Leases, Record, Return,
};
use rejoin_managers_protocol::interval::Interval;
use rejoin_managers_protocol::manager_messages::{
    Cause, End, FileMessage, HostMessage, ImageMessage, ImageOrder, MovedRank, ProcessInstance,
    ProcessMessage, Report, Stage, ToCentral, ToLocal,
};
use returning_ranks::{
    FENCE, SPARE, continues, ends, groups, moved, orders, process, request_move, running_on,
    stored_on, why,
};

/// The second spare host.
const SECOND: HostIndex = 3;

/// This job with a second spare host.
fn four_hosts(job: Job) -> Job {
    let hosts = vec!["a".into(), "b".into(), "spare".into(), "second".into()];
    let leases = job.leases.map(|leases| Leases {
        hosts: vec![0, 1, SPARE, SECOND],
        ..leases
    });
    Job {
        hosts,
        slots: vec![2, 2, 1, 1],
        leases,
        ..job
    }
}

/// That job without message logging: all ranks come back together.
fn one_group() -> Job {
    Job {
        log_groups: Vec::new(),
        ..groups()
    }
}

fn host_ends(central: &mut Central, host: HostIndex, millis: u64) -> Vec<CentralEffect> {
    step(central, at(millis), CentralInput::HostEnded(host, why()))
}

fn said(message: ProcessMessage) -> ToCentral {
    ToCentral::Process(message)
}

fn not_started(instance: ProcessInstance) -> ToCentral {
    let why = "its image is gone".into();
    let cause = Cause::NotStarted { why };
    said(ProcessMessage::Failed {
        instance,
        pid: 12,
        cause,
    })
}

fn stored_return(effects: &[CentralEffect]) -> Return {
    let back = |record| match record {
        Record::Return(back) => Some(*back),
        _ => None,
    };
    let back = records(effects).into_iter().find_map(back);
    back.expect("a return is stored")
}

fn requests(effects: &[CentralEffect], epoch: u32) -> bool {
    records(effects).contains(&Record::Requested {
        epoch: Epoch(epoch),
    })
}

/// How long recoveries took that are reported, in nanoseconds.
fn recovered(effects: &[CentralEffect]) -> Vec<u64> {
    let took = effects.iter().filter_map(|effect| match effect {
        CentralEffect::Event(Event::Recovered { took, .. }) => Some(*took),
        _ => None,
    });
    took.collect()
}

fn report() -> ToCentral {
    ToCentral::Report(Box::new(Report {
        generation: Some(Generation(0)),
        signalled: None,
        lacks_table: false,
        ranks: Vec::new(),
        loads: Vec::new(),
        exits: Vec::new(),
    }))
}

/// Whether hosts get orders after the record of a return only.
fn is_stored_first(effects: &[CentralEffect]) -> bool {
    let is_record =
        |effect: &CentralEffect| matches!(effect, CentralEffect::Persist(Record::Return(_)));
    let is_order = |effect: &CentralEffect| matches!(effect, CentralEffect::Send(..));
    let record = effects.iter().position(is_record);
    let order = effects.iter().position(is_order);
    record.is_some() && order.is_some() && record < order
}

#[test]
fn a_return_is_stored_before_the_host_that_a_rank_leaves_knows_of_it() {
    for job in [groups(), one_group()] {
        let mut central = moved(job.clone());
        let back = ends(&mut central, SPARE, process(1, 1));
        assert!(is_stored_first(&back), "{back:?}");
        let mut central = moved(job);
        host_ends(&mut central, 0, 100);
        let back = continues(&mut central, 101);
        assert!(is_stored_first(&back), "{back:?}");
    }
}

/// The files of the rank are on its first host, which is lost after the rank has left it.
#[test]
fn a_rank_that_has_lost_both_its_hosts_comes_to_one_that_had_no_ranks() {
    for job in [groups(), one_group()] {
        let mut central = moved(four_hosts(job));
        let lost = host_ends(&mut central, 1, 100);
        assert!(requests(&lost, 2), "its file has one copy left: {lost:?}");
        host_ends(&mut central, SPARE, 101);
        let decided = continues(&mut central, 102);
        let mut ordered = orders(&decided);
        ordered.retain(|order| order.1 == 1);
        assert_eq!(ordered, [(SECOND, 1, 2)], "{decided:?}");
    }
}

/// The rank runs on a host that is not lost, and its file was on one that was lost before.
#[test]
fn a_rank_without_a_host_for_its_file_comes_to_one_that_had_no_ranks() {
    let mut central = moved(four_hosts(one_group()));
    host_ends(&mut central, 1, 100);
    host_ends(&mut central, 0, 101);
    let decided = continues(&mut central, 102);
    assert_eq!(
        stored_return(&decided).placement.map(|p| p.hosts),
        Some(vec![SPARE, SECOND])
    );
    assert_eq!(orders(&decided), [(SPARE, 0, 1)]);
    let instance = process(1, 1);
    let left = CentralInput::Local(SPARE, said(ProcessMessage::Vacated { instance }));
    let released = step(&mut central, at(103), left);
    assert_eq!(orders(&released), [(SECOND, 1, 2)]);
}

/// The rank has moved away from the host that has its file, and returns to it.
#[test]
fn a_rank_that_returns_to_its_files_waits_for_the_lease_of_the_lost_host() {
    for job in [groups(), one_group()] {
        let mut central = moved(job);
        let renewal = ToCentral::Host(HostMessage::Renew { number: 1 });
        on_message(&mut central, SPARE, renewal);
        step(&mut central, at(100), CentralInput::HostGone(SPARE, why()));
        let mut early = continues(&mut central, 101);
        early.extend(step(&mut central, at(FENCE - 1), CentralInput::Tick));
        assert!(!orders(&early).contains(&(1, 1, 2)), "{early:?}");
        let is_replaced = |effect: &CentralEffect| match effect {
            CentralEffect::Event(Event::HostReplaced { name, to, .. }) => name != to,
            _ => false,
        };
        assert!(early.iter().any(is_replaced), "by the host of the files");
        let due = step(&mut central, at(FENCE), CentralInput::Tick);
        assert_eq!(orders(&due), [(1, 1, 2)]);
    }
}

/// The rank's file is on a partner host only. Later another host is lost, and later still the rank
/// ends.
#[test]
fn a_rank_that_stands_while_others_return_still_comes_from_the_file_of_another_host() {
    let mut central = running_on(groups());
    host_ends(&mut central, 1, 100);
    continues(&mut central, 101);
    on_message(&mut central, SPARE, registered(process(1, 1)));
    host_ends(&mut central, 0, 200);
    let back = stored_return(&continues(&mut central, 201));
    assert_eq!(back.ranks, [(Rank(0), Incarnation(1))]);
    on_message(&mut central, SPARE, registered(process(0, 1)));
    let ended = ends(&mut central, SPARE, process(1, 1));
    let moved = ended.iter().find_map(|effect| match effect {
        CentralEffect::Send(SPARE, ToLocal::Restore { moved, .. }) => Some(moved.clone()),
        _ => None,
    });
    let from_copy = MovedRank {
        rank: Rank(1),
        holder: Some(0),
        others: Vec::new(),
    };
    assert_eq!(moved, Some(vec![from_copy]), "{ended:?}");
}

#[test]
fn a_rank_that_returns_with_all_others_still_comes_from_the_file_of_another_host() {
    let mut central = running_on(one_group());
    host_ends(&mut central, 1, 100);
    continues(&mut central, 101);
    host_ends(&mut central, 0, 102);
    let placement = stored_return(&continues(&mut central, 103)).placement;
    let moved = placement.map(|placement| placement.moved).expect("a place");
    let ranks: Vec<u32> = moved.iter().map(|one| one.rank.0).collect();
    assert_eq!(ranks, [0, 1]);
}

/// The first rank has come back from a file that lacks messages which the second one needs.
#[test]
fn a_group_comes_back_beside_one_that_has_lost_its_host() {
    let mut central = running_on(Job {
        files_lack: true,
        ..groups()
    });
    step(&mut central, at(50), CentralInput::Checkpoint);
    for (host, rank) in [(0, 0), (1, 1)] {
        on_message(&mut central, host, imaged(rank, 2));
    }
    ends(&mut central, 0, process(0, 0));
    on_message(&mut central, 0, registered(process(0, 1)));
    host_ends(&mut central, 1, 100);
    let back = stored_return(&continues(&mut central, 101));
    let both = [(Rank(0), Incarnation(2)), (Rank(1), Incarnation(1))];
    assert_eq!(back.ranks, both);
}

#[test]
fn a_move_ends_when_all_ranks_return_without_a_host() {
    let mut central = running_on(one_group());
    request_move(&mut central);
    host_ends(&mut central, 0, 100);
    let decided = continues(&mut central, 101);
    let is_over =
        |effect: &CentralEffect| matches!(effect, CentralEffect::Event(Event::MovesOver { .. }));
    assert!(decided.iter().any(is_over), "{decided:?}");
}

#[test]
fn the_ranks_of_a_group_start_when_all_of_them_have_returned() {
    let (mut central, _) = recorded(Job {
        log_groups: vec![0, 0],
        ..moving_ranks::three_hosts()
    });
    let failed = killed(process(0, 0), 9, Stage::Registered);
    let effects = step(&mut central, at(1), failed);
    assert_eq!(orders(&effects), [(0, 0, 1), (1, 1, 1)]);
    let starts = |effects: &[CentralEffect]| {
        let starts = effects.iter().filter_map(|effect| match effect {
            CentralEffect::Send(host, ToLocal::Start { .. }) => Some(*host),
            _ => None,
        });
        starts.collect::<Vec<HostIndex>>()
    };
    let first = on_message(&mut central, 0, registered(process(0, 1)));
    assert_eq!((starts(&first), recovered(&first).len()), (vec![], 0));
    let second = on_message(&mut central, 1, registered(process(1, 1)));
    assert_eq!((starts(&second), recovered(&second).len()), (vec![0, 1], 2));
}

/// The image that the rank took in `MPI_Finalize` is gone, so the rank comes back from before that.
#[test]
fn ranks_take_a_last_checkpoint_again_after_a_group_has_come_back() {
    let mut central = running_on(groups());
    let finalizing = |instance| said(ProcessMessage::Finalizing { instance });
    on_message(&mut central, 0, finalizing(process(0, 0)));
    let asked = on_message(&mut central, 1, finalizing(process(1, 0)));
    assert!(requests(&asked, 2), "{asked:?}");
    on_message(&mut central, 1, imaged(1, 2));
    ends(&mut central, 1, process(1, 0));
    on_message(&mut central, 0, imaged(0, 2));
    assert_eq!(
        central.view().committed.map(|(epoch, _)| epoch),
        Some(Epoch(2))
    );
    on_message(&mut central, 1, not_started(process(1, 1)));
    on_message(&mut central, 1, registered(process(1, 2)));
    let again = on_message(&mut central, 1, finalizing(process(1, 2)));
    assert!(requests(&again, 3), "{again:?}");
}

/// One rank ends, another can not be restored, and the first ends once more.
#[test]
fn a_rank_that_could_not_be_restored_is_tried_again_in_the_next_rollback() {
    let mut central = central_steps::running();
    ends(&mut central, 0, instance(0, 0));
    on_message(&mut central, 0, not_started(instance(1, 1)));
    step(
        &mut central,
        at(2),
        killed(instance(0, 1), 9, Stage::Registered),
    );
    let status = ProcessMessage::ExitStatus {
        instance: instance(0, 0),
        pid: 10,
        cause: Cause::Ended {
            end: End::Signaled(9),
            stage: Stage::Registered,
        },
    };
    on_message(&mut central, 0, said(status));
    assert_eq!(central.verdict(), None);
    assert_eq!(central.view().generation, Generation(2));
}

/// Only one group has an image when the other one dies. The request for it was given up before.
#[test]
fn hosts_drop_the_images_of_groups_when_the_job_begins_anew() {
    let mut central = Central::new(Job {
        log_groups: vec![0, 1],
        ..moving_ranks::three_hosts()
    });
    step(&mut central, at(0), CentralInput::Begin);
    for (host, rank) in [(0, 0), (1, 1)] {
        on_message(&mut central, host, registered(process(rank, 0)));
    }
    on_message(&mut central, 1, imaged(1, 1));
    let refused = ToCentral::Image(ImageMessage::NotTaken {
        instance: process(0, 0),
        image: ImageId::Checkpoint(Epoch(1)),
        why: "no memory".into(),
        outlives: false,
    });
    on_message(&mut central, 0, refused);
    ends(&mut central, 1, process(1, 0));
    let anew = ends(&mut central, 0, process(0, 0));
    assert_eq!(stored_return(&anew).from, None);
    let drops = |effect: &CentralEffect| {
        matches!(effect, CentralEffect::Send(1, ToLocal::Image(ImageOrder::Commit { generation, epochs, abandoned }))
            if *generation == Generation(1) && epochs.memory.is_none() && *abandoned == Epoch(1))
    };
    assert!(anew.iter().any(drops), "{anew:?}");
}

#[test]
fn the_next_central_manager_knows_since_when_a_recovery_has_lasted() {
    let job = moving_ranks::three_hosts;
    let (mut central, mut stored) = recorded(job());
    let failed = killed(process(0, 0), 9, Stage::Registered);
    stored.extend(records(&step(&mut central, at(5), failed)));
    let mut next = Central::resume(job(), stored);
    step(&mut next, at(20), CentralInput::Begin);
    let mut effects = Vec::new();
    for host in [0, 1] {
        effects.extend(step(&mut next, at(20), CentralInput::Local(host, report())));
    }
    for (host, rank) in [(0, 0), (1, 1)] {
        let back = CentralInput::Local(host, registered(instance(rank, 1)));
        effects.extend(step(&mut next, at(35), back));
    }
    assert_eq!(recovered(&effects), [30_000_000]);
}

/// The launch continues from files. A rank dies before all are back.
#[test]
fn groups_have_the_checkpoint_from_which_all_come_back() {
    let mut central = Central::new(Job {
        log_groups: vec![0, 1],
        from: Some(Epoch(5)),
        requested: Epoch(5),
        ..moving_ranks::three_hosts()
    });
    step(&mut central, at(0), CentralInput::Begin);
    on_message(&mut central, 1, registered(instance(1, 0)));
    let failed = killed(instance(0, 0), 9, Stage::Registered);
    let effects = step(&mut central, at(3), failed);
    assert_eq!(stored_return(&effects).from, Some(Epoch(5)));
    let commits = records(&effects)
        .into_iter()
        .filter_map(|record| match record {
            Record::GroupCommitted { rank, epoch, .. } => Some((rank.0, epoch.0)),
            _ => None,
        });
    assert_eq!(commits.collect::<Vec<_>>(), [(0, 5), (1, 5)]);
    for (host, rank) in [(0, 0), (1, 1)] {
        on_message(&mut central, host, registered(instance(rank, 1)));
    }
    let back = stored_return(&ends(&mut central, 1, instance(1, 1)));
    assert_eq!(back.ranks, [(Rank(1), Incarnation(2))]);
}

/// A file was not whole yet when its rank died.
#[test]
fn files_that_a_failure_has_interrupted_are_written_after_the_recovery() {
    let mut central = central_steps::running_with(Interval::Auto);
    all_imaged(&mut central, at(1), 1, 0);
    step(
        &mut central,
        at(2),
        killed(instance(0, 0), 9, Stage::Registered),
    );
    let interrupted = FileMessage::NotStored {
        rank: Rank(0),
        image: ImageId::Checkpoint(Epoch(1)),
        why: None,
    };
    on_message(&mut central, 0, ToCentral::File(interrupted));
    register(&mut central, instance(0, 1));
    let back = register(&mut central, instance(1, 1));
    let writes = |effect: &CentralEffect| {
        matches!(effect, CentralEffect::Send(_, ToLocal::Image(ImageOrder::Commit { epochs, .. }))
            if epochs.writing == Some(Epoch(1)))
    };
    assert!(back.iter().any(writes), "{back:?}");
}

/// A host is lost while central is started again, before it is decided where its ranks return.
#[test]
fn no_order_is_given_to_a_lost_host() {
    let (mut central, mut stored) = stored_on(one_group());
    let failed = killed(process(0, 0), 9, Stage::Registered);
    stored.extend(records(&step(&mut central, at(5), failed)));
    let mut next = Central::resume(one_group(), stored);
    step(&mut next, at(20), CentralInput::Begin);
    step(&mut next, at(20), CentralInput::Local(1, report()));
    host_ends(&mut next, 1, 21);
    let answer = CentralInput::Local(0, report());
    let effects = step(&mut next, at(22), answer);
    assert_eq!(orders(&effects), [(0, 0, 1)]);
}
