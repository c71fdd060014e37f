//! Environmental management (MPI-5.0 chapter 9): versions, time, memory and errors.

pub mod errhandler;
pub mod error;
pub mod inquiry;
pub mod memory;
