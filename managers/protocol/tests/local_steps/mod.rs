//! Steps of a local manager's core.

#![allow(dead_code, reason = "each test file uses a part")]

use rejoin_channel_table::{BusinessCard, Generation, Incarnation, Rank};
use rejoin_managers_protocol::local::{Local, LocalEffect, LocalInput};
use rejoin_managers_protocol::manager_messages::{
    Cause, End, ProcessInstance, ProcessMessage, Stage, Time, ToCentral, ToLocal,
};
use rejoin_wire::{Limits, ToManager, VERSION};

pub const R: Rank = Rank(4);
pub const I: Incarnation = Incarnation(0);
pub const CHILD: u32 = 10;
pub const CALLER: u32 = 11;

pub fn instance() -> ProcessInstance {
    ProcessInstance {
        generation: Generation(0),
        rank: R,
        incarnation: I,
    }
}

pub fn register() -> ToManager {
    ToManager::Register {
        rank: R,
        incarnation: I,
        pid: 1,
        card: BusinessCard::default(),
        version: VERSION,
        limits: Limits::default(),
    }
}

pub fn said(pid: u32, message: ToManager) -> LocalInput {
    LocalInput::FromRank(R, I, pid, message)
}

/// A core with one rank, whose process is there.
pub fn spawned() -> Local {
    let mut core = Local::new();
    let spawn = spawn(vec![(R, I)]);
    let effects = steps(
        &mut core,
        vec![LocalInput::Central(spawn), LocalInput::Spawned(R, I, CHILD)],
    );
    let told = LocalEffect::Central(ToCentral::Process(ProcessMessage::Spawned {
        instance: instance(),
        pid: CHILD,
    }));
    assert_eq!(effects, [LocalEffect::Spawn(instance()), told]);
    core
}

/// The same, after the process `pid` has registered.
pub fn registered(pid: u32) -> Local {
    let mut core = spawned();
    steps(&mut core, vec![said(pid, register())]);
    core
}

/// The same, after it has left MPI_Finalize.
pub fn left(pid: u32) -> Local {
    let mut core = registered(pid);
    let all = ToLocal::AllFinalized {
        generation: Generation(0),
    };
    steps(
        &mut core,
        vec![
            said(pid, ToManager::Finalizing),
            LocalInput::Central(all),
            said(pid, ToManager::Leave),
        ],
    );
    core
}

pub fn failed(pid: u32, end: End, stage: Stage) -> LocalEffect {
    lost(pid, Cause::Ended { end, stage })
}

pub fn lost(pid: u32, cause: Cause) -> LocalEffect {
    let instance = instance();
    LocalEffect::Central(ToCentral::Process(ProcessMessage::Failed {
        instance,
        pid,
        cause,
    }))
}

pub fn ended(stage: Stage) -> LocalEffect {
    LocalEffect::Central(ToCentral::Process(ProcessMessage::Ended {
        instance: instance(),
        stage,
    }))
}

/// The order to start the programs of these ranks.
pub fn spawn(ranks: Vec<(Rank, Incarnation)>) -> ToLocal {
    ToLocal::Spawn {
        generation: Generation(0),
        regions: None,
        ranks,
        from: None,
        moved: Vec::new(),
    }
}

/// The core of a host with rank 0, whose process was started.
pub fn with_a_rank() -> Local {
    let mut core = Local::new();
    let spawn = ToLocal::Spawn {
        generation: Generation(0),
        regions: None,
        ranks: vec![(Rank(0), Incarnation(0))],
        from: None,
        moved: Vec::new(),
    };
    let begun = LocalInput::Spawned(Rank(0), Incarnation(0), 10);
    steps(&mut core, vec![LocalInput::Central(spawn), begun]);
    core
}

/// The effects of the core after these inputs, at time 0.
pub fn steps(core: &mut Local, inputs: Vec<LocalInput>) -> Vec<LocalEffect> {
    at(core, Time(0), inputs)
}

/// The same at another time.
pub fn at(core: &mut Local, now: Time, inputs: Vec<LocalInput>) -> Vec<LocalEffect> {
    let mut effects = Vec::new();
    for input in inputs {
        core.step(now, input, &mut effects);
    }
    effects
}

/// The host stays until central has decided what comes of the failure, of which a successor of
/// central must learn.
pub fn ends_by_order(core: &mut Local) {
    let end = ToLocal::End { why: "test".into() };
    let effects = steps(core, vec![LocalInput::Central(end)]);
    assert_eq!(effects.last(), Some(&LocalEffect::Sweep));
}
