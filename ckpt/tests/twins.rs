//! Twins, from outside: processes are killed and brought back.

#[path = "twins/basics.rs"]
mod basics;
#[path = "twins/calls.rs"]
mod calls;
#[path = "twins/edges.rs"]
mod edges;
#[path = "twins/state.rs"]
mod state;
#[path = "twins/storms.rs"]
mod storms;
#[path = "support/mod.rs"]
mod support;
#[path = "twins/waits.rs"]
mod waits;

/// As in the library that ranks load: memory apart from the C library's heap, which a handler must
/// not touch.
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() {
    let groups = [
        basics::TESTS,
        calls::TESTS,
        waits::TESTS,
        edges::TESTS,
        state::TESTS,
        storms::TESTS,
    ];
    support::run(&groups.concat());
}
