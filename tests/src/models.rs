//! The report and the check at the end of each model, and the sizes of models.

use stateright::{Checker, Expectation, Model};
use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

/// Prints the size of a model that was checked from `begun` on, and the path to each property that
/// fails. `show` describes the last state.
pub fn tell<M>(
    name: &str,
    begun: Instant,
    checker: &impl Checker<M>,
    show: impl Fn(&M::State) -> String,
) where
    M: Model,
    M::State: Clone + Debug + Hash + PartialEq,
    M::Action: Clone + Debug + PartialEq,
{
    println!(
        "{name}: {} states, {} unique, depth {}, {:.1} s",
        checker.state_count(),
        checker.unique_state_count(),
        checker.max_depth(),
        begun.elapsed().as_secs_f64()
    );
    for (property, path) in checker.discoveries() {
        // For other properties the discovery is an example.
        if checker.model().property(property).expectation != Expectation::Sometimes {
            println!("{property}: {}", show(path.last_state()));
            println!("{:#?}", path.into_actions());
        }
    }
}

/// Added to a bound with `REJOIN_MODELS=soak`.
#[must_use]
pub fn soak() -> u8 {
    u8::from(bounds().is_some_and(|bounds| bounds == "soak"))
}

/// Added to a bound with `REJOIN_MODELS=full` or `soak`: one that takes too long for every change.
#[must_use]
pub fn full() -> u8 {
    u8::from(bounds().is_some_and(|bounds| bounds != "ci"))
}

/// Added to a bound with `REJOIN_MODELS=ci` (as the claim `models` sets it), `full` or `soak`.
/// Without it, a plain `cargo test` stays quick.
#[must_use]
pub fn ci() -> u8 {
    u8::from(bounds().is_some())
}

/// Which bounds models have, unless they are to be quick.
///
/// # Panics
/// If the variable has another value.
fn bounds() -> Option<String> {
    let bounds = std::env::var("REJOIN_MODELS").ok()?;
    let known = ["ci", "full", "soak"].contains(&bounds.as_str());
    assert!(known, "REJOIN_MODELS={bounds}: it is ci, full or soak");
    Some(bounds)
}
