//! A central manager's core of two ranks on one host, step by step.
#![allow(dead_code, reason = "each test file uses a part")]

use rejoin_channel_table::{BusinessCard, Epoch, Generation, ImageId, Incarnation, Rank};
use rejoin_managers_protocol::central::{
    Central, CentralEffect, CentralInput, Event, Failover, Job, Leases, Record, Recovery,
};
use rejoin_managers_protocol::checkpoint::Interval;
use rejoin_managers_protocol::lease::Terms;
use rejoin_managers_protocol::manager_messages::{
    Cause, End, FileMessage, ImageMessage, ProcessInstance, ProcessMessage, RankReport, Report,
    Stage, Time, ToCentral,
};
use rejoin_managers_protocol::region_commits::RegionWait;
use rejoin_wire::{ImageCost, Limits};

/// Ranks of the job.
pub const RANKS: u32 = 2;

/// Two ranks on one host.
pub fn job() -> Job {
    Job {
        hosts: vec!["a".into()],
        placement: vec![0; RANKS as usize],
        recovery: Some(Recovery {
            interval: Interval::Asked,
            ..Recovery::default()
        }),
        ..Job::default()
    }
}

/// A process of a rank, in the generation of its number.
pub fn instance(rank: u32, number: u32) -> ProcessInstance {
    ProcessInstance {
        generation: Generation(number),
        rank: Rank(rank),
        incarnation: Incarnation(number),
    }
}

/// A time in milliseconds.
pub fn at(millis: u64) -> Time {
    Time(0).plus_millis(millis)
}

/// One step of central.
pub fn step(central: &mut Central, now: Time, input: CentralInput) -> Vec<CentralEffect> {
    let mut effects = Vec::new();
    central.step(now, input, &mut effects);
    effects
}

/// A message of the host.
pub fn said(message: ToCentral) -> CentralInput {
    CentralInput::Local(0, message)
}

/// A process registers with central.
pub fn register(central: &mut Central, process: ProcessInstance) -> Vec<CentralEffect> {
    let registered = ToCentral::Process(ProcessMessage::Registered {
        instance: process,
        pid: 10 + process.rank.0,
        card: BusinessCard::default(),
        limits: Limits::default(),
    });
    step(central, at(0), said(registered))
}

/// The host reports the end of a process by a signal.
pub fn killed(process: ProcessInstance, signal: i32, stage: Stage) -> CentralInput {
    said(ToCentral::Process(ProcessMessage::Failed {
        instance: process,
        pid: 10 + process.rank.0,
        cause: Cause::Ended {
            end: End::Signaled(signal),
            stage,
        },
    }))
}

/// A job that runs and has a checkpoint.
pub fn running() -> Central {
    let mut central = Central::new(job());
    step(&mut central, at(0), CentralInput::Begin);
    for rank in 0..RANKS {
        register(&mut central, instance(rank, 0));
    }
    let mut committed = false;
    for rank in 0..RANKS {
        let imaged = ToCentral::Image(ImageMessage::Taken {
            instance: instance(rank, 0),
            image: ImageId::Checkpoint(Epoch(1)),
            cost: ImageCost::default(),
        });
        let effects = step(&mut central, at(0), said(imaged));
        let is = |e: &CentralEffect| matches!(e, CentralEffect::Event(Event::Committed { .. }));
        committed |= effects.iter().any(is);
    }
    assert!(committed);
    central
}

/// A running job with these files, whose first checkpoint is requested.
pub fn running_with(files: Interval) -> Central {
    let recovery = job().recovery.map(|recovery| Recovery {
        files: Some(files),
        ..recovery
    });
    let mut central = Central::new(Job { recovery, ..job() });
    step(&mut central, at(0), CentralInput::Begin);
    for rank in 0..RANKS {
        register(&mut central, instance(rank, 0));
    }
    central
}

/// All ranks of a generation report their images of an epoch.
pub fn imaged(central: &mut Central, now: Time, epoch: u32, number: u32) -> Vec<CentralEffect> {
    let report = |rank| {
        ToCentral::Image(ImageMessage::Taken {
            instance: instance(rank, number),
            image: ImageId::Checkpoint(Epoch(epoch)),
            cost: ImageCost::default(),
        })
    };
    let all = (0..RANKS).map(|rank| step(central, now, said(report(rank))));
    all.last().expect("there are ranks")
}

/// The file of a rank is whole.
pub fn stored(central: &mut Central, now: Time, rank: u32, epoch: u32) -> Vec<CentralEffect> {
    let (rank, epoch) = (Rank(rank), Epoch(epoch));
    step(
        central,
        now,
        said(ToCentral::File(FileMessage::Stored {
            rank,
            image: ImageId::Checkpoint(epoch),
        })),
    )
}

/// The report of a rank that computes.
pub fn computing(rank: u32) -> RankReport {
    RankReport {
        rank: Rank(rank),
        incarnation: Incarnation(0),
        stage: Stage::Registered,
        pid: 10 + rank,
        card: Some(BusinessCard::default()),
        limits: Some(Limits::default()),
        waits: false,
        ended: false,
        asked: None,
        regions: RegionWait::default(),
        moves: None,
        images: Vec::new(),
    }
}

/// The report of a host that has all ranks.
pub fn report(rank: impl Fn(u32) -> RankReport) -> Report {
    Report {
        generation: Some(Generation(0)),
        signalled: None,
        lacks_table: false,
        ranks: (0..RANKS).map(rank).collect(),
        loads: Vec::new(),
        exits: Vec::new(),
    }
}

/// Milliseconds from a grant to the moment at which no lease of [`three_hosts`] lasts any more.
pub const FENCE: u64 = 1210;

/// A rank on each of two hosts, and a host without ranks. They copy each other's files.
/// A silent host is lost after `patience` milliseconds.
pub fn three_hosts(patience: u64) -> Job {
    let recovery = job().recovery.map(|recovery| Recovery {
        files: Some(Interval::Auto),
        ..recovery
    });
    Job {
        hosts: vec!["a".into(), "b".into(), "spare".into()],
        placement: vec![0, 1],
        recovery,
        leases: Some(Leases {
            terms: Terms::new(1000, patience),
            hosts: vec![0, 1, 2],
        }),
        failover: Some(Failover {
            takes_in: true,
            ..Failover::default()
        }),
        copies: Some(1),
        ..job()
    }
}

/// What is stored.
pub fn records(effects: &[CentralEffect]) -> Vec<Record> {
    let record = |effect: &CentralEffect| match effect {
        CentralEffect::Persist(record) => Some(record.clone()),
        _ => None,
    };
    effects.iter().filter_map(record).collect()
}
