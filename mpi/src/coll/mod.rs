//! Collective algorithms (MPI-5.0 chapter 6).
