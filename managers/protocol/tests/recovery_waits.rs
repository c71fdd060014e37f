//! The managers' cores while a rollback waits for a process.

mod central_steps;
mod local_steps;

use central_steps::{job, step};
use local_steps::{at, steps};
use rejoin_channel_table::{
    BusinessCard, Epoch, Generation, ImageId, Incarnation, MoveNumber, Rank,
};
use rejoin_managers_protocol::central::{
    Central, CentralEffect, CentralInput, Job, MoveRequest, Movers,
};
use rejoin_managers_protocol::local::{FIRST_NOTE, Local, LocalEffect, LocalInput, RECOVERY_BOUND};
use rejoin_managers_protocol::manager_messages::{
    Cause, End, FileMessage, ImageMessage, MoveMessage, ProcessInstance, ProcessMessage,
    RankMoveOrder, Stage, Time, ToCentral, ToLocal,
};
use rejoin_managers_protocol::policy::Refusal;
use rejoin_managers_protocol::signal_numbers::{CONT, TSTP};
use rejoin_managers_protocol::verdict::Verdict;
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

/// A core whose rank has an image of epoch 1.
fn has_image() -> Local {
    let mut core = Local::new();
    let spawn = ToLocal::Spawn {
        generation: Generation(0),
        regions: None,
        ranks: vec![(R, I)],
        from: None,
        moved: Vec::new(),
    };
    let imaged = ToManager::Imaged {
        generation: Generation(0),
        image: ImageId::Checkpoint(Epoch(1)),
        pid: CHILD,
        streams: [false; 2],
        holds: Holds::default(),
        cost: ImageCost::default(),
        caveats: Vec::new(),
    };
    let until = vec![
        LocalInput::Central(spawn),
        LocalInput::Spawned(R, I, CHILD),
        LocalInput::FromRank(R, I, CHILD, register(I)),
        LocalInput::FromRank(R, I, CHILD, imaged),
    ];
    steps(&mut core, until);
    core
}

/// The order to restore the rank from that image.
fn restore() -> LocalInput {
    LocalInput::Central(ToLocal::Restore {
        generation: Generation(1),
        regions: None,
        from: Some(ImageId::Checkpoint(Epoch(1))),
        ranks: vec![(R, I.next())],
        moved: Vec::new(),
    })
}

/// A core with such an order at time 0.
fn rolls_back() -> Local {
    let mut core = has_image();
    let effects = steps(&mut core, vec![restore()]);
    assert_eq!(effects.last(), Some(&LocalEffect::Retire(R, I)));
    core
}

/// A core whose rank has moved to another host at time 0.
fn has_moved() -> Local {
    let mut core = has_image();
    let vacate = ToLocal::Move(RankMoveOrder::Vacate {
        instance: instance(0, I),
    });
    let effects = steps(&mut core, vec![LocalInput::Central(vacate)]);
    assert_eq!(effects.last(), Some(&LocalEffect::Retire(R, I)));
    core
}

fn instance(generation: u32, incarnation: Incarnation) -> ProcessInstance {
    ProcessInstance {
        generation: Generation(generation),
        rank: R,
        incarnation,
    }
}

fn waits(text: &str) -> LocalEffect {
    LocalEffect::Waits(R, format!("the recovery waits: {text}"))
}

/// A process of this instance does not make room, for this reason.
fn does_not_stop(instance: ProcessInstance, why: String) -> LocalEffect {
    LocalEffect::Central(ToCentral::Process(ProcessMessage::Failed {
        instance,
        pid: 0,
        cause: Cause::NotStopped { why },
    }))
}

fn millis(count: u64) -> Time {
    Time(0).plus_millis(count)
}

/// The successor of the rank's first process does not come, for this reason.
fn not_restored(pid: u32, why: &str) -> LocalEffect {
    let why = why.to_string();
    LocalEffect::Central(ToCentral::Process(ProcessMessage::Failed {
        instance: instance(1, I.next()),
        pid,
        cause: Cause::NotStarted { why },
    }))
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
    assert!(matches!(
        restored[..],
        [LocalEffect::Restore(_, ImageId::Checkpoint(Epoch(1)))]
    ));
    assert_eq!(core.deadline(), None);
}

#[test]
fn a_process_that_does_not_stop_after_its_rank_has_moved_is_reported() {
    let mut core = has_moved();
    let first = millis(FIRST_NOTE);
    assert_eq!(core.deadline(), Some(first));
    let text = "its process 10 has not stopped, and the rank is on another host, for";
    let effects = at(&mut core, first, vec![LocalInput::Tick]);
    assert_eq!(effects, [LocalEffect::Waits(R, format!("{text} 10 s"))]);
    // A rollback may wait for it: only central knows that.
    let bound = millis(RECOVERY_BOUND);
    let effects = at(&mut core, bound, vec![LocalInput::Tick]);
    let says = does_not_stop(instance(0, I), format!("{text} 120 s"));
    assert_eq!(effects, [says]);
    let effects = at(&mut core, bound, vec![LocalInput::Retired(R, I)]);
    let instance = instance(0, I);
    let left = LocalEffect::Central(ToCentral::Process(ProcessMessage::Vacated { instance }));
    assert!(effects.contains(&left), "{effects:?}");
    assert_eq!(core.deadline(), None);
}

