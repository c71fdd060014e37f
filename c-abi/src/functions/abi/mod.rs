//! The application binary interface (MPI-5.0 chapter 20): its version, handles as integers, and
//! what is known of Fortran.

pub mod convert;
pub mod fortran;
pub mod version;
