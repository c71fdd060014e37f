//! Checkpoints of registered memory: numbers, commits, and what a rollback or another central
//! manager makes of them.

mod central_steps;
mod local_steps;

use central_steps::{RANKS, at, imaged, instance, job, killed, running, said, step};
use local_steps::steps;
use rejoin_channel_table::{BusinessCard, Epoch, Generation, Incarnation, Rank};
use rejoin_managers_protocol::central::{Central, CentralEffect, CentralInput, Event, Record};
use rejoin_managers_protocol::local::{Local, LocalEffect, LocalInput};
use rejoin_managers_protocol::manager_messages::{
    RegionMessage, RegionOrder, Stage, ToCentral, ToLocal,
};
use rejoin_managers_protocol::region_commits::{RegionEpochs, RegionWait};
use rejoin_wire::{FromManager, Limits, ToManager, VERSION};

const R: Rank = Rank(0);

fn both(newest: Option<u32>, before: Option<u32>) -> RegionEpochs {
    RegionEpochs {
        newest: newest.map(Epoch),
        before: before.map(Epoch),
    }
}

/// Rank 0 asks for a number above this one. Returns the one that it gets.
fn number(central: &mut Central, generation: u32, above: u32) -> Option<Epoch> {
    let instance = instance(0, generation);
    let above = Epoch(above);
    let ask = said(ToCentral::Regions(RegionMessage::NumberWanted {
        instance,
        above,
    }));
    let effects = step(central, at(10), ask);
    let numbered = |effect: &CentralEffect| match effect {
        CentralEffect::Send(0, ToLocal::Regions(RegionOrder::Number { rank: R, epoch, .. })) => {
            Some(*epoch)
        }
        _ => None,
    };
    let given = effects.iter().find_map(numbered)?;
    let record = Record::RegionsNumbered { epoch: given };
    assert_eq!(effects[0], CentralEffect::Persist(record));
    Some(given)
}

/// A rank has stored its memory.
fn store(central: &mut Central, rank: u32, generation: u32, epoch: Epoch) -> Vec<CentralEffect> {
    let instance = instance(rank, generation);
    let stored = ToCentral::Regions(RegionMessage::Stored { instance, epoch });
    step(central, at(20), said(stored))
}

/// The commits that effects report.
fn committed(effects: &[CentralEffect]) -> Option<RegionEpochs> {
    effects.iter().find_map(|effect| match effect {
        CentralEffect::Event(Event::RegionsCommitted { epochs }) => Some(*epochs),
        _ => None,
    })
}

/// All ranks store their memory under the next number.
fn store_all(central: &mut Central, generation: u32) -> RegionEpochs {
    let epoch = number(central, generation, 0).expect("a number");
    let effects: Vec<_> = (0..RANKS)
        .flat_map(|rank| store(central, rank, generation, epoch))
        .collect();
    committed(&effects).expect("a commit")
}

#[test]
fn registered_memory_and_images_share_their_numbers() {
    let mut central = running();
    assert_eq!(number(&mut central, 0, 0), Some(Epoch(2)));
    step(&mut central, at(15), CentralInput::Checkpoint);
    // The image of a checkpoint after it.
    imaged(&mut central, at(16), 3, 0);
    assert_eq!(number(&mut central, 0, 9), Some(Epoch(10)));
    // Numbers have no large gap while ranks run.
    assert_eq!(number(&mut central, 0, 1_000_000), Some(Epoch(11)));
    // Of a job without images.
    let mut plain = Central::new(rejoin_managers_protocol::central::Job {
        recovery: None,
        requested: Epoch(6),
        ..job()
    });
    step(&mut plain, at(0), CentralInput::Begin);
    (0..RANKS).for_each(|rank| drop(central_steps::register(&mut plain, instance(rank, 0))));
    assert_eq!(number(&mut plain, 0, 0), Some(Epoch(7)));
    assert_eq!(store_all(&mut plain, 0), both(Some(8), None));
}

#[test]
fn a_commit_is_recorded_before_any_host_learns_of_it() {
    let mut central = running();
    let epoch = number(&mut central, 0, 0).expect("a number");
    assert_eq!(store(&mut central, 0, 0, epoch), []);
    // Nobody has this number.
    assert_eq!(store(&mut central, 1, 0, Epoch(epoch.0 + 1)), []);
    let effects = store(&mut central, 1, 0, epoch);
    let epochs = both(Some(2), None);
    let told = ToLocal::Regions(RegionOrder::Committed {
        generation: Generation(0),
        epochs,
    });
    assert_eq!(
        effects,
        [
            CentralEffect::Persist(Record::RegionsCommitted { epochs }),
            CentralEffect::Send(0, told.clone()),
            CentralEffect::Event(Event::RegionsCommitted { epochs }),
        ]
    );
    // A rank whose answer was lost.
    assert_eq!(
        store(&mut central, 0, 0, epoch),
        [CentralEffect::Send(0, told)]
    );
}

