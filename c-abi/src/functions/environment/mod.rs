//! Environmental management (MPI-5.0 chapter 9): versions, time, memory and errors.

pub mod alloc_mem;
pub mod errhandler;
pub mod error;
pub mod inquiry;
