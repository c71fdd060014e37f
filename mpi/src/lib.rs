//! MPI semantics over the device.
