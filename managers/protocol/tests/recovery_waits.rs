//! The local manager's core while a rollback waits for a process.

mod local_steps;

use local_steps::{at, steps};
use rejoin_channel_table::{BusinessCard, Epoch, Generation, Incarnation, Rank};
use rejoin_managers_protocol::local::{FIRST_NOTE, Local, LocalEffect, LocalInput, RECOVERY_BOUND};
use rejoin_managers_protocol::manager_messages::{
    Cause, ProcessInstance, Time, ToCentral, ToLocal,
};
use rejoin_managers_protocol::signal_numbers::{CONT, TSTP};
use rejoin_wire::{Holds, ImageCost, Limits, ToManager, VERSION};

const R: Rank = Rank(4);
const I: Incarnation = Incarnation(0);
const CHILD: u32 = 10;
const CALLER: u32 = 11;

fn register(incarnation: Incarnation) -> ToManager {
    ToManager::Register {
        rank: R,
        incarnation,
        pid: 1,
        card: BusinessCard::default(),
        version: VERSION,
        limits: Limits::default(),
    }
}

/// A core whose rank has an image of epoch 1, and the order to restore the rank from it at time 0.
fn rolls_back() -> Local {
    let mut core = Local::new();
    let spawn = ToLocal::Spawn {
        generation: Generation(0),
        ranks: vec![(R, I)],
        hold: true,
        from: None,
        moved: Vec::new(),
    };
    let imaged = ToManager::Imaged {
        generation: Generation(0),
        epoch: Epoch(1),
        pid: CHILD,
        streams: [false; 2],
        holds: Holds::default(),
        cost: ImageCost::default(),
        caveats: Vec::new(),
    };
    let order = ToLocal::Restore {
        generation: Generation(1),
        epoch: Some(Epoch(1)),
        ranks: vec![(R, I.next())],
        moved: Vec::new(),
    };
    let until = vec![
        LocalInput::Central(spawn),
        LocalInput::Spawned(R, I, CHILD),
        LocalInput::Said(R, I, CHILD, register(I)),
        LocalInput::Said(R, I, CHILD, imaged),
        LocalInput::Central(order),
    ];
    let effects = steps(&mut core, until);
    assert_eq!(effects.last(), Some(&LocalEffect::Retire(R, I)));
    core
}

fn waits(text: &str) -> LocalEffect {
    LocalEffect::Waits(R, format!("the recovery waits: {text}"))
}

fn millis(count: u64) -> Time {
    Time(0).plus_millis(count)
}

/// The successor of the rank's first process does not come, for this reason.
fn not_restored(pid: u32, why: &str) -> LocalEffect {
    let instance = ProcessInstance {
        generation: Generation(1),
        rank: R,
        incarnation: I.next(),
    };
    let why = why.to_string();
    LocalEffect::Central(ToCentral::Failed {
        instance,
        pid,
        cause: Cause::NotStarted { why },
    })
}

#[test]
fn a_process_that_does_not_stop_is_reported_and_ends_the_wait_for_its_successor() {
    let mut core = rolls_back();
    let first = millis(FIRST_NOTE);
    assert_eq!(core.deadline(), Some(first));
    let text = "its process 10 has not stopped, and its successor must wait for that, for";
    let effects = at(&mut core, first, vec![LocalInput::Tick]);
    assert_eq!(effects, [waits(&format!("{text} 10 s"))]);
    assert!(core.deadline() > Some(first));
    // Another host may still restore its ranks: only central can end the job.
    let bound = millis(RECOVERY_BOUND);
    let effects = at(&mut core, bound, vec![LocalInput::Tick]);
    assert_eq!(effects, [not_restored(0, &format!("{text} 120 s"))]);

    let mut core = rolls_back();
    let restored = at(&mut core, first, vec![LocalInput::Retired(R, I)]);
    assert!(matches!(restored[..], [LocalEffect::Restore(_, Epoch(1))]));
    assert_eq!(core.deadline(), None);
}

#[test]
fn a_restored_process_that_does_not_register_is_reported_and_fails() {
    let next = I.next();
    let restored = || {
        let mut core = rolls_back();
        let there = LocalInput::Spawned(R, next, CALLER);
        steps(&mut core, vec![LocalInput::Retired(R, I), there]);
        core
    };
    let text = "its process 11 comes from an image and has not called its manager, for";
    let mut core = restored();
    assert_eq!(core.deadline(), Some(millis(FIRST_NOTE)));
    let effects = at(&mut core, millis(FIRST_NOTE), vec![LocalInput::Tick]);
    assert_eq!(effects, [waits(&format!("{text} 10 s"))]);
    let effects = at(&mut core, millis(RECOVERY_BOUND), vec![LocalInput::Tick]);
    assert_eq!(effects, [not_restored(CALLER, &format!("{text} 120 s"))]);
    assert_eq!(core.deadline(), None);

    // Whoever stops the job from the terminal stops the clock, too.
    let mut core = restored();
    let signal = |signal| LocalInput::Central(ToLocal::Signal { signal });
    at(&mut core, millis(1), vec![signal(TSTP)]);
    let stopped = millis(2 * RECOVERY_BOUND);
    assert_eq!(at(&mut core, stopped, vec![LocalInput::Tick]), []);
    at(&mut core, stopped, vec![signal(CONT)]);
    assert_eq!(core.deadline(), Some(stopped.plus_millis(FIRST_NOTE)));

    let mut core = restored();
    let message = register(next);
    steps(&mut core, vec![LocalInput::Said(R, next, CALLER, message)]);
    assert_eq!(core.deadline(), None);
}
