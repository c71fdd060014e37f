//! A central manager's core of a job under leases whose first checkpoint is on partner hosts, and
//! ranks that return from there.
#![allow(dead_code, reason = "each test file uses a part")]

use crate::central_steps::{at, instance, job, step};
use crate::moving_ranks::{carry_out, moves, on_message, ordered, recorded, records, three_hosts};
use rejoin_channel_table::{Epoch, Incarnation, Rank};
use rejoin_managers_protocol::central::{
    Central, CentralEffect, CentralInput, HostIndex, Job, Leases, MoveRequest, Movers, Record,
    Recovery, StoredState,
};
use rejoin_managers_protocol::interval::Interval;
use rejoin_managers_protocol::lease::Terms;
use rejoin_managers_protocol::manager_messages::{
    FileMessage, HostMessage, ProcessInstance, ProcessMessage, ToCentral, ToLocal,
};

pub const SPARE: HostIndex = 2;

/// The millisecond at which no lease lasts any more that was granted in the first one.
pub const FENCE: u64 = 1 + 1210;

/// A rank on each of two hosts, each a group, and a spare host. Hosts act under leases, and copy
/// each other's files.
pub fn groups() -> Job {
    let recovery = job().recovery.map(|recovery| Recovery {
        files: Some(Interval::Asked),
        ..recovery
    });
    Job {
        log_groups: vec![0, 1],
        recovery,
        leases: Some(Leases {
            terms: Terms::new(1000, 3000),
            hosts: vec![0, 1, SPARE],
        }),
        copies: Some(1),
        ..three_hosts()
    }
}

pub fn process(rank: u32, incarnation: u32) -> ProcessInstance {
    ProcessInstance {
        incarnation: Incarnation(incarnation),
        ..instance(rank, 0)
    }
}

/// The first checkpoint of the job is on partner hosts, and all hosts have leases.
pub fn running_on(job: Job) -> Central {
    stored_on(job).0
}

/// The same, and what is stored of it.
pub fn stored_on(job: Job) -> (Central, Vec<Record>) {
    let hosts = job.hosts.len();
    let (mut central, mut stored) = recorded(job);
    let mut on_message = |host, message| {
        let effects = on_message(&mut central, host, message);
        stored.extend(records(&effects));
    };
    for host in 0..hosts {
        on_message(host, ToCentral::Host(HostMessage::Renew { number: 0 }));
    }
    for (host, rank) in [(0, Rank(0)), (1, Rank(1))] {
        let image = rejoin_channel_table::ImageId::Checkpoint(Epoch(1));
        on_message(host, ToCentral::File(FileMessage::Stored { rank, image }));
    }
    for (host, rank) in [(1, Rank(0)), (0, Rank(1))] {
        let epoch = Epoch(1);
        on_message(host, ToCentral::File(FileMessage::Copied { rank, epoch }));
    }
    let known = central.view().on_partners;
    assert_eq!(known.map(|(epoch, _)| epoch), Some(Epoch(1)));
    (central, stored)
}

/// The driver says that the job can continue from the first checkpoint.
pub fn continues(central: &mut Central, millis: u64) -> Vec<CentralEffect> {
    let states = vec![StoredState::Images(Epoch(1))];
    step(central, at(millis), CentralInput::Stored(states))
}

pub fn why() -> String {
    "no power".into()
}

/// The orders to make processes: host, rank, incarnation.
pub fn orders(effects: &[CentralEffect]) -> Vec<(HostIndex, u32, u32)> {
    let orders = effects.iter().filter_map(|effect| match effect {
        CentralEffect::Send(
            host,
            ToLocal::Spawn { ranks, .. } | ToLocal::Restore { ranks, .. },
        ) => Some(ranks.iter().map(move |(rank, i)| (*host, rank.0, i.0))),
        _ => None,
    });
    orders.flatten().collect()
}

pub fn ends(
    central: &mut Central,
    host: HostIndex,
    instance: ProcessInstance,
) -> Vec<CentralEffect> {
    let ended = ProcessMessage::ExitDetected { instance, pid: 11 };
    on_message(central, host, ToCentral::Process(ended))
}

/// The same job, in which rank 1 has moved to the spare host.
pub fn moved(job: Job) -> Central {
    let mut central = running_on(job);
    let begun = request_move(&mut central);
    assert_eq!(moves(&begun), [(Rank(1), SPARE)]);
    let number = ordered(&begun)[0].1;
    carry_out(&mut central, (1, number), (1, SPARE), 1);
    central
}

/// The user asks for the move of rank 1 to the spare host.
pub fn request_move(central: &mut Central) -> Vec<CentralEffect> {
    let request = MoveRequest {
        id: 7,
        movers: Movers::Ranks(vec![Rank(1)]),
        to: Some(SPARE),
    };
    step(central, at(1), CentralInput::Move(request))
}
