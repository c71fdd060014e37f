//! Twins, from outside: processes are killed and brought back. `cargo test --release -p rejoin-ckpt
//! --test twins -- figures` measures what they cost.

mod basics;
mod calls;
mod edges;
mod figures;
mod locks;
mod state;
mod storms;
mod support;
mod threads;
mod waits;
mod watch;

/// As in the library that ranks load: memory apart from the C library's heap, which a handler must
/// not touch.
#[global_allocator]
static ALLOCATOR: rejoin_ckpt::Arena = rejoin_ckpt::Arena;

fn main() {
    if std::env::args().nth(1).as_deref() == Some("figures") {
        return figures::measure();
    }
    let groups = [
        basics::TESTS,
        calls::TESTS,
        waits::TESTS,
        edges::TESTS,
        state::TESTS,
        storms::TESTS,
        threads::TESTS,
        locks::TESTS,
        watch::TESTS,
    ];
    support::run(&groups.concat());
}
