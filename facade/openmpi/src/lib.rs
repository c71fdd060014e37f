//! `libmpi.so.40`: programs that were compiled against Open MPI 4.1 or 5.0 run on Rejoin unchanged.
//!
//! Functions of Fortran are in the same library: `libmpi_mpifh.so.40` is a link to it.
//!
//! Every function translates its arguments, calls the standard ABI, and translates the results.
//! Most are generated from the standard's tables and from `abi/`, which holds what Open MPI has
//! otherwise (`cargo xtask codegen`). By hand are callbacks, attributes, the integers of handles
//! for Fortran, and arrays whose length no parameter says.
//!
//! Open MPI's handles are pointers. Those of predefined objects point to data with known names,
//! whose first word here is the handle of the standard ABI. All others are Rejoin's own handles,
//! which are no addresses.

#[cfg(not(all(target_pointer_width = "64", target_os = "linux")))]
compile_error!("the façade is for 64-bit Linux: Open MPI's layout is that of this system");

mod array_functions;
mod attributes;
mod bound_library;
mod callbacks;
#[cfg(test)]
mod conversion_tests;
mod export_macros;
mod fortran_arguments;
mod fortran_entries;
mod generated;
mod handle_places;
mod inquiries;
mod integers;
mod known_objects;
mod long_text;
mod predefined_objects;
mod program_types;
mod status_copies;
