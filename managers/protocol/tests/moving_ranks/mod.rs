//! A central manager's core of ranks that move between hosts, step by step.
#![allow(dead_code, reason = "each test file uses a part")]

pub use crate::central_steps::records;
use crate::central_steps::{at, instance, job, step};
use rejoin_channel_table::{BusinessCard, Epoch, ImageId, MoveNumber, Rank};
use rejoin_managers_protocol::central::{
    Central, CentralEffect, CentralInput, Failover, HostIndex, Job, Record,
};
use rejoin_managers_protocol::manager_messages::{
    FileMessage, ImageMessage, MoveMessage, ProcessInstance, ProcessMessage, RankMoveOrder,
    ToCentral, ToLocal,
};
use rejoin_wire::{ImageCost, Limits};

/// The number of an image of a move, so many after this checkpoint.
pub fn move_number(after: u32, step: u32) -> MoveNumber {
    let after = Epoch(after);
    MoveNumber { after, step }
}

/// A rank on each of two hosts of two slots, and a spare host of one.
pub fn three_hosts() -> Job {
    Job {
        hosts: vec!["a".into(), "b".into(), "spare".into()],
        slots: vec![2, 2, 1],
        placement: vec![0, 1],
        failover: Some(Failover {
            takes_in: true,
            ..Failover::default()
        }),
        ..job()
    }
}

/// A host says this to central.
pub fn on_message(
    central: &mut Central,
    host: HostIndex,
    message: ToCentral,
) -> Vec<CentralEffect> {
    step(central, at(1), CentralInput::Local(host, message))
}

/// A process has called `MPI_Init`.
pub fn registered(instance: ProcessInstance) -> ToCentral {
    ToCentral::Process(ProcessMessage::Registered {
        instance,
        pid: 10 + instance.rank.0,
        card: BusinessCard::default(),
        limits: Limits::default(),
    })
}

/// The first process of a rank has taken its image of a checkpoint.
pub fn imaged(rank: u32, epoch: u32) -> ToCentral {
    ToCentral::Image(ImageMessage::Taken {
        instance: instance(rank, 0),
        image: ImageId::Checkpoint(Epoch(epoch)),
        cost: ImageCost::default(),
    })
}

/// A job that runs and has a checkpoint, and what is stored of it.
pub fn recorded(job: Job) -> (Central, Vec<Record>) {
    let ranks: Vec<(HostIndex, u32)> = job.placement.iter().copied().zip(0..).collect();
    let mut central = Central::new(job);
    let mut effects = step(&mut central, at(0), CentralInput::Begin);
    for (host, rank) in ranks.clone() {
        effects.extend(on_message(
            &mut central,
            host,
            registered(instance(rank, 0)),
        ));
    }
    for (host, rank) in ranks {
        effects.extend(on_message(&mut central, host, imaged(rank, 1)));
    }
    assert!(central.view().committed.is_some());
    (central, records(&effects))
}

/// The same, without the records.
pub fn running_on(job: Job) -> Central {
    recorded(job).0
}

/// The ranks that are to move, and where.
pub fn moves(effects: &[CentralEffect]) -> Vec<(Rank, HostIndex)> {
    let moves = effects.iter().filter_map(|effect| match effect {
        CentralEffect::Persist(Record::Moving { moves, .. }) => Some(moves),
        _ => None,
    });
    moves.flatten().map(|one| (one.rank, one.to)).collect()
}

/// The images that ranks are to take for their moves: rank, number, and whether it stops.
pub fn ordered(effects: &[CentralEffect]) -> Vec<(u32, MoveNumber, bool)> {
    let ordered = effects.iter().filter_map(|effect| match effect {
        CentralEffect::Send(
            _,
            ToLocal::Move(RankMoveOrder::Move {
                instance,
                number,
                stops,
                ..
            }),
        ) => Some((instance.rank.0, *number, *stops)),
        _ => None,
    });
    ordered.collect()
}

/// A rank's image of a move is in a file, and the other host has loaded it, which makes so many
/// bytes.
pub fn load(
    central: &mut Central,
    (rank, number): (u32, MoveNumber),
    (from, to): (HostIndex, HostIndex),
    bytes: u64,
) -> Vec<CentralEffect> {
    let stored = ToCentral::File(FileMessage::Stored {
        rank: Rank(rank),
        image: ImageId::Move(number),
    });
    let loaded = ToCentral::Move(MoveMessage::Loaded {
        rank: Rank(rank),
        number,
        bytes,
    });
    let mut effects = on_message(central, from, stored);
    effects.extend(on_message(central, to, loaded));
    effects
}

/// A rank that has taken its first image, of this number, moves in its next incarnation.
pub fn carry_out(
    central: &mut Central,
    (rank, number): (u32, MoveNumber),
    (from, to): (HostIndex, HostIndex),
    incarnation: u32,
) -> Vec<CentralEffect> {
    let mut effects = load(central, (rank, number), (from, to), 0);
    let last = ordered(&effects).last().copied().expect("its last image");
    assert_eq!((last.0, last.2), (rank, true));
    let stored = ToCentral::File(FileMessage::Stored {
        rank: Rank(rank),
        image: ImageId::Move(last.1),
    });
    effects.extend(on_message(central, from, stored));
    let arrived = ProcessInstance {
        incarnation: rejoin_channel_table::Incarnation(incarnation),
        ..instance(rank, 0)
    };
    effects.extend(on_message(central, to, registered(arrived)));
    effects
}
