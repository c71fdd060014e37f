//! MPI semantics over the device.

pub mod coll;
pub mod datatype;
pub mod error;
pub mod op;

pub use error::{Error, ErrorClass, Result};
