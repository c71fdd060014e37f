//! Datatypes and the pack engine (MPI-5.0 chapter 5).
