//! Groups, communicators, attributes and names (MPI-5.0 chapter 7).

pub mod access;
pub mod attr;
pub mod create;
pub mod group;
pub mod intercommunicators;
