//! Steps of a local manager's core.

use rejoin_managers_protocol::local::{Local, LocalEffect, LocalInput};
use rejoin_managers_protocol::manager_messages::Time;

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
