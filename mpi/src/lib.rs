//! MPI semantics over the device.
//!
//! [`Mpi`] is the state of a process; communicators, groups and datatypes are counted objects. The
//! C ABI above it has the handles, the device below it moves bytes.

pub mod adi;
pub mod attr;
pub mod big_lock;
pub mod check;
pub mod checkpointing;
pub mod coll;
pub mod comm;
pub mod datatype;
pub mod decide;
pub mod error;
pub mod file;
pub mod group;
pub mod info;
pub mod op;
pub mod p2p;
pub mod partitioned;
pub mod registered;
pub mod request;
pub mod runtime;
pub mod status;
pub mod topology;

pub use comm::Communicator;
pub use error::{Error, ErrorClass, Result};
pub use group::Group;
pub use info::{Info, MACHINE, MEMORY_KINDS};
pub use rejoin_device::Arena;
pub use runtime::Mpi;
pub use status::{Completed, Status};