#[test]
fn the_wait_for_a_process_that_does_not_stop_has_a_bound_when_its_rank_comes_back() {
    let mut core = has_moved();
    steps(&mut core, vec![restore()]);
    let text = "its process 10 has not stopped, and its successor must wait for that, for";
    let effects = at(&mut core, millis(FIRST_NOTE), vec![LocalInput::Tick]);
    assert_eq!(effects, [waits(&format!("{text} 10 s"))]);
    let bound = millis(RECOVERY_BOUND);
    let effects = at(&mut core, bound, vec![LocalInput::Tick]);
    assert_eq!(effects, [not_restored(0, &format!("{text} 120 s"))]);
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
    steps(
        &mut core,
        vec![LocalInput::FromRank(R, next, CALLER, message)],
    );
    assert_eq!(core.deadline(), None);
}

fn on_message(central: &mut Central, host: usize, message: ToCentral) -> Vec<CentralEffect> {
    step(central, Time(1), CentralInput::Local(host, message))
}

fn of_central(rank: u32, incarnation: u32) -> ProcessInstance {
    ProcessInstance {
        generation: Generation(0),
        rank: Rank(rank),
        incarnation: Incarnation(incarnation),
    }
}

fn has_registered(instance: ProcessInstance) -> ToCentral {
    ToCentral::Process(ProcessMessage::Registered {
        instance,
        pid: 10,
        card: BusinessCard::default(),
        limits: Limits::default(),
    })
}

/// A job on two hosts, whose first rank has moved to the second one since the checkpoint.
fn has_moved_since_its_checkpoint() -> Central {
    let mut central = Central::new(Job {
        hosts: vec!["a".into(), "b".into()],
        placement: vec![0, 1],
        ..job()
    });
    step(&mut central, Time(0), CentralInput::Begin);
    for rank in [0, 1] {
        let registered = has_registered(of_central(rank, 0));
        on_message(&mut central, rank as usize, registered);
    }
    for rank in [0, 1] {
        let imaged = ToCentral::Image(ImageMessage::Taken {
            instance: of_central(rank, 0),
            image: ImageId::Checkpoint(Epoch(1)),
            cost: ImageCost::default(),
        });
        on_message(&mut central, rank as usize, imaged);
    }
    let request = MoveRequest {
        id: 1,
        movers: Movers::Ranks(vec![Rank(0)]),
        to: Some(1),
    };
    step(&mut central, Time(1), CentralInput::Move(request));
    let first = MoveNumber::next(None, Epoch(1));
    let stored = |number| {
        ToCentral::File(FileMessage::Stored {
            rank: Rank(0),
            image: ImageId::Move(number),
        })
    };
    let loaded = ToCentral::Move(MoveMessage::Loaded {
        rank: Rank(0),
        number: first,
        bytes: 0,
    });
    on_message(&mut central, 0, stored(first));
    on_message(&mut central, 1, loaded);
    on_message(
        &mut central,
        0,
        stored(MoveNumber::next(Some(first), Epoch(1))),
    );
    let effects = on_message(&mut central, 1, has_registered(of_central(0, 1)));
    let vacate = ToLocal::Move(RankMoveOrder::Vacate {
        instance: of_central(0, 0),
    });
    assert!(effects.contains(&CentralEffect::Send(0, vacate)));
    central
}

#[test]
fn a_rollback_for_which_a_process_does_not_make_room_ends_the_job() {
    let hangs = |incarnation| {
        ToCentral::Process(ProcessMessage::Failed {
            instance: of_central(0, incarnation),
            pid: 0,
            cause: Cause::NotStopped {
                why: "it hangs".into(),
            },
        })
    };
    let mut central = has_moved_since_its_checkpoint();
    // Nothing waits for the process that the rank has left behind.
    assert_eq!(on_message(&mut central, 0, hangs(0)), []);
    let killed = ToCentral::Process(ProcessMessage::Failed {
        instance: of_central(1, 0),
        pid: 11,
        cause: Cause::Ended {
            end: End::Signaled(9),
            stage: Stage::Registered,
        },
    });
    let effects = on_message(&mut central, 1, killed);
    let vacate = ToLocal::Move(RankMoveOrder::Vacate {
        instance: of_central(0, 1),
    });
    assert!(effects.contains(&CentralEffect::Send(1, vacate)));
    let is_restored =
        |effect: &CentralEffect| matches!(effect, CentralEffect::Send(0, ToLocal::Restore { .. }));
    assert!(!effects.iter().any(is_restored), "{effects:?}");
    // Of one that was never made, nothing is left that could hinder the others.
    let image_gone = ToCentral::Process(ProcessMessage::Failed {
        instance: of_central(0, 1),
        pid: 0,
        cause: Cause::NotStarted {
            why: "its image is gone".into(),
        },
    });
    assert_eq!(on_message(&mut central, 1, image_gone), []);
    on_message(&mut central, 1, hangs(1));
    let Some(Verdict::Failed {
        refusal: Some(Refusal::NotRestored { rank, host, why }),
        ..
    }) = central.verdict()
    else {
        panic!("{:?}", central.verdict());
    };
    assert_eq!((*rank, &host[..], &why[..]), (Rank(0), "b", "it hangs"));
}
