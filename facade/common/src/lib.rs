//! What façades for other MPIs share: the way to the library, and the translation of arguments.
//!
//! A façade is a shared library with another MPI's name and binary interface. It implements
//! [`Facade`] for a type of its own, and exports functions that are generated from the standard's
//! tables and from its folder `abi/` (`cargo xtask codegen`). Each translates its arguments, calls
//! the library, and translates the results. Functions that no rule makes are here, generic over
//! the façade: the generator finds them by their names (`pub unsafe fn NAME<F: Facade>`, for
//! Fortran `fortran_NAME`) and exports them from each façade that has them.

#[cfg(not(all(target_pointer_width = "64", target_os = "linux")))]
compile_error!("façades are for 64-bit Linux: the layouts of the other MPIs are those there");

pub mod abi_types;
pub mod array_functions;
pub mod attributes;
pub mod bound_library;
pub mod callbacks;
pub mod data_representations;
pub mod export_macros;
pub mod facade_traits;
pub mod fortran_arguments;
pub mod fortran_arrays;
pub mod fortran_entries;
pub mod fortran_functions;
pub mod fortran_removed;
pub mod fortran_requests;
pub mod generated;
pub mod handle_kinds;
pub mod handle_places;
pub mod inquiries;
pub mod later_handles;
pub mod long_text;
pub mod neighbour_functions;
#[cfg(test)]
mod sample_facade;
pub mod status_copies;

pub use rejoin_fortran_arguments::callback_entries;

pub use facade_traits::{Facade, Integers, ProgramHandle, ProgramStatus, Sentinel};
