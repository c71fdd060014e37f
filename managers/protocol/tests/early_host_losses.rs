//! Hosts that are lost before the first checkpoint, or while central is started again.

mod central_steps;

use central_steps::{FENCE, at, instance, records, step};
use rejoin_channel_table::{BusinessCard, Epoch, Generation, ImageId, Incarnation, Rank};
use rejoin_managers_protocol::central::{
    Central, CentralEffect, CentralInput, Event, Failover, HostIndex, Job, Record, Return,
    ReturnScope, StoredState,
};
use rejoin_managers_protocol::manager_messages::{
    FileMessage, HostMessage, ImageMessage, ProcessMessage, RankReport, Report, Stage, ToCentral,
    ToLocal,
};
use rejoin_managers_protocol::verdict::Verdict;
use rejoin_wire::{ImageCost, Limits};

/// Milliseconds of silence after which a host is lost in any case.
const PATIENCE: u64 = 30_000;

fn three_hosts() -> Job {
    central_steps::three_hosts(PATIENCE)
}

fn on_message(central: &mut Central, host: HostIndex, message: ToCentral) -> Vec<CentralEffect> {
    step(central, at(0), CentralInput::Local(host, message))
}

/// Both hosts have leases, and have started their ranks.
fn started(job: Job) -> (Central, Vec<Record>) {
    let mut central = Central::new(job);
    let mut effects = step(&mut central, at(0), CentralInput::Begin);
    for (host, rank) in [(0, 0), (1, 1)] {
        effects.extend(on_message(
            &mut central,
            host,
            ToCentral::Host(HostMessage::Renew { number: 0 }),
        ));
        let spawned = ToCentral::Process(ProcessMessage::Spawned {
            instance: instance(rank, 0),
            pid: 10 + rank,
        });
        effects.extend(on_message(&mut central, host, spawned));
    }
    (central, records(&effects))
}

fn register(central: &mut Central, host: HostIndex, rank: u32, number: u32) -> Vec<CentralEffect> {
    let registered = ToCentral::Process(ProcessMessage::Registered {
        instance: instance(rank, number),
        pid: 10 + rank,
        card: BusinessCard::default(),
        limits: Limits::default(),
    });
    on_message(central, host, registered)
}

/// Both ranks have registered, and the first checkpoint is under way.
fn running(job: Job) -> (Central, Vec<Record>) {
    let (mut central, mut stored) = started(job);
    for (host, rank) in [(0, 0), (1, 1)] {
        stored.extend(records(&register(&mut central, host, rank, 0)));
    }
    (central, stored)
}

/// Both ranks take their images of the first checkpoint.
fn take_images(central: &mut Central) -> Vec<CentralEffect> {
    let mut effects = Vec::new();
    for (host, rank) in [(0, 0), (1, 1)] {
        let imaged = ToCentral::Image(ImageMessage::Taken {
            instance: instance(rank, 0),
            image: ImageId::Checkpoint(Epoch(1)),
            cost: ImageCost::default(),
        });
        effects.extend(on_message(central, host, imaged));
    }
    effects
}

/// Both ranks take their images of the first checkpoint, which go to files and are copied.
fn into_files(central: &mut Central) -> Vec<CentralEffect> {
    let image = ImageId::Checkpoint(Epoch(1));
    let mut effects = take_images(central);
    for (host, rank) in [(0, Rank(0)), (1, Rank(1))] {
        effects.extend(on_message(
            central,
            host,
            ToCentral::File(FileMessage::Stored { rank, image }),
        ));
    }
    for (host, rank) in [(0, Rank(0)), (1, Rank(1))] {
        let epoch = Epoch(1);
        effects.extend(on_message(
            central,
            1 - host,
            ToCentral::File(FileMessage::Copied { rank, epoch }),
        ));
    }
    assert_eq!(central.view().on_partners.map(|(e, _)| e), Some(Epoch(1)));
    effects
}

