//! Datatypes and packing (MPI-5.0 chapter 5).

pub mod create;
pub mod objects;
pub mod pack;
pub mod query;
