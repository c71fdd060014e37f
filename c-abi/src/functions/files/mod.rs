//! Files (MPI-5.0 chapter 14).

pub mod datareps;
pub mod manage;
pub mod pointers;
pub mod transfers;
pub mod views;