/// The return that is stored.
fn stored_return(effects: &[CentralEffect]) -> Option<Return> {
    let back = |record| match record {
        Record::Return(back) => Some(*back),
        _ => None,
    };
    records(effects).into_iter().find_map(back)
}

/// The hosts that are ordered to make processes, and from which image.
fn orders(effects: &[CentralEffect]) -> Vec<(HostIndex, Option<Epoch>)> {
    let order = |effect: &CentralEffect| match effect {
        CentralEffect::Send(host, ToLocal::Spawn { from, .. }) => Some((*host, *from)),
        CentralEffect::Send(host, ToLocal::Restore { from, .. }) => {
            Some((*host, from.and_then(ImageId::checkpoint)))
        }
        _ => None,
    };
    effects.iter().filter_map(order).collect()
}

fn gone() -> CentralInput {
    CentralInput::HostGone(1, "its local manager does not answer".into())
}

/// The job begins anew on hosts a and spare: a at once, the spare one behind the lease of host b.
fn begins_anew(central: &mut Central) {
    let effects = step(central, at(100), gone());
    let back = stored_return(&effects).expect("a return");
    assert_eq!((back.scope, back.from), (ReturnScope::All, None));
    assert_eq!(back.generation, Generation(1));
    let placement = back.placement.expect("other places");
    assert_eq!((placement.hosts, placement.lost), (vec![0, 2], vec![1]));
    assert_eq!(orders(&effects), [(0, None)]);
    let replaced = |effect: &CentralEffect| {
        matches!(effect, CentralEffect::Event(Event::HostReplaced { name, to, epoch: None, .. })
            if name == "b" && to == "spare")
    };
    assert!(effects.iter().any(replaced), "{effects:?}");
    let effects = step(central, at(FENCE - 1), CentralInput::Tick);
    assert_eq!(orders(&effects), []);
    let effects = step(central, at(FENCE), CentralInput::Tick);
    assert_eq!(orders(&effects), [(2, None)]);
    for (host, rank) in [(0, 0), (2, 1)] {
        let mut card = register_anew(central, host, rank);
        card.retain(|effect| matches!(effect, CentralEffect::Persist(Record::Started { .. })));
        assert_eq!(card.len(), usize::from(rank == 1));
    }
    assert_eq!(central.verdict(), None);
}

fn register_anew(central: &mut Central, host: HostIndex, rank: u32) -> Vec<CentralEffect> {
    let mut instance = instance(rank, 1);
    instance.generation = Generation(1);
    let registered = ToCentral::Process(ProcessMessage::Registered {
        instance,
        pid: 20 + rank,
        card: BusinessCard::default(),
        limits: Limits::default(),
    });
    on_message(central, host, registered)
}

#[test]
fn a_job_begins_anew_that_loses_a_host_before_its_ranks_have_met() {
    begins_anew(&mut started(three_hosts()).0);
}

#[test]
fn a_job_begins_anew_that_loses_a_host_while_its_first_checkpoint_is_under_way() {
    begins_anew(&mut running(three_hosts()).0);
}

#[test]
fn groups_begin_anew_together() {
    let log_groups = vec![0, 1];
    begins_anew(
        &mut running(Job {
            log_groups,
            ..three_hosts()
        })
        .0,
    );
}

/// The job loses host b, and ends because nothing is stored from which it could continue.
fn ends_without_states(mut central: Central) {
    let effects = step(&mut central, at(100), gone());
    let asks = |effect: &CentralEffect| matches!(effect, CentralEffect::RequestStored { .. });
    assert!(effects.iter().any(asks), "{effects:?}");
    step(&mut central, at(101), CentralInput::Stored(Vec::new()));
    assert!(matches!(central.verdict(), Some(Verdict::HostLost { .. })));
}

#[test]
fn a_host_that_has_started_no_rank_ends_the_job() {
    let mut central = Central::new(three_hosts());
    step(&mut central, at(0), CentralInput::Begin);
    ends_without_states(central);
}

