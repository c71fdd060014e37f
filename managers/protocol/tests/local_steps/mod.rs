//! Steps of a local manager's core.

#![allow(dead_code, reason = "each test file uses a part")]

use rejoin_channel_table::{Generation, Incarnation, Rank};
use rejoin_managers_protocol::local::{Local, LocalEffect, LocalInput};
use rejoin_managers_protocol::manager_messages::{Time, ToLocal};

/// The core of a host with rank 0, whose process was started.
pub fn with_a_rank() -> Local {
    let mut core = Local::new();
    let spawn = ToLocal::Spawn {
        generation: Generation(0),
        ranks: vec![(Rank(0), Incarnation(0))],
        hold: true,
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
