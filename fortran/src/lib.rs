//! `libmpifort_abi.so.1`: Fortran on the MPI-5.0 standard ABI (chapters 19 and 20).
//!
//! Every function translates its arguments and calls the function of C. It calls nothing but the
//! standard ABI, and so runs over any library that has it. Most functions are generated from the
//! tables of `c-abi/abi` (`cargo xtask codegen`). An installation makes `mpif.h` and the modules
//! `mpi` and `mpi_f08` of the same tables; they hold interfaces only.
//!
//! A function has up to three forms: `mpi_send_` (`mpif.h` and the module `mpi`),
//! `mpi_comm_rank_f08_` (the module `mpi_f08`), and `mpi_send_f08ts_` (the same with choice
//! buffers, which come as C descriptors). Each has a profiling name. The forms `mpi_` call the
//! functions `MPI_` of C, so that a tool in C sees the calls of Fortran, too; the forms `pmpi_`
//! call `PMPI_`.

#[cfg(not(all(target_pointer_width = "64", target_os = "linux")))]
compile_error!("libmpifort_abi is for 64-bit Linux");

// Unit tests are linked without a library of C: they leave out what calls it.
#[cfg(not(test))]
mod compiler_facts;
#[cfg(not(test))]
mod compiler_probe;
#[cfg(not(test))]
mod fortran_attributes;
#[cfg(not(test))]
mod fortran_callbacks;
#[cfg(not(test))]
mod fortran_export;
#[cfg(not(test))]
mod fortran_handles;
#[cfg(not(test))]
mod generated;
#[cfg(not(test))]
mod late_handles;
#[cfg(not(test))]
mod logicals;
#[cfg(not(test))]
mod removed_functions;
#[cfg_attr(test, allow(dead_code))]
mod section_plan;
#[cfg(not(test))]
mod sections;
#[cfg(not(test))]
mod sentinels;
#[cfg(not(test))]
mod spawned_programs;
#[cfg(not(test))]
mod texts_of_unknown_length;
