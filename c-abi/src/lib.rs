//! The MPI-5.0 standard ABI as a shared library.
