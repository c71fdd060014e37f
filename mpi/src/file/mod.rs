//! Files (MPI-5.0 chapter 14).
//!
//! [`MpiFile`] is a file that the ranks of a communicator have opened together. The layers below
//! it: `file_view` says which bytes of the file an access means, `stream` which bytes of the
//! program's memory; `independent` accesses them for one rank, `two_phase` for all ranks together,
//! in the parts of `domains`; `storage` alone changes files. `undo` records what is changed, and
//! undoes it after a rollback. `agreement` makes collective calls fail on all ranks or on none.
//!
//! Nothing is cached: what a call has written, the next call of any rank reads (as far as the file
//! system is one for all hosts).

mod access_mode;
mod accesses;
mod agreement;
mod data_representation;
mod domains;
mod file_view;
mod hints;
mod independent;
mod mpi_file;
mod opening;
mod range_lock;
mod settings;
mod shared_pointer;
mod storage;
mod stream;
mod system_failure;
#[cfg(test)]
mod tests;
mod two_phase;
mod undo;

pub use access_mode::{AccessMode, FileDirection, FilePosition};
pub use data_representation::DataRepresentation;
pub use file_view::ViewArguments;
pub use mpi_file::MpiFile;
pub use opening::{close, delete, open};
pub use settings::SeekFrom;
