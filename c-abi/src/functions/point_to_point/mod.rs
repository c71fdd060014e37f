//! Point-to-point communication (MPI-5.0 chapter 3).

pub mod buffer;
pub mod probe;
pub mod request;
pub mod request_many;
pub mod send;
pub mod sendrecv;
pub mod status;
