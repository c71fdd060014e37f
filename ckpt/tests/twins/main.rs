//! Twins, from outside: processes are killed and brought back. `cargo test --release -p rejoin-ckpt
//! --test twins -- figures` measures what they cost. `image-figures` measures their files, and
//! `compression-figures` what compression makes of them, with the
//! restarter of an installation.

mod basics;
mod calls;
mod contents;
mod edges;
mod figures;
mod image_figures;
mod locks;
mod process_images;
mod signalled_threads;
mod state;
mod storms;
mod stuck_threads;
mod support;
mod thread_attributes;
mod thread_timers;
mod threads;
mod waits;
mod watch;
mod within;

/// As in the library that ranks load: memory apart from the C library's heap, which a handler must
/// not touch.
#[global_allocator]
static ALLOCATOR: rejoin_ckpt::Arena = rejoin_ckpt::Arena;

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("figures") => return figures::measure(),
        Some("image-figures") => return image_figures::measure(),
        Some("compression-figures") => return image_figures::measure_compression(),
        _ => {}
    }
    let groups = [
        basics::TESTS,
        calls::TESTS,
        waits::TESTS,
        edges::TESTS,
        state::TESTS,
        contents::TESTS,
        storms::TESTS,
        threads::TESTS,
        stuck_threads::TESTS,
        thread_attributes::TESTS,
        signalled_threads::TESTS,
        thread_timers::TESTS,
        locks::TESTS,
        watch::TESTS,
        process_images::TESTS,
        within::TESTS,
    ];
    support::run(&groups.concat());
}
