//! Initialisation and finalisation, by the world model and by sessions (MPI-5.0 chapter 11).

pub mod init;
pub mod session;
