//! The MPI-5.0 standard ABI as a shared library.
//!
//! `generated` holds the entry points (`cargo xtask codegen` writes them), `functions` the
//! implementations, one per pair of an int form and a large-count form. Between them, [`enter`]
//! checks the library's state, takes the lock when threads need it and sends errors to the error
//! handler.
//!
//! Each layer imports only those before it:
//!
//! 1. handles, counts and callbacks;
//! 2. error handlers and codes ([`errors`]);
//! 3. the library's objects ([`state`]);
//! 4. the delivery of errors and the abort ([`raise`], [`abort`]);
//! 5. [`enter`];
//! 6. the functions;
//! 7. the entry points.

#[cfg(not(target_pointer_width = "64"))]
compile_error!("the library is for 64-bit machines: handles and counts rely on it");

pub mod abort;
pub mod callback;
pub mod counts;
pub mod enter;
pub mod entry_call;
pub mod errors;
pub mod functions;
pub mod generated;
pub mod handles;
mod image;
pub mod library_state;
pub mod lock;
pub mod raise;
pub mod state;
pub mod support;

pub use generated::{constants, types};

/// The library's own heap, so that the C library's stays the program's alone.
#[cfg(not(miri))]
#[global_allocator]
static ALLOCATOR: rejoin_mpi::Arena = rejoin_mpi::Arena;
