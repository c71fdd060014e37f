//! The application binary interface (MPI-5.0 chapter 20): its version, and handles as integers.

pub mod convert;
pub mod version;