#[test]
fn a_job_that_can_not_take_ranks_in_ends() {
    let (central, _) = started(Job {
        failover: Some(Failover::default()),
        ..three_hosts()
    });
    ends_without_states(central);
}

#[test]
fn what_ranks_have_stored_is_not_thrown_away_for_a_new_beginning() {
    let (mut central, _) = running(three_hosts());
    take_images(&mut central);
    // The images of host b are lost with it, and the job has computed since.
    ends_without_states(central);
}

#[test]
fn a_start_with_registered_memory_that_loses_another_host_is_begun_again() {
    let (mut central, _) = running(three_hosts());
    take_images(&mut central);
    for (number, (lost, hosts)) in [(1, vec![0, 2]), (2, vec![0, 0])].into_iter().enumerate() {
        let now = 100 + 10 * number as u64;
        let gone = CentralInput::HostGone(lost, "it is silent".into());
        let effects = step(&mut central, at(now), gone);
        let asks = |effect: &CentralEffect| matches!(effect, CentralEffect::RequestStored { .. });
        assert!(effects.iter().any(asks), "{effects:?}");
        let stored = CentralInput::Stored(vec![StoredState::Regions(Epoch(7))]);
        let effects = step(&mut central, at(now + 1), stored);
        let back = stored_return(&effects).expect("a return");
        assert_eq!((back.from, back.regions), (None, Some(Epoch(7))));
        assert_eq!(back.generation, Generation(number as u32 + 1));
        assert_eq!(back.placement.expect("other places").hosts, hosts);
    }
    let effects = step(&mut central, at(2 * FENCE), CentralInput::Tick);
    assert!(
        orders(&effects).iter().all(|(host, _)| *host == 0),
        "{effects:?}"
    );
    assert_eq!(central.verdict(), None);
}

fn report(rank: u32, incarnation: u32) -> ToCentral {
    ToCentral::Report(Box::new(Report {
        generation: Some(Generation(0)),
        signalled: None,
        lacks_table: false,
        ranks: vec![RankReport {
            rank: Rank(rank),
            incarnation: Incarnation(incarnation),
            stage: Stage::Registered,
            images: vec![Epoch(1)],
            ..central_steps::computing(rank)
        }],
        loads: Vec::new(),
        exits: Vec::new(),
    }))
}

#[test]
fn a_central_manager_that_is_started_again_waits_for_no_host_that_may_be_replaced() {
    let (mut central, mut stored) = running(three_hosts());
    stored.extend(records(&into_files(&mut central)));
    let mut next = Central::resume(three_hosts(), stored);
    step(&mut next, at(500), CentralInput::Begin);
    let answer = CentralInput::Local(0, report(0, 0));
    assert_eq!(orders(&step(&mut next, at(500), answer)), []);
    // Host b is silent, and its lease ends.
    step(
        &mut next,
        at(500 + FENCE - 10),
        CentralInput::Local(0, ToCentral::Host(HostMessage::Renew { number: 1 })),
    );
    let effects = step(&mut next, at(500 + FENCE), CentralInput::Tick);
    let asks = |effect: &CentralEffect| matches!(effect, CentralEffect::RequestStored { .. });
    assert!(effects.iter().any(asks), "{effects:?}");
    let stored = || CentralInput::Stored(vec![StoredState::Images(Epoch(1))]);
    let mut effects = step(&mut next, at(500 + FENCE), stored());
    assert!(effects.contains(&CentralEffect::Drop(1)), "{effects:?}");
    let asked = effects.iter().filter(|effect| asks(effect)).count();
    assert!(asked > 0, "{effects:?}");
    for _ in 0..asked {
        effects.extend(step(&mut next, at(500 + FENCE), stored()));
    }
    let mut hosts: Vec<HostIndex> = orders(&effects).iter().map(|(host, _)| *host).collect();
    hosts.sort_unstable();
    assert_eq!(hosts, [0, 2], "{effects:?}");
    assert_eq!(next.verdict(), None);
}
