//! What each model says and checks at its end, and how large models are.

use stateright::{Checker, Expectation, Model};
use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

/// Says how large a model is that was checked from `begun` on, and shows how each property fails
/// that does: `show` tells what to know of the last state.
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
        // Of others, what is found is how they hold.
        if checker.model().property(property).expectation != Expectation::Sometimes {
            println!("{property}: {}", show(path.last_state()));
            println!("{:#?}", path.into_actions());
        }
    }
}

/// What only `REJOIN_MODELS=soak` adds to a bound.
#[must_use]
pub fn soak() -> u8 {
    u8::from(std::env::var("REJOIN_MODELS").is_ok_and(|models| models == "soak"))
}

/// What builds with debug assertions leave out of a bound.
pub const FULL: u8 = !cfg!(debug_assertions) as u8;
