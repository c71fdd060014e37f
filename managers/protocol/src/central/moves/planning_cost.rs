//! What a move costs central in a large job: it looks at each rank a few times, however many hosts
//! there are.

use super::{MoveRequest, Movers};
use crate::central::interface::{CentralEffect, CentralInput, HostIndex, Job, Recovery};
use crate::central::job_state::Central;
use crate::central::rank_table::looks;
use crate::checkpoint::Interval;
use crate::manager_messages::{
    FileMessage, ImageMessage, MoveMessage, ProcessInstance, ProcessMessage, RankMoveOrder, Time,
    ToCentral, ToLocal,
};
use rejoin_channel_table::{
    BusinessCard, Epoch, Generation, ImageId, Incarnation, MoveNumber, Rank,
};
use rejoin_wire::{ImageCost, Limits};

const RANKS: u32 = 100_000;
const PER_HOST: u32 = 16;

/// Looks at each rank for one message, at most.
const MOST: u64 = 6;

fn host_of(rank: u32) -> HostIndex {
    (rank / PER_HOST) as HostIndex
}

fn on_message(central: &mut Central, input: CentralInput) -> Vec<CentralEffect> {
    let mut effects = Vec::new();
    central.step(Time(1), input, &mut effects);
    effects
}

/// The same, where central may not look at the ranks too often.
fn on_message_cheaply(
    central: &mut Central,
    what: &str,
    input: CentralInput,
) -> Vec<CentralEffect> {
    looks::take();
    let effects = on_message(central, input);
    let looks = looks::take();
    println!("{what}: {looks} looks at {RANKS} ranks");
    assert!(looks <= MOST * u64::from(RANKS), "{what}: {looks} looks");
    effects
}

fn registered(rank: u32, incarnation: u32) -> ToCentral {
    ToCentral::Process(ProcessMessage::Registered {
        instance: ProcessInstance {
            generation: Generation(0),
            rank: Rank(rank),
            incarnation: Incarnation(incarnation),
        },
        pid: 10 + rank,
        card: BusinessCard::default(),
        limits: Limits::default(),
    })
}

/// Central of a job whose ranks run, and have images.
fn running() -> Central {
    let hosts = 0..RANKS.div_ceil(PER_HOST);
    let mut central = Central::new(Job {
        hosts: hosts.map(|host| format!("host{host}")).collect(),
        placement: (0..RANKS).map(host_of).collect(),
        recovery: Some(Recovery {
            interval: Interval::Asked,
            ..Recovery::default()
        }),
        ..Job::default()
    });
    on_message(&mut central, CentralInput::Begin);
    for rank in 0..RANKS {
        let said = registered(rank, 0);
        on_message(&mut central, CentralInput::Local(host_of(rank), said));
    }
    for rank in 0..RANKS {
        let said = ToCentral::Image(ImageMessage::Taken {
            instance: central.cluster.ranks.instance(Rank(rank)),
            image: ImageId::Checkpoint(Epoch(1)),
            cost: ImageCost::default(),
        });
        on_message(&mut central, CentralInput::Local(host_of(rank), said));
    }
    assert!(central.view().committed.is_some());
    central
}

fn request(id: u64, movers: Movers, to: Option<HostIndex>) -> CentralInput {
    CentralInput::Move(MoveRequest { id, movers, to })
}

/// The numbers of the images that ranks are to take.
fn ordered(effects: &[CentralEffect]) -> Vec<MoveNumber> {
    let numbers = effects.iter().filter_map(|effect| match effect {
        CentralEffect::Send(_, ToLocal::Move(RankMoveOrder::Move { number, .. })) => Some(*number),
        _ => None,
    });
    numbers.collect()
}

#[test]
fn a_move_in_a_large_job_looks_at_each_rank_a_few_times() {
    let mut central = running();
    let (rank, from, to) = (Rank(0), 0, 1);
    let asked = request(1, Movers::Ranks(vec![rank]), Some(to));
    let effects = on_message_cheaply(&mut central, "a request", asked);
    let [first] = ordered(&effects)[..] else {
        panic!("{effects:?}");
    };
    let second = MoveNumber::next(Some(first), first.after);
    let stored = |number| {
        ToCentral::File(FileMessage::Stored {
            rank,
            image: ImageId::Move(number),
        })
    };
    let loaded = ToCentral::Move(MoveMessage::Loaded {
        rank,
        number: first,
        bytes: 0,
    });
    let steps = [
        ("a stored copy", from, stored(first)),
        ("a loaded copy", to, loaded),
        ("the last image", from, stored(second)),
        ("the new process", to, registered(rank.0, 1)),
    ];
    for (what, host, said) in steps {
        on_message_cheaply(&mut central, what, CentralInput::Local(host, said));
    }
    assert_eq!(central.cluster.ranks.host_of(rank), to);
}

#[test]
fn a_drain_in_a_large_job_looks_at_each_rank_a_few_times() {
    let mut central = running();
    let asked = request(1, Movers::Drain(7), None);
    let effects = on_message_cheaply(&mut central, "a drain", asked);
    assert_eq!(ordered(&effects).len(), PER_HOST as usize);
}