#[test]
fn a_rollback_voids_what_was_stored_after_its_checkpoint() {
    let mut central = running();
    assert_eq!(store_all(&mut central, 0), both(Some(2), None));
    let pending = number(&mut central, 0, 0).expect("a number");
    store(&mut central, 0, 0, pending);
    let effects = step(
        &mut central,
        at(30),
        killed(instance(1, 0), 9, Stage::Registered),
    );
    let epochs = RegionEpochs::default();
    let void = CentralEffect::Persist(Record::RegionsCommitted { epochs });
    assert!(effects.contains(&void), "{effects:?}");
    (0..RANKS).for_each(|rank| drop(central_steps::register(&mut central, instance(rank, 1))));
    // A message of the undone execution.
    assert_eq!(store(&mut central, 1, 0, pending), []);
    // A rank that was rolled back into the call reports again.
    assert_eq!(store(&mut central, 1, 1, pending), []);
    let effects = store(&mut central, 0, 1, pending);
    assert_eq!(committed(&effects), Some(both(Some(pending.0), None)));
}

#[test]
fn another_central_manager_continues_with_the_recorded_commits() {
    let record = |epoch| Record::RegionsNumbered {
        epoch: Epoch(epoch),
    };
    let commit = |newest, before| Record::RegionsCommitted {
        epochs: both(Some(newest), before),
    };
    let records = vec![
        Record::Began {
            generation: Generation(0),
            incarnations: vec![Incarnation(0); RANKS as usize],
            at: at(0),
        },
        commit(2, None),
        commit(4, Some(2)),
        record(5),
    ];
    let mut central = Central::resume(job(), records);
    let effects = step(&mut central, at(0), CentralInput::Begin);
    assert_eq!(committed(&effects), Some(both(Some(4), Some(2))));
    let requested = effects.iter().find_map(|effect| match effect {
        CentralEffect::Resumed { abandoned, .. } => Some(*abandoned),
        _ => None,
    });
    assert_eq!(requested, Some(Epoch(5)));
}

fn says(message: ToManager) -> LocalInput {
    LocalInput::FromRank(R, Incarnation(0), 10, message)
}

/// A host's core with one rank that has registered.
fn host() -> Local {
    let mut core = Local::new();
    let registers = ToManager::Register {
        rank: R,
        incarnation: Incarnation(0),
        pid: 10,
        card: BusinessCard::default(),
        version: VERSION,
        limits: Limits::default(),
    };
    let spawn = ToLocal::Spawn {
        generation: Generation(0),
        regions: None,
        ranks: vec![(R, Incarnation(0))],
        from: None,
        moved: Vec::new(),
    };
    let begin = vec![
        LocalInput::Central(spawn),
        LocalInput::Spawned(R, Incarnation(0), 10),
        says(registers),
    ];
    steps(&mut core, begin);
    core
}

#[test]
fn a_host_repeats_what_its_ranks_wait_for() {
    let mut core = host();
    let waits = |core: &mut Local| {
        let effects = steps(core, vec![LocalInput::Central(ToLocal::Report)]);
        effects.into_iter().find_map(|effect| match effect {
            LocalEffect::Central(ToCentral::Report(report)) => Some(report.ranks[0].regions),
            _ => None,
        })
    };
    let answered = |core: &mut Local, order| {
        let effects = steps(core, vec![LocalInput::Central(order)]);
        effects.into_iter().find_map(|effect| match effect {
            LocalEffect::Ranks(to, message) => Some((to, message)),
            _ => None,
        })
    };
    let (generation, epoch) = (Generation(0), Epoch(3));
    steps(
        &mut core,
        vec![says(ToManager::RequestRegionsNumber { above: Epoch(0) })],
    );
    let wait = RegionWait {
        number: Some(Epoch(0)),
        commit: None,
    };
    assert_eq!(waits(&mut core), Some(wait));
    let order = ToLocal::Regions(RegionOrder::Number {
        generation,
        rank: R,
        epoch,
    });
    let number = FromManager::RegionsNumber { generation, epoch };
    assert_eq!(answered(&mut core, order.clone()), Some((vec![R], number)));
    // The answer to the repeated question.
    assert_eq!(answered(&mut core, order), None);
    steps(&mut core, vec![says(ToManager::RegionsStored { epoch })]);
    let wait = RegionWait {
        number: None,
        commit: Some(epoch),
    };
    assert_eq!(waits(&mut core), Some(wait));
    let order = |newest| {
        ToLocal::Regions(RegionOrder::Committed {
            generation,
            epochs: both(Some(newest), Some(1)),
        })
    };
    assert_eq!(answered(&mut core, order(2)), None);
    let committed = FromManager::RegionsCommitted {
        generation,
        newest: epoch,
        before: Some(Epoch(1)),
    };
    assert_eq!(answered(&mut core, order(3)), Some((vec![R], committed)));
    assert_eq!(waits(&mut core), Some(RegionWait::default()));
}
