//! Reduction operations (MPI-5.0 §6.9).
